//! Giving up the oldest records.

use narad_core::ids::{ByteCount, Offset};

use super::side::{self, Segments};
use super::{LogError, Segment, SegmentLog, View, lock};
use crate::disk;

/// How much of a log is kept. Whole segments are given up, and never a hidden record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Most bytes that are kept, counted in whole segments; `None` for no limit.
    pub bytes_max: Option<ByteCount>,
    /// Most milliseconds that a record is kept after its timestamp; `None` for no limit.
    pub age_ms_max: Option<i64>,
}

/// What retention has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// First offset that is kept.
    pub start: Offset,
    /// Segments that were removed.
    pub segments: usize,
    /// Bytes that were freed.
    pub bytes: ByteCount,
}

impl SegmentLog {
    pub(crate) fn drop_old(&self, keep: &Retention, now_ms: i64) -> Result<Retained, LogError> {
        let mut writer = lock(&self.writer);
        self.check_open()?;
        writer.check()?;
        if self.all_expired(keep, now_ms)? {
            // An aged-out log keeps its place: an empty segment at its end (`case_039`).
            self.roll(&mut writer)?;
        }
        let modified = self.modified_times(keep)?;
        let count = self.view().expired(keep, now_ms, &modified);
        self.drop_first(count)
    }

    /// Removes the segments all of whose records are before an offset; the growing one stays.
    pub(crate) fn drop_before(&self, offset: Offset) -> Result<Retained, LogError> {
        if self.view().sealed_before(offset) == 0 {
            // An append under way need not be waited for.
            let start = self.view().start();
            return Ok(Retained { start, segments: 0, bytes: ByteCount(0) });
        }
        let writer = lock(&self.writer);
        self.check_open()?;
        writer.check()?;
        let count = self.view().sealed_before(offset);
        self.drop_first(count)
    }

    /// Removes so many segments at the beginning; the caller holds the writer's lock.
    fn drop_first(&self, count: usize) -> Result<Retained, LogError> {
        let segments_file = {
            let view = self.view();
            let growing = view.segments.len() - 1;
            view.describe(view.segments[count].base, &view.segments[count..growing])
        };
        if count == 0 {
            let (start, bytes) = (segments_file.start, ByteCount(0));
            return Ok(Retained { start, segments: 0, bytes });
        }
        // The new start is durable before anything is removed, so that a crash in between leaves
        // files that recovery knows to be left-overs, not a hole.
        let path = Segments::path(&self.dir);
        disk::write_atomically(&*self.disk, &path, &segments_file.encode())?;
        let dropped: Vec<Segment> = {
            let mut view = self.view();
            view.opened = None;
            view.segments.drain(..count).collect()
        };
        for segment in &dropped {
            side::remove_if_present(&*self.disk, &side::segment_path(&self.dir, segment.base))?;
        }
        self.disk.sync_dir(&self.dir)?;
        let bytes = ByteCount(dropped.iter().map(|segment| segment.bytes).sum());
        Ok(Retained { start: segments_file.start, segments: count, bytes })
    }

    /// Whether even the growing segment is past its age.
    fn all_expired(&self, keep: &Retention, now_ms: i64) -> Result<bool, LogError> {
        let Some(age_ms_max) = keep.age_ms_max else { return Ok(false) };
        let (base, newest_ms) = {
            let view = self.view();
            let visible = |last: &&Segment| last.end > last.base && last.end <= view.hwm;
            let Some(last) = view.segments.last().filter(visible) else { return Ok(false) };
            (last.base, last.newest_ms)
        };
        Ok(now_ms.saturating_sub(self.born_ms(base, newest_ms)?) > age_ms_max)
    }

    /// Looks up how old the sealed segments are, without the view's lock.
    fn modified_times(&self, keep: &Retention) -> Result<Vec<i64>, LogError> {
        if keep.age_ms_max.is_none() {
            return Ok(Vec::new());
        }
        let segments: Vec<_> = {
            let view = self.view();
            view.segments.iter().map(|segment| (segment.base, segment.newest_ms)).collect()
        };
        segments.into_iter().map(|(base, newest_ms)| self.born_ms(base, newest_ms)).collect()
    }

    /// Returns the time from which a segment's age counts: its newest record's, which a copy carries
    /// along (`case_041`), but never later than the file's last change, or a clock that ran ahead
    /// would keep it for ever.
    fn born_ms(&self, base: Offset, newest_ms: Option<i64>) -> Result<i64, LogError> {
        let found = self.disk.metadata(&side::segment_path(&self.dir, base))?;
        let modified_ms = found.map_or(i64::MIN, |found| found.modified_ms);
        Ok(newest_ms.map_or(modified_ms, |newest_ms| newest_ms.min(modified_ms)))
    }
}

impl View {
    /// Counts the sealed segments that end at or before an offset.
    fn sealed_before(&self, offset: Offset) -> usize {
        let sealed = self.segments.len() - 1;
        self.segments[..sealed].partition_point(|segment| segment.end <= offset)
    }

    /// Counts the segments that may go; the growing one never does.
    fn expired(&self, keep: &Retention, now_ms: i64, newest_ms: &[i64]) -> usize {
        let mut bytes: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        let sealed = self.segments.len() - 1;
        let expired = |(at, segment): &(usize, &Segment)| {
            let too_many = keep.bytes_max.is_some_and(|max| bytes > max.0);
            let too_old =
                keep.age_ms_max.zip(newest_ms.get(*at)).is_some_and(|(age_ms_max, newest_ms)| {
                    now_ms.saturating_sub(*newest_ms) > age_ms_max
                });
            bytes -= segment.bytes;
            (too_many || too_old) && segment.end <= self.hwm
        };
        self.segments[..sealed].iter().enumerate().take_while(expired).count()
    }
}
