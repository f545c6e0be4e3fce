//! What was acknowledged, by whom, and whether it is still there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::{Epoch, Offset};
use narad_runtime::client::{
    Ack, Client, Placement, Producer, ProducerOptions, ReaderOptions, StartAt,
};
use narad_runtime::http::messages::PartResult;
use narad_runtime::service::Record;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::harness::Cluster;
use super::http;

/// Bytes of one batch that fills a partition.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Between two records of one writer.
const PACE: Duration = Duration::from_millis(5);

/// Everything that was acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    /// By partition and offset.
    records: BTreeMap<(u32, u64), Digest>,
    /// Which node acknowledged in which reign (S2).
    reigns: BTreeMap<(u32, Epoch), String>,
}

/// What is kept of a value: how it begins, and a checksum of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Digest(String, u32);

impl Digest {
    fn of(value: &[u8]) -> Self {
        let head = &value[..value.len().min(32)];
        Self(String::from_utf8_lossy(head).into_owned(), crc32c::crc32c(value))
    }
}

impl Ledger {
    /// Writes down records that were acknowledged together.
    fn note(&self, result: &PartResult, node: Option<&str>, values: &[Bytes]) {
        let mut pages = self.0.lock().unwrap();
        for (at, value) in (result.first_offset.0..).zip(values) {
            let before = pages.records.insert((result.partition, at), Digest::of(value));
            assert_eq!(before, None, "offset {at} of {} was acknowledged twice", result.partition);
        }
        if let Some(node) = node {
            let reign = (result.partition, result.epoch);
            let who = pages.reigns.entry(reign).or_insert_with(|| node.to_owned());
            assert_eq!(who, node, "two nodes acknowledged in one reign, {reign:?}");
        }
    }

    /// Returns how much was acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().records.len()
    }

    /// Fills a partition with so many bytes, in records of so many.
    pub(crate) async fn fill(
        &self,
        client: &Client,
        topic: &str,
        partition: u32,
        bytes: usize,
        record_bytes: usize,
    ) {
        let mut filler = Filler::new(self, client, topic, partition, record_bytes);
        while filler.written < bytes {
            filler.send((bytes - filler.written).min(BATCH_BYTES)).await;
        }
    }

    /// Checks that every acknowledged record of a partition is served, at its offset.
    pub(crate) async fn check(&self, client: &Client, topic: &str, partitions: &[u32]) {
        let options = ReaderOptions {
            start: StartAt::Beginning,
            follow: false,
            unavailable_max: Some(super::harness::PATIENCE),
            ..ReaderOptions::default()
        };
        // What is acknowledged later than this may be behind the end of what is read.
        let mut missing = {
            let pages = self.0.lock().unwrap();
            let wanted =
                |((partition, _), _): &(&(u32, u64), &Digest)| partitions.contains(partition);
            let wanted = pages.records.iter().filter(wanted);
            wanted.map(|(at, digest)| (*at, digest.clone())).collect::<BTreeMap<_, _>>()
        };
        let expected = missing.len();
        let mut other = BTreeMap::new();
        let mut reader = client.reader(topic, options).await.unwrap();
        while let Some(stretch) = reader.next().await.unwrap() {
            for (Offset(offset), record) in stretch.records {
                let (at, found) = ((stretch.partition, offset), Digest::of(&record.value));
                if missing.get(&at) == Some(&found) {
                    missing.remove(&at);
                } else if missing.contains_key(&at) {
                    other.insert(at, found);
                }
            }
        }
        let lost = missing.len();
        let some: Vec<_> = missing.iter().map(|at| (at, other.get(at.0))).take(8).collect();
        assert!(lost == 0, "{lost} of {expected} lost, or other ones are in their place: {some:?}");
    }
}

/// Writes large records to one partition.
pub(crate) struct Filler {
    ledger: Ledger,
    producer: Producer,
    partition: u32,
    record_bytes: usize,
    /// Bytes acknowledged so far.
    pub(crate) written: usize,
}

impl Filler {
    pub(crate) fn new(
        ledger: &Ledger,
        client: &Client,
        topic: &str,
        partition: u32,
        record_bytes: usize,
    ) -> Self {
        let options =
            ProducerOptions { ack: Ack::Owner, in_flight_max: 1, ..ProducerOptions::default() };
        let producer = client.producer(topic, options);
        Self { ledger: ledger.clone(), producer, partition, record_bytes, written: 0 }
    }

    /// Writes so many bytes in one batch; a record more if that is no whole number of records.
    pub(crate) async fn send(&mut self, bytes: usize) {
        let Self { partition, record_bytes, written, .. } = *self;
        let value = |at: usize| {
            let mut value = format!("fill {partition}/{written}+{at} ").into_bytes();
            value.resize(record_bytes, b'x');
            Bytes::from(value)
        };
        let values: Vec<Bytes> = (0..bytes.div_ceil(record_bytes)).map(value).collect();
        let records: Vec<Record> = values.iter().cloned().map(record).collect();
        let sent = self.producer.send(Placement::Pinned(partition), &records).await.unwrap();
        self.ledger.note(&sent.placed.unwrap(), None, &values);
        self.written += values.len() * record_bytes;
    }
}

fn record(value: Bytes) -> Record {
    Record { value, ..Record::default() }
}

/// Writes to partitions, one record after the other on each, whoever owns them, until told to stop.
pub(crate) struct Writers {
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Writers {
    pub(crate) fn start(cluster: &Cluster, topic: &str, partitions: u32, ledger: &Ledger) -> Self {
        let stop = CancellationToken::new();
        let ports: BTreeMap<String, u16> =
            cluster.nodes.values().map(|node| (node.name.clone(), node.http)).collect();
        let mut tasks = JoinSet::new();
        for partition in 0..partitions {
            let writer = Writer {
                path: format!("/v1/topics/{topic}/messages?partition={partition}&ack=owner"),
                partition,
                ports: ports.clone(),
                ledger: ledger.clone(),
                stop: stop.clone(),
            };
            tasks.spawn(writer.run());
        }
        Self { stop, tasks }
    }

    /// Ends the writing and makes sure that no writer failed.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

struct Writer {
    path: String,
    partition: u32,
    ports: BTreeMap<String, u16>,
    ledger: Ledger,
    stop: CancellationToken,
}

impl Writer {
    async fn run(self) {
        let mut pace = tokio::time::interval(PACE);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let names: Vec<&String> = self.ports.keys().collect();
        let (mut number, mut at) = (0_u64, 0_usize);
        while !self.stop.is_cancelled() {
            pace.tick().await;
            // Repeated until it is acknowledged: it may be there more often than once.
            let value = format!("live {}/{number}", self.partition);
            let name = names[at % names.len()];
            let answer = http::ask(self.ports[name], "POST", &self.path, &value).await;
            match answer {
                Some(answer) if answer.status == 200 => {
                    let results = answer.body["results"].clone();
                    let results: Vec<PartResult> = serde_json::from_value(results).unwrap();
                    self.ledger.note(&results[0], Some(name), &[Bytes::from(value)]);
                    number += 1;
                }
                Some(answer) if answer.status == 421 => at = self.owner(&answer).unwrap_or(at + 1),
                Some(answer) => {
                    assert!(answer.body["retryable"] == true, "{name}: {answer:?}");
                    at += usize::from(answer.body["code"] != "frozen");
                }
                None => at += 1,
            }
        }
    }

    /// Returns the place of the node that an answer names as the owner.
    fn owner(&self, answer: &http::Answer) -> Option<usize> {
        let (_, port) = answer.body["owner"].as_str()?.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        self.ports.values().position(|known| *known == port)
    }
}
