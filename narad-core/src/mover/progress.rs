//! How a move is doing, for people and for the planner.

use super::note::{Phase, Progress};
use super::{FreezeCost, Mover, State};
use crate::ids::PartitionId;

impl Mover {
    /// Tells the machine what freezes have cost on this node, for its predictions.
    pub fn learn(&mut self, cost: FreezeCost) {
        self.desk.freeze_cost = cost;
    }

    /// Returns the partition that is on its way.
    pub const fn partition(&self) -> PartitionId {
        self.desk.partition
    }

    /// Returns how the move is doing.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let desk = &self.desk;
        let job = self.state.job().or(desk.job());
        Progress {
            phase: self.phase(),
            source: job.map(|job| job.source),
            move_id: job.map(|job| job.expect.move_id),
            attempt: desk.attempt,
            staged_bytes: desk.stage.bytes(),
            listed_bytes: desk.listed_bytes,
            tail_bytes: desk.tail_bytes,
            copy_rate: desk.copy_rate.bytes_per_second(),
            write_rate: desk.write_rate.bytes_per_second(),
            freeze_ms: desk.predicted_freeze_ms(),
            passes: desk.passes,
            attempts: desk.attempts,
            waiting: desk.waiting,
            holds_slot: !matches!(self.state, State::Over(_)) && desk.holds_slot(),
        }
    }

    /// Returns where the move is.
    pub const fn phase(&self) -> Phase {
        match &self.state {
            State::Locating(_) => Phase::Locate,
            State::Settling(_) => Phase::Resolve,
            State::CatchUp(_) => Phase::CatchUp,
            State::Preflight(_) | State::Preparing(_) => Phase::Prepare,
            State::Draining(_) => Phase::Drain,
            State::Verifying(_) => Phase::Verify,
            State::Installing(_) => Phase::Install,
            State::Flipping(_) => Phase::Flip,
            State::Promoting(_) => Phase::Promote,
            State::Waiting(_) => Phase::Waiting,
            State::Closing(_) => Phase::Closing,
            State::Over(_) | State::Poisoned => Phase::Over,
        }
    }
}
