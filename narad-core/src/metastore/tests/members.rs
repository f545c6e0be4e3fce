//! Joining, living and dying: H25, H32, H34, R85.

use alloc::string::String;

use super::{World, addrs, join, name, register, store};
use crate::ids::{Drain, Generation, Incarnation, LogIndex, NodeId, ProposalId, StoreUuid};
use crate::metastore::{Addresses, Applied, Command, Entry, Member, Reason, Reply, State, Status};

fn mark_dead(node: u64, incarnation: u64) -> Command {
    Command::MarkDead { node: NodeId(node), incarnation: Incarnation(incarnation) }
}

/// Ids count up from one; the same disk is the same member, whatever it calls itself.
#[test]
fn a_member_is_its_disk() {
    let mut world = World::new();
    assert_eq!(world.applies(0, join("a", 1)), Applied::Joined(NodeId(1)));
    assert_eq!(world.applies(0, join("b", 2)), Applied::Joined(NodeId(2)));
    assert_eq!(world.applies(0, join("a", 1)), Applied::Joined(NodeId(1)));
    assert_eq!(world.applies(0, join("c", 1)), Applied::Joined(NodeId(1)));
    assert_eq!(world.member(1).name, name("a"));
    assert_eq!(world.state.member_named("c"), None);
    assert_eq!(world.state.member_named("not a name"), None);
}

/// H25: a new disk under an old name is refused while the old one is a member.
#[test]
fn a_name_is_taken_until_its_member_is_retired() {
    let mut world = World::cluster(4);
    assert_eq!(world.refuses(0, join("narad-4", 44)), Reason::NameTaken);
    world.drain(4, true);
    world.drained_out(4);
    world.applies(4, Command::Retire { node: NodeId(4), receipt: None });
    assert_eq!(world.applies(0, join("narad-4", 44)), Applied::Joined(NodeId(5)));
    assert_eq!(world.state.member_named("narad-4").map(|member| member.id), Some(NodeId(5)));
}

/// H24h, `case_122`, field fault 50: a retired disk neither joins nor registers again.
#[test]
fn a_retired_disk_does_not_come_back() {
    let mut world = World::cluster(4);
    world.drain(4, true);
    world.drained_out(4);
    world.applies(4, Command::Retire { node: NodeId(4), receipt: None });
    assert_eq!(world.refuses(0, join("narad-4", 4)), Reason::NodeRetired);
    assert_eq!(world.refuses(0, join("narad-9", 4)), Reason::NodeRetired);
    assert_eq!(world.refuses(4, register(4, 2)), Reason::NodeRetired);
    assert_eq!(world.refuses(9, mark_dead(4, 1)), Reason::NodeRetired);
}

/// Rule 8: a loop of joins fills nobody's memory.
#[test]
fn members_are_bounded() {
    let mut state = State::new();
    let mut ask = |sequence: u64| {
        let proposal = ProposalId { node: NodeId(0), incarnation: Incarnation(0), sequence };
        let command = join(&alloc::format!("n{sequence}"), sequence);
        let entry = Entry { proposal, by: NodeId(0), command };
        state.apply(LogIndex(sequence), &entry).expect("the command is known").reply
    };
    let max = u64::try_from(State::MEMBERS_MAX).expect("it is small");
    for sequence in 1..=max {
        assert_eq!(ask(sequence), Reply::Applied(Applied::Joined(NodeId(sequence))));
    }
    assert_eq!(ask(max + 1), Reply::Rejected(Reason::OutOfRange));
}

/// A new member is alive, but receives nothing before its first life has begun.
#[test]
fn a_member_receives_once_it_has_registered() {
    let mut world = World::new();
    world.join(1);
    assert_eq!((world.member(1).status, world.member(1).is_receiver()), (Status::Alive, false));
    world.register(1, 3);
    assert!(world.member(1).is_receiver());
}

/// H25, H34, S18: who may register which life of which disk.
#[test]
fn a_register_must_be_of_the_node_itself_and_of_its_disk() {
    let mut world = World::cluster(2);
    assert_eq!(world.refuses(8, register(8, 1)), Reason::UnknownMember);
    assert_eq!(world.refuses(2, register(1, 2)), Reason::NotYours);
    let node = NodeId(1);
    let with = |store_uuid, incarnation, addrs| Command::Register {
        node,
        store_uuid,
        incarnation: Incarnation(incarnation),
        addrs,
    };
    assert_eq!(world.refuses(1, with(StoreUuid(5), 2, addrs())), Reason::WrongStore);
    assert_eq!(world.refuses(1, with(store(1), 0, addrs())), Reason::OutOfRange);
    let long = |length| Addresses { http: "h".repeat(length), peer: String::new() };
    let max = Addresses::LENGTH_MAX;
    assert_eq!(world.refuses(1, with(store(1), 2, long(max + 1))), Reason::OutOfRange);
    assert_eq!(world.applies(1, with(store(1), 2, long(max))), Applied::Done);
    assert_eq!(world.member(1).addrs, long(max));
    let huge = Command::Join { name: name("x"), store_uuid: store(9), addrs: long(max + 1) };
    assert_eq!(world.refuses(0, huge), Reason::OutOfRange);
}

/// An equal life is a replay: it changes nothing, not even the addresses.
#[test]
fn a_register_of_the_present_life_changes_nothing() {
    let mut world = World::cluster(1);
    let before = world.member(1).clone();
    let elsewhere = Command::Register {
        node: NodeId(1),
        store_uuid: store(1),
        incarnation: Incarnation(1),
        addrs: Addresses::default(),
    };
    assert_eq!(world.applies(1, elsewhere), Applied::Done);
    assert_eq!(world.member(1), &before);
}

