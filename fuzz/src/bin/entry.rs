//! Whatever stands in the replicated log: an entry is understood or stops the node, and what is
//! applied leaves a state that a snapshot can carry (case 144, S16).
#![cfg_attr(fuzzing, no_main)]

use narad_core::ids::{
    Incarnation, LogIndex, Name, NodeId, PartitionId, ProposalId, StoreUuid, TopicId,
};
use narad_core::metastore::{Addresses, Command, Entry, Expect, Reply, State};
use narad_runtime::wire::Wire;

narad_fuzz::target!("entry", |input| {
    let mut state = beginning();
    for bytes in narad_fuzz::messages(input).take(64) {
        let Ok(entry) = Entry::from_bytes(bytes) else { continue };
        assert_eq!(Entry::from_bytes(&entry.to_bytes()).as_ref(), Ok(&entry));
        let before = state.clone();
        let Ok(outcome) = state.apply(LogIndex(state.to_parts().applied.0 + 1), &entry) else {
            assert_eq!(state, before, "an entry that stops the node changes nothing");
            continue;
        };
        if let Reply::Rejected(_) = outcome.reply {
            assert!(outcome.changed.is_empty());
        }
        let parts = state.to_parts();
        let restored = State::from_parts(parts.clone()).expect("what was applied can be restored");
        assert_eq!(restored, state);

        let again = state.apply(LogIndex(parts.applied.0 + 1), &entry).expect("as before");
        assert!(again.changed.is_empty(), "the second time changes nothing: {entry:?}");
    }
});

/// A small cluster: three nodes that have registered, one topic of two partitions, one of them on
/// its way.
fn beginning() -> State {
    let mut state = State::new();
    let mut log = 0;
    let mut apply = |by: u64, command: Command| {
        log += 1;
        let node = NodeId(by);
        let proposal = ProposalId { node, incarnation: Incarnation(1), sequence: log };
        let applied = state.apply(LogIndex(log), &Entry { proposal, by: node, command });
        let reply = applied.expect("this build knows it").reply;
        assert!(matches!(reply, Reply::Applied(_)), "{reply:?}");
    };
    let incarnation = Incarnation(1);
    for n in 1..=3 {
        let (node, store_uuid, addrs) = (NodeId(n), StoreUuid(n.into()), Addresses::default());
        let name = name(&format!("n{n}"));
        apply(n, Command::Join { name, store_uuid, addrs: addrs.clone() });
        apply(n, Command::Register { node, store_uuid, incarnation, addrs });
    }
    apply(1, Command::CreateTopic { name: name("t"), partitions: 2, parent: None });
    let partition = |index| PartitionId { topic: TopicId(7), index };
    for index in 0..2 {
        apply(1, Command::AssignPartition { partition: partition(index), node: NodeId(1) });
    }
    let owned = Expect {
        owner: NodeId(1),
        epoch: narad_core::ids::Epoch(1),
        move_id: narad_core::ids::MoveId(1),
    };
    apply(1, Command::SetTarget { partition: partition(0), expect: owned, to: NodeId(2) });
    state
}

fn name(text: &str) -> Name {
    Name::new(text).expect("allowed")
}
