//! What steps do: to machines, links, clocks, disks, the load, and the cluster as an operator.

mod disks;
mod heal;
mod operator;

use std::time::Duration;

use narad_core::ids::NodeId;

use super::consumers::{Then, Word};
use super::message::Settle;
use super::observe::At;
use super::script::Place;
use super::traffic::address;
use super::{Due, World};
use crate::clock::Clock;
use crate::net::Slow;
use crate::oracle::Fact;
use crate::scenario::{Action, Label, Platter, Side};
use crate::time::Time;
use crate::trace::Kind;

pub(crate) use disks::DiskUndo;
pub(crate) use operator::{Answered, Asked};

/// A machine whose power goes at a step of its disk.
#[derive(Clone, Debug)]
pub(crate) struct Doom {
    pub(crate) machine: usize,
    pub(crate) at_step: u64,
    pub(crate) keep: crate::scenario::Keep,
    pub(crate) lasting: Option<Duration>,
}

/// What undoes a step whose effect lasts only so long.
#[derive(Clone, Debug)]
pub(crate) enum Undo {
    Heal(Vec<(NodeId, NodeId)>),
    Unclog(Vec<(NodeId, NodeId)>),
    Hasten(Vec<(NodeId, NodeId)>),
    Disk(usize, DiskUndo),
    Lag(usize),
}

impl World {
    /// Does what a step says.
    pub(super) fn act(&mut self, label: &Label, action: &Action, place: Place) {
        self.recorder.count_fault(action.word());
        self.machine_changed(action, place);
        match action {
            // A note is in the trace; the others are done on the spot, to what they were set off by.
            Action::Note { .. }
            | Action::Hold {}
            | Action::Record {}
            | Action::Drop {}
            | Action::Duplicate { .. }
            | Action::Delay { .. }
            | Action::Corrupt {}
            | Action::Fail { .. }
            | Action::CrashWithin { .. } => {}
            Action::Release { of } => {
                for due in self.script.release(of) {
                    self.schedule(self.now, due);
                }
            }
            Action::Replay { of } => {
                if let Some(due) = self.script.recorded(of).cloned() {
                    self.schedule(self.now, due);
                }
            }
            Action::Start { .. }
            | Action::Join { .. }
            | Action::Kill { .. }
            | Action::PowerLoss { .. }
            | Action::CrashAfter { .. }
            | Action::Restart { .. }
            | Action::SaveDisk { .. }
            | Action::Stop { .. }
            | Action::Pause { .. }
            | Action::Resume { .. }
            | Action::Suspend { .. }
            | Action::Lag { .. } => self.act_on_machine(label, action, place),
            Action::Cut { from, to, both, lasting } => {
                let links = self.links(from, to, *both, place);
                self.cut(&links);
                self.undo_after(*lasting, Undo::Heal(links));
            }
            Action::Heal { from, to } => {
                let links = match from {
                    Some(from) => self.links(from, to, true, place),
                    None => self.net.cuts().collect(),
                };
                self.heal(&links);
            }
            Action::Clog { from, to, both, lasting } => {
                let links = self.links(from, to, *both, place);
                self.links_changed("clog", &links);
                for (from, to) in &links {
                    self.net.clog(*from, *to);
                }
                self.undo_after(*lasting, Undo::Unclog(links));
            }
            Action::Slow { from, to, both, bandwidth, delay, lasting } => {
                let links = self.links(from, to, *both, place);
                let bandwidth = bandwidth.map_or(0, |bytes| bytes.0);
                for (from, to) in &links {
                    self.net.slow(*from, *to, Slow { bandwidth, delay: *delay });
                }
                self.undo_after(*lasting, Undo::Hasten(links));
            }
            Action::ClockRate { node, ppm } => {
                let (now, Some(at)) = (self.now, self.who(node, place)) else { return };
                let ppm = (*ppm).clamp(Clock::PPM_MIN, Clock::PPM_MAX);
                self.machines[at].clock.set_rate(now, ppm);
                self.clock_changed(at);
                let bound = i64::from(self.setup.policy.clock_rate_error_percent) * 10_000;
                if ppm.abs() > bound {
                    self.observe(Fact::ClockBound(false));
                }
            }
            Action::ClockJump { node, by } => {
                let (now, Some(at)) = (self.now, self.who(node, place)) else { return };
                self.machines[at].clock.jump(now, *by);
                self.clock_changed(at);
                // A clock that leaps forward only ends leases early, and promotes early.
                self.observe(Fact::ClockBound(false));
            }
            Action::WallJump { node, by } => {
                if let Some(at) = self.who(node, place) {
                    self.machines[at].clock.jump_wall(by.ms);
                }
            }
            Action::DiskFail { .. }
            | Action::DiskFull { .. }
            | Action::DiskSlow { .. }
            | Action::DiskStuck { .. }
            | Action::Rot { .. }
            | Action::Erase { .. } => self.act_on_disk(action, place),
            Action::Drain { .. }
            | Action::Cancel { .. }
            | Action::Move { .. }
            | Action::Abort { .. }
            | Action::Pin { .. }
            | Action::Unpin { .. }
            | Action::CreateTopic { .. }
            | Action::DeleteTopic { .. }
            | Action::Policy { .. }
            | Action::Transfer { .. }
            | Action::Retire { .. }
            | Action::DeclareLost { .. }
            | Action::Propose { .. } => self.act_as_operator(label, action, place),
            Action::Produce { .. }
            | Action::Consume { .. }
            | Action::Ack { .. }
            | Action::Retain { .. }
            | Action::Skip { .. }
            | Action::Load { .. }
            | Action::Quiet {}
            | Action::Busy {} => self.act_as_client(action, place),
            Action::HealAll {} => self.heal_everything(),
        }
    }

