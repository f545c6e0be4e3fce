//! S1 of what nodes have accepted: it is in its node's ingress log until an owner has acknowledged
//! it, and from then on in the partition's log, where S1 goes on. Never dropped unless its topic was
//! deleted.
//!
//! Judged whenever a log is shortened, by positions; on the disks after a power loss, before a disk
//! is changed, and at the end. Exception, exactly: the disk that had to hold it was lost or replaced,
//! or the operator has given a receipt for what its dead node still held.

use narad_core::dispatch::Checkpoint;
use narad_core::ids::NodeId;
use narad_core::metastore::State;

use super::book::Book;
use super::sink::Cx;

/// A log is about to be shortened.
pub(super) fn shortens(book: &mut Book, node: NodeId, spent: &Checkpoint, cx: &mut Cx<'_>) {
    let missed = book.ingress.log_mut(node).give_up(spent);
    let lost = missed.iter().find(|record| {
        !book.ingress.excused.contains(record.id) && is_there(book.state(), record.topic)
    });
    if let Some(record) = lost {
        cx.breach("S1", node, || {
            format!(
                "it gives up {spent:?} of its ingress log, and record {} has not arrived",
                record.id
            )
        });
    }
}

fn is_there(state: Option<&State>, topic: narad_core::ids::TopicId) -> bool {
    state.is_none_or(|state| state.topic(topic).is_some())
}

/// Checks what a node's disk has to hold.
pub(super) fn check(book: &Book, node: NodeId, why: &str, cx: &mut Cx<'_>) {
    let Some(log) = book.ingress.logs.get(&node) else { return };
    let mut open = log.open().filter(|record| is_there(book.state(), record.topic)).peekable();
    if open.peek().is_none() {
        return;
    }
    let mut held = cx.look.ingress(node);
    held.sort_unstable();
    let is_lost = |id: u64| held.binary_search(&id).is_err() && !book.ingress.excused.contains(id);
    if let Some(record) = open.find(|record| is_lost(record.id)) {
        cx.breach("S1", node, || {
            format!("record {}, which it has accepted, is not on its disk after {why}", record.id)
        });
    }
}

/// A node says that it is drained, or is retired on that: everything that it has accepted has arrived
/// (H37).
pub(super) fn left(book: &Book, node: NodeId, how: &str, cx: &mut Cx<'_>) {
    let Some(log) = book.ingress.logs.get(&node) else { return };
    let mut open = log.open().filter(|record| {
        is_there(book.state(), record.topic) && !book.ingress.excused.contains(record.id)
    });
    if let Some(record) = open.next() {
        cx.breach("S15", node, || format!("it {how}, and record {} has not arrived", record.id));
    }
}
