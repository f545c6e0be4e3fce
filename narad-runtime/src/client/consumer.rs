//! Working on the records of a topic, wherever its partitions go.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use narad_core::ids::Epoch;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::owner::{Owner, Trouble};
use super::transport::Request;
use super::waits::{Waiting, Waits};
use super::{Client, ClientError, Endpoint, encoded};
use crate::http::batch::{self, Limits};
use crate::http::json::SettledView;
use crate::service::{Handed, HandedRecord, Settle, Ticket};

/// How a consumer works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerOptions {
    /// Most records of one delivery. Default 100.
    pub records_max: usize,
    /// Most bytes of one delivery. Default 1 MiB.
    pub bytes_max: u64,
    /// How long nobody else gets what was delivered: as long as working on one delivery may take. It
    /// counts from when [`Consumer::next`] returns it, or a little earlier. A node may allow less
    /// (`consumers.visibility_max`). Default 30 s.
    pub visibility: Duration,
    /// Whether it waits for further records, or ends where there is nothing left to hand out.
    /// Default true.
    pub follow: bool,
    /// How long one request waits for records. Default 10 s.
    pub wait: Duration,
    /// Most requests at once. Default 32.
    pub requests_max: usize,
    /// How long a partition may be out of reach before the consumer ends with an error; `None` waits
    /// for ever. Default `None`.
    pub unavailable_max: Option<Duration>,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            records_max: 100,
            bytes_max: 1 << 20,
            visibility: Duration::from_secs(30),
            follow: true,
            wait: Duration::from_secs(10),
            requests_max: 32,
            unavailable_max: None,
        }
    }
}

/// Records of one partition that nobody else gets for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The partition.
    pub partition: u32,
    /// The reign in which they were handed out.
    pub epoch: Epoch,
    /// The node that has handed them out.
    pub endpoint: Endpoint,
    /// The records, in order; at least one.
    pub records: Vec<HandedRecord>,
}

impl Delivery {
    /// Returns what acknowledges all of them, hands them back or keeps them.
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> + '_ {
        self.records.iter().map(|record| record.ticket)
    }
}

/// Works on a topic, together with whoever else does. What it has delivered and nobody acknowledges is
/// delivered again, to it or to somebody else, once its time is up. Dropping it ends all its requests;
/// [`Consumer::close`] also hands back what is left.
#[derive(Debug)]
pub struct Consumer {
    client: Client,
    topic: String,
    deliveries: mpsc::Receiver<Result<Delivery, ClientError>>,
    demand: Arc<Demand>,
    waits: Arc<Waits>,
    is_waiting: bool,
    stop: CancellationToken,
    workers: JoinSet<()>,
}

impl Consumer {
    pub(super) async fn new(
        client: Client,
        topic: &str,
        options: ConsumerOptions,
    ) -> Result<Self, ClientError> {
        let partitions = client.known(topic).await?.detail.topic.partitions;
        let (sender, deliveries) = mpsc::channel(1);
        let slots = Arc::new(Semaphore::new(options.requests_max.max(1)));
        let (demand, stop) = (Demand::default(), CancellationToken::new());
        let (demand, waits) = (Arc::new(demand), Arc::default());
        // With more partitions than slots nobody may sit on one for long.
        let crowded = partitions as usize > options.requests_max;
        let wait = if crowded { options.wait.min(Duration::from_millis(50)) } else { options.wait };
        let mut workers = JoinSet::new();
        for partition in 0..partitions {
            let worker = Worker {
                client: client.clone(),
                topic: topic.into(),
                partition,
                options: ConsumerOptions { wait, ..options.clone() },
                slots: Arc::clone(&slots),
                demand: Arc::clone(&demand),
                waits: Arc::clone(&waits),
                stop: stop.clone(),
                sender: sender.clone(),
            };
            workers.spawn(worker.run());
        }
        let topic = topic.into();
        Ok(Self { client, topic, deliveries, demand, waits, is_waiting: false, stop, workers })
    }

