//! S1, no gap. For all acknowledged records not past retention: the record is in the log of
//! `owner(p)`'s `data(p)` below a future high watermark, or among what a flip did not capture on an
//! old owner's disk that survives with salvage pending, or in a write-ahead log.
//!
//! What waits in a write-ahead log counts if it was accepted there and has not arrived at an owner
//! since, such as what was salvaged.
//!
//! Exception, exactly: the disk that alone had to hold it was destroyed (here: lost, replaced,
//! rotted or erased by hand, as far as the very directory goes, or the staging that the same life
//! made it from), or the operator declared it lost.
//!
//! Checked on the disks, by content id, at every flip and set-aside (of that partition), before a
//! disk is changed and after a power loss (of what is there), and at the end. Which disk had to
//! hold a record follows from the entries: a normal flip takes everything along, a forced one
//! leaves behind what is at or past its end. No clock takes part.

use narad_core::ids::{Attempt, NodeId, Offset};

use super::book::Book;
use super::ingress::Ingress;
use super::part::{Acked, Began, Part};
use super::sink::Cx;
use super::{Directory, s01_accepted};

/// Where a record has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the live log.
    Live,
    /// On the disk of an old owner, which a flip did not wait for.
    LeftBehind(NodeId, Attempt),
    /// Nowhere any more: retention took it, the operator gave it up, or a disk that had to hold it
    /// was changed by hand.
    Excused,
}

/// Checks one partition. `doomed`: a directory that is about to go and does not count.
pub(super) fn check(
    part: &Part,
    ingress: &Ingress,
    doomed: Option<(NodeId, Directory)>,
    why: &str,
    cx: &mut Cx<'_>,
) {
    if part.gone || part.acked.is_empty() {
        return;
    }
    let held = held(part, doomed, cx);
    // The last acknowledgement of a record counts: one that was produced again may be elsewhere.
    let mut missing = part.acked.iter().rev().filter(|acked| {
        held.binary_search(&acked.id).is_err()
            && place(part, acked) != Place::Excused
            && !is_acked_again(part, acked)
    });
    let mut accepted = None;
    let missing = missing.find(|acked| {
        let accepted = accepted.get_or_insert_with(|| waiting(ingress, cx));
        accepted.binary_search(&acked.id).is_err() && !ingress.excused.contains(acked.id)
    });
    if let Some(acked) = missing {
        cx.breach("S1", part.id, || {
            let Acked { id, offset, epoch } = acked;
            let place = match place(part, acked) {
                Place::LeftBehind(node, data) => format!("{node:?}, in {data}, left behind"),
                Place::Live | Place::Excused => part
                    .last()
                    .map_or(String::new(), |last| format!("{:?}, in {}, live", last.owner, last.data)),
            };
            format!("record {id}, acknowledged at {offset:?} in {epoch:?}, is nowhere after {why}; it should be on {place}")
        });
    }
}

/// Returns whether what is missing here was acknowledged later in another place, which is checked
/// by itself.
fn is_acked_again(part: &Part, acked: &Acked) -> bool {
    let later = |other: &&Acked| {
        other.id == acked.id && (other.epoch, other.offset) > (acked.epoch, acked.offset)
    };
    part.acked
        .iter()
        .rev()
        .take_while(|other| other.epoch >= acked.epoch)
        .any(|other| later(&other))
}

/// Returns whether a record may be gone for good, or waits on one of `left` to be produced again.
pub(super) fn is_excused(part: &Part, acked: &Acked, left: &[NodeId]) -> bool {
    match place(part, acked) {
        Place::Live => part.gone,
        Place::LeftBehind(node, _) => part.gone || left.contains(&node),
        Place::Excused => true,
    }
}

/// Whether retention has taken a record while it was in the live log.
fn is_past_retention(part: &Part, acked: &Acked) -> bool {
    part.reigns
        .iter()
        .skip_while(|reign| reign.epoch < acked.epoch)
        .take_while(|reign| reign.epoch == acked.epoch || acked.offset < reign.start)
        .any(|reign| acked.offset < reign.floor)
}

