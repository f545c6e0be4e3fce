//! What operators ask of a cluster, and what they are shown.

use async_trait::async_trait;
use narad_core::ids::{ByteCount, MoveId, Name};
use serde::{Deserialize, Serialize};

use super::planning::{ExplainView, PlanView, PreflightView};
use super::policy::{PolicyChange, PolicyView};
use super::verdict::{Cause, Verdict};
use super::{MemberStatus, MemberView, MoveView, Read, ServiceError};

/// A cluster, seen by its operators.
///
/// What only shows something changes nothing. Everything is read behind a barrier unless it is said
/// otherwise, and other members are asked for what only they know; of those that do not answer within
/// a second it is said so.
#[async_trait]
pub trait Operate: Send + Sync + 'static {
    /// Shows the whole cluster on one page, with a verdict and what to do next.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn status(&self, read: Read) -> Result<ClusterView, ServiceError>;

    /// Shows what this node alone knows: its disk, its backlog, how fast it copies. Needs no leader.
    ///
    /// # Errors
    ///
    /// If the node has stopped, or its disk does not answer.
    async fn node(&self) -> Result<NodeView, ServiceError>;

    /// Shows how a member's decommission is coming on.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember), [`NoLeader`](ServiceError::NoLeader).
    async fn drain(&self, member: &str) -> Result<DrainView, ServiceError>;

    /// Shows what would happen if these members left together, and what stands in the way.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember), [`NoLeader`](ServiceError::NoLeader),
    /// [`Invalid`](ServiceError::Invalid) if none are named.
    async fn preflight(&self, members: &[String]) -> Result<PreflightView, ServiceError>;

    /// Begins the decommission of these members, after one check of all of them together (R82, field
    /// faults 35, 36 and 42).
    ///
    /// # Errors
    ///
    /// Those of [`Operate::preflight`]; [`Blocked`](ServiceError::Blocked) with every reason, before
    /// anything has changed; [`OutcomeUnknown`](ServiceError::OutcomeUnknown), after which the same
    /// call may be made again.
    async fn decommission_all(&self, members: &[String]) -> Result<PreflightView, ServiceError>;

    /// Takes a dead member out for good, with whatever its disk still holds. It is decommissioned
    /// first, if it is not leaving already. `receipt` is the operator's word, for the log.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember); [`Blocked`](ServiceError::Blocked) while it
    /// owns partitions; [`Rejected`](ServiceError::Rejected) if it is alive, or is the destination of
    /// a move; those that concern the leader.
    async fn forget(&self, member: &str, receipt: &str) -> Result<(), ServiceError>;

    /// Gives up the move of a partition; it stays where it is.
    ///
    /// # Errors
    ///
    /// Unknown topic or partition; [`Rejected`](ServiceError::Rejected) if it does not move, or if
    /// its owner is dead and `how` does not insist; those that concern the leader.
    async fn abort(&self, topic: &str, partition: u32, how: Abort) -> Result<(), ServiceError>;

    /// Keeps the planner from a partition, or lets it have it again.
    ///
    /// # Errors
    ///
    /// Unknown topic or partition; those that concern the leader.
    async fn pin(&self, topic: &str, partition: u32, on: bool) -> Result<(), ServiceError>;

    /// Shows what the whole cluster agrees on.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn policy(&self, read: Read) -> Result<PolicyView, ServiceError>;

    /// Changes what the whole cluster agrees on, and returns it as it is then.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ServiceError::Invalid) with the key, the value and what is allowed; those that
    /// concern the leader.
    async fn change_policy(&self, change: PolicyChange) -> Result<PolicyView, ServiceError>;

    /// Lets one member copy so many bytes per second, 0 for any number, until it restarts; with
    /// `None` it follows the policy again.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember),
    /// [`OutcomeUnknown`](ServiceError::OutcomeUnknown) if it did not answer.
    async fn throttle(&self, member: &str, rate: Option<u64>) -> Result<(), ServiceError>;

    /// Shows what the planner would do now, and why. With [`Read::Stale`] this node plans by what it
    /// knows; otherwise the leader does, who knows which moves are stuck.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn plan(&self, read: Read) -> Result<PlanView, ServiceError>;

    /// Tells why a partition is where it is, why it is nowhere else, and what would change that.
    ///
    /// # Errors
    ///
    /// Unknown topic or partition, [`NoLeader`](ServiceError::NoLeader).
    async fn explain(&self, topic: &str, partition: u32) -> Result<ExplainView, ServiceError>;

    /// Returns what the mover of a partition was told in its last move, one JSON object a line, for
    /// `narad-sim replay`; with [`Read::Stale`] only if this node was its destination.
    ///
    /// # Errors
    ///
    /// Unknown topic or partition; [`Rejected`](ServiceError::Rejected) if nobody has kept it.
    async fn journal(
        &self,
        topic: &str,
        partition: u32,
        read: Read,
    ) -> Result<String, ServiceError> {
        let _ = read;
        Err(ServiceError::Rejected(format!("nobody keeps a journal of {topic}/{partition}")))
    }

    /// Lists the last moves, the newest first. With [`Read::Stale`] only those to this node.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoLeader`] if a barrier was asked for and none could be had.
    async fn history(&self, read: Read) -> Result<HistoryView, ServiceError>;

    /// Tells whether a member's process may be stopped now; with `for_good` whether its disk may go
    /// with it.
    ///
    /// # Errors
    ///
    /// [`UnknownMember`](ServiceError::UnknownMember), [`NoLeader`](ServiceError::NoLeader): then it
    /// must not be.
    async fn safe_to_stop(&self, member: &str, for_good: bool) -> Result<StopView, ServiceError>;
}

