//! Taking a node out for good: H24a to H24d, H24f, H37, H38, R86, R87.

use alloc::string::String;

use super::World;
use crate::ids::NodeId;
use crate::metastore::{Applied, Command, Configuration, Reason};

fn retire(node: u64) -> Command {
    Command::Retire { node: NodeId(node), receipt: None }
}

fn give_up(node: u64, receipt: &str) -> Command {
    Command::Retire { node: NodeId(node), receipt: Some(String::from(receipt)) }
}

/// R86: who never came up has nothing to drain, and can be taken out again.
#[test]
fn a_node_that_never_registered_is_retired_at_once() {
    let mut world = World::cluster(4);
    world.join(5);
    assert_eq!(world.refuses(9, retire(5)), Reason::NotDraining);
    world.drain(5, true);
    assert_eq!(world.applies(9, retire(5)), Applied::Done);
    assert!(world.member(5).retired);
}

/// R86: the steps in their order, each refused before its time, with its reason.
#[test]
fn a_node_is_retired_step_by_step() {
    let mut world = World::moving(4);
    assert_eq!(world.refuses(9, retire(8)), Reason::UnknownMember);
    assert_eq!(world.refuses(9, retire(1)), Reason::NotDraining);
    world.drain(1, true);
    assert_eq!(world.refuses(9, retire(1)), Reason::NotDrainedOut);
    world.applies(2, world.flip(0, 4).command());
    assert_eq!(world.refuses(9, retire(1)), Reason::NotDrainedOut);
    world.drained_out(1);
    assert_eq!(world.applies(9, retire(1)), Applied::Done);
    assert!(world.member(1).retired);
    assert_eq!(world.applies(9, retire(1)), Applied::Done);
}

/// H24a, H24b, `case_116`: a move that ends on the leaving node keeps it in; it is judged when the
/// entry applies, whatever held when it was proposed.
#[test]
fn a_node_that_awaits_a_partition_is_not_retired() {
    let mut world = World::moving(4);
    world.drain(2, true);
    let receipt = give_up(2, "the rack burned down");
    world.kill(2);
    assert_eq!(world.refuses(9, receipt.clone()), Reason::IsTarget);
    world.clear(0);
    assert_eq!(world.applies(9, receipt), Applied::Done);
}

/// H24b: the flip came first; the removed node would have owned a partition.
#[test]
fn a_node_that_has_just_become_owner_is_not_retired() {
    let mut world = World::moving(4);
    world.drain(2, true);
    world.applies(2, world.flip(0, 4).command());
    world.kill(2);
    assert_eq!(world.refuses(9, give_up(2, "gone")), Reason::OwnsPartitions);
}

/// H24d: retired is for ever, so that a cancel never races the removal of the voter.
#[test]
fn a_retired_node_cannot_be_taken_back() {
    let mut world = World::cluster(4);
    world.drain(4, true);
    world.drained_out(4);
    world.applies(9, retire(4));
    let cancel = Command::SetDraining { node: NodeId(4), on: false };
    assert_eq!(world.refuses(9, cancel), Reason::NodeRetired);
    let again = Command::SetDraining { node: NodeId(4), on: true };
    assert_eq!(world.applies(9, again), Applied::Done);
}

/// H24d, the other order: a cancelled node is not retired.
#[test]
fn a_cancelled_drain_is_not_retired() {
    let mut world = World::cluster(4);
    world.drain(4, true);
    world.drained_out(4);
    world.drain(4, false);
    assert_eq!(world.refuses(9, retire(4)), Reason::NotDraining);
}

/// Field faults 43 and 45: what a dead node still holds is given up by an operator or not at all.
#[test]
fn a_dead_node_is_retired_with_a_receipt_only() {
    let mut world = World::cluster(4);
    world.drain(4, true);
    world.drained_out(4);
    world.kill(4);
    assert_eq!(world.refuses(9, retire(4)), Reason::NeedsReceipt);
    assert_eq!(world.refuses(9, give_up(4, " ")), Reason::OutOfRange);
    let long = "x".repeat(Command::RECEIPT_MAX + 1);
    assert_eq!(world.refuses(9, give_up(4, &long)), Reason::OutOfRange);
    let full = "x".repeat(Command::RECEIPT_MAX);
    assert_eq!(world.applies(9, give_up(4, &full)), Applied::Done);
}

