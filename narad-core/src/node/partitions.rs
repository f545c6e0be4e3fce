//! Brings this node's partitions in line with their rows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::agenda::Key;
use super::routes::{Awaited, Internal, Route, Ticket, mismatch};
use super::{Gating, GatingOutcome, Node, Note, Operation, Outcome, Staging};
use crate::effects::{Effects, OpId};
use crate::freeze::handoff::{self, Handoff, Reign};
use crate::host::{self, Host, Want};
use crate::ids::{Incarnation, PartitionId};
use crate::metastore::Assignment;
use crate::mover::journal::{Beginning, Input};
use crate::mover::{self, Mover};
use crate::peer::{Answer, Request};

impl Node {
    /// Whether this node's own life is registered: before that no row is acted upon (H6).
    pub(super) fn is_registered_now(&self) -> bool {
        self.lease.authority().registered.is_some()
    }

    /// Looks at one partition and starts whatever is missing. Harmless if nothing has changed.
    pub(super) fn reconcile(&mut self, partition: PartitionId) {
        let row = self.state.assignment(partition).cloned();
        if self.handoffs.contains_key(&partition) {
            // The log stays open until its hand-off has shut the gate.
            self.tell_handoff(partition, handoff::Event::Row(row.clone()));
        } else {
            self.reconcile_host(partition, row.as_ref());
        }
        if self.movers.contains_key(&partition) {
            self.tell_mover(partition, mover::Event::Row(row));
            // The row may have another owner than the one that the mover has heard of.
            self.tell_of_source(partition);
        } else if self.is_registered_now() {
            if row.is_some_and(|row| row.target == Some(self.me.node)) {
                self.inspect(partition);
            } else {
                self.sweep(partition);
            }
        }
        self.forward_acks(partition);
    }

    fn reconcile_host(&mut self, partition: PartitionId, row: Option<&Assignment>) {
        let want =
            row.and_then(|row| Want::of(row, self.me.node)).filter(|_| self.is_registered_now());
        let known = self.hosts.contains_key(&partition);
        if !known && want.is_some() {
            let host = Host::new(self.incarnation, self.config.retry_max);
            self.hosts.insert(partition, host);
        }
        if known || want.is_some() {
            self.tell_host(partition, host::Event::Want(want));
        }
    }

    pub(super) fn drive_host(&mut self, partition: PartitionId, event: host::Event) {
        // A freeze that somebody was told of outlasts a failed log: it is opened again afterwards.
        if event == host::Event::Poisoned && self.is_frozen(partition) {
            self.poisoned.insert(partition);
            return;
        }
        let Some(host) = self.hosts.get_mut(&partition) else { return };
        let mut out = Effects::default();
        host.handle(self.now, event, &mut out);
        let (over, deadline) = (host.is_over(), host.deadline());
        self.agenda.set(Key::Host(partition), deadline);
        for effect in out.drain() {
            match effect {
                host::Effect::Run(op, operation) => {
                    if matches!(operation, host::Operation::Open { .. }) {
                        self.sweeps.held.insert(partition);
                    }
                    let operation = Operation::Host(partition, operation);
                    self.run(operation, Route::Host(partition, op));
                }
                host::Effect::Note(note) => {
                    self.note(Note::Host(partition, note));
                    if let host::Note::Opened { epoch, .. } = note {
                        self.resume_consumers(partition, epoch);
                    }
                }
            }
        }
        if over {
            self.hosts.remove(&partition);
            self.agenda.set(Key::Host(partition), None);
            self.touch(partition);
        } else {
            self.begin_reign(partition);
        }
    }

    /// Lets an opened log be served, by a hand-off that lasts as long as the reign.
    fn begin_reign(&mut self, partition: PartitionId) {
        let open = self.hosts.get(&partition).and_then(Host::open);
        let Some(row) = self.state.assignment(partition) else { return };
        let ours = row.owner == self.me.node && open == Some(row.epoch);
        let Some(life) = self.lease.authority().registered else { return };
        if !ours || self.handoffs.contains_key(&partition) {
            return;
        }
        let reign = Reign { node: self.me.node, partition, life, registered: true };
        let mut out = Effects::default();
        let handoff = Handoff::new(&self.config, reign, row, &mut out);
        self.agenda.set(Key::Handoff(partition), handoff.deadline());
        self.handoffs.insert(partition, handoff);
        self.handoff_wants(partition, &mut out);
    }

