//! How processes begin and end, and what of their disks outlives them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use narad_core::config::Config;
use narad_core::ids::{Incarnation, NodeId, StoreUuid};
use narad_core::metastore::State;
use narad_core::node::Identity as Me;
use narad_core::peer::{Answer, Request};
use narad_runtime::broker::{Broker, Standpoint};
use narad_runtime::disk::Disk;
use narad_runtime::disk::mem::Keep;
use narad_runtime::raft::{Loaded, MemStore, RaftConfig, RaftLogging, RaftStore as _};
use narad_runtime::replica::Actions;
use narad_runtime::storage::Storage;
use narad_runtime::store::identity::{self, Identity};
use narad_runtime::store::{PartitionStore, SegmentStore};

use super::ingress::Accepting;
use super::machine::{Ground, Process, Saved};
use super::observe::At;
use super::replica::{Hearing, Replicated, Seat};
use super::setup::{addresses, store_uuid};
use super::{Due, Local, World};
use crate::oracle::{DiskChange, End, Fact};
use crate::scenario::Raft as RaftTimes;
use crate::time::Time;
use crate::trace::Kind;

/// A process that has started, the state that it started from, and what it asks for.
struct Booted {
    process: Process,
    state: State,
    actions: Actions,
}

/// Why a process could not start; it says so and ends.
type NotStarted = String;

impl World {
    /// Between the end of a process that nobody wanted to end and its next start.
    const RESTART_PAUSE: Duration = Duration::from_secs(1);

    /// Starts the process of a machine on what its disk holds.
    pub(crate) fn start(&mut self, machine: usize) {
        assert!(self.machines[machine].process.is_none(), "one process a machine");
        self.machines[machine].life += 1;
        self.machines[machine].wanted = true;
        self.machines[machine].gave_up = false;
        self.machines[machine].wake_at = Time::NEVER;
        let now = self.now;
        self.machines[machine].clock.restart(now);
        match self.boot(machine) {
            Ok(Some(Booted { process, state, mut actions })) => {
                let (life, node) = (process.incarnation, process.replica.node().identity().node);
                self.machines[machine].process = Some(process);
                self.recorder.line(now, Kind::Fault, "start", Some(machine), None, None);
                if self.machines[machine].life > 1 {
                    self.recorder.count("restarts");
                }
                self.observe(Fact::Started { node, life });
                self.observe(Fact::Restored { node, state: &state });
                self.carry_out(machine, &mut actions);
                self.set_recurring(machine);
                self.plan_wake(machine);
                self.reach_changed();
            }
            // Nobody yet: it asks to be admitted first.
            Ok(None) => {}
            Err(why) => {
                self.machines[machine].gave_up = true;
                let at = At { machine: Some(machine), ..At::default() };
                self.recorder.said(now, Kind::Fault, "does-not-start", at, || why);
                self.recorder.count_fault("does-not-start");
                self.schedule(now.after(4 * Self::RESTART_PAUSE), Due::Start(machine));
            }
        }
    }

    fn set_recurring(&mut self, machine: usize) {
        // Not all nodes tick at once.
        let shift = Duration::from_micros(self.machines[machine].latency.below(50_000));
        if self.log.is_none() {
            let tick = self.in_local_time(machine, shift);
            self.local(machine, tick, Local::Tick);
        }
        let flush = self.in_local_time(machine, Self::FLUSH_EVERY + shift);
        self.local(machine, flush, Local::Flush);
        let sweep = self.in_local_time(machine, Self::SWEEP_EVERY);
        self.local(machine, sweep, Local::Sweep);
    }

