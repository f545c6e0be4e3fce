//! Elections, commits, hand-over: what happens on a good day.

use crate::cluster::{Cluster, n};
use narad_core::ids::NodeId;
use narad_runtime::raft::{
    MemStore, Output, ProposeError, Raft, RaftConfig, RaftError, Role, TransferError,
};

/// R4: exactly one node leads, and every node says the same one.
#[test]
fn three_voters_elect_one_leader_that_all_know() {
    let mut cluster = Cluster::new(&[1, 2, 3], 1);
    let leader = cluster.elect();
    cluster.ticks(5);
    for id in [1, 2, 3] {
        let now = cluster.raft(id).status().leadership;
        assert_eq!(now.leader, Some(n(leader)));
        assert_eq!(now.role == Role::Leader, id == leader);
    }
}

#[test]
fn what_is_proposed_is_applied_on_all_nodes_in_order() {
    let mut cluster = Cluster::new(&[1, 2, 3], 2);
    for k in 0..20_u8 {
        cluster.commit(&[k]);
    }
    cluster.agree(&[1, 2, 3]);
    let expected: Vec<Vec<u8>> = (0..20).map(|k| vec![k]).collect();
    assert_eq!(cluster.machine(1).entries, expected);
}

/// R13: a follower does not forward by itself; it says who leads.
#[test]
fn a_followers_refusal_names_the_leader() {
    let mut cluster = Cluster::new(&[1, 2, 3], 3);
    assert_eq!(
        cluster.raft(1).propose(vec![], b"x".to_vec()),
        Err(ProposeError::NotLeader { leader: None })
    );
    let leader = cluster.elect();
    cluster.ticks(5);
    let follower = leader % 3 + 1;
    assert_eq!(
        cluster.raft(follower).propose(vec![], b"x".to_vec()),
        Err(ProposeError::NotLeader { leader: Some(n(leader)) })
    );
    assert_eq!(
        cluster.raft(follower).transfer_leadership(n(1)),
        Err(TransferError::NotLeader { leader: Some(n(leader)) })
    );
}

#[test]
fn proposals_over_a_limit_are_refused_and_those_at_it_are_not() {
    let mut cluster = Cluster::tuned(&[1], 4, |config| {
        config.entry_bytes_max = 100;
        config.append_bytes_max = 200;
        config.uncommitted_bytes_max = 250;
    });
    let leader = cluster.elect();
    let raft = cluster.raft(leader);
    let too_large = ProposeError::TooLarge { bytes: 101, max: 100 };
    assert_eq!(raft.propose(vec![0; 51], vec![0; 50]), Err(too_large));
    assert_eq!(raft.propose(vec![], vec![]), Err(ProposeError::Empty));
    assert_eq!(raft.propose(vec![0; 50], vec![0; 50]), Ok(()));
    assert_eq!(raft.propose(vec![], vec![1; 100]), Ok(()));
    assert_eq!(raft.propose(vec![], vec![2; 100]), Ok(()));
    assert_eq!(raft.propose(vec![], vec![3; 100]), Err(ProposeError::Busy));
    cluster.deliver();
    assert_eq!(cluster.machine(1).entries, [vec![0; 50], vec![1; 100], vec![2; 100]]);
    assert_eq!(cluster.raft(1).propose(vec![], vec![3; 100]), Ok(()));
}

/// R88: leadership goes to the voter that was named, and meanwhile proposals are refused.
#[test]
fn leadership_is_handed_over_to_a_voter() {
    let mut cluster = Cluster::new(&[1, 2, 3], 5);
    cluster.commit(b"a");
    let leader = cluster.elect();
    let next = leader % 3 + 1;
    assert_eq!(cluster.raft(leader).transfer_leadership(n(9)), Err(TransferError::NotVoter(n(9))));
    assert_eq!(
        cluster.raft(leader).transfer_leadership(n(leader)),
        Err(TransferError::NotVoter(n(leader)))
    );
    cluster.raft(leader).transfer_leadership(n(next)).expect("a voter");
    assert_eq!(cluster.raft(leader).status().transferring_to, Some(n(next)));
    assert_eq!(
        cluster.raft(leader).propose(vec![], b"x".to_vec()),
        Err(ProposeError::Transferring)
    );
    cluster.deliver();
    assert_eq!(cluster.elect(), next);
    cluster.commit(b"b");
}

/// A leader that hears from no majority steps down within two election timeouts.
#[test]
fn a_cut_off_leader_steps_down_and_rejoins() {
    let mut cluster = Cluster::new(&[1, 2, 3], 6);
    cluster.commit(b"a");
    let old = cluster.elect();
    cluster.cut_off.insert(old);
    cluster.raft(old).propose(vec![], b"never committed".to_vec()).expect("it does not know");
    cluster.ticks(25);
    assert_ne!(cluster.raft(old).status().leadership.role, Role::Leader);
    cluster.commit(b"b");
    cluster.cut_off.clear();
    cluster.agree(&[1, 2, 3]);
    assert_eq!(cluster.machine(old).entries, [b"a".to_vec(), b"b".to_vec()]);
}

