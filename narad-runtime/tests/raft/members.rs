//! Changes of the members (R86, R87, R89): learners, promotion, removal, the joint phase.

use crate::cluster::{Cluster, n, set};
use narad_core::ids::NodeId;
use narad_runtime::raft::{
    ConfigurationChange, ConfigureError, MemStore, MemberChange, ProposeError, Role,
};

fn change(context: &str, steps: &[MemberChange]) -> ConfigurationChange {
    ConfigurationChange { steps: steps.to_vec(), context: context.as_bytes().to_vec() }
}

/// Proposes at the leader until it is taken, then waits until the leader has applied it.
fn configure(cluster: &mut Cluster, change: &ConfigurationChange) {
    let leader = cluster.elect();
    cluster.until("a free moment", |c| c.raft(leader).configure(change).is_ok());
    cluster.deliver();
    let context = change.context.clone();
    cluster.until("the change", |c| {
        c.nodes.values().any(|node| node.changes.contains(&(context.clone(), true)))
    });
}

fn with_learner() -> Cluster {
    let mut cluster = Cluster::new(&[1, 2, 3], 1);
    cluster.commit(b"before");
    cluster.elect();
    configure(&mut cluster, &change("add", &[MemberChange::AddLearner(n(4))]));
    cluster.add(4, MemStore::new(n(4)));
    cluster
}

/// A node that joins knows nobody, yet must believe its first leader. It is fed by a snapshot that
/// names it, which is made when it is needed: the one that there was does not name it.
#[test]
fn a_learner_starts_empty_and_is_fed_by_a_snapshot_made_for_it() {
    let mut cluster = with_learner();
    let leader = cluster.elect();
    assert_eq!(cluster.raft(4).status().configuration.voters, set(&[]));
    cluster.agree(&[1, 2, 3, 4]);
    assert_eq!(cluster.node(4).restores, 1);
    assert_eq!(cluster.machine(4).entries, [b"before".to_vec()]);
    assert_eq!(cluster.members(4).learners, set(&[4]));
    cluster.commit(b"after");
    cluster.agree(&[1, 2, 3, 4]);
    let progress = cluster.raft(leader).status().progress;
    assert!(progress[&n(4)].recent_active && progress[&n(4)].pending_snapshot.is_none());
}

#[test]
fn a_learner_is_promoted_and_a_voter_removed_in_one_joint_change() {
    let mut cluster = with_learner();
    cluster.agree(&[1, 2, 3, 4]);
    let leader = cluster.elect();
    let leaving = leader % 3 + 1;
    let swap = change("swap", &[MemberChange::Promote(n(4)), MemberChange::Remove(n(leaving))]);
    configure(&mut cluster, &swap);
    cluster.until("the end of the joint phase", |c| !c.members(leader).is_joint());
    let voters: Vec<u64> = [1, 2, 3, 4].into_iter().filter(|id| *id != leaving).collect();
    assert_eq!(cluster.members(leader).voters, set(&voters));
    assert_eq!(cluster.members(leader).learners, set(&[]));
    cluster.commit(b"with the new majority");
    cluster.agree(&voters);
    // The removed node was told of the entry before it counted for nothing, or never will be; in
    // neither case does it disturb the others.
    let term = cluster.raft(leader).status().leadership.term;
    cluster.ticks(100);
    assert_eq!(cluster.raft(leader).status().leadership.term, term);
}

/// Removed while cut off, it comes back, never learns of it and deposes nobody.
#[test]
fn a_node_that_never_learns_of_its_removal_disturbs_nobody() {
    let mut cluster = Cluster::new(&[1, 2, 3], 2);
    let leader = cluster.elect();
    let leaving = leader % 3 + 1;
    cluster.cut_off.insert(leaving);
    configure(&mut cluster, &change("out", &[MemberChange::Remove(n(leaving))]));
    cluster.ticks(40);
    cluster.cut_off.clear();
    let term = cluster.raft(leader).status().leadership.term;
    cluster.ticks(300);
    let now = cluster.raft(leader).status().leadership;
    assert_eq!((now.term, now.role), (term, Role::Leader));
    cluster.commit(b"on");
}

/// etcd#11038: a leader that was removed leads on, and the cluster can never write again.
#[test]
fn a_leader_that_is_removed_steps_down_and_another_takes_over() {
    let mut cluster = Cluster::new(&[1, 2, 3], 3);
    cluster.commit(b"a");
    let old = cluster.elect();
    configure(&mut cluster, &change("out", &[MemberChange::Remove(n(old))]));
    assert_ne!(cluster.raft(old).status().leadership.role, Role::Leader);
    assert!(matches!(
        cluster.raft(old).propose(vec![], b"x".to_vec()),
        Err(ProposeError::NotLeader { .. })
    ));
    let new = cluster.elect();
    assert_ne!(new, old);
    assert_eq!(cluster.members(new).voters.len(), 2);
    cluster.commit(b"b");
}

