//! Bulk copy: ranges of a partition's extents, from a source's disk to a destination's.
//!
//! # Purpose
//!
//! A destination asks for `(partition, extent, position, bytes)` and gets a short head and the raw
//! bytes. Both ends block, on threads of their own: a copy through an asynchronous file costs five
//! to twenty times as much. Nothing is checksummed per chunk, since the destination checks every
//! frame and the running checksum of the extent as the bytes come in.
//!
//! ```text
//! destination                                 source
//!   CopyRequest (frame) ─────────────────────▶ clamp, read, throttle
//!   ◀───────────────────────── CopyHead (frame), raw bytes
//!   throttle, Sink::write
//! ```
//!
//! One connection carries one request at a time; several requests at once use several connections,
//! of which a [`Client`] keeps two per source.
//!
//! # Invariants
//!
//! 1. What reached the [`Sink`] is exactly what the source read at that position, in order, and
//!    stays valid whatever happens next: the next request goes on behind it (R61, case C46).
//! 2. No thread waits for ever: a peer that moves no byte for the stall timeout is given up, a copy
//!    that moves is never (field fault 17), and a cancelled one ends promptly (case X169).
//! 3. What a peer asks for is clamped before it is acted upon (case C59).
//! 4. Time that a throttle takes is told apart from time that the copy takes.
//!
//! # After a restart
//!
//! Nothing is kept; the destination's manifest says where to go on.

mod client;
mod head;
mod pool;
mod server;
mod stream;
mod throttle;

pub use client::Client;
pub use server::Server;
pub use throttle::{Cancelled, Throttle};

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use narad_core::ids::{Offset, PartitionId};

use crate::wire::handshake::Refused;

/// Bytes that are read or written at once. Larger is slower: a receive buffer of 1 MiB takes three
/// times as long as one of 256 KiB.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

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
}

/// Where a destination's bytes go.
pub trait Sink {
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

/// Limits of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a peer may move no byte. Default 30 s; longer suits disks that stall for long.
    pub stall_timeout: Duration,
    /// How long dialling a source may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long a handshake may take. Default 5 s.
    pub handshake_timeout: Duration,
    /// How long a connection without a request is kept. Default 60 s.
    pub idle_timeout: Duration,
    /// Longest range that a source gives at once. Default 64 MiB; longer requests get the
    /// beginning.
    pub range_bytes_max: u64,
    /// Bulk connections that a source serves at once, each on a thread. Default 64.
    pub connections_max: usize,
    /// Connections that a destination has to one source. Default 2; more gain nothing on two
    /// cores.
    pub connections_per_source: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stall_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            range_bytes_max: 64 << 20,
            connections_max: 64,
            connections_per_source: 2,
        }
    }
}
