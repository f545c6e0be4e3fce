//! What every state of a mover works with: the facts that outlive a step, and the ways to act.

use alloc::vec::Vec;
use core::time::Duration;

use super::converge::Convergence;
use super::cost::{FreezeCost, FreezeRates};
use super::installed::Installed;
use super::note::Waiting;
use super::operation::{Operation, Outcome, What};
use super::stage::Stage;
use super::{Me, SourceHealth};
use crate::config::Config;
use crate::effects::{OpId, Ops};
use crate::ids::{Attempt, AttemptNo, NodeId, PartitionId};
use crate::metastore::{Assignment, Command, Expect};
use crate::partition::{Extent, Recovered, Staged};
use crate::pause::Pauses;
use crate::planted::{Bug, is_planted};
use crate::rate::Rate;
use crate::time::Instant;

/// Most operations of one mover at once: the copies of one run, and few others.
pub(super) const OPERATIONS_MAX: usize = 64 + 8;

/// Failures in a row after which a move counts as stuck. With the default pauses that is about
/// half a minute after the first one.
const STUCK_FAILURES: u32 = 8;

/// The move that a step works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) source: NodeId,
    pub(super) expect: Expect,
}

/// What is known of the partition's row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Row {
    /// Nothing yet.
    Unread,
    Present(Assignment),
    /// The partition is no more, and its id is never used again.
    Gone,
}

/// The facts that outlive a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Desk {
    pub(super) me: Me,
    pub(super) partition: PartitionId,
    pub(super) config: Config,
    pub(super) ops: Ops,
    pub(super) running: Vec<(OpId, Operation)>,
    /// The newest row known.
    row: Row,
    health: Option<(NodeId, SourceHealth)>,
    pub(super) stage: Stage,
    pub(super) installed: Installed,
    job: Option<Job>,
    next_n: u32,
    /// The present try, from its request to freeze on.
    pub(super) attempt: Option<Attempt>,
    pub(super) attempts: u32,
    pub(super) convergence: Convergence,
    /// Failures in a row since the last complete pass.
    pub(super) faults: u32,
    /// Tries in a row that failed after a freeze was asked for.
    pub(super) failed_attempts: u32,
    /// Tries in a row whose copy was not what the source had.
    pub(super) unverifiable: u32,
    /// The last extent that was copied whole and is not what the source lists.
    pub(super) mismatched: Option<Staged>,
    pauses: Pauses,
    pub(super) waiting: Option<Waiting>,
    pub(super) copy_rate: Rate,
    pub(super) write_rate: Rate,
    /// The best rate of one copy of this move, the throttle left out.
    pub(super) way_rate: u64,
    /// What freezes have cost on this node.
    pub(super) freeze_cost: FreezeCost,
    /// When the source was last asked for a listing.
    pub(super) list_asked: Option<Instant>,
    /// The last listing, to see what was written since.
    listed: Option<(Instant, Vec<Extent>)>,
    pub(super) listed_bytes: u64,
    pub(super) tail_bytes: u64,
    pub(super) copied_bytes: u64,
    pub(super) passes: u32,
}

impl Desk {
    pub(super) fn new(me: Me, partition: PartitionId, config: Config, found: Recovered) -> Self {
        assert!(
            (1..=64).contains(&config.chunks_in_flight_max) && config.chunk_bytes_max > 0,
            "a configuration is checked before a machine gets it"
        );
        let mut stage = Stage::default();
        let next_n = next_n(me, &found);
        stage.load(found.staging, false);
        let salt = partition.topic.0.rotate_left(17)
            ^ u64::from(partition.index).rotate_left(34)
            ^ me.incarnation.0.rotate_left(51);
        let pauses = Pauses::new(&config, salt);
        Self {
            me,
            partition,
            config,
            ops: Ops::new(me.incarnation),
            running: Vec::new(),
            row: Row::Unread,
            health: None,
            stage,
            installed: Installed::found(me.node, found.installed),
            job: None,
            next_n,
            attempt: None,
            attempts: 0,
            convergence: Convergence::default(),
            faults: 0,
            failed_attempts: 0,
            unverifiable: 0,
            mismatched: None,
            pauses,
            waiting: None,
            copy_rate: Rate::default(),
            write_rate: Rate::default(),
            way_rate: 0,
            freeze_cost: FreezeCost::default(),
            list_asked: None,
            listed: None,
            listed_bytes: 0,
            tail_bytes: 0,
            copied_bytes: 0,
            passes: 0,
        }
    }

    /// Returns the newest row known; `None` if there is none any more.
    pub(super) const fn row(&self) -> Option<&Assignment> {
        match &self.row {
            Row::Present(row) => Some(row),
            Row::Unread | Row::Gone => None,
        }
    }

    /// Takes a row, unless a newer one is known: a barriered read may be overtaken.
    pub(super) fn learn(&mut self, row: Option<Assignment>) {
        let is_older = match (&self.row, &row) {
            (Row::Present(known), Some(row)) => row.move_id < known.move_id,
            (Row::Gone, Some(_) | None) => true,
            (Row::Present(_) | Row::Unread, Some(_) | None) => false,
        };
        if !is_older {
            self.row = row.map_or(Row::Gone, Row::Present);
        }
    }

