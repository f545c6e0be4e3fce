//! Publishing: every batch ends acknowledged or with a typed error.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::backoff::Backoff;
use super::routes::{Fault, Known};
use super::transport::Request;
use super::waits::{Waiting, Waits};
use super::{Client, ClientError, Endpoint, encoded};
use crate::http::batch;
use crate::http::messages::PartResult;
use crate::service::{Record, Route, partition_of};

/// Whose word a producer waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// Any node's: the records are on its disk, and it brings them to their owners. This goes on
    /// while partitions move, while there is no leader and while owners are dead (R43, R46).
    #[default]
    Accepted,
    /// The owner's, which says at which offsets the records are. It waits for the partition, or goes
    /// to another one.
    Owner,
}

/// How a producer behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerOptions {
    /// Whose word [`Producer::send`] waits for. Default: any node's.
    pub ack: Ack,
    /// Most batches under way at once; further ones wait in [`Producer::send`]. Default 8.
    pub in_flight_max: usize,
    /// How long one batch is tried before it is given up. Default 60 s.
    pub deliver_timeout: Duration,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self { ack: Ack::default(), in_flight_max: 8, deliver_timeout: Duration::from_mins(1) }
    }
}

/// Where a batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Wherever there is room: to the partitions in turn, those that are not about to move first.
    /// Keys that the records have count all the same if a node accepts them ([`Ack::Accepted`]).
    Any,
    /// To this partition, which its keys belong to; to another one while that is about to move or
    /// cannot be reached (R45, R47).
    Prefer(u32),
    /// To this partition, however long it takes.
    Pinned(u32),
}

impl Placement {
    /// Returns the one partition that is meant.
    pub(super) const fn partition(self) -> Option<u32> {
        match self {
            Self::Any => None,
            Self::Prefer(partition) | Self::Pinned(partition) => Some(partition),
        }
    }
}

/// Where a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Partition and offsets, if it was the owner who acknowledged it ([`Ack::Owner`]).
    pub placed: Option<PartResult>,
    /// The node that acknowledged it.
    pub endpoint: Endpoint,
    /// How often it was tried; more than once means that it may be there more than once.
    pub attempts: u32,
}

/// Why a batch was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No node will take it.
    #[error(transparent)]
    Refused(ClientError),
    /// It was tried for too long.
    #[error("not acknowledged after {attempts} attempts{}: {last}", if *.maybe_written { ", though it may have been written" } else { "" })]
    GaveUp {
        /// How often it was tried.
        attempts: u32,
        /// Whether an answer was lost, so that its records may be there all the same.
        maybe_written: bool,
        /// What went wrong last.
        last: String,
    },
}

/// What a producer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records acknowledged.
    pub records_acknowledged: u64,
    /// Requests beyond the first of each batch.
    pub retries: u64,
    /// Batches that another partition or another node took than the one that was asked first.
    pub reroutes: u64,
    /// Requests whose answer was lost: at most so many batches are there twice.
    pub unknown_outcomes: u64,
}

/// Publishes to one topic. Share it by reference: its methods take `&self`.
#[derive(Debug)]
pub struct Producer {
    pub(super) client: Client,
    pub(super) topic: String,
    options: ProducerOptions,
    in_flight: Semaphore,
    pub(super) turn: AtomicU64,
    pub(super) counters: Counters,
    pub(super) waits: Waits,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    records: AtomicU64,
    retries: AtomicU64,
    pub(super) reroutes: AtomicU64,
    pub(super) unknown: AtomicU64,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<PartResult>,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    partition: u32,
    endpoint: Endpoint,
}

/// What is left out until everything has been tried once.
#[derive(Debug, Default)]
struct Round {
    partitions: BTreeSet<u32>,
    endpoints: Vec<Endpoint>,
    hops: u32,
}

/// What has become of a batch so far.
#[derive(Debug, Default)]
pub(super) struct Progress {
    attempts: u32,
    pub(super) asking: bool,
    pub(super) maybe_written: bool,
    pub(super) last: String,
    first: Option<Target>,
}

impl Producer {
    /// Most partitions tried in a row without a pause.
    const SIBLINGS_MAX: usize = 8;
    /// Most nodes that one after the other send a batch on.
    const HOPS_MAX: u32 = 4;

    pub(super) fn new(client: Client, topic: &str, options: ProducerOptions) -> Self {
        let in_flight = Semaphore::new(options.in_flight_max.max(1));
        let (turn, counters) = (AtomicU64::new(0), Counters::default());
        let (topic, waits) = (topic.into(), Waits::default());
        Self { client, topic, options, in_flight, turn, counters, waits }
    }