/// The whole cluster, as `GET /v1/cluster/status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Who answers.
    pub member: Name,
    /// Who leads, if anybody is known to.
    #[serde(default)]
    pub leader: Option<Name>,
    /// Who votes.
    pub quorum: QuorumView,
    /// Whether moves are paused.
    pub paused: bool,
    /// Partitions of all topics.
    pub partitions: u64,
    /// Of these, those without an owner yet.
    pub unassigned: u64,
    /// Of these, those whose owner is dead: they are not served.
    pub unserved: u64,
    /// Moves that would balance the cluster and have not begun.
    pub planned: u64,
    /// The members, as `GET /v1/cluster/members` lists them.
    pub members: Vec<MemberView>,
    /// The moves, as `GET /v1/cluster/moves` lists them.
    pub moves: Vec<MoveView>,
    /// How the members that leave are coming on.
    pub drains: Vec<DrainView>,
    /// How all of it is doing.
    pub verdict: Verdict,
    /// What an operator should do next, the most urgent first; empty if nothing.
    #[serde(default)]
    pub next: Vec<String>,
}

/// Who votes in the replicated log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumView {
    /// The voters.
    pub voters: Vec<Name>,
    /// How many of them are alive.
    pub alive: u32,
    /// How many it takes to decide anything.
    pub needed: u32,
}

/// What one node alone knows, as `GET /v1/node` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub member: Name,
    /// Whether it leads, as far as it knows.
    pub leads: bool,
    /// Bytes that its disk still takes.
    pub free_bytes: ByteCount,
    /// Records that it has accepted and that have not reached their owners.
    pub backlog_records: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Partitions of which its disk holds records that a decommission must wait for.
    pub left_behind: u64,
    /// Bytes that it copies per second at most; 0 is any number.
    pub copy_rate_bytes_per_second: u64,
    /// Whether that was set for this node alone, until it restarts.
    pub throttled: bool,
    /// The partitions that it owns, with the bytes of their logs.
    pub partitions: Vec<HeldView>,
}

