//! What a node tells a Prometheus server that scrapes it.
//!
//! # Purpose
//!
//! Counters and histograms follow the node's notes; gauges are what the node is at the moment of the
//! scrape, so that nothing is kept twice. Every name begins with `narad_`, units are seconds and bytes,
//! and no label has a value that grows with the cluster: partitions and nodes are not labels.
//!
//! | question | query |
//! |---|---|
//! | how long are partitions frozen? | `histogram_quantile(0.99, sum by (le) (rate(narad_freeze_seconds_bucket[1h])))` |
//! | are freezes as long as they were said to be? | `sum(rate(narad_freeze_seconds_sum[1h])) / sum(rate(narad_predicted_freeze_seconds_sum[1h]))` |
//! | does anything move? | `sum(narad_moves_in_flight)` |
//! | what do moves wait for? | `sum by (reason) (increase(narad_move_waits_total[10m]))` |
//! | how long do moves take? | `histogram_quantile(0.9, sum by (le) (rate(narad_move_duration_seconds_bucket[1h])))` |
//! | is there one leader? | `sum(narad_leader)` |
//! | does a node lag behind the log? | `scalar(max(narad_raft_committed_index)) - narad_raft_applied_index` |
//! | how often does the lead change hands? | `max(narad_raft_term)` |
//! | is a lease about to run out? | `narad_lease_seconds` |
//! | how much is delivered twice? | `rate(narad_records_redelivered_total[5m])` |
//! | what is accepted and not at its owner? | `sum(narad_backlog_records)` |
//! | who knocks that should not? | `sum by (port, reason) (rate(narad_connections_refused_total[5m]))` |
//!
//! # After a restart
//!
//! Counters begin again at zero, as such servers expect.

mod classic;
mod register;

#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use narad_core::ids::NodeId;
use narad_core::metastore::Status;
use narad_core::mover::{self, Waiting};
use narad_core::node::{Node, Note};
use narad_core::time::Instant;
use narad_core::{controller, dispatch};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::mind::Pulse;
use crate::net::Tally;
use crate::node_loop::Observer;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How a scrape is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// In the text format of `OpenMetrics`.
    OpenMetrics,
    /// In the older text format of Prometheus, which every scraper reads.
    Classic,
}

impl Format {
    /// Chooses what an `Accept` header asks for: the older format, unless it names the newer one.
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    /// Returns its content type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => CONTENT_TYPE,
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes in it what is in the text format of `OpenMetrics`.
    pub fn write(self, open: String) -> String {
        match self {
            Self::OpenMetrics => open,
            Self::Classic => classic::classic(&open),
        }
    }
}

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// Who was refused where, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    port: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    state: &'static str,
}

/// Counts of one node's life, and what it is right now.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    moves: Family<Outcome, Counter>,
    waits: Family<Reason, Counter>,
    copied_bytes: Counter,
    passes: Counter,
    freeze: Histogram,
    predicted_freeze: Histogram,
    not_converged: Counter,
    mismatches: Counter,
    flips_unknown: Counter,
    flips_rejected: Counter,
    rerouted: Counter,
    dropped: Counter,
    damaged: Counter,
    salvaged_bytes: Counter,
    acks_forwarded: Counter,
    leader_changes: Counter,
    plans_outrun: Counter,
    duration: Histogram,
    redelivered: Counter,
    proposals: Family<Outcome, Counter>,
    refused: Family<Refusal, Counter>,
    tally: Tally,
    raft: Raft,
    /// What of the proposals has been counted.
    counted: Mutex<(u64, u64)>,
    gauges: Gauges,
}

/// How the replicated log stands.
#[derive(Debug, Default)]
struct Raft {
    term: Gauge,
    last: Gauge,
    committed: Gauge,
    applied: Gauge,
}

/// What is looked at when somebody asks.
#[derive(Debug, Default)]
struct Gauges {
    in_flight: Gauge,
    waiting: Gauge,
    copy_rate: Gauge,
    partitions: Family<State, Gauge>,
    members: Family<State, Gauge>,
    leader: Gauge,
    registered: Gauge,
    leader_known: Gauge,
    backlog_records: Gauge,
    backlog_bytes: Gauge,
    lease: Gauge<f64, AtomicU64>,
}

/// What a scrape sees of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    in_flight: u64,
    waiting: u64,
    copy_rate: u64,
    owned: u64,
    inbound: u64,
    outbound: u64,
    alive: u64,
    dead: u64,
    draining: u64,
    retired: u64,
    leads: bool,
    leader_known: bool,
    registered: bool,
    backlog_records: u64,
    backlog_bytes: u64,
    lease_until: Option<Instant>,
}