    /// Returns the next records, or `None` once all partitions have none left, unless it follows. Safe
    /// to give up: what it would have returned comes with the next call.
    ///
    /// # Errors
    ///
    /// If the topic is gone, or a partition was out of reach for too long; and once for each
    /// [damage](ClientError::is_damage) at which a partition has nothing else left. The others go on with
    /// the next call, and so does that one, if the consumer follows, when the damage was given up.
    ///
    /// # Panics
    ///
    /// If working on a partition did: its end would pass for the partition's.
    pub async fn next(&mut self) -> Result<Option<Delivery>, ClientError> {
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.demand.begin();
        }
        if let Some(delivery) = self.deliveries.recv().await {
            self.is_waiting = false;
            return delivery.map(Some);
        }
        while let Some(ended) = self.workers.join_next().await {
            ended.expect("no worker panics or is aborted");
        }
        Ok(None)
    }

    /// Lists the partitions that cannot be reached at the moment, with the reasons.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waits.list()
    }

    /// Acknowledges records; see [`Client::settle`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn ack(
        &self,
        tickets: impl IntoIterator<Item = Ticket>,
    ) -> Result<Vec<SettledView>, ClientError> {
        self.client.settle(&self.topic, tickets, Settle::Ack).await
    }

    /// Hands records back; see [`Client::settle`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn nack(
        &self,
        tickets: impl IntoIterator<Item = Ticket>,
        delay: Duration,
    ) -> Result<Vec<SettledView>, ClientError> {
        self.client.settle(&self.topic, tickets, Settle::Nack { delay }).await
    }

    /// Keeps records for longer; see [`Client::settle`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn extend(
        &self,
        tickets: impl IntoIterator<Item = Ticket>,
        visibility: Duration,
    ) -> Result<Vec<SettledView>, ClientError> {
        self.client.settle(&self.topic, tickets, Settle::Extend { visibility }).await
    }

    /// Ends, and hands back what was handed out and not returned by [`Consumer::next`].
    pub async fn close(mut self) {
        self.stop.cancel();
        // Those who wait to be asked hand back; whatever has been sent already is handed back here.
        while let Some(left) = self.deliveries.recv().await {
            if let Ok(delivery) = left {
                hand_back(&self.client, &self.topic, &delivery).await;
            }
        }
    }
}

/// Hands a delivery back that nobody has seen. Best effort: it comes again anyway.
async fn hand_back(client: &Client, topic: &str, delivery: &Delivery) {
    const PATIENCE: Duration = Duration::from_secs(2);
    let back = Settle::Nack { delay: Duration::ZERO };
    let settled = client.settle(topic, delivery.tickets(), back);
    drop(tokio::time::timeout(PATIENCE, settled).await);
}

/// What the caller waits for: nothing is fetched from a partition before, so that nothing is kept from
/// others for longer than needed.
#[derive(Debug)]
struct Demand {
    is_waiting: watch::Sender<bool>,
    /// One permit for the delivery that is waited for.
    wanted: Semaphore,
}

impl Default for Demand {
    fn default() -> Self {
        Self { is_waiting: watch::Sender::new(false), wanted: Semaphore::new(0) }
    }
}

impl Demand {
    fn begin(&self) {
        self.wanted.add_permits(1);
        self.is_waiting.send_replace(true);
    }

    /// Waits until somebody waits for a delivery.
    async fn begun(&self) {
        let mut is_waiting = self.is_waiting.subscribe();
        let begun = is_waiting.wait_for(|is_waiting| *is_waiting).await;
        drop(begun.expect("the sender is here"));
    }

    /// Waits until somebody waits for a delivery and gets it from the caller.
    async fn take(&self) {
        self.wanted.acquire().await.expect("it is never closed").forget();
        self.is_waiting.send_replace(false);
    }
}

/// Works on one partition.
struct Worker {
    client: Client,
    topic: String,
    partition: u32,
    options: ConsumerOptions,
    slots: Arc<Semaphore>,
    demand: Arc<Demand>,
    waits: Arc<Waits>,
    stop: CancellationToken,
    sender: mpsc::Sender<Result<Delivery, ClientError>>,
}

