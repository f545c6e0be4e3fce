//! S2, leases: why there is only one writer of what is in play.
//!
//! That two nodes write at once takes a rare schedule, so the rules that keep it from happening are
//! watched as well:
//!
//! - a lease counts from the sending of a heartbeat that was answered, and only once the index that
//!   came with the answer is applied (H8);
//! - whoever answers a heartbeat led after it came: another leader before that, and none of the
//!   answerer's terms later, is a breach (H31);
//! - nobody is declared dead that was heard within the dead timeout (H19);
//! - nobody answers a node that is dead, or whose death it has asked for and the log has yet to
//!   decide about (H32);
//! - nothing is acknowledged in what is in play without a lease (H9, H28);
//! - a listing is answered only once the gate stands as in play (H45).
//!
//! Each is judged by the clock of the node that it is about, so that no bound of clock rates
//! matters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::freeze::gate::Authority;
use narad_core::ids::{Incarnation, LogIndex, NodeId};
use narad_core::metastore::Status;
use narad_core::time::Instant;

use super::part::Part;
use super::sink::Cx;
use crate::time::Time;

/// Answers of one node that are kept.
const ANSWERS_MAX: usize = 32;
/// Questions of one node that are kept.
const BEATS_MAX: usize = 4096;

/// What is known of leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// The longest lease that any policy has granted.
    longest: Duration,
    nodes: BTreeMap<NodeId, Holder>,
    /// Who became leader, and when, once for each.
    led: BTreeMap<NodeId, Time>,
    /// Deaths that were asked for and are not in the log: by whom, and since when.
    condemned: BTreeMap<(NodeId, Incarnation), (NodeId, Time)>,
    /// Who answered a life last, and when.
    granted: BTreeMap<(NodeId, Incarnation), (NodeId, Time)>,
    /// When the heartbeat came that was answered last, by leader and life.
    heard: BTreeMap<(NodeId, NodeId, Incarnation), Time>,
}

#[derive(Debug, Default)]
struct Holder {
    /// When, by its own clock, it asked what may renew its lease.
    beats: BTreeMap<OpId, Instant>,
    /// When it asked what was answered, and the index that came with the answer.
    answered: VecDeque<(Instant, LogIndex)>,
    authority: Option<Authority>,
    /// Whether it takes itself for the leader, and until when it last did, by its own clock.
    leads: bool,
    led_until: Option<Instant>,
}

impl Leases {
    /// A node begins a life: what was granted to an earlier one is over.
    pub(super) fn begins(&mut self, node: NodeId) {
        let holder = self.nodes.entry(node).or_default();
        holder.beats.clear();
        holder.answered.clear();
        (holder.authority, holder.led_until) = (None, None);
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.led.remove(&node);
        self.heard.retain(|(leader, ..), _| *leader != node);
    }

    /// Whether a node may serve what is in play, by the last word of its own.
    pub(super) fn may_serve(&self, node: NodeId, part: &Part, cx: &Cx<'_>) -> bool {
        let authority = self.nodes.get(&node).and_then(|holder| holder.authority);
        let Some((authority, now)) = authority.zip(cx.look.local(node)) else { return false };
        let gate = part.serving.iter().find(|serving| serving.node == node);
        gate.is_some_and(|gate| !gate.in_play || authority.lease_until > now)
            && authority.registered.is_some()
    }

    pub(super) fn asks(&mut self, node: NodeId, op: OpId, at: Instant) {
        let beats = &mut self.nodes.entry(node).or_default().beats;
        if beats.len() >= BEATS_MAX {
            beats.pop_first();
        }
        beats.insert(op, at);
    }

    pub(super) fn answered(&mut self, node: NodeId, op: OpId, index: LogIndex) {
        let holder = self.nodes.entry(node).or_default();
        if let Some(sent) = holder.beats.remove(&op) {
            if holder.answered.len() >= ANSWERS_MAX {
                holder.answered.pop_front();
            }
            holder.answered.push_back((sent, index));
        }
    }

    /// A node may do something else from now on.
    pub(super) fn authorised(&mut self, node: NodeId, authority: Authority, cx: &mut Cx<'_>) {
        let machines = cx.look.node(node);
        let state = machines.map(narad_core::node::Node::state);
        let applied = state.map(narad_core::metastore::State::applied).unwrap_or_default();
        if let Some(state) = state {
            self.longest = self.longest.max(state.policy().lease);
        }
        let holder = self.nodes.entry(node).or_default();
        let before = holder.authority.replace(authority);
        let until = authority.lease_until;
        // Whoever leads asks itself, which nobody sees.
        let itself = holder.led_until.is_some_and(|led| until <= led.after(self.longest));
        if holder.leads || itself {
            return;
        }
        let idle = until == Instant::ORIGIN || authority.registered.is_none();
        let known = |before: Authority| {
            before.registered == authority.registered && before.lease_until >= until
        };
        if idle || before.is_some_and(known) {
            return;
        }
        let counts = holder.answered.iter().rev().filter(|(_, index)| *index <= applied);
        let good_for = counts.map(|(sent, _)| sent.after(self.longest));
        // The newest answers are good for longest, so hardly more than one is looked at.
        if !good_for.clone().any(|good| good >= until) {
            let latest = good_for.max();
            cx.breach("S2", node, || {
                format!("it has a lease until {until:?}, what was answered is good for {latest:?}")
            });
        }
    }

