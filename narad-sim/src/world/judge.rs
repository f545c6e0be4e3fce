//! What a scenario expects, looked at when it is due.

use std::time::Duration;

use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::{State, Status};
use narad_core::node::Node;

use super::script::{Moment, Place};
use super::{Due, World};
use crate::oracle::{Directory, Look as _};
use crate::outcome::{Summary, Violation};
use crate::scenario::vocabulary::waiting_name;
use crate::scenario::{
    Condition, Counter, Expect, Extent, Files, Machine, MemberIs, PartitionName, ProcessIs, Stage,
    is_within,
};
use crate::time::Time;

/// An expectation, and how far it has come.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) expect: Expect,
    /// From when on it is looked at, once that is known.
    pub(crate) from: Option<Time>,
    pub(crate) occurrences: u32,
    pub(crate) is_over: bool,
}

/// What a condition came to: whether it holds, and what was found.
struct Found(bool, String);

mod rest;

impl World {
    /// Between two looks at something that is to come true within a while.
    const LOOK_EVERY: Duration = Duration::from_millis(100);

    pub(super) fn plan_expectations(&mut self) {
        let all = self.setup.scenario.expects.clone();
        for (at, expect) in all.into_iter().enumerate() {
            let from = (!expect.is_at_the_end()
                && expect.when.on.is_none()
                && expect.when.since.is_none())
            .then(|| Time::from_start(expect.when.at.unwrap_or_default()).after(expect.when.after));
            if let Some(from) = from {
                self.schedule(from, Due::Look(at));
            }
            let it = Expectation { expect, from, occurrences: 0, is_over: false };
            self.expectations.push(it);
        }
    }

    /// An event of the protocol may set off looks.
    pub(super) fn expectations_meet(&mut self, moment: &Moment<'_>) {
        for at in 0..self.expectations.len() {
            let it = &self.expectations[at];
            let Some(on) = it.expect.when.on.clone() else { continue };
            let (since, after) = (it.expect.when.since.clone(), it.expect.when.after);
            let early = it.expect.when.at.is_some_and(|from| self.now < Time::from_start(from));
            let waits = since.is_some_and(|label| !self.script.taken.contains_key(&label));
            if it.is_over || early || waits || !self.fits_moment(&on, moment) {
                continue;
            }
            self.expectations[at].occurrences += 1;
            if on.filter.counts(self.expectations[at].occurrences) {
                self.expectations[at].from = Some(self.now.after(after));
                self.schedule(self.now.after(after), Due::Look(at));
            }
        }
    }

    /// A step was taken for the first time: expectations that wait for it begin.
    pub(super) fn expectations_since(&mut self, label: &crate::scenario::Label) {
        for at in 0..self.expectations.len() {
            let it = &mut self.expectations[at];
            let when = &it.expect.when;
            if when.since.as_ref() != Some(label) || when.on.is_some() {
                continue;
            }
            let from = self.now.after(when.after);
            it.from = Some(from);
            self.schedule(from, Due::Look(at));
        }
    }

    /// Looks at an expectation that is due.
    pub(super) fn look_at(&mut self, at: usize) {
        let it = &self.expectations[at];
        if it.is_over {
            return;
        }
        let expect = it.expect.clone();
        let until = it.from.unwrap_or(self.now).after(expect.within.unwrap_or_default());
        let unmet = self.unmet(&expect);
        let next = self.now.after(Self::LOOK_EVERY);
        match (unmet, expect.always) {
            // It holds, and has to go on holding.
            (None, true) if self.now < until || expect.within.is_none() => {
                self.schedule(next, Due::Look(at));
            }
            (None, _) => self.expectations[at].is_over = true,
            (Some(_), false) if self.now < until => self.schedule(next.min(until), Due::Look(at)),
            (Some(why), _) => {
                self.expectations[at].is_over = true;
                self.violated("expect", why);
            }
        }
    }

