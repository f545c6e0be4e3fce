//! Copies that are damaged, cut short or left behind, and what is made of them.

use std::path::Path;

use narad_core::ids::{Attempt, Digest, NodeId, Offset, PartitionId};
use narad_core::partition::{Boundary, Position, Sidecar};
use narad_runtime::disk::mem::Step;
use narad_runtime::disk::{Disk as _, MemDisk, Open};
use narad_runtime::store::{PartitionStore, Refusal, StoreError, What};

use crate::world::{
    P, attempt, boundary, bytes, checkpoint, list, manifest, new_store, pull, record, refusal,
    relocate, segment, source, staging, visible,
};

/// R21, H16, `case_049`: a copy that was corrupted, cut or robbed of a segment is refused, in this
/// process or the next.
#[test]
fn a_damaged_copy_is_refused() {
    let whole = || {
        let (_, _, log) = source(12, 12);
        let disk = MemDisk::new();
        let store = new_store(&disk);
        let listing = list(&*log, &[]);
        pull(&*log, &store, &listing, 61).expect("copied");
        checkpoint(&store, &listing);
        store.verify(P, &boundary(&*log)).expect("whole so far");
        (log, listing, disk)
    };

    let (log, listing, disk) = whole();
    let middle = listing.extents[1].base;
    disk.rot(&segment(&staging(), middle.0), 90, 1);
    let restarted = new_store(&disk);
    assert!(matches!(
        restarted.verify(P, &boundary(&*log)),
        Err(StoreError::Corrupt { base }) if base == middle
    ));
    assert!(matches!(restarted.vouch(P), Err(StoreError::Corrupt { .. })));

    let (log, listing, disk) = whole();
    let middle = listing.extents[1];
    let path = segment(&staging(), middle.base.0);
    disk.open(&path, Open::Existing).expect("there").set_len(40).expect("works");
    let restarted = new_store(&disk);
    assert_eq!(restarted.recover().expect("readable").problems.len(), 1);
    let gap = Refusal::Gap { end: middle.base, next: middle.end };
    assert_eq!(refusal(restarted.verify(P, &boundary(&*log))), gap);
    let copied = pull(&*log, &restarted, &listing, 61).expect("copied again");
    assert_eq!(copied, middle.bytes.0, "and nothing else");

    let (log, listing, disk) = whole();
    let last = listing.extents.last().expect("some");
    disk.remove_file(&segment(&staging(), last.base.0)).expect("there");
    let restarted = new_store(&disk);
    let end = Refusal::End { found: last.base, end: Offset(12) };
    assert_eq!(refusal(restarted.verify(P, &boundary(&*log))), end);

    let (log, _, disk) = whole();
    let wrong = Boundary { digest: Some(Digest::default()), ..boundary(&*log) };
    let digest = Refusal::Digest { found: log.digest() };
    assert_eq!(refusal(new_store(&disk).verify(P, &wrong)), digest);
}

/// H16, `case_044`: half a frame at the end is refused, and verifying cuts nothing: the copy goes on
/// where it was.
#[test]
fn half_a_frame_is_refused_and_left_in_place() {
    let (_disk, _store, log) = source(3, 3);
    let disk = MemDisk::new();
    let store = new_store(&disk);
    let extent = list(&*log, &[]).extents[0];
    let mut raw = vec![0; usize::try_from(extent.bytes.0).expect("small")];
    log.read_at(extent.base, 0, &mut raw).expect("works");
    let (half, rest) = raw.split_at(raw.len() - 10);
    store.stage_at(P, extent.base, 0, half).expect("works");
    let steps = disk.steps();
    let torn = refusal(store.verify(P, &boundary(&*log)));
    assert!(matches!(torn, Refusal::Torn { base: Offset(0), .. }));
    assert_eq!(disk.steps(), steps, "verifying is read-only");
    let staged = store.stage_at(P, extent.base, half.len() as u64, rest).expect("works");
    assert_eq!((staged.bytes, staged.checksum), (extent.bytes, extent.checksum));
    store.verify(P, &boundary(&*log)).expect("whole now");
}

/// `case_048`: damage that the source itself has does not block a move; the copy is equal to it.
#[test]
fn damage_at_the_source_is_copied_as_it_is() {
    for at in [30, 90] {
        let (disk, store, log) = source(12, 12);
        let born = Attempt::birth(NodeId(1));
        let dir = Path::new("partitions/7/2").join(born.to_string());
        log.close().expect("works");
        disk.rot(&segment(&dir, 0), at, 8);
        disk.remove_file(&dir.join("segments")).expect("there");
        let log = store.open(P, born).expect("opens all the same");
        assert_eq!(log.recovery().damage.len(), 1);
        let destination = MemDisk::new();
        let copy = relocate(&*log, &new_store(&destination), attempt(7, 0));
        assert_eq!(copy.bounds().end, log.bounds().end);
        assert_eq!(copy.digest(), log.digest());
    }
}

