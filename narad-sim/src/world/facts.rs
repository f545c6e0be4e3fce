//! Facts for the oracle, and what it may look at.

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::freeze::Authority;
use narad_core::freeze::gate::Standing;
use narad_core::freeze::handoff::FreezeFault;
use narad_core::ids::{LogIndex, PartitionId, Token, TopicId};
use narad_core::metastore::{Command, Entry, State};
use narad_core::mover::{self, What};
use narad_core::node::{Event, Gating, Note, Operation, Outcome, Staging, StagingOutcome};
use narad_core::partition::Capture;
use narad_core::peer::{Answer, Request};
use narad_core::{controller, dispatch, host};
use narad_runtime::disk::Disk;
use narad_runtime::store::log_dir;

use super::World;
use super::machine::Asker;
use super::message::partition_noted;
use super::observe::{At, standing_text};
use super::script::Moment;
use crate::oracle::{Directory, Fact, Origin};
use crate::scenario::vocabulary::{command_name, note_name, phase_name, waiting_name};
use crate::scenario::{Ending, Stage};
use crate::trace::Kind;

impl World {
    /// A replica was told of something by the log.
    pub(super) fn applied(&mut self, machine: usize, event: Event) {
        let Some(node) = self.machines[machine].node else { return };
        match &event {
            Event::Committed { index, entry } => {
                let name = command_name(&entry.command);
                let partition = entry.command.partition();
                self.recorder.told(machine, &event);
                let at = At { machine: Some(machine), partition, ..At::default() };
                self.observe(Fact::Applied { node, index: *index, entry });
                let ending = self.ending_of(*index);
                if self.recorder.is_traced() {
                    let text = self.entry_text(*index, entry, ending);
                    self.recorder.said(self.now, Kind::Applied, name, at, || text);
                }
                let is_first = *index > self.committed;
                self.committed = self.committed.max(*index);
                let moment = Moment {
                    partition,
                    entry: Some(entry),
                    ending,
                    ..Moment::new(Stage::Applied, name, machine)
                };
                if is_first {
                    if ending == Some(Ending::Ok) {
                        self.recorder.count_command(name);
                    }
                    if let Some(reply) = self.oracle.reply_to(*index).cloned() {
                        self.decided(entry.proposal, &reply);
                    }
                    self.log_grew(*index, &entry.command);
                    let _ = self.meet(Moment { stage: Stage::Committed, ..moment });
                }
                let _ = self.meet(moment);
            }
            Event::Configured { index, configuration } => {
                self.committed = self.committed.max(*index);
                let at = At { machine: Some(machine), ..At::default() };
                let text = || format!("{configuration:?}");
                self.recorder.said(self.now, Kind::Applied, "configuration", at, text);
                self.observe(Fact::Configured { node, index: *index, configuration });
            }
            Event::Skipped { index } => {
                self.committed = self.committed.max(*index);
                self.observe(Fact::Skipped { node, index: *index });
            }
            Event::Restored(state) => {
                self.committed = self.committed.max(state.applied());
                self.recorder.line(self.now, Kind::Applied, "snapshot", Some(machine), None, None);
                self.observe(Fact::Restored { node, state });
            }
            _ => {}
        }
    }

    /// Returns what an entry says and what came of it, for people and for reports.
    fn entry_text(&self, index: LogIndex, entry: &Entry, ending: Option<Ending>) -> String {
        let reply = ending.map_or("unknown", |ending| match ending {
            Ending::Ok => "applied",
            Ending::Rejected | Ending::Failed | Ending::Unknown => "rejected",
        });
        let row = entry
            .command
            .partition()
            .and_then(|partition| self.oracle.state()?.assignment(partition));
        let row = row.map_or_else(String::new, |row| {
            let owner = self.machine_of(row.owner).map_or(0, |at| at + 1);
            format!(" owner=n{owner} epoch={}", row.epoch)
        });
        format!("entry {index} by {}: {:?}{row} reply={reply}", entry.by, entry.command)
    }

