//! What one entry of the replicated log costs each node, and what a snapshot does.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use narad_core::ids::{
    Epoch, Incarnation, LogIndex, MoveId, Name, NodeId, PartitionId, ProposalId, StoreUuid, TopicId,
};
use narad_core::metastore::{Addresses, Command, Entry, Expect, Parts, Reply, State};
use narad_runtime::wire::Wire;

/// Partitions that the state holds.
const PARTITIONS: &[u32] = if cfg!(debug_assertions) { &[1_000] } else { &[1_000, 100_000] };

fn main() {
    divan::main();
}

struct Log(State);

impl Log {
    /// Three nodes, and one topic with all its partitions on the first.
    fn of(partitions: u32) -> Self {
        let mut log = Self(State::new());
        for n in 1..=3 {
            let (node, store_uuid, addrs) = (NodeId(n), StoreUuid(n.into()), Addresses::default());
            let (name, incarnation) = (name(&format!("n{n}")), Incarnation(1));
            log.apply(n, Command::Join { name, store_uuid, addrs: addrs.clone() });
            log.apply(n, Command::Register { node, store_uuid, incarnation, addrs });
        }
        log.apply(1, Command::CreateTopic { name: name("t"), partitions, parent: None });
        for index in 0..partitions {
            let partition = PartitionId { topic: TOPIC, index };
            log.apply(1, Command::AssignPartition { partition, node: NodeId(1) });
        }
        log
    }

    fn apply(&mut self, by: u64, command: Command) {
        let index = self.0.applied().next();
        let LogIndex(sequence) = index;
        let node = NodeId(by);
        let proposal = ProposalId { node, incarnation: Incarnation(1), sequence };
        let reply = self.0.apply(index, &Entry { proposal, by: node, command });
        let reply = reply.expect("this build knows it").reply;
        assert!(matches!(reply, Reply::Applied(_)), "{reply:?}");
    }
}

const TOPIC: TopicId = TopicId(7);

fn name(text: &str) -> Name {
    Name::new(text).expect("a plain name")
}

/// A plan and its cancellation: two entries.
#[divan::bench(args = PARTITIONS)]
fn set_and_clear_a_target(bencher: Bencher<'_, '_>, partitions: u32) {
    let mut log = Log::of(partitions);
    let partition = PartitionId { topic: TOPIC, index: partitions / 2 };
    let mut move_id = MoveId(1);
    bencher.counter(ItemsCount::new(2_usize)).bench_local(|| {
        let expect = Expect { owner: NodeId(1), epoch: Epoch(1), move_id };
        log.apply(1, Command::SetTarget { partition, expect, to: NodeId(2) });
        move_id = move_id.next();
        log.apply(1, Command::ClearTarget { partition, move_id });
        move_id = move_id.next();
    });
}

/// A snapshot is made, and encoded.
#[divan::bench(args = PARTITIONS)]
fn snapshot(bencher: Bencher<'_, '_>, partitions: u32) {
    let log = Log::of(partitions);
    bencher.counter(ItemsCount::new(partitions)).bench_local(|| log.0.to_parts().to_bytes());
}

/// A snapshot is decoded, checked and taken over.
#[divan::bench(args = PARTITIONS)]
fn restore(bencher: Bencher<'_, '_>, partitions: u32) {
    let bytes = Log::of(partitions).0.to_parts().to_bytes();
    bencher.counter(ItemsCount::new(partitions)).bench_local(|| {
        let parts = Parts::from_bytes(black_box(&bytes)).expect("just encoded");
        State::from_parts(parts).expect("a real state")
    });
}
