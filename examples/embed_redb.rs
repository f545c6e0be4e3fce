//! A store of your own over an engine that is there already: redb, one table for records and one for
//! what is known of each log. It passes the conformance kit, and then moves a partition between files.
//!
//! Everything that a method changes is one transaction, so that a crash leaves all of it or nothing.

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{Name, Offset, PartitionId};
use narad_core::node::Ask;
use narad_runtime::conformance::{self, StoreRig};
use narad_runtime::embed::memory::{MemoryMetastore, MemoryPeer};
use narad_runtime::embed::{Kept, Narad, PartitionStore, StoreFault};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction};

/// By name: start, end and note.
const LOGS: TableDefinition<&str, (u64, u64, &[u8])> = TableDefinition::new("logs");
/// By name and offset.
const RECORDS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("records");

#[derive(Debug)]
struct RedbStore {
    engine: Database,
}

type Logs<'t> = Table<'t, &'static str, (u64, u64, &'static [u8])>;
type Records<'t> = Table<'t, (&'static str, u64), &'static [u8]>;

impl RedbStore {
    fn open(path: &PathBuf) -> Result<Self, Box<dyn std::error::Error>> {
        let engine = Database::create(path)?;
        let tables = engine.begin_write()?;
        tables.open_table(LOGS)?;
        tables.open_table(RECORDS)?;
        tables.commit()?;
        Ok(Self { engine })
    }

    /// Runs one transaction, and makes it durable.
    fn change<T>(
        &self,
        act: impl FnOnce(&mut Logs<'_>, &mut Records<'_>) -> Result<T, StoreFault>,
    ) -> Result<T, StoreFault> {
        let all = self.engine.begin_write().map_err(StoreFault::failed)?;
        let done = {
            let (mut logs, mut records) = tables(&all)?;
            act(&mut logs, &mut records)?
        };
        all.commit().map_err(StoreFault::failed)?;
        Ok(done)
    }
}

fn tables(all: &WriteTransaction) -> Result<(Logs<'_>, Records<'_>), StoreFault> {
    let logs = all.open_table(LOGS).map_err(StoreFault::failed)?;
    Ok((logs, all.open_table(RECORDS).map_err(StoreFault::failed)?))
}

/// What is known of a log.
fn find(
    logs: &impl ReadableTable<&'static str, (u64, u64, &'static [u8])>,
    log: &str,
) -> Result<Option<Kept>, StoreFault> {
    let found = logs.get(log).map_err(StoreFault::failed)?;
    Ok(found.map(|found| {
        let (start, end, note) = found.value();
        Kept { start: Offset(start), end: Offset(end), note: Bytes::copy_from_slice(note) }
    }))
}

fn known(logs: &Logs<'_>, log: &str) -> Result<Kept, StoreFault> {
    find(logs, log)?.ok_or_else(|| StoreFault::NoSuchLog { log: log.to_owned() })
}

fn set(logs: &mut Logs<'_>, log: &str, kept: &Kept) -> Result<(), StoreFault> {
    let Kept { start, end, note } = kept;
    logs.insert(log, (start.0, end.0, &note[..])).map_err(StoreFault::failed)?;
    Ok(())
}

fn is_free(logs: &Logs<'_>, log: &str) -> Result<(), StoreFault> {
    match find(logs, log)? {
        Some(_) => Err(StoreFault::Exists { log: log.to_owned() }),
        None => Ok(()),
    }
}