/// `case_048`, field fault 13: a log goes on saying what was appended, so that a copy of what is there
/// instead is refused; once the damage is settled, it says what is there, of a growing segment too that
/// has grown meanwhile, and after a restart.
#[test]
fn settled_damage_moves_as_it_is() {
    let (disk, store, log) = source(12, 12);
    let born = Attempt::birth(NodeId(1));
    let dir = Path::new("partitions/7/2").join(born.to_string());
    let listed = list(&*log, &[]);
    let growing = listed.extents.last().expect("some").base;
    assert!(growing > Offset(0), "there is a sealed one");
    for base in [Offset(0), growing] {
        disk.rot(&segment(&dir, base.0), 90, 8);
    }
    assert_eq!(list(&*log, &[]).extents, listed.extents);

    let altered = log.find_altered(&(Offset(0)..Offset(1))).expect("readable");
    let [first] = altered.as_slice() else { panic!("{altered:?}") };
    assert_eq!((first.base, first.end), (Offset(0), listed.extents[0].end));
    let altered = log.find_altered(&(Offset(0)..Offset(12))).expect("readable");
    assert_eq!(altered.iter().map(|one| one.base).collect::<Vec<_>>(), [Offset(0), growing]);
    log.append(&[record(0)], log.bounds().epoch).expect("works");
    log.describe_anew(&altered).expect("works");
    log.describe_anew(&altered[..1]).expect("nothing is done twice");
    assert_eq!(log.find_altered(&(Offset(0)..Offset(13))).expect("readable"), []);
    log.append(&[record(1)], log.bounds().epoch).expect("works");
    log.expose(log.bounds().end).expect("durable");

    let copy = relocate(&*log, &new_store(&MemDisk::new()), attempt(7, 0));
    assert_eq!((copy.digest(), copy.bounds().end), (log.digest(), Offset(14)));
    let settled = list(&*log, &[]).extents;
    log.close().expect("works");
    let again = store.open(P, born).expect("opens");
    assert_eq!(list(&*again, &[]).extents, settled);
}

/// H13, R42, R65: without a source the copy must be contiguous and reach the high watermark; a torn
/// last append does not count, and is gone after the installation.
#[test]
fn a_dead_source_leaves_what_was_copied_whole() {
    let (_disk, _store, log) = source(12, 12);
    let listing = list(&*log, &[]);
    let disk = MemDisk::new();
    let store = new_store(&disk);
    let last = *listing.extents.last().expect("some");
    let mut cut = listing.clone();
    cut.extents.pop();
    pull(&*log, &store, &cut, 61).expect("copied");
    let mut raw = vec![0; usize::try_from(last.bytes.0).expect("small") - 5];
    log.read_at(last.base, 0, &mut raw).expect("works");
    let staged = store.stage_at(P, last.base, 0, &raw).expect("works");
    let made = checkpoint(&store, &listing);

    let gone = Boundary { start: Offset(0), end: Offset(12), hwm: Offset(11), digest: None };
    let verified = store.verify(P, &gone).expect("eleven are whole");
    assert_eq!(verified.end, Offset(11));
    let below = refusal(store.verify(P, &Boundary { hwm: Offset(12), ..gone }));
    assert_eq!(below, Refusal::BelowHwm { end: Offset(11), hwm: Offset(12) });

    let start = Sidecar { start: Offset(0), hwm: Offset(11), position: Position::default() };
    store.install(attempt(7, 0), &start, &made).expect("installed");
    let copy = store.open(P, attempt(7, 0)).expect("installed");
    assert_eq!(copy.recovery().cut_bytes, 0, "cut before it was installed");
    assert_eq!(copy.digest(), verified.digest);
    assert_eq!(copy.bounds().end, Offset(11));
    assert!(list(&*copy, &[]).extents.last().expect("some").bytes < staged.bytes);
    assert_eq!(visible(&*copy), visible(&*log)[..11]);
}

/// `case_048`: what a disk has lost does not keep the rest from moving. A listing has no holes, and a
/// copy with the source's own hole is the source's copy.
#[test]
fn a_log_with_a_hole_moves_as_it_is() {
    for lost in ["a middle segment", "the last segment"] {
        let (disk, store, log) = source(12, 12);
        let all = Position { committed: Some(Offset(12)), acked_ahead: Vec::new() };
        log.set_position(all).expect("visible");
        let extents = list(&*log, &[]).extents;
        let gone = if lost == "a middle segment" { extents[1] } else { extents[extents.len() - 1] };
        log.close().expect("works");
        let born = Attempt::birth(NodeId(1));
        let dir = Path::new("partitions/7/2").join(born.to_string());
        disk.remove_file(&segment(&dir, gone.base.0)).expect("there");

        let log = store.open(P, born).expect("what is left opens");
        let listing = list(&*log, &[]);
        assert_eq!(listing.end, Offset(12), "{lost}");
        let pairs = listing.extents.windows(2);
        assert!(pairs.into_iter().all(|pair| pair[0].end == pair[1].base), "{lost}: {listing:?}");
        let copy = relocate(&*log, &new_store(&MemDisk::new()), attempt(7, 0));
        assert_eq!((copy.bounds(), copy.digest()), (log.bounds(), log.digest()), "{lost}");
    }
}

