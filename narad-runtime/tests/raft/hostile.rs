//! Peers that send nonsense. The consensus library ends the process on most of this; here each is
//! an error and the node goes on.

use crate::cluster::{Cluster, n};
use narad_runtime::raft::{MemStore, Raft, StepError};
use protobuf::Message as _;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType};

const LOCAL: [MessageType; 7] = [
    MessageType::MsgHup,
    MessageType::MsgBeat,
    MessageType::MsgUnreachable,
    MessageType::MsgSnapStatus,
    MessageType::MsgCheckQuorum,
    MessageType::MsgPropose,
    MessageType::MsgTransferLeader,
];

/// A three-node cluster with a leader, a few entries, and node 4 that never joined.
struct Scene {
    cluster: Cluster,
    leader: u64,
    follower: u64,
    term: u64,
}

impl Scene {
    fn new() -> Self {
        let mut cluster = Cluster::new(&[1, 2, 3], 5);
        cluster.commit(b"a");
        cluster.commit(b"b");
        let leader = cluster.elect();
        cluster.agree(&[1, 2, 3]);
        let term = cluster.raft(leader).status().leadership.term.0;
        Self { cluster, leader, follower: leader % 3 + 1, term }
    }

    /// Hands a message from a node to another one.
    fn send(
        &mut self,
        (from, to): (u64, u64),
        kind: MessageType,
        fill: impl FnOnce(&mut Message),
    ) -> Result<(), StepError> {
        let mut message = Message::default();
        message.set_msg_type(kind);
        message.set_to(to);
        message.set_from(from);
        message.set_term(self.term);
        fill(&mut message);
        let bytes = message.write_to_bytes().expect("encodable");
        let result = self.cluster.raft(to).step(n(from), &bytes);
        self.cluster.work(to);
        result
    }

    fn tell_follower(
        &mut self,
        kind: MessageType,
        fill: impl FnOnce(&mut Message),
    ) -> Result<(), StepError> {
        self.send((self.leader, self.follower), kind, fill)
    }

    fn tell_leader(
        &mut self,
        kind: MessageType,
        fill: impl FnOnce(&mut Message),
    ) -> Result<(), StepError> {
        self.send((self.follower, self.leader), kind, fill)
    }

    /// Nothing that was refused has hurt: the same leader commits on.
    fn still_works(mut self) {
        assert_eq!(self.cluster.elect(), self.leader);
        self.cluster.commit(b"z");
        self.cluster.agree(&[1, 2, 3]);
    }
}

pub(crate) fn entry(index: u64, term: u64) -> Entry {
    let mut entry = Entry::default();
    entry.set_index(index);
    entry.set_term(term);
    entry
}

fn malformed(result: &Result<(), StepError>) -> bool {
    matches!(result, Err(StepError::Malformed { .. }))
}

#[test]
fn a_message_under_a_false_name_or_for_another_node_is_refused() {
    let mut scene = Scene::new();
    let heartbeat = MessageType::MsgHeartbeat;
    let refused = scene.tell_follower(heartbeat, |m| m.set_to(9));
    assert!(matches!(refused, Err(StepError::NotForMe { .. })));
    for says in [0, 9, scene.follower] {
        let refused = scene.tell_follower(heartbeat, |m| m.set_from(says));
        assert!(matches!(refused, Err(StepError::Impersonation { .. })), "{says}");
    }
    scene.still_works();
}

#[test]
fn what_only_a_node_itself_may_say_is_refused_from_a_peer() {
    let mut scene = Scene::new();
    for kind in LOCAL {
        for term in [1, scene.term] {
            let refused = scene.tell_leader(kind, |m| m.set_term(term));
            assert!(matches!(refused, Err(StepError::Forbidden(_))), "{kind:?} {refused:?}");
        }
        assert!(malformed(&scene.tell_leader(kind, |m| m.set_term(0))), "{kind:?}");
    }
    scene.still_works();
}

