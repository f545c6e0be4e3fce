//! Judges a world that has healed: what must have ended, and what says why it has not (L1 to L7).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::{Member, State};
use narad_core::mover::{Progress, Waiting};

use super::book::{Book, Witness};
use super::l1_moves::{self, Stand};
use super::part::Part;
use super::s11_delivery::{self, Deliveries};
use super::sets::Ids;
use super::sink::Cx;
use super::{l2_freezes, l3_leaving, l5_serving, l6_reclaim, l7_balance, s01_no_gap};
use crate::time::Time;

/// The world as it has healed.
pub(super) struct Healed<'a> {
    pub(super) state: &'a State,
    pub(super) config: &'a Config,
    /// Since when it only heals.
    pub(super) since: Time,
    /// When there was last nobody who led.
    pub(super) leaderless: Time,
    pub(super) clocks_wild: bool,
    pub(super) nodes: &'a BTreeMap<NodeId, Witness>,
    /// How long anything may take.
    pub(super) patience: Duration,
    pub(super) leader: Option<NodeId>,
    /// Nodes whose process runs and that can talk to the leader.
    well: BTreeSet<NodeId>,
    /// Partitions whose move reports what it waits for.
    pub(super) reported: BTreeMap<PartitionId, String>,
}

/// Returns how long anything may take once the world heals, under a policy and a configuration:
/// a death is noticed by a new leader, waited out, promoted; pauses and timeouts on top.
pub(super) fn patience(policy: &Policy, config: &Config) -> Duration {
    policy.dead_timeout
        + policy.promotion_wait(policy.lease_reach(), policy.dead_timeout)
        + config.grace_after_election
        + config.freeze_ttl
        + steps(config)
}

/// Returns how long a few steps of a controller may take that wait for nobody.
pub(super) fn steps(config: &Config) -> Duration {
    config.retry_max * 4 + config.request_timeout * 6 + config.controller_interval * 10
}

/// Returns how long whatever is under way may take to be seen.
fn moment(config: &Config) -> Duration {
    config.request_timeout * 4
}

impl<'a> Healed<'a> {
    pub(super) fn new(book: &'a Book, config: &'a Config, cx: &Cx<'_>) -> Option<Self> {
        let state = book.state()?;
        let leader = cx.look.leader();
        let up = cx.look.up().into_iter();
        let well =
            up.filter(|node| leader.is_some_and(|at| at == *node || cx.look.talks(*node, at)));
        Some(Self {
            state,
            config,
            since: book.healing.unwrap_or(cx.now),
            leaderless: book.leaderless,
            clocks_wild: book.clocks_wild,
            nodes: &book.nodes,
            patience: patience(state.policy(), config),
            leader,
            well: well.collect(),
            reported: BTreeMap::new(),
        })
    }

    /// Whether a node's process runs and can talk to the leader.
    pub(super) fn is_well(&self, node: NodeId) -> bool {
        self.well.contains(&node)
    }

    /// Returns what is known of a node.
    pub(super) fn witness(&self, node: NodeId) -> Witness {
        self.nodes.get(&node).copied().unwrap_or_default()
    }

    pub(super) fn destination(&self, partition: PartitionId) -> Option<NodeId> {
        self.state.assignment(partition)?.target.filter(|target| self.is_well(*target))
    }

    /// Returns the nodes that report that they hold what a flip left behind, and those that are not
    /// there to say so.
    fn left_behind(&self, partition: PartitionId, cx: &Cx<'_>) -> Vec<NodeId> {
        let holds = |node: &NodeId| {
            let machines = cx.look.node(*node).filter(|_| self.is_well(*node));
            machines.is_none_or(|node| node.left_behind().any(|left| left == partition))
        };
        self.state.members().map(|member| member.id).filter(holds).collect()
    }

    /// Whether the world has had its time since it began to heal.
    pub(super) fn had_its_time(&self, cx: &Cx<'_>) -> bool {
        cx.now.since(self.since.max(self.leaderless)) > self.patience
    }
}

