//! Watches the moves while they go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use narad_core::ids::{MoveId, PartitionId};
use narad_core::mover::{Phase, Progress};
use narad_core::node::Node;

use super::ledger::Ledger;
use super::nodes::Nodes;
use super::screen::Screen;

/// What was seen of all moves so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    copies: Mutex<BTreeMap<(PartitionId, MoveId), Copied>>,
}

/// How far one copy had come when it was looked at last.
#[derive(Clone, Copy, Debug, Default)]
struct Copied {
    bytes: u64,
    bytes_per_second: u64,
}

impl Watch {
    const PAUSE: Duration = Duration::from_millis(50);

    /// Watches until it is dropped.
    pub(super) async fn run(&self, nodes: &Nodes, ledger: &Arc<Ledger>, screen: &Screen) {
        let mut pause = tokio::time::interval(Self::PAUSE);
        loop {
            pause.tick().await;
            let mut lines = Vec::new();
            for (name, handle) in nodes.handles() {
                let look = |node: &Node| node.moves().collect::<Vec<_>>();
                let Ok(moves) = handle.query(look).await else { continue };
                for (partition, progress) in moves {
                    self.note(partition, &progress);
                    lines.extend(shown(partition, &name, &progress));
                }
            }
            let (acked, consumed) = ledger.counts();
            screen.traffic(acked, consumed, &lines);
        }
    }

    fn note(&self, partition: PartitionId, progress: &Progress) {
        let Some(move_id) = progress.move_id else { return };
        if progress.copy_rate == 0 {
            return;
        }
        let seen = Copied { bytes: progress.staged_bytes, bytes_per_second: progress.copy_rate };
        self.lock().insert((partition, move_id), seen);
    }

    /// Returns the mean rate of the copies while their bytes were on their way, in bytes per
    /// second; zero if none was seen.
    pub(super) fn bytes_per_second(&self) -> u64 {
        let (mut bytes, mut micros) = (0_u128, 0_u128);
        for copied in self.lock().values() {
            bytes += u128::from(copied.bytes);
            micros += u128::from(copied.bytes) * 1_000_000 / u128::from(copied.bytes_per_second);
        }
        let rate = (bytes * 1_000_000).checked_div(micros).unwrap_or(0);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(PartitionId, MoveId), Copied>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a move in a few words, while there is something to say.
fn shown(partition: PartitionId, to: &str, progress: &Progress) -> Option<String> {
    if progress.phase == Phase::Over {
        return None;
    }
    let (staged, listed) = (progress.staged_bytes >> 10, progress.listed_bytes >> 10);
    Some(format!("{}→{to} {} {staged}/{listed} KiB", partition.index, progress.phase))
}
