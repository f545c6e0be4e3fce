//! Sources that die, seem to, or return.

use narad_core::ids::*;
use narad_core::metastore::{Residue, Status};
use narad_core::mover::{Note as Moves, Waiting};
use narad_core::node::Note;
use narad_core::promote::Refusal;

use super::moving::{is_at, move_to, one_partition, owner};
use super::world::{World, ms, n};

fn has_noted(world: &World, id: u64, is_it: impl Fn(&Moves) -> bool) -> bool {
    world.notes.iter().any(|(node, note)| match note {
        Note::Mover(_, note) => *node == n(id) && is_it(note),
        _ => false,
    })
}

fn forced(note: &Moves) -> bool {
    matches!(note, Moves::Moved { forced: true, .. })
}

fn refused(world: &World, id: u64, is_it: impl Fn(Refusal) -> bool) -> bool {
    has_noted(world, id, |note| match note {
        Moves::Waiting(Waiting::PromoteRefused(refusal)) => is_it(*refusal),
        _ => false,
    })
}

/// A move from node 1 to node 2 whose copy has come close, and then no further: both still reach
/// the leader.
fn staged(nodes: u64, seed: u64) -> (World, PartitionId) {
    let (mut world, partition) = one_partition(nodes, seed);
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 5, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    world.separate(&[1], &[2]);
    (world, partition)
}

