//! What happened in a run, one line an event.
//!
//! A trace is a text file of JSON lines. The first is a [`Header`], which is all that is needed to
//! run the same again; the others are [`Line`]s, in the order in which they happened; the last is
//! the [`Summary`](crate::outcome::Summary).

use serde::{Deserialize, Serialize};

/// The first line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format: 1.
    pub narad_trace: u32,
    /// The scenario, whole, as TOML.
    pub scenario: String,
    /// The seed that it was run with.
    pub seed: u64,
    /// The bug that was planted, if any.
    pub planted: Option<String>,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A node was woken by its own deadline, or by a tick of Raft.
    Wake,
    /// A node asked for something: an operation, a call, a proposal.
    Effect,
    /// An operation ended, and the node was told.
    Done,
    /// A message was put on the wire.
    Send,
    /// A message arrived.
    Deliver,
    /// A message was lost.
    Drop,
    /// A node applied an entry of the log; `name` is the command.
    Applied,
    /// A node said something worth knowing.
    Note,
    /// Records were acknowledged to a producer.
    Ack,
    /// Records were delivered to a consumer.
    Read,
    /// A phase of a move began; `name` is the phase.
    Phase,
    /// A partition was frozen; `name` is `begin` or `end`.
    Freeze,
    /// A process, a link, a clock or a disk was changed; `name` says how.
    Fault,
    /// A step of the scenario was taken.
    Step,
    /// An invariant did not hold.
    Violation,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Its number; ascending, without gaps.
    pub n: u64,
    /// When, in microseconds of true time.
    pub at_us: u64,
    /// What kind of thing.
    pub kind: Kind,
    /// Its name, such as `prepare`, `install`, `CompleteMove`, `kill`.
    pub name: String,
    /// The node that it happened at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The other node, of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The partition, such as `orders/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// For a delivery or a loss: the number of the line that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Bytes that it carried, or wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Everything else, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}
