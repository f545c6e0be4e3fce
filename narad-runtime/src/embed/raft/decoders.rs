//! What a replica reads of others and of its store, for fuzz targets.

use std::sync::Mutex;

use bytes::Bytes;
use narad_core::ids::NodeId;
use prost::Message as _;

use super::letter::Letter;
use super::lock;
use super::members::{Roster, Verdict};
use super::replica::Kept;
use crate::embed::memory::MemoryMetastore;
use crate::raft::Configuration;

/// A letter of another replica of a [`RaftMetastore`](super::RaftMetastore).
///
/// # Panics
///
/// If what was understood does not come back from its own bytes as the same.
#[must_use]
pub fn letter(bytes: Bytes) -> bool {
    let Some(letter) = Letter::decode(bytes) else { return false };
    assert_eq!(Letter::decode(letter.encode()), Some(letter));
    true
}

/// The answer to one that asks for a change of the replicas.
///
/// # Panics
///
/// If what was understood does not come back from its own bytes as the same.
#[must_use]
pub fn verdict(bytes: &[u8]) -> bool {
    let Some(verdict) = Verdict::decode(bytes) else { return false };
    assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
    true
}

/// What a snapshot of a replica's Raft holds.
///
/// # Panics
///
/// If what was understood does not come back from its own bytes as the same.
#[must_use]
pub fn replica_snapshot(bytes: Bytes) -> bool {
    let (decided, roster) = (MemoryMetastore::default(), Mutex::new(Roster::default()));
    let Ok(kept) = Kept::read(bytes) else { return false };
    kept.clone().put(&decided, &mut lock(&roster), Configuration::default());
    let again = Kept::of_parts(&decided, &lock(&roster));
    assert_eq!(Kept::read(again.encode_to_vec().into()).as_ref(), Ok(&again));
    assert!(lock(&roster).whom(NodeId(0)).is_none_or(|whom| whom.node == NodeId(0)));
    true
}
