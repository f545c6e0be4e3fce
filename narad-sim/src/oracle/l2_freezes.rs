//! L2: a freeze ends: total frozen time per attempt is at most `freeze_max`; duty cycle per partition at
//! most 10 % over any 10 min; an orphan freeze ends within TTL + one commit after quorum is
//! reachable.
//!
//! Lengths are judged while the world heals, from the beginning of the freeze, of the healing, or of
//! when its node could last reach the leader again, whichever is latest: a node that is cut off
//! hears of no commit. The clock error of the policy and the time of a commit come on top; a freeze
//! whose destination is not there is an orphan. The duty is judged when a freeze begins: the
//! freezes of the same life and reign that ended in the window must leave room, since one that
//! makes progress may overdraw and is paid for before the next. Silent while clocks are wild.

use std::time::Duration;

use narad_core::config::Config;
use narad_core::ids::{Incarnation, NodeId, Token};

use super::healing::Healed;
use super::part::{Frozen, Part};
use super::sink::Cx;

/// A gate froze.
pub(super) fn begins(
    part: &mut Part,
    (node, life, token): (NodeId, Incarnation, Token),
    config: &Config,
    clocks_wild: bool,
    cx: &mut Cx<'_>,
) {
    let again = part.freezes.iter().any(|old| old.token == token && old.until.is_some());
    if again {
        cx.breach("S16", part.id, || format!("{node:?} freezes again under {token:?}"));
    }
    let window = Config::DUTY_WINDOW;
    let same = |frozen: &&Frozen| {
        (frozen.node, frozen.life, frozen.token.epoch) == (node, life, token.epoch)
    };
    let within = |frozen: &Frozen| {
        let until = frozen.until?;
        let left = window.checked_sub(cx.now.since(until))?;
        Some(until.since(frozen.since).min(left))
    };
    let frozen: Duration = part.freezes.iter().filter(same).filter_map(within).sum();
    let allowance = window * config.freeze_duty_percent / 100;
    // A source measures by its own clock, and knows the end of a freeze a little later.
    if !clocks_wild && frozen > allowance + allowance / 10 {
        cx.breach("L2", part.id, || {
            format!("{node:?} freezes again after {frozen:?} of the last {window:?}")
        });
    }
    let now = cx.now;
    part.thaw(now, |old| old.node == node);
    part.freezes.retain(|old| old.until.is_none_or(|until| now.since(until) < window * 2));
    part.freezes.push(Frozen { node, life, token, since: now, until: None, for_the_dead: false });
}

/// Judges freezes that go on.
pub(super) fn check(part: &Part, all: &Healed<'_>, cx: &mut Cx<'_>) {
    if all.clocks_wild {
        return;
    }
    for frozen in part.freezes.iter().filter(|frozen| frozen.until.is_none()) {
        if !all.is_well(frozen.node) {
            continue;
        }
        let commit = all.config.request_timeout * 3 + all.config.heartbeat_interval;
        let slow = |time: Duration| time + time / 10 + commit;
        let reached = all.leaderless.max(all.witness(frozen.node).apart);
        let since = frozen.since.max(all.since).max(reached);
        let lasted = cx.now.since(since);
        let orphan = all.destination(part.id).is_none_or(|target| {
            cx.look.node(target).is_none_or(|node| !node.moves().any(|(p, _)| p == part.id))
        });
        let limit = if orphan { slow(all.config.freeze_ttl) } else { slow(all.config.freeze_max) };
        if lasted > limit {
            let kind = if orphan { "orphan freeze" } else { "freeze" };
            cx.breach("L2", part.id, || {
                let (node, token) = (frozen.node, frozen.token);
                format!("the {kind} {token:?} of {node:?} lasts {lasted:?}, longer than {limit:?}")
            });
        }
    }
}
