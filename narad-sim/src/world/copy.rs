//! Bulk copies: a range is asked for, read at the source, carried over, and written to staging.

use std::cell::RefCell;

use narad_core::effects::OpId;
use narad_core::ids::NodeId;
use narad_core::mover::Fault;
use narad_core::node::{Operation, Outcome, Staging, StagingOutcome};
use narad_runtime::copy::{
    CancelFlag, Copier, CopyReport, CopyRequest, LiveBytes, Sink, Source, SourceError,
    TransferError,
};

use super::World;
use super::message::{Ended, Message, Payload};
use crate::oracle::Fact;

/// What has come over the network, given to the store as the real client would.
struct Arrived(RefCell<Option<(Vec<u8>, Ended)>>);

impl Copier for Arrived {
    fn copy(
        &self,
        _: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        _: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        let Some((bytes, ended)) = self.0.borrow_mut().take() else {
            return Err(TransferError::Unreachable { reason: "it was not asked".to_owned() });
        };
        if let Ended::Refused(error) = ended {
            return Err(TransferError::Source(error));
        }
        let received = bytes.len() as u64;
        if received > request.bytes {
            return Err(TransferError::Malformed);
        }
        // Pieces of an odd size: what is written is not cut at frames.
        for piece in bytes.chunks(4093) {
            sink.write(piece).map_err(|error| TransferError::Sink { received, error })?;
        }
        match ended {
            Ended::Reset => Err(TransferError::Reset { received }),
            Ended::Whole | Ended::Refused(_) => {
                Ok(CopyReport { bytes: received, ..CopyReport::default() })
            }
        }
    }
}

/// Carries nothing: for work that has nothing to copy.
pub(super) struct Nobody;

impl Copier for Nobody {
    fn copy(
        &self,
        _: NodeId,
        _: &CopyRequest,
        _: &mut dyn Sink,
        _: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        Err(TransferError::Unreachable { reason: "nothing was to be copied".to_owned() })
    }
}

pub(super) fn copy_failed(fault: Fault) -> Outcome {
    Outcome::Stage(StagingOutcome::Copy(Err(fault)))
}

impl World {
    /// Asks the source for a range. An empty one is made without it.
    pub(super) fn begin_copy(
        &mut self,
        machine: usize,
        op: OpId,
        source: NodeId,
        range: CopyRequest,
    ) -> Option<Outcome> {
        if range.bytes == 0 {
            return self.write_staging(machine, op, Vec::new(), Ended::Whole);
        }
        let Some(to) = self.machine_of(source) else {
            return Some(copy_failed(Fault::Unreachable));
        };
        let life = self.machines[machine].life;
        let payload = Payload::Copy { op, range };
        self.send(Message { from: machine, to, life, payload, line: 0 });
        None
    }

    /// The source reads a range of its live log and sends it, or as much as gets through.
    pub(super) fn read_range(
        &mut self,
        from: usize,
        to_life: u64,
        machine: usize,
        op: OpId,
        range: CopyRequest,
    ) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let live = LiveBytes::new(std::sync::Arc::clone(&process.broker));
        let length = usize::try_from(range.bytes.min(self.setup.config.chunk_bytes_max));
        let mut bytes = vec![0; length.unwrap_or(0)];
        let read = live.read_at(range.partition, range.base, range.position, &mut bytes);
        let mut ended = Ended::Whole;
        match read {
            Ok(0) => ended = Ended::Refused(SourceError::OutOfRange),
            Ok(read) => bytes.truncate(read),
            Err(error) => {
                bytes.clear();
                ended = Ended::Refused(error);
            }
        }
        let (a, b) = (super::traffic::address(machine), super::traffic::address(from));
        if ended == Ended::Whole
            && let Some(through) = self.net.chunk_cut(a, b, bytes.len() as u64)
        {
            self.recorder.count_fault("reset");
            bytes.truncate(usize::try_from(through).unwrap_or(usize::MAX));
            ended = Ended::Reset;
        }
        if !bytes.is_empty() && self.net.garbles(a, b) {
            self.recorder.count_fault("garbage");
            let at = bytes.len() / 2;
            bytes[at] ^= 0x55;
        }
        let life = self.machines[machine].life;
        let payload = Payload::Bytes { to_life, op, bytes, ended };
        self.send(Message { from: machine, to: from, life, payload, line: 0 });
    }

    /// The destination writes what has come.
    pub(super) fn write_range(&mut self, machine: usize, op: OpId, bytes: Vec<u8>, ended: Ended) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        if !process.running.contains_key(&op) {
            return;
        }
        if let Some(outcome) = self.write_staging(machine, op, bytes, ended) {
            self.performed(machine, op, outcome);
        }
    }

    fn write_staging(
        &mut self,
        machine: usize,
        op: OpId,
        bytes: Vec<u8>,
        ended: Ended,
    ) -> Option<Outcome> {
        let now = self.now;
        let node = self.machines[machine].node?;
        let now_ms = self.machines[machine].clock.wall_ms(now);
        let process = self.machines[machine].process.as_ref()?;
        let running = process.running.get(&op)?;
        let Operation::Stage(partition, work @ Staging::Copy { .. }) = running.operation.clone()
        else {
            return None;
        };
        let (carried, crash) = (bytes.len() as u64, running.crash);
        let copier = Arrived(RefCell::new(Some((bytes, ended))));
        let stop = CancelFlag::default();
        self.arm(machine, crash);
        let process = self.machines[machine].process.as_ref()?;
        let outcome = process.storage.stage(partition, work, now_ms, &copier, &stop);
        if self.crashed_within(machine, crash) {
            return None;
        }
        if matches!(outcome, StagingOutcome::Copy(Ok(_))) {
            self.observe(Fact::Copied { node, partition, bytes: carried });
        }
        self.written(machine, carried);
        Some(Outcome::Stage(outcome))
    }
}
