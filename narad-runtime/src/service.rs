//! What the HTTP API asks of a node: the seam between [`crate::http`] and whatever runs behind it.
//!
//! The views are the API's JSON as it stands, and what [`crate::client`] reads back. Fields are only
//! ever added; whoever reads them ignores what it does not know.

use std::time::Duration;

use async_trait::async_trait;
use narad_core::ids::{Epoch, Incarnation, MoveId, Name, NodeId, TopicId};
use serde::{Deserialize, Serialize};

pub use crate::log::Record;

mod audit;
mod consumer;
mod error;
mod key;
mod operate;
mod planning;
mod policy;
mod records;
mod salvage;
mod verdict;

pub use audit::{ActionView, AuditView};
pub use consumer::{
    Handed, HandedRecord, NoTicket, OffsetsOf, OffsetsView, Reserve, Settle, Settled, Skip,
    Skipped, Ticket,
};
pub use error::ServiceError;
#[cfg(feature = "cli")]
pub(crate) use key::hash_of;
pub use key::partition_of;
pub use operate::{
    Abort, ClusterView, DrainView, HeldView, HistoryView, MoveEnd, NodeView, Operate, PastMove,
    PastPhase, PastPhaseName, QuorumView, StopReason, StopView,
};
pub use planning::{
    BlockerView, ElsewhereView, ExplainView, PlanView, PlannedView, PreflightView, ReceiverView,
    ShareView, StaysView,
};
pub use policy::{PolicyChange, PolicyView};
pub use records::{Accepted, AckSet, Fetched, Position, Produced};
pub use salvage::{AcceptedView, LossCause, NewLoss, QuarantinedView, ReceiptView, SalvageView};
pub use verdict::{Cause, Verdict};

/// A node, seen by its operators and clients.
///
/// Implementations answer without waiting for long: a fetch waits at most as long as it was told to,
/// everything else a few seconds. Whatever changes shared state and has no known outcome by then is
/// [`ServiceError::OutcomeUnknown`]. A caller that goes away drops the future: what it has begun by
/// then may be done or not, but never by half.
#[async_trait]
pub trait Service: Operate {
    /// Tells whether the node is registered and so takes part in the cluster.
    async fn readiness(&self) -> Readiness;

    /// Returns what a Prometheus server is told, in the text format of `OpenMetrics`; nothing if not
    /// implemented. Behind no barrier, so that it is answered whatever else is.
    ///
    /// # Errors
    ///
    /// If the node has stopped.
    async fn metrics(&self) -> Result<String, ServiceError> {
        Ok("# EOF\n".to_owned())
    }

    /// Lists the members of the cluster, retired ones included (R91).
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn members(&self, read: Read) -> Result<Vec<MemberView>, ServiceError>;

    /// Lists the partitions that are mid-move (R92).
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn moves(&self, read: Read) -> Result<Vec<MoveView>, ServiceError>;

    /// Begins a member's decommission, or cancels it (R82, R94). `member` is its name.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember); [`Blocked`](ServiceError::Blocked) with every
    /// reason why it could never end, before anything has changed;
    /// [`Rejected`](ServiceError::Rejected); [`NoLeader`](ServiceError::NoLeader);
    /// [`OutcomeUnknown`](ServiceError::OutcomeUnknown), after which the same call may be made again.
    async fn decommission(&self, member: &str, on: bool) -> Result<(), ServiceError>;

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// [`Rejected`](ServiceError::Rejected) if the name is taken,
    /// [`UnknownTopic`](ServiceError::UnknownTopic) if there is no such parent, and those of
    /// [`Service::decommission`] that concern the leader.
    async fn create_topic(&self, topic: NewTopic) -> Result<TopicView, ServiceError>;

    /// Deletes a topic with all its records.
    ///
    /// # Errors
    ///
    /// [`UnknownTopic`](ServiceError::UnknownTopic), and those that concern the leader.
    async fn delete_topic(&self, topic: &str) -> Result<(), ServiceError>;

    /// Lists the topics.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn topics(&self, read: Read) -> Result<Vec<TopicView>, ServiceError>;

    /// Tells who serves each partition of a topic, as far as this node has learned; in order of the
    /// partitions.
    ///
    /// # Errors
    ///
    /// [`ServiceError::UnknownTopic`].
    async fn routes(&self, topic: &str) -> Result<Vec<Route>, ServiceError>;

    /// Moves a partition to a member by hand, and pins it there. `to` is the member's name.
    ///
    /// # Errors
    ///
    /// Unknown topic, partition or member; [`Rejected`](ServiceError::Rejected); those that concern
    /// the leader.
    async fn move_partition(
        &self,
        topic: &str,
        partition: u32,
        to: &str,
    ) -> Result<(), ServiceError>;

    /// Gives up what only the dead owner of a partition holds, and has the partition served again.
    ///
    /// # Errors
    ///
    /// Unknown topic or partition; [`Rejected`](ServiceError::Rejected) if its owner is not dead, or
    /// nobody can take it; those that concern the leader.
    async fn declare_lost(&self, loss: NewLoss) -> Result<ReceiptView, ServiceError>;

