//! What past owners hold, and when a directory may go: H14, S10, H27.

use super::{World, next_try, resolve};
use crate::ids::{Attempt, Epoch, MoveId, NodeId, Offset, PartitionId, TopicId};
use crate::metastore::{Applied, Command, Reason, Residue, Verdict};

fn reclaimed(world: &World, node: u64, epoch: u64) -> Command {
    Command::ReclaimReady { partition: world.p(0), node: NodeId(node), epoch: Epoch(epoch) }
}

/// Node 1 died, node 2 took over by force at 10, and node 1 is back.
fn forced() -> World {
    let mut world = World::moving(3);
    world.kill(1);
    world.applies(2, world.forced(0, 10).command());
    world.register(1, 2);
    world
}

/// H14: after a forced flip the old directory holds a residue until its owner says otherwise.
#[test]
fn a_forced_flip_leaves_a_residue_until_it_is_reclaimed() {
    let mut world = forced();
    let (p, old) = (world.p(0), Attempt::birth(NodeId(1)));
    let residue = Verdict::Residue { epoch: Epoch(2), start: Offset(10) };
    assert_eq!(world.state.verdict(p, old), residue);
    assert_eq!(world.applies(1, reclaimed(&world, 1, 2)), Applied::Done);
    assert_eq!(world.row(0).lineage[1].residue, Residue::Reclaimed);
    assert_eq!(world.state.verdict(p, old), Verdict::Dead);
    assert_eq!(world.applies(1, reclaimed(&world, 1, 2)), Applied::Done);
}

/// H14: the residue stays open through later moves.
#[test]
fn a_residue_outlives_later_flips() {
    let mut world = forced();
    world.relocate(0, 3, 20);
    let (p, old) = (world.p(0), Attempt::birth(NodeId(1)));
    assert!(matches!(world.state.verdict(p, old), Verdict::Residue { .. }));
    world.applies(1, reclaimed(&world, 1, 2));
    assert_eq!(world.state.verdict(p, old), Verdict::Dead);
}

/// S18: only the one whose reign ended there may say that it holds nothing more.
#[test]
fn only_the_old_owner_reclaims_its_residue() {
    let mut world = forced();
    assert_eq!(world.refuses(2, reclaimed(&world, 1, 2)), Reason::NotYours);
    assert_eq!(world.refuses(2, reclaimed(&world, 2, 2)), Reason::NotOwner);
    assert_eq!(world.refuses(1, reclaimed(&world, 1, 1)), Reason::EpochChanged);
    assert_eq!(world.refuses(1, reclaimed(&world, 1, 3)), Reason::EpochChanged);
    let elsewhere =
        Command::ReclaimReady { partition: world.p(3), node: NodeId(1), epoch: Epoch(2) };
    assert_eq!(world.refuses(1, elsewhere), Reason::Gone);
    assert_eq!(world.row(0).lineage[1].residue, Residue::Pending);
}

/// After a normal flip nothing is left, and saying so is no news.
#[test]
fn a_normal_flip_leaves_no_residue() {
    let mut world = World::cluster(2);
    world.relocate(0, 2, 10);
    let old = Attempt::birth(NodeId(1));
    assert_eq!(world.state.verdict(world.p(0), old), Verdict::Dead);
    assert_eq!(world.applies(1, reclaimed(&world, 1, 2)), Applied::Done);
    assert_eq!(world.row(0).lineage[1].residue, Residue::None);
}

/// H27, S10: the one live directory, those that may still win, and those that cannot.
#[test]
fn a_directory_is_dead_only_when_the_log_says_so() {
    let mut world = World::cluster(3);
    let p = world.p(0);
    assert_eq!(world.state.verdict(p, Attempt::birth(NodeId(1))), Verdict::Live);
    world.plan(0, 2);
    let (first, second) = (world.attempt(0), next_try(world.attempt(0)));
    assert_eq!(world.state.verdict(p, first), Verdict::Unresolved);
    world.applies(2, resolve(p, first));
    assert_eq!(world.state.verdict(p, first), Verdict::Dead);
    assert_eq!(world.state.verdict(p, second), Verdict::Unresolved);
    let foreign = Attempt { destination: NodeId(3), ..second };
    assert_eq!(world.state.verdict(p, foreign), Verdict::Dead);
    let unmade = Attempt { move_id: MoveId(9), ..second };
    assert_eq!(world.state.verdict(p, unmade), Verdict::Unresolved);
    world.clear(0);
    assert_eq!(world.state.verdict(p, second), Verdict::Dead);
    let never = Attempt::birth(NodeId(2));
    assert_eq!(world.state.verdict(p, never), Verdict::Dead);
}

/// S10, H26: a deleted topic's directories are dead; those of a topic that this state has not
/// seen created are not.
#[test]
fn a_state_that_is_behind_calls_nothing_dead() {
    let mut world = World::cluster(2);
    let (p, unborn) = (world.p(0), world.p(2));
    let birth = Attempt::birth(NodeId(1));
    assert_eq!(world.state.verdict(unborn, birth), Verdict::Unresolved);
    world.applies(1, Command::DeleteTopic { topic: p.topic });
    assert_eq!(world.state.verdict(p, birth), Verdict::Dead);
    let later = PartitionId { topic: TopicId(world.state.applied().0 + 1), index: 0 };
    assert_eq!(world.state.verdict(later, birth), Verdict::Unresolved);
}

/// Rule 8, S10: what was forgotten is kept.
#[test]
fn a_forgotten_directory_is_not_called_dead() {
    let mut world = forced();
    for _ in 0..40 {
        world.relocate(0, 1, 10);
        world.relocate(0, 2, 10);
    }
    let p = world.p(0);
    assert_eq!(world.state.verdict(p, Attempt::birth(NodeId(1))), Verdict::Forgotten);
    assert_eq!(world.refuses(1, reclaimed(&world, 1, 2)), Reason::Forgotten);
    let oldest = world.row(0).lineage[0];
    let at_cut = reclaimed(&world, 1, oldest.epoch.0);
    assert_eq!(world.refuses(1, at_cut), Reason::Forgotten);
}
