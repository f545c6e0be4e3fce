//! Looking at a log's directory without changing anything in it.

use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use narad_core::ids::{Epoch, Offset};
use narad_core::partition::Position;

use super::check::{Checker, Damage};
use super::frame::{FILE_HEADER, FRAME_HEADER, FrameHeader};
use super::recover::{Bases, Ending, consumers, ending};
use super::side::{self, Segments, Stand};
use super::{LogError, Record};
use crate::disk::{self, Disk, DiskError};

/// What a directory holds, as opening the log in it would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// First offset that is kept.
    pub start: Offset,
    /// First offset for which nothing on the disk proves that consumers have seen it. The owner of
    /// the log may have shown more since its last append.
    pub hwm: Offset,
    /// The next offset that would be given.
    pub end: Offset,
    /// Highest epoch that a frame carries.
    pub epoch: Epoch,
    /// Where consumers stand, as far as it is on the disk.
    pub position: Position,
    /// Ranges above it that are not needed either; of an ingress log only.
    pub spent: Vec<Range<Offset>>,
    /// Every record that can be read, ascending; between two of them some may be missing.
    pub records: Vec<(Offset, Record)>,
    /// Places that are not what was once written there, and ends of segments that are followed by
    /// another which begins later. In a growing copy such ends are in order: its extents are copied
    /// side by side.
    pub damage: Vec<Damage>,
    /// Bytes of a torn last append, which opening the log would cut off.
    pub torn_bytes: u64,
}

/// Looks at a log, a growing copy or what was set aside, and changes nothing: neither is anything cut
/// nor does the [generation](narad_core::ids::LogGeneration) grow. Every byte is read and checked, one
/// segment in memory at a time; that is for tools, tests and simulations rather than for a start.
///
/// Of a log that is open at the same time it shows what is written, durable or not.
///
/// # Errors
///
/// [`LogError::NoSegments`] if there is none, [`LogError::Overlap`] if two segments give the same
/// offset, and whatever makes a file unreadable as a whole.
///
/// # Examples
///
/// An append that was not exposed is there, and hidden:
///
/// ```
/// use narad_core::ids::{Epoch, Offset};
/// use narad_runtime::disk::MemDisk;
/// use narad_runtime::log::{LogLimits, Record, SegmentLog, scan};
/// use narad_runtime::store::PartitionLog;
/// use std::{path::Path, sync::Arc};
///
/// let disk = Arc::new(MemDisk::new());
/// let dir = Path::new("log");
/// SegmentLog::create(&*disk, dir, Offset(0))?;
/// let log = SegmentLog::open(disk.clone(), dir, LogLimits::default())?;
/// log.append(&[Record { value: "hello".into(), ..Record::default() }], Epoch(1))?;
///
/// let found = scan(&*disk, dir)?;
/// assert_eq!((found.hwm, found.end), (Offset(0), Offset(1)));
/// assert_eq!(found.records[0].1.value, "hello");
/// # Ok::<(), narad_runtime::log::LogError>(())
/// ```
pub fn scan(disk: &dyn Disk, dir: &Path) -> Result<Scan, LogError> {
    let mut records = Vec::new();
    let mut found = scan_each(disk, dir, |segment| {
        records.extend(segment);
        Ok::<_, LogError>(())
    })?;
    found.records = records;
    Ok(found)
}

/// Like [`scan`], but hands out the records of one segment after the other and keeps none, so that a
/// long log takes no more memory than its longest segment. What is returned at the end has no records.
///
/// # Errors
///
/// As [`scan`], and whatever `each` returns.
pub fn scan_each<E: From<LogError>>(
    disk: &dyn Disk,
    dir: &Path,
    mut each: impl FnMut(Vec<(Offset, Record)>) -> Result<(), E>,
) -> Result<Scan, E> {
    let listed = Segments::load(disk, dir)?;
    let bases = Bases::find(disk, dir, listed.as_ref())?.kept;
    let (Stand { position, spent }, seen) = consumers(disk, dir)?;
    let start = *bases.first().ok_or_else(|| LogError::NoSegments { dir: dir.to_path_buf() })?;
    let mut found = Scan {
        start,
        hwm: listed.as_ref().map_or(start, |listed| listed.hwm.max(start)).max(seen),
        end: start,
        epoch: listed.as_ref().map_or(Epoch(0), |listed| listed.epoch),
        position,
        spent,
        records: Vec::new(),
        damage: Vec::new(),
        torn_bytes: 0,
    };
    for (at, &base) in bases.iter().enumerate() {
        let bytes = read(disk, dir, base).map_err(LogError::from)?;
        let mut checker = Checker::new(base);
        checker.feed(&bytes);
        found.hwm = found.hwm.max(checker.hwm());
        found.epoch = found.epoch.max(checker.epoch());
        match bases.get(at + 1) {
            Some(&next) => found.take_sealed(checker, &bytes, next, dir)?,
            None => found.take_last(checker, &bytes, disk, dir)?,
        }
        each(std::mem::take(&mut found.records))?;
    }
    // Offsets that were given once are never given again, though their records are gone.
    let listed_end = listed.iter().flat_map(|listed| &listed.sealed).map(|one| one.end).max();
    found.end = found.end.max(found.hwm).max(listed_end.unwrap_or_default());
    Ok(found)
}

