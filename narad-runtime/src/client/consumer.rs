//! Reading all partitions of a topic, wherever they go.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use bytes::Bytes;
use narad_core::ids::{Epoch, Offset};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::routes::Fault;
use super::transport::Request;
use super::{Client, ClientError, Endpoint, Tried, encoded, json};
use crate::http::batch::{self, Limits};
use crate::http::consume::AckBody;
use crate::service::{AckSet, Fetched, Position, Record};

/// How a consumer reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Where it starts. Default: at the first record that is not acknowledged.
    pub start: StartAt,
    /// Whether it waits for further records, or ends where the topic ended when it began. Default
    /// true.
    pub follow: bool,
    /// Whether what it delivers is going to be acknowledged. If so, it goes back to the acknowledged
    /// position whenever a partition has changed hands (H15): records may come twice, none is left
    /// out. Default true.
    pub acknowledges: bool,
    /// Most bytes of one delivery. Default 1 MiB.
    pub fetch_bytes_max: u64,
    /// How long one request waits for records. Default 1 s.
    pub wait: Duration,
    /// Most requests at once. Default 32.
    pub fetches_max: usize,
    /// How long a partition may be out of reach before reading ends with an error; `None` waits for
    /// ever. Default `None`.
    pub unavailable_max: Option<Duration>,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            start: StartAt::Committed,
            follow: true,
            acknowledges: true,
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
}

/// Records of one partition, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub partition: u32,
    /// The reign in which they were read.
    pub epoch: Epoch,
    /// The node that they were read from.
    pub endpoint: Endpoint,
    /// The records with their offsets; at least one.
    pub records: Vec<(Offset, Record)>,
    /// What acknowledges them all.
    pub next: Offset,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// It holds.
    Acknowledged,
    /// The partition has changed hands since; the records may come again.
    Superseded,
}

/// Reads a topic. Dropping it ends all its requests.
#[derive(Debug)]
pub struct Consumer {
    client: Client,
    topic: String,
    deliveries: mpsc::Receiver<Result<Delivery, ClientError>>,
    readers: JoinSet<()>,
}

impl Consumer {
    /// Deliveries that may wait, besides one for each partition.
    const WAITING_MAX: usize = 4;
    /// How long an acknowledgement is tried.
    const ACK_TIMEOUT: Duration = Duration::from_secs(30);

    pub(super) async fn new(
        client: Client,
        topic: &str,
        options: ConsumerOptions,
    ) -> Result<Self, ClientError> {
        let partitions = client.known(topic).await?.detail.topic.partitions;
        let (sender, deliveries) = mpsc::channel(Self::WAITING_MAX);
        let slots = Arc::new(Semaphore::new(options.fetches_max.max(1)));
        // With more partitions than slots nobody may sit on one for long.
        let crowded = partitions as usize > options.fetches_max;
        let wait = if crowded { options.wait.min(Duration::from_millis(50)) } else { options.wait };
        let mut readers = JoinSet::new();
        for partition in 0..partitions {
            let reader = Reader {
                client: client.clone(),
                topic: topic.into(),
                partition,
                options: ConsumerOptions { wait, ..options.clone() },
                slots: slots.clone(),
                sender: sender.clone(),
            };
            readers.spawn(reader.run());
        }
        Ok(Self { client, topic: topic.into(), deliveries, readers })
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
    pub async fn next(&mut self) -> Result<Option<Delivery>, ClientError> {
        if let Some(delivery) = self.deliveries.recv().await {
            return delivery.map(Some);
        }
        while let Some(ended) = self.readers.join_next().await {
            ended.expect("no reader panics or is aborted");
        }
        Ok(None)
    }

    /// Acknowledges everything of a delivery's partition before `up_to`, which is an offset of the
    /// delivery or its `next`; earlier deliveries of that partition included.
    ///
    /// # Errors
    ///
    /// If nobody could be told for 30 s. The records will come again.
    pub async fn ack(
        &self,
        partition: u32,
        epoch: Epoch,
        up_to: Offset,
    ) -> Result<AckOutcome, ClientError> {
        let acks = AckSet { up_to: Some(up_to), offsets: Vec::new() };
        let path = format!("/v1/topics/{}/ack?partition={partition}", encoded(&self.topic));
        let request = Request::new(Method::POST, &path).json(json(&AckBody { epoch, acks }));
        let mut owner = Owner::new(&self.client, &self.topic, partition);
        let until = Instant::now() + Self::ACK_TIMEOUT;
        loop {
            let timeout = self.client.shared.options.request_timeout;
            match owner.ask(&request, timeout).await {
                Ok(_) => return Ok(AckOutcome::Acknowledged),
                Err(Trouble { error, .. }) if error.code() == Some("stale_epoch") => {
                    return Ok(AckOutcome::Superseded);
                }
                Err(Trouble { error, passes }) if !passes || Instant::now() >= until => {
                    return Err(error);
                }
                Err(_) => owner.pause().await,
            }
        }
    }
}

/// Reads one partition.
struct Reader {
    client: Client,
    topic: String,
    partition: u32,
    options: ConsumerOptions,
    slots: Arc<Semaphore>,
    sender: mpsc::Sender<Result<Delivery, ClientError>>,
}

impl Reader {
    async fn run(self) {
        let mut position = match self.options.start {
            StartAt::Committed => Position::Committed,
            StartAt::Beginning => Position::Offset { at: Offset(0), epoch: None },
        };
        let mut owner = Owner::new(&self.client, &self.topic, self.partition);
        let mut reign = None;
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
                    owner.pause().await;
                    continue;
                }
            };
            owner.rested();
            last_heard = Instant::now();
            let earlier = reign.replace(fetched.epoch);
            if earlier.is_some_and(|earlier| earlier != fetched.epoch) && self.options.acknowledges
            {
                // What lies ahead of the acknowledged position may be other records by now.
                position = Position::Committed;
                continue;
            }
            let until = *end.get_or_insert(fetched.hwm);
            let Fetched { records, next, hwm, epoch, .. } = fetched;
            position = Position::Offset { at: next, epoch: Some(epoch) };
            let caught_up = next >= until || (records.is_empty() && next >= hwm);
            if !records.is_empty() {
                let partition = self.partition;
                let delivery = Delivery { partition, epoch, endpoint, records, next };
                if self.sender.send(Ok(delivery)).await.is_err() {
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

/// Why the owner of a partition gave no result.
struct Trouble {
    error: ClientError,
    /// Whether asking again may help.
    passes: bool,
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Final(error) => Self { error, passes: false },
            Fault::Later(error)
            | Fault::NodeDown(error)
            | Fault::Unknown(error)
            | Fault::Missing(error) => Self { error, passes: true },
            Fault::NotOwner(endpoint) => {
                let tried = endpoint.into_iter().map(|endpoint| Tried {
                    endpoint,
                    cause: "named as the owner, but not asked".into(),
                });
                Self { error: ClientError::Unreachable { tried: tried.collect() }, passes: true }
            }
        }
    }
}

/// The owner of one partition, whoever that is at the moment.
struct Owner<'a> {
    client: &'a Client,
    topic: &'a str,
    partition: u32,
    /// What an answer named; asked before what the routes say.
    named: Option<Endpoint>,
    /// The version of the routes that turned out wrong.
    seen: u64,
    wrong: bool,
    backoff: Backoff,
}