/// The same through a joint phase, which the leaving leader itself ends.
#[test]
fn a_leader_that_a_joint_change_removes_steps_down() {
    let mut cluster = with_learner();
    cluster.agree(&[1, 2, 3, 4]);
    let old = cluster.elect();
    let swap = change("swap", &[MemberChange::Promote(n(4)), MemberChange::Remove(n(old))]);
    configure(&mut cluster, &swap);
    cluster.until("another leader", |c| c.leader().is_some_and(|leader| leader != old));
    let new = cluster.elect();
    cluster.until("the end of the joint phase", |c| !c.members(new).is_joint());
    cluster.commit(b"b");
    assert!(!cluster.members(new).is_member(n(old)));
}

#[test]
fn changes_that_come_too_early_or_make_no_sense_are_refused_with_the_reason() {
    let mut cluster = Cluster::new(&[1, 2, 3], 4);
    let leader = cluster.elect();
    let follower = leader % 3 + 1;
    let add = |id: u64| change("add", &[MemberChange::AddLearner(NodeId(id))]);
    assert!(matches!(
        cluster.raft(follower).configure(&add(4)),
        Err(ConfigureError::Propose(ProposeError::NotLeader { .. }))
    ));
    let raft = cluster.raft(leader);
    assert!(matches!(raft.configure(&add(1)), Err(ConfigureError::Invalid(_))));
    assert!(matches!(raft.configure(&add(0)), Err(ConfigureError::Invalid(_))));
    let all: Vec<_> = (1..=3).map(|id| MemberChange::Remove(n(id))).collect();
    assert!(matches!(raft.configure(&change("none", &all)), Err(ConfigureError::Invalid(_))));
    assert_eq!(raft.leave_joint(vec![]), Err(ConfigureError::NotJoint));
    assert_eq!(raft.configure(&add(4)), Ok(()));
    assert_eq!(raft.configure(&add(5)), Err(ConfigureError::Pending));
    cluster.deliver();
    assert_eq!(cluster.members(leader).learners, set(&[4]));
    assert_eq!(cluster.raft(leader).configure(&add(5)), Ok(()));
}

/// A joint phase that its leader will not end: here because it was begun that way.
#[test]
fn a_joint_phase_that_nobody_ends_can_be_left() {
    use narad_core::ids::LogIndex;
    use narad_runtime::raft::{
        Batch, Configuration, Cut, HardState, Position, RaftStore, Snapshot, Term,
    };
    let mut cluster = Cluster::new(&[], 6);
    for id in [1, 2, 3] {
        let position = Position { index: LogIndex(1), term: Term(1) };
        let configuration = Configuration {
            voters_outgoing: set(&[1, 2]),
            ..Configuration::of_voters(set(&[2, 3]))
        };
        let mut disk = MemStore::new(n(id));
        let batch = Batch {
            cut: Some(Cut::Whole(position)),
            hard_state: Some(HardState { term: Term(1), vote: None, commit: LogIndex(1) }),
            snapshot: Some(Snapshot { position, configuration, data: vec![].into() }),
            must_sync: true,
            ..Batch::default()
        };
        disk.commit(&batch).expect("memory");
        cluster.add(id, disk);
    }
    let leader = cluster.elect();
    cluster.ticks(20);
    assert!(cluster.members(leader).is_joint());
    let add = change("add", &[MemberChange::AddLearner(n(4))]);
    assert_eq!(cluster.raft(leader).configure(&add), Err(ConfigureError::Joint));
    assert_eq!(cluster.raft(leader).leave_joint(b"leave".to_vec()), Ok(()));
    assert_eq!(cluster.raft(leader).leave_joint(vec![]), Err(ConfigureError::Pending));
    cluster.until("the end", |c| c.node(leader).changes == [(b"leave".to_vec(), true)]);
    assert!(!cluster.members(leader).is_joint());
    assert_eq!(cluster.members(leader).voters, set(&[2, 3]));
    cluster.commit(b"after");
}

/// If leadership changes just as the joint phase begins, the next leader ends it, or can be told to.
#[test]
fn a_joint_phase_outlives_the_leader_that_began_it() {
    let mut cluster = with_learner();
    cluster.agree(&[1, 2, 3, 4]);
    let old = cluster.elect();
    let swap = change("swap", &[MemberChange::Promote(n(4)), MemberChange::Remove(n(old))]);
    cluster.until("a free moment", |c| c.raft(old).configure(&swap).is_ok());
    // The entry reaches the others, and before its end is proposed there, the leader is gone.
    cluster.work(old);
    cluster.hold =
        Box::new(|message| message.get_msg_type() == raft::eraftpb::MessageType::MsgAppendResponse);
    cluster.deliver();
    cluster.crash(old);
    cluster.held.clear();
    cluster.hold = Box::new(|_| false);
    // Three of the old side and the new side are left: 2 of {1,2,3} and 3 of {1,2,3,4} - {old}.
    let new = cluster.elect();
    cluster.until("the joint phase begins", |c| {
        c.node(new).changes.contains(&(b"swap".to_vec(), true))
    });
    for _ in 0..50 {
        if !cluster.members(new).is_joint() {
            break;
        }
        let _ = cluster.raft(new).leave_joint(b"leave".to_vec());
        cluster.tick();
    }
    assert!(!cluster.members(new).is_joint());
    assert!(!cluster.members(new).is_member(n(old)));
    cluster.commit(b"after");
}
