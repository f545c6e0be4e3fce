//! Everything that reads bytes of other nodes and of stores for an embedded node, for fuzz targets: no
//! API. (What a metastore keeps is read by [`Record`](super::Record) and [`Ledger`](super::Ledger),
//! which anybody may call.)
//!
//! Each returns whether the bytes were understood.
//!
//! # Panics
//!
//! Each of them, if what was understood does not come back from its own bytes as the same.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::extents;
use super::messages::{Question, Reply};
use super::note::{LogNote, NodeNote};
use super::tcp;

#[cfg(feature = "raft")]
pub use super::raft::decoders::{letter, replica_snapshot, verdict};

/// A question of another node.
#[must_use]
pub fn question(bytes: Bytes) -> bool {
    let Ok(question) = Question::decode(bytes) else { return false };
    assert_eq!(Question::decode(question.clone().encode()), Ok(question));
    true
}

/// An answer of another node.
#[must_use]
pub fn reply(bytes: Bytes) -> bool {
    let Ok(reply) = Reply::decode(bytes) else { return false };
    assert_eq!(Reply::decode(reply.clone().encode()), Ok(reply));
    true
}

/// Records on their way.
#[must_use]
pub fn frames(bytes: Bytes) -> bool {
    let Some(records) = extents::unframe(bytes.clone()) else { return false };
    assert_eq!(extents::frames(&records), bytes, "frames have one form");
    true
}

/// The note beside a partition's records.
#[must_use]
pub fn log_note(bytes: &[u8]) -> bool {
    let Ok(note) = LogNote::decode(bytes) else { return false };
    assert_eq!(LogNote::decode(&note.encode()), Ok(note));
    true
}

/// The note that says who a node is.
#[must_use]
pub fn node_note(bytes: &[u8]) -> bool {
    let Ok(note) = NodeNote::decode(bytes) else { return false };
    assert_eq!(NodeNote::decode(&note.encode()), Ok(note));
    true
}

/// What arrives on a connection of [`TcpPeer`](super::TcpPeer), from a node that knows the token
/// `token`: a hello and frames. Returns how many frames were whole; `None` of a stranger.
#[must_use]
pub fn connection(mut bytes: &[u8], token: u128) -> Option<usize> {
    let arriving = pin!(async move {
        tcp::read_hello(&mut bytes, token).await.ok()?;
        let mut frames = 0;
        while tcp::read_frame(&mut bytes).await.is_ok() {
            frames += 1;
        }
        Some(frames)
    });
    match arriving.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frames) => frames,
        Poll::Pending => unreachable!("what is in memory is there at once"),
    }
}
