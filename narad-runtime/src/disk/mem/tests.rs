//! What a disk in memory forgets, fails and gets wrong.

use proptest::prelude::*;

use super::*;
use crate::disk::{read_whole, write_atomically};

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn read(disk: &MemDisk, name: &str) -> Option<Vec<u8>> {
    read_whole(disk, path(name), 1 << 20).expect("readable")
}

/// A disk with one durable file of these bytes.
fn holding(bytes: &[u8]) -> (MemDisk, Arc<dyn DiskFile>) {
    let disk = MemDisk::new();
    write_atomically(&disk, path("a"), bytes).unwrap();
    let file = disk.open(path("a"), Open::Existing).unwrap();
    (disk, file)
}

#[test]
fn a_killed_process_leaves_what_it_wrote_to_the_mercy_of_a_later_power_loss() {
    let (disk, file) = holding(b"old");
    file.write_at(0, b"new").unwrap();
    disk.kill();
    assert!(file.read_at(0, &mut [0; 3]).is_err(), "its files are closed");
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"new"[..]));
    disk.crash(Keep::Nothing);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"old"[..]));
}

/// The old disk put back: everything since is gone, and nothing of the image changes.
#[test]
fn an_image_is_put_back_as_often_as_one_likes() {
    let (disk, file) = holding(b"first");
    file.write_at(0, b"FIRST").unwrap();
    let (harsh, kind) = (disk.image(Keep::Nothing), disk.image(Keep::Everything));
    for _ in 0..2 {
        write_atomically(&disk, path("b"), b"later").unwrap();
        disk.restore(&harsh);
        assert_eq!(read(&disk, "a").as_deref(), Some(&b"first"[..]));
        assert_eq!(read(&disk, "b"), None);
        assert_eq!(disk.used(), 5);
        assert_eq!(read(&MemDisk::of(&kind), "a").as_deref(), Some(&b"FIRST"[..]));
    }
    assert!(file.length().is_err(), "files of before are of another disk");
}

#[test]
fn a_lasting_fault_ends_when_it_is_cleared_and_not_before() {
    let (disk, file) = holding(b"x");
    let fault = disk.inject(Fault::new(Step::Write).lasting().with(Mishap::Full));
    disk.fail(Step::Read, 3);
    for _ in 0..3 {
        assert!(file.write_at(0, b"y").is_err_and(|error| error.is_full()));
    }
    disk.crash(Keep::Nothing);
    let file = disk.open(path("a"), Open::Existing).unwrap();
    assert!(file.write_at(0, b"y").is_err(), "the crash has not mended it");
    disk.clear(fault);
    file.write_at(0, b"y").unwrap();
    for _ in 0..5 {
        file.read_at(0, &mut [0]).expect("a planned fault is forgotten in a crash");
    }
}

#[test]
fn a_fault_meets_only_steps_below_its_path_and_as_often_as_told() {
    let disk = MemDisk::new();
    for dir in ["p/1", "p/2"] {
        disk.create_dir_all(path(dir)).unwrap();
    }
    let open = |name| disk.open(path(name), Open::Create).unwrap();
    let (one, two) = (open("p/1/a"), open("p/2/a"));
    disk.inject(Fault::new(Step::Write).below("p/2").after(1).times(2));
    let outcomes = [&two, &one, &two, &one, &two, &two].map(|file| file.write_at(0, b"x").is_ok());
    assert_eq!(outcomes, [true, true, false, true, false, true]);
}

/// Field faults: a device that says yes and keeps nothing.
#[test]
fn a_lying_sync_shows_in_the_next_crash_or_in_a_stale_read() {
    let (disk, file) = holding(b"old");
    file.write_at(0, b"new").unwrap();
    disk.inject(Fault::new(Step::Sync).with(Mishap::Lost));
    file.sync().unwrap();
    let mut bytes = [0; 3];
    disk.inject(Fault::new(Step::Read).with(Mishap::Stale));
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
    file.write_at(3, b"er").unwrap();
    file.sync().unwrap();
    disk.crash(Keep::Everything);
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"older"[..]));
}

#[test]
fn a_misdirected_step_goes_elsewhere_in_the_file() {
    let (disk, file) = holding(b"0123456789");
    disk.inject(Fault::new(Step::Read).with(Mishap::Misdirected { by: 4 }));
    let mut bytes = [0; 2];
    file.read_at(1, &mut bytes).unwrap();
    assert_eq!(&bytes, b"56");
    disk.inject(Fault::new(Step::Write).with(Mishap::Misdirected { by: -9 }));
    file.write_at(8, b"xx").unwrap();
    assert_eq!(read(&disk, "a").as_deref(), Some(&b"xx23456789"[..]));
}

#[test]
fn a_sector_can_be_torn_within() {
    let (disk, file) = holding(&[b'-'; 1024]);
    file.write_at(0, &[b'+'; 1024]).unwrap();
    let mut asked = Vec::new();
    disk.crash_with(|what| {
        asked.push(what);
        Survival::Torn { bytes: 3 }
    });
    let sector = |position| Unsynced::Sector { position, bytes: 512 };
    assert_eq!(asked, [sector(0), sector(512)]);
    let bytes = read(&disk, "a").unwrap();
    let torn = |at: usize| bytes[at..at + 3] == *b"+++" && bytes[at + 3] == b'-';
    assert!(torn(0) && torn(512));
}