    /// Returns the move that the newest row has for this node.
    pub(super) fn wanted(&self) -> Option<Job> {
        let row = self.row()?;
        let inbound = row.target == Some(self.me.node) && row.owner != self.me.node;
        inbound.then(|| Job { source: row.owner, expect: row.expect() })
    }

    /// Returns the directory that makes this node the owner, if it is the owner and has it.
    pub(super) fn live(&self) -> Option<Attempt> {
        let row = self.row()?;
        (row.owner == self.me.node && self.installed.has(row.data)).then_some(row.data)
    }

    /// Returns the move under way.
    pub(super) const fn job(&self) -> Option<Job> {
        self.job
    }

    /// Begins, or goes on with, a move.
    pub(super) fn begin(&mut self, job: Job) {
        if self.job != Some(job) {
            self.job = Some(job);
            self.convergence = Convergence::default();
            self.faults = 0;
            self.failed_attempts = 0;
            self.unverifiable = 0;
            self.mismatched = None;
            self.listed = None;
            self.copy_rate = Rate::default();
            self.write_rate = Rate::default();
            self.way_rate = 0;
        }
        self.stage.begin(job.expect.move_id);
    }

    pub(super) fn set_health(&mut self, node: NodeId, health: SourceHealth) -> bool {
        let changed = self.health != Some((node, health));
        let was_dead =
            matches!(self.health, Some((known, SourceHealth::Dead { .. })) if known == node);
        if was_dead && matches!(health, SourceHealth::Alive { .. }) {
            // What failed while it was dead says nothing about its next life: it is asked soon again,
            // and the move is not called stuck for it.
            self.faults = 0;
        }
        self.health = Some((node, health));
        changed
    }

    /// Returns how the owner is, if anybody has said so.
    pub(super) fn owner_health(&self) -> Option<SourceHealth> {
        let owner = self.row()?.owner;
        self.health.and_then(|(node, health)| (node == owner).then_some(health))
    }

    /// Returns when the owner has been dead for long enough.
    pub(super) fn promote_at(&self) -> Option<Instant> {
        match self.owner_health()? {
            SourceHealth::Alive { .. } => None,
            SourceHealth::Dead { since, promote_after, .. } => Some(since.after(promote_after)),
        }
    }

    /// Names the next try.
    pub(super) fn next_attempt(&mut self, job: Job) -> Attempt {
        let no = AttemptNo { incarnation: self.me.incarnation, n: self.next_n };
        if !is_planted(Bug::AttemptNumberRepeats) {
            let next = self.next_n.checked_add(1);
            self.next_n = next.expect("2^32 freezes do not fit into one life");
        }
        self.attempts += 1;
        let attempt = Attempt { move_id: job.expect.move_id, destination: self.me.node, no };
        self.attempt = Some(attempt);
        attempt
    }

    /// Takes what a listing says of the rate at which the source is written.
    pub(super) fn listed(&mut self, now: Instant, extents: &[Extent]) {
        if let Some((at, before)) = &self.listed {
            let grown = |extent: &Extent| match before
                .binary_search_by_key(&extent.base, |known| known.base)
            {
                Ok(known) => extent.bytes.0.saturating_sub(before[known].bytes.0),
                Err(_) => extent.bytes.0,
            };
            self.write_rate.observe(extents.iter().map(grown).sum(), now.since(*at));
        }
        self.listed_bytes = extents.iter().map(|extent| extent.bytes.0).sum();
        self.tail_bytes = self.stage.tail(extents);
        self.listed = Some((now, extents.to_vec()));
    }

    /// Returns how long a freeze with such a tail would last; `None` if the rate that matters is not
    /// known.
    pub(super) fn freeze_of(&self, tail_bytes: u64) -> Option<Duration> {
        let copy = self.copy_rate.bytes_per_second();
        let rates = FreezeRates { copy, way: self.way_rate, inline_max: self.tail_inline_max() };
        self.freeze_cost.of(tail_bytes, rates)
    }

    /// Returns the longest tail that may come with the answer to a request to freeze: little on a slow
    /// way, where it would come too late for the request and for the freeze (H22).
    pub(super) fn tail_inline_max(&self) -> u64 {
        self.config.tail_inline_max.min(self.way_rate / 8)
    }

    /// Returns the tail that there should be now: what was listed, and what is written since.
    pub(super) fn tail_expected(&self, now: Instant) -> u64 {
        let since = self.listed.as_ref().map_or(Duration::ZERO, |(at, _)| now.since(*at));
        let written = u128::from(self.write_rate.bytes_per_second()) * since.as_micros();
        let written = u64::try_from(written / 1_000_000).unwrap_or(u64::MAX);
        self.tail_bytes.saturating_add(written)
    }

