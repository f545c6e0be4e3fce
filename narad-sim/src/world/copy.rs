//! Bulk copies: a range is asked for, read at the source, carried over, and written to staging.
//!
//! # Divergence from reality
//!
//! A range is one message: it leaves when its last byte has passed the throttles of both ends, and
//! arrives when its last byte has passed the network.

use std::cell::RefCell;
use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::ids::NodeId;
use narad_core::mover::Fault;
use narad_core::node::{Operation, Outcome, Staging, StagingOutcome};
use narad_runtime::copy::{
    CancelFlag, Copier, CopyReport, CopyRequest, LiveBytes, Sink, Source, SourceError,
    TransferError,
};

use super::message::{Ended, Message, Payload};
use super::{Local, World};
use crate::oracle::Fact;
use crate::time::Time;

/// The lowest rate of the real throttle: lower ones act like it.
pub(super) const RATE_MIN: u64 = 64 << 10;

/// What has come over the network, given to the store as the real client would.
struct Arrived {
    bytes: RefCell<Option<(Vec<u8>, Ended)>>,
    throttled: Duration,
}

impl Copier for Arrived {
    fn copy(
        &self,
        _: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        _: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        let Some((bytes, ended)) = self.bytes.borrow_mut().take() else {
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
                Ok(CopyReport { bytes: received, throttled: self.throttled })
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

/// Returns how long bytes take at a rate, if there is one.
pub(super) fn time_for(bytes: u64, rate: u64) -> Option<Duration> {
    let rate = if rate == 0 { return None } else { rate.max(RATE_MIN) };
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
    Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
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
        let storage = &self.machines[machine].process.as_ref()?.storage;
        if range.bytes == 0 || storage.tails().find(source, &range).is_some() {
            // It is made without the source, or came with its capture.
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
        let at = self.pass_throttles(machine, from, op, bytes.len() as u64);
        let payload = Payload::Bytes { to_life, op, bytes, ended };
        let message = Message { from: machine, to: from, life, payload, line: 0 };
        if at > self.now {
            self.local(machine, at, Local::Send(Box::new(message)));
        } else {
            self.send(message);
        }
    }

    /// Takes bytes from the throttles of source and destination. Returns when the last one passes.
    fn pass_throttles(&mut self, source: usize, destination: usize, op: OpId, bytes: u64) -> Time {
        /// What an idle throttle lets pass at once, as the real one does.
        const BURST: Duration = Duration::from_millis(50);
        let now = self.now;
        let credit = Time::from_start(now.since(Time::ZERO).saturating_sub(BURST));
        let mut last = now;
        for end in [source, destination] {
            let it = &mut self.machines[end];
            let Some(process) = &it.process else { continue };
            let rate = process.replica.node().state().policy().copy_rate_bytes_per_second;
            let Some(takes) = time_for(bytes, rate) else { continue };
            it.throttled_until = it.throttled_until.max(credit).after(takes);
            last = last.max(it.throttled_until);
        }
        let patience = self.in_local_time(destination, 2 * self.setup.config.request_timeout);
        let it = &mut self.machines[destination];
        let throttled = it.throttled_until.max(now).since(now);
        if let Some(running) = it.process.as_mut().and_then(|it| it.running.get_mut(&op)) {
            // Bytes trickle in all the while: nobody takes the source for a dead one.
            running.patience = patience.after(last.since(now));
            running.throttled = throttled;
        }
        last
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
        let Operation::Stage(partition, work @ Staging::Copy { position, .. }) =
            running.operation.clone()
        else {
            return None;
        };
        let arrived = bytes.len() as u64;
        let crash = running.crash;
        let (bytes, throttled) = (RefCell::new(Some((bytes, ended))), running.throttled);
        let copier = Arrived { bytes, throttled };
        let stop = CancelFlag::default();
        self.arm(machine, crash);
        let process = self.machines[machine].process.as_ref()?;
        let outcome = process.storage.stage(partition, work, now_ms, &copier, &stop);
        if self.crashed_within(machine, crash) {
            return None;
        }
        let carried = match &outcome {
            StagingOutcome::Copy(Ok(copied)) => copied.staged.bytes.0.saturating_sub(position),
            _ => arrived,
        };
        if matches!(outcome, StagingOutcome::Copy(Ok(_))) {
            self.observe(Fact::Copied { node, partition, bytes: carried });
        }
        self.written(machine, carried);
        Some(Outcome::Stage(outcome))
    }
}
