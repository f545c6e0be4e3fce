//! The store of production: one file, one transaction a turn.
//!
//! ```text
//! meta      text -> bytes     format, id, hard_state, truncated, snapshot (without its data)
//! log       index -> (term, encoded entry)
//! snapshot  "data" -> bytes   the encoded state machine
//! ```
//!
//! Numbers are encoded by prost messages whose tags are never used again.

use crate::raft::error::StoreError;
use crate::raft::membership::Configuration;
use crate::raft::output::Term;
use crate::raft::store::{Batch, Cut, HardState, Loaded, LogEntry, Position, RaftStore, Snapshot};
use narad_core::ids::{LogIndex, NodeId};
use prost::Message;
use redb::{
    Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, StorageError, Table,
    TableDefinition, TableError, WriteTransaction,
};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
const LOG: TableDefinition<'_, u64, (u64, &[u8])> = TableDefinition::new("log");
const SNAPSHOT: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshot");

/// The format that this version writes and the latest one that it reads.
const FORMAT: u64 = 1;
/// Pages kept in memory. The log is kept elsewhere already, so there is little to read again.
const CACHE_BYTES: usize = 8 << 20;

const KEY_FORMAT: &str = "format";
const KEY_ID: &str = "id";
const KEY_HARD_STATE: &str = "hard_state";
const KEY_TRUNCATED: &str = "truncated";
const KEY_SNAPSHOT: &str = "snapshot";
const KEY_DATA: &str = "data";

/// A [`RaftStore`] on a file of its own.
///
/// # Examples
///
/// A file belongs to one store at a time:
///
/// ```
/// use narad_core::ids::NodeId;
/// use narad_runtime::raft::{RedbStore, StoreError};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("raft.redb");
/// let store = RedbStore::create(&path, NodeId(1))?;
/// assert!(matches!(RedbStore::open(&path), Err(StoreError::AlreadyOpen { .. })));
/// drop(store);
/// assert!(RedbStore::open(&path).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RedbStore {
    path: PathBuf,
    database: Database,
}

