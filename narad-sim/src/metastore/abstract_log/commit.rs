//! From what a leader appends to what is committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use narad_core::controller::Change;
use narad_core::ids::{LogIndex, NodeId};
use narad_core::metastore::{Configuration, Entry};

use super::{AbstractLog, Due, Item};
use crate::metastore::Reach;
use crate::time::Time;

/// Something that the leader has appended.
#[derive(Clone, Debug)]
pub(super) struct Uncommitted {
    what: What,
    /// When a majority has it.
    due: Time,
    /// Whether others than the leader have it.
    is_shared: bool,
}

#[derive(Clone, Debug)]
enum What {
    Entry(Entry),
    Change(Change),
    /// What a reign begins with.
    Opening,
}

impl AbstractLog {
    /// A node appends an entry. Returns whether it says that it has: it believes that it leads.
    pub fn append(&mut self, now: Time, node: NodeId, entry: Entry, reach: &dyn Reach) -> bool {
        self.now = self.now.max(now);
        if self.believes(node) != Some(node) {
            return false;
        }
        if self.leader != Some(node) {
            self.lose(entry);
            return true;
        }
        if self.fate.happens(self.faults.lose) {
            return true;
        }
        if self.fate.happens(self.faults.late) {
            self.come_back(entry);
            return true;
        }
        if self.fate.happens(self.faults.twice) {
            self.come_back(entry.clone());
        }
        self.push(What::Entry(entry), reach);
        true
    }

    /// A node changes who takes part. Returns whether it says that it does.
    pub fn configure(
        &mut self,
        now: Time,
        node: NodeId,
        change: Change,
        reach: &dyn Reach,
    ) -> bool {
        self.now = self.now.max(now);
        let is_change = |tail: &Uncommitted| matches!(tail.what, What::Change(_));
        if self.believes(node) != Some(node) {
            return false;
        }
        if self.leader != Some(node) {
            return true;
        }
        if self.tail.iter().any(is_change) || changed(self.state.configuration(), change).is_none()
        {
            return false;
        }
        self.push(What::Change(change), reach);
        true
    }

    /// An entry is lost, unless it comes back with somebody who has it.
    pub(super) fn lose(&mut self, entry: Entry) {
        if self.fate.happens(self.faults.late) {
            self.come_back(entry);
        }
    }

    fn come_back(&mut self, entry: Entry) {
        let late = self.fate.duration(Duration::ZERO..=self.faults.late_max);
        self.schedule(late, Due::Late(Box::new(entry)));
    }

    /// An old entry turns up at the leader, if there is one.
    pub(super) fn turn_up(&mut self, entry: Entry, reach: &dyn Reach) {
        if self.fit_leader(reach).is_some() {
            self.push(What::Entry(entry), reach);
        }
    }

    /// Decides what of the last reign's tail the next one has, and begins it.
    pub(super) fn open_reign(&mut self, is_same: bool, reach: &dyn Reach) {
        let mut survives = true;
        for mut left in std::mem::take(&mut self.tail) {
            survives &= is_same || (left.is_shared && !self.fate.happens(self.faults.forget));
            if survives {
                left.due = self.now;
                self.tail.push_back(left);
            } else if let What::Entry(entry) = left.what {
                self.lose(entry);
            }
        }
        self.push(What::Opening, reach);
    }

    fn push(&mut self, what: What, reach: &dyn Reach) {
        let is_shared = self.fit_leader(reach).is_some();
        // There and back.
        let takes = self.hop() + self.hop();
        let before = self.tail.back().map_or(Time::ZERO, |last| last.due);
        let due = self.now.after(takes).max(before);
        self.tail.push_back(Uncommitted { what, due, is_shared });
        self.plan_commit();
    }

    /// Makes sure that the tail is looked at when its first entry is due.
    pub(super) fn plan_commit(&mut self) {
        if let (false, Some(first)) = (self.pending.commit, self.tail.front()) {
            self.pending.commit = true;
            let wait = first.due.since(self.now);
            self.schedule(wait, Due::Commit);
        }
    }

