//! The store of production, on files.

use crate::cluster::{Machine, n};
use narad_core::ids::LogIndex;
use narad_runtime::raft::{
    Batch, Configuration, Cut, HardState, Loaded, LogEntry, MemStore, Output, Position, Raft,
    RaftConfig, RaftLogging, RaftStore, RedbStore, Snapshot, StoreError, Term,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts what passes to a store.
struct Counted(RedbStore, Arc<AtomicU64>);

impl RaftStore for Counted {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.0.load()
    }
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.commit(batch)
    }
}

fn config() -> RaftConfig {
    let mut config = RaftConfig::new(n(1), 1);
    config.logging = RaftLogging::Silent;
    config.snapshot_entries = 20;
    config.keep_entries = 4;
    config
}

fn work<S: RaftStore>(raft: &mut Raft<S>, machine: &mut Machine) {
    let mut out = Output::default();
    loop {
        raft.ready(&mut out).expect("a healthy disk");
        out.committed.iter().for_each(|committed| machine.apply(committed));
        if out.wants_snapshot {
            raft.offer_snapshot(LogIndex(machine.applied), machine.encode()).expect("asked for");
        } else if !out.more {
            return;
        }
    }
}

fn start<S: RaftStore>(store: S) -> (Raft<S>, Machine) {
    let (mut raft, restored) = Raft::open(config(), store).expect("a sound store");
    let restored = restored.expect("bootstrapped");
    let mut machine = Machine::decode(restored.index, &restored.data, restored.configuration);
    work(&mut raft, &mut machine);
    while raft.status().leadership.leader.is_none() {
        raft.tick();
        work(&mut raft, &mut machine);
    }
    (raft, machine)
}

#[test]
fn a_store_that_is_dropped_without_ado_holds_everything() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("raft.redb");
    let mut store = RedbStore::create(&path, n(1)).expect("a new file");
    Raft::bootstrap(&mut store, &[n(1)], Machine::default().encode()).expect("empty");
    drop(store);
    let mut expected = Vec::new();
    for round in 0..4_u8 {
        let (mut raft, mut machine) = start(RedbStore::open(&path).expect("closed before"));
        assert_eq!(machine.entries, expected);
        for k in 0..30_u8 {
            raft.propose(vec![], vec![round, k]).expect("it leads");
            work(&mut raft, &mut machine);
            expected.push(vec![round, k]);
        }
        assert_eq!(machine.entries, expected);
        assert!(raft.status().snapshot.0 > 20);
    }
}

/// One transaction a turn, on a file too; snapshots add none, as they wait for the next one.
#[test]
fn a_proposal_costs_one_transaction() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("raft.redb");
    let mut store = RedbStore::create(&path, n(1)).expect("a new file");
    Raft::bootstrap(&mut store, &[n(1)], Machine::default().encode()).expect("empty");
    let count = Arc::new(AtomicU64::new(0));
    let (mut raft, mut machine) = start(Counted(store, count.clone()));
    let before = count.load(Ordering::Relaxed);
    for k in 0..15_u8 {
        raft.propose(vec![], vec![k]).expect("it leads");
        work(&mut raft, &mut machine);
    }
    assert_eq!(count.load(Ordering::Relaxed) - before, 15);
}

#[test]
fn a_file_belongs_to_one_store_and_is_made_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("raft.redb");
    assert!(matches!(RedbStore::open(&path), Err(StoreError::Io { .. })));
    let store = RedbStore::create(&path, n(1)).expect("a new file");
    assert!(matches!(RedbStore::open(&path), Err(StoreError::AlreadyOpen { .. })));
    drop(store);
    assert!(matches!(RedbStore::create(&path, n(1)), Err(StoreError::AlreadyExists { .. })));
    assert_eq!(RedbStore::open(&path).expect("closed").load().expect("read").id, n(1));
}

#[test]
fn what_a_crash_left_of_a_creation_does_not_matter() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("raft.new"), b"half of a file").expect("written");
    assert!(RedbStore::create(directory.path().join("raft.redb"), n(1)).is_ok());
}

#[test]
fn files_of_others_are_told_from_damaged_and_from_newer_ones() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);

    std::fs::write(path("text"), "nothing of the kind ".repeat(1000)).expect("written");
    assert!(matches!(RedbStore::open(path("text")), Err(StoreError::Foreign { .. })));
    std::fs::write(path("empty"), "").expect("written");
    assert!(matches!(RedbStore::open(path("empty")), Err(StoreError::Foreign { .. })));

    let table: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    let other: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("meta");
    let write = |name: &str, fill: &dyn Fn(&redb::WriteTransaction)| {
        let database = redb::Database::create(path(name)).expect("a new file");
        let transaction = database.begin_write().expect("a transaction");
        fill(&transaction);
        transaction.commit().expect("committed");
    };
    write("nothing", &|_| {});
    assert!(matches!(RedbStore::open(path("nothing")), Err(StoreError::Foreign { .. })));
    write("others", &|transaction| drop(transaction.open_table(other).expect("a table")));
    assert!(matches!(RedbStore::open(path("others")), Err(StoreError::Foreign { .. })));
    let with_format = |format: u64| {
        move |transaction: &redb::WriteTransaction| {
            let mut meta = transaction.open_table(table).expect("a table");
            meta.insert("format", &format.to_le_bytes()[..]).expect("inserted");
        }
    };
    write("newer", &with_format(2));
    assert!(matches!(
        RedbStore::open(path("newer")),
        Err(StoreError::Format { found: 2, known: 1, .. })
    ));
}

