//! The replicated log of a node: made before the first start, opened at every other.

use narad_core::config::Policy;
use narad_core::ids::{Incarnation, LogIndex, NodeId, ProposalId};
use narad_core::metastore::{Applied, Command, Configuration, Entry, Parts, Reply, State};
use narad_core::node::Identity as NodeIdentity;

use super::ServerError;
use crate::raft::{Loaded, Raft, RaftConfig, RaftStore as _, RedbStore};
use crate::replica::load;
use crate::settings::Settings;
use crate::wire::Wire;

/// Opens the node's replicated log, or makes it if the node has never run. This comes before the
/// first start is counted: whoever is counted and has no log has lost it.
pub(super) fn open_store(
    settings: &Settings,
    me: &NodeIdentity,
    founder: bool,
    has_started: bool,
) -> Result<RedbStore, ServerError> {
    let node = me.node;
    let path = settings.data_dir.join("raft.redb");
    let fail = |source| ServerError::RaftStore { path: path.clone(), source };
    // A log that was lost is never begun anew: its promises would be forgotten.
    if has_started {
        return RedbStore::open(&path).map_err(fail);
    }
    let mut store =
        if path.exists() { RedbStore::open(&path) } else { RedbStore::create(&path, node) }
            .map_err(fail)?;
    let loaded = store.load().map_err(fail)?;
    let is_empty = loaded == Loaded::empty(node);
    // A first start that ended early leaves an empty log, or the founder's first entry.
    let is_unused = loaded.entries.is_empty() && loaded.hard_state.commit <= LogIndex(1);
    if !is_unused {
        return Err(ServerError::NoIncarnation { path: settings.data_dir.join("incarnation") });
    }
    if founder && is_empty {
        let state = first_state(me, &settings.policy).to_bytes();
        Raft::bootstrap(&mut store, &[node], state)?;
    }
    Ok(store)
}

pub(super) fn open_raft(
    settings: &Settings,
    node: NodeId,
    life: Incarnation,
    store: RedbStore,
) -> Result<(Raft<RedbStore>, State), ServerError> {
    let config = RaftConfig {
        election_ticks_min: settings.raft.election_ticks_min as usize,
        election_ticks_max: settings.raft.election_ticks_max as usize,
        heartbeat_ticks: settings.raft.heartbeat_ticks as usize,
        ..RaftConfig::new(node, life.0)
    };
    let (raft, restored) = Raft::open(config, store)?;
    let state = restored.as_ref().map(load).transpose()?.unwrap_or_default();
    Ok((raft, state))
}

/// Returns the state of a cluster that has one member, which votes, a policy and nothing else. The
/// founder is in it from the first, so that nobody who joins early is given its id.
fn first_state(founder: &NodeIdentity, policy: &Policy) -> Parts {
    let NodeIdentity { node, name, store_uuid, addrs } = founder.clone();
    let join = Entry {
        proposal: ProposalId { node, incarnation: Incarnation(0), sequence: 0 },
        by: node,
        command: Command::Join { name, store_uuid, addrs },
    };
    let configuration = Configuration { voters: [node].into(), ..Configuration::default() };
    let mut state = State::new();
    let joined = state.apply(LogIndex(1), &join).expect("it is the first entry");
    assert_eq!(joined.reply, Reply::Applied(Applied::Joined(node)), "ids count from the founder's");
    state.configure(LogIndex(1), configuration).expect("it belongs to the first entry");
    Parts { policy: policy.clone(), ..state.to_parts() }
}
