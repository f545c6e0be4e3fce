//! Single cases from the catalogue of failures.

use narad_core::ids::*;
use narad_core::metastore::Reason;
use narad_core::mover::Outcome;
use narad_core::mover::*;

use super::row::{B, C};
use super::source::{RECORD, Source};
use super::world::{Twist, World};

fn log(records: u64) -> Source {
    let mut source = Source::new(0);
    source.produce(records);
    source
}

fn live(world: &World) -> &super::disk::Directory {
    &world.disk.installed[&world.replicated.row.as_ref().unwrap().data]
}

/// `case_038`, R20: a partition that was never written moves, and its consumers stay at "none".
#[test]
fn a_never_written_partition_moves_trivially() {
    let mut world = World::new(Source::never_written());
    world.run();
    world.assert_moved();
    assert_eq!(world.count("copy"), 0);
    let sidecar = live(&world).sidecar.clone().unwrap();
    assert_eq!((sidecar.start, sidecar.hwm), (Offset(0), Offset(0)));
    assert_eq!(sidecar.position.committed, None);
}

/// `case_039`, R20: a partition whose records have all aged out keeps its offsets.
#[test]
fn an_aged_out_partition_keeps_its_offsets() {
    let mut source = Source::new(4_096);
    source.committed = Some(4_096);
    let mut world = World::new(source);
    world.run();
    world.assert_moved();
    let directory = live(&world);
    assert_eq!(directory.verify(Offset(4_096)).start, Offset(4_096));
    assert_eq!(directory.files[&Offset(4_096)], Vec::<u8>::new());
    let sidecar = directory.sidecar.clone().unwrap();
    assert_eq!((sidecar.start, sidecar.hwm), (Offset(4_096), Offset(4_096)));
    assert_eq!(sidecar.position.committed, Some(Offset(4_096)));
}

/// R20, R41, R50: the exact watermark and position, with a hidden tail.
#[test]
fn the_watermark_and_the_position_are_exact() {
    let mut source = log(50);
    source.hidden = 5;
    source.committed = Some(31);
    let mut world = World::new(source);
    world.run();
    world.assert_moved();
    let sidecar = live(&world).sidecar.clone().unwrap();
    assert_eq!((sidecar.hwm, sidecar.position.committed), (Offset(45), Some(Offset(31))));
    assert_eq!(live(&world).verify(Offset(0)).end, Offset(50));
}

/// `case_040`, R24: retention deletes segments while they are copied, and between two passes.
#[test]
fn retention_may_delete_what_is_being_copied() {
    let length = {
        let mut world = World::new(log(100));
        world.run();
        world.operations.len()
    };
    for index in 0..length {
        let mut world = World::new(log(100));
        world.write_percent = 30;
        world.twists.insert(index, Twist::Reap);
        world.twists.insert(index + 3, Twist::Reap);
        world.run();
        world.assert_moved();
        assert_eq!(live(&world).files.keys().next().unwrap().0, world.source.start());
    }
}

/// R24: records come and segments are rolled at every step.
#[test]
fn the_log_may_grow_and_roll_at_every_step() {
    for index in 0..40 {
        let mut world = World::new(log(37));
        world.twists.insert(index, Twist::Produce(25));
        world.run();
        world.assert_moved();
    }
}

/// `case_043`, H16: the source restarts, loses hidden records whose bytes were staged already, and
/// writes others at the same place.
#[test]
fn a_rewritten_tail_is_not_spliced() {
    let mut source = log(50);
    source.hidden = 6;
    let mut world = World::new(source);
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    world.restart_source();
    world.produce(9);
    world.run();
    world.assert_moved();
    assert!(world.notes.iter().any(|note| matches!(note, Note::Dropped { .. })));
}

/// `case_049`: an extent that was copied whole and is not what was listed is copied again.
#[test]
fn a_wrong_extent_is_copied_again() {
    let mut world = World::new(log(60));
    world.until("list", 1);
    for event in &mut world.inbox {
        if let Event::Done(_, Outcome::List(Ok(listing))) = event {
            listing.extents[0].checksum.0 ^= 1;
        }
    }
    world.run();
    world.assert_moved();
    assert!(world.notes.contains(&Note::ChecksumMismatch { base: Offset(0) }));
    assert!(world.notes.contains(&Note::Waiting(Waiting::CopyUnverifiable)));
}

/// `case_055`: what a move from another source left behind is used where the new source has the
/// same bytes, and set aside as a whole where it does not.
#[test]
fn staging_of_another_source_is_used_only_if_it_agrees() {
    for spoiled in [false, true] {
        let mut world = World::new(log(60));
        world.check_resume = !spoiled;
        while world.mover.progress().passes == 0 {
            assert!(world.step());
        }
        let staging = world.disk.staging.as_mut().unwrap();
        let manifest = staging.manifest.as_mut().unwrap();
        manifest.source = C;
        manifest.epoch = Epoch(0);
        manifest.move_id = MoveId(0);
        manifest.hwm = Offset(9_999);
        if spoiled {
            staging.files.get_mut(&Offset(0)).unwrap()[8] ^= 1;
            let checksum = super::source::checksum(&staging.files[&Offset(0)]);
            manifest.extents[0].checksum = checksum;
        }
        let before = world.copied_bytes;
        world.crash(true);
        world.run();
        world.assert_moved();
        assert_eq!(world.disk.set_aside, u32::from(spoiled));
        let again = world.copied_bytes - before;
        assert_eq!(again, if spoiled { 60 * RECORD } else { 0 });
    }
}

