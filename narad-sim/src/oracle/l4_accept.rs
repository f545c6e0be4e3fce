//! L4: produce accept never waits on partition state: bounded by the local write-ahead log's
//! fsync, in every fault class including no quorum.
//!
//! Judged at every acceptance and every refusal, in both phases: what an acceptance took beyond
//! what the disk took, and whether a refusal had any other reason than a node that leaves, one that
//! only joins, a log that is full, or a disk that fails. That a node leaves is so if its own replica says so, or the log has
//! said so a moment ago; that its log is full, if what it has to hold is as much as it may.

use std::time::Duration;

use narad_core::config::Config;
use narad_core::ids::NodeId;

use super::AcceptFault;
use super::book::Book;
use super::ingress::Log;
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
pub(super) fn refused(
    book: &Book,
    config: &Config,
    node: NodeId,
    more: (u64, u64),
    why: AcceptFault,
    cx: &mut Cx<'_>,
) {
    let wrong = match why {
        AcceptFault::Closed => (!leaves(book, config, node, cx)).then_some("and does not leave"),
        AcceptFault::Full => {
            (!is_full(book, config, node, more) && !joins(node, cx)).then_some("and has room")
        }
        AcceptFault::TooLarge | AcceptFault::Busy | AcceptFault::Disk => None,
    };
    if let Some(wrong) = wrong {
        cx.breach("L4", node, || format!("it refuses records, {why:?}, {wrong}"));
    }
}

fn leaves(book: &Book, config: &Config, node: NodeId, cx: &Cx<'_>) -> bool {
    let own = cx.look.node(node).map(narad_core::node::Node::state);
    let member = own.and_then(|state| state.member(node));
    let moment = config.request_timeout * 2;
    let just_now = book.ingress.left.get(&node).is_some_and(|at| cx.now.since(*at) <= moment);
    just_now
        || member.is_some_and(|member| member.draining || member.retired)
        || was_shut(book, node, moment, cx)
}

/// Whether an earlier life has left for good, for all the node knows: until the log knows the present
/// one, the word of that may be decided (H37). A moment later it accepts, or has applied the drain.
fn was_shut(book: &Book, node: NodeId, moment: Duration, cx: &Cx<'_>) -> bool {
    let Some(own) = cx.look.node(node).filter(|_| cx.look.found_shut(node)) else { return false };
    let known = own.state().member(node).is_some_and(|me| me.incarnation == own.incarnation());
    let registered = book.nodes.get(&node).and_then(|witness| witness.registered);
    !known || registered.is_some_and(|at| cx.now.since(at) <= moment)
}

/// Whether the node has not learned yet that the log knows a life of it.
fn joins(node: NodeId, cx: &Cx<'_>) -> bool {
    let member = cx.look.node(node).and_then(|own| own.state().member(node));
    member.is_none_or(|member| !member.has_lived())
}

/// Whether what a log has to hold, from its last checkpoint on, and so much more, is nearly as much
/// as it may.
fn is_full(book: &Book, config: &Config, node: NodeId, more: (u64, u64)) -> bool {
    let none = Log::default();
    let log = book.ingress.logs.get(&node).unwrap_or(&none);
    let records = log.next.0.saturating_sub(log.checkpoint.0) + more.0;
    let bytes = log.records.values().map(|record| record.bytes).sum::<u64>() + more.1;
    records >= u64::from(config.backlog_records_max) / 4 * 3
        || bytes >= config.backlog_bytes_max / 4 * 3
}
