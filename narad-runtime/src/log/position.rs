//! Where the consumers of one partition stand.

use std::sync::Mutex;

use narad_core::ids::Offset;
use narad_core::partition::Position;

use super::side::{self, Stand};
use super::{LogError, SegmentLog, lock};
use crate::disk;

/// The position that the disk knows.
#[derive(Debug)]
pub(super) struct Positions {
    stored: Mutex<Stand>,
    /// Held across a write, so that an older position never replaces a newer one.
    storing: Mutex<()>,
}

impl Positions {
    pub(super) fn new(stand: Stand) -> Self {
        Self { stored: Mutex::new(stand), storing: Mutex::default() }
    }
}

impl SegmentLog {
    pub(crate) fn position_now(&self) -> Position {
        lock(&self.positions.stored).position.clone()
    }

    pub(crate) fn stand_now(&self) -> Stand {
        lock(&self.positions.stored).clone()
    }

    pub(crate) fn store_position(&self, position: Position) -> Result<(), LogError> {
        self.store_stand(Stand { position, spent: Vec::new() })
    }

    pub(crate) fn store_stand(&self, stand: Stand) -> Result<(), LogError> {
        let hwm = self.bounds_now().hwm;
        check(&stand.position, hwm)?;
        if !stand.has_sound_ranges() || stand.end() > hwm {
            let why = "the ranges are not between the committed offset and the high watermark";
            return Err(LogError::Position { why });
        }
        let _storing = lock(&self.positions.storing);
        // A handle of an earlier ownership must not write into what took its place (`case_032`).
        self.check_open()?;
        let path = side::position_path(&self.dir);
        disk::write_atomically(&*self.disk, &path, &stand.encode())?;
        *lock(&self.positions.stored) = stand;
        Ok(())
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