    /// Writes down what is done to a clock or a disk.
    fn machine_changed(&mut self, action: &Action, place: Place) {
        let (Action::ClockRate { node, .. }
        | Action::ClockJump { node, .. }
        | Action::WallJump { node, .. }
        | Action::Suspend { node, .. }
        | Action::Lag { node, .. }
        | Action::DiskFail { node, .. }
        | Action::DiskFull { node, .. }
        | Action::DiskSlow { node, .. }
        | Action::DiskStuck { node, .. }
        | Action::Rot { node, .. }
        | Action::Erase { node, .. }) = action
        else {
            return;
        };
        let at = At { machine: self.who(node, place), ..At::default() };
        let text = || format!("{action:?}");
        self.recorder.said(self.now, Kind::Fault, action.word(), at, text);
    }

    fn act_on_machine(&mut self, label: &Label, action: &Action, place: Place) {
        let now = self.now;
        match action {
            Action::Start { node } => {
                let Some(at) = self.who(node, place) else { return };
                if self.machines[at].process.is_none() {
                    self.start(at);
                }
            }
            Action::Join { node, through } => {
                let node = crate::scenario::Who::Node(*node);
                let Some(at) = self.who(&node, place) else { return };
                self.machines[at].joins_through = self.who(through, place);
                if self.machines[at].process.is_none() {
                    self.start(at);
                }
            }
            Action::Kill { node, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                if self.machines[at].process.is_some() {
                    self.kill(at);
                }
                self.start_after(at, *lasting);
            }
            Action::Stop { node, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                if self.machines[at].process.is_some() {
                    self.stop(at);
                }
                self.start_after(at, *lasting);
            }
            Action::PowerLoss { node, keep, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                let keep = self.kept_of(*keep);
                self.power_loss(at, keep);
                self.start_after(at, *lasting);
            }
            Action::CrashAfter { node, disk_steps, keep, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                let steps = u64::from((*disk_steps).max(1));
                let disk = &self.machines[at].disk;
                // Whatever else the event wants to do fails, as on a disk without power.
                disk.stop_after(steps);
                let at_step = disk.steps() + steps;
                let (keep, lasting) = (*keep, *lasting);
                self.doomed.push(Doom { machine: at, at_step, keep, lasting });
            }
            Action::Restart { node, disk, of, from } => {
                let Some(at) = self.who(node, place) else { return };
                if self.machines[at].process.is_some() {
                    self.kill(at);
                }
                self.change_disk(at, *disk, of.as_ref(), *from);
                self.start(at);
            }
            Action::SaveDisk { node } => {
                let node = crate::scenario::Who::Node(*node);
                if let Some(at) = self.who(&node, place) {
                    self.save_disk(at, label.0.clone());
                }
            }
            Action::Pause { node, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                self.pause(at, lasting.map_or(Time::NEVER, |lasting| now.after(lasting)));
            }
            Action::Resume { node } => {
                if let Some(at) = self.who(node, place) {
                    self.go_on(at);
                }
            }
            Action::Suspend { node, lasting, clock_stops } => {
                let Some(at) = self.who(node, place) else { return };
                if *clock_stops {
                    self.machines[at].clock.stop(now);
                    self.observe(Fact::ClockBound(false));
                }
                self.pause(at, now.after(*lasting));
            }
            Action::Lag { node, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                let until = now.after(*lasting);
                let it = &mut self.machines[at];
                it.lags_until = it.lags_until.max(until);
                if let (Some(log), Some(node)) = (self.log.as_mut(), it.node) {
                    log.hold(node);
                    self.undo_after(Some(*lasting), Undo::Lag(at));
                }
            }
            _ => {}
        }
    }

