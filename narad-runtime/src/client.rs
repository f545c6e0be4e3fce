//! A client of the API: for programs that publish to and read from a cluster, and for the command
//! line.
//!
//! It is given some addresses of the cluster and learns the others. Everything that may pass is
//! waited out with jittered pauses: a partition that changes hands, a node that restarts, a cluster
//! without a leader. What it cannot know it says: an answer that was lost is either asked for again,
//! where that does no harm, or returned as [`ClientError::OutcomeUnknown`].
//!
//! [`Producer`] repeats records whose outcome is unknown and [`Consumer`] reads what is not
//! acknowledged again, so that together they deliver at least once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::Method;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::http::Secret;
use crate::http::json::OffsetsBody;
use crate::service::{
    AcceptedView, MemberView, MoveView, NewLoss, NewTopic, OffsetsView, Read, ReceiptView,
    SalvageView, Skip, Skipped, TopicDetail, TopicView,
};
use crate::tls::ClientTls;

mod accepted;
mod backoff;
mod connector;
mod consumer;
mod endpoint;
mod error;
mod operate;
mod owner;
mod producer;
mod reader;
mod routes;
mod settle;
mod told;
mod transport;
mod waits;

pub use consumer::{Consumer, ConsumerOptions, Delivery};
pub use endpoint::{Endpoint, EndpointError};
pub use error::{ClientError, Tried};
use owner::{Owner, Trouble};
pub use producer::{Ack, Delivered, Placement, Producer, ProducerOptions, SendError, Totals};
pub use reader::{Reader, ReaderOptions, StartAt, Stretch};
use routes::Known;
use transport::{Answer, CallError, Request, Transport};
pub use waits::Waiting;

/// How patient a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long connecting may take. Default 2 s.
    pub connect_timeout: Duration,
    /// How long one request may take, on top of what it waits. Default 10 s.
    pub request_timeout: Duration,
    /// First pause before everything is tried again; doubled up to the next. Default 20 ms.
    pub retry_min: Duration,
    /// Longest such pause. Default 2 s.
    pub retry_max: Duration,
    /// How long a node that failed is asked only if no other one can do it. Default 1 s.
    pub avoid_for: Duration,
    /// The bearer token that nodes are shown. Default none.
    pub token: Option<Secret>,
    /// The authority that signed the nodes' certificates, and the client's own, if it has one. With it
    /// every node is asked over https. Default none.
    pub tls: Option<ClientTls>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            retry_min: Duration::from_millis(20),
            retry_max: Duration::from_secs(2),
            avoid_for: Duration::from_secs(1),
            token: None,
            tls: None,
        }
    }
}

/// A client of one cluster. Clones share connections and what has been learned.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    transport: Transport,
    seeds: Vec<Endpoint>,
    options: ClientOptions,
    /// The seed that answered last.
    preferred: AtomicUsize,
    /// What is known of topics, by name; at most [`Client::TOPICS_MAX`].
    topics: Mutex<BTreeMap<String, Known>>,
    /// Nodes that failed, and until when they are avoided; at most [`Client::AVOIDED_MAX`].
    avoided: Mutex<Vec<(Endpoint, Instant)>>,
    /// Held while routes are fetched, so that many who miss them ask once.
    fetching: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("seeds", &self.shared.seeds).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Members {
    members: Vec<MemberView>,
}

#[derive(Deserialize)]
struct Moves {
    moves: Vec<MoveView>,
}

#[derive(Deserialize)]
struct Topics {
    topics: Vec<TopicView>,
}

/// The body of `POST /v1/cluster/moves`.
#[derive(Serialize)]
struct MoveRequest<'a> {
    topic: &'a str,
    partition: u32,
    to: &'a str,
}

impl Client {
    /// Most topics whose routes are remembered.
    const TOPICS_MAX: usize = 1024;
    /// Most nodes that are avoided at once.
    const AVOIDED_MAX: usize = 64;

