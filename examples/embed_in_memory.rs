//! Nodes inside a program of yours, with a store and a metastore of your own: here both are in memory,
//! and the connections are those that come with Narad. Two nodes, one partition, one move.
#![expect(clippy::cast_possible_truncation, clippy::print_stdout, reason = "an example in memory")]
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, Name, Offset, PartitionId};
use narad_core::node::Ask;
use narad_runtime::embed::memory::MemoryPeer;
use narad_runtime::embed::{self, Kept, Narad, Proposed, StoreFault, Update};
use tokio::sync::{Mutex, watch};

/// Your log: records by name, from an offset on, with a note. "Durable" means in this map, here.
#[derive(Clone, Debug, Default)]
struct Log(u64, Vec<Bytes>, Bytes);
#[derive(Debug, Default)]
struct Logs(Mutex<BTreeMap<String, Log>>);

impl Logs {
    async fn get<T>(&self, log: &str, act: impl FnOnce(&mut Log) -> T) -> Result<T, StoreFault> {
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        Ok(act(self.0.lock().await.get_mut(log).ok_or_else(missing)?))
    }
    async fn put(&self, log: &str, kept: Log) -> Result<(), StoreFault> {
        let mut logs = self.0.lock().await;
        if logs.contains_key(log) {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        logs.insert(log.to_owned(), kept);
        Ok(())
    }
}

#[async_trait]
impl embed::PartitionStore for Logs {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        Ok(self.0.lock().await.keys().cloned().collect())
    }
    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let kept = |Log(start, records, note): &mut Log| {
            let (start, end) = (Offset(*start), Offset(*start + records.len() as u64));
            Kept { start, end, note: note.clone() }
        };
        Ok(self.get(log, kept).await.ok())
    }
    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        self.put(log, Log(start.0, Vec::new(), note)).await
    }
    async fn append(&self, log: &str, at: Offset, new: &[Bytes]) -> Result<(), StoreFault> {
        self.get(log, |Log(start, records, _)| {
            let end = Offset(*start + records.len() as u64);
            let refused = StoreFault::NotAtEnd { log: log.to_owned(), end, at };
            (at == end).then(|| records.extend_from_slice(new)).ok_or(refused)
        })
        .await?
    }
    async fn read(&self, log: &str, from: Offset, most: usize) -> Result<Vec<Bytes>, StoreFault> {
        self.get(log, |Log(start, records, _)| {
            let at = from.0.checked_sub(*start).and_then(|at| records.get(at as usize..));
            let rest = at.ok_or(StoreFault::OutOfRange { log: log.to_owned(), offset: from })?;
            let mut bytes = 0;
            let fits = |(n, record): &(usize, &Bytes)| {
                bytes += record.len();
                *n == 0 || bytes <= most
            };
            Ok(rest.iter().enumerate().take_while(fits).map(|(_, record)| record.clone()).collect())
        })
        .await?
    }
    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        self.get(log, |Log(start, records, _)| {
            let left = end.0.checked_sub(*start).filter(|left| *left <= records.len() as u64);
            let out_of_range = StoreFault::OutOfRange { log: log.to_owned(), offset: end };
            left.map(|left| records.truncate(left as usize)).ok_or(out_of_range)
        })
        .await?
    }
    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        self.get(log, |kept| kept.2 = note).await
    }
    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        self.put(to, self.get(log, |kept| kept.clone()).await?).await?;
        self.remove(log).await
    }
    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        self.0.lock().await.remove(log);
        Ok(())
    }
}

/// What decides: a list that all nodes share.
#[derive(Clone, Debug, Default)]
struct Decisions(Arc<watch::Sender<Vec<Bytes>>>);

#[async_trait]
impl embed::Metastore for Decisions {
    async fn propose(&self, record: Bytes) -> Proposed {
        let mut index = LogIndex(0);
        self.0.send_modify(|list| {
            list.push(record);
            index = LogIndex(list.len() as u64);
        });
        Proposed::Applied(index)
    }
    async fn barrier(&self) -> Option<LogIndex> {
        Some(LogIndex(self.0.borrow().len() as u64))
    }
    async fn watch(&self, after: LogIndex) -> Box<dyn embed::Watch> {
        Box::new(Reader(self.0.subscribe(), after.0 as usize))
    }
}

struct Reader(watch::Receiver<Vec<Bytes>>, usize);

#[async_trait]
impl embed::Watch for Reader {
    async fn next(&mut self) -> Option<Update> {
        let record = self.0.wait_for(|list| list.len() > self.1).await.ok()?[self.1].clone();
        self.1 += 1;
        Some(Update::Record { index: LogIndex(self.1 as u64), record })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (decisions, network) = (Decisions::default(), MemoryPeer::default());
    let yours = || Narad::builder().store(Logs::default()).metastore(decisions.clone());
    let node = |name| yours().peer(network.another()).name(name);
    let (a, b) = (node(Name::new("a")?).start().await?, node(Name::new("b")?).start().await?);
    b.ready().await?;
    let orders = PartitionId { topic: a.create_topic(Name::new("orders")?, 1).await?, index: 0 };
    let records = |count| (0..count).map(|n| format!("order {n}").into()).collect::<Vec<Bytes>>();
    a.append(orders, records(10_000)).await?;
    let (from, to) = if a.owner(orders) == Some(a.node()) { (&a, &b) } else { (&b, &a) };
    from.ask(Ask::Move { partition: orders, to: to.node() }).await?;
    from.append(orders, records(10_020)[10_000..].to_vec()).await?; // in the midst of it
    to.until(move |node| node.serving(orders).is_some()).await?;

    let (mut read, (_, end)) = (Vec::new(), to.bounds(orders)?);
    while Offset(read.len() as u64) < end {
        let more = to.read(orders, Offset(read.len() as u64), 1 << 20).await?;
        read.extend(more.into_iter().map(|(_, record)| record));
    }
    assert_eq!(read, records(10_020), "nothing is lost, and nothing is there twice");
    println!("{orders} has moved to {}, with {} records", to.node(), read.len());
    a.shutdown().await?;
    Ok(b.shutdown().await?)
}
