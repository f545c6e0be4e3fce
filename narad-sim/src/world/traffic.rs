//! Messages: how each is put on the wire, and what it does where it arrives.

use std::sync::Arc;

use bytes::Bytes;
use narad_core::effects::OpId;
use narad_core::ids::NodeId;
use narad_core::node::{CallFault, Event, Operation, Outcome};
use narad_core::peer::{Answer, Refusal, Request, RequestId};
use narad_runtime::copy::{LiveBytes, Reach, read_tail};
use narad_runtime::raft::Outgoing;
use narad_runtime::replica::Input;

use super::machine::Asker;
use super::message::{Message, Payload};
use super::observe::At;
use super::script::{Moment, Verdict};
use super::{Due, World};
use crate::net::{Fate, Lane};
use crate::scenario::vocabulary::call_name;
use crate::scenario::{Ending, Stage};
use crate::time::Time;
use crate::trace::Kind;

/// What the network calls a machine, whether or not it is a member.
pub(crate) fn address(machine: usize) -> NodeId {
    NodeId(machine as u64 + 1)
}

impl Payload {
    const fn lane(&self) -> Lane {
        match self {
            Self::Raft { .. } => Lane::Raft,
            Self::Request { .. } | Self::Answer { .. } | Self::Refused { .. } => Lane::Peer,
            Self::Copy { .. } | Self::Bytes { .. } => Lane::Bulk,
            // Bringing records to their owner is as much traffic as producing them there.
            Self::Accept(_)
            | Self::AcceptAnswer { .. }
            | Self::Deliver(_)
            | Self::Delivered { .. }
            | Self::Produce(_)
            | Self::Produced { .. }
            | Self::Fetch(_)
            | Self::Fetched { .. }
            | Self::Ack(_)
            | Self::Acked { .. } => Lane::Data,
        }
    }
}

impl World {
    fn meet_message(&mut self, stage: Stage, message: &Message) -> Verdict {
        if !self.script.watches(stage) {
            return Verdict::Pass;
        }
        let (machine, peer) = match stage {
            Stage::Deliver => (message.to, message.from),
            _ => (message.from, message.to),
        };
        let payload = &message.payload;
        let ending = match payload {
            Payload::Answer { answer, .. } => Some(match **answer {
                Answer::Refused(Refusal::Unknown) => Ending::Unknown,
                Answer::Refused(_) => Ending::Rejected,
                _ => Ending::Ok,
            }),
            _ => None,
        };
        self.meet(Moment {
            also: payload.proposal_name(),
            peer: Some(peer),
            partition: payload.partition(),
            entry: payload.entry(),
            ending,
            ..Moment::new(stage, payload.name(), machine)
        })
    }

    /// Puts a message on the wire, unless the scenario meddles with it.
    pub(super) fn send(&mut self, mut message: Message) {
        message.line = if self.recorder.is_traced() {
            let (name, from, to) = (message.payload.name(), message.from, message.to);
            let partition = message.payload.partition();
            self.recorder.line(self.now, Kind::Send, name, Some(from), Some(to), partition)
        } else {
            self.recorder.unwritten()
        };
        match self.meet_message(Stage::Send, &message) {
            Verdict::Pass => self.transmit(message),
            Verdict::Drop | Verdict::Gone | Verdict::Crash(..) => {
                self.lost(&message, "the scenario");
            }
            Verdict::Later(at) => self.schedule(at, Due::Arrive(Box::new(message))),
            Verdict::Hold(label) => self.script.keep(label, Due::Arrive(Box::new(message))),
            Verdict::Record(label) => {
                message.payload.is_copied();
                self.script.record(label, Due::Arrive(Box::new(message.clone())));
                self.transmit(message);
            }
            Verdict::Twice(at) => {
                message.payload.is_copied();
                self.schedule(at, Due::Arrive(Box::new(message.clone())));
                self.transmit(message);
            }
            Verdict::Corrupt => {
                message.payload.corrupt();
                self.transmit(message);
            }
            Verdict::Fail(_) => self.refuse(message),
        }
    }

