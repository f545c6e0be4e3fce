//! Snapshots, log truncation and restarts.

use crate::cluster::{Cluster, n, set};
use narad_core::ids::LogIndex;
use narad_runtime::raft::{
    ConfigurationChange, MemStore, MemberChange, OfferError, Raft, RaftConfig, RaftError,
};

fn small(config: &mut RaftConfig) {
    config.snapshot_entries = 10;
    config.keep_entries = 3;
}

#[test]
fn a_grown_log_is_replaced_by_a_snapshot_with_a_short_rest() {
    let mut cluster = Cluster::tuned(&[1], 1, small);
    for k in 0..95_u8 {
        cluster.commit(&[k]);
    }
    let kept = cluster.node(1).disk.durable();
    let snapshot = kept.snapshot.expect("made");
    assert!(snapshot.position.index.0 >= 90, "{:?}", snapshot.position);
    assert_eq!(kept.truncated.index.0 + 3, snapshot.position.index.0);
    assert!(kept.entries.len() <= 13);
    assert!(kept.hard_state.commit >= snapshot.position.index);
}

#[test]
fn a_log_of_few_large_entries_is_replaced_as_well() {
    let mut cluster = Cluster::tuned(&[1], 1, |config| {
        config.snapshot_bytes = 10_000;
        config.keep_entries = 1_000;
    });
    for k in 0..30_u8 {
        cluster.commit(&[k; 1_000]);
    }
    let kept = cluster.node(1).disk.durable();
    assert!(kept.snapshot.expect("made").position.index.0 > 10);
    // What is kept before it is bounded by bytes too.
    let bytes: usize = kept.entries.iter().map(|entry| entry.bytes.len()).sum();
    assert!(bytes < 22_000, "{bytes}");
}

#[test]
fn a_restart_loads_the_snapshot_and_replays_the_rest() {
    let mut cluster = Cluster::tuned(&[1], 2, small);
    for k in 0..25_u8 {
        cluster.commit(&[k]);
    }
    let before = cluster.machine(1).clone();
    cluster.crash(1);
    cluster.restart(1);
    assert!(cluster.raft(1).status().snapshot > LogIndex(20));
    cluster.elect();
    assert_eq!(cluster.machine(1).entries, before.entries);
}

/// The members that a restart begins with are those of the snapshot's own entry: begun with later
/// ones, the replay would apply a change twice, and refuse to leave a joint phase that it is not in.
#[test]
fn a_restart_replays_changes_of_the_members_too() {
    let mut cluster = Cluster::new(&[1, 2, 3], 3);
    let steps: [&[MemberChange]; 3] = [
        &[MemberChange::AddLearner(n(4))],
        &[MemberChange::Promote(n(4)), MemberChange::Remove(n(3))],
        &[MemberChange::AddLearner(n(5))],
    ];
    cluster.add(4, MemStore::new(n(4)));
    for (k, steps) in steps.iter().enumerate() {
        let context = vec![u8::try_from(k).expect("few")];
        let change = ConfigurationChange { steps: steps.to_vec(), context: context.clone() };
        let leader = cluster.elect();
        if leader == 3 {
            cluster.raft(3).transfer_leadership(n(1)).expect("a voter");
            cluster.deliver();
        }
        let leader = cluster.elect();
        cluster.until("a free moment", |c| c.raft(leader).configure(&change).is_ok());
        cluster.until("the change", |c| c.node(leader).changes.contains(&(context.clone(), true)));
        cluster.until("no joint phase", |c| !c.members(leader).is_joint());
        cluster.commit(&[b'x', context[0]]);
    }
    cluster.agree(&[1, 2, 4]);
    let before = cluster.machine(1).clone();
    assert_eq!(before.members.voters, set(&[1, 2, 4]));
    cluster.node(1).changes.clear();
    cluster.crash(1);
    cluster.restart(1);
    assert_eq!(cluster.raft(1).status().snapshot, LogIndex(1), "nothing but a replay");
    cluster.agree(&[1, 2, 4]);
    assert_eq!(cluster.machine(1).members, before.members);
    // The joint phase's end has no context.
    let contexts: Vec<_> = cluster.node(1).changes.clone();
    assert_eq!(
        contexts,
        [(vec![0], true), (vec![1], true), (vec![], true), (vec![2], true)],
        "all in order, none refused"
    );
}

