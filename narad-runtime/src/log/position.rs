//! Where the consumers of one partition stand.

use std::sync::Mutex;

use narad_core::ids::Offset;
use narad_core::partition::Position;

use super::{LogError, SegmentLog, lock, side};
use crate::disk;

/// The position in memory, and whether the disk knows it.
#[derive(Debug)]
pub(super) struct Positions {
    now: Mutex<(Position, bool)>,
    /// Held across a write, so that an older position never replaces a newer one; acks do not wait
    /// for it.
    flush: Mutex<()>,
}

impl Positions {
    pub(super) fn new(position: Position) -> Self {
        Self { now: Mutex::new((position, false)), flush: Mutex::new(()) }
    }
}

impl SegmentLog {
    pub(crate) fn position_now(&self) -> Position {
        lock(&self.positions.now).0.clone()
    }

    pub(crate) fn replace_position(&self, position: Position) -> Result<(), LogError> {
        check(&position, self.bounds_now().hwm)?;
        let _flush = lock(&self.positions.flush);
        self.check_open()?;
        *lock(&self.positions.now) = (position, true);
        self.write_position()
    }

    pub(crate) fn acknowledge(&self, offset: Offset) -> Result<Position, LogError> {
        self.check_open()?;
        let bounds = self.bounds_now();
        if offset >= bounds.hwm {
            return Err(LogError::AheadOfHwm { asked: offset, hwm: bounds.hwm });
        }
        let mut now = lock(&self.positions.now);
        let (position, changed) = &mut *now;
        // What retention has removed needs no acknowledgement.
        pass_removed(position, bounds.start);
        let frontier = position.committed.unwrap_or(bounds.start).max(bounds.start);
        if offset < frontier {
            return Ok(position.clone());
        }
        match position.acked_ahead.binary_search(&offset) {
            Ok(_) => return Ok(position.clone()),
            Err(_) if offset == frontier => position.committed = Some(offset.next()),
            Err(_) if position.acked_ahead.len() >= Position::ACKED_AHEAD_MAX => {
                return Err(LogError::AckedAheadFull { max: Position::ACKED_AHEAD_MAX, frontier });
            }
            Err(at) => position.acked_ahead.insert(at, offset),
        }
        position.advance();
        *changed = true;
        Ok(position.clone())
    }

    pub(crate) fn acknowledge_up_to(&self, end: Offset) -> Result<Position, LogError> {
        self.check_open()?;
        let bounds = self.bounds_now();
        if end > bounds.hwm {
            return Err(LogError::AheadOfHwm { asked: end, hwm: bounds.hwm });
        }
        let mut now = lock(&self.positions.now);
        let (position, changed) = &mut *now;
        if position.committed.is_none_or(|committed| committed < end) {
            position.committed = Some(end);
            position.acked_ahead.retain(|acked| *acked >= end);
            position.advance();
            *changed = true;
        }
        Ok(position.clone())
    }

    pub(crate) fn flush_positions(&self) -> Result<(), LogError> {
        let _flush = lock(&self.positions.flush);
        // A handle of an earlier ownership must not write into what took its place (`case_032`).
        self.check_open()?;
        self.write_position()
    }

    /// Writes the position for the last time; the log is closed already.
    pub(super) fn flush_at_close(&self) -> Result<(), LogError> {
        let _flush = lock(&self.positions.flush);
        self.write_position()
    }

    /// Writes the position if it has changed; the caller holds the flush lock.
    fn write_position(&self) -> Result<(), LogError> {
        let position = {
            let mut now = lock(&self.positions.now);
            if !std::mem::replace(&mut now.1, false) {
                return Ok(());
            }
            now.0.clone()
        };
        let path = side::position_path(&self.dir);
        let written = disk::write_atomically(&*self.disk, &path, &side::encode_position(&position));
        if written.is_err() {
            lock(&self.positions.now).1 = true;
        }
        Ok(written?)
    }
}

/// Moves the frontier past what retention has removed, through what was acknowledged ahead. A
/// position of which nothing was ever acknowledged stays none.
fn pass_removed(position: &mut Position, start: Offset) {
    let is_behind = position.committed.is_none_or(|committed| committed < start);
    if is_behind && (position.committed.is_some() || !position.acked_ahead.is_empty()) {
        position.committed = Some(start);
        position.acked_ahead.retain(|acked| *acked >= start);
        position.advance();
    }
}

fn check(position: &Position, hwm: Offset) -> Result<(), LogError> {
    let refuse = |why| Err(LogError::Position { why });
    let floor = position.committed.unwrap_or_default();
    if floor > hwm {
        return refuse("the committed offset is above the high watermark");
    }
    if position.acked_ahead.len() > Position::ACKED_AHEAD_MAX {
        return refuse("too many records are acknowledged ahead");
    }
    if !position.acked_ahead.is_sorted_by(|a, b| a < b) {
        return refuse("the acked-ahead set is not ascending");
    }
    let bounds = position.acked_ahead.first().zip(position.acked_ahead.last());
    if bounds.is_some_and(|(&first, &last)| first < floor || last >= hwm) {
        return refuse(
            "the acked-ahead set is not between the committed offset and the high watermark",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_moves_through_what_was_acknowledged_ahead() {
        let mut position =
            Position { committed: Some(Offset(3)), acked_ahead: [3, 4, 6].map(Offset).to_vec() };
        position.advance();
        assert_eq!(position.committed, Some(Offset(5)));
        assert_eq!(position.acked_ahead, [Offset(6)]);
    }

    /// Retention removed what was missing: the records behind it need not be asked for again.
    #[test]
    fn the_frontier_moves_past_what_retention_has_removed() {
        let acked_ahead = [2, 5, 6, 9].map(Offset).to_vec();
        let mut position = Position { committed: Some(Offset(1)), acked_ahead };
        pass_removed(&mut position, Offset(5));
        assert_eq!(position.committed, Some(Offset(7)));
        assert_eq!(position.acked_ahead, [Offset(9)]);

        let mut untouched = Position::default();
        pass_removed(&mut untouched, Offset(5));
        assert_eq!(untouched, Position::default(), "nobody has consumed anything");
    }

    /// `case_065`, `case_067`: nothing at or past the high watermark counts as acknowledged.
    #[test]
    fn a_position_past_the_high_watermark_is_refused() {
        let position = |committed: u64, ahead: &[u64]| Position {
            committed: Some(Offset(committed)),
            acked_ahead: ahead.iter().copied().map(Offset).collect(),
        };
        let hwm = Offset(10);
        assert!(check(&position(10, &[]), hwm).is_ok());
        assert!(check(&position(5, &[7, 9]), hwm).is_ok());
        for wrong in
            [position(11, &[]), position(5, &[10]), position(5, &[4]), position(5, &[8, 7])]
        {
            assert!(check(&wrong, hwm).is_err(), "{wrong:?}");
        }
    }
}
