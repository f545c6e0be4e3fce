//! Plans, flips, resolutions and revocations as schedules: H1 to H12, H29, H33 to H36.

use super::{Flip, Vec, World, epoch, next_try, register, resolve};
use crate::ids::{
    Attempt, AttemptNo, Epoch, Generation, Incarnation, MoveId, NodeId, Offset, PartitionId, Token,
    TopicId,
};
use crate::metastore::{Applied, Command, Fence, Reason, Residue};

fn revoke(world: &World, token: Token) -> Command {
    Command::Revoke { partition: world.p(0), token }
}

/// H1, R40, `case_011`: a freeze that ended in the log fences nothing; the flip that comes too late
/// loses.
#[test]
fn a_flip_after_the_revoke_of_its_freeze_is_refused() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    let token = world.token(0, 1);
    assert_eq!(world.applies(1, revoke(&world, token)), Applied::Resumed);
    assert_eq!(world.refuses(2, flip.command()), Reason::TokenRevoked);
    assert_eq!(world.row(0).owner, NodeId(1));
}

/// H1: the other order; the source that comes too late learns that it owns nothing.
#[test]
fn a_revoke_after_the_flip_is_refused() {
    let mut world = World::moving(3);
    let (flip, token) = (world.flip(0, 10), world.token(0, 1));
    world.applies(2, flip.command());
    assert_eq!(world.refuses(1, revoke(&world, token)), Reason::NotOwner);
    assert_eq!(world.row(0).revoked, None);
}

/// R57, R58: a refused flip keeps the target, and the next try under a new freeze wins.
#[test]
fn a_refused_flip_keeps_the_target_and_a_retry_wins() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    let token = world.token(0, 1);
    world.applies(1, revoke(&world, token));
    world.refuses(2, flip.command());
    assert_eq!(world.row(0).target, Some(NodeId(2)));
    let fence = Fence::Normal { token: world.token(0, 2) };
    let retry = Flip { attempt: next_try(flip.attempt), fence, ..flip };
    assert_eq!(world.applies(2, retry.command()), Applied::Won(Epoch(2)));
}

/// A late copy of a revoke does not revoke a later freeze; S18: only the owner revokes.
#[test]
fn a_revoke_counts_up_to_its_own_freeze_only() {
    let mut world = World::moving(3);
    let (first, second) = (world.token(0, 1), world.token(0, 2));
    assert_eq!(world.refuses(2, revoke(&world, second)), Reason::NotOwner);
    assert_eq!(world.applies(1, revoke(&world, second)), Applied::Resumed);
    assert_eq!(world.applies(1, revoke(&world, first)), Applied::Resumed);
    assert_eq!(world.row(0).revoked, Some(second.no));
}

/// H2: once `Resolve` has said Burned, the flip that was sent before it can no longer apply.
#[test]
fn a_burned_attempt_cannot_win_any_more() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    assert_eq!(world.applies(2, resolve(world.p(0), flip.attempt)), Applied::Burned);
    assert_eq!(world.refuses(2, flip.command()), Reason::AttemptBurned);
    let next = Flip { attempt: next_try(flip.attempt), ..flip };
    assert_eq!(world.applies(2, next.command()), Applied::Won(Epoch(2)));
}

/// H2, H35: a `Resolve` that comes after the flip says that it has won, and in which epoch.
#[test]
fn an_attempt_that_won_is_not_burned() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    world.applies(2, flip.command());
    assert_eq!(world.applies(2, resolve(world.p(0), flip.attempt)), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).owner, NodeId(2));
}

/// H3, `case_005`: the second copy of a winning flip is told that it has won, also after the
/// partition has gone on to another node.
#[test]
fn a_duplicate_of_the_winning_flip_is_told_that_it_won() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
    assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
    world.relocate(0, 3, 20);
    assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
    assert_eq!((world.row(0).owner, world.row(0).epoch), (NodeId(3), Epoch(3)));
}

