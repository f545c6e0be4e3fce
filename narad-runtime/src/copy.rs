//! What a bulk copy is, whatever carries it: ranges of a partition's extents, from a source's disk to
//! a destination's.
//!
//! ```text
//! destination                                             source
//!   Storage ── CopyRequest ──▶ Copier  ~ ~ ~ ~ ~ ~ ~ ~ ▶  Source (LiveBytes)
//!   StageWriter ◀── Sink ───── bytes   ◀ ~ ~ ~ ~ ~ ~ ~ ~  durable bytes of a live log
//! ```
//!
//! The node's copier is `transfer::Client`, over sockets of its own; a simulation has another, which
//! lets the bytes travel in virtual time and cuts them short.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use narad_core::ids::{NodeId, Offset, PartitionId};

use crate::broker::Broker;
use crate::disk::DiskFile;
use crate::log::LogError;
use crate::store::PartitionLog;
use crate::wire::handshake::Refused;

/// Brings a range of another node's bytes.
pub trait Copier {
    /// Copies one range into a sink; may block.
    ///
    /// # Errors
    ///
    /// Any [`TransferError`]; [`TransferError::received`] tells where to go on.
    fn copy(
        &self,
        from: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError>;
}

/// Where a source's bytes come from. Called on many threads at once, and may block on its disk.
pub trait Source: Send + Sync {
    /// Reads durable bytes of one extent. Fills the buffer as far as the extent reaches, so that a
    /// shorter read says that it ends there; zero bytes say that the position is at its end.
    ///
    /// # Errors
    ///
    /// Any [`SourceError`]; the destination is told.
    fn read_at(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SourceError>;

    /// Opens the file of an extent for a copy that begins at a position, where the system can send
    /// from it. `None` (the default) where it cannot: then the bytes are read.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), for the same position.
    fn open(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
    ) -> Result<Option<ExtentFile>, SourceError> {
        let _ = (partition, base, position);
        Ok(None)
    }
}

/// An extent's file and how much of it may be sent.
#[derive(Clone, Debug)]
pub struct ExtentFile {
    /// The file; open, so that its bytes stay even if retention takes its name.
    pub file: Arc<dyn DiskFile>,
    /// Length of its durable part when it was opened. Bytes below it never change; what lies beyond
    /// is not to be sent (H16).
    pub durable_bytes: u64,
}

/// Where a destination's bytes go.
pub trait Sink {
    /// Notes how many bytes are about to come, at most.
    ///
    /// # Errors
    ///
    /// If there is no space for them; it ends the copy before it begins.
    fn expect(&mut self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Takes the next bytes of the range that was asked for.
    ///
    /// # Errors
    ///
    /// Whatever went wrong; it ends the copy.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// Why a source does not give what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SourceError {
    /// The extent is no more: retention has reaped it. List again (case C40).
    #[error("the source has no such extent any more: list again")]
    Gone,
    /// The extent ends before that position. List again.
    #[error("the extent ends before that position: list again")]
    OutOfRange,
    /// The node does not serve that partition.
    #[error("the source does not serve that partition now")]
    NotServing,
    /// The source's disk failed.
    #[error("the disk of the source failed")]
    Disk,
    /// The source has too much to do; ask again later.
    #[error("the source is busy: ask again later")]
    Busy,
}

/// One range of one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// The partition.
    pub partition: PartitionId,
    /// The extent, named by its first offset.
    pub base: Offset,
    /// The first byte, counted from the extent's first.
    pub position: u64,
    /// How many bytes; the source may give fewer.
    pub bytes: u64,
}

/// What a copy came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Bytes that reached the sink; fewer than asked for if the extent ends, or if the source
    /// clamps.
    pub bytes: u64,
    /// How long this node's throttle made the copy wait. That is no stall.
    pub throttled: Duration,
}

/// Why a copy ended early. What was received is in the sink and stays valid.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The source could not be reached.
    #[error("the source cannot be reached: {reason}")]
    Unreachable {
        /// What went wrong.
        reason: String,
    },
    /// The source refused the connection.
    #[error("the source refused the connection: {0}")]
    Refused(Refused),
    /// The source does not give what was asked for.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// No byte moved for too long.
    #[error("the source sent nothing for too long, after {received} bytes")]
    TimedOut {
        /// Bytes that reached the sink.
        received: u64,
    },
    /// The connection ended within the answer.
    #[error("the connection broke after {received} bytes")]
    Reset {
        /// Bytes that reached the sink.
        received: u64,
    },
    /// The copy was cancelled.
    #[error("the copy was cancelled after {received} bytes")]
    Cancelled {
        /// Bytes that reached the sink.
        received: u64,
    },
    /// The sink failed; whether it kept the bytes of that last write is for it to know.
    #[error("the staging area failed after {received} bytes: {error}")]
    Sink {
        /// Bytes that reached the sink before.
        received: u64,
        /// What it said.
        error: io::Error,
    },
    /// The source sent something that is no answer.
    #[error("the source sent something that is no answer to a copy: is it of another version?")]
    Malformed,
}

impl TransferError {
    /// Returns how many bytes had reached the sink: the next request may begin behind them.
    pub const fn received(&self) -> u64 {
        match self {
            Self::TimedOut { received }
            | Self::Reset { received }
            | Self::Cancelled { received }
            | Self::Sink { received, .. } => *received,
            Self::Unreachable { .. } | Self::Refused(_) | Self::Source(_) | Self::Malformed => 0,
        }
    }
}

/// Ends a copy from another thread, within a fraction of a second. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Raises the flag, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is raised.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What other nodes copy from this one: the durable bytes of live logs.
#[derive(Debug)]
pub struct LiveBytes(Arc<Broker>);

impl LiveBytes {
    /// Serves the bytes of a broker's live logs.
    pub const fn new(broker: Arc<Broker>) -> Self {
        Self(broker)
    }
}

impl LiveBytes {
    fn log(&self, partition: PartitionId) -> Result<Arc<dyn PartitionLog>, SourceError> {
        let seat = self.0.find(partition).ok_or(SourceError::NotServing)?;
        let (log, _) = seat.slot.readable().map_err(|_| SourceError::NotServing)?;
        Ok(log)
    }
}

impl Source for LiveBytes {
    fn read_at(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SourceError> {
        let read = self.log(partition)?.read_at(base, position, buffer);
        read.map_err(|error| source_error(partition, base, &error))
    }

    fn open(
        &self,
        partition: PartitionId,
        base: Offset,
        position: u64,
    ) -> Result<Option<ExtentFile>, SourceError> {
        let opened = self.log(partition)?.open_at(base, position);
        opened.map_err(|error| source_error(partition, base, &error))
    }
}

fn source_error(partition: PartitionId, base: Offset, error: &LogError) -> SourceError {
    match error {
        LogError::Gone { .. } => SourceError::Gone,
        LogError::NotDurable { .. } => SourceError::OutOfRange,
        LogError::Closed => SourceError::NotServing,
        error => {
            tracing::error!(%partition, %base, %error, "cannot read for a copy");
            SourceError::Disk
        }
    }
}
