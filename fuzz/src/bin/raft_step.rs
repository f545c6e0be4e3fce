//! A peer cannot end a node, whatever it sends in whatever order, and the node stays one that can be
//! started again.
#![cfg_attr(fuzzing, no_main)]

use narad_core::ids::NodeId;
use narad_runtime::raft::{MemStore, Output, Raft, RaftConfig, RaftLogging, RaftStore as _};

narad_fuzz::target!("raft_step", |input| {
    let Some((&how, input)) = input.split_first() else { return };
    let voters = if how & 1 == 0 { vec![1, 2, 3] } else { vec![1] };
    let voters: Vec<NodeId> = voters.into_iter().map(NodeId).collect();
    let mut disk = MemStore::new(NodeId(1));
    if how & 2 == 0 {
        Raft::bootstrap(&mut disk, &voters, b"state".to_vec()).expect("an empty store");
    }
    let mut raft = open(disk.clone());
    let mut out = Output::default();
    for (n, message) in narad_fuzz::messages(input).take(64).enumerate() {
        if message.is_empty() {
            // Time passes: enough for an election now and then.
            (0..7).for_each(|_| raft.tick());
        }
        let _ = raft.step(NodeId(2 + n as u64 % 2), message);
        if n % 2 == 0 {
            work(&mut raft, &mut out);
        }
    }
    work(&mut raft, &mut out);
    drop(raft);
    disk.crash();
    disk.load().expect("memory");
    work(&mut open(disk), &mut out);
});

fn open(disk: MemStore) -> Raft<MemStore> {
    let config = RaftConfig {
        election_seed: Some(7),
        logging: RaftLogging::Silent,
        ..RaftConfig::new(NodeId(1), 1)
    };
    Raft::open(config, disk).expect("what the node wrote can be read").0
}

fn work(raft: &mut Raft<MemStore>, out: &mut Output) {
    for _ in 0..100 {
        raft.ready(out).expect("memory");
        if !out.more {
            return;
        }
    }
    panic!("a node that is told nothing new comes to rest");
}