/// H32: a node that was declared dead is not alive again before it has begun its next life.
#[test]
fn a_dead_node_must_take_its_next_life() {
    let mut world = World::cluster(2);
    world.kill(1);
    assert_eq!(world.refuses(1, register(1, 1)), Reason::StaleIncarnation);
    assert_eq!(world.member(1).status, Status::Dead(Generation(1)));
    world.register(1, 2);
    assert_eq!(world.member(1).status, Status::Alive);
}

/// H11, H19, `case_136`: a certificate names one life, and one death has one number.
#[test]
fn a_death_is_of_the_present_life_and_counts_once() {
    let mut world = World::cluster(2);
    world.register(1, 2);
    assert_eq!(world.refuses(9, mark_dead(1, 1)), Reason::StaleIncarnation);
    assert_eq!(world.refuses(9, mark_dead(1, 3)), Reason::StaleIncarnation);
    assert_eq!(world.refuses(9, mark_dead(8, 1)), Reason::UnknownMember);
    assert_eq!(world.applies(9, mark_dead(1, 2)), Applied::Done);
    assert_eq!(world.applies(9, mark_dead(1, 2)), Applied::Done);
    assert_eq!(world.member(1).status, Status::Dead(Generation(1)));
    assert!(!world.member(1).is_receiver());
    world.register(1, 3);
    assert_eq!(world.refuses(9, mark_dead(1, 2)), Reason::StaleIncarnation);
    assert_eq!(world.kill(1), Generation(2));
}

/// R85: the drain flag survives a restart; what was said of an empty node does not (H37).
#[test]
fn a_drain_survives_a_restart() {
    let mut world = World::cluster(3);
    world.drain(3, true);
    world.drained_out(3);
    world.register(3, 2);
    assert!(world.member(3).draining);
    assert!(!world.member(3).drained_out);
}

/// R83: a draining node receives nothing and goes on serving what it owns.
#[test]
fn a_draining_node_stays_an_owner() {
    let mut world = World::cluster(3);
    world.drain(1, true);
    assert_eq!(world.state.owned_count(NodeId(1)), 1);
    assert!(!world.member(1).is_receiver());
    world.plan(0, 2);
    world.applies(2, world.flip(0, 4).command());
    assert_eq!(world.state.owned_count(NodeId(1)), 0);
}

/// R94, field faults 39 and 40: a cancelled drain is over at once, and can be started again.
#[test]
fn a_drain_can_be_cancelled_and_started_again() {
    let mut world = World::cluster(3);
    world.drain(3, true);
    world.drained_out(3);
    world.drain(3, false);
    assert!(!world.member(3).drained_out);
    assert!(world.member(3).is_receiver());
    world.drain(3, true);
    assert!(world.member(3).draining && !world.member(3).drained_out);
    let unknown = Command::SetDraining { node: NodeId(8), on: true };
    assert_eq!(world.refuses(9, unknown), Reason::UnknownMember);
}

/// H24d: a late copy of the drain does not resume what was cancelled.
#[test]
fn a_late_copy_of_a_drain_does_not_undo_its_cancel() {
    let mut world = World::cluster(3);
    let proposal = world.proposal(9);
    let command = Command::SetDraining { node: NodeId(3), on: true };
    let entry = Entry { proposal, by: NodeId(9), command };
    world.append(&entry);
    world.drain(3, false);
    world.append(&entry);
    assert!(!world.member(3).draining);
}

/// H37, H24d, case 18: what a node said of a decommission that was cancelled since is no word about
/// the next one, in the same life, before which it has accepted records again.
#[test]
fn a_late_word_of_a_cancelled_drain_says_nothing_of_the_next() {
    let mut world = World::cluster(4);
    world.drain(4, true);
    let Member { incarnation, drains: drain, .. } = *world.member(4);
    let late = Command::DrainedOut { node: NodeId(4), incarnation, drain };
    world.drain(4, false);
    assert_eq!(world.refuses(4, late.clone()), Reason::NotDraining);
    world.drain(4, true);
    assert_eq!(world.member(4).drains, drain.next());
    assert_eq!(world.refuses(4, late), Reason::NotDraining);
    assert!(!world.member(4).drained_out);
    let retire = Command::Retire { node: NodeId(4), receipt: None };
    assert_eq!(world.refuses(9, retire), Reason::NotDrainedOut);
    world.drained_out(4);
    assert!(world.member(4).drained_out);
}

/// H37: only the leaving node says that nothing is left, in its present life, and only when it
/// owns nothing and awaits nothing: a later flip would bring acks and records back to it.
#[test]
fn drained_out_is_said_by_the_leaving_node_once_nothing_is_left() {
    let mut world = World::moving(3);
    let out = |node: u64, incarnation: u64| Command::DrainedOut {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        drain: Drain(1),
    };
    assert_eq!(world.refuses(2, out(2, 1)), Reason::NotDraining);
    world.drain(1, true);
    world.drain(2, true);
    assert_eq!(world.refuses(1, out(1, 1)), Reason::OwnsPartitions);
    assert_eq!(world.refuses(2, out(2, 1)), Reason::IsTarget);
    assert_eq!(world.refuses(1, out(2, 1)), Reason::NotYours);
    assert_eq!(world.refuses(2, out(2, 2)), Reason::StaleIncarnation);
    assert_eq!(world.refuses(8, out(8, 1)), Reason::UnknownMember);
    world.clear(0);
    assert_eq!(world.applies(2, out(2, 1)), Applied::Done);
    assert_eq!(world.applies(2, out(2, 1)), Applied::Done);
}