#[test]
fn a_snapshot_of_an_earlier_entry_carries_the_members_of_that_entry() {
    let mut cluster = Cluster::new(&[1], 4);
    cluster.commit(b"a");
    let early = cluster.machine(1).clone();
    let change = ConfigurationChange {
        steps: vec![MemberChange::AddLearner(n(2))],
        context: b"add".to_vec(),
    };
    cluster.raft(1).configure(&change).expect("nothing is pending");
    cluster.deliver();
    assert_eq!(cluster.members(1).learners, set(&[2]));
    cluster.raft(1).offer_snapshot(LogIndex(early.applied), early.encode()).expect("applied");
    cluster.work(1);
    let snapshot = cluster.node(1).disk.durable().snapshot.expect("made");
    assert_eq!(snapshot.configuration.learners, set(&[]));
    // A peer that the snapshot does not name cannot use it, so another one is made by itself.
    cluster.add(2, MemStore::new(n(2)));
    cluster.agree(&[1, 2]);
}

#[test]
fn a_snapshot_that_does_not_fit_is_refused() {
    let mut cluster = Cluster::tuned(&[1], 5, |config| config.message_bytes_max = 100_000);
    cluster.commit(b"a");
    let applied = LogIndex(cluster.machine(1).applied);
    let raft = cluster.raft(1);
    let newer = LogIndex(applied.0 + 1);
    assert_eq!(
        raft.offer_snapshot(newer, vec![]),
        Err(OfferError::NotApplied { index: newer, applied })
    );
    assert!(matches!(
        raft.offer_snapshot(applied, vec![0; 90_000]),
        Err(OfferError::TooLarge { .. })
    ));
    assert!(matches!(raft.offer_snapshot(LogIndex(1), vec![]), Err(OfferError::Outdated { .. })));
    assert_eq!(raft.offer_snapshot(applied, vec![]), Ok(()));
    assert!(matches!(raft.offer_snapshot(applied, vec![]), Err(OfferError::Outdated { .. })));
}

/// A follower that was away for longer than the log reaches back is fed by a snapshot.
#[test]
fn a_follower_that_is_far_behind_gets_a_snapshot() {
    let mut cluster = Cluster::tuned(&[1, 2, 3], 6, small);
    let leader = cluster.elect();
    let away = leader % 3 + 1;
    cluster.cut_off.insert(away);
    for k in 0..40_u8 {
        cluster.commit(&[k]);
    }
    cluster.cut_off.clear();
    cluster.agree(&[1, 2, 3]);
    assert_eq!(cluster.node(away).restores, 1);
    // It can go on from what it was given.
    cluster.crash(away);
    cluster.restart(away);
    cluster.commit(b"x");
    cluster.agree(&[1, 2, 3]);
}

/// Without a report the library waits for ever for the snapshot's receiver.
#[test]
fn a_snapshot_whose_fate_nobody_reports_is_sent_again() {
    let mut cluster = Cluster::tuned(&[1, 2, 3], 7, |config| {
        small(config);
        config.snapshot_ticks_max = 50;
    });
    let leader = cluster.elect();
    let away = leader % 3 + 1;
    cluster.cut_off.insert(away);
    for k in 0..40_u8 {
        cluster.commit(&[k]);
    }
    cluster.cut_off.clear();
    cluster.hold =
        Box::new(|message| message.get_msg_type() == raft::eraftpb::MessageType::MsgSnapshot);
    cluster.until("a snapshot under way", |c| !c.held.is_empty());
    let pending = cluster.raft(leader).status().progress[&n(away)].pending_snapshot;
    assert!(pending.is_some());
    cluster.hold = Box::new(|_| false);
    cluster.held.clear();
    cluster.ticks(40);
    assert_eq!(cluster.node(away).restores, 0);
    cluster.agree(&[1, 2, 3]);
    assert_eq!(cluster.node(away).restores, 1);
}