/// `case_048`: segments that are gone from the beginning are no retention.
#[test]
fn a_lost_beginning_is_told() {
    let (disk, store, log) = source(12, 12);
    let first = list(&*log, &[]).extents[0];
    log.close().expect("works");
    let born = Attempt::birth(NodeId(1));
    let log = store.open(P, born).expect("whole");
    assert_eq!(log.recovery().lost_start, None);
    log.close().expect("works");
    let dir = Path::new("partitions/7/2").join(born.to_string());
    disk.remove_file(&segment(&dir, first.base.0)).expect("there");
    let log = store.open(P, born).expect("what is left opens");
    assert_eq!(log.recovery().lost_start, Some(first.base));
}

/// S11, H16, field fault 13: the small files beside a log save deliveries and name its lives; when they
/// are damaged no record is out of reach, and no life is taken for an earlier one.
#[test]
fn damage_beside_a_log_does_not_take_the_log_away() {
    let (disk, store, log) = source(4, 4);
    let born = Attempt::birth(NodeId(1));
    let dir = Path::new("partitions/7/2").join(born.to_string());
    log.set_position(Position { committed: Some(Offset(3)), acked_ahead: vec![] }).expect("fine");
    log.close().expect("works");
    disk.rot(&dir.join("position"), 12, 4);
    let log = store.open(P, born).expect("opens");
    assert_eq!((log.position().committed, log.bounds().end), (None, Offset(4)));
    let mut lives = vec![log.generation()];
    for _ in 0..2 {
        log.close().expect("works");
        disk.rot(&dir.join("generation"), 12, 2);
        let log = store.open(P, born).expect("opens");
        assert!(!lives.contains(&log.generation()), "{lives:?}, then {:?}", log.generation());
        lives.push(log.generation());
        log.close().expect("works");
        let log = store.open(P, born).expect("opens");
        assert_eq!(log.generation(), lives.last().expect("some").next());
        lives.push(log.generation());
    }
}

/// What partitions that are no more have left behind does not pile up.
#[test]
fn empty_directories_of_partitions_are_removed_at_the_start() {
    let (disk, store, log) = source(1, 1);
    let born = Attempt::birth(NodeId(1));
    log.close().expect("works");
    drop(log);
    for empty in ["partitions/7/5", "partitions/8/0", "partitions/8/1"] {
        disk.create_dir_all(Path::new(empty)).expect("works");
    }
    let found = store.recover().expect("works");
    let partitions: Vec<PartitionId> = found.partitions.iter().map(|(p, _)| *p).collect();
    assert_eq!(partitions, [P]);
    let names = |dir: &str| disk.list(Path::new(dir)).expect("there").len();
    assert_eq!((names("partitions"), names("partitions/7")), (1, 1));
    store.set_aside(P, What::Installed(born), 1).expect("works");
    assert_eq!(store.recover().expect("works").partitions, []);
    assert_eq!(names("partitions"), 0);
}

/// S5, `case_048`: the header of a torn append proves that there were records before it, even if
/// those are damaged: their offsets are not given again, by the owner or by a copy that succeeds it.
#[test]
fn damage_before_a_torn_append_gives_no_offset_twice() {
    // The header of the first record's frame, or its payload.
    for damage in [30, 80] {
        damage_before_a_torn_append(damage);
    }
}