    /// Makes a client that knows these addresses of the cluster.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(seeds: Vec<Endpoint>, options: ClientOptions) -> Self {
        assert!(!seeds.is_empty(), "a client needs the address of at least one node");
        Self {
            shared: Arc::new(Shared {
                transport: Transport::new(
                    options.connect_timeout,
                    options.tls.as_ref(),
                    seeds.iter().any(Endpoint::is_secret),
                    options.token.as_ref(),
                ),
                seeds,
                options,
                preferred: AtomicUsize::new(0),
                topics: Mutex::default(),
                avoided: Mutex::default(),
                fetching: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Lists the members (R91).
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn members(&self, read: Read) -> Result<Vec<MemberView>, ClientError> {
        let answer = self.get(&read_path("/v1/cluster/members", read)).await?;
        answer.parse().map(|Members { members }| members)
    }

    /// Lists the partitions that are mid-move (R92).
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn moves(&self, read: Read) -> Result<Vec<MoveView>, ClientError> {
        let answer = self.get(&read_path("/v1/cluster/moves", read)).await?;
        answer.parse().map(|Moves { moves }| moves)
    }

    /// Tells where the consumers of a topic's partitions stand; with [`Read::Stale`] only what the
    /// node that is asked knows itself.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn offsets(&self, topic: &str, read: Read) -> Result<Vec<OffsetsView>, ClientError> {
        let path = format!("/v1/topics/{}/offsets", encoded(topic));
        let answer = self.get(&read_path(&path, read)).await?;
        answer.parse().map(|OffsetsBody { partitions, .. }| partitions)
    }

    /// Gives up records of a partition that cannot be read: all, or as many as may be acknowledged
    /// ahead of others.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]; a 400 says which of them can be read. Nothing was given up then.
    pub async fn skip(
        &self,
        topic: &str,
        partition: u32,
        skip: &Skip,
    ) -> Result<Skipped, ClientError> {
        let path = format!("/v1/topics/{}/skip?partition={partition}", encoded(topic));
        let request = Request::new(Method::POST, &path).json(json(skip));
        let timeout = self.shared.options.request_timeout;
        let until = Instant::now() + timeout;
        let mut owner = Owner::new(self, topic, partition);
        loop {
            match owner.ask(&request, timeout).await {
                Ok((endpoint, body)) => {
                    let bad = |cause: serde_json::Error| ClientError::BadAnswer {
                        endpoint,
                        cause: cause.to_string(),
                    };
                    return serde_json::from_slice(&body).map_err(bad);
                }
                // What others have to do first is for the caller to decide.
                Err(Trouble { error, passes })
                    if !passes
                        || error.code() == Some("too_far_ahead")
                        || Instant::now() >= until =>
                {
                    return Err(error);
                }
                Err(_) => owner.pause().await,
            }
        }
    }

    /// Begins a member's decommission, or cancels it (R82, R94).
    ///
    /// # Errors
    ///
    /// See [`ClientError`]; a 409 has every reason in its body.
    pub async fn decommission(&self, member: &str, on: bool) -> Result<(), ClientError> {
        let path = format!("/v1/cluster/members/{}/decommission", encoded(member));
        let method = if on { Method::POST } else { Method::DELETE };
        self.ask(&Request::new(method, &path), Repeat::Harmless).await.map(drop)
    }

    /// Moves a partition by hand.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn move_partition(
        &self,
        topic: &str,
        partition: u32,
        to: &str,
    ) -> Result<(), ClientError> {
        let body = json(&MoveRequest { topic, partition, to });
        let request = Request::new(Method::POST, "/v1/cluster/moves").json(body);
        self.ask(&request, Repeat::Harmless).await.map(drop)
    }

    /// Gives up what only the dead owner of a partition holds.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn declare_lost(&self, loss: &NewLoss) -> Result<ReceiptView, ClientError> {
        let request = Request::new(Method::POST, "/v1/cluster/losses").json(json(loss));
        self.ask(&request, Repeat::Misleading).await?.parse()
    }