#[test]
fn a_store_with_a_damaged_record_is_an_error() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("raft.redb");
    let mut store = RedbStore::create(&path, n(1)).expect("a new file");
    Raft::bootstrap(&mut store, &[n(1)], vec![]).expect("empty");
    drop(store);
    let table: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
    let database = redb::Database::open(&path).expect("a database");
    let transaction = database.begin_write().expect("a transaction");
    let mut meta = transaction.open_table(table).expect("a table");
    meta.insert("hard_state", &[0xff; 3][..]).expect("inserted");
    drop(meta);
    transaction.commit().expect("committed");
    drop(database);
    let loaded = RedbStore::open(&path).expect("the format is right").load();
    assert!(matches!(loaded, Err(StoreError::Corrupt { .. })), "{loaded:?}");
}

/// Damage anywhere in the file, or a file that was cut: an error or the right content.
#[test]
fn a_damaged_or_cut_file_is_never_taken_for_a_sound_one() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (good, bad) = (directory.path().join("good.redb"), directory.path().join("bad.redb"));
    let mut store = RedbStore::create(&good, n(1)).expect("a new file");
    Raft::bootstrap(&mut store, &[n(1)], vec![]).expect("empty");
    let (mut raft, mut machine) = start(store);
    for k in 0..15_u8 {
        raft.propose(vec![], vec![k; 2000]).expect("it leads");
        work(&mut raft, &mut machine);
    }
    drop(raft);
    let expected = RedbStore::open(&good).expect("closed").load().expect("read");
    let bytes = std::fs::read(&good).expect("read");
    let mut refused = 0;
    // Much of the header, which says where all else is, and some of the rest.
    let header = (0..320).step_by(5);
    let rest = (320..bytes.len()).step_by(bytes.len() / 60);
    for at in header.chain(rest) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        for content in [&damaged[..], &bytes[..at]] {
            std::fs::write(&bad, content).expect("written");
            match RedbStore::open(&bad).and_then(|store| store.load()) {
                Ok(loaded) => {
                    assert!(loaded == expected, "damage at {at} of {}", content.len());
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 100, "{refused}");
}

fn batches() -> impl Strategy<Value = Vec<(u8, u64, usize, bool)>> {
    prop::collection::vec((0..6_u8, 0..8_u64, 0..5_usize, any::<bool>()), 1..25)
}

/// Makes a batch that makes sense on top of what a store holds.
fn batch(held: &Loaded, (kind, back, count, must_sync): (u8, u64, usize, bool)) -> Batch {
    let last = held.entries.last().map_or(held.truncated, |entry| entry.position);
    let term = Term(last.term.0 + 1);
    let at = |index: u64| Position { index: LogIndex(index), term };
    let mut batch = Batch { must_sync, ..Batch::default() };
    let mut first = (last.index.0 + 1).saturating_sub(back).max(held.truncated.index.0 + 1);
    match kind {
        0 => {
            first = last.index.0 + 10;
            batch.cut = Some(Cut::Whole(at(first - 1)));
            let configuration = Configuration::of_voters([n(1), n(back + 2)]);
            let data = vec![kind; count * 100].into();
            batch.snapshot = Some(Snapshot { position: at(first - 1), configuration, data });
        }
        1 => {
            let kept = held.entries.first().map_or(held.truncated, |entry| entry.position);
            batch.cut = Some(Cut::Prefix(kept));
            first = first.max(kept.index.0 + 1);
        }
        2 => {
            let commit = LogIndex(back);
            batch.hard_state = Some(HardState { term, vote: Some(n(3)), commit });
        }
        _ => {}
    }
    batch.entries = (first..first + count as u64)
        .map(|index| LogEntry { position: at(index), bytes: vec![kind; count].into() })
        .collect();
    batch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The file means what the plain data means, now and after it was opened again.
    #[test]
    fn a_file_and_a_store_in_memory_hold_the_same(steps in batches()) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("raft.redb");
        let mut file = RedbStore::create(&path, n(1)).expect("a new file");
        let mut memory = MemStore::new(n(1));
        for step in steps {
            let batch = batch(&memory.load().expect("memory"), step);
            memory.commit(&batch).expect("memory");
            file.commit(&batch).expect("a healthy disk");
            prop_assert_eq!(file.load().expect("read"), memory.load().expect("memory"));
        }
        let sync = Batch {
            hard_state: Some(HardState::default()), must_sync: true, ..Batch::default()
        };
        memory.commit(&sync).expect("memory");
        file.commit(&sync).expect("a healthy disk");
        drop(file);
        memory.crash();
        let reopened = RedbStore::open(&path).expect("closed").load().expect("read");
        prop_assert_eq!(reopened, memory.load().expect("memory"));
    }
}