/// An empty proposal, an empty read request: the library asserts that there is something in them.
#[test]
fn requests_without_entries_are_refused() {
    let mut scene = Scene::new();
    assert!(scene.tell_leader(MessageType::MsgPropose, |m| m.set_term(0)).is_err());
    assert!(malformed(&scene.tell_leader(MessageType::MsgReadIndex, |m| m.set_term(0))));
    assert!(malformed(&scene.tell_leader(MessageType::MsgReadIndex, |m| {
        m.set_term(0);
        m.set_entries(vec![Entry::default()].into());
    })));
    assert!(malformed(&scene.tell_follower(MessageType::MsgReadIndexResp, |_| {})));
    scene.still_works();
}

/// A read request for somebody else, or to a node that would pass it on.
#[test]
fn read_requests_are_taken_from_their_owner_by_the_leader_only() {
    let mut scene = Scene::new();
    let mut request = entry(0, 0);
    let name: Vec<u8> = [scene.follower, 1, 77].iter().flat_map(|p| p.to_le_bytes()).collect();
    request.set_data(name.into());
    let fill = |m: &mut Message| {
        m.set_term(0);
        m.set_entries(vec![request.clone()].into());
    };
    assert_eq!(scene.tell_leader(MessageType::MsgReadIndex, fill), Ok(()));
    let third = 6 - scene.leader - scene.follower;
    assert!(malformed(&scene.send((third, scene.leader), MessageType::MsgReadIndex, fill)));
    let to_third = scene.send((scene.follower, third), MessageType::MsgReadIndex, fill);
    assert_eq!(to_third, Err(StepError::NotLeader));
    scene.still_works();
}

/// A leader that hears from nobody keeps read requests; not without end.
#[test]
fn a_peer_cannot_make_a_leader_keep_any_number_of_reads() {
    let mut scene = Scene::new();
    let owner = scene.follower;
    let mut ask = |number: u64| {
        let mut request = entry(0, 0);
        let name: Vec<u8> = [owner, 1, number].iter().flat_map(|p| p.to_le_bytes()).collect();
        request.set_data(name.into());
        scene.tell_leader(MessageType::MsgReadIndex, |m| {
            m.set_term(0);
            m.set_entries(vec![request].into());
        })
    };
    let taken = (0..5000).take_while(|number| ask(*number).is_ok()).count();
    assert_eq!(taken, 4096);
    assert_eq!(ask(9999), Err(StepError::Busy(4096)));
}

/// So it is when a node lost its disk and came back under its old id.
#[test]
fn a_heartbeat_that_counts_on_entries_beyond_the_log_is_refused() {
    let mut scene = Scene::new();
    let refused = scene.tell_follower(MessageType::MsgHeartbeat, |m| m.set_commit(1000));
    assert!(matches!(refused, Err(StepError::BeyondLog { .. })));
    let later = scene.term + 5;
    let refused = scene.tell_follower(MessageType::MsgHeartbeat, |m| {
        m.set_term(later);
        m.set_commit(1000);
    });
    assert!(matches!(refused, Err(StepError::BeyondLog { .. })));
    scene.still_works();
}

#[test]
fn appends_that_contradict_themselves_are_refused() {
    let mut scene = Scene::new();
    let term = scene.term;
    let mut append = |fill: &dyn Fn(&mut Message)| {
        let result = scene.tell_follower(MessageType::MsgAppend, fill);
        assert!(malformed(&result), "{result:?}");
    };
    // A place outside of the log that has, as far as the library can tell, the right term.
    append(&|m| m.set_index(1000));
    append(&|m| {
        m.set_index(1000);
        m.set_commit(1000);
        m.set_entries(vec![entry(1001, term)].into());
    });
    append(&|m| m.set_log_term(1));
    append(&|m| m.set_index(u64::MAX));
    append(&|m| {
        m.set_index(2);
        m.set_log_term(term);
        m.set_entries(vec![entry(4, term)].into());
    });
    append(&|m| {
        m.set_index(2);
        m.set_log_term(term);
        m.set_entries(vec![entry(3, term), entry(3, term)].into());
    });
    append(&|m| {
        m.set_index(2);
        m.set_log_term(term);
        m.set_entries(vec![entry(3, term), entry(4, 0)].into());
    });
    append(&|m| {
        m.set_index(2);
        m.set_log_term(term);
        m.set_entries(vec![entry(3, term + 1)].into());
    });
    let mut change = entry(3, term);
    change.set_entry_type(EntryType::EntryConfChangeV2);
    change.set_data(vec![0xff; 9].into());
    append(&|m| {
        m.set_index(2);
        m.set_log_term(term);
        m.set_entries(vec![change.clone()].into());
    });
    scene.still_works();
}

