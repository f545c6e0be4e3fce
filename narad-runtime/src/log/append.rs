//! The one writer of a log: frames, syncs, rolls.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use narad_core::ids::{Epoch, Offset};
use narad_core::partition::Checksum;
use narad_core::planted::{Bug, is_planted};

use super::frame::{FILE_HEADER, FRAME_HEADER, FrameHeader, Kind, PAYLOAD_MAX};
use super::index::SparseIndex;
use super::side::{self, Sealed, Segments};
use super::{LogError, Record, Segment, SegmentLog, View, create_segment, lock};
use crate::disk::{self, DiskError, DiskFile};

/// Payload length at which a frame is full, in bytes. Larger saves headers; smaller lets a reader of
/// one record decode less around it.
const PAYLOAD_TARGET: usize = 256 << 10;

/// Where an append has put its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset after the last record; what [`expose`](crate::store::PartitionLog::expose) takes
    /// once the gate has let the commit pass.
    pub end: Offset,
}

/// The growing end of the log.
#[derive(Debug)]
pub(super) struct Writer {
    file: Arc<dyn DiskFile>,
    base: Offset,
    /// Durable length of the file, and where the next frame begins.
    bytes: u64,
    checksum: u32,
    next: Offset,
    poison: Option<String>,
}

impl Writer {
    pub(super) fn new(file: Arc<dyn DiskFile>, last: Option<&Segment>) -> Self {
        let last = last.expect("recovery leaves a segment to append to");
        let Segment { base, end, bytes, checksum, .. } = *last;
        Self { file, base, bytes, checksum: checksum.0, next: end, poison: None }
    }