    /// Returns how an entry ended, if it is not too long ago.
    fn ending_of(&mut self, index: LogIndex) -> Option<Ending> {
        const REMEMBERED_MAX: usize = 512;
        if let Some(ending) = self.oracle.ending_of(index) {
            let newest = self.endings.back().map(|(newest, _)| *newest);
            if newest.is_none_or(|newest| newest < index) {
                self.endings.push_back((index, ending));
                if self.endings.len() > REMEMBERED_MAX {
                    self.endings.pop_front();
                }
            }
            return Some(ending);
        }
        let at = self.endings.binary_search_by_key(&index, |(at, _)| *at).ok()?;
        Some(self.endings[at].1)
    }

    /// Returns the longest freeze of a partition, or of any, those that go on included.
    pub(super) fn longest_freeze(&self, partition: Option<PartitionId>) -> Duration {
        let is = |of: &PartitionId| partition.is_none_or(|partition| partition == *of);
        let over = self.longest.iter().filter(|(of, _)| is(of)).map(|(_, length)| *length);
        let going = self.frozen.iter().filter(|((_, of), _)| is(of));
        over.chain(going.map(|(_, since)| self.now.since(*since))).max().unwrap_or_default()
    }

    /// A freeze is over: it was thawed, its log was closed, or its process ended.
    pub(super) fn freeze_is_over(&mut self, machine: usize, partition: PartitionId) {
        if let Some(since) = self.frozen.remove(&(machine, partition)) {
            let longest = self.longest.entry(partition).or_default();
            *longest = (*longest).max(self.now.since(since));
        }
    }

    /// What the log says for the first time anywhere may bring partitions and topics, or end them.
    fn log_grew(&mut self, index: LogIndex, command: &Command) {
        match command {
            // A topic is named by the index of its creation.
            Command::CreateTopic { name, .. } => self.recorder.name_topic(index.0, name.as_str()),
            Command::AssignPartition { partition, .. } => self.attend(*partition),
            Command::DeleteTopic { topic } => self.dismiss(*topic),
            _ => {}
        }
    }

    pub(super) fn noted(&mut self, machine: usize, note: &Note) {
        let Some(node) = self.machines[machine].node else { return };
        let (name, partition) = (note_name(note), partition_noted(note));
        self.recorder.count_note(name, machine, partition);
        if name == "leader" && matches!(note, Note::Leader(Some(leader)) if *leader == node) {
            self.recorder.count("elections");
        }
        let at = At { machine: Some(machine), partition, ..At::default() };
        self.recorder.said(self.now, Kind::Note, name, at, || format!("{note:?}"));
        match note {
            Note::Dispatch(dispatch::Note::Rerouted { records, .. }) => {
                self.recorder.count_many("rerouted", u64::from(*records));
            }
            Note::Salvaged { salvaged, .. } => {
                self.recorder.count_many("salvaged", salvaged.end.0 - salvaged.from.0);
            }
            _ => {}
        }
        self.observe(Fact::Noted(node, note));
        if let Note::Controller(controller::Note::Configuring(change)) = note {
            self.observe(Fact::Configuring { node, change: *change });
        }
        let reason = match note {
            Note::Mover(_, mover::Note::Waiting(waiting)) => waiting_name(waiting),
            _ => "",
        };
        let moment = Moment { partition, reason, ..Moment::new(Stage::Note, name, machine) };
        let _ = self.meet(moment);
    }