impl RedbStore {
    /// Makes an empty store for a node. The file appears at once and complete, or not at all.
    ///
    /// # Errors
    ///
    /// If the file exists, or the device fails.
    pub fn create(path: impl AsRef<Path>, id: NodeId) -> Result<Self, StoreError> {
        let path = path.as_ref();
        if path.exists() {
            return Err(StoreError::AlreadyExists { path: path.to_owned() });
        }
        let unfinished = path.with_extension("new");
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(creating(error)),
            Ok(()) | Err(_) => {}
        }
        let new = Self { path: unfinished.clone(), database: database(&unfinished, true)? };
        new.initialize(id)?;
        drop(new);
        fs::rename(&unfinished, path).map_err(creating)?;
        // The name is durable once its directory is.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = File::open(directory.unwrap_or(Path::new("."))).map_err(creating)?;
        directory.sync_all().map_err(creating)?;
        Self::open(path)
    }

    /// Opens the store that [`create`](Self::create) has made.
    ///
    /// # Errors
    ///
    /// If there is none, it is open already, was not made by this crate, or not by a version that
    /// this one understands.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let database = database(&path, false)?;
        let store = Self { path, database };
        store.check_format()?;
        Ok(store)
    }

    fn initialize(&self, id: NodeId) -> Result<(), StoreError> {
        let doing = "creating the raft store";
        let transaction = self.database.begin_write().map_err(|e| self.failed(doing, e))?;
        {
            let mut meta = transaction.open_table(META).map_err(|e| self.failed(doing, e))?;
            transaction.open_table(LOG).map_err(|e| self.failed(doing, e))?;
            transaction.open_table(SNAPSHOT).map_err(|e| self.failed(doing, e))?;
            for (key, value) in [(KEY_FORMAT, FORMAT), (KEY_ID, id.0)] {
                let value = value.to_le_bytes();
                meta.insert(key, &value[..]).map_err(|e| self.failed(doing, e))?;
            }
        }
        transaction.commit().map_err(|e| self.failed(doing, e))
    }

    fn check_format(&self) -> Result<(), StoreError> {
        let doing = "opening the raft store";
        let transaction = self.database.begin_read().map_err(|e| self.failed(doing, e))?;
        let foreign = |reason: String| StoreError::Foreign { path: self.path.clone(), reason };
        let meta = match transaction.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::Storage(error)) => return Err(self.failed(doing, error)),
            Err(other) => return Err(foreign(other.to_string())),
        };
        let format = meta.get(KEY_FORMAT).map_err(|e| self.failed(doing, e))?;
        match format.and_then(|value| number(value.value())) {
            None => Err(foreign("it has no format number".into())),
            Some(found) if found > FORMAT || found == 0 => {
                Err(StoreError::Format { path: self.path.clone(), found, known: FORMAT })
            }
            Some(_) => Ok(()),
        }
    }

    fn corrupt(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), reason: reason.into() }
    }

    fn failed(&self, doing: &'static str, error: impl Into<redb::Error>) -> StoreError {
        match error.into() {
            redb::Error::Corrupted(reason) => self.corrupt(reason),
            redb::Error::Io(source) => StoreError::Io { doing, source },
            other => StoreError::Io { doing, source: io::Error::other(other) },
        }
    }

    fn decoded<M: Message + Default>(
        &self,
        meta: &impl ReadableTable<&'static str, &'static [u8]>,
        key: &'static str,
    ) -> Result<Option<M>, StoreError> {
        let value = meta.get(key).map_err(|e| self.failed("reading the raft store", e))?;
        value
            .map(|value| M::decode(value.value()))
            .transpose()
            .map_err(|error| self.corrupt(format!("{key}: {error}")))
    }

    fn write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        if !batch.must_sync {
            transaction.set_durability(Durability::None)?;
        }
        {
            let mut log = transaction.open_table(LOG)?;
            match batch.cut {
                Some(Cut::Prefix(at)) => log.retain_in(..=at.index.0, |_, _| false)?,
                Some(Cut::Whole(_)) => log.retain_in::<u64, _>(.., |_, _| false)?,
                None => {}
            }
            if let Some(first) = batch.entries.first() {
                let first = first.position.index.0;
                let overlaps = log.last()?.is_some_and(|(last, _)| last.value() >= first);
                if overlaps {
                    log.retain_in(first.., |_, _| false)?;
                }
            }
            for entry in &batch.entries {
                let value = (entry.position.term.0, &entry.bytes[..]);
                log.insert(entry.position.index.0, value)?;
            }
        }
        // What most batches leave alone is not opened: it would be written again.
        if batch.cut.is_some() || batch.hard_state.is_some() || batch.snapshot.is_some() {
            write_meta(&transaction, batch)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

impl RaftStore for RedbStore {
    fn load(&self) -> Result<Loaded, StoreError> {
        let doing = "reading the raft store";
        let transaction = self.database.begin_read().map_err(|e| self.failed(doing, e))?;
        let meta = transaction.open_table(META).map_err(|e| self.failed(doing, e))?;
        let log = transaction.open_table(LOG).map_err(|e| self.failed(doing, e))?;
        let data = transaction.open_table(SNAPSHOT).map_err(|e| self.failed(doing, e))?;

        let id = meta.get(KEY_ID).map_err(|e| self.failed(doing, e))?;
        let id = id.and_then(|value| number(value.value()));
        let id = NodeId(id.ok_or_else(|| self.corrupt("it names no node"))?);
        let hard_state = self.decoded::<HardStateRecord>(&meta, KEY_HARD_STATE)?;
        let truncated = self.decoded::<PositionRecord>(&meta, KEY_TRUNCATED)?;
        let snapshot = match self.decoded::<SnapshotRecord>(&meta, KEY_SNAPSHOT)? {
            None => None,
            Some(record) => {
                let data = data.get(KEY_DATA).map_err(|e| self.failed(doing, e))?;
                let data = data.ok_or_else(|| self.corrupt("the snapshot has no data"))?;
                Some(record.with_data(data.value()))
            }
        };
        let mut entries = Vec::new();
        for row in log.iter().map_err(|e| self.failed(doing, e))? {
            let (index, value) = row.map_err(|e| self.failed(doing, e))?;
            entries.push(entry(index.value(), value.value()));
        }
        Ok(Loaded {
            id,
            hard_state: hard_state.unwrap_or_default().value(),
            truncated: truncated.unwrap_or_default().value(),
            snapshot,
            entries,
        })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.write(batch).map_err(|error| self.failed("committing to the raft store", error))
    }
}

fn write_meta(transaction: &WriteTransaction, batch: &Batch) -> Result<(), redb::Error> {
    let mut meta = transaction.open_table(META)?;
    if let Some(Cut::Prefix(at) | Cut::Whole(at)) = batch.cut {
        put(&mut meta, KEY_TRUNCATED, &PositionRecord::of(at))?;
    }
    if let Some(hard_state) = batch.hard_state {
        put(&mut meta, KEY_HARD_STATE, &HardStateRecord::of(hard_state))?;
    }
    if let Some(snapshot) = &batch.snapshot {
        put(&mut meta, KEY_SNAPSHOT, &SnapshotRecord::of(snapshot))?;
        let mut data = transaction.open_table(SNAPSHOT)?;
        data.insert(KEY_DATA, &snapshot.data[..])?;
    }
    Ok(())
}

fn entry(index: u64, (term, bytes): (u64, &[u8])) -> LogEntry {
    let position = Position { index: LogIndex(index), term: Term(term) };
    LogEntry { position, bytes: bytes::Bytes::copy_from_slice(bytes) }
}

impl std::fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedbStore").field("path", &self.path).finish_non_exhaustive()
    }
}

