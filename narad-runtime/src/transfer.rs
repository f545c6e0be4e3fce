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
//!   CopyRequest (frame) ─────────────────────▶ clamp, throttle, sendfile (or read and write)
//!   ◀───────────────────────── CopyHead (frame), raw bytes
//!   throttle, Sink::write
//! ```
//!
//! On Linux the bytes go from the source's page cache to the socket without passing through the
//! process, where its [`Source`] has [files](Source::open); elsewhere they are read and written. What
//! only a copy has brought into the page cache is given up again when it is sent.
//!
//! A destination checks what comes on the thread that receives it. On two cores with two streams that
//! is faster than handing it to others: it is still in the processor's cache, and both cores are busy.
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
//! 5. A move takes at most 64 MiB of a destination's memory, unsynced pages included
//!    ([`Settings::memory_bytes_max`]).
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

use std::time::Duration;

use crate::tls::Tls;

pub use crate::copy::{
    CancelFlag, Copier, CopyReport, CopyRequest, ExtentFile, Sink, Source, SourceError,
    TransferError,
};

/// Bytes that are read or written at once. Larger is slower: a receive buffer of 1 MiB takes three
/// times as long as one of 256 KiB.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

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
    /// The node's certificate; with it, copies are made under TLS. Default none.
    pub tls: Option<Tls>,
    /// Connections that a destination has to one source. Default 2; more gain nothing on two
    /// cores.
    pub connections_per_source: usize,
}

impl Settings {
    /// Returns the most memory that one move takes at its destination, with so many requests under way
    /// at once: what is received, what is compared with it, what is read back after a restart, and
    /// what is written and waits to be synced.
    ///
    /// # Examples
    ///
    /// A move with the defaults takes at most 64 MiB:
    ///
    /// ```
    /// use narad_core::config::Config;
    /// use narad_runtime::transfer::Settings;
    ///
    /// let requests = Config::new(0).chunks_in_flight_max;
    /// assert!(Settings::default().memory_bytes_max(requests) <= 64 << 20);
    /// ```
    #[must_use]
    pub const fn memory_bytes_max(&self, requests: u32) -> u64 {
        let streams = self.connections_per_source as u64;
        let (received, compared) = (BUFFER_BYTES as u64, BUFFER_BYTES as u64);
        let received = match &self.tls {
            Some(_) => received + crate::tls::Session::BYTES_MAX,
            None => received,
        };
        let one = crate::log::READ_BYTES as u64 + crate::store::AHEAD_BYTES_MAX + received;
        streams * (received + compared) + requests as u64 * one
    }
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
            tls: None,
            connections_per_source: 2,
        }
    }
}