    pub(super) fn drive_handoff(&mut self, partition: PartitionId, event: handoff::Event) {
        let Some(handoff) = self.handoffs.get_mut(&partition) else {
            // Whoever asks a hand-off that is over must still be answered.
            if let handoff::Event::Request(id, _, _) = event {
                let refusal = self.no_handoff(partition);
                self.answer(id, Answer::Refused(refusal));
            }
            return;
        };
        let mut out = Effects::default();
        handoff.handle(self.now, event, &mut out);
        let (over, deadline) = (handoff.is_over(), handoff.deadline());
        if handoff.is_closing() {
            self.closing.insert(partition);
        } else {
            self.closing.remove(&partition);
        }
        self.agenda.set(Key::Handoff(partition), deadline);
        self.handoff_wants(partition, &mut out);
        if over {
            self.handoffs.remove(&partition);
            self.agenda.set(Key::Handoff(partition), None);
            self.touch(partition);
        }
        if !self.is_frozen(partition) && self.poisoned.remove(&partition) {
            self.tell_host(partition, host::Event::Poisoned);
        }
    }

    fn handoff_wants(&mut self, partition: PartitionId, out: &mut Effects<handoff::Effect>) {
        for effect in out.drain() {
            match effect {
                handoff::Effect::Run(op, operation) => self.run_handoff(partition, op, operation),
                handoff::Effect::Cancel(op) => {
                    self.cancel(|route| *route == Route::Handoff(partition, op));
                }
                handoff::Effect::Answer(id, answer) => self.answer(id, answer),
                handoff::Effect::Note(note) => self.note(Note::Handoff(partition, note)),
            }
        }
    }

    fn run_handoff(&mut self, partition: PartitionId, op: OpId, operation: handoff::Operation) {
        let route = Route::Handoff(partition, op);
        let gating = match operation {
            handoff::Operation::Stand(standing) => Gating::Stand(standing),
            handoff::Operation::Listing { check } => {
                let incarnation = self.lease.incarnation();
                Gating::List { incarnation, check }
            }
            handoff::Operation::Freeze { epoch, life } => Gating::Freeze { epoch, life },
            handoff::Operation::Thaw { token } => Gating::Thaw(token),
            handoff::Operation::Propose(command) => {
                self.propose(command, Ticket::Handoff(partition, op));
                return;
            }
        };
        self.run(Operation::Gate(partition, gating), route);
    }

    pub(super) fn handoff_done(&mut self, partition: PartitionId, op: OpId, outcome: Outcome) {
        let Outcome::Gate(outcome) = outcome else { mismatch(op, &outcome) };
        let outcome = match outcome {
            GatingOutcome::Stand => handoff::Outcome::Stand,
            GatingOutcome::List(result) => {
                handoff::Outcome::Listing(result.ok_or(handoff::DiskFault))
            }
            GatingOutcome::Freeze(result) => handoff::Outcome::Freeze(result),
            GatingOutcome::Thaw => handoff::Outcome::Thaw,
            GatingOutcome::Resume | GatingOutcome::HandOver(_) | GatingOutcome::Take(_) => {
                mismatch(op, &Outcome::Gate(outcome))
            }
        };
        self.tell_handoff(partition, handoff::Event::Done(op, outcome));
    }

    pub(super) fn drive_mover(&mut self, partition: PartitionId, event: mover::Event) {
        let Some(mover) = self.movers.get_mut(&partition) else { return };
        let mut out = Effects::default();
        if let Some(journals) = &mut self.journals {
            let input = Input::Event(event.clone());
            mover.handle(self.now, event, &mut out);
            journals.add(mover, self.now, input, out.as_slice().len());
        } else {
            mover.handle(self.now, event, &mut out);
        }
        self.mover_wants(partition, &mut out);
    }