fn database(path: &Path, create: bool) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    // Without this a page that the disk changed is believed, or ends the process. The file is
    // small, and all of it is read at the start anyway.
    builder.set_check_integrity_on_open(true);
    let opened = if create { builder.create(path) } else { builder.open(path) };
    let path = path.to_owned();
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => StoreError::AlreadyOpen { path },
        DatabaseError::Storage(StorageError::Corrupted(reason)) => {
            StoreError::Corrupt { path, reason }
        }
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() == io::ErrorKind::InvalidData =>
        {
            StoreError::Foreign { path, reason: source.to_string() }
        }
        DatabaseError::Storage(StorageError::Io(source))
            if source.kind() == io::ErrorKind::UnexpectedEof =>
        {
            StoreError::Corrupt { path, reason: "it was cut".into() }
        }
        DatabaseError::Storage(StorageError::Io(source)) => {
            StoreError::Io { doing: "opening the raft store", source }
        }
        other => StoreError::Foreign { path, reason: other.to_string() },
    })
}

fn creating(source: io::Error) -> StoreError {
    StoreError::Io { doing: "creating the raft store", source }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn put(
    meta: &mut Table<'_, &'static str, &'static [u8]>,
    key: &'static str,
    message: &impl Message,
) -> Result<(), StorageError> {
    meta.insert(key, &message.encode_to_vec()[..]).map(drop)
}

#[derive(Clone, PartialEq, Message)]
struct HardStateRecord {
    #[prost(uint64, tag = "1")]
    term: u64,
    #[prost(uint64, optional, tag = "2")]
    vote: Option<u64>,
    #[prost(uint64, tag = "3")]
    commit: u64,
}

impl HardStateRecord {
    fn of(state: HardState) -> Self {
        let HardState { term, vote, commit } = state;
        Self { term: term.0, vote: vote.map(|node| node.0), commit: commit.0 }
    }

    fn value(&self) -> HardState {
        HardState {
            term: Term(self.term),
            vote: self.vote.map(NodeId),
            commit: LogIndex(self.commit),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
struct PositionRecord {
    #[prost(uint64, tag = "1")]
    index: u64,
    #[prost(uint64, tag = "2")]
    term: u64,
}

impl PositionRecord {
    fn of(position: Position) -> Self {
        Self { index: position.index.0, term: position.term.0 }
    }

    fn value(&self) -> Position {
        Position { index: LogIndex(self.index), term: Term(self.term) }
    }
}

#[derive(Clone, PartialEq, Message)]
struct SnapshotRecord {
    #[prost(message, required, tag = "1")]
    position: PositionRecord,
    #[prost(uint64, repeated, tag = "2")]
    voters: Vec<u64>,
    #[prost(uint64, repeated, tag = "3")]
    voters_outgoing: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    learners: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    learners_next: Vec<u64>,
    #[prost(bool, tag = "6")]
    auto_leave: bool,
}

impl SnapshotRecord {
    fn of(snapshot: &Snapshot) -> Self {
        let members = &snapshot.configuration;
        let ids = |ids: &std::collections::BTreeSet<NodeId>| ids.iter().map(|id| id.0).collect();
        Self {
            position: PositionRecord::of(snapshot.position),
            voters: ids(&members.voters),
            voters_outgoing: ids(&members.voters_outgoing),
            learners: ids(&members.learners),
            learners_next: ids(&members.learners_next),
            auto_leave: members.auto_leave,
        }
    }

    fn with_data(self, data: &[u8]) -> Snapshot {
        let ids = |ids: Vec<u64>| ids.into_iter().map(NodeId).collect();
        Snapshot {
            position: self.position.value(),
            configuration: Configuration {
                voters: ids(self.voters),
                voters_outgoing: ids(self.voters_outgoing),
                learners: ids(self.learners),
                learners_next: ids(self.learners_next),
                auto_leave: self.auto_leave,
            },
            data: bytes::Bytes::copy_from_slice(data),
        }
    }
}