#[async_trait]
impl PartitionStore for RedbStore {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        let all = self.engine.begin_read().map_err(StoreFault::failed)?;
        let logs = all.open_table(LOGS).map_err(StoreFault::failed)?;
        let names = logs.iter().map_err(StoreFault::failed)?;
        let name = |entry: Result<(redb::AccessGuard<'_, &str>, _), _>| {
            entry.map(|(name, _)| name.value().to_owned()).map_err(StoreFault::failed)
        };
        names.map(name).collect()
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let all = self.engine.begin_read().map_err(StoreFault::failed)?;
        find(&all.open_table(LOGS).map_err(StoreFault::failed)?, log)
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        self.change(|logs, _| {
            is_free(logs, log)?;
            set(logs, log, &Kept { start, end: start, note })
        })
    }

    async fn append(&self, log: &str, at: Offset, new: &[Bytes]) -> Result<(), StoreFault> {
        self.change(|logs, records| {
            let kept = known(logs, log)?;
            if kept.end != at {
                return Err(StoreFault::NotAtEnd { log: log.to_owned(), end: kept.end, at });
            }
            for (offset, record) in (at.0..).zip(new) {
                records.insert((log, offset), &record[..]).map_err(StoreFault::failed)?;
            }
            set(logs, log, &Kept { end: Offset(at.0 + new.len() as u64), ..kept })
        })
    }

    async fn read(&self, log: &str, from: Offset, most: usize) -> Result<Vec<Bytes>, StoreFault> {
        let all = self.engine.begin_read().map_err(StoreFault::failed)?;
        let kept = find(&all.open_table(LOGS).map_err(StoreFault::failed)?, log)?;
        let kept = kept.ok_or_else(|| StoreFault::NoSuchLog { log: log.to_owned() })?;
        if from < kept.start || from > kept.end {
            return Err(StoreFault::OutOfRange { log: log.to_owned(), offset: from });
        }
        let records = all.open_table(RECORDS).map_err(StoreFault::failed)?;
        let found = records.range((log, from.0)..(log, kept.end.0)).map_err(StoreFault::failed)?;
        let (mut bytes, mut read) = (0, Vec::new());
        for entry in found {
            let (_, record) = entry.map_err(StoreFault::failed)?;
            bytes += record.value().len();
            if bytes > most && !read.is_empty() {
                break;
            }
            read.push(Bytes::copy_from_slice(record.value()));
        }
        Ok(read)
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        self.change(|logs, records| {
            let kept = known(logs, log)?;
            if end < kept.start || end > kept.end {
                return Err(StoreFault::OutOfRange { log: log.to_owned(), offset: end });
            }
            let dropped = (log, end.0)..(log, kept.end.0);
            records.retain_in(dropped, |_, _| false).map_err(StoreFault::failed)?;
            set(logs, log, &Kept { end, ..kept })
        })
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        self.change(|logs, _| {
            let kept = known(logs, log)?;
            set(logs, log, &Kept { note, ..kept })
        })
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        self.change(|logs, records| {
            let kept = known(logs, log)?;
            is_free(logs, to)?;
            logs.remove(log).map_err(StoreFault::failed)?;
            set(logs, to, &kept)?;
            for offset in kept.start.0..kept.end.0 {
                let moved = records.remove((log, offset)).map_err(StoreFault::failed)?;
                let moved = moved.map(|record| record.value().to_vec()).unwrap_or_default();
                records.insert((to, offset), &moved[..]).map_err(StoreFault::failed)?;
            }
            Ok(())
        })
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        self.change(|logs, records| {
            logs.remove(log).map_err(StoreFault::failed)?;
            let all = (log, 0)..=(log, u64::MAX);
            records.retain_in(all, |_, _| false).map_err(StoreFault::failed)
        })
    }
}

/// What the conformance kit does with the store. The power is not really cut: the file is closed and
/// opened again.
struct Rig {
    dir: tempfile::TempDir,
    open: tokio::sync::Mutex<Option<Arc<RedbStore>>>,
}

impl Rig {
    fn path(&self) -> PathBuf {
        self.dir.path().join("records.redb")
    }
}

#[async_trait]
impl StoreRig for Rig {
    async fn fresh(&self) {
        self.power_loss().await;
        if self.path().exists() {
            std::fs::remove_file(self.path()).expect("it can be removed");
        }
    }

    async fn open(&self) -> Arc<dyn PartitionStore> {
        let mut open = self.open.lock().await;
        let store = open.get_or_insert_with(|| {
            Arc::new(RedbStore::open(&self.path()).expect("it can be opened"))
        });
        Arc::clone(store) as _
    }

    async fn power_loss(&self) {
        // The last one that holds the store closes the file, and the kit holds it no more.
        drop(self.open.lock().await.take());
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rig = Rig { dir: tempfile::tempdir()?, open: tokio::sync::Mutex::default() };
    let report = conformance::store(&rig).await?;
    println!("{} checks passed; not looked at: {:?}", report.checks, report.skipped);

    let dir = tempfile::tempdir()?;
    let (decisions, network) = (MemoryMetastore::default(), MemoryPeer::default());
    let mut nodes = Vec::new();
    for name in ["a", "b"] {
        let store = RedbStore::open(&dir.path().join(format!("{name}.redb")))?;
        let builder = Narad::builder().name(Name::new(name)?).store(store);
        nodes.push(builder.metastore(decisions.clone()).peer(network.another()).start().await?);
    }
    nodes[1].ready().await?;
    let topic = nodes[0].create_topic(Name::new("orders")?, 1).await?;
    let orders = PartitionId { topic, index: 0 };
    let records: Vec<Bytes> = (0..5_000).map(|n| format!("order {n}").into()).collect();
    nodes[0].append(orders, records.clone()).await?;
    let to = nodes.iter().find(|node| Some(node.node()) != nodes[0].owner(orders));
    let to = to.ok_or("nobody else is there")?;
    nodes[0].ask(Ask::Move { partition: orders, to: to.node() }).await?;
    to.until(move |node| node.serving(orders).is_some()).await?;
    let mut read = Vec::new();
    while read.len() < records.len() {
        let more = to.read(orders, Offset(read.len() as u64), 1 << 20).await?;
        read.extend(more.into_iter().map(|(_, record)| record));
    }
    assert_eq!(read, records, "nothing is lost, and nothing is there twice");
    println!("{orders} is in the file of {} now", to.node());
    for node in nodes {
        node.shutdown().await?;
    }
    Ok(())
}