    /// Lists what promotions and operators have left behind.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn salvage(&self, read: Read) -> Result<SalvageView, ClientError> {
        self.get(&read_path("/v1/cluster/salvage", read)).await?.parse()
    }

    /// Accepts once more what lies in quarantine on a member.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn restore(&self, member: &str, id: &str) -> Result<AcceptedView, ClientError> {
        let path = format!("/v1/cluster/salvage/{}/{}/restore", encoded(member), encoded(id));
        self.ask(&Request::new(Method::POST, &path), Repeat::Harmless).await?.parse()
    }

    /// Deletes what lies in quarantine on a member.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn drop_quarantined(&self, member: &str, id: &str) -> Result<(), ClientError> {
        let path = format!("/v1/cluster/salvage/{}/{}", encoded(member), encoded(id));
        let request = Request::new(Method::DELETE, &path);
        self.ask(&request, Repeat::Misleading).await.map(drop)
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn create_topic(&self, topic: &NewTopic) -> Result<TopicView, ClientError> {
        let request = Request::new(Method::POST, "/v1/topics").json(json(topic));
        self.ask(&request, Repeat::Misleading).await?.parse()
    }

    /// Deletes a topic with all its records.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn delete_topic(&self, topic: &str) -> Result<(), ClientError> {
        let path = format!("/v1/topics/{}", encoded(topic));
        let request = Request::new(Method::DELETE, &path);
        self.ask(&request, Repeat::Misleading).await?;
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
        Ok(())
    }

    /// Lists the topics.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn topics(&self, read: Read) -> Result<Vec<TopicView>, ClientError> {
        let answer = self.get(&read_path("/v1/topics", read)).await?;
        answer.parse().map(|Topics { topics }| topics)
    }

    /// Shows a topic and who serves its partitions, as some node knows it now.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn topic(&self, topic: &str) -> Result<TopicDetail, ClientError> {
        self.get(&format!("/v1/topics/{}", encoded(topic))).await?.parse()
    }

    /// Returns the body of a successful `GET`, as it came.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn get_raw(&self, path: &str) -> Result<Bytes, ClientError> {
        self.get(path).await.map(|answer| answer.body)
    }

    /// Makes a producer for one topic.
    #[must_use]
    pub fn producer(&self, topic: &str, options: ProducerOptions) -> Producer {
        Producer::new(self.clone(), topic, options)
    }

    /// Makes a reader of one topic, which takes nothing from anybody.
    ///
    /// # Errors
    ///
    /// If the topic or the partition does not exist or no node can be reached.
    pub async fn reader(&self, topic: &str, options: ReaderOptions) -> Result<Reader, ClientError> {
        Reader::new(self.clone(), topic, options).await
    }

    /// Makes a consumer of all partitions of one topic.
    ///
    /// # Errors
    ///
    /// If the topic does not exist or no node can be reached.
    pub async fn consumer(
        &self,
        topic: &str,
        options: ConsumerOptions,
    ) -> Result<Consumer, ClientError> {
        Consumer::new(self.clone(), topic, options).await
    }

    async fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.ask(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// Asks one address after the other, beginning with the one that answered last, until one gives
    /// an answer that another one would not better.
    async fn ask(&self, request: &Request, repeat: Repeat) -> Result<Answer, ClientError> {
        let seeds = &self.shared.seeds;
        let first = self.shared.preferred.load(Ordering::Relaxed);
        let mut tried = Vec::new();
        let mut answered = None;
        for place in (0..seeds.len()).map(|step| (first + step) % seeds.len()) {
            let endpoint = &seeds[place];
            let error = match self.call(endpoint, request).await {
                Ok(answer) => {
                    self.shared.preferred.store(place, Ordering::Relaxed);
                    match answer.into_result() {
                        Ok(answer) => return Ok(answer),
                        Err(error) => error,
                    }
                }
                Err(CallError::NotSent(cause)) => {
                    tried.push(Tried { endpoint: endpoint.clone(), cause });
                    continue;
                }
                Err(CallError::Unanswered(cause)) => {
                    ClientError::OutcomeUnknown { endpoint: endpoint.clone(), cause }
                }
            };
            let unknown = matches!(error, ClientError::OutcomeUnknown { .. })
                || error.code() == Some("outcome_unknown");
            if !error.is_retryable() || (unknown && repeat == Repeat::Misleading) {
                return Err(error);
            }
            answered = Some(error);
        }
        Err(answered.unwrap_or(ClientError::Unreachable { tried }))
    }

    async fn call(&self, endpoint: &Endpoint, request: &Request) -> Result<Answer, CallError> {
        self.shared.transport.call(endpoint, request, self.shared.options.request_timeout).await
    }
}

/// What asking again means after an answer was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// The second answer is as good as the first.
    Harmless,
    /// The second answer could be a refusal because the first request was done.
    Misleading,
}

impl Answer {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body).map_err(|cause| ClientError::BadAnswer {
            endpoint: self.endpoint.clone(),
            cause: cause.to_string(),
        })
    }
}

fn read_path(path: &str, read: Read) -> String {
    match read {
        Read::Barrier => path.into(),
        Read::Stale => format!("{path}?stale=true"),
    }
}

fn json(body: &impl Serialize) -> Bytes {
    serde_json::to_vec(body).expect("these bodies have text keys only").into()
}

/// Makes a text fit for one step of a path or one value of a query.
fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