impl Worker {
    async fn run(self) {
        let mut owner = Owner::new(&self.client, &self.topic, self.partition);
        let mut last_heard = Instant::now();
        let mut told = None;
        loop {
            if self.stop.run_until_cancelled(self.demand.begun()).await.is_none() {
                return;
            }
            let reserved = {
                let slot = async { self.slots.acquire().await.expect("it is never closed") };
                let Some(_slot) = self.stop.run_until_cancelled(slot).await else { return };
                let reserve = self.reserve(&mut owner);
                let Some(reserved) = self.stop.run_until_cancelled(reserve).await else { return };
                reserved
            };
            match reserved {
                Ok((delivery, visibility)) => {
                    owner.rested();
                    self.waits.passed(Some(self.partition));
                    last_heard = Instant::now();
                    let is_empty = delivery.records.is_empty();
                    if !is_empty && !self.deliver(delivery, visibility).await {
                        return;
                    }
                    if is_empty && !self.options.follow {
                        return;
                    }
                }
                Err(Trouble { error, .. }) if error.is_damage() => {
                    last_heard = Instant::now();
                    if told.as_ref() != Some(&error) && !self.tell(error.clone()).await {
                        return;
                    }
                    told = Some(error);
                    if !self.options.follow
                        || self.stop.run_until_cancelled(owner.pause()).await.is_none()
                    {
                        return;
                    }
                }
                Err(Trouble { error, passes }) => {
                    let patience = self.options.unavailable_max;
                    let spent = patience.is_some_and(|most| last_heard.elapsed() >= most);
                    if !passes || spent {
                        // Nobody left to tell is fine.
                        let _ = self.sender.send(Err(error)).await;
                        return;
                    }
                    self.waits.stuck(Some(self.partition), error.of_node());
                    if self.stop.run_until_cancelled(owner.pause()).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until somebody wants a delivery, and tells why there is none; returns whether to go on.
    async fn tell(&self, error: ClientError) -> bool {
        let wanted = self.stop.run_until_cancelled(self.demand.take()).await;
        wanted.is_some() && self.sender.send(Err(error)).await.is_ok()
    }

    /// Waits until somebody wants a delivery, and keeps it meanwhile; returns whether to go on.
    async fn deliver(&self, delivery: Delivery, visibility: Duration) -> bool {
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {
                    hand_back(&self.client, &self.topic, &delivery).await;
                    return false;
                }
                () = self.demand.take() => return self.sender.send(Ok(delivery)).await.is_ok(),
                () = tokio::time::sleep(visibility / 3) => {
                    let keep = Settle::Extend { visibility: self.options.visibility };
                    let kept = self.client.settle(&self.topic, delivery.tickets(), keep);
                    // If that fails they come again, to whomever.
                    drop(self.stop.run_until_cancelled(kept).await);
                }
            }
        }
    }

    /// Reserves records, and tells for how long: a node may allow less than was asked for.
    async fn reserve(&self, owner: &mut Owner<'_>) -> Result<(Delivery, Duration), Trouble> {
        let options = &self.options;
        let wait = if options.follow { options.wait } else { Duration::ZERO };
        let path = format!(
            "/v1/topics/{}/messages?partition={}&max={}&max_bytes={}&visibility={}ms&wait={}ms",
            encoded(&self.topic),
            self.partition,
            options.records_max,
            options.bytes_max,
            options.visibility.as_millis().max(1),
            wait.as_millis(),
        );
        let request = Request::new(Method::GET, &path).accept_batch();
        let timeout = self.client.shared.options.request_timeout + wait;
        let (endpoint, body) = owner.ask(&request, timeout).await?;
        // The answer's length is bounded already.
        let limits = Limits { records_max: u32::MAX, record_bytes_max: u64::MAX };
        match batch::decode_handed(body, limits) {
            Ok(Handed { partition, epoch, records, visibility }) => {
                Ok((Delivery { partition, epoch, endpoint, records }, visibility))
            }
            Err(cause) => Err(Trouble {
                error: ClientError::BadAnswer { endpoint, cause: cause.to_string() },
                passes: true,
            }),
        }
    }
}
