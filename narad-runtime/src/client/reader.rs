//! Reading all partitions of a topic, wherever they go, without taking anything from anybody.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use narad_core::ids::{Epoch, Offset};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::owner::{Owner, Trouble};
use super::transport::Request;
use super::waits::{Waiting, Waits};
use super::{Client, ClientError, Endpoint, encoded};
use crate::http::batch::{self, Limits};
use crate::service::{Fetched, Position, Record};

/// How a topic is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderOptions {
    /// Where it starts. Default: at the first record that is not acknowledged.
    pub start: StartAt,
    /// The one partition that is read; `None` for all of them. Default `None`.
    pub partition: Option<u32>,
    /// Whether it waits for further records, or ends where the topic ended when it began. Default
    /// true.
    pub follow: bool,
    /// Most bytes of one stretch. Default 1 MiB.
    pub fetch_bytes_max: u64,
    /// How long one request waits for records. Default 1 s.
    pub wait: Duration,
    /// Most requests at once. Default 32.
    pub fetches_max: usize,
    /// How long a partition may be out of reach before reading ends with an error; `None` waits for
    /// ever. Default `None`.
    pub unavailable_max: Option<Duration>,
}

impl Default for ReaderOptions {
    fn default() -> Self {
        Self {
            start: StartAt::Committed,
            partition: None,
            follow: true,
            fetch_bytes_max: 1 << 20,
            wait: Duration::from_secs(1),
            fetches_max: 32,
            unavailable_max: None,
        }
    }
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartAt {
    /// At the first record that is not acknowledged.
    Committed,
    /// At the first record that is there.
    Beginning,
    /// At an offset of each partition.
    Offset(Offset),
}

/// A stretch of one partition's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The partition.
    pub partition: u32,
    /// The reign in which they were read.
    pub epoch: Epoch,
    /// The node that they were read from.
    pub endpoint: Endpoint,
    /// The records with their offsets; at least one.
    pub records: Vec<(Offset, Record)>,
    /// Where the next stretch begins.
    pub next: Offset,
}

/// Reads a topic. Dropping it ends all its requests.
#[derive(Debug)]
pub struct Reader {
    stretches: mpsc::Receiver<Result<Stretch, ClientError>>,
    waits: Arc<Waits>,
    readers: JoinSet<()>,
}

impl Reader {
    /// Stretches that may wait, besides one for each partition.
    const WAITING_MAX: usize = 4;

    pub(super) async fn new(
        client: Client,
        topic: &str,
        options: ReaderOptions,
    ) -> Result<Self, ClientError> {
        let partitions = client.known(topic).await?.detail.topic.partitions;
        let (sender, stretches) = mpsc::channel(Self::WAITING_MAX);
        let slots = Arc::new(Semaphore::new(options.fetches_max.max(1)));
        // With more partitions than slots nobody may sit on one for long.
        let crowded = partitions as usize > options.fetches_max;
        let wait = if crowded { options.wait.min(Duration::from_millis(50)) } else { options.wait };
        let (mut readers, waits) = (JoinSet::new(), Arc::<Waits>::default());
        let wanted = match options.partition {
            Some(partition) if partition >= partitions => {
                return Err(ClientError::NoSuchPartition { partition, partitions });
            }
            Some(partition) => partition..partition + 1,
            None => 0..partitions,
        };
        for partition in wanted {
            let reader = PartitionReader {
                client: client.clone(),
                topic: topic.into(),
                partition,
                options: ReaderOptions { wait, ..options.clone() },
                slots: slots.clone(),
                waits: Arc::clone(&waits),
                sender: sender.clone(),
            };
            readers.spawn(reader.run());
        }
        Ok(Self { stretches, waits, readers })
    }

