//! How fast the moves to this node copy right now: a mover knows the rate of a pass once that is over,
//! and a first pass may take hours.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narad_core::ids::{MoveId, PartitionId};
use narad_core::node::Node;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node_loop::NodeHandle;

/// What was seen of each move, and how fast it was.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<BTreeMap<PartitionId, Sample>>);

#[derive(Clone, Copy, Debug)]
struct Sample {
    move_id: Option<MoveId>,
    at: Instant,
    bytes: u64,
    per_second: Option<u64>,
}

impl Pace {
    /// Between two looks.
    const PAUSE: Duration = Duration::from_millis(500);

    /// Returns the bytes per second of a move, once it was looked at twice.
    pub(super) fn of(&self, partition: PartitionId, move_id: Option<MoveId>) -> Option<u64> {
        let seen = *self.seen().get(&partition)?;
        seen.per_second.filter(|_| seen.move_id == move_id)
    }

    /// Looks at the moves now and then until the node stops.
    pub(super) async fn watch(self: Arc<Self>, handle: NodeHandle, cancel: CancellationToken) {
        let look = |node: &Node| {
            let staged = node.moves().map(|(id, now)| (id, now.move_id, now.staged_bytes));
            staged.collect::<Vec<_>>()
        };
        while cancel.run_until_cancelled(tokio::time::sleep(Self::PAUSE)).await.is_some() {
            let Ok(moves) = handle.query(look).await else { return };
            self.take(Instant::now(), &moves);
        }
    }

    /// Takes what is staged of each move; the rate goes half of the way to what was seen last.
    fn take(&self, now: Instant, moves: &[(PartitionId, Option<MoveId>, u64)]) {
        let mut seen = self.seen();
        let before = std::mem::take(&mut *seen);
        for &(partition, move_id, bytes) in moves {
            let known = before.get(&partition).filter(|known| known.move_id == move_id);
            let per_second = known.and_then(|known| {
                // What was dropped and is copied again is no speed.
                let copied = u128::from(bytes.saturating_sub(known.bytes)) * 1000;
                let rate = copied.checked_div(now.duration_since(known.at).as_millis())?;
                let rate = u64::try_from(rate).unwrap_or(u64::MAX);
                Some(known.per_second.map_or(rate, |before| before / 2 + rate / 2))
            });
            seen.insert(partition, Sample { move_id, at: now, bytes, per_second });
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use narad_core::ids::TopicId;

    use super::*;

    const P: PartitionId = PartitionId { topic: TopicId(1), index: 3 };

    #[test]
    fn a_rate_is_what_was_staged_between_two_looks() {
        let (pace, began) = (Pace::default(), Instant::now());
        let look = |ms, move_id, bytes| {
            let staged = [(P, Some(MoveId(move_id)), bytes)];
            pace.take(began + Duration::from_millis(ms), &staged);
            pace.of(P, Some(MoveId(move_id)))
        };
        assert_eq!(look(0, 4, 1000), None, "one look is no rate");
        assert_eq!(look(500, 4, 1600), Some(1200));
        assert_eq!(look(1000, 4, 1600), Some(600), "it stands still");
        assert_eq!(look(1500, 4, 100), Some(300), "what is dropped is no speed");
        assert_eq!(look(1500, 4, 100), None, "no time has passed");
        assert_eq!(look(2000, 5, 100), None, "another move");
        assert_eq!(pace.of(P, Some(MoveId(4))), None);
        pace.take(began, &[]);
        assert_eq!(pace.of(P, Some(MoveId(5))), None);
    }
}