fn place(part: &Part, acked: &Acked) -> Place {
    let mut reigns = part.reigns.iter().skip_while(|reign| reign.epoch < acked.epoch);
    let Some(mut holder) = reigns.next() else { return Place::Live };
    for reign in reigns {
        if acked.offset < holder.floor || part.is_damaged(holder.owner, holder.data) {
            return Place::Excused;
        }
        match reign.began {
            Began::Declared => return Place::Excused,
            Began::Born | Began::Normal(_) => {}
            Began::Forced(_) | Began::Unseen { .. } => {
                if reign.left_records() && acked.offset >= reign.start {
                    return Place::LeftBehind(holder.owner, holder.data);
                }
            }
        }
        holder = reign;
    }
    let excused = acked.offset < holder.floor || part.is_damaged(holder.owner, holder.data);
    if excused { Place::Excused } else { Place::Live }
}

/// Returns the ids that are held where they count, ascending.
fn held(part: &Part, doomed: Option<(NodeId, Directory)>, cx: &Cx<'_>) -> Vec<u64> {
    let mut ids = Vec::new();
    let mut take = |node: NodeId, data: Attempt, from: Offset| {
        let directory = Directory::Installed(data);
        if doomed != Some((node, directory)) {
            let log = cx.look.log(node, part.id, directory).unwrap_or_default();
            ids.extend(log.records.iter().filter(|(offset, _)| *offset >= from).map(|(_, id)| *id));
        }
    };
    if let Some(last) = part.last() {
        take(last.owner, last.data, Offset(0));
    }
    for pair in part.reigns.windows(2) {
        let [old, new] = pair else { continue };
        if new.left_records() && !new.reclaimed {
            let from = if new.began == Began::Declared { Offset(0) } else { new.start };
            take(old.owner, old.data, from);
        }
    }
    ids.sort_unstable();
    ids
}

/// Returns the ids that wait in write-ahead logs, ascending.
fn waiting(ingress: &Ingress, cx: &Cx<'_>) -> Vec<u64> {
    let mut ids = Vec::new();
    for node in ingress.logs.keys() {
        let open = ingress.open_of(*node);
        if !open.is_empty() {
            let held = cx.look.ingress(*node).into_iter();
            ids.extend(held.filter(|id| open.binary_search(id).is_ok()));
        }
    }
    ids.sort_unstable();
    ids
}

impl Book {
    /// Checks every partition of which a node's disk has to hold something.
    pub(super) fn check_disk(&self, node: NodeId, why: &str, cx: &mut Cx<'_>) {
        for part in self.parts.values() {
            if part.reigns.iter().any(|reign| reign.owner == node) {
                check(part, &self.ingress, None, why, cx);
            }
        }
        s01_accepted::check(self, node, why, cx);
    }

    /// Returns how many acknowledged records are nowhere, whether or not that is excused.
    pub(super) fn lost(&self, cx: &Cx<'_>) -> u64 {
        let waiting = waiting(&self.ingress, cx);
        let of = |part: &Part| {
            let held = held(part, None, cx);
            let mut missing: Vec<u64> = part
                .acked
                .iter()
                .filter(|acked| !is_past_retention(part, acked))
                .map(|acked| acked.id)
                .filter(|id| held.binary_search(id).is_err() && waiting.binary_search(id).is_err())
                .collect();
            missing.sort_unstable();
            missing.dedup();
            missing.len() as u64
        };
        self.parts.values().filter(|part| !part.gone).map(of).sum()
    }

    /// Checks every partition.
    pub(super) fn check_everything(&self, why: &str, cx: &mut Cx<'_>) {
        for part in self.parts.values() {
            check(part, &self.ingress, None, why, cx);
        }
        for node in self.ingress.logs.keys() {
            s01_accepted::check(self, *node, why, cx);
        }
    }

    /// Checks one partition.
    pub(super) fn check_part(
        &self,
        partition: narad_core::ids::PartitionId,
        doomed: Option<(NodeId, Directory)>,
        why: &str,
        cx: &mut Cx<'_>,
    ) {
        if let Some(part) = self.parts.get(&partition) {
            check(part, &self.ingress, doomed, why, cx);
        }
    }
}