    /// Lists the partitions that cannot be reached at the moment, with the reasons.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waits.list()
    }

    /// Returns the next records, or `None` at the end of all partitions, unless it follows.
    ///
    /// # Errors
    ///
    /// If the topic is gone, or a partition was out of reach for too long.
    ///
    /// # Panics
    ///
    /// If reading a partition did: its end would pass for the partition's.
    pub async fn next(&mut self) -> Result<Option<Stretch>, ClientError> {
        if let Some(stretch) = self.stretches.recv().await {
            return stretch.map(Some);
        }
        while let Some(ended) = self.readers.join_next().await {
            ended.expect("no reader panics or is aborted");
        }
        Ok(None)
    }
}

/// Reads one partition.
struct PartitionReader {
    client: Client,
    topic: String,
    partition: u32,
    options: ReaderOptions,
    slots: Arc<Semaphore>,
    waits: Arc<Waits>,
    sender: mpsc::Sender<Result<Stretch, ClientError>>,
}

impl PartitionReader {
    async fn run(self) {
        let mut position = match self.options.start {
            StartAt::Committed => Position::Committed,
            StartAt::Beginning => Position::Offset { at: Offset(0), epoch: None },
            StartAt::Offset(at) => Position::Offset { at, epoch: None },
        };
        let mut owner = Owner::new(&self.client, &self.topic, self.partition);
        let mut end = None;
        let mut last_heard = Instant::now();
        loop {
            let fetched = {
                let _slot = self.slots.acquire().await.expect("the semaphore is never closed");
                self.fetch(&mut owner, position).await
            };
            let (endpoint, fetched) = match fetched {
                Ok(fetched) => fetched,
                Err(Trouble { error, passes }) => {
                    let patience = self.options.unavailable_max;
                    let spent = patience.is_some_and(|most| last_heard.elapsed() >= most);
                    if !passes || spent {
                        // Nobody left to tell is fine.
                        let _ = self.sender.send(Err(error)).await;
                        return;
                    }
                    self.waits.stuck(Some(self.partition), error.of_node());
                    owner.pause().await;
                    continue;
                }
            };
            owner.rested();
            self.waits.passed(Some(self.partition));
            last_heard = Instant::now();
            let until = *end.get_or_insert(fetched.hwm);
            let Fetched { records, next, hwm, epoch, .. } = fetched;
            position = Position::Offset { at: next, epoch: Some(epoch) };
            let caught_up = next >= until || (records.is_empty() && next >= hwm);
            if !records.is_empty() {
                let partition = self.partition;
                let stretch = Stretch { partition, epoch, endpoint, records, next };
                if self.sender.send(Ok(stretch)).await.is_err() {
                    return;
                }
            } else if next < hwm {
                // Nothing visible in this stretch; go on behind it, but not in a tight loop.
                tokio::task::yield_now().await;
            }
            if caught_up && !self.options.follow {
                return;
            }
        }
    }

    async fn fetch(
        &self,
        owner: &mut Owner<'_>,
        position: Position,
    ) -> Result<(Endpoint, Fetched), Trouble> {
        let wait = if self.options.follow { self.options.wait } else { Duration::ZERO };
        let from = match position {
            Position::Committed => "&from=committed".to_owned(),
            Position::Offset { at, epoch: None } => format!("&from={at}"),
            Position::Offset { at, epoch: Some(epoch) } => format!("&from={at}&epoch={epoch}"),
        };
        let path = format!(
            "/v1/topics/{}/messages?partition={}{from}&max_bytes={}&wait_ms={}",
            encoded(&self.topic),
            self.partition,
            self.options.fetch_bytes_max,
            wait.as_millis(),
        );
        let request = Request::new(Method::GET, &path).accept_batch();
        let timeout = self.client.shared.options.request_timeout + wait;
        let (endpoint, body) = owner.ask(&request, timeout).await?;
        // The answer's length is bounded already.
        let limits = Limits { records_max: u32::MAX, record_bytes_max: u64::MAX };
        match batch::decode_fetched(body, limits) {
            Ok(fetched) => Ok((endpoint, fetched)),
            Err(cause) => Err(Trouble {
                error: ClientError::BadAnswer { endpoint, cause: cause.to_string() },
                passes: true,
            }),
        }
    }
}