    /// Carries out what a mover asks for, and lets it go once it is over.
    fn mover_wants(&mut self, partition: PartitionId, out: &mut Effects<mover::Effect>) {
        for effect in out.drain() {
            match effect {
                mover::Effect::Run(op, operation) => self.run_mover(partition, op, operation),
                mover::Effect::Cancel(op) => self.cancel(
                    |route| matches!(route, Route::Mover(p, o, _) if *p == partition && *o == op),
                ),
                mover::Effect::Note(note) => {
                    self.learn_of_freeze(&note);
                    self.note(Note::Mover(partition, note));
                }
            }
        }
        let Some(mover) = self.movers.get(&partition) else { return };
        if mover.is_over() {
            self.movers.remove(&partition);
            if let Some(journals) = &mut self.journals {
                journals.end(partition);
            }
            self.agenda.set(Key::Mover(partition), None);
            self.touch(partition);
        } else {
            self.agenda.set(Key::Mover(partition), mover.deadline());
        }
    }

    /// Remembers what a freeze has cost, for the predictions of all further ones.
    fn learn_of_freeze(&mut self, note: &mover::Note) {
        if let mover::Note::Moved { freeze: Some(freeze), .. } = note {
            if freeze.inline {
                self.freeze_cost.observe(freeze.tail_bytes, freeze.lasted);
            }
            for mover in self.movers.values_mut() {
                mover.learn(self.freeze_cost);
                if let Some(journals) = &mut self.journals {
                    journals.add(mover, self.now, Input::Learned(self.freeze_cost), 0);
                }
            }
        }
    }

    fn run_mover(&mut self, partition: PartitionId, op: OpId, operation: mover::Operation) {
        let (operation, awaited) = match operation {
            mover::Operation::ReadRow => (Operation::Barrier, Awaited::Row),
            mover::Operation::ReachLeader => (Operation::Barrier, Awaited::Leader),
            mover::Operation::List { source, move_id, check } => {
                let request = Request::List { partition, move_id, check };
                (Operation::Call { to: source, request }, Awaited::Listing)
            }
            mover::Operation::Prepare { source, attempt, tail_bytes_max } => {
                let request = Request::Prepare { partition, attempt, tail_bytes_max };
                (Operation::Call { to: source, request }, Awaited::Capture)
            }
            mover::Operation::Renew { source, token, staged_bytes } => {
                let request = Request::Renew { partition, token, staged_bytes };
                (Operation::Call { to: source, request }, Awaited::Renewal)
            }
            mover::Operation::Release { source, token } => {
                let request = Request::Release { partition, token };
                (Operation::Call { to: source, request }, Awaited::Release)
            }
            mover::Operation::Propose(command) => {
                self.propose(command, Ticket::Mover(partition, op));
                return;
            }
            mover::Operation::Copy { source, base, position, bytes } => {
                self.stage(partition, op, Staging::Copy { source, base, position, bytes });
                return;
            }
            mover::Operation::Checkpoint(manifest) => {
                self.stage(partition, op, Staging::Checkpoint(manifest));
                return;
            }
            mover::Operation::Trim { keep } => {
                self.stage(partition, op, Staging::Trim(keep));
                return;
            }
            mover::Operation::Probe { bytes } => {
                self.stage(partition, op, Staging::Probe { bytes });
                return;
            }
            mover::Operation::Verify(boundary) => {
                self.stage(partition, op, Staging::Verify(boundary));
                return;
            }
            mover::Operation::Install { attempt, sidecar, manifest } => {
                self.stage(partition, op, Staging::Install { attempt, sidecar, manifest });
                return;
            }
            mover::Operation::Restage { attempt } => {
                self.stage(partition, op, Staging::Restage(attempt));
                return;
            }
            mover::Operation::SetAside(what) => {
                self.stage(partition, op, Staging::SetAside(what));
                return;
            }
        };
        self.run(operation, Route::Mover(partition, op, awaited));
    }