    /// A node takes another one for the leader from now on, or itself.
    pub(super) fn follows(&mut self, node: NodeId, leader: Option<NodeId>, cx: &Cx<'_>) {
        let holder = self.nodes.entry(node).or_default();
        if leader == Some(node) {
            self.led.insert(node, cx.now);
            holder.leads = true;
        } else if std::mem::take(&mut holder.leads) {
            holder.led_until = cx.look.local(node);
        }
    }

    /// A leader answers a heartbeat that came to it at `received`.
    pub(super) fn grants(
        &mut self,
        leader: NodeId,
        (node, life): (NodeId, Incarnation),
        received: Time,
        cx: &mut Cx<'_>,
    ) {
        let since = self.led.get(&leader).copied().unwrap_or_default();
        let newest = cx.look.leader().filter(|newest| *newest != leader);
        let later = newest.and_then(|newest| Some((newest, *self.led.get(&newest)?)));
        if let Some((newest, led)) = later.filter(|(_, led)| *led > since && *led < received) {
            cx.breach("S2", leader, || {
                format!(
                    "it renews the lease of {node:?}, which asked at {received:?}: {newest:?} \
                     leads since {led:?}"
                )
            });
        }
        let state = cx.look.node(leader).map(narad_core::node::Node::state);
        let member = state.and_then(|state| state.member(node));
        let over = member.is_some_and(|member| {
            member.incarnation > life || member.status != Status::Alive || member.retired
        });
        if over {
            cx.breach("S2", leader, || {
                format!("it renews the lease of life {life} of {node:?}, which is over")
            });
        }
        self.granted.insert((node, life), (leader, cx.now));
        self.heard.insert((leader, node, life), received);
    }

    /// A leader asks for a death: it has heard nothing of that life for `dead_timeout` (H19).
    pub(super) fn condemns(
        &mut self,
        leader: NodeId,
        (node, life): (NodeId, Incarnation),
        clocks_wild: bool,
        cx: &mut Cx<'_>,
    ) {
        self.condemned.insert((node, life), (leader, cx.now));
        let policy = cx.look.node(leader).map(|machines| machines.state().policy().clone());
        let heard = self.heard.get(&(leader, node, life)).copied();
        let (Some(policy), Some(heard), false) = (policy, heard, clocks_wild) else { return };
        let least = policy.dead_timeout * 100 / (100 + policy.clock_rate_error_percent);
        let silent = cx.now.since(heard);
        if silent < least {
            cx.breach("S6", node, || {
                format!("{leader:?} declares it dead {silent:?} after it was heard")
            });
        }
    }

    /// A death is in the log.
    pub(super) fn died(&mut self, of: (NodeId, Incarnation), cx: &mut Cx<'_>) {
        let (Some((by, asked)), Some((leader, granted))) =
            (self.condemned.remove(&of), self.granted.remove(&of))
        else {
            return;
        };
        let led = self.led.get(&by).is_some_and(|led| *led <= asked);
        if leader == by && granted > asked && led {
            cx.breach("S2", by, || {
                let (node, life) = of;
                format!(
                    "it renewed the lease of life {life} of {node:?} after asking for its death"
                )
            });
        }
    }

    /// A node acknowledges something in a partition.
    pub(super) fn acknowledges(
        &self,
        invariant: &'static str,
        part: &Part,
        node: NodeId,
        cx: &mut Cx<'_>,
    ) {
        let in_play = part.serving.iter().any(|serving| serving.node == node && serving.in_play);
        let known = self.nodes.get(&node).and_then(|holder| holder.authority);
        let (Some(authority), Some(local), true) = (known, cx.look.local(node), in_play) else {
            return;
        };
        let until = authority.lease_until;
        if local >= until {
            cx.breach(invariant, part.id, || {
                format!("{node:?} acknowledges at {local:?} of its clock, leased until {until:?}")
            });
        }
    }
}

/// An owner begins to list.
pub(super) fn lists(part: &Part, node: NodeId, cx: &mut Cx<'_>) {
    let stands = part.serving.iter().find(|serving| serving.node == node);
    if stands.is_some_and(|serving| !serving.in_play) {
        cx.breach("S2", part.id, || format!("{node:?} lists before its gate stands as in play"));
    }
}