    /// Gives a message to the network, which decides when it arrives, how often, and whether.
    pub(super) fn transmit(&mut self, mut message: Message) {
        let (from, to) = (address(message.from), address(message.to));
        let (lane, bytes) = (message.payload.lane(), message.payload.size());
        if matches!(message.payload, Payload::Produce(_) | Payload::Accept(_))
            && self.net.is_full(self.now, from, to)
        {
            return self.refuse(message);
        }
        match self.net.send(self.now, from, to, lane, bytes) {
            Fate::Arrives { at, again } => {
                if let Some(again) = again {
                    message.payload.is_copied();
                    self.recorder.count_fault("duplicate");
                    self.schedule(again, Due::Arrive(Box::new(message.clone())));
                }
                self.schedule(at, Due::Arrive(Box::new(message)));
            }
            Fate::Held(parcel) => {
                self.clogged.insert(parcel, message);
            }
            Fate::Lost(_) => self.lost(&message, "the network"),
        }
    }

    fn lost(&mut self, message: &Message, by: &'static str) {
        let (from, to) = (message.from, message.to);
        let at =
            At { machine: Some(to), peer: Some(from), of: Some(message.line), ..At::default() };
        self.recorder.said(self.now, Kind::Drop, message.payload.name(), at, || by.to_owned());
        if let Payload::Raft { is_snapshot: true, .. } = message.payload {
            self.snapshot_sent(message.from, message.life, message.to, false);
        }
    }

    /// What waited on a clogged link goes on.
    pub(super) fn release_parcels(&mut self, parcels: Vec<(crate::net::Parcel, Time)>) {
        for (parcel, at) in parcels {
            if let Some(message) = self.clogged.remove(&parcel) {
                self.schedule(at, Due::Arrive(Box::new(message)));
            }
        }
    }

    pub(super) fn send_raft(&mut self, machine: usize, outgoing: Outgoing) {
        let Some(to) = self.machine_of(outgoing.to) else { return };
        let life = self.machines[machine].life;
        let Outgoing { bytes, is_snapshot, .. } = outgoing;
        let payload = Payload::Raft { bytes, is_snapshot };
        self.send(Message { from: machine, to, life, payload, line: 0 });
    }

    /// Asks to be admitted, on behalf of a machine that is nobody yet.
    pub(super) fn send_join(&mut self, machine: usize, to: usize, request: Request) {
        let life = self.machines[machine].life;
        let op = self.nobody;
        let payload = Payload::Request { op, request: Box::new(request), reach: None };
        self.send(Message { from: machine, to, life, payload, line: 0 });
    }

    /// A node answers a peer.
    pub(super) fn answer(&mut self, machine: usize, request: RequestId, answer: Answer) {
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        let Some(asker) = process.requests.remove(&request) else { return };
        self.answered_heartbeat(machine, &asker, &answer);
        self.granted(machine, &asker, &answer);
        self.answered_peer(machine, &asker, &answer);
        let tail = self.tail_for(machine, &asker, &answer);
        let life = self.machines[machine].life;
        let payload = Payload::Answer {
            tail,
            to_life: asker.life,
            op: asker.op,
            of: call_name(&asker.request),
            answer: Box::new(answer),
        };
        self.send(Message { from: machine, to: asker.machine, life, payload, line: 0 });
    }

    /// Reads what goes along with a capture.
    fn tail_for(&self, machine: usize, asker: &Asker, answer: &Answer) -> Option<(Reach, Bytes)> {
        let (Answer::Capture(capture), Request::Prepare { partition, .. }) =
            (answer, &asker.request)
        else {
            return None;
        };
        let (process, reach) = (self.machines[machine].process.as_ref()?, asker.reach?);
        let live = LiveBytes::new(Arc::clone(&process.broker));
        Some((reach, read_tail(&live, *partition, &capture.listing, reach)))
    }

    /// Keeps what came along with a capture, if that is still waited for.
    fn keep_tail(&self, machine: usize, op: OpId, answer: &Answer, tail: (Reach, Bytes)) {
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let running = process.running.get(&op).map(|running| &running.operation);
        if let (Answer::Capture(capture), Some(Operation::Call { to, request })) = (answer, running)
            && let Request::Prepare { partition, .. } = request
        {
            let (reach, bytes) = tail;
            process.storage.tails().keep(*partition, *to, (&capture.listing, reach), bytes);
        }
    }