    /// The same steps in the same order as the real server's.
    fn boot(&mut self, machine: usize) -> Result<Option<Booted>, NotStarted> {
        let now = self.now;
        let draw = self.chance.branch("store-uuid").branch_no(machine as u64 ^ now.0).any();
        let it = &mut self.machines[machine];
        let text = |error: &dyn std::error::Error| error.to_string();
        let uuid = StoreUuid(u128::from(draw) << 64 | store_uuid(machine).0);
        let me = Identity::open(&it.disk, &it.name, || Ok(uuid)).map_err(|e| text(&e))?;
        let Some(node) = me.node else {
            self.begin_to_join(machine);
            return Ok(None);
        };
        it.node = Some(node);
        let has_started = identity::has_started(&it.disk).map_err(|e| text(&e))?;
        let is_lost = it
            .log
            .as_ref()
            .is_some_and(|log| log.load().is_ok_and(|found| found == Loaded::empty(NodeId(0))));
        if has_started && is_lost {
            return Err("the replicated log is missing: restore it, or replace the node".into());
        }
        if !has_started {
            Accepting::create(&it.disk).map_err(|e| text(&e))?;
        }
        let life = identity::next_incarnation(&it.disk).map_err(|e| text(&e))?;
        let disk: Arc<dyn Disk> = Arc::new(it.disk.clone());
        let opened = Accepting::open(Arc::clone(&disk), self.setup.log_limits);
        let (accepting, accepted) = opened.map_err(|e| text(&e))?;
        let store = SegmentStore::new(disk, self.setup.log_limits).map_err(|e| text(&e))?;
        let store: Arc<dyn PartitionStore> = Arc::new(store);
        let found = store.recover().map_err(|e| text(&e))?;
        let held = found.partitions.iter().map(|(partition, _)| *partition).collect();

        let local = it.clock.local(now);
        let ground = Arc::new(Ground::new(local));
        let broker = Arc::new(Broker::new(Arc::clone(&ground) as Arc<dyn Standpoint>));
        let storage = Storage::new(Arc::clone(&store), Arc::clone(&broker));
        let who =
            Me { node, name: it.name.clone(), store_uuid: me.store, addrs: addresses(machine) };
        let config = Config { jitter_seed: self.setup.seed ^ node.0, ..self.setup.config.clone() };
        let seat = Seat { now: local, me: who, incarnation: life, config, held, accepted };
        let mut actions = Actions { listens: true, ..Actions::default() };
        let raft = it.log.clone();
        self.remember_node(node, machine);
        self.up[machine] = true;
        let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
        let replica = match (raft, self.log.as_mut()) {
            (Some(store), _) => {
                let times = &self.setup.scenario.cluster.raft;
                let config = raft_config(times, node, life, self.setup.seed);
                Replicated::of_raft(config, store, seat, &mut actions)
            }
            (None, Some(log)) => Replicated::of_abstract(log, &hearing, now, seat, &mut actions),
            (None, None) => unreachable!("a machine has one log or the other"),
        };
        let (replica, state) = replica.map_err(|error| text(&error))?;
        let process = Process {
            replica,
            incarnation: life,
            store,
            broker,
            ground,
            storage,
            requests: BTreeMap::new(),
            next_request: 0,
            running: BTreeMap::new(),
            appends: BTreeMap::new(),
            accepting,
            freezing: BTreeMap::new(),
            phases: BTreeMap::new(),
            spins: (now, 0),
        };
        Ok(Some(Booted { process, state, actions }))
    }

    pub(super) fn remember_node(&mut self, node: NodeId, machine: usize) {
        let at = usize::try_from(node.0).expect("node ids are small");
        if self.by_node.len() <= at {
            self.by_node.resize(at + 1, None);
        }
        self.by_node[at] = Some(machine);
    }

    /// Ends the process; what it has written stays in the page cache.
    pub(crate) fn kill(&mut self, machine: usize) {
        self.end_process(machine, End::Killed, narad_runtime::disk::MemDisk::kill);
    }

    /// Ends the process as an operator does: what is in memory only is written down before.
    pub(crate) fn stop(&mut self, machine: usize) {
        if let Some(process) = &self.machines[machine].process {
            process.broker.flush_positions();
            // What cannot be noted is brought to its owners once more.
            let _ = process.accepting.log.close();
        }
        self.end_process(machine, End::Stopped, narad_runtime::disk::MemDisk::kill);
    }