/// H4, field fault 1: the flip of an earlier life wins; the later life's own flip does not undo
/// it, and each is told of its own directory.
#[test]
fn two_lives_of_one_destination_are_told_apart() {
    let mut world = World::moving(3);
    let first = world.flip(0, 10);
    world.register(2, 2);
    let second = world.flip(0, 12);
    assert!(second.attempt.no > first.attempt.no);
    assert_eq!(world.applies(2, first.command()), Applied::Won(Epoch(2)));
    assert_eq!(world.refuses(2, second.command()), Reason::NotTarget);
    assert_eq!(world.row(0).data, first.attempt);
    assert_eq!(world.applies(2, resolve(world.p(0), second.attempt)), Applied::Burned);
    assert_eq!(world.applies(2, resolve(world.p(0), first.attempt)), Applied::Won(Epoch(2)));
}

/// H5, `case_018`: the same plan made anew is another plan; the old flip meets a row that looks
/// right and is refused.
#[test]
fn a_flip_of_a_cancelled_plan_does_not_fit_its_repetition() {
    let mut world = World::moving(3);
    let old = world.flip(0, 10);
    world.clear(0);
    world.plan(0, 2);
    assert_eq!(world.refuses(2, old.command()), Reason::MoveChanged);
    assert_eq!(world.applies(2, resolve(world.p(0), old.attempt)), Applied::Burned);
    let new = world.flip(0, 10);
    assert_eq!(world.applies(2, new.command()), Applied::Won(Epoch(2)));
}

/// H5, H26: the topic of that name is another one; its rows are not those of the old.
#[test]
fn a_flip_of_a_deleted_topic_finds_nothing() {
    let mut world = World::moving(3);
    let (old, topic) = (world.flip(0, 10), world.topic);
    world.applies(1, Command::DeleteTopic { topic });
    world.topic = world.create("orders", 4);
    world.assign(0, 1);
    world.plan(0, 2);
    assert_eq!(world.refuses(2, old.command()), Reason::Gone);
    assert_eq!(world.refuses(2, resolve(old.partition, old.attempt)), Reason::Gone);
    let token = world.token(0, 1);
    let late = Command::Revoke { partition: old.partition, token };
    assert_eq!(world.refuses(1, late), Reason::Gone);
}

/// H6: a freeze does not outlive the life of the source that issued it.
#[test]
fn a_flip_under_a_freeze_of_a_past_life_is_refused() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    world.register(1, 2);
    assert_eq!(world.refuses(2, flip.command()), Reason::TokenStale);
    assert_eq!(world.applies(2, world.flip(0, 10).command()), Applied::Won(Epoch(2)));
}

/// H6: death alone does not end a freeze; only the next life could have written behind it.
#[test]
fn a_freeze_of_a_life_that_was_declared_dead_still_fences() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    world.kill(1);
    assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).lineage[1].residue, Residue::None);
}

/// H10: the source came back between the destination's gate and the flip.
#[test]
fn a_forced_flip_is_refused_once_the_source_is_back() {
    let mut world = World::moving(3);
    world.kill(1);
    let flip = world.forced(0, 10);
    world.register(1, 2);
    assert_eq!(world.refuses(2, flip.command()), Reason::NotDead);
}

/// H11: a certificate is good for one death.
#[test]
fn a_forced_flip_of_an_earlier_death_is_refused() {
    let mut world = World::moving(3);
    world.kill(1);
    let old = world.forced(0, 10);
    world.register(1, 2);
    assert_eq!(world.kill(1), Generation(2));
    assert_eq!(world.refuses(2, old.command()), Reason::NotDead);
    let new = world.forced(0, 10);
    assert_eq!(world.applies(2, new.command()), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).lineage[1].residue, Residue::Pending);
}

/// H12, R65: what the source reported visible must have been copied; hwm-1, hwm, hwm+1.
#[test]
fn a_forced_flip_needs_everything_that_was_reported_visible() {
    for (end, wins) in [(499, false), (500, true), (501, true)] {
        let mut world = World::moving(3);
        world.report(0, 500);
        world.kill(1);
        let flip = world.forced(0, end);
        if wins {
            assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
        } else {
            assert_eq!(world.refuses(2, flip.command()), Reason::CopyBehind);
        }
    }
}