/// One partition that a node owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// The bytes of its log.
    pub bytes: ByteCount,
}

/// How a member's decommission is coming on, as `GET /v1/cluster/members/{id}/decommission` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainView {
    /// The member.
    pub member: Name,
    /// Whether it lives.
    pub status: MemberStatus,
    /// Whether it is being decommissioned.
    pub draining: bool,
    /// Partitions that it still owns.
    pub owned_partitions: u64,
    /// Of these, those on their way out.
    pub outbound_moves: u64,
    /// Partitions on their way in.
    pub inbound_moves: u64,
    /// Records that it has accepted and that have not reached their owners; absent if it does not
    /// say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog_records: Option<u64>,
    /// How it is doing; absent for a member that does not leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
}

/// How a move is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// Pins the partition first, so that the planner does not plan the same again.
    pub pin: bool,
    /// Also while the owner is dead: the copy that the move has made may be all that is left.
    pub force: bool,
}

/// The last moves, as `GET /v1/cluster/history` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryView {
    /// The moves, the newest first. A node remembers the last 256 to it, until it restarts.
    pub moves: Vec<PastMove>,
    /// Members that were not asked, or did not answer.
    #[serde(default)]
    pub silent: Vec<Name>,
}

/// One move that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastMove {
    /// The topic's name; absent once the topic is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Name>,
    /// The partition.
    pub partition: u32,
    /// Who owned it.
    pub from: Name,
    /// Where it was to go.
    pub to: Name,
    /// Which plan for this partition it was.
    pub move_id: MoveId,
    /// How it ended.
    pub outcome: MoveEnd,
    /// When it was planned, as this destination learned, in milliseconds since 1970.
    pub began_ms: i64,
    /// When it ended, likewise.
    pub ended_ms: i64,
    /// How long each phase took, in order.
    pub phases: Vec<PastPhase>,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Passes over the source.
    pub passes: u32,
    /// How long the source was frozen, in microseconds; 0 if it never was.
    pub frozen_us: u64,
    /// How long it was said to be, before it was frozen, in microseconds; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<u64>,
    /// How often it had to wait for something.
    pub waits: u32,
    /// What it waited for last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_for: Option<Cause>,
}

impl PastMove {
    /// Returns the partition as people write it, such as `orders/3`.
    pub fn place(&self) -> String {
        let topic = self.topic.as_ref().map_or("(deleted)", Name::as_str);
        format!("{topic}/{}", self.partition)
    }
}

/// One phase of a move that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastPhase {
    /// Which.
    pub phase: PastPhaseName,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// The phases that are told apart afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastPhaseName {
    /// The first pass over the source.
    Copy,
    /// Further passes over what was written meanwhile.
    CatchUp,
    /// From the freeze of the source to the end.
    CutOver,
    /// Something that a newer node says.
    #[serde(other)]
    Unknown,
}

/// How a move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveEnd {
    /// The destination owns the partition.
    Moved,
    /// It does, without the source: that was dead.
    Promoted,
    /// It had owned it all along: an earlier try had won.
    AlreadyOwner,
    /// It was given up.
    Cancelled,
    /// The partition was deleted.
    Deleted,
    /// Something that a newer node says.
    #[serde(other)]
    Unknown,
}

/// Whether a member may be stopped, as `GET /v1/cluster/members/{id}/safe-to-stop` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopView {
    /// The member.
    pub member: Name,
    /// Whether its disk goes with it.
    pub for_good: bool,
    /// Whether it may be stopped now.
    pub safe: bool,
    /// What speaks against it; empty if it is safe.
    pub reasons: Vec<StopReason>,
    /// What its stop costs, although it is safe.
    pub notes: Vec<StopReason>,
}

/// What speaks against stopping a member, or what that costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReason {
    /// What it is, for programs.
    pub code: Cause,
    /// What it is.
    pub reason: String,
    /// What ends it, or what it means.
    pub remedy: String,
}
