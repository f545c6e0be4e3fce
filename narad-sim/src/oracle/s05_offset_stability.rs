//! S5, offset stability. If offset o of (p, lineage) was ever visible with content c, no node later
//! serves (p, o) with another content in the same lineage epoch; every consumer position carries
//! the epoch.
//!
//! The content of every offset that was acknowledged or delivered is kept per reign in which it was
//! appended. An acknowledgement of a consumer must be of the record that it was given. No clock
//! takes part.

use narad_core::ids::{Epoch, NodeId, Offset};

use super::part::Part;
use super::sink::Cx;

/// Most offsets of one reign that are kept.
const KEPT_MAX: u64 = 1 << 28;

/// Records can be seen from `first` on in the log of a reign.
pub(super) fn visible(
    part: &mut Part,
    node: NodeId,
    epoch: Epoch,
    first: Offset,
    ids: &[u64],
    cx: &mut Cx<'_>,
) {
    if part.has_holes() {
        // What was damaged by hand may be made again.
        return;
    }
    let mut wrong = None;
    let mut rest = ids;
    let mut offset = first;
    while let Some(id) = rest.first().copied() {
        // Nearly always all of them are of one reign.
        let Some(reign) = part.lineage_mut(epoch, offset) else { return };
        let at = offset.0 - reign.start.0;
        if at >= KEPT_MAX {
            return;
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if reign.content.len() <= at {
            reign.content.resize(at + 1, 0);
        }
        let known = &mut reign.content[at];
        if *known == 0 {
            *known = id;
        } else if *known != id {
            wrong = wrong.or(Some((reign.epoch, offset, *known, id)));
        }
        rest = &rest[1..];
        offset = offset.next();
    }
    if let Some((appended, offset, known, id)) = wrong {
        cx.breach("S5", part.id, || {
            format!(
                "{node:?} has record {id} at {offset:?} of {appended:?}, where {known} was visible"
            )
        });
    }
}

/// A consumer acknowledges, in `epoch`, what it was given in `fetched`.
pub(super) fn consumed(
    part: &Part,
    node: NodeId,
    epoch: Epoch,
    fetched: Epoch,
    offset: Offset,
    cx: &mut Cx<'_>,
) {
    if epoch == fetched {
        return;
    }
    let of = |epoch| part.lineage(epoch, offset).map(|reign| reign.epoch);
    if of(epoch) != of(fetched) {
        cx.breach("S5", part.id, || {
            format!("{node:?} takes an acknowledgement of {offset:?} of {fetched:?} for another record, of {epoch:?}")
        });
    }
}
