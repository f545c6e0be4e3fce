//! Tells the log how far consumers can see in what moves away, so that no force-promote hides it
//! (H12).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;

use super::routes::{Route, Ticket};
use super::{Node, Operation, Outcome};
use crate::effects::Deadline;
use crate::ids::{Epoch, Offset, PartitionId};
use crate::metastore::{Command, Reply};
use crate::proposals::Proposed;
use crate::time::Instant;

/// The reports of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reports {
    /// When to look next; `None` while nothing moves away, or while a look is under way.
    next: Option<Instant>,
    under_way: bool,
    /// What the log is known to say.
    known: BTreeMap<PartitionId, (Epoch, Offset)>,
    /// What it is being told.
    told: BTreeMap<PartitionId, (Epoch, Offset)>,
}

impl Reports {
    pub(super) fn deadline(&self) -> Option<Deadline> {
        Some(Deadline { at: self.next?, why: "report what moves away" })
    }
}

impl Node {
    /// Begins to report as soon as something moves away, and stops when nothing does.
    pub(super) fn plan_reports(&mut self) {
        let moving = self.state.outbound_count(self.me.node) > 0 && self.is_registered_now();
        if !moving {
            self.reports.next = None;
            self.reports.known.clear();
        } else if self.reports.next.is_none() && !self.reports.under_way {
            self.reports.next = Some(self.now);
        }
    }

    pub(super) fn report_if_due(&mut self) {
        if self.reports.next.is_some_and(|next| next <= self.now) {
            self.reports.next = None;
            self.reports.under_way = true;
            let moving: Vec<PartitionId> =
                self.state.outbound_of(self.me.node).take(Command::REPORT_MAX).collect();
            self.run(Operation::Watermarks(moving), Route::Report);
        }
    }

    /// Reports what is new; nothing if nothing is.
    pub(super) fn watermarks_are_known(&mut self, outcome: Outcome) {
        let Outcome::Watermarks(found) = outcome else {
            self.report_again();
            return;
        };
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
            self.reports.known.extend(told);
        }
        self.report_again();
    }

    fn report_again(&mut self) {
        self.reports.under_way = false;
        self.reports.next = Some(self.now.after(self.config.heartbeat_interval));
        self.plan_reports();
    }
}