    fn act_as_client(&mut self, action: &Action, place: Place) {
        match action {
            Action::Produce { partition, records, bytes, node, via, address } => {
                let Some(partition) = self.partition(partition) else { return };
                let at = node.as_ref().and_then(|node| self.who(node, place));
                let ids = self.clients.mint(u64::from(*records));
                let bytes = bytes.unwrap_or(self.clients.load.produce.value_bytes).0;
                let bytes = usize::try_from(bytes).unwrap_or(100);
                let mut offer = self.clients.usual(partition, ids, bytes);
                offer.via = via.unwrap_or(offer.via);
                offer.address = address.unwrap_or(offer.address);
                self.offer(offer, at);
            }
            Action::Consume { partition, records, ack, nack, extend, node } => {
                let Some(partition) = self.partition(partition) else { return };
                let at = node.as_ref().and_then(|node| self.who(node, place));
                let then = match (*nack, *extend, *ack) {
                    (true, ..) => Some(Then::Nack),
                    (false, true, _) => Some(Then::Extend),
                    (false, false, true) => Some(Then::Ack),
                    (false, false, false) => None,
                };
                self.reserve(partition, *records, then, at);
            }
            Action::Ack { partition, offset, epoch, node } => {
                let Some(partition) = self.partition(partition) else { return };
                let at = node.as_ref().and_then(|node| self.who(node, place));
                let newest = self.newest().and_then(|state| state.assignment(partition));
                let current = newest.map_or(1, |row| row.epoch.0);
                let epoch = narad_core::ids::Epoch(epoch.unwrap_or(current));
                let offset = narad_core::ids::Offset(*offset);
                let settle = Settle::Offset(epoch, offset);
                self.settle(Word { partition, settle, at, until: self.now });
            }
            Action::Retain { partition, keep_bytes } => {
                let Some(partition) = self.partition(partition) else { return };
                let owner = self.newest().and_then(|state| state.assignment(partition));
                let owner = owner.map(|row| row.owner);
                if let Some(machine) = owner.and_then(|owner| self.machine_of(owner)) {
                    self.retain_at(machine, partition, keep_bytes.0);
                }
            }
            Action::Skip { partition, node } => {
                let Some(partition) = self.partition(partition) else { return };
                let at = node.as_ref().and_then(|node| self.who(node, place));
                let owner = || Some(self.newest()?.assignment(partition)?.owner);
                let at = at.or_else(|| self.machine_of(owner()?));
                if let Some(machine) = at {
                    self.skip_damaged(machine, partition);
                }
            }
            Action::Load { per_second, partition } => {
                let partition = partition.as_ref().and_then(|name| self.partition(name));
                self.clients.set_rate(partition, per_second.0);
            }
            Action::Quiet {} => self.clients.is_busy = false,
            Action::Busy {} => self.clients.is_busy = true,
            _ => {}
        }
    }

    fn start_after(&mut self, at: usize, lasting: Option<Duration>) {
        if let Some(lasting) = lasting {
            self.machines[at].wanted = true;
            self.schedule(self.now.after(lasting), Due::Start(at));
        }
    }

