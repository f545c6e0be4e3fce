//! Read barriers (R77, R79): never older than what was committed when they were asked for.

use crate::cluster::{Cluster, n};
use narad_core::ids::LogIndex;
use raft::eraftpb::MessageType;

fn passed(cluster: &mut Cluster, id: u64) -> Vec<LogIndex> {
    cluster.node(id).reads.iter().map(|(_, index)| *index).collect()
}

#[test]
fn a_barrier_passes_on_leader_and_follower_once_the_entry_is_applied() {
    let mut cluster = Cluster::new(&[1, 2, 3], 1);
    cluster.commit(b"a");
    let leader = cluster.elect();
    let committed = cluster.raft(leader).status().commit;
    for id in [1, 2, 3] {
        let read = cluster.raft(id).read_index();
        cluster.deliver();
        assert_eq!(cluster.node(id).reads.last().map(|(id, _)| *id), Some(read));
        assert!(passed(&mut cluster, id).last() >= Some(&committed));
        assert!(cluster.machine(id).applied >= committed.0);
    }
}

/// The library drops such a request without a word.
#[test]
fn a_barrier_asked_for_without_a_leader_passes_after_the_election() {
    let mut cluster = Cluster::new(&[1, 2, 3], 2);
    for id in [1, 2, 3] {
        cluster.raft(id).read_index();
    }
    cluster.deliver();
    assert_eq!(passed(&mut cluster, 1), []);
    cluster.until("all three", |c| (1..=3).all(|id| !c.node(id).reads.is_empty()));
}

/// A leader that has committed nothing in its term drops requests too.
#[test]
fn a_barrier_asked_for_right_after_an_election_passes() {
    let mut cluster = Cluster::new(&[1, 2, 3], 3);
    cluster.commit(b"a");
    let old = cluster.elect();
    cluster.cut_off.insert(old);
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != old).collect();
    cluster.until("a new leader", |c| c.leader().is_some());
    for id in &others {
        cluster.raft(*id).read_index();
    }
    cluster.until("both", |c| others.iter().all(|id| !c.node(*id).reads.is_empty()));
}

/// Whatever is lost with a leader is asked of the next one.
#[test]
fn a_barrier_outlives_its_leader() {
    let mut cluster = Cluster::new(&[1, 2, 3], 4);
    cluster.commit(b"a");
    let old = cluster.elect();
    let follower = old % 3 + 1;
    cluster.cut_off.insert(old);
    cluster.raft(follower).read_index();
    cluster.raft(old).read_index();
    cluster.ticks(3);
    assert_eq!(passed(&mut cluster, follower), []);
    cluster.commit(b"b");
    let applied = cluster.machine(cluster.leader().expect("just committed")).applied;
    cluster.until("the follower's", |c| !c.node(follower).reads.is_empty());
    // A leader without a quorum must not answer, and later answers with what was committed since.
    assert_eq!(passed(&mut cluster, old), []);
    cluster.cut_off.clear();
    cluster.until("the old leader's", |c| !c.node(old).reads.is_empty());
    assert!(passed(&mut cluster, old)[0].0 >= applied);
    assert_eq!(cluster.machine(old).entries, [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_lost_request_is_made_again_within_an_election_timeout() {
    let mut cluster = Cluster::new(&[1, 2, 3], 5);
    let leader = cluster.elect();
    cluster.ticks(5);
    let follower = leader % 3 + 1;
    cluster.weather.drop = 1000;
    cluster.raft(follower).read_index();
    cluster.deliver();
    cluster.weather.drop = 0;
    cluster.ticks(9);
    assert_eq!(passed(&mut cluster, follower), []);
    cluster.ticks(2);
    assert_eq!(passed(&mut cluster, follower).len(), 1);
}

#[test]
fn a_cancelled_barrier_does_not_return() {
    let mut cluster = Cluster::new(&[1, 2, 3], 6);
    let first = cluster.raft(1).read_index();
    let second = cluster.raft(1).read_index();
    cluster.raft(1).cancel_read(first);
    cluster.elect();
    cluster.ticks(30);
    assert_eq!(cluster.node(1).reads.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [second]);
}

/// Reads between two turns share one round of heartbeats.
#[test]
fn a_thousand_barriers_cost_no_more_messages_than_one() {
    let cost = |reads: usize| {
        let mut cluster = Cluster::new(&[1, 2, 3], 7);
        let leader = cluster.elect();
        cluster.ticks(5);
        let follower = leader % 3 + 1;
        let before = cluster.delivered;
        for _ in 0..reads {
            cluster.raft(follower).read_index();
        }
        cluster.deliver();
        assert_eq!(cluster.node(follower).reads.len(), reads);
        cluster.delivered - before
    };
    assert_eq!(cost(1000), cost(1));
}

/// An answer that was under way since before a restart may be older than what was committed since.
#[test]
fn an_answer_to_an_earlier_life_is_ignored() {
    let mut cluster = Cluster::new(&[1, 2, 3], 8);
    cluster.commit(b"a");
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    // The request is answered, and the answer stays in the network.
    cluster.hold = Box::new(|message| message.get_msg_type() == MessageType::MsgReadIndexResp);
    cluster.raft(follower).read_index();
    cluster.deliver();
    assert_eq!(cluster.held.len(), 1);
    cluster.crash(follower);
    cluster.commit(b"b");
    cluster.restart(follower);
    cluster.until("it follows again", |c| c.machine(follower).entries.len() == 2);
    cluster.cut_off.insert(follower);
    cluster.raft(follower).read_index();
    cluster.work(follower);
    for (from, message) in std::mem::take(&mut cluster.held) {
        let _ = cluster.raft(follower).step(n(from), &message.bytes);
        cluster.work(follower);
    }
    assert_eq!(passed(&mut cluster, follower), []);
}

/// The answer may reach a follower before the entries that it is about.
#[test]
fn a_barrier_waits_until_its_entry_is_applied() {
    let mut cluster = Cluster::new(&[1, 2, 3], 9);
    let leader = cluster.elect();
    cluster.ticks(5);
    let follower = leader % 3 + 1;
    cluster.hold = Box::new(move |message| {
        message.get_to() == follower && message.get_msg_type() == MessageType::MsgAppend
    });
    cluster.commit(b"a");
    cluster.raft(follower).read_index();
    cluster.ticks(2);
    assert_eq!(passed(&mut cluster, follower), []);
    assert_eq!(cluster.machine(follower).entries.len(), 0);
    cluster.hold = Box::new(|_| false);
    cluster.until("the barrier", |c| !c.node(follower).reads.is_empty());
    assert_eq!(cluster.machine(follower).entries, [b"a".to_vec()]);
}
