//! What can be tuned in the transport.

use std::time::Duration;

use super::Tally;
use crate::tls::Tls;

/// The transport's limits. The defaults suit a data centre; tests shorten them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a handshake may take, on either side. Default 5 s. Longer lets silent strangers
    /// stay longer.
    pub handshake_timeout: Duration,
    /// How long a dial may take. Default 3 s.
    pub connect_timeout: Duration,
    /// How long a peer may take no byte of what it is being sent. Default 10 s; the kernel gives
    /// unacknowledged data up after the same time.
    pub stall_timeout: Duration,
    /// First pause after a peer could not be reached. Default 50 ms.
    pub backoff_min: Duration,
    /// Longest such pause. Default 2 s. Longer finds a returned peer later, unless it dials first.
    pub backoff_max: Duration,
    /// Messages to one peer that may wait. Default 4096.
    pub queue_length_max: usize,
    /// Bytes to one peer that may wait. Default 128 MiB; one message is always accepted.
    pub queue_bytes_max: usize,
    /// Calls to one peer, and requests of one peer, that may be unanswered. Default 1024.
    pub calls_max: usize,
    /// How long a peer's connection is kept on which nothing is said. Default 5 min; a dialer that has
    /// nothing to say ends it after half of that.
    pub idle_timeout: Duration,
    /// Connections that have not completed their handshake. Default 256; the oldest gives way.
    pub strangers_max: usize,
    /// Joiners that may be connected at once. Default 8.
    pub joiners_max: usize,
    /// Snapshots that may arrive at once. Default 4: each holds up to 64 MiB of memory.
    pub snapshots_max: usize,
    /// Bytes of batches from all peers that may be here and not yet appended; a batch that does not
    /// fit is answered as busy. Default 128 MiB; at least one batch of 64 MiB always fits.
    pub delivery_bytes_max: usize,
    /// The congestion control of accepted connections, for example `cubic`; `None` is the
    /// system's. BBR halves the throughput of bulk copies on loopback and very short links.
    pub congestion: Option<String>,
    /// The node's certificate; with it, every connection is under TLS. Default none.
    pub tls: Option<Tls>,
    /// Where others reach this node, as `host:port`, told them whenever they are dialled. Default
    /// none: then only the replicated state says it.
    pub listens_at: Option<String>,
    /// Where refused connections are counted. Default one of its own.
    pub refused: Tally,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            stall_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(2),
            queue_length_max: 4096,
            queue_bytes_max: 128 << 20,
            calls_max: 1024,
            idle_timeout: Duration::from_mins(5),
            strangers_max: 256,
            joiners_max: 8,
            snapshots_max: 4,
            delivery_bytes_max: 128 << 20,
            congestion: None,
            tls: None,
            listens_at: None,
            refused: Tally::default(),
        }
    }
}