impl<'a> Owner<'a> {
    /// Most nodes that one after the other send a request on.
    const HOPS_MAX: u32 = 4;

    fn new(client: &'a Client, topic: &'a str, partition: u32) -> Self {
        let options = &client.shared.options;
        let backoff = Backoff::new(options.retry_min, options.retry_max);
        Self { client, topic, partition, named: None, seen: 0, wrong: false, backoff }
    }

    async fn pause(&mut self) {
        self.backoff.pause().await;
    }

    fn rested(&mut self) {
        self.backoff.reset();
    }

    /// Asks the owner once, following those who know better.
    async fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
    ) -> Result<(Endpoint, Bytes), Trouble> {
        let mut hops = 0;
        loop {
            let endpoint = match self.named.take() {
                Some(endpoint) => endpoint,
                None => self.by_routes().await?,
            };
            let answer = self.client.ask_owner(&endpoint, request, timeout).await;
            self.wrong = answer.is_err();
            match answer {
                Ok(body) => {
                    if hops > 0 {
                        self.client.learn_owner(self.topic, self.partition, &endpoint);
                    }
                    return Ok((endpoint, body));
                }
                Err(Fault::NotOwner(owner)) => {
                    hops += 1;
                    let owner = owner.filter(|owner| *owner != endpoint && hops <= Self::HOPS_MAX);
                    if owner.is_none() {
                        let error = ClientError::OwnerNotFound { endpoint };
                        return Err(Trouble { error, passes: true });
                    }
                    self.named = owner;
                }
                // The routes decide whether it is gone: a node may not have learned of it yet.
                Err(fault @ Fault::Missing(_)) => {
                    self.by_routes().await?;
                    return Err(fault.into());
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    async fn by_routes(&mut self) -> Result<Endpoint, Fault> {
        let known = if self.wrong {
            self.client.relearn(self.topic, self.seen).await
        } else {
            self.client.known(self.topic).await
        };
        let known = known.map_err(Fault::of_routes)?;
        self.seen = known.version;
        let route = known.detail.routes.iter().find(|route| route.partition == self.partition);
        let endpoint = route.and_then(|route| route.addr.parse().ok());
        // Without an owner yet, or with one at no address: look again after a pause.
        self.wrong = endpoint.is_none();
        endpoint.ok_or_else(|| Fault::NodeDown(ClientError::Unreachable { tried: Vec::new() }))
    }
}