    /// Ends the process and drops what was not synced, except for what `keep` says.
    pub(crate) fn power_loss(&mut self, machine: usize, keep: Keep) {
        if let Some(store) = &self.machines[machine].log {
            store.crash();
        }
        self.end_process(machine, End::PowerLost, |disk| disk.crash(keep));
    }

    /// The process cannot go on, and says so; whoever looks after it starts it again.
    pub(super) fn end_by_itself(&mut self, machine: usize, why: &str) {
        let at = At { machine: Some(machine), ..At::default() };
        self.recorder.said(self.now, Kind::Fault, "gave-up", at, || why.to_owned());
        self.end_process(machine, End::Gave, narad_runtime::disk::MemDisk::kill);
        self.machines[machine].wanted = true;
        self.schedule(self.now.after(Self::RESTART_PAUSE), Due::Start(machine));
    }

    fn end_process(
        &mut self,
        machine: usize,
        how: End,
        treat: impl FnOnce(&narad_runtime::disk::MemDisk),
    ) {
        let name = match how {
            End::Killed => "kill",
            End::PowerLost => "power-loss",
            End::Stopped => "stop",
            End::Gave => "end",
        };
        self.recorder.line(self.now, Kind::Fault, name, Some(machine), None, None);
        let now = self.now;
        let it = &mut self.machines[machine];
        it.wanted = false;
        it.gave_up = matches!(how, End::Gave);
        it.life += 1;
        it.paused = None;
        it.joins_through = None;
        it.process = None;
        treat(&it.disk);
        let node = it.node;
        self.up[machine] = false;
        if let Some(node) = node {
            let hearing = Hearing { net: &self.net, up: &self.up, by_node: &self.by_node };
            if let Some(log) = self.log.as_mut() {
                log.stop(now, node, &hearing);
            }
            self.observe(Fact::Ended { node, how });
        }
        let frozen: Vec<_> =
            self.frozen.keys().filter(|(at, _)| *at == machine).map(|(_, of)| *of).collect();
        for partition in frozen {
            self.freeze_is_over(machine, partition);
        }
        self.forget_asks_of(machine);
        self.reach_changed();
    }

    /// Withholds everything from a process for so long; its clock goes on.
    pub(crate) fn pause(&mut self, machine: usize, until: Time) {
        let it = &mut self.machines[machine];
        if it.process.is_none() {
            return;
        }
        self.recorder.line(self.now, Kind::Fault, "pause", Some(machine), None, None);
        if it.paused.is_none() {
            it.paused_since = self.now;
        }
        it.paused.get_or_insert_default();
        it.stuck_until = until;
        self.schedule(until, Due::GoOn(machine, until));
        self.reach_changed();
    }

    /// Lets a paused process go on: what it has missed happens at once, in its old order.
    pub(crate) fn go_on(&mut self, machine: usize) {
        let now = self.now;
        self.machines[machine].clock.go(now);
        let it = &mut self.machines[machine];
        let Some(missed) = it.paused.take() else { return };
        it.paused_for += now.since(it.paused_since);
        self.recorder.line(now, Kind::Fault, "resume", Some(machine), None, None);
        for due in missed {
            self.schedule(now, due);
        }
        self.machines[machine].wake_at = Time::NEVER;
        self.plan_wake(machine);
        self.reach_changed();
    }

    /// Remembers the whole medium of a machine under a name.
    pub(crate) fn save_disk(&mut self, machine: usize, label: String) {
        let saved = self.image_of(machine);
        self.machines[machine].saved.insert(label, saved);
    }

    /// Returns what a loss of power would leave of a machine's medium.
    pub(crate) fn image_of(&self, machine: usize) -> Saved {
        let it = &self.machines[machine];
        let durable = match (&self.log, it.node) {
            (Some(log), Some(node)) => Some(log.save(node)),
            _ => None,
        };
        let log = it.log.as_ref().map(MemStore::image);
        Saved { disk: it.disk.image(Keep::Nothing), log, durable, node: it.node }
    }