    /// Refuses to go on after a failure.
    pub(super) fn check(&self) -> Result<(), LogError> {
        match &self.poison {
            Some(cause) => Err(LogError::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Takes another checksum for that of its bytes so far, if it writes to this segment.
    pub(super) fn go_on_from(&mut self, base: Offset, checksum: Checksum) {
        if self.base == base {
            self.checksum = checksum.0;
        }
    }

    fn poison(&mut self, error: &DiskError) {
        self.poison = Some(error.to_string());
    }

    /// Writes and syncs bytes at the end; the caller publishes them.
    fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        if let Err(error) = self.file.write_at(self.bytes, bytes) {
            // A full disk has not lost anything. Without the cut, a whole frame of this attempt
            // could stand behind a shorter one of the next, and come back after a crash.
            if !error.is_full() || self.file.set_len(self.bytes).is_err() {
                self.poison(&error);
            }
            return Err(error.into());
        }
        let synced = if is_planted(Bug::AppendNotSynced) { Ok(()) } else { self.file.sync() };
        if let Err(error) = synced
            && !is_planted(Bug::SyncErrorIgnored)
        {
            self.poison(&error);
            return Err(error.into());
        }
        self.bytes += bytes.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        Ok(())
    }
}

impl SegmentLog {
    pub(crate) fn append_records(
        &self,
        records: &[Record],
        epoch: Epoch,
    ) -> Result<Appended, LogError> {
        let sizes = self.check_sizes(records)?;
        let mut writer = lock(&self.writer);
        self.check_open()?;
        writer.check()?;
        let hwm = {
            let view = self.view();
            check_epoch(epoch, view.epoch)?;
            view.hwm
        };
        let payload: usize = sizes.iter().sum();
        if self.is_full(&writer, payload as u64) {
            self.roll(&mut writer)?;
        }
        let encoder = Encoder { segment: writer.base, position: writer.bytes, hwm, epoch };
        let batch = encoder.encode(records, &sizes, writer.next);
        writer.write(&batch.bytes)?;
        let first = writer.next;
        writer.next = batch.end;
        self.publish(&writer, &batch, epoch);
        let Batch { bytes, end, .. } = batch;
        keep_buffer(bytes);
        Ok(Appended { first, end })
    }

    /// Appends a control frame that carries `hwm`, which takes no offset.
    pub(crate) fn append_control(
        &self,
        epoch: Epoch,
        expose_all: bool,
    ) -> Result<Offset, LogError> {
        let mut writer = lock(&self.writer);
        self.check_open()?;
        writer.check()?;
        let hwm = {
            let view = self.view();
            check_epoch(epoch, view.epoch)?;
            if expose_all { view.end() } else { view.hwm }
        };
        let header = FrameHeader {
            kind: Kind::Control,
            begins_append: true,
            payload_bytes: 0,
            payload_checksum: crc32c::crc32c(&[]),
            count: 0,
            base: writer.next,
            hwm,
            epoch,
            newest_ms: None,
        };
        let frames = vec![(writer.next, writer.bytes)];
        let bytes = header.encode(writer.base, writer.bytes).to_vec();
        writer.write(&bytes)?;
        let batch = Batch { bytes, frames, end: writer.next, newest_ms: None };
        self.publish(&writer, &batch, epoch);
        let mut view = self.view();
        view.hwm = view.hwm.max(hwm);
        Ok(view.hwm)
    }

    pub(crate) fn raise_hwm(&self, hwm: Offset) -> Result<(), LogError> {
        let mut view = self.view();
        if hwm > view.end() {
            return Err(LogError::AheadOfHwm { asked: hwm, hwm: view.end() });
        }
        view.hwm = view.hwm.max(hwm);
        Ok(())
    }

    fn check_sizes(&self, records: &[Record]) -> Result<Vec<usize>, LogError> {
        if records.is_empty() {
            return Err(LogError::EmptyAppend);
        }
        let bytes_max = self.limits.record_bytes_max.min(PAYLOAD_MAX);
        records
            .iter()
            .map(|record| match record.encoded_bytes() {
                bytes if bytes <= bytes_max => Ok(bytes),
                bytes => Err(LogError::RecordTooLarge { bytes, bytes_max }),
            })
            .collect()
    }

    fn is_full(&self, writer: &Writer, more: u64) -> bool {
        // A segment's name is its base, so one that has no record yet cannot be left behind.
        writer.next > writer.base && writer.bytes + more > self.limits.segment_bytes
    }

    fn publish(&self, writer: &Writer, batch: &Batch, epoch: Epoch) {
        let mut view = self.view();
        view.epoch = view.epoch.max(epoch);
        let last = view.segment_mut(writer.base).expect("the writer's segment is in the view");
        last.bytes = writer.bytes;
        last.checksum = Checksum(writer.checksum);
        last.end = writer.next;
        last.newest_ms = last.newest_ms.max(batch.newest_ms);
        for &(base, position) in &batch.frames {
            last.index.note(base, position);
        }
    }

    /// Begins the next segment. The old one needs no sync: every append has synced it.
    ///
    /// Order: the new file, the `segments` file, then both names with one sync of the directory. A
    /// crash may keep either name alone: recovery reads an unlisted segment, and takes a listed last
    /// one as growing. A new segment must not outlive a failure, or it would overlap the old one
    /// when that grows on.
    pub(super) fn roll(&self, writer: &mut Writer) -> Result<(), LogError> {
        let base = writer.next;
        let listed = create_segment(&*self.disk, &self.dir, base).and_then(|file| {
            let segments = {
                let view = self.view();
                view.describe(view.start(), &view.segments)
            };
            let path = Segments::path(&self.dir);
            disk::write_atomically(&*self.disk, &path, &segments.encode()).map(|()| file)
        });
        let file = match listed {
            Ok(file) => file,
            Err(error) => {
                let path = side::segment_path(&self.dir, base);
                let undone = side::remove_if_present(&*self.disk, &path)
                    .and_then(|()| self.disk.sync_dir(&self.dir));
                if !error.is_full() || undone.is_err() {
                    writer.poison(&error);
                }
                return Err(error.into());
            }
        };
        let header = super::frame::file_header(base);
        let checksum = crc32c::crc32c(&header);
        let bytes = FILE_HEADER as u64;
        self.view().segments.push(Segment {
            base,
            end: base,
            bytes,
            checksum: Checksum(checksum),
            newest_ms: None,
            index: SparseIndex::default(),
        });
        writer.file = file;
        writer.base = base;
        writer.bytes = bytes;
        writer.checksum = checksum;
        Ok(())
    }

    pub(crate) fn close_writer(&self) {
        let _writer = lock(&self.writer);
        self.closed.store(true, Ordering::Release);
    }
}

impl View {
    /// Describes the log with these of its segments as sealed.
    pub(super) fn describe(&self, start: Offset, sealed: &[Segment]) -> Segments {
        let describe = |segment: &Segment| Sealed {
            base: segment.base,
            end: segment.end,
            bytes: segment.bytes,
            checksum: segment.checksum,
            newest_ms: segment.newest_ms,
        };
        Segments {
            start,
            hwm: self.hwm,
            epoch: self.epoch,
            sealed: sealed.iter().map(describe).collect(),
        }
    }
}

fn check_epoch(given: Epoch, log: Epoch) -> Result<(), LogError> {
    if given < log { Err(LogError::StaleEpoch { given, log }) } else { Ok(()) }
}

/// The frames of one append.
struct Batch {
    bytes: Vec<u8>,
    /// Base and position of each frame.
    frames: Vec<(Offset, u64)>,
    end: Offset,
    newest_ms: Option<i64>,
}

/// Most bytes that a thread keeps for its next append.
const BUFFER_MAX: usize = 1 << 20;

thread_local! {
    /// What the last append of this thread was encoded into, empty: memory that comes anew from the
    /// system for each append costs more than what is written into it.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Keeps a buffer for the next append of this thread.
fn keep_buffer(mut bytes: Vec<u8>) {
    if bytes.capacity() <= BUFFER_MAX {
        bytes.clear();
        BUFFER.set(bytes);
    }
}

struct Encoder {
    segment: Offset,
    position: u64,
    hwm: Offset,
    epoch: Epoch,
}

impl Encoder {
    fn encode(&self, records: &[Record], sizes: &[usize], first: Offset) -> Batch {
        let payload: usize = sizes.iter().sum();
        let mut bytes = BUFFER.take();
        bytes.reserve(payload + FRAME_HEADER * (1 + payload / PAYLOAD_TARGET));
        let mut batch = Batch { bytes, frames: Vec::new(), end: first, newest_ms: None };
        let mut rest = records;
        let mut sizes = sizes;
        while !rest.is_empty() {
            let mut payload = 0;
            let fits = sizes.iter().take_while(|&&size| {
                payload += size;
                payload <= PAYLOAD_TARGET
            });
            let count = fits.count().max(1);
            let (now, later) = rest.split_at(count);
            self.frame(&mut batch, now);
            rest = later;
            sizes = &sizes[count..];
        }
        batch
    }

    fn frame(&self, batch: &mut Batch, records: &[Record]) {
        let begin = batch.bytes.len();
        batch.bytes.resize(begin + FRAME_HEADER, 0);
        for record in records {
            record.encode(&mut batch.bytes);
        }
        let payload = &batch.bytes[begin + FRAME_HEADER..];
        let newest_ms = records.iter().map(|record| record.timestamp_ms).max();
        let header = FrameHeader {
            kind: Kind::Data,
            begins_append: begin == 0,
            payload_bytes: u32::try_from(payload.len()).expect("a payload is at most 16 MiB"),
            payload_checksum: crc32c::crc32c(payload),
            count: u32::try_from(records.len()).expect("a record takes bytes, so they are few"),
            base: batch.end,
            hwm: self.hwm,
            epoch: self.epoch,
            newest_ms,
        };
        let position = self.position + begin as u64;
        batch.bytes[begin..begin + FRAME_HEADER]
            .copy_from_slice(&header.encode(self.segment, position));
        batch.frames.push((header.base, position));
        batch.newest_ms = batch.newest_ms.max(newest_ms);
        batch.end = header.end();
    }
}
