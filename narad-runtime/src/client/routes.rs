//! Who serves what, as far as this client has learned, and what a node's answer means for that.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;
use bytes::Bytes;

use super::transport::{Answer, CallError, Request};
use super::{Client, ClientError, Endpoint, Tried, encoded};
use crate::service::{Route, TopicDetail};

/// What is known of one topic.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) detail: Arc<TopicDetail>,
    /// +1 with every change, so that whoever found it wrong can tell whether it is newer by now.
    pub(super) version: u64,
    /// Whether a node failed since, so that others may serve its partitions by now.
    suspect: bool,
}

/// Why a node did not do what its partition was asked.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another node owns it: that one, if the node knows.
    NotOwner(Option<Endpoint>),
    /// The partition cannot do it now; another one may.
    Later(ClientError),
    /// The node cannot do it now; another one may.
    NodeDown(ClientError),
    /// It may have been done.
    Unknown(ClientError),
    /// The node does not know the topic or the partition; it may lag behind.
    Missing(ClientError),
    /// Nobody will do it.
    Final(ClientError),
}

impl Fault {
    /// Tells whether asking again may help, of an error that no single node gave.
    pub(super) fn of_routes(error: ClientError) -> Self {
        if error.is_retryable() { Self::NodeDown(error) } else { Self::Final(error) }
    }

    /// Says whose owner it is that cannot be reached: the other nodes may be well.
    pub(super) fn of_owner(self, partition: u32) -> Self {
        match self {
            Self::NodeDown(ClientError::Unreachable { mut tried }) if tried.len() == 1 => {
                let owner = tried.remove(0);
                Self::NodeDown(ClientError::OwnerUnreachable { partition, owner })
            }
            other => other,
        }
    }
}

impl Client {
    /// Returns what is known of a topic; asks if that is nothing.
    pub(super) async fn known(&self, topic: &str) -> Result<Known, ClientError> {
        match self.remembered(topic) {
            Some(known) if !known.suspect => Ok(known),
            Some(known) => match self.relearn(topic, known.version).await {
                // Old news are better than none.
                Err(error) if error.is_retryable() => Ok(known),
                other => other,
            },
            None => self.relearn(topic, 0).await,
        }
    }

    /// Asks who serves a topic, unless somebody has since what the caller found wrong (`seen`).
    pub(super) async fn relearn(&self, topic: &str, seen: u64) -> Result<Known, ClientError> {
        let _one_at_a_time = self.shared.fetching.lock().await;
        if let Some(known) = self.remembered(topic)
            && known.version > seen
        {
            return Ok(known);
        }
        let path = format!("/v1/topics/{}", encoded(topic));
        let detail: TopicDetail = match self.get(&path).await {
            Ok(answer) => answer.parse()?,
            // The addresses that were given are all gone: ask those that were learned.
            Err(error @ ClientError::Unreachable { .. }) => {
                self.ask_learned(topic, &Request::new(Method::GET, &path)).await.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let known = Known { detail: Arc::new(detail), version: seen + 1, suspect: false };
        self.remember(topic, known.clone());
        Ok(known)
    }

    /// Notes who turned out to serve a partition.
    pub(super) fn learn_owner(&self, topic: &str, partition: u32, endpoint: &Endpoint) {
        let Some(known) = self.remembered(topic) else { return };
        let mut detail = TopicDetail::clone(&known.detail);
        let Some(route) = detail.routes.iter_mut().find(|route| route.partition == partition)
        else {
            return;
        };
        if route.addr == endpoint.to_string() {
            return;
        }
        *route = Route { addr: endpoint.to_string(), alive: true, moving: false, ..route.clone() };
        self.remember(
            topic,
            Known { detail: Arc::new(detail), version: known.version + 1, suspect: known.suspect },
        );
    }

    /// Notes that a node that serves a topic failed.
    pub(super) fn note_failure(&self, topic: &str, endpoint: &Endpoint) {
        let mut topics = self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = topics.get_mut(topic) {
            known.suspect = true;
        }
        drop(topics);
        self.avoid(endpoint);
    }

    /// Asks a node for a while only if no other one can do it.
    pub(super) fn avoid(&self, endpoint: &Endpoint) {
        let now = Instant::now();
        let mut avoided = self.shared.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.retain(|(known, until)| *until > now && known != endpoint);
        if avoided.len() < Self::AVOIDED_MAX {
            avoided.push((endpoint.clone(), now + self.shared.options.avoid_for));
        }
    }

    /// Returns the nodes that failed a moment ago.
    pub(super) fn avoided(&self) -> Vec<Endpoint> {
        let now = Instant::now();
        let avoided = self.shared.avoided.lock().unwrap_or_else(PoisonError::into_inner);
        avoided.iter().filter(|(_, until)| *until > now).map(|(known, _)| known.clone()).collect()
    }

    /// Asks a node about one of its partitions.
    pub(super) async fn ask_owner(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        timeout: Duration,
    ) -> Result<Bytes, Fault> {
        let error = match self.shared.transport.call(endpoint, request, timeout).await {
            Ok(answer) => match answer.into_result() {
                Ok(answer) => return Ok(answer.body),
                Err(error) => error,
            },
            Err(CallError::NotSent(cause)) => {
                let tried = vec![Tried { endpoint: endpoint.clone(), cause }];
                return Err(Fault::NodeDown(ClientError::Unreachable { tried }));
            }
            Err(CallError::Unanswered(cause)) => {
                let endpoint = endpoint.clone();
                return Err(Fault::Unknown(ClientError::OutcomeUnknown { endpoint, cause }));
            }
        };
        Err(match &error {
            ClientError::Refused { body, .. } => match body.code.as_str() {
                "not_owner" => Fault::NotOwner(body.owner.as_ref().and_then(|o| o.parse().ok())),
                "outcome_unknown" | "timeout" => Fault::Unknown(error),
                "unknown_topic" | "unknown_partition" => Fault::Missing(error),
                "busy" | "disk_full" | "not_ready" | "removed" | "stopped" => {
                    Fault::NodeDown(error)
                }
                _ if body.retryable => Fault::Later(error),
                _ => Fault::Final(error),
            },
            // Something else has the address by now.
            ClientError::BadAnswer { .. }
            | ClientError::Unreachable { .. }
            | ClientError::OutcomeUnknown { .. }
            | ClientError::OwnerUnreachable { .. }
            | ClientError::NoOwner { .. }
            | ClientError::OwnerNotFound { .. }
            | ClientError::NoSuchPartition { .. } => Fault::NodeDown(error),
        })
    }

    async fn ask_learned(&self, topic: &str, request: &Request) -> Option<TopicDetail> {
        let known = self.remembered(topic)?;
        let mut addrs: Vec<&str> =
            known.detail.routes.iter().map(|route| route.addr.as_str()).collect();
        addrs.sort_unstable();
        addrs.dedup();
        for endpoint in addrs.into_iter().filter_map(|addr| addr.parse().ok()) {
            let answer = self.call(&endpoint, request).await.map(Answer::into_result);
            if let Ok(Ok(answer)) = answer
                && let Ok(detail) = answer.parse()
            {
                return Some(detail);
            }
        }
        None
    }

    fn remembered(&self, topic: &str) -> Option<Known> {
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    fn remember(&self, topic: &str, known: Known) {
        let mut topics = self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.len() >= Self::TOPICS_MAX && !topics.contains_key(topic) {
            topics.pop_first();
        }
        topics.insert(topic.into(), known);
    }
}
