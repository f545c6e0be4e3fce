//! How the world does what the mover asks for.

use core::time::Duration;

use narad_core::ids::*;
use narad_core::metastore::*;
use narad_core::mover::Outcome;
use narad_core::mover::*;
use narad_core::partition::*;
use narad_core::peer::Refusal;

use super::super::disk::Directory;
use super::super::row::{A, B};
use super::super::source::RECORD;
use super::{Twist, World};

impl World {
    pub(super) fn perform(&mut self, operation: &Operation) -> Outcome {
        self.now = self.now.after(Duration::from_millis(1));
        self.tick();
        let index = self.operations.len();
        self.operations.push(name(operation));
        if self.lost_flips > 0
            && let Operation::Propose(command @ Command::CompleteMove { .. }) = operation
        {
            self.lost_flips -= 1;
            self.museum.push(command.clone());
            return Outcome::Propose(Proposed::Unknown);
        }
        match self.twists.get(&index).copied() {
            None => self.execute(operation),
            Some(Twist::Fail(fault)) => {
                self.write_in_part(operation);
                failed(operation, fault)
            }
            Some(Twist::LoseAnswer) => {
                self.execute(operation);
                failed(operation, Fault::TimedOut)
            }
            Some(Twist::ApplyLate) => {
                if let Operation::Propose(command) = operation {
                    self.museum.push(command.clone());
                }
                failed(operation, Fault::TimedOut)
            }
            Some(twist) => {
                self.happen(twist);
                self.execute(operation)
            }
        }
    }

    fn staging(&mut self) -> &mut Directory {
        self.disk.staging.get_or_insert_default()
    }

    fn execute(&mut self, operation: &Operation) -> Outcome {
        match operation {
            Operation::ReadRow => Outcome::ReadRow(Ok(self.replicated.row.clone())),
            Operation::List { check, move_id, .. } => {
                Outcome::List(self.ask_source(*move_id).map(|()| self.source.list(check)))
            }
            Operation::Copy { base, position, bytes, .. } => {
                Outcome::Copy(self.copy(*base, *position, *bytes))
            }
            Operation::Checkpoint(manifest) => {
                self.staging().checkpoint(manifest);
                Outcome::Checkpoint(Ok(()))
            }
            Operation::Trim { keep } => {
                self.staging().trim(keep);
                for (base, vouched) in &mut self.vouched {
                    let kept = keep.iter().find(|staged| staged.base == *base);
                    *vouched = (*vouched).min(kept.map_or(0, |staged| staged.bytes.0));
                }
                Outcome::Trim(Ok(()))
            }
            Operation::ReachLeader => Outcome::ReachLeader(Ok(())),
            Operation::Probe { .. } => Outcome::Probe(Ok(())),
            Operation::Prepare { attempt, .. } => {
                let (now, ttl) = (self.now, self.config.freeze_ttl);
                let capture = self
                    .ask_source(attempt.move_id)
                    .and_then(|()| self.source.prepare(*attempt, now, ttl));
                if let Ok(capture) = &capture {
                    self.frozen_tail = Some(self.tail(&capture.listing));
                }
                Outcome::Prepare(capture)
            }
            Operation::Renew { token, .. } => Outcome::Renew(self.renew(*token)),
            Operation::Release { token, .. } => {
                if self.source.freeze.as_ref().is_some_and(|f| f.capture.token == *token) {
                    self.revoke();
                }
                Outcome::Release(Ok(()))
            }
            Operation::Verify(boundary) => {
                Outcome::Verify(Ok(self.staging().verify(boundary.start)))
            }
            Operation::Install { attempt, sidecar, manifest } => {
                let mut staging = self.disk.staging.take().expect("installed from staging");
                staging.checkpoint(manifest);
                staging.sidecar = Some(sidecar.clone());
                assert!(self.disk.installed.insert(*attempt, staging).is_none());
                Outcome::Install(Ok(()))
            }
            Operation::Propose(command) => {
                let reply = self.replicated.apply(command);
                Outcome::Propose(Proposed::Replied(reply))
            }
            Operation::Restage { attempt } => {
                self.assert_not_live(*attempt);
                if let Some(directory) = self.disk.installed.remove(attempt) {
                    assert!(self.disk.staging.replace(directory).is_none());
                }
                assert!(self.disk.staging.is_some(), "{attempt:?} is neither here nor there");
                Outcome::Restage(Ok(()))
            }
            Operation::SetAside(what) => {
                self.set_aside(*what);
                Outcome::SetAside(Ok(()))
            }
        }
    }

    fn ask_source(&self, move_id: MoveId) -> Result<(), Fault> {
        if !self.source.reachable {
            return Err(Fault::Unreachable);
        }
        match &self.replicated.row {
            Some(row) if row.owner == A && row.target == Some(B) && row.move_id == move_id => {
                Ok(())
            }
            Some(_) | None => Err(Fault::Refused(Refusal::NoSuchMove)),
        }
    }