/// R63, R68, S5, H43, H14: a source that dies for good is replaced by what was copied, after the
/// wait and not before; what it still had waits on its disk when it returns.
#[test]
fn a_dead_source_is_replaced_after_the_wait() {
    let (mut world, partition) = staged(3, 30);
    world.work.every = ms(0);
    world.run(ms(200));
    world.crash(n(1));
    world.until("it is dead", World::SECOND * 8, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    let died = world.now;
    world.run(ms(3_900));
    assert_eq!(owner(&world, partition), Some(n(1)), "R62: not before the wait is over");
    let acked = world.work.acked.len();
    world.until("promotion or refusal", World::SECOND * 3, |world| {
        is_at(world, partition, 2) || refused(world, 2, |_| true)
    });
    assert!(world.now.since(died) < World::SECOND * 7);
    assert!(acked > 0);
    world.cut.clear();
    world.start(n(1));
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    world.run(World::SECOND * 3);
    world.check_nothing_is_lost();
}

/// R63, S1: with a copy that reaches everything visible the promotion succeeds, and exposes it.
#[test]
fn a_copy_that_reaches_everything_visible_is_promoted() {
    let (mut world, partition) = one_partition(3, 31);
    world.work.every = ms(0);
    world.run(ms(200));
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 5, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    world.crash(n(1));
    world.until("the promotion", World::SECOND * 15, |world| is_at(world, partition, 2));
    assert!(has_noted(&world, 2, forced));
    let row = world.log.state.assignment(partition).unwrap();
    assert_eq!(row.lineage.last().unwrap().residue, Residue::Pending);
    let log = world.live(n(2), partition).unwrap();
    assert_eq!(log.hwm, log.end(), "H43: the captured tail is visible without a new commit");
    // H14, S10: what the old owner has is kept until it is salvaged.
    world.machines.get_mut(&n(1)).unwrap().is_full = true;
    world.start(n(1));
    world.run(World::SECOND * 5);
    assert_eq!(world.machines[&n(1)].disk[&partition].installed.len(), 1);
    let left: Vec<PartitionId> = world.node(n(1)).left_behind().collect();
    assert_eq!(left, [partition]);
    world.check_everything_is_visible();
    world.machines.get_mut(&n(1)).unwrap().is_full = false;
    world.until("the disk is empty", World::SECOND * 30, |world| {
        world.machines[&n(1)].disk.is_empty()
    });
    let row = world.log.state.assignment(partition).unwrap();
    assert_eq!(row.lineage.last().unwrap().residue, Residue::Reclaimed);
    let again = world.notes.iter().find_map(|(by, note)| match note {
        Note::Salvaged { salvaged, .. } if *by == n(1) => Some(*salvaged),
        _ => None,
    });
    let start = row.lineage.last().unwrap().start;
    assert_eq!(again.expect("it was noted").from, start, "exactly what was not captured");
}

/// R64, R66, H30: no session of this move ever reached the source, so nothing is promoted; the
/// move waits, holds no slot, and goes on when the source returns.
#[test]
fn a_source_that_was_never_reached_is_waited_for() {
    let (mut world, partition) = one_partition(3, 32);
    world.separate(&[1], &[2]);
    move_to(&mut world, partition, 2);
    world.run(World::SECOND);
    world.crash(n(1));
    world.run(World::SECOND * 15);
    assert!(refused(&world, 2, |refusal| refusal == Refusal::NeverReached));
    assert_eq!(owner(&world, partition), Some(n(1)));
    assert!(world.node(n(2)).moves().all(|(_, progress)| !progress.holds_slot), "S14");
    world.heal();
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    world.check_everything_is_visible();
}

/// R65, H12, S6: the source went on for seconds after the copy lost sight of it; what it reported
/// keeps the copy from being promoted.
#[test]
fn a_copy_behind_what_was_reported_is_not_promoted() {
    let (mut world, partition) = staged(3, 33);
    world.run(World::SECOND * 3);
    world.crash(n(1));
    world.run(World::SECOND * 15);
    assert!(refused(&world, 2, |refusal| matches!(refusal, Refusal::Behind { .. })));
    assert_eq!(owner(&world, partition), Some(n(1)));
    world.heal();
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    assert!(!has_noted(&world, 2, forced));
    world.check_everything_is_visible();
}

/// H10, H11: the source returns around the very moment of the promotion; whichever is first in the
/// log wins, and nobody loses a record or writes beside another.
#[test]
fn a_source_may_return_at_every_step_of_a_promotion() {
    let (mut promoted, mut kept) = (0, 0);
    for step in (0..240).step_by(4) {
        let (mut world, partition) = staged(3, 34);
        world.crash(n(1));
        world.cut.clear();
        world.until("it is dead", World::SECOND * 10, |world| {
            matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
        });
        world.run(ms(3_850));
        for _ in 0..step {
            world.step();
        }
        world.start(n(1));
        world.run(World::SECOND * 3);
        if has_noted(&world, 2, forced) {
            promoted += 1;
        } else {
            kept += 1;
        }
        world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
        world.run(World::SECOND);
        world.check_nothing_is_lost();
    }
    assert!(promoted > 0 && kept > 0, "{promoted} promoted, {kept} not");
}

/// H9, S2: a source that is cut off from the leader, but not from its producers, stops before
/// anybody else begins.
#[test]
fn a_source_that_is_cut_off_stops_before_another_begins() {
    let (mut world, partition) = staged(3, 35);
    world.separate(&[1], &[2, 3]);
    let before = world.work.acked.len();
    world.run(World::SECOND * 15);
    let after = world.work.acked[before..].iter().filter(|acked| acked.owner == n(1)).count();
    assert!(after > 10, "it goes on while its lease lasts: {after}");
    world.cut.clear();
    world.until("the move", World::SECOND * 30, |world| is_at(world, partition, 2));
    world.run(World::SECOND);
    world.check_nothing_is_lost();
}

/// H31: a leader that was deposed, and does not know it, renews nobody's lease.
#[test]
fn a_deposed_leader_renews_no_lease() {
    let (mut world, partition) = one_partition(5, 36);
    world.elect(n(3));
    world.work.every = ms(0);
    world.run(ms(200));
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 5, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    // The source and the leader on one side, everybody else on the other.
    world.separate(&[1, 3], &[2, 4, 5]);
    world.work.every = ms(40);
    world.produce_every(ms(40));
    world.until("the promotion", World::SECOND * 20, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    assert_eq!(world.machines[&n(3)].believes, Some(n(3)), "it still believes that it leads");
    world.run(World::SECOND * 10);
    let late = world.work.acked.iter().rev().find(|acked| acked.owner == n(1));
    assert!(late.is_some());
    world.heal();
    world.until("the move", World::SECOND * 30, |world| is_at(world, partition, 2));
    world.check_nothing_is_lost();
}

/// H32: a node that was declared dead and comes back without a restart begins its next life before
/// it serves, and gets no lease in the old one.
#[test]
fn a_node_that_finds_itself_dead_begins_another_life() {
    let (mut world, partition) = staged(3, 37);
    let life = world.node(n(1)).incarnation();
    world.separate(&[1], &[2, 3]);
    world.until("it is dead", World::SECOND * 10, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    world.cut.clear();
    world.until("it lives again", World::SECOND * 3, |world| {
        world.node(n(1)).is_registered() && world.node(n(1)).incarnation() > life
    });
    world.until("the move", World::SECOND * 20, |world| is_at(world, partition, 2));
    assert!(!has_noted(&world, 2, forced));
    world.run(World::SECOND);
    world.check_everything_is_visible();
}

/// R60, R62, case 140, L1, S14: the two ends cannot reach one another while both reach the leader. The move
/// gives its slot back, does not give up, and ends well once they can.
#[test]
fn a_move_whose_ends_cannot_meet_gives_its_slot_back() {
    let mut world = World::new(3, 38);
    let policy = narad_core::config::Policy { max_in_flight: 1, ..super::world::policy() };
    world.say(narad_core::metastore::Command::SetPolicy(policy));
    let first = super::moving::topic(&mut world, "orders", 4);
    super::moving::settle(&mut world);
    let partition = PartitionId { topic: first, index: 0 };
    let from = owner(&world, partition).unwrap();
    let (to, third) = if from == n(1) { (2, 3) } else { (from.0 % 3 + 1, (from.0 + 1) % 3 + 1) };
    world.separate(&[from.0], &[to]);
    // The leader hears both.
    world.elect(n(third));
    move_to(&mut world, partition, to);
    world.run(World::SECOND * 20);
    assert_eq!(world.log.state.assignment(partition).unwrap().target, Some(n(to)));
    world.join(n(4));
    world.until("the newcomer has its part", World::SECOND * 30, |world| {
        world.log.state.owned_count(n(4)) >= 1
    });
    world.cut.clear();
    world.until("the move", World::SECOND * 30, |world| is_at(world, partition, to));
}

/// L1, K100: a target that is dead for too long is given up, and another takes the partition.
#[test]
fn a_target_that_stays_dead_is_given_up() {
    let mut world = World::new(4, 39);
    let topic = super::moving::topic(&mut world, "orders", 4);
    super::moving::settle(&mut world);
    let partition = PartitionId { topic, index: 0 };
    let from = owner(&world, partition).unwrap();
    let to = (from.0 % 4) + 1;
    world.separate(&[from.0], &[to]);
    let via = n((to % 4) + 1);
    world.elect(via);
    world.ask(via, narad_core::node::Ask::Move { partition, to: n(to) });
    world.run(World::SECOND);
    world.crash(n(to));
    world.run(World::SECOND * 20);
    assert_eq!(world.log.state.assignment(partition).unwrap().target, None);
    world.check_nothing_is_lost();
}

/// H46: the target of a dead owner stays, for its copy may be the only way back.
#[test]
fn a_dead_owners_target_is_not_given_up() {
    let (mut world, partition) = staged(4, 40);
    world.crash(n(1));
    world.crash(n(2));
    world.run(World::SECOND * 25);
    assert_eq!(world.log.state.assignment(partition).unwrap().target, Some(n(2)));
    let staging = world.machines[&n(2)].disk[&partition].staging.is_some();
    assert!(staging, "C54: nor is its copy");
    world.heal();
    world.until("the move", World::SECOND * 30, |world| is_at(world, partition, 2));
    world.check_nothing_is_lost();
}

/// R63: the row has another owner by the time that its mover may go on; the mover hears of that
/// one's death, too, and promotes.
#[test]
fn a_mover_hears_of_its_new_source() {
    let (mut world, partition) = one_partition(4, 41);
    world.work.every = ms(0);
    world.run(ms(200));
    world.separate(&[1], &[2]);
    move_to(&mut world, partition, 2);
    world.run(ms(100));
    assert_eq!(world.node(n(2)).moves().count(), 1);
    // Node 2 learns late, and at once, that node 4 has got the partition, and that it comes next.
    world.machines.get_mut(&n(2)).unwrap().lag = World::SECOND * 3;
    move_to(&mut world, partition, 4);
    world.until("the detour", World::SECOND * 2, |world| is_at(world, partition, 4));
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 20, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    world.crash(n(4));
    world.until("the promotion", World::SECOND * 20, |world| is_at(world, partition, 2));
    world.check_nothing_is_lost();
}

/// Case C54: an operator gives up a move whose source is dead; what is staged may be the last copy
/// and stays until the source is back.
#[test]
fn what_is_staged_from_a_dead_source_stays() {
    let (mut world, partition) = staged(3, 42);
    world.crash(n(1));
    world.until("it is dead", World::SECOND * 8, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    world.ask(n(3), narad_core::node::Ask::Abort(partition));
    world.run(World::SECOND * 5);
    assert_eq!(world.log.state.assignment(partition).unwrap().target, None);
    assert_eq!(world.node(n(2)).moves().count(), 0);
    assert!(world.machines[&n(2)].disk[&partition].staging.is_some());
    // Nor after a restart of the one that holds it.
    world.crash(n(2));
    world.start(n(2));
    world.run(World::SECOND * 3);
    assert!(world.machines[&n(2)].disk[&partition].staging.is_some());
    world.heal();
    world.run(World::SECOND * 5);
    assert!(world.machines[&n(2)].disk.is_empty(), "the source has everything");
}

/// L6: staging that no manifest vouches for goes with the rest, in the same life.
#[test]
fn what_no_manifest_vouches_for_goes_too() {
    let (mut world, partition) = staged(3, 42);
    world.crash(n(1));
    world.until("it is dead", World::SECOND * 8, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    world.ask(n(3), narad_core::node::Ask::Abort(partition));
    world.run(World::SECOND * 5);
    let disk = &mut world.machines.get_mut(&n(2)).unwrap().disk;
    disk.get_mut(&partition).unwrap().staging.as_mut().unwrap().manifest = None;
    world.heal();
    world.run(World::SECOND * 8);
    assert!(world.machines[&n(2)].disk.is_empty(), "the source has everything");
}

/// H14, H37, R86: a node with records that nobody else is known to have does not leave; once they
/// have been produced again it does.
#[test]
fn a_node_with_unsalvaged_records_does_not_leave() {
    let (mut world, partition) = one_partition(4, 43);
    world.work.every = ms(0);
    world.run(ms(200));
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 5, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    world.crash(n(1));
    world.until("the promotion", World::SECOND * 15, |world| is_at(world, partition, 2));
    world.machines.get_mut(&n(1)).unwrap().is_full = true;
    world.start(n(1));
    world.run(World::SECOND * 2);
    world.ask(n(3), narad_core::node::Ask::Decommission(n(1)));
    world.run(World::SECOND * 10);
    let member = world.log.state.member(n(1)).unwrap();
    assert!(member.draining && !member.drained_out);
    assert!(world.node(n(1)).left_behind().eq([partition]));
    world.machines.get_mut(&n(1)).unwrap().is_full = false;
    world.until("it is out", World::SECOND * 20, |world| {
        !world.log.state.configuration().contains(n(1))
    });
    assert!(world.machines[&n(1)].disk.is_empty());
}

/// R63: an operator who lengthens the wait is heeded by a move that waits already.
#[test]
fn a_longer_wait_holds_for_the_dead_already() {
    let (mut world, partition) = one_partition(3, 44);
    world.work.every = ms(0);
    world.run(ms(200));
    move_to(&mut world, partition, 2);
    world.until("a pass", World::SECOND * 5, |world| {
        has_noted(world, 2, |note| matches!(note, Moves::PassEnded { .. }))
    });
    world.crash(n(1));
    world.until("it is dead", World::SECOND * 8, |world| {
        matches!(world.log.state.member(n(1)).unwrap().status, Status::Dead(_))
    });
    let force_promote_after = World::SECOND * 20;
    let longer = narad_core::config::Policy { force_promote_after, ..super::world::policy() };
    world.say(narad_core::metastore::Command::SetPolicy(longer));
    world.run(World::SECOND * 18);
    assert_eq!(owner(&world, partition), Some(n(1)));
    world.until("the promotion", World::SECOND * 10, |world| is_at(world, partition, 2));
}

/// R64, H14, S11: where the copy is behind and the source never returns, an operator gives up what
/// only that has: the next reign begins past all that was visible, and what was copied is accepted
/// once more. Should the source return all the same, nothing is lost after all.
#[test]
fn a_partition_that_was_declared_lost_is_served_again() {
    let (mut world, partition) = staged(4, 45);
    world.run(World::SECOND * 2);
    world.work.every = ms(0);
    world.run(ms(200));
    world.crash(n(1));
    world.until("it is refused", World::SECOND * 20, |world| {
        refused(world, 2, |refusal| matches!(refusal, Refusal::Behind { .. }))
    });
    let seen = world.log.state.assignment(partition).unwrap().reported_hwm.unwrap();
    let copied: Vec<u64> = {
        let staging = world.machines[&n(2)].disk[&partition].staging.as_ref().unwrap();
        staging.records().map(|(_, content)| content).collect()
    };
    assert!(!copied.is_empty() && copied.len() < world.work.acked.len());
    // What would come of it is told before, and comes.
    let loss = world.node(n(3)).loss(partition).expect("its owner is dead");
    assert_eq!((loss.from, loss.to), (n(1), n(2)));
    let receipt = "the disk was shredded".to_owned();
    world.ask(n(3), narad_core::node::Ask::DeclareLost { partition, receipt });
    world.until("another serves it", World::SECOND * 10, |world| {
        is_at(world, partition, 2) && world.live(n(2), partition).is_some()
    });
    let log = world.live(n(2), partition).unwrap();
    assert_eq!((log.start, log.end()), (loss.end.0, loss.end.0));
    assert!(log.start > seen.0 && log.start % (1 << 44) == 0, "{} after {}", log.start, seen.0);
    world.until("what was copied is accepted", World::SECOND * 10, |world| {
        copied.iter().all(|content| world.machines[&n(2)].ingress.contains(content))
    });
    world.until("the copy is set aside", World::SECOND * 10, |world| {
        world.machines[&n(2)].disk[&partition].staging.is_none()
    });
    world.start(n(1));
    world.heal();
    world.until("the disk is empty", World::SECOND * 30, |world| {
        world.machines[&n(1)].disk.is_empty()
    });
    world.check_nothing_is_lost();
}

/// Nobody declares lost what a living node serves.
#[test]
fn what_a_living_node_serves_is_not_lost() {
    let (mut world, partition) = one_partition(3, 46);
    let receipt = "a mistake".to_owned();
    let ask = world.ask(n(3), narad_core::node::Ask::DeclareLost { partition, receipt });
    world.run(World::SECOND);
    let rejected = narad_core::node::AskError::Rejected(narad_core::metastore::Reason::NotDead);
    assert_eq!(world.replies[&ask], Err(rejected.clone()));
    assert_eq!(world.node(n(3)).loss(partition), Err(rejected));
    assert_eq!(owner(&world, partition), Some(n(1)));
}