impl Sight {
    /// Looks at a node; it changes nothing.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let (state, me): (_, NodeId) = (node.state(), node.identity().node);
        let mut sight = Self {
            owned: state.owned_count(me) as u64,
            inbound: state.inbound_count(me) as u64,
            outbound: state.outbound_count(me) as u64,
            leads: node.leader() == Some(me),
            leader_known: node.leader().is_some(),
            registered: node.is_registered(),
            backlog_records: node.backlog().records,
            backlog_bytes: node.backlog().bytes,
            lease_until: Some(node.authority().lease_until),
            ..Self::default()
        };
        for (_, progress) in node.moves() {
            sight.in_flight += 1;
            sight.waiting += u64::from(progress.waiting.is_some());
            sight.copy_rate = sight.copy_rate.saturating_add(progress.copy_rate);
        }
        for member in state.members() {
            let count = match member.status {
                _ if member.retired => &mut sight.retired,
                Status::Alive if member.draining => &mut sight.draining,
                Status::Alive => &mut sight.alive,
                Status::Dead(_) => &mut sight.dead,
            };
            *count += 1;
        }
        sight
    }
}

impl Gauges {
    fn show(&self, sight: &Sight) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.in_flight, sight.in_flight);
        set(&self.waiting, sight.waiting);
        set(&self.copy_rate, sight.copy_rate);
        for (state, value) in
            [("owned", sight.owned), ("inbound", sight.inbound), ("outbound", sight.outbound)]
        {
            set(&self.partitions.get_or_create(&State { state }), value);
        }
        for (state, value) in [
            ("alive", sight.alive),
            ("draining", sight.draining),
            ("dead", sight.dead),
            ("retired", sight.retired),
        ] {
            set(&self.members.get_or_create(&State { state }), value);
        }
        set(&self.leader, sight.leads.into());
        set(&self.leader_known, sight.leader_known.into());
        set(&self.registered, sight.registered.into());
        set(&self.backlog_records, sight.backlog_records);
        set(&self.backlog_bytes, sight.backlog_bytes);
    }
}