    fn stage(&mut self, partition: PartitionId, op: OpId, staging: Staging) {
        self.sweeps.held.insert(partition);
        let operation = Operation::Stage(partition, staging);
        self.run(operation, Route::Mover(partition, op, Awaited::Disk));
    }

    /// Looks at the disk before a move begins: an earlier life may have left a copy there.
    fn inspect(&mut self, partition: PartitionId) {
        if self.sweeps.begin(partition) {
            self.run(Operation::Inspect(partition), Route::Inspect(partition));
        }
    }

    /// Begins, or begins again, the move that the row asks this node for.
    pub(super) fn inspected(&mut self, partition: PartitionId, outcome: Outcome) {
        self.sweeps.end(partition);
        let Outcome::Inspect(Some(found)) = outcome else {
            let again = self.now.after(self.config.retry_max);
            self.sweeps.retry_at(partition, again);
            return;
        };
        let row = self.state.assignment(partition);
        let wanted = row.is_some_and(|row| row.target == Some(self.me.node));
        if !wanted || self.movers.contains_key(&partition) {
            self.touch(partition);
            return;
        }
        let me = mover::Me { node: self.me.node, incarnation: self.lease.incarnation() };
        let mut out = Effects::default();
        if let Some(journals) = &mut self.journals {
            let (config, found) = (self.config.clone(), found.clone());
            journals.begin(Beginning { at: self.now, me, partition, config, found });
        }
        let mut mover = Mover::new(self.now, me, partition, self.config.clone(), found, &mut out);
        mover.learn(self.freeze_cost);
        if let Some(journals) = &mut self.journals {
            journals.add(&mover, self.now, Input::Learned(self.freeze_cost), 0);
        }
        self.movers.insert(partition, mover);
        self.mover_wants(partition, &mut out);
        let row = self.state.assignment(partition).cloned();
        self.tell_mover(partition, mover::Event::Row(row));
        self.tell_of_source(partition);
    }

    /// Every row may be acted upon from now on.
    pub(super) fn life_is_registered(&mut self, life: Incarnation) {
        let served: Vec<PartitionId> = self.handoffs.keys().copied().collect();
        for partition in served {
            self.tell_handoff(partition, handoff::Event::Registered(life));
        }
        self.everything_changed();
    }

    /// Every freeze of the life before is void (H32).
    pub(super) fn life_begins(&mut self, life: Incarnation) {
        self.incarnation = life;
        self.proposals.begin_life(life);
        let served: Vec<PartitionId> = self.handoffs.keys().copied().collect();
        for partition in served {
            self.tell_handoff(partition, handoff::Event::NewLife(life));
        }
    }

    /// Looks at every partition that concerns this node.
    pub(super) fn everything_changed(&mut self) {
        let me = self.me.node;
        let all: BTreeSet<PartitionId> = self
            .state
            .owned_by(me)
            .chain(self.state.targets_of(me))
            .chain(self.sweeps.held.iter().copied())
            .chain(self.hosts.keys().copied())
            .chain(self.handoffs.keys().copied())
            .chain(self.movers.keys().copied())
            .collect();
        for partition in all {
            self.touch(partition);
        }
    }

    pub(super) fn is_frozen(&self, partition: PartitionId) -> bool {
        self.handoffs.get(&partition).is_some_and(Handoff::is_frozen)
    }

    /// Looks at a partition soon, and at what is left of it on the disk.
    pub(super) fn touch(&mut self, partition: PartitionId) {
        self.sweeps.touch(partition);
        self.inbox.push_back(Internal::Reconcile(partition));
    }

    pub(super) fn tell_host(&mut self, partition: PartitionId, event: host::Event) {
        self.inbox.push_back(Internal::Host(partition, event));
    }

    pub(super) fn tell_handoff(&mut self, partition: PartitionId, event: handoff::Event) {
        self.inbox.push_back(Internal::Handoff(partition, event));
    }

    pub(super) fn tell_mover(&mut self, partition: PartitionId, event: mover::Event) {
        self.inbox.push_back(Internal::Mover(partition, event));
    }
}