/// H36: a report outlives the life that made it, and a lower one does not lower it.
#[test]
fn a_report_of_an_earlier_life_still_counts() {
    let mut world = World::moving(3);
    world.report(0, 1000);
    world.register(1, 2);
    world.report(0, 400);
    world.kill(1);
    assert_eq!(world.row(0).reported_hwm, Some(Offset(1000)));
    assert_eq!(world.refuses(2, world.forced(0, 500).command()), Reason::CopyBehind);
}

/// H12: a report speaks for its own reign only, and a new reign starts without one.
#[test]
fn a_report_of_another_reign_or_node_is_passed_over() {
    let mut world = World::moving(3);
    world.report(0, 700);
    world.applies(2, world.flip(0, 700).command());
    assert_eq!(world.row(0).reported_hwm, None);
    let report = |node: u64, incarnation: u64, partition, epoch, hwm| Command::Report {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        hwms: [(partition, Epoch(epoch), Offset(hwm))].into(),
    };
    let unknown = PartitionId { topic: TopicId(77), index: 0 };
    let p = world.p(0);
    for (node, partition, reign) in [(1, p, 1), (1, p, 2), (2, p, 1), (2, p, 3), (2, unknown, 1)] {
        assert_eq!(world.applies(node, report(node, 1, partition, reign, 900)), Applied::Done);
    }
    assert_eq!(world.row(0).reported_hwm, None);
    assert_eq!(world.refuses(1, report(2, 1, p, 2, 900)), Reason::NotYours);
    assert_eq!(world.refuses(2, report(2, 2, p, 2, 900)), Reason::StaleIncarnation);
    assert_eq!(world.refuses(8, report(8, 1, p, 2, 900)), Reason::UnknownMember);
    let hwms: Vec<_> = (0..=Command::REPORT_MAX).map(|_| (p, epoch(2), Offset(1))).collect();
    let long = Command::Report { node: NodeId(2), incarnation: Incarnation(1), hwms };
    assert_eq!(world.refuses(2, long), Reason::OutOfRange);
    let hwms: Vec<_> = (0..Command::REPORT_MAX).map(|_| (p, epoch(1), Offset(1))).collect();
    let full = Command::Report { node: NodeId(2), incarnation: Incarnation(1), hwms };
    assert_eq!(world.applies(2, full), Applied::Done);
}

/// H29, `case_109`, `case_114`, R56: a plan made of an older row is refused, whatever has changed.
#[test]
fn a_plan_of_an_older_row_is_refused() {
    let mut world = World::cluster(4);
    let stale = world.set_target(0, 3);
    world.plan(0, 2);
    assert_eq!(world.refuses(9, stale), Reason::MoveChanged);
    let stale = world.set_target(0, 3);
    world.applies(2, world.flip(0, 5).command());
    assert_eq!(world.refuses(9, stale), Reason::OwnerChanged);
    world.relocate(0, 4, 5);
    world.relocate(0, 2, 5);
    let Command::SetTarget { partition, mut expect, to } = world.set_target(0, 3) else {
        unreachable!("it is a SetTarget")
    };
    expect.epoch = Epoch(2);
    assert_eq!(
        world.refuses(9, Command::SetTarget { partition, expect, to }),
        Reason::EpochChanged
    );
    let nowhere = Command::SetTarget { partition: world.p(3), expect, to };
    assert_eq!(world.refuses(9, nowhere), Reason::Gone);
}

/// H24e, `case_109`, `case_115`, field fault 37: only who may receive is planned to.
#[test]
fn a_plan_needs_a_live_owner_and_a_receiver() {
    let mut world = World::cluster(5);
    world.join(6);
    world.kill(3);
    world.drain(4, true);
    for (to, reason) in [
        (1, Reason::AlreadyThere),
        (3, Reason::NodeDead),
        (4, Reason::NodeDraining),
        (6, Reason::NodeUnregistered),
        (7, Reason::UnknownMember),
    ] {
        assert_eq!(world.refuses(9, world.set_target(0, to)), reason, "to n{to}");
    }
    world.drained_out(4);
    world.applies(9, Command::Retire { node: NodeId(4), receipt: None });
    assert_eq!(world.refuses(9, world.set_target(0, 4)), Reason::NodeRetired);
    world.kill(1);
    // H46: a dead owner can give no listing to a new move.
    assert_eq!(world.refuses(9, world.set_target(0, 2)), Reason::NodeDead);
}