/// `case_054`, H46: the plan is cancelled while the owner is dead: what is staged stays.
#[test]
fn staging_outlives_a_cancelled_plan_of_a_dead_owner() {
    let mut world = World::new(log(60));
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    world.kill_source();
    world.happen(Twist::Cancel);
    world.run();
    assert!(world.mover.is_over());
    assert!(world.disk.staging.is_some());
    assert_eq!(world.notes.last(), Some(&Note::Cancelled { staging_kept: true }));
}

/// `case_004`: staging was set aside, and the answer lost; the same node is planned again: it
/// remembers nothing of what may be gone.
#[test]
fn staging_that_may_be_gone_is_not_used() {
    let mut world = World::new(log(60));
    while world.mover.progress().passes == 0 {
        assert!(world.step());
    }
    world.happen(Twist::Cancel);
    let set_aside = world.operations.len() + 1;
    world.twists.insert(set_aside, Twist::LoseAnswer);
    world.until("set_aside", 1);
    while world.mover.progress().phase != Phase::Waiting {
        assert!(world.step());
    }
    world.happen(Twist::Replan);
    world.run();
    world.assert_moved();
    assert_eq!(world.copied_bytes, 2 * 60 * RECORD);
}

/// `case_058`: an installed directory of a move that is over vouches for nothing: its fate is asked
/// for, and it is set aside.
#[test]
fn a_stale_install_is_resolved_and_set_aside() {
    let mut world = World::new(log(60));
    world.until("install", 1);
    world.replicated.set_target(Some(C));
    world.crash(false);
    world.run();
    assert!(world.mover.is_over());
    assert_eq!(world.count("resolve"), 1);
    assert!(world.disk.installed.is_empty());
    assert_eq!(world.replicated.row.as_ref().unwrap().target, Some(C));
}

/// `case_012`, H27: a flip won and the destination died before it heard: it finds out by the row,
/// and touches nothing.
#[test]
fn a_won_flip_is_found_after_a_restart() {
    let mut world = World::new(log(60));
    world.until("flip", 1);
    world.crash(true);
    let before = world.operations.len();
    world.run();
    world.assert_moved();
    assert_eq!(world.operations[before..], ["read_row"]);
    let data = world.replicated.row.as_ref().unwrap().data;
    assert_eq!(world.notes.last(), Some(&Note::AlreadyOwner { data }));
}

/// H35: an attempt that won an earlier reign is left to salvage, although this node is the target
/// again.
#[test]
fn a_past_reign_is_left_to_salvage() {
    let mut world = World::new(log(60));
    world.run();
    world.assert_moved();
    let past = world.replicated.row.as_ref().unwrap().data;
    // The partition moved on to A again, and now comes back.
    let row = world.replicated.row.as_mut().unwrap();
    row.owner = super::row::A;
    row.epoch = row.epoch.next();
    row.data = Attempt::birth(super::row::A);
    row.move_id = row.move_id.next();
    world.source.epoch = row.epoch.0;
    world.replicated.set_target(Some(B));
    world.crash(true);
    world.run();
    assert_eq!(world.replicated.flips, 2);
    assert!(world.disk.installed.contains_key(&past));
    assert_eq!(world.disk.installed.len(), 2);
    assert_eq!(world.count("resolve"), 0);
}

/// F22, T22, H1: the freeze runs out and is revoked before the flip: the copy becomes the staging
/// area again, what came meanwhile is added, and the next try wins.
#[test]
fn a_revoked_freeze_costs_a_try_and_no_record() {
    let mut world = World::new(log(60));
    while world.count("install") == 0 {
        assert!(world.step());
    }
    // The disk hangs for longer than the TTL; the source goes on.
    world.now = world.now.after(world.config.freeze_ttl);
    world.happen(Twist::Produce(0));
    world.step();
    world.flush();
    world.run();
    world.assert_moved();
    let reason = Reason::TokenRevoked;
    let rejected =
        |note: &Note| matches!(note, Note::FlipRejected { reason: r, .. } if *r == reason);
    assert!(world.notes.iter().any(rejected), "{:?}", world.notes);
    assert_eq!(world.mover.progress().attempts, 2);
    assert_eq!(world.count("restage"), 1);
}

/// R13, `case_001`: nothing the destination does needs it to lead: the flip is one proposal, by
/// itself.
#[test]
fn an_undisturbed_move_proposes_once() {
    let mut world = World::new(log(60));
    world.run();
    world.assert_moved();
    assert_eq!(world.count("flip"), 1);
    assert_eq!(world.count("resolve"), 0);
    assert_eq!(world.source.freezes, 1);
}
