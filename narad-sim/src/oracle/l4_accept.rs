//! L4: produce accept never waits on partition state: bounded by the local write-ahead log's
//! fsync, in every fault class including no quorum.
//!
//! Judged at every acceptance and every refusal, in both phases: what an acceptance took beyond
//! what the disk took, and whether a refusal had any other reason than a node that leaves or a disk
//! that fails.

use std::time::Duration;

use narad_core::ids::NodeId;

use super::sink::Cx;

/// What an acceptance may take beyond the disk: its batch's gathering.
const GATHERING_MAX: Duration = Duration::from_millis(100);

/// Records were accepted.
pub(super) fn accepted(node: NodeId, took: Duration, disk: Duration, cx: &mut Cx<'_>) {
    let waited = took.saturating_sub(disk);
    if waited > GATHERING_MAX {
        cx.breach("L4", node, || format!("it accepts records after {waited:?} beyond its disk's"));
    }
}

/// Records were refused.
pub(super) fn refused(node: NodeId, partition_state: bool, closed: bool, cx: &mut Cx<'_>) {
    if partition_state && !closed {
        cx.breach("L4", node, || "it refuses records for the state of a partition".into());
    }
}