    /// A message has reached its machine.
    pub(super) fn arrive(&mut self, mut message: Box<Message>) {
        let (from, to) = (message.from, message.to);
        if !self.net.arrives(address(from), address(to)) {
            return self.lost(&message, "a cut link");
        }
        match self.meet_message(Stage::Deliver, &message) {
            Verdict::Pass => {}
            Verdict::Drop => return self.lost(&message, "the scenario"),
            Verdict::Later(at) => return self.schedule(at, Due::Deliver(message)),
            Verdict::Hold(label) => return self.script.keep(label, Due::Deliver(message)),
            Verdict::Record(label) => {
                message.payload.is_copied();
                self.script.record(label, Due::Deliver(message.clone()));
            }
            Verdict::Twice(at) => {
                message.payload.is_copied();
                self.schedule(at, Due::Deliver(message.clone()));
            }
            Verdict::Corrupt => message.payload.corrupt(),
            Verdict::Fail(_) | Verdict::Gone => return self.refuse(*message),
            Verdict::Crash(_, keep, lasting) => {
                self.lose_power(to, keep, lasting);
                return self.refuse(*message);
            }
        }
        self.deliver_now(*message);
    }

    /// A message that nothing meddles with any more is given to its machine.
    pub(super) fn deliver_now(&mut self, message: Message) {
        let (from, to) = (message.from, message.to);
        if self.lags(to, &message.payload) {
            let at = self.machines[to].lags_until;
            return self.schedule(at, Due::Deliver(Box::new(message)));
        }
        if self.machines[to].process.is_none() && !matches!(message.payload, Payload::Answer { .. })
        {
            return self.refuse(message);
        }
        if self.recorder.is_traced() {
            let at = At {
                machine: Some(to),
                peer: Some(from),
                partition: message.payload.partition(),
                of: Some(message.line),
                bytes: Some(message.payload.size()),
            };
            self.recorder.put(self.now, Kind::Deliver, message.payload.name(), at, String::new());
        } else {
            self.recorder.unwritten();
        }
        self.deliver(message);
    }

    /// Whether a replica that lags is not to have a message yet: entries and snapshots wait, and
    /// whatever keeps the cluster together passes.
    fn lags(&self, to: usize, payload: &Payload) -> bool {
        self.machines[to].lags_until > self.now
            && matches!(payload.name(), "raft-append" | "raft-snapshot")
    }

    fn deliver(&mut self, message: Message) {
        let Message { from, to, life, payload, .. } = message;
        match payload {
            Payload::Raft { bytes, is_snapshot } => {
                self.deliver_raft(from, life, to, &bytes, is_snapshot);
            }
            Payload::Request { op, request, reach } => {
                self.deliver_request((from, life), to, op, (*request, reach));
            }
            Payload::Answer { to_life, op, answer, tail, .. } => {
                if op == self.nobody {
                    self.joined(to, &answer);
                } else if self.machines[to].life == to_life && self.machines[to].process.is_some() {
                    if let Some(tail) = tail {
                        self.keep_tail(to, op, &answer, tail);
                    }
                    self.done(to, op, Outcome::Call(Ok(*answer)));
                }
            }
            Payload::Refused { to_life, op } => {
                if self.machines[to].life == to_life && self.machines[to].process.is_some() {
                    self.refused(to, op);
                }
            }
            Payload::Copy { op, range } => self.read_range(from, life, to, op, range),
            Payload::Bytes { to_life, op, bytes, ended } => {
                if self.machines[to].life == to_life && self.machines[to].process.is_some() {
                    self.write_range(to, op, bytes, ended);
                }
            }
            Payload::Accept(accept) => self.accepts(to, from, accept),
            Payload::Deliver(deliver) => self.delivered_at(to, from, life, deliver),
            Payload::Delivered { to_life, op, result } => {
                if self.machines[to].life == to_life && self.machines[to].process.is_some() {
                    self.shipped(to, op, result);
                }
            }
            Payload::Produce(produce) => self.produced_at(to, from, produce),
            Payload::Fetch(fetch) => self.fetched_at(to, from, &fetch),
            Payload::Ack(ack) => self.acked_at(to, from, ack),
            Payload::Produced { request, outcome } | Payload::AcceptAnswer { request, outcome } => {
                self.produce_ended(request, outcome);
            }
            Payload::Fetched { request, outcome } => self.fetch_ended(request, outcome),
            Payload::Acked { request, taken, .. } => self.settled(request, taken),
        }
    }