/// S14, H23: whoever asks, at most half of a topic's partitions, and at least one, are on the move
/// at once. Another target for one of them is no further move; one with a dead end does not count.
#[test]
fn half_of_a_topic_may_be_planned_at_once() {
    let mut world = World::cluster(4);
    for index in 1..4 {
        world.assign(index, 1);
    }
    world.plan(0, 2);
    world.plan(1, 3);
    assert_eq!(world.refuses(9, world.set_target(2, 2)), Reason::TopicBusy);
    world.plan(1, 2);
    assert_eq!(world.refuses(9, world.set_target(2, 3)), Reason::TopicBusy);
    world.kill(2);
    world.plan(2, 3);
    world.plan(3, 4);
    world.topic = world.create("one", 1);
    world.assign(0, 1);
    world.plan(0, 3);
}

/// H24i, case K100: the target died; its plan is given up, or replaced, and its slot is free.
#[test]
fn the_plan_to_a_dead_target_can_be_given_up_and_replaced() {
    let mut world = World::moving(3);
    world.kill(2);
    let move_id = world.row(0).move_id;
    let clear = Command::ClearTarget { partition: world.p(0), move_id };
    assert_eq!(world.applies(9, clear.clone()), Applied::Planned(MoveId(3)));
    assert_eq!(world.state.targeted().count(), 0);
    assert_eq!(world.refuses(9, clear), Reason::MoveChanged);
    // There is nothing to give up now, but for a target that is on its way.
    let expect = world.row(0).expect();
    let clear = Command::ClearTarget { partition: world.p(0), move_id: MoveId(3) };
    assert_eq!(world.applies(9, clear), Applied::Planned(MoveId(4)));
    let late = Command::SetTarget { partition: world.p(0), expect, to: NodeId(3) };
    assert_eq!(world.refuses(9, late), Reason::MoveChanged);
    assert_eq!(world.plan(0, 3), MoveId(5));
}

/// R9: a partition has a target from the plan to the flip, and not after.
#[test]
fn the_target_is_empty_when_stable() {
    let mut world = World::cluster(2);
    assert_eq!(world.row(0).target, None);
    world.plan(0, 2);
    assert_eq!(world.row(0).target, Some(NodeId(2)));
    world.applies(2, world.flip(0, 1).command());
    assert_eq!(world.row(0).target, None);
    assert_eq!(world.state.targeted().count(), 0);
}

/// H33: the freezes of a past owner, of whatever life, do not outrank the present one's.
#[test]
fn freezes_are_compared_within_their_reign() {
    let mut world = World::cluster(2);
    world.register(1, 7);
    world.plan(0, 2);
    let old = world.token(0, 900);
    world.applies(1, revoke(&world, old));
    let fence = Fence::Normal { token: world.token(0, 901) };
    let flip = Flip { fence, ..world.flip(0, 10) };
    world.applies(2, flip.command());
    world.plan(0, 1);
    // Node 2 is in life 1: its first freeze is a lower number, of a higher epoch.
    assert_eq!(world.applies(1, world.flip(0, 20).command()), Applied::Won(Epoch(3)));
    // And a token of node 1's first reign says nothing about its second.
    assert_eq!(world.refuses(1, revoke(&world, old)), Reason::NotOwner);
    assert_eq!(world.row(0).revoked, None);
}

/// H34: a `Register` of an earlier start does not pass for the present one.
#[test]
fn a_late_register_of_an_earlier_life_is_refused() {
    let mut world = World::cluster(2);
    world.register(1, 2);
    assert_eq!(world.refuses(1, register(1, 1)), Reason::StaleIncarnation);
    assert_eq!(world.member(1).incarnation, Incarnation(2));
}

/// H35: the winner is remembered when the partition has been forced off it since.
#[test]
fn a_winner_is_remembered_after_it_was_deposed() {
    let mut world = World::moving(3);
    let won = world.flip(0, 10);
    world.applies(2, won.command());
    world.plan(0, 3);
    world.kill(2);
    world.applies(3, world.forced(0, 10).command());
    world.register(2, 2);
    assert_eq!(world.applies(2, resolve(world.p(0), won.attempt)), Applied::Won(Epoch(2)));
}