    /// Looks at all expectations of the end, and at those whose time never came.
    pub(crate) fn look_at_the_end(&mut self) {
        for at in 0..self.expectations.len() {
            let it = self.expectations[at].clone();
            if it.is_over {
                continue;
            }
            let why = if it.expect.is_at_the_end() || it.from.is_some() {
                self.unmet(&it.expect)
            } else {
                let when = &it.expect.when;
                let event = when.on.as_ref().map(|on| on.name.to_owned());
                let step = when.since.as_ref().map(|label| format!("the step \"{}\"", label.0));
                let missed = event.into_iter().chain(step).collect::<Vec<_>>().join(" after ");
                Some(format!("what it waits for never came: {missed}"))
            };
            if let Some(why) = why {
                self.violated("expect", why);
            }
        }
    }

    fn unmet(&self, expect: &Expect) -> Option<String> {
        for condition in &expect.conditions {
            let Found(holds, found) = self.check(condition);
            if holds == expect.not {
                let not = if expect.not { "not expected" } else { "expected" };
                return Some(format!("{not}: {condition}; found: {found}"));
            }
        }
        None
    }

    #[expect(clippy::too_many_lines, reason = "one arm a condition")]
    fn check(&self, condition: &Condition) -> Found {
        let state = self.newest();
        let row = |name: &PartitionName| state?.assignment(self.partition(name)?);
        let shown = |node: NodeId| {
            self.machine_of(node).map_or_else(|| node.to_string(), |at| format!("n{}", at + 1))
        };
        match condition {
            Condition::Owner { partition, is } => {
                let owner = row(partition).map(|row| row.owner);
                let wanted = self.who(is, Place::default());
                let holds = owner.is_some_and(|owner| self.machine_of(owner) == wanted);
                Found(holds && wanted.is_some(), owner.map_or_else(|| "nobody".to_owned(), shown))
            }
            Condition::Target { partition, is } => {
                let target = row(partition).and_then(|row| row.target);
                let holds = match is {
                    None => target.is_none(),
                    Some(who) => {
                        let wanted = self.who(who, Place::default());
                        target.is_some_and(|target| self.machine_of(target) == wanted)
                    }
                };
                Found(holds, target.map_or_else(|| "none".to_owned(), shown))
            }
            Condition::Epoch { partition, is, at_least, at_most } => {
                let epoch = row(partition).map_or(0, |row| row.epoch.0);
                Found(is_within(epoch, *is, *at_least, *at_most), epoch.to_string())
            }
            Condition::Member { node, is } => self.check_member(*node, *is),
            Condition::Process { node, is } => {
                let at = node.0 as usize - 1;
                let machine = &self.machines[at];
                let found = match (&machine.process, machine.gave_up) {
                    (Some(_), _) => ProcessIs::Up,
                    (None, true) => ProcessIs::Stopped,
                    (None, false) => ProcessIs::Down,
                };
                Found(found == *is, found.word().to_owned())
            }
            Condition::Note { name, node, partition, is, at_least, at_most } => {
                let partition = partition.as_ref().and_then(|name| self.partition(name));
                let node = node.map(|node| node.0 as usize - 1);
                let count = self.recorder.notes_of(name, node, partition);
                let bounds = (*is, *at_least, *at_most);
                let least = if bounds == (None, None, None) { Some(1) } else { *at_least };
                Found(is_within(count, *is, least, *at_most), count.to_string())
            }
            Condition::Count { of, is, at_least, at_most } => {
                let count = self.counted(*of);
                Found(is_within(count, *is, *at_least, *at_most), count.to_string())
            }
            Condition::Taken { of, is, at_least, at_most } => {
                let count = self.script.taken_of(of);
                Found(is_within(count, *is, *at_least, *at_most), count.to_string())
            }
            Condition::Reply { of, is, reason } => match self.replies.get(of) {
                None => Found(false, "no reply".to_owned()),
                Some(answered) => {
                    let right =
                        reason.as_ref().is_none_or(|r| answered.reason.split(' ').any(|x| x == r));
                    let found = format!("{} {}", answered.is.word(), answered.reason);
                    Found(answered.is == *is && right, found)
                }
            },
            Condition::Log { node, partition, what, of, is, at_least, at_most } => {
                match self.measured(node, partition, *what, *of) {
                    None => Found(false, "there is no such log".to_owned()),
                    Some(found) => {
                        Found(is_within(found, *is, *at_least, *at_most), found.to_string())
                    }
                }
            }
            Condition::Directories { node, what, partition, is, at_least, at_most } => {
                let Some(at) = self.who(node, Place::default()) else {
                    return Found(false, "there is no such node".to_owned());
                };
                let named = partition.as_ref().and_then(|name| self.partition(name));
                let count = self.count_directories(at, *what, named);
                Found(is_within(count, *is, *at_least, *at_most), count.to_string())
            }
            Condition::Visible { partition, is, at_least, at_most } => {
                let found = self.visible(partition).unwrap_or(0);
                Found(is_within(found, *is, *at_least, *at_most), found.to_string())
            }
            Condition::Open { node, partition, is } => {
                let Some(at) = self.who(node, Place::default()) else {
                    return Found(false, "there is no such node".to_owned());
                };
                let named = partition.as_ref().map(|name| self.partition(name));
                let all = self.newest().map(State::assignments).into_iter().flatten();
                let open = all
                    .map(|(partition, _)| partition)
                    .filter(|partition| named.is_none_or(|named| named == Some(*partition)))
                    .filter(|partition| self.has_open(at, *partition))
                    .count();
                Found((open > 0) == *is, format!("{open} open"))
            }
            Condition::Waiting { partition, reason } => {
                let found = self.partition(partition).and_then(|p| self.waiting(p));
                let holds = match (&found, reason) {
                    (Some(found), Some(reason)) => found == reason,
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                Found(holds, found.unwrap_or("nothing waits").to_owned())
            }
            Condition::Frozen { partition, at_least, at_most } => {
                let named = partition.as_ref().and_then(|name| self.partition(name));
                let longest = self.longest_freeze(named);
                let holds = at_least.is_none_or(|least| longest >= least)
                    && at_most.is_none_or(|most| longest <= most);
                Found(holds, format!("{longest:?}"))
            }
            Condition::Leader { is } => {
                let leader = self.leader();
                let found = leader.map_or_else(|| "nobody".to_owned(), |at| format!("n{}", at + 1));
                Found(leader == Some(is.0 as usize - 1), found)
            }
            Condition::Settled { is } => {
                let restless = self.restless();
                Found(restless.is_empty() == *is, restless.join("; "))
            }
        }
    }

    fn check_member(&self, machine: Machine, is: MemberIs) -> Found {
        let at = machine.0 as usize - 1;
        let state = self.newest();
        let member = self.machines[at].node.and_then(|node| state?.member(node));
        let Some(member) = member else {
            return Found(is == MemberIs::Absent, "absent".to_owned());
        };
        let configuration = state.expect("a member is in a state").configuration();
        let holds = match is {
            MemberIs::Alive => member.status == Status::Alive && !member.retired,
            MemberIs::Dead => matches!(member.status, Status::Dead(_)),
            MemberIs::Draining => member.draining && !member.retired,
            MemberIs::Staying => !member.draining && !member.retired,
            MemberIs::Retired => member.retired,
            MemberIs::Absent => false,
            MemberIs::Voter => configuration.voters.contains(&member.id),
            MemberIs::Learner => configuration.learners.contains(&member.id),
        };
        let voter = configuration.voters.contains(&member.id);
        let found = format!(
            "{:?}, draining {}, retired {}, voter {voter}",
            member.status, member.draining, member.retired
        );
        Found(holds, found)
    }

    /// Whether a machine has a partition's log open, as consumers and metrics find it.
    fn has_open(&self, at: usize, partition: PartitionId) -> bool {
        let seat = self.machines[at].process.as_ref().and_then(|it| it.broker.find(partition));
        seat.is_some_and(|seat| seat.slot.log().is_ok())
    }

    fn counted(&self, of: Counter) -> u64 {
        let mut summary = Summary::default();
        self.oracle.summarise(&mut summary);
        match of {
            Counter::Acked => summary.acked,
            Counter::Delivered => summary.delivered,
            Counter::Duplicates => summary.duplicates,
            Counter::Lost => {
                let is_gap = |violation: &&Violation| violation.invariant == "S1";
                self.violations.iter().filter(is_gap).count() as u64
            }
            Counter::MovesPlanned => summary.moves_planned,
            Counter::MovesDone => summary.moves_done,
            Counter::MovesForced => summary.moves_forced,
            Counter::MovesGivenUp => summary.moves_given_up,
            Counter::Freezes => self.recorder.count_of("freezes"),
            Counter::CopiedBytes => summary.copied_bytes,
            Counter::FlipsRejected => self.recorder.notes_of("mover-flip-rejected", None, None),
            Counter::Revokes => self.recorder.commands_of("revoke"),
            Counter::Deaths => self.recorder.commands_of("mark-dead"),
            Counter::Retired => {
                let members = self.newest().into_iter().flat_map(State::members);
                members.filter(|member| member.retired).count() as u64
            }
            Counter::Restarts => self.recorder.count_of("restarts"),
            Counter::Elections => self.recorder.count_of("elections"),
            Counter::Refused => self.recorder.count_of("refused"),
            Counter::ConsumersRefused => self.recorder.count_of("consumers-refused"),
            Counter::Accepted => self.recorder.count_of("accepted"),
            Counter::AcceptsRefused => self.recorder.count_of("accepts-refused"),
            Counter::Backlog => {
                let nodes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
                nodes.map(|process| process.replica.node().backlog().records).sum()
            }
            Counter::Rerouted => self.recorder.count_of("rerouted"),
            Counter::ArrivedAgain => self.oracle.arrived_again(),
            Counter::Carried => self.recorder.count_of("carried"),
            Counter::Salvaged => self.recorder.count_of("salvaged"),
            Counter::Skipped => self.recorder.count_of("skipped"),
            Counter::Swept => self.recorder.count_of("swept"),
        }
    }

    fn measured(
        &self,
        node: &crate::scenario::Who,
        name: &PartitionName,
        what: Files,
        of: Extent,
    ) -> Option<u64> {
        let at = self.who(node, Place::default())?;
        let partition = self.partition(name)?;
        let (dir, directory) = self.directories_of(at, what, partition).into_iter().next()?;
        let view = self.view().log(self.machines[at].node?, partition, directory)?;
        Some(match of {
            Extent::Start => view.start.0,
            Extent::End => view.end.0,
            Extent::Hwm => self.live_hwm(at, partition, directory).unwrap_or(view.hwm.0),
            Extent::Records => view.records.len() as u64,
            Extent::Bytes => {
                use narad_runtime::disk::Disk as _;
                let disk = &self.machines[at].disk;
                let entries = disk.list(&dir).ok()?;
                entries
                    .iter()
                    .filter_map(|entry| Some(disk.metadata(&dir.join(&entry.name)).ok()??.bytes))
                    .sum()
            }
            Extent::Committed => {
                let process = self.machines[at].process.as_ref()?;
                let position = process.broker.find(partition)?.slot.position().ok()?;
                position.committed.map_or(0, |offset| offset.0)
            }
        })
    }

    /// What consumers may see is in memory until the next frame says so on the disk.
    fn live_hwm(&self, at: usize, partition: PartitionId, directory: Directory) -> Option<u64> {
        let row = self.newest()?.assignment(partition)?;
        if directory != Directory::Installed(row.data) {
            return None;
        }
        let process = self.machines[at].process.as_ref()?;
        Some(process.broker.find(partition)?.slot.log().ok()?.bounds().hwm.0)
    }

    fn visible(&self, name: &PartitionName) -> Option<u64> {
        let partition = self.partition(name)?;
        let row = self.newest()?.assignment(partition)?;
        let at = self.machine_of(row.owner)?;
        let process = self.machines[at].process.as_ref()?;
        let (log, _) = process.broker.find(partition)?.slot.readable().ok()?;
        let bounds = log.bounds();
        Some(bounds.hwm.0.saturating_sub(bounds.start.0))
    }

    fn count_directories(&self, at: usize, what: Files, partition: Option<PartitionId>) -> u64 {
        use narad_runtime::disk::Disk as _;
        if what == Files::Trash {
            let trash = self.machines[at].disk.list(std::path::Path::new(".trash"));
            return trash.map_or(0, |entries| entries.len() as u64);
        }
        let partitions = partition.map_or_else(|| self.partitions_on(at), |one| vec![one]);
        let count = |partition: &PartitionId| self.directories_of(at, what, *partition).len();
        partitions.iter().map(count).sum::<usize>() as u64
    }

    /// Returns why the move of a partition waits, if it does.
    pub(crate) fn waiting(&self, partition: PartitionId) -> Option<&'static str> {
        self.machines.iter().find_map(|machine| {
            let node: &Node = machine.process.as_ref()?.replica.node();
            let mut moves = node.moves();
            let (_, progress) = moves.find(|(of, _)| *of == partition)?;
            Some(waiting_name(&progress.waiting?))
        })
    }

