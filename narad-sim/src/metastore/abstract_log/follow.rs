//! What each node is told of the log, and when.

use std::sync::Arc;
use std::time::Duration;

use narad_core::ids::{LogIndex, NodeId};
use narad_core::metastore::State;
use narad_core::node::Event;

use super::{AbstractLog, Due, Item, Output};
use crate::metastore::Reach;
use crate::time::Time;

impl AbstractLog {
    /// Has a node told of every entry so much later than others.
    pub fn set_lag(&mut self, now: Time, node: NodeId, lag: Duration) {
        self.now = self.now.max(now);
        self.members.entry(node).or_default().lag = lag;
        self.apply_soon(node);
    }

    /// Has a node told of nothing new until it is [released](Self::release).
    pub fn hold(&mut self, node: NodeId) {
        let member = self.members.entry(node).or_default();
        member.is_held = true;
        member.granted = member.applied;
        member.jump = None;
    }

    /// Lets a node catch up again.
    pub fn release(&mut self, now: Time, node: NodeId) {
        self.now = self.now.max(now);
        self.members.entry(node).or_default().is_held = false;
        self.apply_soon(node);
    }

    /// Gives a node the whole state at once, so that it never sees the entries in between.
    /// Returns whether it hears the leader and lacks anything.
    pub fn jump(&mut self, now: Time, node: NodeId, reach: &dyn Reach) -> bool {
        self.now = self.now.max(now);
        let behind = self.members.get(&node).is_some_and(|member| member.applied < self.last());
        let can = behind && self.hears(node, reach) && self.state.configuration().contains(node);
        let state = self.fresh_snapshot().filter(|_| can && !self.is_halted);
        if let Some(state) = state {
            self.give_snapshot(node, state);
        }
        can
    }

    /// Plans when a node hears of what it lacks.
    pub(super) fn apply_soon(&mut self, node: NodeId) {
        let takes = if self.leader == Some(node) { Duration::ZERO } else { self.hop() };
        let lags = self.faults.lag > 0.0 && self.fate.happens(self.faults.lag);
        let lag = if lags {
            self.fate.duration(Duration::ZERO..=self.faults.lag_max)
        } else {
            Duration::ZERO
        };
        self.plan_apply(node, takes + lag);
    }

    pub(super) fn plan_apply(&mut self, node: NodeId, takes: Duration) {
        let last = self.last();
        let Some(member) = self.members.get_mut(&node) else { return };
        let waits = member.is_up && !member.is_held && !member.awaits.entries;
        if waits && member.granted < last {
            member.awaits.entries = true;
            let lag = member.lag;
            self.schedule(takes + lag, Due::Apply(node));
        }
    }

    /// A node hears what is committed: from the leader, or of what it knew before from its disk.
    pub(super) fn hear_entries(&mut self, node: NodeId, reach: &dyn Reach) {
        let hears = self.hears(node, reach);
        let (last, is_leader) = (self.last(), self.leader == Some(node));
        let takes_part = self.takes_part(node);
        let Some(member) = self.members.get_mut(&node) else { return };
        member.awaits.entries = false;
        if !member.is_up || member.is_held || !reach.is_up(node) {
            return;
        }
        let heard = match member.end {
            _ if hears && takes_part => last,
            Some(end) if hears => end,
            _ => member.durable.known,
        };
        member.durable.known = member.durable.known.max(heard);
        let lag = member.lag;
        let (from, known) = (member.granted.max(member.applied), member.durable.known);
        if known <= from {
            return;
        }
        if from.0 + 1 < self.first.0 {
            // Its entries are gone; only a leader has a snapshot for it.
            if hears && takes_part && !self.is_halted {
                match self.snapshot_for(node) {
                    Some(image) => {
                        self.give_snapshot(node, image);
                        self.apply_soon(node);
                    }
                    None => self.retry_soon(node),
                }
            }
            return;
        }
        let skips = hears && takes_part && !is_leader && lag.is_zero() && !self.is_halted;
        if skips
            && self.fate.happens(self.faults.skip)
            && let Some(state) = self.fresh_snapshot()
        {
            return self.give_snapshot(node, state);
        }
        self.grant(node, from, known, lag);
    }

