//! Reading records back, around whatever is damaged.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use narad_core::ids::Offset;
use narad_core::planted::{Bug, is_planted};

use super::frame::{FILE_HEADER, FRAME_HEADER, FrameHeader};
use super::{LogError, Record, SegmentLog};
use crate::disk::DiskFile;

/// Largest piece in which a segment is walked, in bytes.
const WINDOW_MAX: usize = 128 << 10;
/// Smallest one. Pieces grow as a walk goes on, so that a small read costs little and a long one few
/// calls.
const WINDOW_MIN: usize = 4 << 10;

/// How far a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upto {
    /// Consumers: below the high watermark.
    Hwm,
    /// Salvage: everything durable.
    End,
}

/// The durable part of one segment, as it was when a read began.
struct Reach {
    base: Offset,
    end: Offset,
    bytes: u64,
    /// Where to begin walking.
    from: u64,
}

impl SegmentLog {
    pub(crate) fn read_records(
        &self,
        from: Offset,
        bytes_max: usize,
        upto: Upto,
    ) -> Result<Vec<(Offset, Record)>, LogError> {
        self.check_open()?;
        let mut records = Vec::new();
        let mut bytes = 0;
        let mut next = from;
        let limit = self.limit(from, upto)?;
        while next < limit && bytes < bytes_max {
            let reach = match self.reach(next) {
                Ok(reach) => reach,
                // What was found so far is good; the next read meets the error.
                Err(_) if !records.is_empty() => break,
                Err(error) => return Err(error),
            };
            let until = reach.end.min(limit);
            let mut take = |offset, record: Record| {
                let size = record.encoded_bytes();
                if !records.is_empty() && bytes + size > bytes_max {
                    bytes = bytes_max;
                    return false;
                }
                bytes += size;
                records.push((offset, record));
                true
            };
            match self.walk(&reach, next..until, bytes_max, &mut take) {
                Ok(()) => next = until,
                Err(_) if !records.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(records)
    }

    fn limit(&self, from: Offset, upto: Upto) -> Result<Offset, LogError> {
        let bounds = self.bounds_now();
        let limit = match upto {
            Upto::Hwm if is_planted(Bug::ReadsPastHwm) => bounds.end,
            Upto::Hwm => bounds.hwm,
            Upto::End => bounds.end,
        };
        if from < bounds.start {
            return Err(LogError::BelowStart { asked: from, start: bounds.start });
        }
        if from > limit {
            return Err(LogError::AheadOfHwm { asked: from, hwm: limit });
        }
        Ok(limit)
    }

    /// Finds the segment that holds an offset.
    fn reach(&self, offset: Offset) -> Result<Reach, LogError> {
        let view = self.view();
        let after = view.segments.partition_point(|segment| segment.base <= offset);
        let below = LogError::BelowStart { asked: offset, start: view.start() };
        let Some(segment) = after.checked_sub(1).and_then(|at| view.segments.get(at)) else {
            return Err(below);
        };
        if offset >= segment.end {
            let resume = view.segments.get(after).map_or(view.end(), |next| next.base);
            let (segment, position) = (segment.base, segment.bytes);
            return Err(LogError::Damaged { segment, position, resume });
        }
        let anchor = segment.index.floor(offset);
        let spot = view.spots.floor(segment.base, offset);
        Ok(Reach {
            base: segment.base,
            end: segment.end,
            bytes: segment.bytes,
            from: anchor.max(spot).unwrap_or(FILE_HEADER as u64),
        })
    }

    /// Hands over the records of a range in one segment, until `take` has enough.
    fn walk(
        &self,
        reach: &Reach,
        range: Range<Offset>,
        bytes_max: usize,
        take: &mut dyn FnMut(Offset, Record) -> bool,
    ) -> Result<(), LogError> {
        let Range { start: from, end: until } = range;
        let below = || LogError::BelowStart { asked: from, start: self.view().start() };
        let file = self.open_segment(reach.base)?.ok_or_else(below)?;
        let mut window = Window::new(file, reach.bytes, bytes_max);
        let mut position = reach.from;
        let mut next = None;
        loop {
            let damaged = |resume| LogError::Damaged { segment: reach.base, position, resume };
            let least = next.unwrap_or(reach.base);
            let found = self.next_frame(&mut window, reach, position, least)?;
            let Some((at, header)) = found else {
                // Nothing but damage to the end of the segment.
                return Err(damaged(reach.end));
            };
            // Nothing that begins later can be the first frame: it would have the wanted record.
            let expected = next.unwrap_or(header.base.min(from));
            if (at != position || header.base != expected) && header.base > from {
                return Err(damaged(header.base));
            }
            position = at + header.frame_bytes();
            next = Some(header.end());
            if header.end() <= from {
                if header.end() >= until {
                    return Ok(());
                }
                continue;
            }
            let frame = Frame { at, header };
            let wants_more = frame.take(&mut window, reach.base, &range, take)?;
            if !wants_more || header.end() >= until {
                let within = !wants_more || header.end() > until;
                let (base, at) = if within { (header.base, at) } else { (header.end(), position) };
                self.view().spots.note(reach.base, base, at);
                return Ok(());
            }
        }
    }

    /// Finds the first frame at or after a position that begins no earlier than an offset, and
    /// remembers it.
    fn next_frame(
        &self,
        window: &mut Window,
        reach: &Reach,
        position: u64,
        least: Offset,
    ) -> Result<Option<(u64, FrameHeader)>, LogError> {
        for at in position..reach.bytes.saturating_sub(FRAME_HEADER as u64 - 1) {
            let Some(bytes) = window.read(at, FRAME_HEADER)? else { return Ok(None) };
            let bytes = bytes[..].try_into().expect("a window gives what was asked for");
            // One that goes back or reaches beyond the segment's end is none that recovery has taken
            // for a frame.
            let header = FrameHeader::decode(reach.base, at, bytes)
                .filter(|header| least <= header.base && header.end() <= reach.end);
            if let Some(header) = header {
                if let Some(segment) = self.view().segment_mut(reach.base) {
                    segment.index.note(header.base, at);
                }
                return Ok(Some((at, header)));
            }
        }
        Ok(None)
    }
}

struct Frame {
    at: u64,
    header: FrameHeader,
}

impl Frame {
    /// Hands over the records of a range, until `take` has enough; returns whether it wants more.
    fn take(
        &self,
        window: &mut Window,
        segment: Offset,
        range: &Range<Offset>,
        take: &mut dyn FnMut(Offset, Record) -> bool,
    ) -> Result<bool, LogError> {
        let Self { at, header } = self;
        let damaged = || LogError::Damaged { segment, position: *at, resume: header.end() };
        let payload = window.read(at + FRAME_HEADER as u64, header.payload_bytes as usize)?;
        let mut payload = payload.ok_or_else(damaged)?;
        if crc32c::crc32c(&payload) != header.payload_checksum {
            return Err(damaged());
        }
        let mut offset = header.base;
        while offset < header.end().min(range.end) {
            let record = Record::decode(&mut payload).map_err(|_| damaged())?;
            if offset >= range.start && !take(offset, record) {
                return Ok(false);
            }
            offset = offset.next();
        }
        Ok(true)
    }
}

/// A piece of a file that moves along with a walk.
struct Window {
    file: Arc<dyn DiskFile>,
    /// Durable length; nothing beyond is read.
    limit: u64,
    start: u64,
    bytes: Bytes,
    /// Length of the next piece.
    piece: usize,
}

impl Window {
    fn new(file: Arc<dyn DiskFile>, limit: u64, bytes_max: usize) -> Self {
        let piece = bytes_max.saturating_add(FRAME_HEADER).clamp(WINDOW_MIN, WINDOW_MAX);
        Self { file, limit, start: 0, bytes: Bytes::new(), piece }
    }

    /// Returns `length` bytes at a position, or `None` if the file does not have them.
    fn read(&mut self, position: u64, length: usize) -> Result<Option<Bytes>, LogError> {
        if let Some(found) = self.cut(position, length) {
            return Ok(Some(found));
        }
        let left = self.limit.saturating_sub(position);
        if left < length as u64 {
            return Ok(None);
        }
        let want = length.max(self.piece).min(usize::try_from(left).unwrap_or(usize::MAX));
        self.piece = (2 * self.piece).min(WINDOW_MAX);
        let mut bytes = vec![0; want];
        let read = self.file.read_at(position, &mut bytes)?;
        bytes.truncate(read);
        self.bytes = Bytes::from(bytes);
        self.start = position;
        Ok(self.cut(position, length))
    }

    fn cut(&self, position: u64, length: usize) -> Option<Bytes> {
        let from = usize::try_from(position.checked_sub(self.start)?).ok()?;
        let to = from.checked_add(length)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }
}
