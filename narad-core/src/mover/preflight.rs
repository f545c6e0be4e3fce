//! Before a freeze: is anything in the way of a flip that could be found out now (H20)?

use super::State;
use super::cx::Cx;
use super::desk::Job;
use super::note::Waiting;
use super::operation::{Fault, Operation, Outcome};
use super::pause::Then;
use super::prepare::Preparing;

/// Waits for the answers, which may come in any order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Preflight {
    pub(super) job: Job,
    open: u32,
    obstacle: Option<Waiting>,
}

impl Preflight {
    /// Looks for a leader and for space, and makes all that is staged durable, so that nothing of
    /// the size of the partition is left for the freeze.
    pub(super) fn begin(job: Job, cx: &mut Cx<'_>) -> State {
        let mut open = 2;
        cx.run(Operation::ReachLeader);
        let bytes = cx.desk.tail_bytes.saturating_add(cx.desk.config.chunk_bytes_max);
        cx.run(Operation::Probe { bytes });
        if cx.desk.stage.is_dirty() {
            cx.checkpoint();
            open += 1;
        }
        State::Preflight(Self { job, open, obstacle: None })
    }

    pub(super) fn done(self, outcome: Outcome, cx: &mut Cx<'_>) -> State {
        let obstacle = match outcome {
            Outcome::ReachLeader(Ok(())) | Outcome::Probe(Ok(())) | Outcome::Checkpoint(Ok(())) => {
                None
            }
            Outcome::ReachLeader(Err(_)) => Some(Waiting::LeaderUnreachable),
            Outcome::Probe(Err(fault)) | Outcome::Checkpoint(Err(fault)) => Some(disk(fault)),
            outcome => unreachable!("a preflight was answered by {outcome:?}"),
        };
        let obstacle = self.obstacle.or(obstacle);
        match (self.open - 1, obstacle) {
            (0, None) => Preparing::begin(self.job, cx),
            (0, Some(obstacle)) => {
                // The tail grows while this waits, so the next try copies again.
                cx.desk.convergence = super::converge::Convergence::default();
                cx.wait(obstacle, Then::Settle)
            }
            (open, obstacle) => State::Preflight(Self { open, obstacle, ..self }),
        }
    }
}

/// A disk that does not answer in time is as bad as one that fails.
fn disk(fault: Fault) -> Waiting {
    match fault {
        Fault::DiskFull => Waiting::DiskFull,
        Fault::Unreachable
        | Fault::TimedOut
        | Fault::Cancelled
        | Fault::Refused(_)
        | Fault::Disk
        | Fault::ExtentGone
        | Fault::Damaged { .. }
        | Fault::Malformed => Waiting::Disk,
        Fault::Mismatch { .. } => Waiting::CopyUnverifiable,
    }
}