    /// Returns the world as names and values, for people who step through a run.
    pub(crate) fn describe(&self) -> Vec<(String, String)> {
        let mut out = vec![
            ("time".to_owned(), self.now.to_string()),
            ("events".to_owned(), self.recorder.events.to_string()),
        ];
        let named = |partition: PartitionId| self.recorder.partition_name(partition);
        let shown = |node: NodeId| {
            self.machine_of(node).map_or_else(|| node.to_string(), |at| format!("n{}", at + 1))
        };
        for (at, machine) in self.machines.iter().enumerate() {
            let name = format!("n{}", at + 1);
            let Some(process) = &machine.process else {
                out.push((format!("{name} process"), "down".to_owned()));
                continue;
            };
            let paused = if machine.paused.is_some() { ", paused" } else { "" };
            let node = process.replica.node();
            out.push((format!("{name} process"), format!("life {}{paused}", node.incarnation())));
            out.push((format!("{name} applied"), node.state().applied().to_string()));
            let leader = node.leader().and_then(|node| self.machine_of(node));
            let leader = leader.map_or("nobody".to_owned(), |at| format!("n{}", at + 1));
            out.push((format!("{name} believes to lead"), leader));
            for (partition, progress) in node.moves() {
                let value = format!("{:?}, waiting {:?}", progress.phase, progress.waiting);
                out.push((format!("{name} move of {}", named(partition)), value));
            }
            for (partition, row) in node.state().assignments() {
                if let Some(seat) = process.broker.find(partition)
                    && let Ok(log) = seat.slot.log()
                {
                    let bounds = log.bounds();
                    let value = format!(
                        "start {} hwm {} end {}, commits {}",
                        bounds.start,
                        bounds.hwm,
                        bounds.end,
                        seat.slot.commits()
                    );
                    out.push((
                        format!("{name} log of {} in {}", named(partition), row.epoch),
                        value,
                    ));
                }
            }
        }
        if let Some(state) = self.newest() {
            for (partition, row) in state.assignments() {
                let target = row.target.map_or(String::new(), |to| format!(" -> {}", shown(to)));
                let value = format!(
                    "{}{target}, epoch {}, move {}",
                    shown(row.owner),
                    row.epoch,
                    row.move_id
                );
                out.push((format!("row of {}", named(partition)), value));
            }
            for member in state.members() {
                let value = format!(
                    "{:?}, life {}, draining {}, retired {}",
                    member.status, member.incarnation, member.draining, member.retired
                );
                out.push((format!("member {}", member.name), value));
            }
        }
        out
    }

    fn fits_moment(&self, on: &crate::scenario::On, moment: &Moment<'_>) -> bool {
        on.stage == moment.stage
            && (on.name == moment.name || on.name == moment.also)
            && self.fits(on, moment)
    }
}

/// The stages that some expectation waits for.
pub(super) fn watched(expects: &[Expect]) -> impl Iterator<Item = Stage> + '_ {
    expects.iter().filter_map(|expect| Some(expect.when.on.as_ref()?.stage))
}