    /// What a whole node may do has changed.
    pub(super) fn authorised(&mut self, machine: usize, authority: Authority) {
        let Some(process) = &self.machines[machine].process else { return };
        process.ground.publish(authority);
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::Authority { node, authority });
        }
    }

    pub(super) fn stood(&mut self, machine: usize, partition: PartitionId, standing: Standing) {
        let Some(node) = self.machines[machine].node else { return };
        let at = At { machine: Some(machine), partition: Some(partition), ..At::default() };
        self.recorder.said(self.now, Kind::Note, "gate", at, || standing_text(standing));
        self.observe(Fact::Stood { node, partition, standing });
        // Whoever serves now may show more than was seen before.
        self.news(partition);
    }

    /// A freeze was answered at its gate.
    pub(super) fn froze(
        &mut self,
        machine: usize,
        partition: PartitionId,
        answer: &Result<Capture, FreezeFault>,
    ) {
        let Some(node) = self.machines[machine].node else { return };
        match answer {
            Ok(capture) => {
                let at = At { machine: Some(machine), partition: Some(partition), ..At::default() };
                let text = || format!("{:?}", capture.token);
                self.recorder.said(self.now, Kind::Freeze, "begin", at, text);
                self.recorder.count("freezes");
                self.frozen.entry((machine, partition)).or_insert(self.now);
                self.observe(Fact::Captured { node, partition, capture });
            }
            Err(FreezeFault::Unreadable { token }) => {
                let token = *token;
                self.observe(Fact::FrozeBlindly { node, partition, token });
            }
            Err(FreezeFault::NotFrozen(_)) => return,
        }
        let partition = Some(partition);
        let _ = self.meet(Moment { partition, ..Moment::new(Stage::Freeze, "begin", machine) });
    }

    /// A gate was thawed.
    pub(super) fn thawed(&mut self, machine: usize, partition: PartitionId, token: Token) {
        let Some(node) = self.machines[machine].node else { return };
        let at = At { machine: Some(machine), partition: Some(partition), ..At::default() };
        self.recorder.said(self.now, Kind::Freeze, "end", at, || format!("{token:?}"));
        self.freeze_is_over(machine, partition);
        self.observe(Fact::Thawed { node, partition, token });
        let partition = Some(partition);
        let _ = self.meet(Moment { partition, ..Moment::new(Stage::Freeze, "end", machine) });
    }

    pub(super) fn answered_peer(&mut self, machine: usize, asker: &Asker, answer: &Answer) {
        if let (Answer::Capture(capture), Request::Prepare { partition, .. }) =
            (answer, &asker.request)
        {
            let Some(node) = self.machines[machine].node else { return };
            let (partition, token) = (*partition, capture.token);
            return self.observe(Fact::CaptureTold { node, partition, token });
        }
        let (Answer::Listing(listing), Request::List { partition, move_id, .. }) =
            (answer, &asker.request)
        else {
            return;
        };
        let nodes = (self.machines[machine].node, self.machines[asker.machine].node);
        let (Some(node), Some(of)) = nodes else { return };
        let (partition, move_id) = (*partition, *move_id);
        self.observe(Fact::Listed { node, partition, asker: of, move_id, listing });
    }

    pub(super) fn answered_heartbeat(&mut self, machine: usize, asker: &Asker, answer: &Answer) {
        let (Answer::Heartbeat { .. }, Request::Heartbeat { incarnation, .. }) =
            (answer, &asker.request)
        else {
            return;
        };
        let nodes = (self.machines[machine].node, self.machines[asker.machine].node);
        let (Some(leader), Some(node)) = nodes else { return };
        let (life, received) = (*incarnation, asker.received);
        self.observe(Fact::Grants { leader, node, life, received });
    }

    /// Tells of what a source grants to a destination.
    pub(super) fn granted(&mut self, machine: usize, asker: &Asker, answer: &Answer) {
        let it = &self.machines[machine];
        let (Some(node), Some(process)) = (it.node, it.process.as_ref()) else { return };
        match (answer, &asker.request) {
            (Answer::Capture(_), Request::Prepare { partition, attempt, .. }) => {
                let row = process.replica.node().state().assignment(*partition);
                let row = row.map(|row| (row.move_id, row.target));
                let (partition, attempt) = (*partition, *attempt);
                self.observe(Fact::Prepared { node, partition, attempt, row });
            }
            (Answer::Noted, Request::Renew { partition, token, staged_bytes }) => {
                let (partition, token, staged_bytes) = (*partition, *token, *staged_bytes);
                self.observe(Fact::Renewed { node, partition, token, staged_bytes });
            }
            (Answer::Noted, Request::Release { partition, token }) => {
                let (partition, token) = (*partition, *token);
                self.observe(Fact::Released { node, partition, token });
            }
            _ => {}
        }
    }

    /// Tells of a listing that a destination takes in.
    pub(super) fn learned(&mut self, machine: usize, operation: &Operation, outcome: &Outcome) {
        let (
            Outcome::Call(Ok(Answer::Listing(listing))),
            Operation::Call { request: Request::List { partition, move_id, check }, .. },
        ) = (outcome, operation)
        else {
            return;
        };
        if let Some(node) = self.machines[machine].node {
            let (partition, move_id) = (*partition, *move_id);
            let compared = !check.is_empty();
            self.observe(Fact::Learned { node, partition, move_id, listing, compared });
        }
    }

    /// Tells of what a node asks for, where it matters when it does.
    pub(super) fn beats(&mut self, machine: usize, op: OpId, operation: &Operation) {
        if let (Operation::Gate(partition, Gating::List { .. }), Some(node)) =
            (operation, self.machines[machine].node)
        {
            self.observe(Fact::Listing { node, partition: *partition });
        }
        if let (
            Operation::Call { request: Request::Prepare { partition, attempt, .. }, .. },
            Some(node),
        ) = (operation, self.machines[machine].node)
        {
            self.observe(Fact::Tries { node, partition: *partition, attempt: *attempt });
        }
        if let (Operation::Stage(partition, Staging::Copy { .. }), Some(node)) =
            (operation, self.machines[machine].node)
        {
            self.observe(Fact::Copies { node, partition: *partition });
        }
        if let (Operation::Stage(partition, Staging::SetAside(_)), Some(node)) =
            (operation, self.machines[machine].node)
        {
            self.observe(Fact::AskingAside(node, *partition));
        }
        let may_renew =
            matches!(operation, Operation::Call { request: Request::Heartbeat { .. }, .. });
        let it = &self.machines[machine];
        if let Some(node) = it.node.filter(|_| may_renew) {
            let at = it.clock.local(self.now);
            self.observe(Fact::Beats { node, op, at });
        }
    }

    /// Tells of what may renew a lease, before the node is told.
    pub(super) fn beaten(&mut self, machine: usize, op: OpId, outcome: &Outcome) {
        let Outcome::Call(Ok(Answer::Heartbeat { index })) = outcome else { return };
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::Beaten { node, op, index: *index });
        }
    }

    /// Tells of work on directories before it is done.
    pub(super) fn about_to_stage(
        &mut self,
        machine: usize,
        partition: PartitionId,
        work: &Staging,
    ) {
        let Some(node) = self.machines[machine].node else { return };
        match work {
            Staging::SetAside(what) => {
                let directory = directory_of(*what);
                self.observe(Fact::SettingAside { node, partition, directory });
            }
            Staging::Restage(data) => {
                self.observe(Fact::Restaging { node, partition, data: *data });
            }
            Staging::Trim(_) => self.observe(Fact::Trimming { node, partition }),
            Staging::Copy { .. }
            | Staging::Checkpoint(_)
            | Staging::Probe { .. }
            | Staging::Verify(_)
            | Staging::Install { .. } => {}
        }
    }

    /// Tells of work on directories after it was done.
    pub(super) fn staged(
        &mut self,
        machine: usize,
        partition: PartitionId,
        installed: Option<narad_core::ids::Attempt>,
        outcome: &StagingOutcome,
    ) {
        let Some(node) = self.machines[machine].node else { return };
        if let (StagingOutcome::Install(Ok(())), Some(data)) = (outcome, installed) {
            self.observe(Fact::Installed { node, partition, data });
        }
    }

    /// Tells of a proposal of a node's own, when it leaves the node.
    pub(super) fn proposed(&mut self, machine: usize, operation: &Operation) {
        let (Operation::Append(entry) | Operation::Call { request: Request::Propose(entry), .. }) =
            operation
        else {
            return;
        };
        let Some(node) = self.machines[machine].node else { return };
        // What a leader appends for others was told of when they asked.
        if entry.proposal.node != node {
            return;
        }
        let origin =
            if self.is_wished(machine, &entry.command) { Origin::Operator } else { Origin::Node };
        self.observe(Fact::Proposed { node, entry, origin });
    }

    /// Tells of a log that is about to be made.
    pub(super) fn about_to_host(
        &mut self,
        machine: usize,
        partition: PartitionId,
        work: host::Operation,
    ) {
        let host::Operation::Open { data, birth: Some(start) } = work else { return };
        let Some(node) = self.machines[machine].node else { return };
        let there = self.machines[machine].disk.metadata(&log_dir(partition, data));
        if matches!(there, Ok(None)) {
            self.observe(Fact::Creating { node, partition, data, start });
        }
    }

    /// Tells of work on a live log after it was done.
    pub(super) fn hosted(
        &mut self,
        machine: usize,
        partition: PartitionId,
        work: host::Operation,
        outcome: &host::Outcome,
    ) {
        let Some(node) = self.machines[machine].node else { return };
        let Some(process) = self.machines[machine].process.as_ref() else { return };
        let seat = process.broker.find(partition);
        let log = seat.and_then(|seat| seat.slot.log().ok());
        match (work, outcome, log) {
            (host::Operation::Open { data, .. }, host::Outcome::Open(Ok(_)), Some(log)) => {
                let (bounds, position) = (log.bounds(), log.position());
                let (end, hwm, position) = (bounds.end, bounds.hwm, &position);
                self.observe(Fact::Opened { node, partition, data, end, hwm, position });
            }
            (host::Operation::Expose { epoch }, host::Outcome::Expose(Ok(())), Some(log)) => {
                let hwm = log.bounds().hwm;
                self.observe(Fact::Exposed { node, partition, epoch, hwm });
                self.news(partition);
            }
            (host::Operation::Close, host::Outcome::Close, _) => {
                if self.frozen.contains_key(&(machine, partition)) {
                    let at =
                        At { machine: Some(machine), partition: Some(partition), ..At::default() };
                    self.recorder.said(self.now, Kind::Freeze, "end", at, || "closed".to_owned());
                    self.freeze_is_over(machine, partition);
                }
                self.observe(Fact::Closed { node, partition });
            }
            _ => {}
        }
    }

    /// Writes down in which phase each move is, where that has changed.
    pub(super) fn watch_phases(&mut self, machine: usize) {
        if !self.recorder.is_traced() && !self.script.watches(Stage::Phase) {
            return;
        }
        let now = self.now;
        let Some(process) = self.machines[machine].process.as_mut() else { return };
        let moves: BTreeMap<PartitionId, _> = process.replica.node().moves().collect();
        let mut changed = Vec::new();
        for (partition, progress) in &moves {
            if process.phases.insert(*partition, progress.phase) != Some(progress.phase) {
                changed.push((*partition, phase_name(&progress.phase), format!("{progress:?}")));
            }
        }
        process.phases.retain(|partition, _| {
            let goes_on = moves.contains_key(partition);
            if !goes_on {
                changed.push((*partition, "over", String::new()));
            }
            goes_on
        });
        for (partition, name, text) in changed {
            let at = At { machine: Some(machine), partition: Some(partition), ..At::default() };
            self.recorder.said(now, Kind::Phase, name, at, || text);
            let partition = Some(partition);
            let _ = self.meet(Moment { partition, ..Moment::new(Stage::Phase, name, machine) });
        }
    }

    /// Returns the newest replicated state that any machine shows.
    pub(crate) fn newest(&self) -> Option<&State> {
        let all = self.machines.iter().filter_map(|machine| {
            let process = machine.process.as_ref()?;
            Some(process.replica.node().state())
        });
        all.max_by_key(|state| state.applied())
    }

    /// Returns a topic by name, by what the newest replica says.
    pub(crate) fn topic(&self, name: &str) -> Option<TopicId> {
        Some(self.newest()?.topic_named(name)?.id)
    }
}

pub(super) const fn directory_of(what: What) -> Directory {
    match what {
        What::Staging => Directory::Staging,
        What::Installed(attempt) => Directory::Installed(attempt),
    }
}
