//! The seam between a partition's gate and its log.

use std::fmt;
use std::ops::Range;

use narad_core::ids::{Digest, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::partition::{Listing, Position, Staged};

use crate::copy::ExtentFile;
use crate::log::{
    Altered, Appended, Bounds, LogError, Record, Recovery, Retained, Retention, SegmentLog, Upto,
};

/// One partition's log, open for its owner, for consumers and as the source of a copy.
///
/// All methods block on the disk. There is one writer at a time; a second one waits.
pub trait PartitionLog: Send + Sync + fmt::Debug {
    /// Writes records at the end and makes them durable; they stay hidden.
    ///
    /// The caller needs no lock while this runs. Afterwards its gate lets the commit pass, and it
    /// calls [`expose`](Self::expose), or it does not, and the records join the hidden tail.
    ///
    /// # Errors
    ///
    /// After [`LogError::Poisoned`], and after any other failure of a write or sync, the records may
    /// or may not be there once the log is opened again. A full disk and a refused record leave
    /// nothing behind.
    fn append(&self, records: &[Record], epoch: Epoch) -> Result<Appended, LogError>;

    /// Shows everything below `hwm` to consumers. Becomes durable with the next frame; a lower
    /// value than the present one changes nothing.
    ///
    /// # Errors
    ///
    /// [`LogError::AheadOfHwm`] if `hwm` is past the durable end.
    fn expose(&self, hwm: Offset) -> Result<(), LogError>;

    /// Shows everything durable and makes that durable with a control frame; returns the new high
    /// watermark.
    ///
    /// For an owner after its restart, since an acknowledged record must not stay hidden (H42), and
    /// for the first commit after a forced flip (H43). An installed copy of a normal flip is *not*
    /// exposed: its hidden tail stays hidden until a new commit (R41, S4).
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    fn expose_all(&self, epoch: Epoch) -> Result<Offset, LogError>;

    /// Makes the present high watermark durable with a control frame, for a quiet partition.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    fn persist_hwm(&self, epoch: Epoch) -> Result<Offset, LogError>;

    /// Returns how far the log reaches.
    fn bounds(&self) -> Bounds;

    /// Returns the life of this log: one more at each opening (H16).
    fn generation(&self) -> LogGeneration;

    /// Returns what opening the log came upon.
    fn recovery(&self) -> &Recovery;

    /// Lists the durable bytes, and which of the staged prefixes in `check` are the same bytes.
    ///
    /// # Errors
    ///
    /// If a prefix cannot be read.
    fn listing(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        check: &[Staged],
    ) -> Result<Listing, LogError>;

    /// Summarises all durable bytes.
    fn digest(&self) -> Digest;

    /// Reads raw bytes of one extent, below its durable length; returns how many.
    ///
    /// # Errors
    ///
    /// [`LogError::Gone`] if retention has removed it, [`LogError::NotDurable`] past its length.
    fn read_at(&self, base: Offset, position: u64, buf: &mut [u8]) -> Result<usize, LogError>;

    /// Opens the file of one extent for whoever can have the system send from it, for itself alone:
    /// readers of records and other copies have files of their own. `None` (the default) where there
    /// is no such file.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), for the same position.
    fn open_at(&self, base: Offset, position: u64) -> Result<Option<ExtentFile>, LogError> {
        let _ = (base, position);
        Ok(None)
    }

    /// Reads visible records from an offset on: at least one if there is one, and no more than fit
    /// into `bytes_max` otherwise.
    ///
    /// # Errors
    ///
    /// [`LogError::BelowStart`], [`LogError::AheadOfHwm`], or [`LogError::Damaged`] with the offset
    /// at which a reader can go on.
    fn read(&self, from: Offset, bytes_max: usize) -> Result<Vec<(Offset, Record)>, LogError>;

    /// Reads records from an offset on, hidden ones included: for salvage only (H14).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn read_durable(
        &self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<(Offset, Record)>, LogError>;

    /// Returns where consumers stood when that was last stored. Where they stand now is known to the
    /// [cursor](narad_core::cursor) of the partition's [slot](crate::broker::Slot).
    fn position(&self) -> Position;

    /// Stores where consumers stand, durably. What a crash takes is delivered again (R53).
    ///
    /// # Errors
    ///
    /// [`LogError::Position`] if no consumer can stand there; otherwise if the disk fails, after
    /// which the position may be stored or not.
    fn set_position(&self, position: Position) -> Result<(), LogError>;

    /// Removes segments that need not be kept. Not to be called while the partition is frozen: the
    /// capture says where the log begins.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn retain(&self, keep: &Retention, now_ms: i64) -> Result<Retained, LogError>;

    /// Reads the segments that have some of these offsets; returns those whose bytes are not what was
    /// appended.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn find_altered(&self, offsets: &Range<Offset>) -> Result<Vec<Altered>, LogError>;

    /// Lists altered segments from now on as they are, durably, so that they can be moved
    /// (`case_048`). Not to be called while the partition is frozen: the capture says what they are.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    fn describe_anew(&self, altered: &[Altered]) -> Result<(), LogError>;

    /// Gives the directory free; every later call but this one fails.
    ///
    /// # Errors
    ///
    /// If the disk fails; the log is closed all the same.
    fn close(&self) -> Result<(), LogError>;
}

impl PartitionLog for SegmentLog {
    fn append(&self, records: &[Record], epoch: Epoch) -> Result<Appended, LogError> {
        self.append_records(records, epoch)
    }

    fn expose(&self, hwm: Offset) -> Result<(), LogError> {
        self.raise_hwm(hwm)
    }

    fn expose_all(&self, epoch: Epoch) -> Result<Offset, LogError> {
        self.append_control(epoch, true)
    }

    fn persist_hwm(&self, epoch: Epoch) -> Result<Offset, LogError> {
        self.append_control(epoch, false)
    }

    fn bounds(&self) -> Bounds {
        self.bounds_now()
    }

    fn generation(&self) -> LogGeneration {
        self.life()
    }

    fn recovery(&self) -> &Recovery {
        self.found()
    }

    fn listing(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        check: &[Staged],
    ) -> Result<Listing, LogError> {
        self.list(incarnation, epoch, check)
    }

    fn digest(&self) -> Digest {
        self.digest_now()
    }

    fn read_at(&self, base: Offset, position: u64, buf: &mut [u8]) -> Result<usize, LogError> {
        self.read_raw(base, position, buf)
    }

    fn open_at(&self, base: Offset, position: u64) -> Result<Option<ExtentFile>, LogError> {
        self.open_raw(base, position)
    }

    fn read(&self, from: Offset, bytes_max: usize) -> Result<Vec<(Offset, Record)>, LogError> {
        self.read_records(from, bytes_max, Upto::Hwm)
    }

    fn read_durable(
        &self,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<(Offset, Record)>, LogError> {
        self.read_records(from, bytes_max, Upto::End)
    }

    fn position(&self) -> Position {
        self.position_now()
    }

    fn set_position(&self, position: Position) -> Result<(), LogError> {
        self.store_position(position)
    }

    fn retain(&self, keep: &Retention, now_ms: i64) -> Result<Retained, LogError> {
        self.drop_old(keep, now_ms)
    }

    fn find_altered(&self, offsets: &Range<Offset>) -> Result<Vec<Altered>, LogError> {
        self.find_altered(offsets)
    }

    fn describe_anew(&self, altered: &[Altered]) -> Result<(), LogError> {
        self.describe_anew(altered)
    }

    fn close(&self) -> Result<(), LogError> {
        self.close_writer();
        Ok(())
    }
}