#[test]
fn terms_that_no_cluster_reaches_are_refused() {
    let mut scene = Scene::new();
    for kind in [MessageType::MsgHeartbeat, MessageType::MsgRequestVote, MessageType::MsgAppend] {
        let refused = scene.tell_follower(kind, |m| m.set_term(u64::MAX));
        assert!(matches!(refused, Err(StepError::TermJump { .. })), "{kind:?}");
        assert!(malformed(&scene.tell_follower(kind, |m| m.set_term(0))), "{kind:?}");
    }
    scene.still_works();
}

#[test]
fn numbers_and_fields_that_nobody_sets_are_refused() {
    let mut scene = Scene::new();
    let mut refused = |fill: &dyn Fn(&mut Message)| {
        assert!(malformed(&scene.tell_follower(MessageType::MsgRequestPreVote, fill)));
    };
    refused(&|m| m.set_priority(-1));
    refused(&|m| m.set_deprecated_priority(1));
    refused(&|m| m.set_request_snapshot(1));
    refused(&|m| m.set_index(u64::MAX));
    refused(&|m| m.set_commit(u64::MAX));
    refused(&|m| m.set_context(vec![0; 65].into()));
    scene.still_works();
}

#[test]
fn acknowledgements_of_what_was_never_sent_are_refused() {
    let mut scene = Scene::new();
    let last = scene.cluster.raft(scene.leader).status().last.0;
    let response = MessageType::MsgAppendResponse;
    let refused = scene.tell_leader(response, |m| m.set_index(last + 1));
    assert!(matches!(refused, Err(StepError::BeyondLog { .. })));
    assert!(malformed(&scene.tell_leader(response, |m| {
        m.set_reject(true);
        m.set_index(1);
        m.set_reject_hint(2);
    })));
    assert!(malformed(&scene.tell_leader(response, |m| {
        m.set_reject(true);
        m.set_reject_hint(u64::MAX);
    })));
    let stranger = scene.send((4, scene.leader), response, |m| m.set_index(1));
    assert_eq!(stranger, Err(StepError::UnknownPeer(n(4))));
    scene.still_works();
}

#[test]
fn a_second_leader_of_a_term_is_refused() {
    let mut scene = Scene::new();
    let third = 6 - scene.leader - scene.follower;
    for kind in [MessageType::MsgAppend, MessageType::MsgHeartbeat, MessageType::MsgSnapshot] {
        for to in [scene.follower, scene.leader] {
            let refused = scene.send((third, to), kind, |_| {});
            assert!(matches!(refused, Err(StepError::SecondLeader { .. })), "{refused:?}");
        }
    }
    let take_over = MessageType::MsgTimeoutNow;
    let refused = scene.send((third, scene.follower), take_over, |_| {});
    assert_eq!(refused, Err(StepError::NotLeader));
    scene.still_works();
}

#[test]
fn snapshots_whose_members_make_no_sense_are_refused() {
    let mut scene = Scene::new();
    let later = scene.term + 1;
    let mut snapshot = |index: u64, term: u64, members: ConfState| {
        let result = scene.tell_follower(MessageType::MsgSnapshot, |m| {
            m.set_term(later);
            m.mut_snapshot().mut_metadata().set_index(index);
            m.mut_snapshot().mut_metadata().set_term(term);
            m.mut_snapshot().mut_metadata().set_conf_state(members);
        });
        assert!(malformed(&result), "{result:?}");
    };
    let of =
        |voters: &[u64], learners: &[u64]| ConfState::from((voters.to_vec(), learners.to_vec()));
    let good = of(&[1, 2, 3], &[]);
    snapshot(0, 1, good.clone());
    snapshot(u64::MAX, 1, good.clone());
    snapshot(1000, 0, good.clone());
    snapshot(1000, later + 1, good.clone());
    snapshot(1000, 1, ConfState::default());
    snapshot(1000, 1, of(&[0, 1, 2, 3], &[]));
    snapshot(1000, 1, of(&[1, 1, 2, 3], &[]));
    snapshot(1000, 1, of(&[1, 2, 3], &[3]));
    snapshot(1000, 1, of(&[7, 8], &[]));
    let mut leaving = good.clone();
    leaving.set_learners_next(vec![3]);
    snapshot(1000, 1, leaving);
    let mut auto = good;
    auto.set_auto_leave(true);
    snapshot(1000, 1, auto);
    scene.still_works();
}

