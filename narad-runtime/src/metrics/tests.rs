//! What is counted and shown, as text.

use std::time::Duration;

use narad_core::ids::{Attempt, PartitionId, TopicId};
use narad_core::mover::Freeze;

use super::*;

const P: PartitionId = PartitionId { topic: TopicId(1), index: 0 };

#[test]
fn what_happens_is_counted_and_what_is_so_is_shown() {
    let metrics = Metrics::new();
    let moved = |freeze| mover::Note::Moved {
        attempt: Attempt::birth(NodeId(1)),
        copied_bytes: 1000,
        passes: 2,
        freeze,
    };
    let lasted = |millis| {
        let lasted = Duration::from_millis(millis);
        Some(Freeze { lasted, predicted: 2 * lasted, ..Freeze::default() })
    };
    for note in
        [moved(lasted(3)), moved(lasted(5)), moved(None), mover::Note::Waiting(Waiting::DiskFull)]
    {
        metrics.note(&Note::Mover(P, note));
    }
    metrics.note(&Note::Leader(None));
    metrics.moved(Duration::from_secs(3));
    metrics.redelivered(4);
    let pulse = Pulse { term: 3, proposed: 5, refused: 1, ..Pulse::default() };
    metrics.pulse(&pulse);
    metrics.pulse(&Pulse { proposed: 7, ..pulse });
    let lease_until = Some(Instant::ORIGIN.after(Duration::from_millis(9500)));
    for _ in 0..2 {
        metrics.refused().count("peer", "wrong_node");
    }
    let sight = Sight { in_flight: 2, leads: true, alive: 3, lease_until, ..Sight::default() };
    let text = metrics.text(&sight, Instant::ORIGIN);
    for line in [
        "narad_moves_total{outcome=\"moved\"} 2",
        "narad_moves_total{outcome=\"promoted\"} 1",
        "narad_move_waits_total{reason=\"disk_full\"} 1",
        "narad_move_copied_bytes_total 3000",
        "narad_freeze_seconds_count 2",
        "narad_freeze_seconds_sum 0.008",
        "narad_predicted_freeze_seconds_count 2",
        "narad_predicted_freeze_seconds_sum 0.016",
        "narad_leader_changes_total 1",
        "narad_moves_in_flight 2",
        "narad_leader 1",
        "narad_move_duration_seconds_count 1",
        "narad_move_duration_seconds_sum 3.0",
        "narad_records_redelivered_total 4",
        "narad_raft_term 3",
        "narad_raft_proposals_total{outcome=\"appended\"} 7",
        "narad_raft_proposals_total{outcome=\"refused\"} 1",
        "narad_lease_seconds 9.5",
        "narad_members{state=\"alive\"} 3",
        "narad_connections_refused_total{port=\"peer\",reason=\"wrong_node\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let again = metrics.text(&Sight::default(), Instant::ORIGIN);
    assert!(again.contains("narad_moves_in_flight 0\n"), "{again}");
    assert!(again.contains("reason=\"wrong_node\"} 2\n"), "{again}");
}
