//! Tells the log how far consumers can see in what moves away, so that no force-promote hides it
//! (H12).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::routes::{Route, Ticket};
use super::{Node, Operation};
use crate::effects::Deadline;
use crate::ids::{Epoch, Offset, PartitionId};
use crate::metastore::{Command, Reply};
use crate::planted::{Bug, is_planted};
use crate::proposals::Proposed;
use crate::time::Instant;

/// The reports of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reports {
    /// When to look next; `None` while nothing moves away, or while a look is under way.
    next: Option<Instant>,
    under_way: bool,
    /// What moves away and was looked at once at least: the first look does not wait (H12).
    seen: BTreeSet<PartitionId>,
    /// What the log is known to say.
    known: BTreeMap<PartitionId, (Epoch, Offset)>,
    /// What it is being told.
    told: BTreeMap<PartitionId, (Epoch, Offset)>,
    /// Where the last look ended, if one entry could not hold everything.
    after: Option<PartitionId>,
}

impl Reports {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        Some(Deadline { at: self.next?, why: "report what moves away" })
    }

    /// Takes note that a row has changed. Returns whether it is one that nobody has looked at.
    pub(super) fn row_changed(&mut self, partition: PartitionId, moves_away: bool) -> bool {
        if !moves_away {
            self.seen.remove(&partition);
            self.known.remove(&partition);
        }
        moves_away && !self.seen.contains(&partition)
    }
}

impl Node {
    /// Begins to report as soon as something moves away, and stops when nothing does.
    pub(super) fn plan_reports(&mut self) {
        let moving = self.state.outbound_count(self.me.node) > 0 && self.is_registered_now();
        if !moving || is_planted(Bug::NothingReported) {
            self.reports.next = None;
            self.reports.seen.clear();
            self.reports.known.clear();
        } else if self.reports.next.is_none() && !self.reports.under_way {
            self.reports.next = Some(self.now);
        }
        self.report_if_due();
    }

    /// Looks at once at what has just begun to move away.
    pub(super) fn report_row(&mut self, partition: PartitionId) {
        let moves_away = self
            .state
            .assignment(partition)
            .is_some_and(|row| row.owner == self.me.node && row.target.is_some());
        if self.reports.row_changed(partition, moves_away) && !self.reports.under_way {
            self.reports.next = Some(self.now);
        }
    }

    pub(super) fn report_if_due(&mut self) {
        if self.reports.next.is_none_or(|next| next > self.now) {
            return;
        }
        let after = self.reports.after;
        let rest = |partition: &PartitionId| after.is_none_or(|after| *partition > after);
        let moving: Vec<PartitionId> =
            self.state.outbound_of(self.me.node).filter(rest).take(Command::REPORT_MAX).collect();
        let full = moving.len() == Command::REPORT_MAX;
        self.reports.after = moving.last().copied().filter(|_| full);
        self.reports.seen.extend(&moving);
        self.reports.next = None;
        self.reports.under_way = true;
        self.run(Operation::Watermarks(moving), Route::Report);
    }

    /// Reports what is new; nothing if nothing is.
    pub(super) fn watermarks_are_known(&mut self, found: Vec<(PartitionId, Epoch, Offset)>) {
        let known = &self.reports.known;
        let news: BTreeMap<PartitionId, (Epoch, Offset)> = found
            .into_iter()
            .map(|(partition, epoch, hwm)| (partition, (epoch, hwm)))
            .filter(|(partition, seen)| known.get(partition) != Some(seen))
            .collect();
        if news.is_empty() {
            self.report_again();
            return;
        }
        let hwms =
            news.iter().map(|(partition, (epoch, hwm))| (*partition, *epoch, *hwm)).collect();
        self.reports.told = news;
        let (node, incarnation) = (self.me.node, self.lease.incarnation());
        self.propose(Command::Report { node, incarnation, hwms }, Ticket::Report);
    }

    pub(super) fn report_is_decided(&mut self, proposed: &Proposed) {
        let told = mem::take(&mut self.reports.told);
        if matches!(proposed, Proposed::Replied(Reply::Applied(_))) {
            let seen = &self.reports.seen;
            let told = told.into_iter().filter(|(partition, _)| seen.contains(partition));
            self.reports.known.extend(told);
        }
        self.report_again();
    }

    /// Goes on after the interval, or at once with what has begun to move away meanwhile.
    fn report_again(&mut self) {
        let seen = &self.reports.seen;
        let unseen =
            |partition: PartitionId| !seen.contains(&partition) || self.reports.after.is_some();
        let at_once = self.state.outbound_of(self.me.node).any(unseen);
        let pause = if at_once { Duration::ZERO } else { self.config.heartbeat_interval };
        self.reports.under_way = false;
        self.reports.next = Some(self.now.after(pause));
    }
}