    fn change_disk(
        &mut self,
        at: usize,
        disk: Platter,
        of: Option<&Label>,
        from: Option<crate::scenario::Machine>,
    ) {
        match disk {
            Platter::Same => {}
            Platter::Empty => self.wipe_disk(at),
            Platter::Saved => {
                let saved = of.and_then(|label| {
                    self.machines.iter().find_map(|machine| machine.saved.get(&label.0).cloned())
                });
                if let Some(saved) = saved {
                    self.put_disk(at, &saved);
                }
            }
            Platter::Other => {
                let other = from.and_then(|machine| {
                    self.who(&crate::scenario::Who::Node(machine), Place::default())
                });
                if let Some(other) = other {
                    let saved = self.image_of(other);
                    self.put_disk(at, &saved);
                }
            }
        }
    }

    fn clock_changed(&mut self, at: usize) {
        self.machines[at].wake_at = Time::NEVER;
        self.plan_wake(at);
    }

    fn undo_after(&mut self, lasting: Option<Duration>, undo: Undo) {
        if let Some(lasting) = lasting {
            self.schedule(self.now.after(lasting), Due::Undo(Box::new(undo)));
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Heal(links) => self.heal(&links),
            Undo::Unclog(links) => {
                self.links_changed("unclog", &links);
                for (from, to) in links {
                    let parcels = self.net.unclog(self.now, from, to);
                    self.release_parcels(parcels);
                }
            }
            Undo::Hasten(links) => {
                for (from, to) in links {
                    self.net.slow(from, to, Slow::default());
                }
            }
            Undo::Disk(at, undo) => self.undo_disk(at, undo),
            Undo::Lag(at) => self.catch_up(at),
        }
    }

    /// Lets a replica that lags catch up, unless a later step wants it to lag on.
    fn catch_up(&mut self, at: usize) {
        let it = &self.machines[at];
        if it.lags_until > self.now {
            return;
        }
        if let (Some(log), Some(node)) = (self.log.as_mut(), it.node) {
            log.release(self.now, node);
        }
        self.plan_log();
    }

    /// Writes down what was done to links.
    fn links_changed(&mut self, name: &'static str, links: &[(NodeId, NodeId)]) {
        let machine = |node: NodeId| usize::try_from(node.0).ok().and_then(|no| no.checked_sub(1));
        for (from, to) in links {
            let (from, to) = (machine(*from), machine(*to));
            self.recorder.line(self.now, Kind::Fault, name, from, to, None);
        }
    }

    fn cut(&mut self, links: &[(NodeId, NodeId)]) {
        self.links_changed("cut", links);
        for (from, to) in links {
            let lost = self.net.cut(*from, *to);
            for parcel in lost {
                self.clogged.remove(&parcel);
            }
        }
        self.reach_changed();
    }

    fn heal(&mut self, links: &[(NodeId, NodeId)]) {
        self.links_changed("heal", links);
        for (from, to) in links {
            self.net.heal(*from, *to);
        }
        self.reach_changed();
    }

    /// Returns the directed links between two sides.
    fn links(&self, from: &Side, to: &Side, both: bool, place: Place) -> Vec<(NodeId, NodeId)> {
        let these = |side: &Side| -> Option<Vec<usize>> {
            match side {
                Side::These(who) => {
                    Some(who.iter().filter_map(|who| self.who(who, place)).collect())
                }
                Side::Others => None,
            }
        };
        let others = |than: &[usize]| -> Vec<usize> {
            (0..self.machines.len()).filter(|at| !than.contains(at)).collect()
        };
        let (left, right) = match (these(from), these(to)) {
            (Some(left), Some(right)) => (left, right),
            (Some(left), None) => {
                let right = others(&left);
                (left, right)
            }
            (None, Some(right)) => (others(&right), right),
            (None, None) => (others(&[]), others(&[])),
        };
        let mut links = Vec::new();
        for one in &left {
            for other in &right {
                if one == other {
                    continue;
                }
                links.push((address(*one), address(*other)));
                if both {
                    links.push((address(*other), address(*one)));
                }
            }
        }
        links
    }
}
