//! L2, renewals: a freeze is given up neither while its copy makes progress nor later than it may.
//!
//! Judged by the source's own clock, by the renewals that it has answered: a freeze must not be
//! revoked for want of progress within `freeze_ttl` of the last one that brought some (H22), and
//! none may be granted once it has lasted `freeze_max`.

use std::time::Duration;

use narad_core::config::Config;
use narad_core::freeze::handoff::Cause;
use narad_core::ids::{NodeId, Token};
use narad_core::time::Instant;

use super::part::Part;
use super::sink::Cx;

/// What one event of a clock may be late.
const MOMENT: Duration = Duration::from_millis(1);

/// The freeze that was last begun or renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Renewed {
    token: Token,
    node: NodeId,
    since: Instant,
    at: Instant,
    staged_bytes: u64,
}

/// A gate froze.
pub(super) fn begins(part: &mut Part, node: NodeId, token: Token, cx: &Cx<'_>) {
    let Some(at) = cx.look.local(node) else { return };
    if part.renewed.is_none_or(|renewed| renewed.token != token) {
        part.renewed = Some(Renewed { token, node, since: at, at, staged_bytes: 0 });
    }
}

/// A source grants more time.
pub(super) fn renews(
    part: &mut Part,
    (node, token): (NodeId, Token),
    staged_bytes: u64,
    config: &Config,
    cx: &mut Cx<'_>,
) {
    acts_upon(part, (node, token), cx);
    let Some(at) = cx.look.local(node) else { return };
    let Some(renewed) = &mut part.renewed else { return };
    if (renewed.token, renewed.node) != (token, node) {
        return;
    }
    if staged_bytes > renewed.staged_bytes {
        (renewed.staged_bytes, renewed.at) = (staged_bytes, at);
    }
    let lasts = at.since(renewed.since);
    if lasts > config.freeze_max + MOMENT {
        cx.breach("L2", part.id, || {
            let max = config.freeze_max;
            format!("{node:?} grants {token:?} more time after {lasts:?}, {max:?} is the most")
        });
    }
}

/// A source grants something to a freeze, which must be the one that it holds (H21).
pub(super) fn acts_upon(part: &Part, (node, token): (NodeId, Token), cx: &mut Cx<'_>) {
    if let Some(held) = part.renewed.filter(|held| held.node == node && held.token != token) {
        cx.breach("L2", part.id, || {
            format!("{node:?} takes what is said of {token:?} for {:?}", held.token)
        });
    }
}

/// A source gives a freeze up.
pub(super) fn revokes(
    part: &Part,
    (node, token): (NodeId, Token),
    cause: Cause,
    config: &Config,
    cx: &mut Cx<'_>,
) {
    let (Some(at), Some(renewed)) = (cx.look.local(node), part.renewed) else { return };
    if (renewed.token, renewed.node) != (token, node) || cause != Cause::NoProgress {
        return;
    }
    let idle = at.since(renewed.at);
    if idle + MOMENT < config.freeze_ttl {
        cx.breach("L2", part.id, || {
            let ttl = config.freeze_ttl;
            format!("{node:?} gives {token:?} up {idle:?} after it made progress, {ttl:?} is due")
        });
    }
}