/// H24c, R87, `case_127`, `case_132`: the second of two would leave fewer than `MinVoters`.
#[test]
fn the_minimum_of_voters_is_kept() {
    let mut world = World::cluster(4);
    for node in [3, 4] {
        world.drain(node, true);
        world.drained_out(node);
    }
    assert_eq!(world.applies(9, retire(4)), Applied::Done);
    assert_eq!(world.refuses(9, retire(3)), Reason::BelowMinVoters);
    world.vote(1..=3);
    assert_eq!(world.refuses(9, retire(3)), Reason::BelowMinVoters);
    // A replacement joins and votes; now it may go.
    world.join(5);
    world.register(5, 1);
    world.vote([1, 2, 3, 5]);
    assert_eq!(world.applies(9, retire(3)), Applied::Done);
}

/// H38: the second is judged without the first, although the first still votes.
#[test]
fn two_retirements_are_judged_one_after_the_other() {
    let mut world = World::cluster(6);
    for node in 3..=6 {
        world.drain(node, true);
        world.drained_out(node);
    }
    for node in 4..=6 {
        assert_eq!(world.applies(9, retire(node)), Applied::Done);
    }
    assert_eq!(world.refuses(9, retire(3)), Reason::BelowMinVoters);
    assert_eq!(world.state.configuration().voters.len(), 6);
}

/// H24f, `case_119`: dead voters count against the rest; they may go themselves.
#[test]
fn the_rest_must_have_a_healthy_majority() {
    let mut world = World::cluster(5);
    world.kill(4);
    world.kill(5);
    world.drain(3, true);
    world.drained_out(3);
    assert_eq!(world.refuses(9, retire(3)), Reason::NoHealthyMajority);
    world.drain(5, true);
    assert_eq!(world.applies(9, give_up(5, "gone")), Applied::Done);
    world.drain(4, true);
    assert_eq!(world.applies(9, give_up(4, "gone")), Applied::Done);
    assert_eq!(world.refuses(9, retire(3)), Reason::BelowMinVoters);
}

/// R87: healthy ones are counted against the minimum, and a voter without a life is not healthy.
#[test]
fn only_healthy_voters_count_for_the_minimum() {
    let mut world = World::cluster(4);
    world.join(5);
    world.vote(1..=5);
    world.drain(4, true);
    world.drained_out(4);
    // The rest is 1, 2, 3 and 5, which has never registered: three are healthy.
    assert_eq!(world.applies(9, retire(4)), Applied::Done);
    world.drain(3, true);
    world.drained_out(3);
    // The rest is 1, 2 and 5: a majority is healthy, but not three.
    assert_eq!(world.refuses(9, retire(3)), Reason::BelowMinVoters);
}

/// Too few is too few, whether they are healthy or not: that is what the operator can change.
#[test]
fn the_minimum_is_judged_before_the_majority() {
    let mut world = World::cluster(3);
    world.kill(2);
    world.kill(3);
    world.drain(3, true);
    assert_eq!(world.refuses(9, give_up(3, "gone")), Reason::BelowMinVoters);
}

/// A node without a vote is no loss to the voters, however few or ill they are.
#[test]
fn a_learner_may_always_go() {
    let mut world = World::cluster(3);
    world.vote(1..=2);
    world.kill(2);
    world.drain(3, true);
    world.drained_out(3);
    assert_eq!(world.applies(9, retire(3)), Applied::Done);
}

/// In a joint change both sets must be able to decide.
#[test]
fn both_halves_of_a_joint_change_must_be_healthy() {
    let mut world = World::cluster(6);
    world.kill(5);
    world.kill(6);
    world.drain(4, true);
    world.drained_out(4);
    let ids = |nodes: &[u64]| nodes.iter().copied().map(NodeId).collect();
    let joint = Configuration {
        voters: ids(&[1, 2, 3, 4]),
        voters_outgoing: ids(&[4, 5, 6]),
        learners: ids(&[]),
    };
    let index = world.next_index();
    let changed = world.state.configure(index, joint.clone()).expect("the next index");
    assert!(changed.configuration);
    assert!(joint.contains(NodeId(6)) && !joint.contains(NodeId(7)));
    assert_eq!(world.refuses(9, retire(4)), Reason::NoHealthyMajority);
    world.vote(1..=4);
    assert_eq!(world.applies(9, retire(4)), Applied::Done);
}