    fn deliver_raft(&mut self, from: usize, life: u64, to: usize, bytes: &[u8], is_snapshot: bool) {
        let Some(sender) = self.machines[from].node else { return };
        if is_snapshot {
            self.snapshot_sent(from, life, to, true);
        }
        self.recorder.bytes(to, bytes);
        self.feed(to, Input::Message { from: sender, bytes });
    }

    /// Tells the sender of a snapshot what became of it.
    fn snapshot_sent(&mut self, from: usize, life: u64, to: usize, arrived: bool) {
        let (same, Some(to)) = (self.machines[from].life == life, self.machines[to].node) else {
            return;
        };
        // A connection that is gone says so a little later.
        let is_up = self.machines[from].process.is_some() && self.machines[from].paused.is_none();
        if same && is_up {
            self.feed(from, Input::SnapshotSent { to, arrived });
        }
    }

    fn deliver_request(
        &mut self,
        (from, life): (usize, u64),
        to: usize,
        op: OpId,
        (request, reach): (Request, Option<Reach>),
    ) {
        let asker = self.machines[from].node;
        let process = self.machines[to].process.as_mut().expect("it runs");
        let id = RequestId(process.next_request);
        process.next_request += 1;
        let received = self.now;
        let by = Asker { machine: from, life, op, request: request.clone(), reach, received };
        process.requests.insert(id, by);
        self.tell(to, Event::Request { id, from: asker, request });
    }

    /// Nobody listens where a message was sent to.
    fn refuse(&mut self, message: Message) {
        let Message { from, to, life, payload, .. } = message;
        match payload {
            Payload::Request { op, .. } | Payload::Copy { op, .. } => {
                let answer = Message {
                    from: to,
                    to: from,
                    life: 0,
                    payload: Payload::Refused { to_life: life, op },
                    line: message.line,
                };
                self.transmit(answer);
            }
            Payload::Raft { is_snapshot, .. } => {
                if is_snapshot {
                    self.snapshot_sent(from, life, to, false);
                }
                let Some(peer) = self.machines[to].node else { return };
                let is_up = self.machines[from].paused.is_none();
                if self.machines[from].life == life && is_up {
                    self.feed(from, Input::Unreachable(peer));
                }
            }
            Payload::Deliver(deliver) => {
                if self.machines[from].life == life && self.machines[from].process.is_some() {
                    self.not_delivered(from, deliver.op, deliver.is_only);
                }
            }
            Payload::Accept(accept) => {
                self.produce_ended(accept.request, super::message::Produced::Refused);
            }
            Payload::Produce(produce) => {
                self.produce_ended(produce.request, super::message::Produced::Refused);
            }
            Payload::Fetch(fetch) => {
                self.fetch_ended(fetch.request, super::message::Fetched::Refused);
            }
            Payload::Ack(ack) => self.settled(ack.request, false),
            Payload::Answer { .. }
            | Payload::Refused { .. }
            | Payload::Bytes { .. }
            | Payload::AcceptAnswer { .. }
            | Payload::Delivered { .. }
            | Payload::Produced { .. }
            | Payload::Fetched { .. }
            | Payload::Acked { .. } => {}
        }
    }

    fn refused(&mut self, machine: usize, op: OpId) {
        let process = self.machines[machine].process.as_ref().expect("it runs");
        let Some(running) = process.running.get(&op) else { return };
        let outcome = match &running.operation {
            Operation::Call { .. } => Outcome::Call(Err(CallFault::Unreachable)),
            _ => super::copy::copy_failed(narad_core::mover::Fault::Unreachable),
        };
        self.done(machine, op, outcome);
    }
}
