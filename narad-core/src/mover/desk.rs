//! What every state of a mover works with: the facts that outlive a step, and the ways to act.

use alloc::vec::Vec;
use core::time::Duration;

use super::close::{After, Closing};
use super::converge::Convergence;
use super::installed::{Fate, Installed};
use super::note::{Note, Waiting};
use super::operation::{Fault, Operation, Outcome, What};
use super::pause::{Pause, Then};
use super::stage::Stage;
use super::{Effect, Me, SourceHealth, State};
use crate::config::Config;
use crate::effects::{Effects, OpId, Ops};
use crate::ids::{Attempt, AttemptNo, NodeId, PartitionId, Token};
use crate::metastore::{Assignment, Command, Expect};
use crate::partition::{Extent, Recovered};
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

/// The facts that outlive a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Desk {
    pub(super) me: Me,
    pub(super) partition: PartitionId,
    pub(super) config: Config,
    ops: Ops,
    running: Vec<(OpId, Operation)>,
    /// The newest row known; `None` before the first, `Some(None)` once it is gone.
    row: Option<Option<Assignment>>,
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
    jitter: u64,
    pub(super) waiting: Option<Waiting>,
    pub(super) copy_rate: Rate,
    pub(super) write_rate: Rate,
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
        let jitter = config.jitter_seed
            ^ partition.topic.0.rotate_left(17)
            ^ u64::from(partition.index).rotate_left(34)
            ^ me.incarnation.0.rotate_left(51);
        Self {
            me,
            partition,
            config,
            ops: Ops::new(me.incarnation),
            running: Vec::new(),
            row: None,
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
            jitter,
            waiting: None,
            copy_rate: Rate::default(),
            write_rate: Rate::default(),
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
            Some(Some(row)) => Some(row),
            Some(None) | None => None,
        }
    }

    /// Takes a row, unless a newer one is known: a barriered read may be overtaken.
    pub(super) fn learn(&mut self, row: Option<Assignment>) {
        let is_older = match (&self.row, &row) {
            (Some(Some(known)), Some(row)) => row.move_id < known.move_id,
            (Some(None), _) => true,
            (Some(Some(_)) | None, _) => false,
        };
        if !is_older {
            self.row = Some(row);
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
            self.listed = None;
            self.copy_rate = Rate::default();
            self.write_rate = Rate::default();
        }
        self.stage.begin(job.expect.move_id);
    }

    pub(super) fn set_health(&mut self, node: NodeId, health: SourceHealth) -> bool {
        let changed = self.health != Some((node, health));
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
        self.next_n = self.next_n.checked_add(1).expect("2^32 freezes do not fit into one life");
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

    /// Whether the move counts against those that may be under way at once.
    pub(super) fn holds_slot(&self) -> bool {
        let refused = matches!(self.waiting, Some(Waiting::PromoteRefused(_)));
        !refused && self.faults.max(self.failed_attempts) < STUCK_FAILURES
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
                Err(_) => self.stage.doubt = true,
            },
            (Operation::Trim { keep }, Outcome::Trim(Ok(()))) => self.stage.trimmed(keep),
            (Operation::Install { attempt, manifest, .. }, Outcome::Install(result)) => {
                let kept = match result {
                    Ok(()) => Some(manifest.clone()),
                    // Bytes past the last checkpoint may be lost, and the rename may have
                    // happened: the directory is dealt with as if it had.
                    Err(_) => self.stage.durable().cloned(),
                };
                let on_disk = result.is_err();
                self.stage.clear();
                self.stage.on_disk = on_disk;
                if let Some(manifest) = kept {
                    self.installed.add(*attempt, manifest);
                }
            }
            (Operation::Restage { attempt }, Outcome::Restage(Ok(()))) => {
                if let Some((manifest, vouched)) = self.installed.remove(*attempt) {
                    self.stage.load(Some(manifest), vouched);
                }
            }
            (Operation::SetAside(What::Staging), Outcome::SetAside(Ok(()))) => self.stage.clear(),
            (Operation::SetAside(What::Installed(attempt)), Outcome::SetAside(Ok(()))) => {
                self.installed.remove(*attempt);
            }
            (
                Operation::Propose(Command::CompleteMove { attempt, .. }),
                Outcome::Propose(proposed),
            ) => self.installed.flipped(*attempt, proposed),
            (Operation::Propose(Command::Resolve { attempt, .. }), Outcome::Propose(proposed)) => {
                self.installed.resolved(*attempt, proposed)
            }
            (Operation::Trim { .. }, Outcome::Trim(Err(_)))
            | (Operation::Restage { .. }, Outcome::Restage(Err(_)))
            | (Operation::SetAside(_), Outcome::SetAside(Err(_)))
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

    fn pause(&mut self, failures: u32) -> Duration {
        let doubled = failures.saturating_sub(1).min(20);
        let longest = self.config.retry_min.saturating_mul(1 << doubled);
        let longest = longest.min(self.config.retry_max);
        let nanos = u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        let half = nanos / 2;
        Duration::from_nanos(nanos - self.random() % half.saturating_add(1))
    }

    /// The generator of `SplitMix64`: one addition and a mix, enough for jitter.
    fn random(&mut self) -> u64 {
        self.jitter = self.jitter.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.jitter;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What a transition may use.
pub(super) struct Cx<'a> {
    pub(super) now: Instant,
    pub(super) desk: &'a mut Desk,
    pub(super) out: &'a mut Effects<Effect>,
}

impl Cx<'_> {
    /// Starts an operation.
    ///
    /// # Panics
    ///
    /// If it would touch a directory whose fate is open (H2), or if too many run.
    pub(super) fn run(&mut self, operation: Operation) -> OpId {
        assert!(self.desk.running.len() < OPERATIONS_MAX, "operations of a mover are bounded");
        match &operation {
            Operation::Restage { attempt } | Operation::SetAside(What::Installed(attempt)) => {
                assert_eq!(self.desk.installed.fate(*attempt), Some(Fate::Free), "{attempt:?}");
                self.assert_nothing_open();
            }
            Operation::SetAside(What::Staging)
            | Operation::Trim { .. }
            | Operation::Copy { .. }
            | Operation::Install { .. } => self.assert_nothing_open(),
            Operation::Propose(command) => {
                if let Command::CompleteMove { attempt, .. } = command {
                    self.desk.installed.proposed(*attempt);
                }
            }
            Operation::ReadRow
            | Operation::List { .. }
            | Operation::Checkpoint(_)
            | Operation::ReachLeader
            | Operation::Probe { .. }
            | Operation::Prepare { .. }
            | Operation::Renew { .. }
            | Operation::Release { .. }
            | Operation::Verify(_) => {}
        }
        if let Operation::Checkpoint(_) | Operation::Copy { .. } = operation {
            self.desk.stage.on_disk = true;
        }
        let op = self.desk.ops.mint();
        self.desk.running.push((op, operation.clone()));
        self.out.push(Effect::Run(op, operation));
        op
    }

    fn assert_nothing_open(&self) {
        let open = self.desk.installed.oldest(Fate::Open);
        assert_eq!(open, None, "no directory is touched while a flip is unresolved");
    }

    pub(super) fn note(&mut self, note: Note) {
        self.out.push(Effect::Note(note));
    }

    /// Makes the manifest as it stands durable.
    pub(super) fn checkpoint(&mut self) -> OpId {
        let manifest = self.desk.stage.working().expect("a listing was adopted").clone();
        self.run(Operation::Checkpoint(manifest))
    }

    /// Gives a freeze up; the answer is of no interest.
    pub(super) fn release(&mut self, source: NodeId, token: Token) {
        self.note(Note::Released { token });
        self.run(Operation::Release { source, token });
    }

    /// Ends a step early: whatever runs is cancelled, and its answers are awaited.
    pub(super) fn close(&mut self, after: After) -> State {
        for (op, operation) in &self.desk.running {
            if !operation.is_courtesy() {
                self.out.push(Effect::Cancel(*op));
                // A cancelled copy may have written, a cancelled checkpoint may have failed.
                self.desk.stage.trim_due |= matches!(operation, Operation::Copy { .. });
            }
        }
        Closing { after }.proceed(self)
    }

    /// Pauses after a failed operation.
    pub(super) fn fault(&mut self, fault: Fault, then: Then) -> State {
        self.wait(Waiting::from_fault(fault), then)
    }

    /// Pauses for a reason; longer each time until a pass is complete.
    pub(super) fn wait(&mut self, reason: Waiting, then: Then) -> State {
        self.desk.faults = self.desk.faults.saturating_add(1);
        let pause = self.desk.pause(self.desk.faults.max(self.desk.failed_attempts));
        self.pause(reason, then, Some(pause))
    }

    /// Pauses after a try for which the source was, or may have been, frozen.
    pub(super) fn attempt_failed(&mut self, reason: Waiting) -> State {
        self.attempt_failed_for(reason, Duration::ZERO)
    }

    /// As [`Self::attempt_failed`], for so long at least.
    pub(super) fn attempt_failed_for(&mut self, reason: Waiting, at_least: Duration) -> State {
        self.desk.attempt = None;
        self.desk.convergence = Convergence::default();
        self.desk.failed_attempts = self.desk.failed_attempts.saturating_add(1);
        let pause = self.desk.pause(self.desk.failed_attempts.max(self.desk.faults));
        self.pause(reason, Then::Settle, Some(pause.max(at_least)))
    }

    /// Waits until something changes.
    pub(super) fn wait_for_change(&mut self, reason: Waiting) -> State {
        self.pause(reason, Then::Settle, None)
    }

    /// Returns how long to pause before the same request is made again.
    pub(super) fn retry_pause(&mut self, failures: u32) -> Instant {
        self.now.after(self.desk.pause(failures))
    }

    fn pause(&mut self, reason: Waiting, then: Then, pause: Option<Duration>) -> State {
        let is_dead = self.desk.promote_at().is_some();
        let silent = matches!(reason, Waiting::SourceUnreachable);
        let reason = if is_dead && silent { Waiting::SourceDead } else { reason };
        if self.desk.waiting != Some(reason) {
            self.desk.waiting = Some(reason);
            self.note(Note::Waiting(reason));
        }
        let until = pause.map(|pause| self.now.after(pause));
        let promote_at = self.desk.promote_at().filter(|&at| at > self.now);
        let until = until.map(|until| promote_at.map_or(until, |at| until.min(at)));
        State::Waiting(Pause { until, reason, then })
    }

    /// Notes that a source that was dead has answered.
    pub(super) fn source_answered(&mut self) {
        let dead =
            matches!(self.desk.waiting, Some(Waiting::SourceDead | Waiting::PromoteRefused(_)));
        if dead {
            self.desk.waiting = None;
            self.note(Note::Resumed);
        }
    }

    /// Notes that the move goes on: a pass is complete.
    pub(super) fn resumed(&mut self) {
        self.desk.faults = 0;
        if self.desk.waiting.take().is_some() {
            self.note(Note::Resumed);
        }
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
