//! Segments whose bytes are not what was appended, described by what they are now.
//!
//! A copy is judged by what its source says of its segments. A source that goes on saying what a
//! damaged segment once was is never copied: that is how the damage is found (field fault 13). Once an
//! operator has given the damaged records up it has nothing to say any more, and the segment moves as it
//! is (`case_048`): its frames are as damaged at the destination, and are told of there.

use std::ops::Range;

use narad_core::ids::Offset;
use narad_core::partition::Checksum;

use super::join::join;
use super::side::Segments;
use super::{LogError, SegmentLog, View, check_segment, lock};
use crate::disk::{self, DiskError};

/// A segment whose first bytes have another checksum than they had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Altered {
    /// Base offset of the segment.
    pub base: Offset,
    /// Offset after its last record that was durable then.
    pub end: Offset,
    /// How many of its bytes were read: as many as were durable.
    pub bytes: u64,
    /// Of the bytes that were appended.
    pub was: Checksum,
    /// Of the bytes that are there.
    pub is: Checksum,
}

impl SegmentLog {
    /// Reads the segments that have some of these offsets; returns those that were altered. One that has
    /// become shorter is not among them: what it lacks cannot be sent.
    pub(crate) fn find_altered(&self, offsets: &Range<Offset>) -> Result<Vec<Altered>, LogError> {
        self.check_open()?;
        let known: Vec<_> = {
            let view = self.view();
            let has_some =
                |one: &&super::Segment| one.base < offsets.end && offsets.start < one.end;
            let some = view.segments.iter().filter(has_some);
            some.map(|one| (one.base, one.end, one.bytes, one.checksum)).collect()
        };
        let mut altered = Vec::new();
        for (base, end, bytes, was) in known {
            let found = match check_segment(&*self.disk, &self.dir, base, bytes) {
                Ok(found) => found,
                // Retention has removed it.
                Err(DiskError::NotFound { .. }) => continue,
                Err(failed) => return Err(failed.into()),
            };
            let is = found.checksum();
            if found.fed() == bytes && is != was {
                altered.push(Altered { base, end, bytes, was, is });
            }
        }
        Ok(altered)
    }

    /// Says from now on what these segments are, durably. What was appended to one since it was read
    /// counts as well.
    pub(crate) fn describe_anew(&self, altered: &[Altered]) -> Result<(), LogError> {
        let mut writer = lock(&self.writer);
        self.check_open()?;
        writer.check()?;
        let (checksums, segments) = {
            let view = self.view();
            let checksums = view.checksums_of(altered);
            let growing = view.segments.len() - 1;
            let mut segments = view.describe(view.start(), &view.segments[..growing]);
            for sealed in &mut segments.sealed {
                let new = checksums.iter().find(|(base, _)| *base == sealed.base);
                sealed.checksum = new.map_or(sealed.checksum, |(_, checksum)| *checksum);
            }
            (checksums, segments)
        };
        // A growing segment is read again when the log is opened; the others are what the file says.
        disk::write_atomically(&*self.disk, &Segments::path(&self.dir), &segments.encode())?;
        let mut view = self.view();
        for (base, checksum) in checksums {
            if let Some(segment) = view.segment_mut(base) {
                segment.checksum = checksum;
            }
            writer.go_on_from(base, checksum);
        }
        Ok(())
    }
}

impl View {
    /// Returns what the checksums of altered segments are by now.
    ///
    /// A checksum is linear: what the first bytes differ by, moved over those behind them, is what the
    /// whole differs by.
    fn checksums_of(&self, altered: &[Altered]) -> Vec<(Offset, Checksum)> {
        let now = |one: &Altered| {
            let segment = self.segment(one.base)?;
            let behind = segment.bytes.checked_sub(one.bytes)?;
            // It was described anew already.
            if behind == 0 && segment.checksum != one.was {
                return None;
            }
            let checksum = join(one.was.0 ^ one.is.0, segment.checksum.0, behind);
            Some((one.base, Checksum(checksum)))
        };
        altered.iter().filter_map(now).collect()
    }
}