/// Without pre-votes it would come back with a term of its own and depose the leader.
#[test]
fn a_follower_that_was_cut_off_comes_back_without_an_election() {
    let mut cluster = Cluster::new(&[1, 2, 3], 9);
    cluster.commit(b"a");
    let leader = cluster.elect();
    let before = cluster.raft(leader).status().leadership;
    let away = leader % 3 + 1;
    cluster.cut_off.insert(away);
    cluster.ticks(100);
    cluster.cut_off.clear();
    cluster.ticks(100);
    assert_eq!(cluster.raft(leader).status().leadership, before);
    assert_eq!(cluster.raft(away).status().leadership.term, before.term);
}

/// One transaction a turn: a proposal costs a single voter one synced commit, and no more.
#[test]
fn a_proposal_of_a_single_voter_is_one_transaction() {
    let mut cluster = Cluster::new(&[1], 7);
    cluster.elect();
    let before = (cluster.node(1).disk.commits(), cluster.node(1).disk.syncs());
    for k in 0..10_u8 {
        cluster.raft(1).propose(vec![], vec![k]).expect("it leads");
        cluster.work(1);
    }
    let after = (cluster.node(1).disk.commits(), cluster.node(1).disk.syncs());
    assert_eq!((after.0 - before.0, after.1 - before.1), (10, 10));
    assert_eq!(cluster.machine(1).entries.len(), 10);
}

/// A hundred proposals that wait together are one transaction as well.
#[test]
fn proposals_between_two_turns_share_a_transaction() {
    let mut cluster = Cluster::new(&[1], 8);
    cluster.elect();
    let before = cluster.node(1).disk.commits();
    for k in 0..100_u8 {
        cluster.raft(1).propose(vec![], vec![k]).expect("it leads");
    }
    cluster.work(1);
    assert_eq!(cluster.node(1).disk.commits() - before, 1);
    assert_eq!(cluster.machine(1).entries.len(), 100);
}

/// A heartbeat that is answered before the append that followed it: the library repeats that append,
/// and nobody needs it.
#[test]
fn a_change_after_a_barrier_costs_twelve_messages() {
    let mut cluster = Cluster::new(&[1, 2, 3], 8);
    let leader = cluster.elect();
    cluster.ticks(5);
    let before = cluster.delivered;
    cluster.raft(leader).read_index();
    cluster.work(leader);
    cluster.raft(leader).propose(vec![], b"a".to_vec()).expect("it leads");
    cluster.deliver();
    cluster.agree(&[1, 2, 3]);
    // To two peers and back: a heartbeat, an entry, and that it is committed.
    assert_eq!(cluster.delivered - before, 12);
    assert_eq!(cluster.machine(leader).entries, [b"a"]);
}

#[test]
fn a_node_that_cannot_start_says_why() {
    let open = |config: RaftConfig| {
        let mut disk = MemStore::new(n(1));
        Raft::bootstrap(&mut disk, &[n(1)], vec![]).expect("an empty disk");
        Raft::open(config, disk).err()
    };
    assert!(open(RaftConfig::new(n(1), 1)).is_none());
    assert!(matches!(open(RaftConfig::new(n(2), 1)), Some(RaftError::WrongNode { .. })));
    let mut narrow = RaftConfig::new(n(1), 1);
    narrow.election_ticks_max = narrow.election_ticks_min;
    assert!(matches!(open(narrow), Some(RaftError::Config(_))));
    let zero = RaftConfig::new(NodeId(0), 1);
    assert!(matches!(Raft::open(zero, MemStore::new(NodeId(0))).err(), Some(RaftError::Config(_))));
}

/// R77: the output tells each change of role, term or leader once.
#[test]
fn a_change_of_leadership_is_told_once() {
    let mut disk = MemStore::new(n(1));
    Raft::bootstrap(&mut disk, &[n(1)], vec![]).expect("an empty disk");
    let (mut raft, _) = Raft::open(RaftConfig::new(n(1), 1), disk).expect("sound");
    let mut out = Output::default();
    let mut told = Vec::new();
    for _ in 0..40 {
        raft.tick();
        raft.ready(&mut out).expect("memory");
        told.extend(out.leadership);
    }
    let roles: Vec<Role> = told.iter().map(|now| now.role).collect();
    assert_eq!(roles, [Role::Follower, Role::Leader]);
    assert_eq!(told[1].leader, Some(n(1)));
}