impl Book {
    /// Looks at what goes on while the world heals.
    pub(super) fn watch(&mut self, config: &Config, cx: &mut Cx<'_>) {
        if cx.look.leader().is_none() {
            self.leaderless = cx.now;
        }
        let mut moves: Vec<(PartitionId, NodeId, Progress)> = Vec::new();
        for id in cx.look.up() {
            if let Some(node) = cx.look.node(id) {
                moves.extend(node.moves().map(|(partition, progress)| (partition, id, progress)));
            }
        }
        for (partition, node, progress) in &moves {
            let target = self.state().and_then(|state| state.assignment(*partition)?.target);
            let part = self.part_mut(*partition).filter(|_| target == Some(*node));
            if let Some(part) = part {
                l1_moves::watch(part, progress, cx);
            }
        }
        let ends = self.state().into_iter().flat_map(|state| {
            let row = |partition| state.assignment(partition).map(|row| (partition, row));
            state.targeted().filter_map(row)
        });
        let ends: Vec<_> =
            ends.map(|(partition, row)| (partition, row.owner, row.target)).collect();
        for (partition, owner, target) in ends {
            if let (Some(part), Some(target)) = (self.part_mut(partition), target) {
                l1_moves::hinder(part, owner, target, cx);
            }
        }
        let Some(mut all) = Healed::new(self, config, cx) else { return };
        let told = self.check_moves(&mut all, cx);
        let apart: Vec<NodeId> = self.nodes.keys().copied().filter(|n| !all.is_well(*n)).collect();
        let is_held = |member: &&Member| !l3_leaving::may_leave(member, &all, cx);
        let held: Vec<NodeId> = all.state.members().filter(is_held).map(|it| it.id).collect();
        for node in apart {
            self.nodes.entry(node).or_default().apart = cx.now;
        }
        for node in held {
            self.nodes.entry(node).or_default().held = cx.now;
        }
        let Some(all) = Healed::new(self, config, cx) else { return };
        for part in self.parts.values() {
            l2_freezes::check(part, &all, cx);
        }
        for (partition, reason) in told {
            if let Some(part) = self.part_mut(partition) {
                part.plan.told = Some((cx.now, reason));
            }
        }
    }

    /// Judges the moves, and takes note of what those say that wait. Returns what of that is so at
    /// this moment.
    fn check_moves(&self, all: &mut Healed<'_>, cx: &mut Cx<'_>) -> Vec<(PartitionId, Waiting)> {
        let mut now = Vec::new();
        for partition in all.state.targeted() {
            let Some(row) = all.state.assignment(partition) else { continue };
            let (Some(part), Some(target)) = (self.parts.get(&partition), row.target) else {
                continue;
            };
            match l1_moves::judge(part, row, target, all, cx) {
                Stand::Going => {}
                Stand::Waits(reason) => {
                    now.push((partition, reason));
                    all.reported.insert(partition, reason.to_string());
                }
                Stand::Reported(reason) => {
                    all.reported.insert(partition, reason);
                }
                Stand::Stuck(why) => {
                    if all.leader.is_some() {
                        cx.breach("L1", partition, || format!("its move to {target:?}: {why}"));
                    }
                }
            }
        }
        now
    }

    /// Judges what must hold once the world has had its time. Judges nothing before.
    pub(super) fn finish(&self, config: &Config, deliveries: &Deliveries, cx: &mut Cx<'_>) {
        let Some(mut all) = Healed::new(self, config, cx) else { return };
        self.check_moves(&mut all, cx);
        if !all.had_its_time(cx) {
            return;
        }
        for member in all.state.members().filter(|member| member.draining) {
            l3_leaving::check(member, &all, cx);
        }
        for node in &all.well {
            let moves = cx.look.node(*node).into_iter().flat_map(narad_core::node::Node::moves);
            for partition in moves.map(|(partition, _)| partition).collect::<Vec<_>>() {
                l1_moves::outlives(all.state, *node, partition, cx);
            }
        }
        let mut excused = Ids::default();
        for part in self.parts.values() {
            let row = all.state.assignment(part.id);
            let quiet = row.is_none_or(|row| l5_serving::waits_for(part, row, &all, cx).is_some());
            if let Some(row) = row {
                l5_serving::check(part, row, &all, cx);
            }
            for node in all.well.clone() {
                l6_reclaim::check(part, node, &all, cx);
            }
            let left = all.left_behind(part.id, cx);
            let moment = moment(config);
            if !quiet {
                s11_delivery::finish(part, deliveries, &left, moment, cx);
            }
            let is_busy = s11_delivery::is_under_way(part, moment, cx);
            for acked in &part.acked {
                if quiet || is_busy || s01_no_gap::is_excused(part, acked, &left) {
                    excused.insert(acked.id);
                }
            }
        }
        self.excuse_waiting(&all, &mut excused, cx);
        s11_delivery::finish_accepted(&self.ingress.promised, deliveries, &excused, cx);
        for node in all.well.clone() {
            l6_reclaim::check_ingress(self, node, &all, cx);
        }
        l7_balance::check(&all, cx);
    }