    /// Lists reigns that began without all of the one before, and what lies in quarantine. A stale
    /// answer shows the quarantine of this node alone.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn salvage(&self, read: Read) -> Result<SalvageView, ServiceError>;

    /// Accepts once more what lies in quarantine on a member, from the first record on that consumers
    /// had not acknowledged there; it stays where it is.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember),
    /// [`NotInQuarantine`](ServiceError::NotInQuarantine), [`Busy`](ServiceError::Busy) if there is no
    /// room now, some of it may have been accepted then; [`Rejected`](ServiceError::Rejected) if its
    /// topic is deleted.
    async fn restore(&self, member: &str, id: &str) -> Result<AcceptedView, ServiceError>;

    /// Deletes what lies in quarantine on a member, before its time.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember),
    /// [`NotInQuarantine`](ServiceError::NotInQuarantine).
    async fn drop_quarantined(&self, member: &str, id: &str) -> Result<(), ServiceError>;

    /// Accepts records of a topic into this node's own log, to be brought to their owners: to
    /// `partition`, or by their keys, or wherever there is room. All of them are durable when it
    /// returns, or none was acknowledged. It looks at the state of no partition, so that it goes on
    /// while they move, while there is no leader and while owners are dead (R43, R46).
    ///
    /// # Errors
    ///
    /// [`UnknownTopic`](ServiceError::UnknownTopic) and
    /// [`UnknownPartition`](ServiceError::UnknownPartition); [`NoLeader`](ServiceError::NoLeader) if
    /// this node has not heard of the topic and can ask nobody; [`Full`](ServiceError::Full),
    /// [`Draining`](ServiceError::Draining), [`Busy`](ServiceError::Busy),
    /// [`DiskFull`](ServiceError::DiskFull) and [`NotAccepting`](ServiceError::NotAccepting), after
    /// which another node may take them.
    async fn accept(
        &self,
        topic: &str,
        partition: Option<u32>,
        records: Vec<Record>,
    ) -> Result<Accepted, ServiceError>;

    /// Appends records to a partition that this node owns; they are durable when it returns.
    ///
    /// # Errors
    ///
    /// [`NotOwner`](ServiceError::NotOwner); [`Frozen`](ServiceError::Frozen),
    /// [`NoLease`](ServiceError::NoLease) and [`NotServing`](ServiceError::NotServing) while it may
    /// not commit; [`DiskFull`](ServiceError::DiskFull). Nothing of the batch is acknowledged then.
    async fn produce(
        &self,
        topic: &str,
        partition: u32,
        records: Vec<Record>,
    ) -> Result<Produced, ServiceError>;

    /// Reads visible records of a partition that this node owns, also while it is frozen (R48).
    ///
    /// Returns at least one record if there is one, and else as many as fit `bytes_max`. Waits up to
    /// `wait` for a first one.
    ///
    /// # Errors
    ///
    /// [`NotOwner`](ServiceError::NotOwner), [`NotServing`](ServiceError::NotServing).
    async fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: Position,
        bytes_max: u64,
        wait: Duration,
    ) -> Result<Fetched, ServiceError>;

    /// Acknowledges records that were fetched in `epoch`.
    ///
    /// # Errors
    ///
    /// [`NotOwner`](ServiceError::NotOwner), or [`StaleEpoch`](ServiceError::StaleEpoch) if the
    /// offsets may mean other records by now; these are delivered again.
    async fn ack(
        &self,
        topic: &str,
        partition: u32,
        epoch: Epoch,
        acks: AckSet,
    ) -> Result<(), ServiceError>;

    /// Hands out records that nobody has and nobody has acknowledged, also while their partition is
    /// frozen (R48). Waits up to [`Reserve::wait`] for a first one, and ends with an error as soon as
    /// the partition is another node's.
    ///
    /// # Errors
    ///
    /// [`NotOwner`](ServiceError::NotOwner), [`NotServing`](ServiceError::NotServing),
    /// [`NoLease`](ServiceError::NoLease), and [`TooManyInFlight`](ServiceError::TooManyInFlight) or
    /// [`TooFarAhead`](ServiceError::TooFarAhead) if there are records that only these hold back.
    async fn reserve(&self, topic: &str, wanted: Reserve) -> Result<Handed, ServiceError>;

    /// Gives up records that cannot be read: acknowledges them, all or as many as may be ahead.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ServiceError::Invalid) if one of them can be read,
    /// [`StaleEpoch`](ServiceError::StaleEpoch), [`TooFarAhead`](ServiceError::TooFarAhead) if nothing
    /// could be given up, and those of a reserve; nothing was changed then.
    async fn skip(&self, topic: &str, partition: u32, skip: Skip) -> Result<Skipped, ServiceError>;

    /// Acknowledges, hands back or keeps records that were handed out; the answers are in the order
    /// of the tickets. What happens to one does not depend on another.
    ///
    /// # Errors
    ///
    /// [`UnknownTopic`](ServiceError::UnknownTopic); nothing was done then.
    async fn settle(
        &self,
        topic: &str,
        tickets: Vec<Ticket>,
        how: Settle,
    ) -> Result<Vec<Settled>, ServiceError>;

    /// Tells where the consumers of each partition stand, in order of the partitions. With
    /// [`Read::Stale`] only what this node knows itself; otherwise owners are asked, and for those
    /// that do not answer soon it is told so.
    ///
    /// # Errors
    ///
    /// [`UnknownTopic`](ServiceError::UnknownTopic).
    async fn offsets(&self, topic: &str, read: Read) -> Result<Vec<OffsetsView>, ServiceError>;
}

