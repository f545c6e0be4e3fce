//! S9, freeze exclusion. Between PrepareHandoff(token) returning and {Flip(token) | Revoke(token)}
//! in the log, the source appends nothing to p.
//!
//! A freeze is also over once no flip can rest on it any more: when a row with a later move id is
//! in the log, or a later life of the source. After the flip, nothing may be appended in the old
//! epoch at all: the source stays frozen until it has applied the flip (S8). A thaw that comes
//! before the log has ended the freeze is a breach by itself, whether or not an append follows;
//! unless no destination was ever told of the token, so that no flip can name it. No clock takes
//! part.

use narad_core::ids::{Attempt, Epoch, Incarnation, MoveId, NodeId, Token};
use narad_core::partition::Capture;

use super::part::{Began, Hold, Part};
use super::sink::Cx;

/// Most captures of one reign that are kept; the oldest of those that are over goes first.
const HOLDS_MAX: usize = 64;

/// A source froze and captured, for the move that its applied row has; `present` is the log's.
pub(super) fn captured(
    part: &mut Part,
    node: NodeId,
    life: Incarnation,
    move_id: Option<MoveId>,
    present: Option<MoveId>,
    capture: &Capture,
) {
    if part.last().is_none_or(|last| last.epoch != capture.token.epoch) {
        return;
    }
    if part.holds.len() >= HOLDS_MAX {
        part.holds.remove(0);
    }
    // A source that lags behind the log may freeze for a move that is over, because another was
    // planned, or because the topic is gone: no flip can rest on that.
    let ended = part.gone || (move_id.is_some() && present > move_id);
    part.holds.push(Hold {
        node,
        life,
        capture: capture.clone(),
        told: false,
        thawed: false,
        ended,
    });
}

/// A source tells its destination of a freeze.
pub(super) fn told(part: &mut Part, node: NodeId, token: Token, cx: &mut Cx<'_>) {
    let mut thawed = false;
    for hold in &mut part.holds {
        if hold.node == node && hold.capture.token == token {
            thawed |= !hold.told && hold.ended && hold.thawed;
            hold.told = true;
        }
    }
    if thawed {
        cx.breach("S9", part.id, || format!("{node:?} tells of {token:?}, which it has thawed"));
    }
}

/// A source answers a try: only one of the move that its own row has (H41).
pub(super) fn prepared(
    part: &Part,
    node: NodeId,
    attempt: Attempt,
    row: Option<(MoveId, Option<NodeId>)>,
    cx: &mut Cx<'_>,
) {
    if row != Some((attempt.move_id, Some(attempt.destination))) {
        cx.breach("S8", part.id, || {
            format!("{node:?} freezes for {attempt:?} while its row has {row:?}")
        });
    }
}

/// An append was admitted, or was made durable.
pub(super) fn appends(part: &Part, node: NodeId, epoch: Epoch, what: &str, cx: &mut Cx<'_>) {
    let open = |hold: &&Hold| !hold.ended && hold.node == node && hold.capture.token.epoch == epoch;
    if let Some(hold) = part.holds.iter().find(open) {
        cx.breach("S9", part.id, || {
            format!("{node:?} {what} under {:?}, which nothing has ended", hold.capture.token)
        });
    }
    let Some(last) = part.last().filter(|last| last.epoch > epoch) else { return };
    let next = part.reigns.iter().find(|reign| reign.epoch > epoch).unwrap_or(last);
    if let Began::Normal(token) = next.began {
        cx.breach("S8", part.id, || {
            format!("{node:?} {what} in {epoch:?} although a flip under {token:?} has ended it")
        });
    }
}

/// Retention has taken the beginning of a log.
pub(super) fn retains(part: &Part, node: NodeId, cx: &mut Cx<'_>) {
    let open = |hold: &&Hold| !hold.ended && hold.node == node;
    if let Some(hold) = part.holds.iter().find(open) {
        cx.breach("S9", part.id, || {
            format!(
                "{node:?} changes its log under {:?}, which nothing has ended",
                hold.capture.token
            )
        });
    }
}

/// A gate was thawed. A freeze that was given up before anybody was told of it may be.
pub(super) fn thawed(part: &mut Part, node: NodeId, token: Token, cx: &mut Cx<'_>) {
    let mut held = false;
    for hold in &mut part.holds {
        if !hold.ended && hold.node == node && hold.capture.token == token {
            held |= hold.told;
            hold.ended |= !hold.told;
            hold.thawed = true;
        }
    }
    if held {
        cx.breach("S9", part.id, || {
            format!("{node:?} thaws {token:?} before the log has ended that freeze")
        });
    }
}

/// The log revokes a freeze, and those before it.
pub(super) fn revoked(part: &mut Part, token: Token) {
    for hold in &mut part.holds {
        let theirs = hold.capture.token;
        hold.ended |= theirs.epoch == token.epoch && theirs.no <= token.no;
    }
}

/// A later life of a node is registered: no flip can rest on a freeze of an earlier one.
pub(super) fn registered(part: &mut Part, node: NodeId, life: Incarnation) {
    for hold in &mut part.holds {
        hold.ended |= hold.node == node && hold.life < life;
    }
}
