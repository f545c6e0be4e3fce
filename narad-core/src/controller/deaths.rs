//! Who is dead: silence on the leader's own clock, while it was itself awake to listen.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use super::{Controller, Decisions, Note};
use crate::config::{Config, Policy};
use crate::ids::{Incarnation, MoveId, NodeId, PartitionId};
use crate::metastore::{Assignment, Command, Member, State, Status};
use crate::time::Instant;

/// What one leader has heard, on its own monotonic clock (H19).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hearing {
    /// When it began to listen.
    since: Instant,
    /// When it last had a chance to listen.
    awake: Instant,
    heard: BTreeMap<NodeId, Heard>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Heard {
    incarnation: Incarnation,
    at: Instant,
    /// Moves to it that cannot go on, as it said last.
    stuck: BTreeSet<(PartitionId, MoveId)>,
}

impl Hearing {
    /// Begins to listen.
    pub(super) const fn new(now: Instant) -> Self {
        Self { since: now, awake: now, heard: BTreeMap::new() }
    }

    /// Takes note that this node is awake. One that slept has heard nobody meanwhile, and what was
    /// said to it waits unread: it begins to listen anew and judges later (case M137).
    pub(super) fn stay_awake(&mut self, now: Instant, config: &Config, policy: &Policy) {
        let longest_nap = (policy.dead_timeout / 2).max(config.controller_interval * 2);
        if now.since(self.awake) > longest_nap {
            self.since = now;
            for heard in self.heard.values_mut() {
                heard.at = now;
            }
        }
        self.awake = now;
    }

    /// Returns when this node must look again, so that it is not taken to have slept.
    pub(super) fn look_again(&self, pause: Duration) -> Instant {
        self.awake.after(pause)
    }

    /// Takes what a member said. Returns whether other moves are stuck than before.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        node: NodeId,
        incarnation: Incarnation,
        stuck: BTreeSet<(PartitionId, MoveId)>,
    ) -> bool {
        let news = self.heard.get(&node).map_or(!stuck.is_empty(), |heard| heard.stuck != stuck);
        self.heard.insert(node, Heard { incarnation, at: now, stuck });
        news
    }

    /// Returns whether the target has said that this very move cannot go on (case 140).
    pub(super) fn is_stuck(&self, partition: PartitionId, row: &Assignment) -> bool {
        let target = row.target.and_then(|target| self.heard.get(&target));
        target.is_some_and(|heard| heard.stuck.contains(&(partition, row.move_id)))
    }

    /// Returns when a member gave its last sign of life. A life that registers has just given one.
    fn last_sign(&mut self, now: Instant, member: &Member) -> Instant {
        let first = Heard { incarnation: member.incarnation, at: now, stuck: BTreeSet::new() };
        let heard = self.heard.entry(member.id).or_insert_with(|| first.clone());
        if heard.incarnation < member.incarnation {
            *heard = first;
        }
        heard.at
    }
}

impl Controller {
    /// Returns whether this reign has asked for the death of that life. One that the log still has
    /// as alive may not be leased then: the wait before a promotion counts the silence that led to
    /// its death.
    pub(crate) fn condemns(&self, node: NodeId, life: Incarnation) -> bool {
        self.condemned.get(&node) == Some(&life)
    }

    /// Declares those members dead of which this leader has heard nothing for `dead_timeout`.
    ///
    /// A new leader has heard nobody yet, so it listens for `grace_after_election` first (H19). A
    /// member that has never registered has nothing to lose, and must still learn the log. A
    /// leader that hears fewer voters than have just confirmed its barrier is deaf, and judges
    /// nobody (case M137). A death that was asked for is asked for again, whatever is heard
    /// meanwhile, until the log has decided: it may still take effect (rule 5 of the
    /// [crate docs](crate)), and nobody renews that life's lease before.
    pub(super) fn judge_deaths(&mut self, now: Instant, state: &State, decisions: &mut Decisions) {
        let timeout = state.policy().dead_timeout;
        let mut silent = BTreeSet::new();
        let mut heard = BTreeSet::from([self.me]);
        for member in state.members() {
            let judged = member.status == Status::Alive
                && !member.retired
                && member.incarnation > Incarnation(0);
            if member.id == self.me || !judged {
                continue;
            }
            let last_sign = self.hearing.last_sign(now, member);
            if now.since(last_sign) < timeout {
                heard.insert(member.id);
            }
            if now.since(last_sign) >= timeout || self.condemns(member.id, member.incarnation) {
                silent.insert(member.id);
            }
        }
        if now.since(self.hearing.since) < self.config.grace_after_election || silent.is_empty() {
            return;
        }
        let voters = &state.configuration().voters;
        let deaf = voters.intersection(&heard).count() <= voters.len() / 2;
        if deaf {
            decisions.notes.extend((!self.deaf).then_some(Note::Deaf));
        } else {
            for member in silent.iter().filter_map(|node| state.member(*node)) {
                let (node, incarnation) = (member.id, member.incarnation);
                if decisions.propose(Command::MarkDead { node, incarnation }) {
                    self.condemned.insert(node, incarnation);
                    decisions.notes.push(Note::Silent { node });
                }
            }
        }
        self.deaf = deaf;
    }
}
