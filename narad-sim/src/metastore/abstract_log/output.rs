//! What the log says.

use narad_core::ids::NodeId;
use narad_core::node::Event;

/// Why the leader is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// There has been none before.
    First,
    /// Its process ended.
    Crash,
    /// It did not reach a majority.
    Cut,
    /// It handed over.
    Transfer,
    /// By chance, or because a scenario says so.
    Chance,
}

impl Why {
    /// Returns its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Crash => "crash",
            Self::Cut => "cut",
            Self::Transfer => "transfer",
            Self::Chance => "chance",
        }
    }
}

/// What the log wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A node is told something, at once: an entry, a snapshot, who leads, that a barrier passed.
    Tell {
        /// The node, which runs.
        node: NodeId,
        /// What it is told.
        event: Box<Event>,
    },
    /// Another node leads, or none; for the trace.
    Led {
        /// Who leads now.
        leader: Option<NodeId>,
        /// Why.
        why: Why,
    },
}
