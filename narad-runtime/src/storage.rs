//! Disk work of a node, and what its failures are called in the machines' words.
//!
//! Carries out those operations of a [node](narad_core::node) that touch its disk. Nothing here knows
//! a clock, a thread or a socket: the wall clock and the way to other nodes' bytes are given by whoever
//! calls, the node loop on threads that may block, a simulation in virtual time.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use narad_core::host::{self, Opened};
use narad_core::ids::{Attempt, Epoch, NodeId, Offset, PartitionId};
use narad_core::mover::{self, Copied, Fault};
use narad_core::node::{Staging, StagingOutcome};
use narad_core::partition::{Boundary, Recovered, Verified};

use crate::broker::Broker;
use crate::copy::{CancelFlag, Copier, CopyRequest, Sink, SourceError, TransferError};
use crate::log::{Damage, Recovery};
use crate::store::{PartitionStore, Refusal, StageWriter, StoreError, What};

/// The disk of one node, and the partitions that are live on it. Every method may block on the disk.
#[derive(Debug)]
pub struct Storage {
    store: Arc<dyn PartitionStore>,
    broker: Arc<Broker>,
}

impl Storage {
    /// Carries out operations on a store; logs that are opened go to the broker's slots.
    pub const fn new(store: Arc<dyn PartitionStore>, broker: Arc<Broker>) -> Self {
        Self { store, broker }
    }

    /// Carries out `Operation::Inspect`: says what is on the disk of one partition, or `None` if it
    /// cannot be found out.
    pub fn inspect(&self, partition: PartitionId) -> Option<Recovered> {
        let found = self.store.inspect(partition);
        found.inspect_err(|error| tracing::error!(%partition, %error, "cannot inspect")).ok()
    }

    /// Carries out `Operation::Watermarks`: reign and high watermark of those partitions that are
    /// open here.
    pub fn watermarks(&self, partitions: &[PartitionId]) -> Vec<(PartitionId, Epoch, Offset)> {
        let watermark = |partition: &PartitionId| {
            let (log, epoch) = self.broker.find(*partition)?.slot.readable().ok()?;
            Some((*partition, epoch, log.bounds().hwm))
        };
        partitions.iter().filter_map(watermark).collect()
    }

    /// Carries out `Operation::Host`. A close waits for an append under way.
    pub fn host(&self, partition: PartitionId, work: host::Operation) -> host::Outcome {
        match work {
            host::Operation::Open { data, birth } => {
                host::Outcome::Open(self.open(partition, data, birth))
            }
            host::Operation::Expose { epoch } => {
                host::Outcome::Expose(self.expose(partition, epoch))
            }
            host::Operation::Close => {
                self.close(partition);
                host::Outcome::Close
            }
        }
    }

    fn open(
        &self,
        partition: PartitionId,
        data: Attempt,
        birth: Option<Offset>,
    ) -> Result<Opened, host::Fault> {
        let opened = match (self.store.open(partition, data), birth) {
            (Err(StoreError::NoSuchLog { .. }), Some(start)) => self
                .store
                .create(partition, data, start)
                .and_then(|()| self.store.open(partition, data)),
            (opened, _) => opened,
        };
        let log = opened.map_err(|error| {
            tracing::error!(%partition, %data, %error, "cannot open the log");
            host_fault(&error)
        })?;
        tell(partition, log.recovery());
        let bounds = log.bounds();
        self.broker.seat(partition).slot.attach(log);
        let served = Some(bounds.epoch).filter(|epoch| *epoch > Epoch(0));
        Ok(Opened { end: bounds.end, served })
    }

    fn expose(&self, partition: PartitionId, epoch: Epoch) -> Result<(), host::Fault> {
        let log = self.broker.seat(partition).slot.log().map_err(|_| host::Fault::Missing)?;
        log.expose_all(epoch).map(|_| ()).map_err(|error| {
            tracing::error!(%partition, %error, "cannot expose the log");
            if error.is_full() { host::Fault::DiskFull } else { host::Fault::Disk }
        })
    }

