//! A power failure at every single commit of a node, before and after it is durable.

use crate::cluster::{Cluster, n};
use narad_runtime::raft::{ConfigurationChange, FailurePoint, MemStore, MemberChange, RaftConfig};

fn small(config: &mut RaftConfig) {
    config.snapshot_entries = 6;
    config.keep_entries = 2;
}

/// Elects, commits, changes the members, makes snapshots; brings the victim back when it has died.
/// Returns how many commits the victim's disk saw.
fn run(victim: u64, failure: Option<(u64, FailurePoint)>) -> u64 {
    let mut cluster = Cluster::tuned(&[1, 2, 3], 11, small);
    let before = cluster.node(victim).disk.commits();
    if let Some((nth, point)) = failure {
        cluster.node(victim).disk.fail_commit(nth, point);
    }
    let mut acknowledged: Vec<Vec<u8>> = Vec::new();
    for k in 0..16_u8 {
        if k == 5 {
            let change = ConfigurationChange {
                steps: vec![MemberChange::AddLearner(n(4))],
                context: b"add".to_vec(),
            };
            cluster.until("the change", |c| {
                revive(c, victim);
                let Some(leader) = c.leader() else { return false };
                let _ = c.raft(leader).configure(&change);
                c.members(leader).is_member(n(4))
            });
            if !cluster.nodes.contains_key(&4) {
                cluster.add(4, MemStore::new(n(4)));
            }
        }
        let data = vec![k];
        cluster.until("a commit that a leader acknowledges", |c| {
            revive(c, victim);
            let Some(leader) = c.leader() else { return false };
            if c.machine(leader).entries.contains(&data) {
                return true;
            }
            let _ = c.raft(leader).propose(vec![], data.clone());
            c.deliver();
            c.nodes[&leader].raft.is_some() && c.machine(leader).entries.contains(&data)
        });
        acknowledged.push(data);
    }
    let commits = cluster.node(victim).disk.commits() - before;
    cluster.until("the victim back", |c| {
        revive(c, victim);
        c.nodes[&victim].raft.is_some()
    });
    cluster.agree(&[1, 2, 3, 4]);
    for data in &acknowledged {
        assert!(cluster.machine(victim).entries.contains(data), "{data:?} was acknowledged");
    }
    commits
}

fn revive(cluster: &mut Cluster, victim: u64) {
    if cluster.nodes[&victim].raft.is_none() {
        cluster.crash(victim);
        cluster.restart(victim);
    }
}

/// S1 for the metastore: no acknowledged entry is lost, no term has two leaders, and no index two
/// contents (the latter two are asserted throughout by the cluster).
#[test]
fn a_crash_at_any_commit_of_any_node_loses_nothing() {
    let mut points = 0;
    for victim in [1, 2, 3] {
        let commits = run(victim, None);
        assert!(commits > 20, "the run exercises the disk: {commits}");
        for nth in 1..=commits {
            for point in [FailurePoint::BeforeWrite, FailurePoint::AfterSync] {
                run(victim, Some((nth, point)));
                points += 1;
            }
        }
    }
    assert!(points > 120, "{points}");
}

/// A single voter has nobody to ask: what it acknowledged is on its disk alone.
#[test]
fn a_single_voter_keeps_what_it_acknowledged_through_any_crash() {
    for point in [FailurePoint::BeforeWrite, FailurePoint::AfterSync] {
        for nth in 1..40 {
            let mut cluster = Cluster::tuned(&[1], 12, small);
            cluster.node(1).disk.fail_commit(nth, point);
            let mut acknowledged = Vec::new();
            for k in 0..30_u8 {
                let Some(raft) = cluster.node(1).raft.as_mut() else { break };
                if raft.propose(vec![], vec![k]).is_ok() {
                    cluster.deliver();
                }
                cluster.tick();
                acknowledged = cluster.machine(1).entries.clone();
            }
            cluster.crash(1);
            cluster.restart(1);
            cluster.elect();
            let kept = cluster.machine(1).entries.clone();
            assert_eq!(kept[..acknowledged.len()], acknowledged[..], "{point:?} at {nth}");
        }
    }
}

