//! S8, lives of the source: bytes that were staged from one life of it are compared with what the
//! next one has before more are added to them (H16).
//!
//! A source that restarts may have lost a tail and grown another one, and a copy of both has valid
//! checksums everywhere. Judged by the listings that a destination was answered and by what it asked
//! for: once another life has answered, it must have the source compare what it has staged, or have
//! nothing staged, before it copies on.

use std::collections::BTreeMap;

use narad_core::ids::{Incarnation, LogGeneration, NodeId};
use narad_core::partition::Listing;

use super::part::Part;
use super::sink::Cx;

/// What the destinations of a partition know of its source's lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives(BTreeMap<NodeId, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    /// The life of the destination.
    own: Incarnation,
    /// The life of the source, and of its log, that the staged bytes are of.
    source: (NodeId, Incarnation, LogGeneration),
    /// Another one has answered, and nothing was compared.
    is_due: bool,
}

/// A destination is answered; `compared`: it had asked for a comparison.
pub(super) fn learns(
    part: &mut Part,
    (node, own): (NodeId, Incarnation),
    listing: &Listing,
    compared: bool,
    cx: &Cx<'_>,
) {
    let Some(source) = part.reign(listing.epoch).map(|reign| reign.owner) else { return };
    let source = (source, listing.incarnation, listing.generation);
    let known = part.lives.0.get(&node).filter(|known| known.own == own).copied();
    let has_staged = cx.look.node(node).is_some_and(|machines| {
        machines.moves().any(|(of, progress)| of == part.id && progress.staged_bytes > 0)
    });
    let is_due = has_staged
        && !compared
        && known.is_some_and(|known| known.is_due || known.source != source);
    part.lives.0.insert(node, Known { own, source, is_due });
}

/// A destination copies on.
pub(super) fn copies(part: &Part, (node, own): (NodeId, Incarnation), cx: &mut Cx<'_>) {
    let known = part.lives.0.get(&node).filter(|known| known.own == own && known.is_due);
    if let Some(known) = known {
        cx.breach("S8", part.id, || {
            let (source, life, _) = known.source;
            format!("{node:?} copies from life {life} of {source:?} without comparing what it has")
        });
    }
}