    fn close(&self, partition: PartitionId) {
        let Some(slot) = self.broker.find(partition).map(|seat| seat.slot) else { return };
        let Some(log) = slot.detach() else { return };
        if let Err(error) = slot.store_position_in(&*log) {
            tracing::warn!(%partition, %error, "the consumers' position was not kept");
        }
        if let Err(error) = log.close() {
            tracing::warn!(%partition, %error, "the log was not closed cleanly");
        }
    }

    /// Carries out `Operation::Stage`.
    ///
    /// `now_ms` is the wall clock in milliseconds since 1970, from which the quarantine of what is
    /// set aside counts. `copier` brings the bytes of a `Staging::Copy`, and has `cancel` to end it
    /// early; other work needs neither.
    pub fn stage(
        &self,
        partition: PartitionId,
        work: Staging,
        now_ms: i64,
        copier: &dyn Copier,
        cancel: &CancelFlag,
    ) -> StagingOutcome {
        let store = &self.store;
        let known = |result: Result<(), StoreError>| {
            result.map_err(|error| {
                tracing::warn!(%partition, %error, "work on the copy failed");
                fault(&error)
            })
        };
        match work {
            Staging::Copy { source, base, position, bytes } => {
                let request = CopyRequest { partition, base, position, bytes };
                StagingOutcome::Copy(self.copy(source, &request, copier, cancel))
            }
            Staging::Checkpoint(manifest) => {
                StagingOutcome::Checkpoint(known(store.checkpoint(&manifest)))
            }
            Staging::Trim(keep) => {
                StagingOutcome::Trim(known(store.trim_staging(partition, &keep)))
            }
            Staging::Probe { bytes } => {
                // What an earlier life staged is read back now: this comes right before a freeze,
                // in which nothing of the size of the partition may be left to do (case C50).
                let vouched = store.vouch(partition);
                StagingOutcome::Probe(known(vouched.and_then(|()| store.probe(partition, bytes))))
            }
            Staging::Verify(boundary) => StagingOutcome::Verify(self.verify(partition, &boundary)),
            Staging::Install { attempt, sidecar, manifest } => {
                StagingOutcome::Install(known(store.install(attempt, &sidecar, &manifest)))
            }
            Staging::Restage(attempt) => {
                StagingOutcome::Restage(match store.restage(partition, attempt, now_ms) {
                    Err(StoreError::NoSuchLog { .. }) => Ok(()),
                    result => known(result),
                })
            }
            Staging::SetAside(what) => {
                let what = match what {
                    mover::What::Staging => What::Staging,
                    mover::What::Installed(attempt) => What::Installed(attempt),
                };
                StagingOutcome::SetAside(known(store.set_aside(partition, what, now_ms)))
            }
        }
    }

    /// Says what the copy is; whether that will do is for the machine to judge.
    fn verify(&self, partition: PartitionId, boundary: &Boundary) -> Result<Verified, Fault> {
        let error = match self.store.verify(partition, boundary) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        tracing::warn!(%partition, %error, "the copy is not what it should be");
        let Boundary { start, end, digest, .. } = *boundary;
        let digest = digest.unwrap_or_default();
        match error {
            StoreError::Refused { why: Refusal::Start { found, .. }, .. } => {
                Ok(Verified { start: found, end, digest })
            }
            StoreError::Refused { why: Refusal::End { found, .. }, .. } => {
                Ok(Verified { start, end: found, digest })
            }
            StoreError::Refused { why: Refusal::BelowHwm { end, .. }, .. } => {
                Ok(Verified { start, end, digest })
            }
            StoreError::Refused { why: Refusal::Digest { found }, .. } => {
                Ok(Verified { start, end, digest: found })
            }
            StoreError::Refused { why: Refusal::Torn { base, position }, .. } => {
                Err(Fault::Damaged { base, position })
            }
            // Several extents are copied at once, so a copy that was cut short has gaps. Where the
            // source is dead it is the range before the first one that counts (R64); if that were
            // enough, what lies behind the gap would still be installed with it.
            StoreError::Refused { why: Refusal::Gap { end, .. }, .. }
                if boundary.digest.is_none() && end < boundary.hwm =>
            {
                Ok(Verified { start, end, digest })
            }
            StoreError::Refused { why: Refusal::Gap { end, .. }, .. } => {
                Err(Fault::Mismatch { base: end })
            }
            error => Err(fault(&error)),
        }
    }