    /// Excuses what has not arrived: its topic is gone, its node is not there, or a partition of its
    /// topic may not take it. Of what has arrived its partition says more.
    fn excuse_waiting(&self, all: &Healed<'_>, excused: &mut Ids, cx: &Cx<'_>) {
        for (node, log) in &self.ingress.logs {
            let held_up = l6_reclaim::ingress_is_stuck(self, *node, all, cx).is_none();
            for record in log.open() {
                if held_up || all.state.topic(record.topic).is_none() {
                    excused.insert(record.id);
                }
            }
        }
        for promise in &self.ingress.promised {
            let gone = all.state.topic(promise.topic).is_none();
            if gone || self.ingress.excused.contains(promise.id) {
                excused.insert(promise.id);
            }
        }
    }

    /// Returns what has not finished, with the reason that it reports.
    pub(super) fn waiting(&self, config: &Config, cx: &mut Cx<'_>) -> Vec<String> {
        let Some(mut all) = Healed::new(self, config, cx) else { return Vec::new() };
        self.check_moves(&mut all, cx);
        let mut found: Vec<String> =
            all.reported.iter().map(|(p, why)| format!("the move of {p:?}: {why}")).collect();
        for (partition, row) in all.state.assignments() {
            let Some(part) = self.parts.get(&partition) else { continue };
            if let Some(why) = l5_serving::waits_for(part, row, &all, cx) {
                found.push(format!("{partition:?}: {why}"));
            }
        }
        for member in all.state.members().filter(|member| member.draining) {
            if let Err(why) = l3_leaving::waits_for(member, &all, cx) {
                found.push(format!("the decommission of {:?}: {why}", member.id));
            }
        }
        found
    }

    /// Whether nothing is left to do: every partition is served where it is to stay.
    pub(super) fn is_settled(&self, config: &Config, deliveries: &Deliveries, cx: &Cx<'_>) -> bool {
        let Some(all) = Healed::new(self, config, cx) else { return false };
        let drained = |member: &Member| {
            !member.draining || (member.retired && !all.state.configuration().contains(member.id))
        };
        let served = |row: &narad_core::metastore::Assignment, partition| {
            let owner = cx.look.node(row.owner).filter(|_| all.is_well(row.owner));
            owner.is_some_and(|owner| owner.serving(partition) == Some(row.epoch))
        };
        let goes_on = |node: &NodeId| {
            let moves = cx.look.node(*node).into_iter().flat_map(narad_core::node::Node::moves);
            moves.map(|(partition, _)| partition).any(|p| all.state.assignment(p).is_none())
        };
        let awaited = |part: &Part| {
            let left = all.left_behind(part.id, cx);
            s11_delivery::is_awaited(part, deliveries, &left, moment(config), cx)
        };
        let empty = |node: &NodeId| l6_reclaim::ingress_waits(self, *node, &all, cx).is_none();
        all.leader.is_some()
            && all.well.iter().all(empty)
            && !all.well.iter().any(goes_on)
            && all.state.unassigned().len() == 0
            && all.state.targeted().len() == 0
            && all.state.members().all(drained)
            && all.state.assignments().all(|(partition, row)| served(row, partition))
            && !self.parts.values().any(awaited)
            && narad_core::controller::placement(all.state, |_, _| false).is_some_and(|placement| {
                narad_core::plan::plan(&placement, &narad_core::plan::Limits::UNLIMITED).is_empty()
            })
    }
}