    fn copy(&mut self, base: Offset, position: u64, bytes: u64) -> Result<Copied, Fault> {
        if !self.source.reachable {
            return Err(Fault::Unreachable);
        }
        let data = self.source.read(base, position, bytes)?;
        if self.check_resume {
            let vouched = self.vouched.get(&base).copied().unwrap_or(0);
            assert!(position >= vouched, "{base:?} is copied from {position} again, not {vouched}");
        }
        let len = data.len() as u64;
        self.copied_bytes += len;
        self.now = self.now.after(Duration::from_nanos(len * self.nanos_per_byte));
        self.written += len * self.write_percent;
        let records = self.written / (100 * RECORD);
        self.written -= records * 100 * RECORD;
        self.produce(records);
        let staged = self.staging().write(base, position, &data);
        Ok(Copied { staged, throttled: self.throttled })
    }

    /// What fails may have begun: a range has other bytes, and is longer than it was.
    fn write_in_part(&mut self, operation: &Operation) {
        if let Operation::Copy { base, position, bytes, .. } = operation {
            let junk = vec![0xee; usize::try_from(*bytes + 5).unwrap()];
            self.staging().write(*base, *position, &junk);
        }
    }

    fn renew(&mut self, token: Token) -> Result<(), Fault> {
        let until = self.now.after(self.config.freeze_ttl);
        match &mut self.source.freeze {
            _ if !self.source.reachable => Err(Fault::Unreachable),
            Some(freeze) if freeze.capture.token == token => {
                freeze.until = until;
                Ok(())
            }
            Some(_) | None => Err(Fault::Refused(Refusal::NoSuchFreeze)),
        }
    }

    fn tail(&self, listing: &Listing) -> u64 {
        let staged = |base: Offset| {
            let file = self.disk.staging.as_ref().and_then(|staging| staging.files.get(&base));
            file.map_or(0, |file| file.len() as u64)
        };
        let left = |extent: &Extent| extent.bytes.0.saturating_sub(staged(extent.base));
        listing.extents.iter().map(left).sum()
    }

    fn set_aside(&mut self, what: What) {
        let ours = self.replicated.row.as_ref().is_none_or(|row| row.owner == B);
        let safe = ours || !self.knows_dead;
        assert!(safe, "{what:?} is set aside although its source is known to be dead (case C54)");
        match what {
            What::Staging => self.disk.staging = None,
            What::Installed(attempt) => {
                self.assert_not_live(attempt);
                self.disk.installed.remove(&attempt);
            }
        }
        self.disk.set_aside += 1;
    }

    /// No command that is still under way may make this directory live (H2).
    fn assert_not_live(&self, touched: Attempt) {
        let row = self.replicated.row.as_ref();
        assert!(row.is_none_or(|row| row.data != touched), "{touched:?} is live");
        for command in &self.museum {
            if let Command::CompleteMove { attempt, .. } = command
                && *attempt == touched
            {
                let reply = self.replicated.clone().apply(command);
                assert!(matches!(reply, Reply::Rejected(_)), "{touched:?} may still win");
            }
        }
    }
}

fn name(operation: &Operation) -> &'static str {
    match operation {
        Operation::ReadRow => "read_row",
        Operation::List { .. } => "list",
        Operation::Copy { .. } => "copy",
        Operation::Checkpoint(_) => "checkpoint",
        Operation::Trim { .. } => "trim",
        Operation::ReachLeader => "reach_leader",
        Operation::Probe { .. } => "probe",
        Operation::Prepare { .. } => "prepare",
        Operation::Renew { .. } => "renew",
        Operation::Release { .. } => "release",
        Operation::Verify(_) => "verify",
        Operation::Install { .. } => "install",
        Operation::Propose(Command::Resolve { .. }) => "resolve",
        Operation::Propose(_) => "flip",
        Operation::Restage { .. } => "restage",
        Operation::SetAside(_) => "set_aside",
    }
}

fn failed(operation: &Operation, fault: Fault) -> Outcome {
    match operation {
        Operation::ReadRow => Outcome::ReadRow(Err(fault)),
        Operation::List { .. } => Outcome::List(Err(fault)),
        Operation::Copy { .. } => Outcome::Copy(Err(fault)),
        Operation::Checkpoint(_) => Outcome::Checkpoint(Err(fault)),
        Operation::Trim { .. } => Outcome::Trim(Err(fault)),
        Operation::ReachLeader => Outcome::ReachLeader(Err(fault)),
        Operation::Probe { .. } => Outcome::Probe(Err(fault)),
        Operation::Prepare { .. } => Outcome::Prepare(Err(fault)),
        Operation::Renew { .. } => Outcome::Renew(Err(fault)),
        Operation::Release { .. } => Outcome::Release(Err(fault)),
        Operation::Verify(_) => Outcome::Verify(Err(fault)),
        Operation::Install { .. } => Outcome::Install(Err(fault)),
        Operation::Propose(_) => Outcome::Propose(Proposed::Unknown),
        Operation::Restage { .. } => Outcome::Restage(Err(fault)),
        Operation::SetAside(_) => Outcome::SetAside(Err(fault)),
    }
}