/// From a quarter of a millisecond to some two minutes.
fn freezes() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 20))
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Begins to count.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("narad");
        let metrics = Self {
            moves: Family::default(),
            waits: Family::default(),
            copied_bytes: Counter::default(),
            passes: Counter::default(),
            freeze: freezes(),
            predicted_freeze: freezes(),
            not_converged: Counter::default(),
            mismatches: Counter::default(),
            flips_unknown: Counter::default(),
            flips_rejected: Counter::default(),
            rerouted: Counter::default(),
            dropped: Counter::default(),
            damaged: Counter::default(),
            salvaged_bytes: Counter::default(),
            acks_forwarded: Counter::default(),
            leader_changes: Counter::default(),
            plans_outrun: Counter::default(),
            // From a tenth of a second to some five hours.
            duration: Histogram::new(exponential_buckets(0.1, 2.0, 18)),
            redelivered: Counter::default(),
            proposals: Family::default(),
            refused: Family::default(),
            tally: Tally::default(),
            raft: Raft::default(),
            counted: Mutex::default(),
            gauges: Gauges::default(),
            registry: Registry::default(),
        };
        let version = vec![("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "What runs here", Info::new(version));
        metrics.register_moves(&mut registry);
        metrics.register_records(&mut registry);
        metrics.register_cluster(&mut registry);
        Self { registry, ..metrics }
    }

    /// Returns where listeners count whom they refuse.
    pub fn refused(&self) -> Tally {
        self.tally.clone()
    }

    /// Counts a move that ended in a flip.
    pub fn moved(&self, lasted: Duration) {
        self.duration.observe(lasted.as_secs_f64());
    }

    /// Counts records that a consumer has got again.
    pub fn redelivered(&self, records: u64) {
        self.redelivered.inc_by(records);
    }

    /// Takes how the replicated log stands.
    pub fn pulse(&self, pulse: &Pulse) {
        let set = |gauge: &Gauge, value: u64| gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        set(&self.raft.term, pulse.term);
        set(&self.raft.last, pulse.last.0);
        set(&self.raft.committed, pulse.committed.0);
        set(&self.raft.applied, pulse.applied.0);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let add = |outcome, now: u64, before: u64| {
            let more = now.saturating_sub(before);
            self.proposals.get_or_create(&Outcome { outcome }).inc_by(more);
        };
        add("appended", pulse.proposed, counted.0);
        add("refused", pulse.refused, counted.1);
        *counted = (pulse.proposed, pulse.refused);
    }

    /// Counts one note.
    pub fn note(&self, note: &Note) {
        match note {
            Note::Mover(_, note) => self.note_of_move(note),
            Note::Dispatch(dispatch::Note::Rerouted { records, .. }) => {
                self.rerouted.inc_by(u64::from(*records));
            }
            Note::Dispatch(dispatch::Note::Dropped { records, .. }) => {
                self.dropped.inc_by(*records);
            }
            Note::Dispatch(dispatch::Note::Damaged { records, .. }) => {
                self.damaged.inc_by(*records);
            }
            Note::Salvaged { salvaged, .. } => {
                self.salvaged_bytes.inc_by(salvaged.bytes);
            }
            Note::AcksForwarded { .. } => {
                self.acks_forwarded.inc();
            }
            Note::Leader(_) => {
                self.leader_changes.inc();
            }
            Note::Controller(controller::Note::Outrun(_)) => {
                self.plans_outrun.inc();
            }
            Note::Dispatch(_)
            | Note::Controller(_)
            | Note::Handoff(..)
            | Note::Host(..)
            | Note::Lease(_)
            | Note::SetAside(..)
            | Note::Retired
            | Note::Stale(_) => {}
        }
    }

    fn note_of_move(&self, note: &mover::Note) {
        let ended = |outcome| self.moves.get_or_create(&Outcome { outcome }).inc();
        match note {
            mover::Note::Moved { copied_bytes, freeze, .. } => {
                self.copied_bytes.inc_by(*copied_bytes);
                match freeze {
                    Some(freeze) => {
                        ended("moved");
                        self.freeze.observe(freeze.lasted.as_secs_f64());
                        self.predicted_freeze.observe(freeze.predicted.as_secs_f64());
                    }
                    None => {
                        ended("promoted");
                    }
                }
            }
            mover::Note::Cancelled { .. } => {
                ended("cancelled");
            }
            mover::Note::Gone => {
                ended("deleted");
            }
            mover::Note::Waiting(waiting) => {
                self.waits.get_or_create(&Reason { reason: word(*waiting) }).inc();
            }
            mover::Note::PassEnded { .. } => {
                self.passes.inc();
            }
            mover::Note::NotConverged { .. } => {
                self.not_converged.inc();
            }
            mover::Note::ChecksumMismatch { .. } => {
                self.mismatches.inc();
            }
            mover::Note::FlipUnknown { .. } => {
                self.flips_unknown.inc();
            }
            mover::Note::FlipRejected { .. } => {
                self.flips_rejected.inc();
            }
            _ => {}
        }
    }

    /// Returns everything as text, in the form that [`CONTENT_TYPE`] names.
    #[must_use]
    pub fn text(&self, sight: &Sight, now: Instant) -> String {
        self.gauges.show(sight);
        let lease = sight.lease_until.map_or(Duration::ZERO, |until| until.since(now));
        self.gauges.lease.set(lease.as_secs_f64());
        // One scrape at a time, or both would add the difference.
        let one = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        for ((port, reason), count) in self.tally.all() {
            let counter = self.refused.get_or_create(&Refusal { port, reason });
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        drop(one);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// What a move waits for, in one word that never changes.
const fn word(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::SourceUnreachable => "source_unreachable",
        Waiting::SourceRefuses(_) => "source_refuses",
        Waiting::SourceMalformed => "source_malformed",
        Waiting::SourceRestarted => "source_restarted",
        Waiting::SourceDead => "source_dead",
        Waiting::PromoteRefused(_) => "promote_refused",
        Waiting::Damaged { .. } => "source_damaged",
        Waiting::FreezeDuty => "freeze_duty",
        Waiting::FreezeMax => "freeze_max",
        Waiting::LeaderUnreachable => "leader_unreachable",
        Waiting::DiskFull => "disk_full",
        Waiting::Disk => "disk",
        Waiting::CopyUnverifiable => "copy_unverifiable",
        Waiting::FlipRejected(_) => "flip_rejected",
    }
}

impl<O: Observer> Observer for (O, std::sync::Arc<Metrics>) {
    fn note(&mut self, note: &Note) {
        self.1.note(note);
        self.0.note(note);
    }

    fn pulse(&mut self, pulse: &Pulse) {
        self.1.pulse(pulse);
        self.0.pulse(pulse);
    }

    fn moved(&mut self, lasted: Duration) {
        self.1.moved(lasted);
        self.0.moved(lasted);
    }
}