#[test]
fn steps_are_counted_by_kind() {
    let (disk, file) = holding(b"x");
    let before = (disk.steps(), disk.steps_of(Step::Write), disk.steps_of(Step::Read));
    file.write_at(0, b"y").unwrap();
    file.sync().unwrap();
    file.read_at(0, &mut [0]).unwrap();
    let after = (disk.steps(), disk.steps_of(Step::Write), disk.steps_of(Step::Read));
    assert_eq!(after, (before.0 + 2, before.1 + 1, before.2 + 1));
}

#[test]
fn a_stop_that_was_not_reached_can_be_taken_back() {
    let (disk, file) = holding(b"x");
    disk.stop_after(2);
    file.write_at(0, b"y").unwrap();
    assert!(!disk.cancel_stop());
    file.sync().unwrap();
    disk.stop_after(0);
    assert!(disk.cancel_stop(), "the power is off already");
    assert!(file.sync().is_err());
}

/// Names that are written anew all the time take no room, and neither does what they stood for.
#[test]
fn what_nothing_leads_to_is_forgotten() {
    let disk = MemDisk::new();
    disk.create_dir_all(path("d")).unwrap();
    write_atomically(&disk, path("d/f"), b"x").unwrap();
    let inodes = || disk.lock().tree.inodes();
    let kept = inodes();
    for _ in 0..50 {
        write_atomically(&disk, path("d/f"), b"xyz").unwrap();
        let probe = disk.open(path("d/probe"), Open::Create).unwrap();
        probe.write_at(0, b"p").unwrap();
        disk.remove_file(path("d/probe")).unwrap();
        assert_eq!(probe.length().unwrap(), 1, "an open file outlives its name");
    }
    disk.sync_dir(path("d")).unwrap();
    assert_eq!((inodes(), disk.used()), (kept, 3));
    disk.remove_file(path("d/f")).unwrap();
    disk.remove_dir(path("d")).unwrap();
    disk.sync_dir(path("")).unwrap();
    assert_eq!((inodes(), disk.used()), (1, 0), "only the root is left");
}

/// One step of a life with names.
#[derive(Clone, Debug)]
enum Act {
    Write(u8, u8),
    Rename(u8, u8),
    Remove(u8),
    Dir(u8),
    RemoveDir(u8),
    Close,
    SyncDir(u8),
    Crash(Keep),
    Kill,
    Image,
    Restore,
}

fn any_act() -> impl Strategy<Value = Act> {
    let name = 0..12_u8;
    prop_oneof![
        6 => (name.clone(), any::<u8>()).prop_map(|(name, length)| Act::Write(name, length)),
        3 => (name.clone(), name.clone()).prop_map(|(from, to)| Act::Rename(from, to)),
        3 => name.clone().prop_map(Act::Remove),
        1 => name.clone().prop_map(Act::Dir),
        1 => name.prop_map(Act::RemoveDir),
        2 => Just(Act::Close),
        2 => (0..4_u8).prop_map(Act::SyncDir),
        1 => any::<u64>().prop_map(|seed| Act::Crash(Keep::Torn(seed))),
        1 => Just(Act::Crash(Keep::Nothing)),
        1 => Just(Act::Kill),
        1 => Just(Act::Image),
        1 => Just(Act::Restore),
    ]
}

/// Names `a` to `d`, at the root and below the directories `a` and `b`.
fn named(name: u8) -> PathBuf {
    let own = ["a", "b", "c", "d"][usize::from(name % 4)];
    match name / 4 {
        0 => PathBuf::from(own),
        dir => Path::new(["a", "b"][usize::from(dir % 2)]).join(own),
    }
}

proptest! {
    /// Whatever happens, what is counted along the way is what counting anew comes to, and an image
    /// shows the same whenever it is put back.
    #[test]
    fn what_leads_where_is_always_known(acts in proptest::collection::vec(any_act(), 0..60)) {
        let disk = MemDisk::new();
        let mut image = disk.image(Keep::Everything);
        let mut held = None;
        for act in acts {
            // Most of it is refused now and then; that must do no harm either.
            match act {
                Act::Write(name, length) => {
                    if let Ok(file) = disk.open(&named(name), Open::Create) {
                        if disk.metadata(&named(name)).unwrap().is_some_and(|found| !found.is_dir) {
                            file.write_at(0, &vec![1; usize::from(length)]).unwrap();
                        }
                        held = Some(file);
                    }
                }
                Act::Rename(from, to) => drop(disk.rename(&named(from), &named(to))),
                Act::Remove(name) => drop(disk.remove_file(&named(name))),
                Act::Dir(name) => drop(disk.create_dir_all(&named(name))),
                Act::RemoveDir(name) => drop(disk.remove_dir(&named(name))),
                Act::Close => held = None,
                Act::SyncDir(dir) => {
                    drop(disk.sync_dir(path(["", "a", "b", "c"][usize::from(dir)])));
                }
                Act::Crash(keep) => disk.crash(keep),
                Act::Kill => disk.kill(),
                Act::Image => image = disk.image(Keep::Seeded(7)),
                Act::Restore => disk.restore(&image),
            }
            disk.lock().tree.check(u32::from(held.is_some()));
        }
    }
}