    /// Commits what is due, if the leader reaches a majority. Otherwise that waits until somebody
    /// is reached again, or for the next leader.
    pub(super) fn commit_due(&mut self, reach: &dyn Reach) {
        self.pending.commit = false;
        let Some(leader) = self.fit_leader(reach) else { return };
        let was_settled = self.is_settled;
        while self.tail.front().is_some_and(|first| first.due <= self.now) {
            let first = self.tail.pop_front().expect("it was there");
            self.commit(first.what, reach);
        }
        for left in &mut self.tail {
            left.is_shared = true;
        }
        // What it has committed it knows to be, even if it is cut off before it applies that.
        let last = self.last();
        self.members.get_mut(&leader).expect("it runs").durable.known = last;
        self.plan_commit();
        let all: Vec<NodeId> = self.members.keys().copied().collect();
        for node in all {
            if self.takes_part(node) || self.members[&node].end.is_some() {
                self.apply_soon(node);
            }
            if !was_settled {
                self.ask_again(node);
            }
        }
    }

    fn commit(&mut self, what: What, reach: &dyn Reach) {
        let index = LogIndex(self.last().0 + 1);
        let item = match what {
            What::Entry(entry) => {
                self.is_halted = self.is_halted || self.state.apply(index, &entry).is_err();
                Item::Entry(entry)
            }
            What::Change(change) => {
                let before = self.state.configuration().clone();
                // What cannot be done any more is an entry all the same.
                let after = changed(&before, change).unwrap_or_else(|| before.clone());
                if !self.is_halted {
                    self.state.configure(index, after.clone()).expect("it is the next");
                    self.members_changed(index, &before, reach);
                }
                Item::Configuration(after)
            }
            What::Opening => {
                self.is_settled = true;
                if !self.is_halted {
                    self.state.skip(index).expect("it is the next");
                }
                Item::Empty
            }
        };
        self.items.push_back((self.now, item));
        self.compact();
    }

    /// Notes who hears no more, and ends a joint change, as its leader does by itself.
    fn members_changed(&mut self, index: LogIndex, before: &Configuration, reach: &dyn Reach) {
        let after = self.state.configuration().clone();
        for (node, member) in &mut self.members {
            if after.contains(*node) {
                member.end = None;
            } else if before.contains(*node) {
                // Whether one hears of one's own removal is a matter of chance.
                let hears = self.leader == Some(*node) || self.fate.happens(0.5);
                member.end = Some(if hears { index } else { LogIndex(index.0 - 1) });
            }
        }
        for added in all(&after).difference(&all(before)) {
            self.members.entry(*added).or_default();
            self.follow(*added, reach);
        }
        if !after.voters_outgoing.is_empty() {
            self.push(What::Change(Change::LeaveJoint), reach);
        }
    }

    /// Makes an image of the state from time to time, and drops what is long before it.
    fn compact(&mut self) {
        let imaged = self.images.back().map_or(LogIndex(0), |image| image.applied());
        if self.is_halted || self.last().0 < imaged.0 + self.pace.snapshot_entries.max(1) {
            return;
        }
        self.images.push_back(Arc::new(self.state.clone()));
        if self.images.len() > Self::IMAGES_MAX {
            self.images.pop_front();
        }
        // A leader drops nothing that its own disk has no snapshot of.
        let leader = self.leader.and_then(|leader| self.members.get(&leader));
        let imaged = leader.map_or(0, |leader| leader.durable.image.applied().0);
        let dropped = imaged.min(self.last().0.saturating_sub(self.pace.keep_entries));
        while self.first.0 <= dropped {
            self.items.pop_front();
            self.first.0 += 1;
        }
    }
}

fn all(configuration: &Configuration) -> BTreeSet<NodeId> {
    let Configuration { voters, voters_outgoing, learners } = configuration;
    voters.iter().chain(voters_outgoing).chain(learners).copied().collect()
}

/// Returns the configuration after a change, or nothing if it makes no sense on top of this one.
fn changed(before: &Configuration, change: Change) -> Option<Configuration> {
    let mut after = before.clone();
    let is_joint = !before.voters_outgoing.is_empty();
    let makes_sense = match change {
        Change::LeaveJoint => {
            after.voters_outgoing.clear();
            is_joint
        }
        Change::AddLearner(node) => {
            !is_joint && !before.contains(node) && after.learners.insert(node)
        }
        Change::Promote(node) => {
            !is_joint && after.learners.remove(&node) && after.voters.insert(node)
        }
        Change::Remove(node) => {
            !is_joint && (after.learners.remove(&node) || after.voters.remove(&node))
        }
        Change::Replace { add, remove } => {
            after.voters_outgoing.clone_from(&before.voters);
            !is_joint
                && after.learners.remove(&add)
                && after.voters.insert(add)
                && after.voters.remove(&remove)
        }
    };
    (makes_sense && !after.voters.is_empty()).then_some(after)
}
