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
    let sight = Sight { in_flight: 2, leads: true, alive: 3, ..Sight::default() };
    let text = metrics.text(&sight);
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
        "narad_members{state=\"alive\"} 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let again = metrics.text(&Sight::default());
    assert!(again.contains("narad_moves_in_flight 0\n"), "{again}");
}