/// A caller that makes no snapshots keeps a long log and loses nothing.
#[test]
fn nobody_is_forced_to_make_a_snapshot() {
    let mut cluster = Cluster::tuned(&[1], 8, small);
    cluster.snapshots = false;
    for k in 0..50_u8 {
        cluster.commit(&[k]);
    }
    assert_eq!(cluster.node(1).disk.durable().truncated.index, LogIndex(1));
    cluster.crash(1);
    cluster.restart(1);
    cluster.elect();
    assert_eq!(cluster.machine(1).entries.len(), 50);
}

#[test]
fn a_store_that_contradicts_itself_is_an_error_and_no_panic() {
    use narad_runtime::raft::{Batch, HardState, RaftStore, Term};
    let mut disk = MemStore::new(n(1));
    Raft::bootstrap(&mut disk, &[n(1)], vec![]).expect("empty");
    let beyond = HardState { term: Term(1), vote: None, commit: LogIndex(9) };
    let batch = Batch { hard_state: Some(beyond), must_sync: true, ..Batch::default() };
    disk.commit(&batch).expect("memory");
    let error = Raft::open(RaftConfig::new(n(1), 1), disk).err();
    assert!(matches!(error, Some(RaftError::Inconsistent { .. })), "{error:?}");
}

/// Skipping a committed entry would let replicas diverge; so a node that cannot read one stops.
#[test]
fn a_committed_entry_that_cannot_be_understood_stops_the_node() {
    use narad_runtime::raft::{Batch, HardState, LogEntry, Output, Position, RaftStore, Term};
    use protobuf::Message as _;
    use raft::eraftpb::{Entry, EntryType};
    for kind in [EntryType::EntryConfChange, EntryType::EntryConfChangeV2] {
        let mut disk = MemStore::new(n(1));
        Raft::bootstrap(&mut disk, &[n(1)], vec![]).expect("empty");
        let position = Position { index: LogIndex(2), term: Term(1) };
        let mut entry = Entry::default();
        entry.set_entry_type(kind);
        entry.set_index(2);
        entry.set_term(1);
        entry.set_data(vec![0xff; 3].into());
        let bytes = entry.write_to_bytes().expect("encodable").into();
        let batch = Batch {
            entries: vec![LogEntry { position, bytes }],
            hard_state: Some(HardState { term: Term(1), vote: None, commit: LogIndex(2) }),
            must_sync: true,
            ..Batch::default()
        };
        disk.commit(&batch).expect("memory");
        let (mut raft, _) = Raft::open(RaftConfig::new(n(1), 1), disk).expect("sound so far");
        let mut out = Output::default();
        let error = raft.ready(&mut out).err();
        let index = LogIndex(2);
        assert!(matches!(error, Some(RaftError::UnknownEntry { index: i }) if i == index));
        assert!(matches!(raft.ready(&mut out), Err(RaftError::Stopped)));
    }
}

#[test]
fn an_entry_that_is_not_what_its_place_says_is_an_error() {
    use narad_runtime::raft::{Batch, LogEntry, Position, RaftStore, Term};
    let mut disk = MemStore::new(n(1));
    Raft::bootstrap(&mut disk, &[n(1)], vec![]).expect("empty");
    let position = Position { index: LogIndex(2), term: Term(1) };
    for bytes in [vec![], vec![0xff; 3]] {
        let entries = vec![LogEntry { position, bytes: bytes.into() }];
        let batch = Batch { entries, must_sync: true, ..Batch::default() };
        disk.commit(&batch).expect("memory");
        let error = Raft::open(RaftConfig::new(n(1), 1), disk.clone()).err();
        assert!(matches!(error, Some(RaftError::Inconsistent { .. })), "{error:?}");
    }
}
