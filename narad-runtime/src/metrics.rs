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
//! | how long are partitions frozen? | `histogram_quantile(0.99, rate(narad_freeze_seconds_bucket[1h]))` |
//! | are freezes as long as they were said to be? | `rate(narad_freeze_seconds_sum[1h]) / rate(narad_predicted_freeze_seconds_sum[1h])` |
//! | does anything move? | `sum(narad_moves_in_flight)` |
//! | what do moves wait for? | `sum by (reason) (increase(narad_move_waits_total[10m]))` |
//! | is there one leader? | `sum(narad_leader)` |
//! | what is accepted and not at its owner? | `sum(narad_backlog_records)` |
//!
//! # After a restart
//!
//! Counters begin again at zero, as such servers expect.

use narad_core::ids::NodeId;
use narad_core::metastore::Status;
use narad_core::mover::{self, Waiting};
use narad_core::node::{Node, Note};
use narad_core::{controller, dispatch};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::node_loop::Observer;

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How something ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
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
    gauges: Gauges,
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

    fn register_moves(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 6] = [
            ("move_passes", "Passes over a source that moves to this node made", &self.passes),
            (
                "moves_not_converged",
                "Moves whose tail never became small, so that they froze for long",
                &self.not_converged,
            ),
            ("move_checksum_mismatches", "Copied extents that were copied again", &self.mismatches),
            ("flips_unknown", "Flips whose outcome had to be looked up", &self.flips_unknown),
            ("flips_rejected", "Flips that the log refused", &self.flips_rejected),
            ("plans_outrun", "Planned moves that something else had overtaken", &self.plans_outrun),
        ];
        registry.register(
            "moves",
            "Moves to this node that have ended, by how they ended",
            self.moves.clone(),
        );
        registry.register(
            "move_waits",
            "How often moves to this node began to wait, by what they waited for",
            self.waits.clone(),
        );
        registry.register_with_unit(
            "move_copied",
            "Bytes that ended moves to this node copied",
            Unit::Bytes,
            self.copied_bytes.clone(),
        );
        registry.register_with_unit(
            "freeze",
            "How long partitions were frozen for their moves to this node",
            Unit::Seconds,
            self.freeze.clone(),
        );
        registry.register_with_unit(
            "predicted_freeze",
            "How long the same freezes were said to last before they began",
            Unit::Seconds,
            self.predicted_freeze.clone(),
        );
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        let Gauges { in_flight, waiting, copy_rate, .. } = &self.gauges;
        registry.register("moves_in_flight", "Moves to this node", in_flight.clone());
        registry.register("moves_waiting", "Those of them that wait", waiting.clone());
        registry.register(
            "copy_bytes_per_second",
            "How fast moves to this node copy, all together",
            copy_rate.clone(),
        );
    }

    fn register_records(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 4] = [
            (
                "records_rerouted",
                "Keyed records that went to a sibling of their partition",
                &self.rerouted,
            ),
            ("records_dropped", "Accepted records of topics that are no more", &self.dropped),
            (
                "records_damaged",
                "Accepted records that were damaged in this node's ingress log, and lost",
                &self.damaged,
            ),
            (
                "acks_forwarded",
                "Partitions whose next owner was told what was acknowledged here after its capture",
                &self.acks_forwarded,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
        registry.register_with_unit(
            "salvaged",
            "Bytes of records that a promotion had not captured, accepted again",
            Unit::Bytes,
            self.salvaged_bytes.clone(),
        );
        let Gauges { backlog_records, backlog_bytes, .. } = &self.gauges;
        registry.register(
            "backlog_records",
            "Records that were accepted here and are not at their owners yet",
            backlog_records.clone(),
        );
        registry.register("backlog_bytes", "Their bytes", backlog_bytes.clone());
    }

    fn register_cluster(&self, registry: &mut Registry) {
        registry.register(
            "leader_changes",
            "How often this node learned of another leader, or of none",
            self.leader_changes.clone(),
        );
        let Gauges { partitions, members, leader, leader_known, registered, .. } = &self.gauges;
        registry.register(
            "partitions",
            "Partitions that this node owns, and that move to it or away from it",
            partitions.clone(),
        );
        registry.register("members", "Members as this node knows them", members.clone());
        registry.register("leader", "Whether this node leads", leader.clone());
        registry.register("leader_known", "Whether it knows who does", leader_known.clone());
        registry.register(
            "registered",
            "Whether its present life is registered",
            registered.clone(),
        );
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
    pub fn text(&self, sight: &Sight) -> String {
        self.gauges.show(sight);
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
}

#[cfg(test)]
mod tests;