fn damage_before_a_torn_append(at: usize) {
    let (disk, store, log) = source(0, 2);
    let bytes = list(&*log, &[]).extents[0].bytes.0;
    log.close().expect("works");
    let born = Attempt::birth(NodeId(1));
    let path = segment(&Path::new("partitions/7/2").join(born.to_string()), 0);
    disk.rot(&path, at, 1);
    disk.open(&path, Open::Existing).expect("there").set_len(bytes - 1).expect("works");
    let mut damaged = vec![0; usize::try_from(bytes).expect("small") - 1];
    disk.open(&path, Open::Existing).expect("there").read_at(0, &mut damaged).expect("works");

    let log = store.open(P, born).expect("opens");
    assert_eq!((log.bounds().start, log.bounds().end), (Offset(0), Offset(1)));
    assert_eq!((log.recovery().cut_bytes, log.recovery().damage.is_empty()), (0, false));

    // Once more, and to another node.
    log.close().expect("works");
    let log = store.open(P, born).expect("opens");
    assert_eq!(log.bounds().end, Offset(1));
    let copy = relocate(&*log, &new_store(&MemDisk::new()), attempt(7, 0));
    assert_eq!((copy.bounds(), copy.digest()), (log.bounds(), log.digest()));

    let store = new_store(&MemDisk::new());
    let listing = list(&*log, &[]);
    store.checkpoint(&manifest(&listing, Vec::new())).expect("works");
    store.stage_at(P, Offset(0), 0, &damaged).expect("works");
    let made = checkpoint(&store, &listing);
    let gone = Boundary { start: Offset(0), end: Offset(0), hwm: Offset(0), digest: None };
    let verified = store.verify(P, &gone).expect("nothing of it was visible");
    let start = Sidecar { start: Offset(0), hwm: Offset(0), position: Position::default() };
    store.install(attempt(7, 0), &start, &made).expect("installed");
    let copy = store.open(P, attempt(7, 0)).expect("installed");
    assert_eq!((verified.end, verified.digest), (Offset(1), copy.digest()));
    assert_eq!(copy.bounds().end, Offset(1));
}

/// A missing middle is refused when the source is dead, too.
#[test]
fn a_hole_is_refused_without_a_digest() {
    let (_disk, _store, log) = source(12, 12);
    let listing = list(&*log, &[]);
    let disk = MemDisk::new();
    let store = new_store(&disk);
    let mut holed = listing.clone();
    let hole = holed.extents.remove(1);
    pull(&*log, &store, &holed, 61).expect("copied");
    let gone = Boundary { digest: None, ..boundary(&*log) };
    let gap = Refusal::Gap { end: hole.base, next: hole.end };
    assert_eq!(refusal(store.verify(P, &gone)), gap);
}

/// H17: after a failed sync the extent is discarded, not synced again; the others stay.
#[test]
fn a_failed_sync_discards_the_extent() {
    let (_disk, _store, log) = source(12, 12);
    let listing = list(&*log, &[]);
    let disk = MemDisk::new();
    let store = new_store(&disk);
    pull(&*log, &store, &listing, 61).expect("copied");
    disk.fail(Step::Sync, 1);
    let made = manifest(&listing, store.staged(P).expect("readable"));
    let lost = listing.extents[1];
    assert!(matches!(
        store.checkpoint(&made),
        Err(StoreError::Lost { base, .. }) if base == lost.base
    ));
    assert!(matches!(store.checkpoint(&made), Err(StoreError::NotStaged { .. })));
    assert_eq!(pull(&*log, &store, &listing, 61).expect("copied"), lost.bytes.0);
    relocate(&*log, &store, attempt(7, 0));
}

/// `case_052`: a full disk ends the write cleanly; what was staged before stays, and the copy goes on
/// once there is space.
#[test]
fn a_full_disk_keeps_what_was_staged() {
    let (_disk, _store, log) = source(12, 12);
    let listing = list(&*log, &[]);
    for room in (0..2000).step_by(111) {
        let disk = MemDisk::new();
        let store = new_store(&disk);
        disk.set_quota(Some(room));
        let Err(full) = pull(&*log, &store, &listing, 61) else { continue };
        assert!(matches!(&full, StoreError::Disk(full) if full.is_full()), "{full}");
        let before = bytes(&store.staged(P).expect("readable"));
        assert!(before <= room);
        disk.set_quota(None);
        let copied = pull(&*log, &store, &listing, 61).expect("space is back");
        assert_eq!(copied, listing.bytes().0 - before);
        relocate(&*log, &store, attempt(7, 0));
    }
}

/// H22, `case_054`: a manifest that cannot be read is reported; its copy is neither touched nor
/// written over before it is set aside.
#[test]
fn an_unreadable_manifest_protects_its_copy() {
    let (_disk, _store, log) = source(12, 12);
    let listing = list(&*log, &[]);
    let disk = MemDisk::new();
    let store = new_store(&disk);
    pull(&*log, &store, &listing, 61).expect("copied");
    checkpoint(&store, &listing);
    disk.rot(&staging().join("manifest"), 30, 1);
    let store = new_store(&disk);
    let steps = disk.steps();
    let found = store.recover().expect("readable");
    assert_eq!(found.partitions[0].1.staging, None);
    assert_eq!(found.problems.len(), 1);
    assert!(matches!(store.stage_at(P, Offset(0), 0, b"x"), Err(StoreError::Manifest { .. })));
    assert!(matches!(store.trim_staging(P, &[]), Err(StoreError::Manifest { .. })));
    assert!(matches!(store.staged(P), Err(StoreError::Manifest { .. })));
    assert_eq!(disk.steps(), steps, "nothing was touched");
    store.set_aside(P, What::Staging, 1).expect("works");
    relocate(&*log, &store, attempt(7, 0));
}