    /// Lets a node be told of what is old enough.
    fn grant(&mut self, node: NodeId, from: LogIndex, known: LogIndex, lag: Duration) {
        let mut to = from;
        while to < known && self.item(LogIndex(to.0 + 1)).0.after(lag) <= self.now {
            to.0 += 1;
        }
        let member = self.members.get_mut(&node).expect("it was there");
        member.granted = to;
        if to > from {
            self.activate(node);
        }
        if to < known {
            // Its lag is counted from when that was committed, and not from now.
            let wait = self.item(LogIndex(to.0 + 1)).0.after(lag).since(self.now);
            self.members.get_mut(&node).expect("it was there").awaits.entries = true;
            self.schedule(wait, Due::Apply(node));
        }
    }

    /// Returns a snapshot of all there is, if somebody has applied it: nobody else could make one.
    fn fresh_snapshot(&self) -> Option<Arc<State>> {
        (self.state.applied() <= self.reached).then(|| Arc::new(self.state.clone()))
    }

    /// Returns the newest snapshot that there can be for a node.
    fn snapshot_for(&self, node: NodeId) -> Option<Arc<State>> {
        // One that does not name its receiver would be ignored.
        let fits = |state: &Arc<State>| {
            state.applied() <= self.reached
                && state.applied().0 + 1 >= self.first.0
                && state.configuration().contains(node)
        };
        let kept = self.members.values().map(|member| &member.durable.image);
        let images = self.images.iter().chain(kept).filter(|image| fits(image));
        let image = images.max_by_key(|image| image.applied()).cloned();
        image.or_else(|| self.fresh_snapshot().filter(fits))
    }

    /// Has a node ask again in a moment for what nobody can give it yet.
    fn retry_soon(&mut self, node: NodeId) {
        const MOMENT: Duration = Duration::from_millis(50);
        self.members.entry(node).or_default().awaits.entries = true;
        self.schedule(MOMENT, Due::Apply(node));
    }

    fn give_snapshot(&mut self, node: NodeId, state: Arc<State>) {
        let member = self.members.get_mut(&node).expect("it was there");
        member.granted = member.granted.max(state.applied());
        member.durable.known = member.durable.known.max(state.applied());
        member.jump = Some(state);
        self.activate(node);
    }

    pub(super) fn activate(&mut self, node: NodeId) {
        if !self.active.contains(&node) {
            self.active.push_back(node);
        }
    }

    fn item(&self, index: LogIndex) -> &(Time, Item) {
        let at = usize::try_from(index.0 - self.first.0).expect("it is not so long");
        &self.items[at]
    }

    /// Returns the next thing that an active node is to be told.
    pub(super) fn tell_next(&mut self, reach: &dyn Reach) -> Option<Output> {
        while let Some(node) = self.active.front().copied() {
            if reach.is_up(node)
                && let Some(event) = self.next_event(node)
            {
                return Some(Output::Tell { node, event: Box::new(event) });
            }
            self.active.pop_front();
        }
        None
    }

    fn next_event(&mut self, node: NodeId) -> Option<Event> {
        if let Some(event) = self.passed_barrier(node) {
            return Some(event);
        }
        let member = self.members.get_mut(&node)?;
        if let Some(state) = member.jump.take()
            && state.applied() > member.applied
        {
            member.applied = state.applied();
            member.durable.image = Arc::clone(&state);
            return Some(Event::Restored(Box::new(State::clone(&state))));
        }
        if member.applied >= member.granted {
            return None;
        }
        let index = LogIndex(member.applied.0 + 1);
        member.applied = index;
        self.reached = self.reached.max(index);
        let old = member.durable.image.applied().0 + self.pace.snapshot_entries.max(1) <= index.0;
        if old && let Some(image) = self.images.iter().rev().find(|image| image.applied() == index)
        {
            member.durable.image = Arc::clone(image);
        }
        Some(match self.item(index).1.clone() {
            Item::Entry(entry) => Event::Committed { index, entry },
            Item::Configuration(configuration) => Event::Configured { index, configuration },
            Item::Empty => Event::Skipped { index },
        })
    }
}
