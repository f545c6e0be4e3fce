//! Where the nodes of a world keep what they agree on.

pub mod abstract_log;
pub mod abstract_replica;

use std::collections::BTreeSet;

use narad_core::config::Policy;
use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, ProposalId, StoreUuid};
use narad_core::metastore::{Addresses, Command, Configuration, Entry, Reply, State};
use serde::{Deserialize, Serialize};

use crate::time::Time;

pub use abstract_log::{AbstractLog, Durable, Faults, Output, Pace, Why};
pub use abstract_replica::AbstractReplica;

/// Which log a world runs on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metastore {
    /// The real consensus library, one replica a node, on a simulated disk and network.
    #[default]
    Raft,
    /// One list that all nodes share, with the faults that such a log may have; see
    /// [`abstract_log`].
    Abstract,
}

/// Who hears whom at present.
pub trait Reach {
    /// Whether two nodes can exchange messages, in both directions. Whether they run is another
    /// question.
    fn talks(&self, a: NodeId, b: NodeId) -> bool;

    /// Whether the process of a node runs: it is started, and not paused.
    fn is_up(&self, node: NodeId) -> bool;
}

/// The abstract log, as a replica gets at it for the length of one call.
#[expect(missing_debug_implementations, reason = "it borrows a trait object of the world")]
pub struct Access<'a> {
    /// True time, which the replica does not look at.
    pub now: Time,
    /// The log that all replicas share.
    pub log: &'a mut AbstractLog,
    /// Who hears whom.
    pub reach: &'a dyn Reach,
}

/// Returns the state of a cluster that has just been founded: a configuration of voters, a policy,
/// and members that have joined and not registered. `who` gives name, disk and addresses of each.
///
/// # Panics
///
/// If the policy or a member is refused.
pub fn founded(
    voters: impl IntoIterator<Item = NodeId>,
    policy: &Policy,
    who: impl Fn(NodeId) -> (Name, StoreUuid, Addresses),
) -> State {
    let voters: BTreeSet<NodeId> = voters.into_iter().collect();
    let mut state = State::new();
    let configuration = Configuration { voters: voters.clone(), ..Configuration::default() };
    state.configure(LogIndex(1), configuration).expect("nothing was applied before");
    let joins = voters.iter().map(|voter| {
        let (name, store_uuid, addrs) = who(*voter);
        Command::Join { name, store_uuid, addrs }
    });
    for command in [Command::SetPolicy(policy.clone())].into_iter().chain(joins) {
        let index = LogIndex(state.applied().0 + 1);
        let by = NodeId(u64::MAX);
        let proposal = ProposalId { node: by, incarnation: Incarnation(1), sequence: index.0 };
        let entry = Entry { proposal, by, command };
        let folded = state.apply(index, &entry).expect("every build knows these commands");
        let reply = folded.reply;
        assert!(matches!(reply, Reply::Applied(_)), "the cluster cannot be founded: {reply:?}");
    }
    state
}
