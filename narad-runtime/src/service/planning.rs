//! What the planner would do, and why.

use narad_core::ids::{Epoch, Name};
use serde::{Deserialize, Serialize};

use super::verdict::Cause;
use super::{MemberStatus, MoveView};

/// What would happen if members left together, as `GET /v1/cluster/preflight` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreflightView {
    /// Who would leave.
    pub members: Vec<Name>,
    /// Whether nothing stands in the way.
    pub possible: bool,
    /// What does.
    pub blockers: Vec<BlockerView>,
    /// What is worth knowing all the same.
    pub warnings: Vec<String>,
    /// The moves that it takes, those of other members that come with it included.
    pub moves: Vec<PlannedView>,
    /// What each member would take, and whether it has room for it.
    pub receivers: Vec<ReceiverView>,
    /// Bytes to copy, as far as they are known.
    pub bytes: u64,
    /// Moves whose bytes are not known, because the owner did not answer.
    pub bytes_unknown: u64,
    /// How long the copies take at the policy's rate, in milliseconds; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_ms: Option<u64>,
}

/// What stands in the way of a decommission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockerView {
    /// Whose.
    pub member: Name,
    /// What it is, for programs.
    pub code: Cause,
    /// What it is.
    pub reason: String,
    /// What has to be done.
    pub remedy: String,
}

/// What one member would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiverView {
    /// The member.
    pub member: Name,
    /// Moves to it.
    pub moves: u32,
    /// Their bytes, all of which are on its disk beside what it has before the first one is let go.
    pub bytes: u64,
    /// Bytes that its disk still takes; absent if it did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// What the planner would do now, as `GET /v1/cluster/plan` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanView {
    /// Who planned.
    pub planned_by: Name,
    /// Whether moves are paused, so that none of it begins.
    pub paused: bool,
    /// The fewest moves that balance the cluster: the sum of what members have above their shares.
    /// The plan has exactly so many: those that start, those that are deferred, and `waiting`.
    pub moves_min: u32,
    /// Of these, moves of partitions that must arrive before they can leave again.
    pub waiting: u32,
    /// Moves that are under way already.
    pub in_flight: u32,
    /// Of these, those that cannot go on; they hold no slot.
    pub stuck: u32,
    /// Pairs of parent and child partitions that share a member once all of it is done.
    pub conflicts: u64,
    /// Every member.
    pub members: Vec<ShareView>,
    /// The moves, those that start now first.
    pub moves: Vec<PlannedView>,
    /// Partitions that one might expect to move, and why they do not.
    pub stays: Vec<StaysView>,
    /// Bytes to copy, as far as they are known.
    pub bytes: u64,
    /// Moves whose bytes are not known, because the owner did not answer.
    pub bytes_unknown: u64,
    /// Bytes that one node copies per second at most; 0 is any number.
    pub copy_rate_bytes_per_second: u64,
    /// How long the copies take at that rate, in milliseconds; absent if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_ms: Option<u64>,
}

/// What one member has, may have and gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareView {
    /// The member.
    pub member: Name,
    /// Partitions that end up there if nothing more is planned.
    pub load: u32,
    /// Those of them that are pinned.
    pub pinned: u32,
    /// What it may end up with.
    pub share: u32,
    /// Planned moves to it.
    pub moves_in: u32,
    /// Planned moves away from it.
    pub moves_out: u32,
    /// Bytes of the planned moves to it, less those away from it, as far as they are known.
    pub bytes_delta: i64,
    /// Why.
    pub why: String,
}

/// One move of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// Its owner.
    pub from: Name,
    /// Where it goes.
    pub to: Name,
    /// Whether it starts now.
    pub starts: bool,
    /// Bytes of its log; absent if the owner did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why it moves, and what it waits for if it does not start.
    pub why: String,
}

/// One partition that stays although one might expect it to move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaysView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// Where it is.
    pub member: Name,
    /// Why.
    pub why: String,
}

/// Why a partition is where it is, as `GET /v1/topics/{topic}/partitions/{partition}` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// Its owner.
    pub owner: Name,
    /// The owner's reign.
    pub epoch: Epoch,
    /// Whether the owner lives.
    pub owner_status: MemberStatus,
    /// Whether it is pinned.
    pub pinned: bool,
    /// Bytes of its log; absent if the owner did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why it is here, or on its way.
    pub here: String,
    /// For each other member, why it is not there.
    pub elsewhere: Vec<ElsewhereView>,
    /// What would change that.
    pub would_change: Vec<String>,
    /// Its move, if it is on its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<MoveView>,
}

/// Why a partition is not on a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElsewhereView {
    /// The member.
    pub member: Name,
    /// Why not.
    pub why_not: String,
}
