//! The names under which everything is shown.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::{Gauges, Metrics, Raft};

impl Metrics {
    pub(super) fn register_moves(&self, registry: &mut Registry) {
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
        registry.register_with_unit(
            "move_duration",
            "From the plan to the flip, of moves to this node that ended in one",
            Unit::Seconds,
            self.duration.clone(),
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

    pub(super) fn register_records(&self, registry: &mut Registry) {
        let counters: [(&str, &str, &Counter); 5] = [
            (
                "records_redelivered",
                "Records that this node handed to a consumer after it had done so before",
                &self.redelivered,
            ),
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

    pub(super) fn register_cluster(&self, registry: &mut Registry) {
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
        let Raft { term, last, committed, applied } = &self.raft;
        registry.register("raft_term", "The term of the replicated log", term.clone());
        registry.register("raft_last_index", "The last entry that this node has", last.clone());
        registry.register(
            "raft_committed_index",
            "The last entry that this node knows to be committed",
            committed.clone(),
        );
        registry.register(
            "raft_applied_index",
            "The last entry that this node has applied",
            applied.clone(),
        );
        registry.register(
            "raft_proposals",
            "Commands for the replicated log that came to this node, by whether it appended them",
            self.proposals.clone(),
        );
        registry.register_with_unit(
            "lease",
            "For how long this node may commit to partitions that are moving, without a heartbeat",
            Unit::Seconds,
            self.gauges.lease.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections that this node refused, by port and reason",
            self.refused.clone(),
        );
        registry.register("leader_known", "Whether it knows who does", leader_known.clone());
        registry.register(
            "registered",
            "Whether its present life is registered",
            registered.clone(),
        );
    }
}
