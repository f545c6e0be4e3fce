//! S6, what a promotion goes by: that what consumers could see is known before the source dies.
//!
//! An owner of which something moves away tells the log how far consumers see, every heartbeat
//! interval (H12). Whoever hears from the leader again and again can be heard, too; if the log has
//! still not been told after a long while, nobody tells it. And a destination that has been answered
//! a listing must not forget in the same life how far consumers could see (H13).

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::ids::{Epoch, Incarnation, MoveId, NodeId, Offset};
use narad_core::metastore::State;

use super::part::Part;
use super::sink::Cx;
use crate::time::Time;

/// How long the log may go without what an owner must tell it. Longer than any disk is stuck.
const PATIENCE: Duration = Duration::from_secs(20);
/// After a silence of so long, it counts anew.
const SILENCE: Duration = Duration::from_secs(2);

/// What a partition's owner owes to the log, and what its destinations have learned.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Since when this much is owed, and when the owner was last heard.
    owed: Option<(Time, Offset, Time)>,
    /// What was last acknowledged, in which reign, and where it ends.
    acked: Option<(Epoch, Offset)>,
    /// By destination: of which life, move and reign its listings were, and the highest watermark.
    learned: BTreeMap<NodeId, Learned>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learned {
    life: Incarnation,
    move_id: MoveId,
    epoch: Epoch,
    hwm: Offset,
}

/// An owner has acknowledged records up to an offset.
pub(super) fn acknowledged(part: &mut Part, epoch: Epoch, end: Offset) {
    part.told.acked = Some((epoch, end));
}

/// The leader has answered a node, whose own state is `state`.
pub(super) fn heard(part: &mut Part, node: NodeId, state: &State, known: &State, cx: &mut Cx<'_>) {
    let moves = |state: &State| {
        let row = state.assignment(part.id)?;
        (row.owner == node && row.target.is_some()).then_some((row.epoch, row.reported_hwm))
    };
    let (Some((epoch, _)), Some((same, reported))) = (moves(state), moves(known)) else {
        part.told.owed = None;
        return;
    };
    let serves = part.serving.iter().any(|it| (it.node, it.epoch) == (node, epoch));
    let Some(reign) = part.reign(epoch).filter(|_| epoch == same && serves) else {
        part.told.owed = None;
        return;
    };
    // Of what a state begins with, only what was acknowledged since is known to be visible.
    let acked = part.told.acked.filter(|(of, _)| *of == epoch).map(|(_, end)| end);
    let unseen = reign.visible == Offset(u64::MAX);
    let visible = if unseen { acked.unwrap_or_default() } else { reign.visible };
    let now = cx.now;
    match part.told.owed {
        Some((since, owed, last))
            if now.since(last) <= SILENCE && reported.is_none_or(|reported| reported < owed) =>
        {
            if now.since(since) > PATIENCE {
                cx.breach("S6", part.id, || {
                    let late = now.since(since);
                    format!("{node:?} has not told the log for {late:?} that {owed:?} is visible")
                });
            }
            part.told.owed = Some((since, owed, now));
        }
        Some(_) | None => {
            part.told.owed = (visible > Offset(0)).then_some((now, visible, now));
        }
    }
}

/// A destination was answered a listing.
pub(super) fn learns(
    part: &mut Part,
    (node, life): (NodeId, Incarnation),
    (move_id, epoch, hwm): (MoveId, Epoch, Offset),
) {
    let now = Learned { life, move_id, epoch, hwm };
    let known = part.told.learned.entry(node).or_insert(now);
    let same = (known.life, known.move_id, known.epoch) == (life, move_id, epoch);
    let highest = if same { known.hwm.max(hwm) } else { hwm };
    *known = Learned { hwm: highest, ..now };
}

/// A forced flip took effect.
pub(super) fn promoted(
    part: &Part,
    (node, life): (NodeId, Incarnation),
    (move_id, epoch, end): (MoveId, Epoch, Offset),
    cx: &mut Cx<'_>,
) {
    let Some(known) = part.told.learned.get(&node) else { return };
    if (known.life, known.move_id, known.epoch) == (life, move_id, epoch) && end < known.hwm {
        cx.breach("S6", part.id, || {
            let hwm = known.hwm;
            format!(
                "{node:?} promotes a copy that ends at {end:?}, it was told that {hwm:?} is visible"
            )
        });
    }
}
