//! A node inside a program of yours, with a store, a metastore and connections of your own: here all
//! three are in memory. Two nodes, one partition, one move.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{LogIndex, Name, NodeId, Offset, PartitionId};
use narad_core::node::{Ask, CallFault};
use narad_runtime::embed::{
    Inbound, Kept, Metastore, Narad, PartitionStore, Peer, Proposed, StoreFault, Update, Watch,
    Whom,
};
use tokio::sync::watch;

/// Your log: records by name, each with a note. Here "durable" means "in this map".
#[derive(Debug, Default)]
struct Logs(Mutex<BTreeMap<String, (u64, Vec<Bytes>, Bytes)>>);

impl Logs {
    fn with<T>(
        &self,
        log: &str,
        act: impl FnOnce(&mut (u64, Vec<Bytes>, Bytes)) -> T,
    ) -> Result<T, StoreFault> {
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        Ok(act(self.0.lock().unwrap().get_mut(log).ok_or_else(missing)?))
    }
}

#[async_trait]
impl PartitionStore for Logs {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        Ok(self.0.lock().unwrap().keys().cloned().collect())
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let kept = |(start, records, note): &mut (u64, Vec<Bytes>, Bytes)| Kept {
            start: Offset(*start),
            end: Offset(*start + records.len() as u64),
            note: note.clone(),
        };
        Ok(self.with(log, kept).ok())
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        let mut logs = self.0.lock().unwrap();
        if logs.contains_key(log) {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        logs.insert(log.to_owned(), (start.0, Vec::new(), note));
        Ok(())
    }

    async fn append(&self, log: &str, at: Offset, new: &[Bytes]) -> Result<(), StoreFault> {
        self.with(log, |(start, records, _)| {
            let end = Offset(*start + records.len() as u64);
            if end != at {
                return Err(StoreFault::NotAtEnd { log: log.to_owned(), end, at });
            }
            records.extend_from_slice(new);
            Ok(())
        })?
    }

    async fn read(&self, log: &str, from: Offset, most: usize) -> Result<Vec<Bytes>, StoreFault> {
        self.with(log, |(start, records, _)| {
            let at = from.0.checked_sub(*start).filter(|at| *at <= records.len() as u64);
            let at = at.ok_or(StoreFault::OutOfRange { log: log.to_owned(), offset: from })?;
            let mut room = most;
            let fits = |record: &&Bytes| {
                let first = room == most;
                room = room.saturating_sub(record.len().max(1));
                first || room > 0
            };
            Ok(records[at as usize..].iter().take_while(fits).cloned().collect())
        })?
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        self.with(log, |(start, records, _)| records.truncate((end.0 - *start) as usize))
    }

    async fn write_note(&self, log: &str, note: Bytes) -> Result<(), StoreFault> {
        self.with(log, |kept| kept.2 = note)
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        let mut logs = self.0.lock().unwrap();
        if logs.contains_key(to) {
            return Err(StoreFault::Exists { log: to.to_owned() });
        }
        let kept = logs.remove(log).ok_or(StoreFault::NoSuchLog { log: log.to_owned() })?;
        logs.insert(to.to_owned(), kept);
        Ok(())
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        self.0.lock().unwrap().remove(log);
        Ok(())
    }
}

/// What decides: a list that everybody shares. Clones are the same list.
#[derive(Clone, Debug)]
struct Decisions(watch::Sender<Vec<Bytes>>);

struct Reader(watch::Receiver<Vec<Bytes>>, usize);

#[async_trait]
impl Metastore for Decisions {
    async fn propose(&self, record: Bytes) -> Proposed {
        self.0.send_modify(|list| list.push(record));
        Proposed::Applied(LogIndex(self.0.borrow().len() as u64))
    }

    async fn barrier(&self) -> Option<LogIndex> {
        Some(LogIndex(self.0.borrow().len() as u64))
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        Box::new(Reader(self.0.subscribe(), after.0 as usize))
    }
}

#[async_trait]
impl Watch for Reader {
    async fn next(&mut self) -> Option<Update> {
        let list = self.0.wait_for(|list| list.len() > self.1).await.ok()?;
        let record = list[self.1].clone();
        self.1 += 1;
        Some(Update::Record { index: LogIndex(self.1 as u64), record })
    }
}

/// Connections: every node puts its way in into one map.
#[derive(Clone, Debug, Default)]
struct Wires {
    all: Arc<Mutex<BTreeMap<NodeId, Inbound>>>,
    me: Arc<Mutex<NodeId>>,
}

#[async_trait]
impl Peer for Wires {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        *self.me.lock().unwrap() = inbound.me().node;
        self.all.lock().unwrap().insert(inbound.me().node, inbound);
        Ok(())
    }

    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault> {
        let inbound = self.all.lock().unwrap().get(&to.node).cloned();
        let from = *self.me.lock().unwrap();
        inbound
            .ok_or(CallFault::Unreachable)?
            .answer(from, message)
            .await
            .ok_or(CallFault::TimedOut)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (decisions, wires) = (Decisions(watch::Sender::default()), Wires::default());
    let start = |name| {
        let peer = Wires { all: Arc::clone(&wires.all), me: Arc::default() };
        let builder = Narad::builder().name(Name::new(name).expect("a good name"));
        builder.store(Logs::default()).metastore(decisions.clone()).peer(peer).start()
    };
    let (a, b) = (start("a").await?, start("b").await?);
    a.ready().await?;
    b.ready().await?;

    let topic = a.create_topic(Name::new("orders")?, 1).await?;
    let orders = PartitionId { topic, index: 0 };
    let records =
        |numbers: std::ops::Range<u32>| numbers.map(|n| format!("order {n}").into()).collect();
    a.append(orders, records(0..10_000)).await?;

    let (from, to) = if a.owner(orders) == Some(a.node()) { (&a, &b) } else { (&b, &a) };
    let target = to.node();
    from.ask(Ask::Move { partition: orders, to: target }).await?;
    from.append(orders, records(10_000..10_010)).await?;
    to.until(move |node| node.serving(orders).is_some()).await?;
    to.append(orders, records(10_010..10_020)).await?;

    let (mut read, (start, end)) = (Vec::new(), to.bounds(orders)?);
    while read.len() as u64 + start.0 < end.0 {
        let next = Offset(start.0 + read.len() as u64);
        read.extend(to.read(orders, next, 1 << 20).await?.into_iter().map(|(_, record)| record));
    }
    assert_eq!(read, records(0..10_020), "nothing is lost, and nothing twice");
    println!("{orders} has moved from {} to {target}, with {} records", from.node(), read.len());
    a.shutdown().await?;
    b.shutdown().await?;
    Ok(())
}
