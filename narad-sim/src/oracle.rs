//! Watches a world and says which invariant does not hold.
//!
//! The world tells an [`Oracle`] [`Fact`]s in the order in which they become true, and lets it
//! [`Look`] at disks and machines. Each invariant, S1 to S18 and L1 to L7, is a file of its own
//! that says what it checks; S17 (the same seed, the same trace) is the business of whoever runs a
//! world twice. Nothing here panics, draws or waits, and nothing that a machine says of itself is
//! believed where a log or a disk can be read.
//!
//! ```text
//!  world ── Fact ──▶ Oracle ──▶ Book: the committed log folded once more, lives, proposals
//!    ▲                 │         └ Part: one partition's reigns, records, captures, freezes
//!    └───── Look ◀─────┘──▶ s01 .. s18, l1 .. l7 ──▶ Violations, figures
//! ```
//!
//! A violation is told once per invariant and subject: what follows from it is not news.

mod book;
mod entries;
mod fact;
mod facts;
mod healing;
mod ingress;
mod l1_moves;
mod l2_freezes;
mod l2_renewals;
mod l3_leaving;
mod l4_accept;
mod l5_serving;
mod l6_reclaim;
mod l7_balance;
mod law;
mod look;
mod part;
mod s01_accepted;
mod s01_no_gap;
mod s02_leases;
mod s02_single_writer;
mod s03_owner_has_data;
mod s04_hidden_tail;
mod s05_offset_stability;
mod s06_force_gate;
mod s06_reports;
mod s07_position;
mod s08_flip;
mod s08_lives;
mod s09_freeze_exclusion;
mod s10_proof;
mod s11_arrivals;
mod s11_delivery;
mod s11_reservations;
mod s12_plans;
mod s14_in_flight;
mod s15_leaving;
mod s16_monotone;
mod s18_authority;
mod sets;
mod sink;
#[cfg(test)]
mod tests;

use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::ids::{LogIndex, Offset, PartitionId};
use narad_core::metastore::{Reply, State};

pub use fact::{
    AcceptFault, ConsumerFact, Directory, DiskChange, End, Fact, IngressFact, Origin, Read,
};
pub use look::{LogView, Look};

use crate::outcome::{Summary, Violation};
use crate::scenario::Ending;
use book::Book;
use s02_leases::Leases;
use s11_delivery::Deliveries;
use s12_plans::Plans;
use sink::{Cx, Sink};

/// What has been seen of one run, and what was wrong with it.
#[derive(Debug)]
pub struct Oracle {
    config: Config,
    book: Book,
    plans: Plans,
    leases: Leases,
    deliveries: Deliveries,
    tally: Tally,
    sink: Sink,
}

/// Figures of a run that follow from facts.
#[derive(Debug, Default)]
struct Tally {
    acked: u64,
    planned: u64,
    done: u64,
    forced: u64,
    given_up: u64,
    copied_bytes: u64,
}