/// S18: only the destination asks for the fate of its attempts, and only the target burns any.
#[test]
fn nobody_burns_the_attempts_of_another() {
    let mut world = World::moving(3);
    let flip = world.flip(0, 10);
    let theirs = resolve(world.p(0), flip.attempt);
    assert_eq!(world.refuses(3, theirs.clone()), Reason::NotYours);
    assert_eq!(world.refuses(1, theirs), Reason::NotYours);
    let no = AttemptNo { incarnation: Incarnation(99), n: 9 };
    let foreign = Attempt { destination: NodeId(3), no, ..flip.attempt };
    assert_eq!(world.applies(3, resolve(world.p(0), foreign)), Applied::Burned);
    assert_eq!(world.row(0).burned, None);
    assert_eq!(world.applies(2, flip.command()), Applied::Won(Epoch(2)));
}

/// H33: burning is per move; a try of a passed move burns nothing of the present one, and a plan
/// that nobody has made is none of this log.
#[test]
fn burning_is_per_move() {
    let mut world = World::moving(3);
    let old = Attempt { no: AttemptNo { incarnation: Incarnation(8), n: 8 }, ..world.attempt(0) };
    world.applies(2, resolve(world.p(0), old));
    world.clear(0);
    world.plan(0, 2);
    assert_eq!(world.row(0).burned, None);
    assert_eq!(world.applies(2, resolve(world.p(0), old)), Applied::Burned);
    assert_eq!(world.row(0).burned, None);
    let unmade = Attempt { move_id: MoveId(50), ..old };
    assert_eq!(world.refuses(2, resolve(world.p(0), unmade)), Reason::MoveChanged);
    assert_eq!(world.applies(2, world.flip(0, 1).command()), Applied::Won(Epoch(2)));
}

/// R59, R12: two flips race; one wins, and the other finds that its plan is over.
#[test]
fn of_two_racing_workers_one_wins() {
    let mut world = World::moving(4);
    let first = world.flip(0, 10);
    world.plan(0, 3);
    let second = world.flip(0, 10);
    assert_eq!(world.refuses(2, first.command()), Reason::NotTarget);
    assert_eq!(world.applies(3, second.command()), Applied::Won(Epoch(2)));
    assert_eq!(world.refuses(2, first.command()), Reason::NotTarget);
}

/// Rule 8: the lineage is bounded; of what was forgotten nothing is said, least of all Burned.
#[test]
fn a_forgotten_winner_is_never_called_burned() {
    let mut world = World::cluster(2);
    let first = world.relocate(0, 2, 1);
    for round in 0..40 {
        world.relocate(0, 1, 2 + 2 * round);
        world.relocate(0, 2, 3 + 2 * round);
    }
    assert!(world.row(0).lineage_cut);
    assert_eq!(world.refuses(2, resolve(world.p(0), first)), Reason::Forgotten);
    let oldest = world.row(0).lineage[0];
    let answer = world.applies(oldest.owner.0, resolve(world.p(0), oldest.data));
    assert_eq!(answer, Applied::Won(oldest.epoch));
    // Of a loser that is as old as the oldest winner, everything is known.
    let loser = next_try(oldest.data);
    assert_eq!(world.applies(oldest.owner.0, resolve(world.p(0), loser)), Applied::Burned);
}

/// Pins: set and unset; a late copy of one does not undo the other.
#[test]
fn a_late_copy_of_a_pin_does_not_undo_the_unpin() {
    let mut world = World::cluster(2);
    let pin = |on| Command::SetPin { partition: PartitionId { topic: world.topic, index: 0 }, on };
    let (on, off) = (pin(true), pin(false));
    let proposal = world.proposal(9);
    let entry = super::Entry { proposal, by: NodeId(9), command: on };
    world.append(&entry);
    assert!(world.row(0).pinned);
    world.applies(9, off);
    world.append(&entry);
    assert!(!world.row(0).pinned);
    let gone = Command::SetPin { partition: world.p(2), on: true };
    assert_eq!(world.refuses(9, gone), Reason::Gone);
}