    /// Returns how long a freeze would last if it began with the tail that was listed, in
    /// milliseconds, rounded up; `None` if there is one and nothing has been copied yet.
    pub(super) fn predicted_freeze_ms(&self) -> Option<u64> {
        if self.tail_bytes > 0 && self.way_rate == 0 {
            return None;
        }
        let millis = self.freeze_of(self.tail_bytes)?.as_micros().div_ceil(1_000);
        Some(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// Whether the move counts against those that may be under way at once.
    pub(super) fn holds_slot(&self) -> bool {
        // Only a repair helps, or a promotion that something else has to make possible first.
        let helpless =
            matches!(self.waiting, Some(Waiting::PromoteRefused(_) | Waiting::Damaged { .. }));
        let stuck = helpless || self.faults.max(self.failed_attempts) >= STUCK_FAILURES;
        !stuck || is_planted(Bug::StuckHoldsSlot)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn has_steps(&self) -> bool {
        self.running.iter().any(|(_, operation)| !operation.is_courtesy())
    }

    /// Removes an operation that was answered, and takes in what the answer says of the disk.
    pub(super) fn answered(&mut self, op: OpId, outcome: &Outcome) -> Option<Operation> {
        let at = self.running.iter().position(|(running, _)| *running == op)?;
        let (_, operation) = self.running.swap_remove(at);
        match (&operation, outcome) {
            (Operation::ReadRow, Outcome::ReadRow(result)) => {
                if let Ok(row) = result {
                    self.learn(row.clone());
                }
            }
            (Operation::Checkpoint(manifest), Outcome::Checkpoint(result)) => match result {
                Ok(()) => self.stage.checkpointed(manifest),
                Err(fault) => {
                    self.stage.doubt = true;
                    self.stage.bereave(*fault);
                }
            },
            (Operation::Probe { .. }, Outcome::Probe(Err(fault))) => self.stage.bereave(*fault),
            (Operation::Trim { keep }, Outcome::Trim(Ok(()))) => self.stage.trimmed(keep),
            (Operation::Install { attempt, manifest, .. }, Outcome::Install(result)) => {
                let kept = match result {
                    Ok(()) => Some(manifest.clone()),
                    // Bytes past the last checkpoint may be lost, and the rename may have
                    // happened: the directory is dealt with as if it had.
                    Err(_) => self.stage.durable().cloned(),
                };
                if result.is_ok() {
                    self.stage.clear();
                } else {
                    self.stage.lose();
                }
                if let Some(manifest) = kept {
                    self.installed.add(*attempt, manifest);
                }
            }
            (Operation::Restage { attempt }, Outcome::Restage(result)) => {
                if result.is_err() {
                    self.stage.lose();
                } else if let Some((manifest, vouched)) = self.installed.remove(*attempt) {
                    self.stage.load(Some(manifest), vouched);
                }
            }
            (Operation::SetAside(What::Staging), Outcome::SetAside(result)) => match result {
                Ok(()) => self.stage.clear(),
                Err(_) => self.stage.lose(),
            },
            (Operation::SetAside(What::Installed(attempt)), Outcome::SetAside(result)) => {
                match result {
                    Ok(()) => drop(self.installed.remove(*attempt)),
                    Err(_) => self.installed.condemn(*attempt),
                }
            }
            (
                Operation::Propose(Command::CompleteMove { attempt, .. }),
                Outcome::Propose(proposed),
            ) => self.installed.flipped(*attempt, proposed),
            (Operation::Propose(Command::Resolve { attempt, .. }), Outcome::Propose(proposed)) => {
                self.installed.resolved(*attempt, proposed);
            }
            (Operation::Trim { .. }, Outcome::Trim(Err(_)))
            | (Operation::List { .. }, Outcome::List(_))
            | (Operation::Copy { .. }, Outcome::Copy(_))
            | (Operation::ReachLeader, Outcome::ReachLeader(_))
            | (Operation::Probe { .. }, Outcome::Probe(_))
            | (Operation::Prepare { .. }, Outcome::Prepare(_))
            | (Operation::Renew { .. }, Outcome::Renew(_))
            | (Operation::Release { .. }, Outcome::Release(_))
            | (Operation::Verify(_), Outcome::Verify(_)) => {}
            (operation, outcome) => {
                panic!("{op:?}, {operation:?}, was answered by {outcome:?}")
            }
        }
        Some(operation)
    }

    /// Returns how long to pause after so many failures in a row.
    pub(super) fn pause(&mut self, failures: u32) -> Duration {
        self.pauses.after(failures.saturating_sub(1))
    }
}

/// Returns a number above those of all tries of this life that left a trace on the disk.
fn next_n(me: Me, found: &Recovered) -> u32 {
    let staged = found.staging.as_ref().and_then(|manifest| manifest.attempt);
    let installed = found.installed.iter().map(|&(attempt, _)| attempt);
    installed
        .chain(staged)
        .filter(|attempt| attempt.destination == me.node)
        .filter(|attempt| attempt.no.incarnation == me.incarnation)
        .map(|attempt| attempt.no.n.saturating_add(1))
        .max()
        .unwrap_or(0)
}