    fn copy(
        &self,
        source: NodeId,
        request: &CopyRequest,
        copier: &dyn Copier,
        cancel: &CancelFlag,
    ) -> Result<Copied, Fault> {
        let CopyRequest { partition, base, position, bytes } = *request;
        let writer = self.store.stage_writer(partition, base, position).map_err(|error| {
            tracing::warn!(%partition, %base, position, %error, "cannot stage");
            fault(&error)
        })?;
        let mut staging = Staged { writer, failed: None };
        if bytes == 0 {
            let staged = staging.writer.finish();
            return Ok(Copied { staged, throttled: Duration::ZERO });
        }
        let copied = copier.copy(source, request, &mut staging, cancel);
        match copied {
            Ok(report) => {
                let staged = staging.writer.finish();
                Ok(Copied { staged, throttled: report.throttled })
            }
            Err(error) => {
                tracing::debug!(%partition, %base, %error, "a copy ended early");
                Err(match (&error, &staging.failed) {
                    (TransferError::Sink { .. }, Some(failed)) => fault(failed),
                    _ => transfer_fault(&error),
                })
            }
        }
    }
}

/// Says what a log found on its disk that should not have been there.
fn tell(partition: PartitionId, recovery: &Recovery) {
    if recovery.cut_bytes > 0 {
        let bytes = recovery.cut_bytes;
        tracing::warn!(%partition, bytes, "cut a torn last append off, as a crash leaves it");
    }
    if let Some(from) = recovery.lost_start {
        tracing::error!(%partition, %from, "the first segments are missing; restore them");
    }
    for Damage { segment, offset, position } in &recovery.damage {
        tracing::error!(
            %partition, %segment, %offset, position,
            "records are damaged or missing from here on in this segment; restore it"
        );
    }
}

/// Writes what arrives to staging.
struct Staged {
    writer: Box<dyn StageWriter>,
    failed: Option<StoreError>,
}

impl Staged {
    fn known(&mut self, result: Result<(), StoreError>) -> io::Result<()> {
        result.map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            io::Error::other(text)
        })
    }
}

impl Sink for Staged {
    fn expect(&mut self, bytes: u64) -> io::Result<()> {
        let reserved = self.writer.reserve(bytes);
        self.known(reserved)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.writer.write(bytes);
        self.known(written)
    }
}

fn host_fault(error: &StoreError) -> host::Fault {
    match error {
        StoreError::NoSuchLog { .. } => host::Fault::Missing,
        error if error.is_full() => host::Fault::DiskFull,
        _ => host::Fault::Disk,
    }
}

fn fault(error: &StoreError) -> Fault {
    match error {
        error if error.is_full() => Fault::DiskFull,
        StoreError::Corrupt { base, .. }
        | StoreError::Differs { base, .. }
        | StoreError::NotStaged { base }
        | StoreError::Lost { base, .. } => Fault::Mismatch { base: *base },
        _ => Fault::Disk,
    }
}

fn transfer_fault(error: &TransferError) -> Fault {
    match error {
        TransferError::Unreachable { .. }
        | TransferError::Refused(_)
        | TransferError::Reset { .. }
        | TransferError::Source(SourceError::NotServing | SourceError::Busy) => Fault::Unreachable,
        TransferError::TimedOut { .. } => Fault::TimedOut,
        TransferError::Cancelled { .. } => Fault::Cancelled,
        TransferError::Source(SourceError::Gone | SourceError::OutOfRange) => Fault::ExtentGone,
        TransferError::Source(SourceError::Disk) => Fault::Refused(narad_core::peer::Refusal::Disk),
        TransferError::Sink { .. } => Fault::Disk,
        TransferError::Malformed => Fault::Malformed,
    }
}