    /// Returns how many partitions the topic has.
    ///
    /// # Errors
    ///
    /// If the topic does not exist or no node can be reached.
    pub async fn partitions(&self) -> Result<u32, ClientError> {
        self.client.known(&self.topic).await.map(|known| known.detail.topic.partitions)
    }

    /// Returns where records with this key go.
    ///
    /// # Errors
    ///
    /// If the topic does not exist or no node can be reached.
    pub async fn place(&self, key: &[u8]) -> Result<Placement, ClientError> {
        Ok(Placement::Prefer(partition_of(key, self.partitions().await?)))
    }

    /// Sends a batch and returns once it is acknowledged.
    ///
    /// Tries one node after the other; or, with [`Ack::Owner`], the owner, or whoever owns the
    /// partition by now, and unless the batch is pinned another partition of the topic takes it while
    /// its own cannot. A batch whose answer was lost is sent
    /// again, so that its records are there at least once.
    ///
    /// # Errors
    ///
    /// [`SendError::Refused`] for what no retry will change, [`SendError::GaveUp`] after
    /// [`ProducerOptions::deliver_timeout`].
    ///
    /// # Panics
    ///
    /// If there are no records.
    pub async fn send(
        &self,
        placement: Placement,
        records: &[Record],
    ) -> Result<Delivered, SendError> {
        assert!(!records.is_empty(), "an empty batch has nothing to acknowledge");
        let _permit = self.in_flight.acquire().await.expect("the semaphore is never closed");
        let body = batch::encode_records(records);
        let mut progress = Progress::default();
        let deliver = async {
            match self.options.ack {
                Ack::Accepted => {
                    let accepted = self.have_accepted(placement, &body, &mut progress).await;
                    accepted.map(|endpoint| (None, endpoint))
                }
                Ack::Owner => {
                    let placed = self.deliver(placement, &body, &mut progress).await;
                    placed.map(|(result, endpoint)| (Some(result), endpoint))
                }
            }
        };
        let outcome = tokio::time::timeout(self.options.deliver_timeout, deliver).await;
        match outcome {
            Ok(Ok((placed, endpoint))) => {
                self.waits.passed(placement.partition());
                self.counters.records.fetch_add(records.len() as u64, Ordering::Relaxed);
                Ok(Delivered { placed, endpoint, attempts: progress.attempts })
            }
            Ok(Err(error)) => Err(SendError::Refused(error)),
            Err(_) => Err(SendError::GaveUp {
                attempts: progress.attempts,
                maybe_written: progress.maybe_written || progress.asking,
                last: if progress.last.is_empty() { "no answer yet".into() } else { progress.last },
            }),
        }
    }