impl Oracle {
    /// Begins to watch a world whose nodes have this configuration, jitter aside.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            book: Book::default(),
            plans: Plans::default(),
            leases: Leases::default(),
            deliveries: Deliveries::default(),
            tally: Tally::default(),
            sink: Sink::default(),
        }
    }

    /// Takes in what has become true after event `event` of the run.
    pub fn observe(&mut self, event: u64, fact: Fact<'_>, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.take_in(fact, &mut cx);
        self.sink = sink;
    }

    /// Judges what must hold after anything may have happened, before the world heals: that
    /// nothing is lost.
    pub fn finish_safety(&mut self, event: u64, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.book.check_everything("everything that happened", &mut cx);
        self.book.check_fold(&mut cx);
        self.sink = sink;
    }

    /// Judges what must hold once the world has healed and had its time. What needs time is judged
    /// only if [`Oracle::patience`] has passed since [`Fact::Liveness`], and since there was last
    /// nobody who led.
    pub fn finish_liveness(&mut self, event: u64, look: &dyn Look) {
        let mut sink = std::mem::take(&mut self.sink);
        let mut cx = Cx { event, now: look.now(), look, sink: &mut sink };
        self.book.watch(&self.config, &mut cx);
        self.book.check_everything("the world has healed", &mut cx);
        self.book.finish(&self.config, &self.deliveries, &mut cx);
        self.sink = sink;
    }

    /// Returns whether nothing is left to do: everything is served where it is to stay. A world
    /// may end its liveness phase then.
    pub fn is_settled(&self, look: &dyn Look) -> bool {
        let cx = Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() };
        self.book.is_settled(&self.config, &self.deliveries, &cx)
    }

    /// Returns how long a liveness phase must be for everything to have had its time.
    pub fn patience(&self) -> Duration {
        let policy = self.book.state().map_or_else(Policy::default, |state| state.policy().clone());
        healing::patience(&policy, &self.config)
    }

    /// Returns what has not finished, with the reason that it reports.
    pub fn waiting(&self, look: &dyn Look) -> Vec<String> {
        let mut cx = Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() };
        self.book.waiting(&self.config, &mut cx)
    }

    /// Returns the committed log's fold as far as any node has applied it; `None` before the first
    /// fact about it.
    pub fn state(&self) -> Option<&State> {
        self.book.state()
    }

    /// Returns how the newest entry of the log ended, if that is the one.
    pub fn ending_of(&self, index: LogIndex) -> Option<Ending> {
        Some(match self.reply_to(index)? {
            Reply::Applied(_) => Ending::Ok,
            Reply::Rejected(_) => Ending::Rejected,
        })
    }

    /// Returns what an entry was answered, if it is the newest one.
    pub fn reply_to(&self, index: LogIndex) -> Option<&Reply> {
        self.book.reply().filter(|(newest, _)| *newest == index).map(|(_, reply)| reply)
    }

    /// Returns what did not hold, in the order in which it was seen.
    pub fn violations(&self) -> &[Violation] {
        &self.sink.violations
    }

    /// Returns how many records that were acknowledged are nowhere any more, those that a stated
    /// exception excuses included; what retention took is not counted.
    pub fn lost(&self, look: &dyn Look) -> u64 {
        self.book.lost(&Cx { event: 0, now: look.now(), look, sink: &mut Sink::default() })
    }

    /// Returns how many accepted records an owner has appended once more, at a seam.
    pub fn arrived_again(&self) -> u64 {
        self.book.ingress.again
    }

    /// Returns how many flips the log refused.
    pub fn flips_rejected(&self) -> u64 {
        self.book.flips_rejected
    }

    /// Returns how many records of a partition consumers may see at least: the end of what was
    /// acknowledged or exposed in its present reign. `None` if nobody owns it.
    pub fn visible(&self, partition: PartitionId) -> Option<Offset> {
        Some(self.book.parts.get(&partition).filter(|part| !part.gone)?.last()?.visible)
    }

    /// Returns how long the freezes of a partition took that are over, in the order of their ends.
    pub fn freezes(&self, partition: PartitionId) -> &[Duration] {
        self.book.parts.get(&partition).map_or(&[], |part| &part.frozen_for)
    }

    /// Fills in the figures that follow from facts, and the violations.
    pub fn summarise(&self, summary: &mut Summary) {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let state = self.book.state();
        summary.partitions = count(state.map_or(0, |state| state.assignments().len()));
        summary.acked = self.tally.acked;
        summary.delivered = self.deliveries.delivered;
        summary.duplicates = self.deliveries.duplicates;
        summary.moves_planned = self.tally.planned;
        summary.moves_done = self.tally.done;
        summary.moves_forced = self.tally.forced;
        summary.moves_given_up = self.tally.given_up;
        summary.copied_bytes = self.tally.copied_bytes;
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let frozen = self.book.parts.values().flat_map(|part| &part.frozen_for);
        summary.freezes_us = frozen.map(micros).collect();
        summary.violations.extend_from_slice(&self.sink.violations);
    }
}