impl Scan {
    fn take_sealed(
        &mut self,
        checker: Checker,
        bytes: &Bytes,
        next: Offset,
        dir: &Path,
    ) -> Result<(), LogError> {
        self.damage.extend_from_slice(checker.damage());
        match checker.torn() {
            Some(torn) => self.damage.push(torn),
            None if checker.end() > next => {
                let (dir, end) = (dir.to_path_buf(), checker.end());
                return Err(LogError::Overlap { dir, base: next, end });
            }
            None if checker.end() < next => {
                let (segment, position) = (checker.segment(), checker.fed());
                self.damage.push(Damage { segment, offset: checker.end(), position });
            }
            None => {}
        }
        self.take_records(checker.segment(), bytes);
        Ok(())
    }

    fn take_last(
        &mut self,
        checker: Checker,
        bytes: &Bytes,
        disk: &dyn Disk,
        dir: &Path,
    ) -> Result<(), LogError> {
        let (base, fed) = (checker.segment(), checker.fed());
        let (kept, end) = match ending(disk, dir, &checker)? {
            Ending::Whole => (checker, None),
            Ending::Torn { kept, .. } => (*kept, None),
            Ending::Damaged { next } => {
                self.damage.extend(checker.torn());
                (checker, Some(next))
            }
        };
        self.damage.extend_from_slice(kept.damage());
        self.torn_bytes = fed.saturating_sub(kept.fed());
        self.end = end.unwrap_or(kept.end());
        let whole = usize::try_from(kept.fed()).map_or(bytes.len(), |kept| kept.min(bytes.len()));
        self.take_records(base, &bytes.slice(..whole));
        Ok(())
    }

    /// Takes the records of every frame that the [check](Checker) takes for one.
    fn take_records(&mut self, segment: Offset, bytes: &Bytes) {
        let mut at = FILE_HEADER;
        let mut next = segment;
        let mut doubt = false;
        while let Some(header) = bytes.get(at..at + FRAME_HEADER) {
            let header = header.try_into().expect("a slice of that length");
            let header = FrameHeader::decode(segment, at as u64, header)
                .filter(|header| header.base == next || (doubt && header.base > next));
            let Some(header) = header else {
                doubt = true;
                at += 1;
                continue;
            };
            doubt &= !header.begins_append;
            let begin = at + FRAME_HEADER;
            let end = begin + header.payload_bytes as usize;
            if end > bytes.len() {
                return;
            }
            let payload = bytes.slice(begin..end);
            if crc32c::crc32c(&payload) == header.payload_checksum {
                self.take_frame(&header, payload);
            } else {
                doubt = true;
            }
            next = header.end();
            at = end;
        }
    }

    fn take_frame(&mut self, header: &FrameHeader, mut payload: Bytes) {
        let mut offset = header.base;
        while offset < header.end() {
            // A payload whose checksum is right was written by somebody who knew better.
            let Ok(record) = Record::decode(&mut payload) else { return };
            self.records.push((offset, record));
            offset = offset.next();
        }
    }
}

fn read(disk: &dyn Disk, dir: &Path, base: Offset) -> Result<Bytes, DiskError> {
    let path = side::segment_path(dir, base);
    let found = disk::read_whole(disk, &path, u64::MAX)?;
    found.map(Bytes::from).ok_or(DiskError::NotFound { action: "read", path })
}
