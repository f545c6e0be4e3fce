//! Who belongs to the cluster, and how each of them is.

use alloc::collections::BTreeSet;
use alloc::string::String;
use core::time::Duration;

use crate::ids::{Drain, Generation, Incarnation, Name, NodeId, StoreUuid};
use crate::planted::{Bug, is_planted};

/// One node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Member {
    /// Its id, never reused.
    pub id: NodeId,
    /// Its name, for people.
    pub name: Name,
    /// Where it listens.
    pub addrs: Addresses,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
    /// Its present life; zero until its first `Register`.
    pub incarnation: Incarnation,
    /// Whether it is taken to be alive.
    pub status: Status,
    /// The number of its last death certificate; zero if it has never been declared dead.
    pub deaths: Generation,
    /// Whether it is being decommissioned. Survives a re-registration (R85).
    pub draining: bool,
    /// The number of its last decommission, over or not; zero if it has never been drained.
    pub drains: Drain,
    /// Whether it has said, in its present life and of this decommission, that nothing is left on
    /// it (H37).
    pub drained_out: bool,
    /// Whether it has been taken out for good. Remembered for ever, so that its disk never comes
    /// back as a member.
    pub retired: bool,
    /// What bounds the wait for a promotion of its partitions.
    pub timing: Timing,
}

impl Member {
    /// Whether it may be given partitions: alive, staying, and registered at least once.
    #[must_use]
    pub fn is_receiver(&self) -> bool {
        self.status == Status::Alive
            && (!self.draining || is_planted(Bug::DrainingReceives))
            && !self.retired
            && self.has_lived()
    }

    /// Whether it has ever registered a life; until then it owns nothing and accepts nothing.
    #[must_use]
    pub fn has_lived(&self) -> bool {
        self.incarnation > Incarnation(0)
    }
}

/// The longest lease that a member's present life may hold, and how long its death must last.
///
/// A policy changes on different nodes at different times. A node that is cut off may still hold a
/// lease of an older, longer policy while the others already judge it by a newer, hastier one.
/// The extremes of all policies since it registered bound whatever any node goes by: a new life
/// holds no lease of its predecessor, and a certificate names one life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timing {
    /// Longest `Policy::lease_reach` since it registered; zero before that.
    pub reach: Duration,
    /// Shortest `dead_timeout` since it registered; zero before that.
    pub silence: Duration,
    /// The least wait that its last death certificate asks for (R63); zero if it has none. A
    /// shorter `force_promote_after` does not shorten it.
    pub promote_after: Duration,
}

/// Where a node listens, as `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Addresses {
    /// For other nodes: control and bulk connections.
    pub peer: String,
    /// For operators and clients: HTTP.
    pub http: String,
}

impl Addresses {
    /// Longest accepted address, in bytes.
    pub const LENGTH_MAX: usize = 255;

    /// Whether both addresses are within their length.
    pub fn fit(&self) -> bool {
        self.peer.len() <= Self::LENGTH_MAX && self.http.len() <= Self::LENGTH_MAX
    }
}

/// Whether a member is taken to be alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Status {
    /// It has registered since it was last declared dead.
    Alive,
    /// It was declared dead under this certificate (H11).
    Dead(Generation),
}

/// The Raft configuration as of the last applied change, so that guards see the voters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Configuration {
    /// The voters.
    pub voters: BTreeSet<NodeId>,
    /// The voters that a joint change is replacing; empty outside one.
    pub voters_outgoing: BTreeSet<NodeId>,
    /// Those who receive the log without a vote.
    pub learners: BTreeSet<NodeId>,
}

impl Configuration {
    /// Whether the node takes part, with or without a vote.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.voters.contains(&node)
            || self.voters_outgoing.contains(&node)
            || self.learners.contains(&node)
    }
}