    /// Puts another medium into a machine whose process does not run.
    pub(crate) fn put_disk(&mut self, machine: usize, saved: &Saved) {
        self.tell_of_disk(machine, DiskChange::Replaced);
        let it = &mut self.machines[machine];
        assert!(it.process.is_none(), "a disk is changed while nothing runs on it");
        it.disk.restore(&saved.disk);
        if let (Some(log), Some(image)) = (&it.log, &saved.log) {
            log.restore(image);
        }
        it.node = saved.node;
        if let (Some(log), Some(durable), Some(node)) =
            (self.log.as_mut(), &saved.durable, saved.node)
        {
            log.restore(node, durable.clone());
        }
    }

    /// Puts an empty medium into a machine.
    pub(crate) fn wipe_disk(&mut self, machine: usize) {
        self.tell_of_disk(machine, DiskChange::Lost);
        let it = &mut self.machines[machine];
        assert!(it.process.is_none(), "a disk is changed while nothing runs on it");
        it.disk.restore(&narad_runtime::disk::MemDisk::new().image(Keep::Nothing));
        it.log = it.log.as_ref().map(|_| MemStore::new(NodeId(0)));
        if let (Some(log), Some(node)) = (self.log.as_mut(), it.node) {
            log.restore(node, crate::metastore::Durable::default());
        }
        self.machines[machine].node = None;
    }

    fn tell_of_disk(&mut self, machine: usize, change: DiskChange) {
        if let Some(node) = self.machines[machine].node {
            self.observe(Fact::Disk { node, change });
        }
    }

    fn begin_to_join(&mut self, machine: usize) {
        let through = self.machines[machine].joins_through;
        self.machines[machine].joins_through = through.or(Some(0));
        self.schedule(self.now, Due::Join(machine));
    }

    /// Asks a member to be admitted, over and over again until it is: asking twice is harmless.
    pub(super) fn ask_to_join(&mut self, machine: usize) {
        let it = &self.machines[machine];
        let (Some(through), true) = (it.joins_through, it.wanted) else { return };
        if it.process.is_some() || it.node.is_some() {
            return;
        }
        let uuid = Identity::open(&it.disk, &it.name, || unreachable!("it was drawn at the start"));
        if let Ok(me) = uuid {
            let request = Request::Join {
                name: it.name.clone(),
                store_uuid: me.store,
                addrs: addresses(machine),
            };
            self.send_join(machine, through, request);
        }
        // Whoever it asks may be down: it tries the members one after the other.
        let next = (through + 1) % self.machines.len();
        self.machines[machine].joins_through = Some(if next == machine { 0 } else { next });
        self.schedule(self.now.after(Duration::from_millis(500)), Due::Join(machine));
    }

    /// A machine that asked to be admitted hears who it is now.
    pub(super) fn joined(&mut self, machine: usize, answer: &Answer) {
        let Answer::Joined { node, .. } = answer else { return };
        let it = &mut self.machines[machine];
        if it.process.is_some() || it.node.is_some() || !it.wanted {
            return;
        }
        let opened =
            Identity::open(&it.disk, &it.name, || unreachable!("it was drawn at the start"));
        let Ok(mut me) = opened else { return };
        if me.join(&it.disk, Self::CLUSTER, *node).is_err() {
            return;
        }
        it.log = it.log.as_ref().map(|_| MemStore::new(*node));
        it.joins_through = None;
        self.start(machine);
    }

    /// The one cluster of a world.
    pub(crate) const CLUSTER: u128 = 1;
}

fn raft_config(times: &RaftTimes, node: NodeId, life: Incarnation, seed: u64) -> RaftConfig {
    RaftConfig {
        election_ticks_min: times.election_ticks_min as usize,
        election_ticks_max: times.election_ticks_max as usize,
        heartbeat_ticks: times.heartbeat_ticks as usize,
        snapshot_entries: times.snapshot_entries,
        keep_entries: times.keep_entries,
        election_seed: Some(seed),
        logging: RaftLogging::Silent,
        ..RaftConfig::new(node, life.0)
    }
}