/// A leader speaks before its own disk does: the followers hold and commit an entry that it has lost
/// in a crash, and it gets the entry back from them.
#[test]
fn what_a_leader_said_and_then_lost_comes_back_to_it() {
    let mut cluster = Cluster::new(&[1, 2, 3], 21);
    let leader = cluster.elect();
    let commits = cluster.node(leader).disk.commits();
    cluster.node(leader).disk.fail_commit(1, FailurePoint::BeforeWrite);
    cluster.raft(leader).propose(vec![], b"said".to_vec()).expect("it leads");
    cluster.deliver();
    assert!(cluster.nodes[&leader].raft.is_none(), "its disk has failed");
    assert_eq!(cluster.node(leader).disk.commits(), commits + 1);
    cluster.crash(leader);
    let others: Vec<u64> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    cluster.until("the others have it", |c| {
        others.iter().all(|id| c.machine(*id).entries.contains(&b"said".to_vec()))
    });
    cluster.restart(leader);
    cluster.agree(&[1, 2, 3]);
}

/// A single voter with a learner: a term that is not durable yet is not spoken of, or the learner
/// would hold entries of a term that its leader begins once more with others.
#[test]
fn a_single_voter_and_its_learner_never_differ() {
    for point in [FailurePoint::BeforeWrite, FailurePoint::AfterSync] {
        for nth in 1..24 {
            let mut cluster = Cluster::new(&[1], 22);
            let add = ConfigurationChange {
                steps: vec![MemberChange::AddLearner(n(2))],
                context: b"add".to_vec(),
            };
            let leader = cluster.elect();
            cluster.raft(leader).configure(&add).expect("it leads");
            cluster.add(2, MemStore::new(n(2)));
            cluster.commit(b"first");
            cluster.agree(&[1, 2]);
            cluster.node(1).disk.fail_commit(nth, point);
            for k in 0..12_u8 {
                // Now and then it starts anew, and leads a new term.
                if k % 4 == 3 {
                    cluster.crash(1);
                }
                revive(&mut cluster, 1);
                for _ in 0..30 {
                    cluster.tick();
                    let Some(raft) = cluster.node(1).raft.as_mut() else { break };
                    if raft.propose(vec![], vec![k]).is_ok() {
                        break;
                    }
                }
                cluster.deliver();
            }
            revive(&mut cluster, 1);
            cluster.elect();
            cluster.agree(&[1, 2]);
        }
    }
}

/// Entries alone leave the commit index where it is, but for so many of them, and any leader tells it
/// again: what everybody has lost of it comes back with the next election.
#[test]
fn the_commit_index_is_written_now_and_then_and_found_again() {
    let mut cluster = Cluster::new(&[1, 2, 3], 31);
    for k in 0..200_u8 {
        cluster.commit(&[k]);
    }
    cluster.agree(&[1, 2, 3]);
    for id in [1, 2, 3] {
        let commit = cluster.raft(id).status().commit.0;
        let durable = cluster.node(id).disk.durable().hard_state.commit.0;
        assert!(durable + 65 >= commit, "{durable} of {commit} at {id}");
        assert!(durable + 1 < commit, "not each entry writes it: {durable} of {commit} at {id}");
    }
    for id in [1, 2, 3] {
        cluster.crash(id);
    }
    for id in [1, 2, 3] {
        cluster.restart(id);
    }
    cluster.commit(&[200]);
    cluster.agree(&[1, 2, 3]);
    let all: Vec<Vec<u8>> = (0..=200_u8).map(|k| vec![k]).collect();
    assert_eq!(cluster.machine(1).entries, all);
}

/// Whoever holds a change of the members knows after any crash that all earlier ones are committed:
/// with members that are two changes old, two majorities could have nobody in common.
#[test]
fn a_change_of_the_members_brings_along_what_was_committed_before_it() {
    let mut cluster = Cluster::new(&[1, 2, 3], 32);
    cluster.commit(b"before");
    for (context, learner) in [("first", 4), ("second", 5)] {
        let change = ConfigurationChange {
            steps: vec![MemberChange::AddLearner(n(learner))],
            context: context.as_bytes().to_vec(),
        };
        cluster.until("the change", |c| {
            let Some(leader) = c.leader() else { return false };
            let _ = c.raft(leader).configure(&change);
            c.members(leader).is_member(n(learner))
        });
        cluster.commit(context.as_bytes());
    }
    for id in [1, 2, 3] {
        cluster.crash(id);
    }
    for id in [1, 2, 3] {
        cluster.restart(id);
        // It has heard nobody: it knows only what its own disk says.
        assert!(
            cluster.members(id).is_member(n(4)),
            "{id} stands with the members of the first change"
        );
    }
}