/// How current an answer about the cluster has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Read {
    /// Everything that was decided before the question is in the answer.
    #[default]
    Barrier,
    /// What this node has learned so far; needs no leader.
    Stale,
}

/// Whether a node takes part in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether its present life is registered.
    pub ready: bool,
    /// What it waits for, if it is not.
    pub waiting: Option<String>,
    /// Whether it was taken out of the cluster, so that waiting is in vain.
    pub removed: bool,
}

/// One member, as `GET /v1/cluster/members` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Its name.
    pub id: Name,
    /// Its number; never reused.
    pub node: NodeId,
    /// Where it serves HTTP, as `host:port`.
    pub addr: String,
    /// Where other nodes reach it, as `host:port`.
    #[serde(default)]
    pub peer_addr: String,
    /// Whether it lives.
    pub status: MemberStatus,
    /// Whether it is being decommissioned.
    pub draining: bool,
    /// Whether it has said that nothing is left on it.
    #[serde(default)]
    pub drained_out: bool,
    /// Its part in the replicated log.
    #[serde(default)]
    pub role: Role,
    /// Whether it leads.
    #[serde(default)]
    pub leader: bool,
    /// Its present life.
    #[serde(default)]
    pub incarnation: Incarnation,
    /// Partitions that it owns, those on their way out included.
    pub owned_partitions: u64,
    /// Partitions on their way in.
    #[serde(default)]
    pub inbound_moves: u64,
    /// Partitions on their way out.
    pub outbound_moves: u64,
    /// The bytes of the logs that it owns; told by the whole cluster's status only, and by members
    /// that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The bytes that its disk still takes; told as [`bytes`](Self::bytes) are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// Whether a member lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberStatus {
    /// It has registered since it was last declared dead.
    Alive,
    /// It was declared dead.
    Dead,
    /// It was taken out for good.
    Retired,
    /// Something that a newer node says.
    #[serde(other)]
    Unknown,
}

/// A member's part in the replicated log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It votes.
    Voter,
    /// It receives the log.
    Learner,
    /// It does neither, or this is not known.
    #[default]
    #[serde(other)]
    None,
}

/// One partition mid-move, as `GET /v1/cluster/moves` shows it.
///
/// What is optional is known to the destination only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// The owner's name.
    pub from: Name,
    /// The destination's name.
    pub to: Name,
    /// Which plan for this partition it is.
    #[serde(default)]
    pub move_id: MoveId,
    /// Where the destination is in the move, such as `catch-up`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Bytes that are on the destination's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_staged: Option<u64>,
    /// Bytes that the source has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// How fast it copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// How long the freeze would last if it began now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_freeze_ms: Option<u64>,
    /// What it waits for, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Whether the owner is dead.
    #[serde(default)]
    pub source_dead: bool,
    /// Tries of this destination since it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// How it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

impl MoveView {
    /// Returns the partition as people write it, such as `orders/3`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.topic, self.partition)
    }
}

/// A topic to create, as `POST /v1/topics` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTopic {
    /// Its name.
    pub name: Name,
    /// How many partitions; at least 1.
    pub partitions: u32,
    /// The topic that feeds it, if any (R81).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
}

/// One topic, as `GET /v1/topics` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicView {
    /// Its name.
    pub name: Name,
    /// Its number; a name that is created again is another topic.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: u32,
    /// The topic that feeds it, if any.
    #[serde(default)]
    pub parent: Option<Name>,
}

/// Who serves one partition, as one node has learned it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The partition.
    pub partition: u32,
    /// Its owner's name.
    pub owner: Name,
    /// Where the owner serves HTTP, as `host:port`.
    pub addr: String,
    /// The owner's reign.
    pub epoch: Epoch,
    /// Whether the node that was asked is the owner, and serves it.
    pub serving_here: bool,
    /// Whether the owner is taken to be alive.
    pub alive: bool,
    /// Whether it is to move, so that it may soon be frozen.
    pub moving: bool,
}

/// One topic with its routes, as `GET /v1/topics/{topic}` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicDetail {
    /// The topic.
    #[serde(flatten)]
    pub topic: TopicView,
    /// Who serves each partition, in order.
    pub routes: Vec<Route>,
}
