//! What producers and readers are told of their records.

use narad_core::ids::{Epoch, Offset};
use serde::{Deserialize, Serialize};

use super::Record;

/// What was accepted, as `POST /v1/topics/{topic}/messages` answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// How many records are durable on the node that was asked.
    pub accepted: u64,
}

/// Where records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// Offset of the first one.
    pub first_offset: Offset,
    /// Offset after the last one.
    pub next_offset: Offset,
    /// The owner's reign.
    pub epoch: Epoch,
}

/// Where a fetch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the first record that is not acknowledged.
    Committed,
    /// At an offset; one before the log's start means the start.
    Offset {
        /// The offset.
        at: Offset,
        /// The reign in which the reader got there. An offset at or past the start of the next reign
        /// is taken back to that start, as other records may be there by now (H15).
        epoch: Option<Epoch>,
    },
}

/// What a fetch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The records with their offsets, in order.
    pub records: Vec<(Offset, Record)>,
    /// Where the next fetch goes on.
    pub next: Offset,
    /// Where the log starts.
    pub start: Offset,
    /// Offset after the last record that consumers may see.
    pub hwm: Offset,
    /// The owner's reign.
    pub epoch: Epoch,
    /// Offset after the last record of the acknowledged prefix, if any was acknowledged.
    pub committed: Option<Offset>,
}

/// What is acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckSet {
    /// Everything before this offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Offset>,
    /// Single records ahead of the acknowledged prefix; at most [`AckSet::OFFSETS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<Offset>,
}

impl AckSet {
    /// Most single offsets in one call.
    pub const OFFSETS_MAX: usize = 1024;
}
