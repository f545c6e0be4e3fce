//! How a store begins, and whether what it holds can be started from.

use super::error::RaftError;
use super::membership::Configuration;
use super::output::Term;
use super::store::{Batch, Cut, HardState, Loaded, Position, RaftStore, Snapshot};
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};

/// Where the log of a new cluster begins: what would be its first entry is a snapshot.
const ORIGIN: Position = Position { index: LogIndex(1), term: Term(1) };

/// Fills an empty store of a new cluster's voter.
///
/// Every first voter gets the same: members and the initial state machine, as if a snapshot at the
/// first entry had been received. Nobody is ever "added" by an entry at the beginning, since each
/// voter would have to be one before it could agree to become one; and as the log begins after
/// that entry, a node that joins later can only begin by a snapshot.
pub(super) fn bootstrap<S: RaftStore>(
    store: &mut S,
    voters: &[NodeId],
    state: Bytes,
) -> Result<(), RaftError> {
    let loaded = store.load()?;
    if loaded != Loaded::empty(loaded.id) {
        return Err(RaftError::NotEmpty);
    }
    let configuration = Configuration::of_voters(voters.iter().copied());
    if let Some(defect) = configuration.defect() {
        return Err(RaftError::Config(format!("the first configuration {defect}")));
    }
    if !configuration.is_voter(loaded.id) {
        let reason = format!("node {} is none of the first voters", loaded.id);
        return Err(RaftError::Config(reason));
    }
    store.commit(&Batch {
        cut: Some(Cut::Whole(ORIGIN)),
        hard_state: Some(HardState { term: ORIGIN.term, vote: None, commit: ORIGIN.index }),
        snapshot: Some(Snapshot { position: ORIGIN, configuration, data: state }),
        must_sync: true,
        ..Batch::default()
    })?;
    Ok(())
}

/// Checks what a store holds, because the consensus library ends the process where it does not
/// fit: a commit index beyond the log, an applied index beyond the commit index, members that make
/// no sense.
pub(super) fn check(loaded: &Loaded, id: NodeId) -> Result<(), RaftError> {
    if loaded.id != id {
        return Err(RaftError::WrongNode { stored: loaded.id, asked: id });
    }
    match defect(loaded) {
        Some(reason) => Err(RaftError::Inconsistent { reason }),
        None => Ok(()),
    }
}

fn defect(loaded: &Loaded) -> Option<String> {
    let Loaded { hard_state, truncated, snapshot, entries, .. } = loaded;
    let mut last = *truncated;
    for entry in entries {
        let next = entry.position;
        if next.index.0 != last.index.0 + 1 {
            return Some(format!("after entry {last:?} comes {next:?}"));
        }
        if next.term < last.term {
            return Some(format!("terms go back from {last:?} to {next:?}"));
        }
        last = next;
    }
    if last.term > hard_state.term {
        return Some(format!("{last:?} is from a later term than {:?}", hard_state.term));
    }
    if hard_state.commit > last.index {
        return Some(format!("{:?} is committed, the log ends at {last:?}", hard_state.commit));
    }
    let Some(snapshot) = snapshot else {
        let empty = truncated.index == LogIndex(0);
        return (!empty).then(|| format!("the log begins after {truncated:?}, without a snapshot"));
    };
    let at = snapshot.position;
    if let Some(defect) = snapshot.configuration.defect() {
        return Some(format!("the configuration at {at:?} {defect}"));
    }
    if at.index < truncated.index || at.index > hard_state.commit {
        let commit = hard_state.commit;
        return Some(format!(
            "a snapshot at {at:?}, but the log begins after {truncated:?} and {commit:?} is committed"
        ));
    }
    let index = at.index;
    let logged = std::iter::once(*truncated).chain(entries.iter().map(|entry| entry.position));
    let logged = logged.into_iter().find(|position| position.index == index);
    (logged != Some(at)).then(|| format!("a snapshot at {at:?}, but the log has {logged:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::store::LogEntry;
    use crate::raft::store::memory::MemStore;

    fn at(index: u64, term: u64) -> Position {
        Position { index: LogIndex(index), term: Term(term) }
    }

    fn sound() -> Loaded {
        let mut store = MemStore::new(NodeId(1));
        bootstrap(&mut store, &[NodeId(1)], Bytes::new()).expect("an empty store");
        let mut loaded = store.load().expect("memory");
        loaded.entries = [at(2, 1), at(3, 4)]
            .map(|position| LogEntry { position, bytes: Bytes::new() })
            .to_vec();
        loaded.hard_state.term = Term(4);
        loaded
    }

    fn broken(change: impl FnOnce(&mut Loaded)) -> bool {
        let mut loaded = sound();
        change(&mut loaded);
        matches!(check(&loaded, NodeId(1)), Err(RaftError::Inconsistent { .. }))
    }

    #[test]
    fn a_sound_store_passes() {
        assert!(check(&sound(), NodeId(1)).is_ok());
        assert!(check(&Loaded::empty(NodeId(1)), NodeId(1)).is_ok());
    }

    #[test]
    fn each_contradiction_is_an_error_and_no_panic() {
        assert!(broken(|l| l.hard_state.commit = LogIndex(9)));
        assert!(broken(|l| l.hard_state.commit = LogIndex(0)));
        assert!(broken(|l| l.hard_state.term = Term(3)));
        assert!(broken(|l| drop(l.entries.remove(0))));
        assert!(broken(|l| l.entries[1].position.term = Term(0)));
        assert!(broken(|l| l.snapshot = None));
        assert!(broken(|l| l.truncated.term = Term(0)));
        assert!(broken(|l| l.snapshot.as_mut().expect("there").position = at(2, 3)));
        assert!(broken(|l| {
            l.snapshot.as_mut().expect("there").configuration = Configuration::default();
        }));
        assert!(matches!(check(&sound(), NodeId(2)), Err(RaftError::WrongNode { .. })));
    }

    #[test]
    fn a_cluster_is_bootstrapped_once_and_with_sense() {
        let mut store = MemStore::new(NodeId(1));
        let mut begin = |voters: &[u64]| {
            let voters: Vec<_> = voters.iter().copied().map(NodeId).collect();
            bootstrap(&mut store, &voters, Bytes::new())
        };
        assert!(matches!(begin(&[]), Err(RaftError::Config(_))));
        assert!(matches!(begin(&[0, 1]), Err(RaftError::Config(_))));
        assert!(matches!(begin(&[2, 3]), Err(RaftError::Config(_))));
        assert!(begin(&[1, 2, 3]).is_ok());
        assert!(matches!(begin(&[1, 2, 3]), Err(RaftError::NotEmpty)));
    }
}