/// A forged vote for a candidate whose log is not durable yet would let it lead, and the library
/// asserts that a leader's log is.
#[test]
fn a_vote_that_comes_before_the_log_is_durable_is_refused() {
    let mut scene = Scene::new();
    let (leader, follower, term) = (scene.leader, scene.follower, scene.term);
    let last = scene.cluster.raft(follower).status().last.0;
    let mut append = Message::default();
    append.set_msg_type(MessageType::MsgAppend);
    append.set_to(follower);
    append.set_from(leader);
    append.set_term(term);
    append.set_index(last);
    append.set_log_term(term);
    append.set_entries(vec![entry(last + 1, term)].into());
    let bytes = append.write_to_bytes().expect("encodable");
    scene.cluster.raft(follower).step(n(leader), &bytes).expect("an honest append");
    for kind in [
        MessageType::MsgTimeoutNow,
        MessageType::MsgRequestVoteResponse,
        MessageType::MsgRequestPreVoteResponse,
    ] {
        let mut message = Message::default();
        message.set_msg_type(kind);
        message.set_to(follower);
        message.set_from(leader);
        message.set_term(term);
        let bytes = message.write_to_bytes().expect("encodable");
        assert_eq!(scene.cluster.raft(follower).step(n(leader), &bytes), Err(StepError::Early));
    }
    scene.cluster.work(follower);
    assert_eq!(scene.cluster.raft(follower).status().last.0, last + 1);
}

/// A single voter wins an election by asking for it, so it must not ask before its log is durable.
#[test]
fn a_single_voter_does_not_lead_before_its_log_is_durable() {
    let mut cluster = Cluster::new(&[1], 5);
    let mut append = Message::default();
    append.set_msg_type(MessageType::MsgAppend);
    append.set_to(1);
    append.set_from(2);
    append.set_term(2);
    append.set_index(1);
    append.set_log_term(1);
    append.set_entries(vec![entry(2, 2)].into());
    let bytes = append.write_to_bytes().expect("encodable");
    cluster.raft(1).step(n(2), &bytes).expect("from a leader, for all that it knows");
    (0..50).for_each(|_| cluster.raft(1).tick());
    assert_eq!(cluster.elect(), 1);
}

/// RUSTSEC-2024-0437: a million nested unknown groups must not exhaust the stack.
#[test]
fn deeply_nested_unknown_groups_decode_to_an_error() {
    let mut scene = Scene::new();
    // Field 100, wire type "group begins".
    let bomb: Vec<u8> = [0xA3, 0x06].repeat(1_000_000);
    let (leader, follower) = (scene.leader, scene.follower);
    let refused = scene.cluster.raft(follower).step(n(leader), &bomb);
    assert!(matches!(refused, Err(StepError::Undecodable(_))), "{refused:?}");
    scene.still_works();
}

#[test]
fn a_message_over_the_size_limit_is_not_even_decoded() {
    let mut cluster = Cluster::tuned(&[1, 2, 3], 5, |config| config.message_bytes_max = 1000);
    let refused = cluster.raft(1).step(n(2), &[0xA3; 1001]);
    assert_eq!(refused, Err(StepError::TooLarge { bytes: 1001, max: 1000 }));
}

/// The first leader of a node that knows nobody is believed, whoever it is.
#[test]
fn a_node_without_members_takes_its_first_leaders_messages() {
    let disk = MemStore::new(n(4));
    let config = Scene::new().cluster.config(4, 1);
    let (mut raft, restored) = Raft::open(config, disk).expect("empty");
    assert_eq!(restored, None);
    let mut heartbeat = Message::default();
    heartbeat.set_msg_type(MessageType::MsgHeartbeat);
    heartbeat.set_to(4);
    heartbeat.set_from(1);
    heartbeat.set_term(7);
    let bytes = heartbeat.write_to_bytes().expect("encodable");
    assert_eq!(raft.step(n(1), &bytes), Ok(()));
    assert_eq!(raft.status().leadership.leader, Some(n(1)));
}