    /// Lists what no node takes at the moment, with the reasons.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waits.list()
    }

    /// Returns what has been done so far.
    pub fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            records_acknowledged: read(&self.counters.records),
            retries: read(&self.counters.retries),
            reroutes: read(&self.counters.reroutes),
            unknown_outcomes: read(&self.counters.unknown),
        }
    }

    /// Tries until somebody acknowledges the batch or nobody ever will.
    async fn deliver(
        &self,
        placement: Placement,
        body: &Bytes,
        progress: &mut Progress,
    ) -> Result<(PartResult, Endpoint), ClientError> {
        let options = &self.client.shared.options;
        let mut backoff = Backoff::new(options.retry_min, options.retry_max);
        // A node that failed a moment ago comes last.
        let mut round = Round { endpoints: self.client.avoided(), ..Round::default() };
        let mut sent_on = None;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut known = self.learn(0, placement, &mut backoff, progress).await?;
        Self::check(placement, &known)?;
        loop {
            let target = sent_on.take().or_else(|| choose(&known, placement, turn, &round));
            let Some(target) = target else {
                self.waits.stuck(placement.partition(), &progress.last);
                backoff.pause().await;
                round = Round::default();
                known = self.learn(known.version, placement, &mut backoff, progress).await?;
                continue;
            };
            match self.attempt(&target, body, progress).await {
                Ok(result) => {
                    if round.hops > 0 {
                        self.client.learn_owner(&self.topic, target.partition, &target.endpoint);
                    }
                    return Ok((result, target.endpoint));
                }
                Err(Fault::NotOwner(owner)) => {
                    progress.last = format!("{} no longer owns the partition", target.endpoint);
                    round.hops += 1;
                    let owner = owner.filter(|owner| *owner != target.endpoint);
                    match owner.filter(|_| round.hops <= Self::HOPS_MAX) {
                        Some(endpoint) => sent_on = Some(Target { endpoint, ..target }),
                        None => drop(round.partitions.insert(target.partition)),
                    }
                }
                Err(Fault::Later(error) | Fault::Missing(error)) => {
                    progress.last = error.of_node();
                    round.partitions.insert(target.partition);
                }
                Err(Fault::NodeDown(error)) => {
                    progress.last = error.of_node();
                    self.client.note_failure(&self.topic, &target.endpoint);
                    round.endpoints.push(target.endpoint);
                }
                Err(Fault::Unknown(error)) => {
                    progress.last = error.of_node();
                    progress.maybe_written = true;
                    self.counters.unknown.fetch_add(1, Ordering::Relaxed);
                    self.client.note_failure(&self.topic, &target.endpoint);
                    round.endpoints.push(target.endpoint);
                }
                Err(Fault::Final(error)) => return Err(error),
            }
        }
    }

    /// Checks that there is such a partition.
    pub(super) fn check(placement: Placement, known: &Known) -> Result<(), ClientError> {
        let partitions = known.detail.topic.partitions;
        match placement {
            Placement::Prefer(partition) | Placement::Pinned(partition)
                if partition >= partitions =>
            {
                Err(ClientError::NoSuchPartition { partition, partitions })
            }
            Placement::Prefer(_) | Placement::Pinned(_) | Placement::Any => Ok(()),
        }
    }

    pub(super) fn begin_attempt(&self, progress: &mut Progress) {
        progress.attempts = progress.attempts.saturating_add(1);
        if progress.attempts > 1 {
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn attempt(
        &self,
        target: &Target,
        body: &Bytes,
        progress: &mut Progress,
    ) -> Result<PartResult, Fault> {
        self.begin_attempt(progress);
        let first = progress.first.get_or_insert_with(|| target.clone());
        let rerouted = first != target;
        let (topic, partition) = (encoded(&self.topic), target.partition);
        let path = format!("/v1/topics/{topic}/messages?partition={partition}&ack=owner");
        let request = Request::new(Method::POST, &path).batch(body.clone());
        let timeout = self.client.shared.options.request_timeout;
        progress.asking = true;
        let answer = self.client.ask_owner(&target.endpoint, &request, timeout).await;
        progress.asking = false;
        let answer = answer.map_err(|fault| fault.of_owner(partition))?;
        let answer: Results = serde_json::from_slice(&answer).map_err(|cause| {
            // It said yes, but not to what.
            let endpoint = target.endpoint.clone();
            Fault::Unknown(ClientError::BadAnswer { endpoint, cause: cause.to_string() })
        })?;
        let [result] = answer.results[..] else {
            let (endpoint, cause) = (target.endpoint.clone(), "not one result".to_owned());
            return Err(Fault::Unknown(ClientError::BadAnswer { endpoint, cause }));
        };
        if rerouted {
            self.counters.reroutes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// Learns who serves the topic, however long that takes; only a topic that does not exist is an
    /// error.
    pub(super) async fn learn(
        &self,
        seen: u64,
        placement: Placement,
        backoff: &mut Backoff,
        progress: &mut Progress,
    ) -> Result<Known, ClientError> {
        loop {
            let known = match seen {
                0 => self.client.known(&self.topic).await,
                seen => self.client.relearn(&self.topic, seen).await,
            };
            match known {
                Ok(known) => return Ok(known),
                Err(error) if error.is_retryable() => progress.last = error.of_node(),
                Err(error) => return Err(error),
            }
            self.waits.stuck(placement.partition(), &progress.last);
            backoff.pause().await;
        }
    }
}

/// Picks the next partition to try, if any is left in this round.
fn choose(known: &Known, placement: Placement, turn: u64, round: &Round) -> Option<Target> {
    let routes = &known.detail.routes;
    if round.partitions.len() >= Producer::SIBLINGS_MAX {
        return None;
    }
    let usable = |route: &Route| -> Option<Target> {
        let endpoint: Endpoint = route.addr.parse().ok()?;
        let left_out =
            round.partitions.contains(&route.partition) || round.endpoints.contains(&endpoint);
        (!left_out).then_some(Target { partition: route.partition, endpoint })
    };
    let own = |partition| routes.iter().find(|route| route.partition == partition);
    match placement {
        // Also if it is said to be dead: that may be old news, and there is no other.
        Placement::Pinned(partition) => return own(partition).and_then(usable),
        Placement::Prefer(partition) => {
            let own = own(partition).filter(|route| route.alive).and_then(usable);
            if own.is_some() {
                return own;
            }
        }
        Placement::Any => {}
    }
    let shift = usize::try_from(turn % routes.len().max(1) as u64).unwrap_or(0);
    let in_turn = || routes.iter().cycle().skip(shift).take(routes.len());
    let settled = |route: &&Route| route.alive && !route.moving;
    let alive = |route: &&Route| route.alive;
    None.or_else(|| in_turn().filter(settled).find_map(usable))
        .or_else(|| in_turn().filter(alive).find_map(usable))
        .or_else(|| in_turn().find_map(usable))
}
