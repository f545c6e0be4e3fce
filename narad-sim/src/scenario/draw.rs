//! Invents scenarios.
//!
//! A drawn scenario is an ordinary one: all that will go wrong is written down as steps, so that a
//! failure shrinks by taking steps away, and can be read. Moves are under way early and again and
//! again, and most faults strike at a point of a move rather than at a time.
//!
//! Not every class of faults is on in every scenario: with all of them on, each would hide what the
//! others do.

mod dice;
mod extras;
mod gadget;
mod operate;
mod strike;

use std::time::Duration;

pub use self::dice::{Choices, Tape};
use self::dice::{Dice, PERCENT};
use self::gadget::GADGETS;
use super::Heals;
use super::cluster::MetastoreKind;
use super::name::{Machine, PartitionName, TopicName, Who};
use super::step::{Step, When};
use super::table::words;
use super::value::{Between, Bytes, Chance, Rate};
use super::{
    Action, Address, Burst, Consume, HeavyTail, Museum, Produce, Retention, Route, Scenario, Topic,
    Via,
};

/// What a drawn scenario is to be like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawOptions {
    /// What replicates the log; drawn without it, four in five the abstract one.
    pub metastore: Option<MetastoreKind>,
    /// What it is mostly about; drawn without it.
    pub bias: Option<Bias>,
    /// How long the safety phase takes; 25 to 60 s, drawn, without it.
    pub safety: Option<Duration>,
    /// How many nodes there are, spares included; 3 to 7, drawn, without it.
    pub nodes: Option<u32>,
}

words! {
    /// What a drawn scenario is mostly about.
    pub enum Bias {
        /// Flips that come late, twice, or whose answer is lost.
        Flip = "flip",
        /// Freezes: their beginning, their end, what is written around them.
        Freeze = "freeze",
        /// Sources that die for longer than a force-promote takes.
        Death = "death",
        /// Nodes that restart in the middle of something.
        Restart = "restart",
        /// Power losses, and what a disk keeps.
        Power = "power",
        /// Disks that fail, fill up, are slow.
        Disk = "disk",
        /// Links that are cut or clogged, nodes that hear only half.
        Network = "network",
        /// Old messages that come again.
        Museum = "museum",
        /// Leaders that change at every moment, replicas that lag.
        Leader = "leader",
        /// Nodes that join, drain, are retired, stay after all.
        Membership = "membership",
        /// Topics that go and come, retention.
        Topics = "topics",
        /// Clocks, pauses and suspends.
        Clock = "clock",
    }
}

/// A scenario that is being drawn.
struct Draft<'c> {
    dice: Dice<'c>,
    scenario: Scenario,
    options: DrawOptions,
    /// Whether faults are being drawn.
    strikes: bool,
    /// How many gadgets were used; makes labels unique.
    gadgets: u32,
    /// Nodes whose decommission was begun.
    draining: Vec<Machine>,
    /// Spare machines that have not joined.
    spares: Vec<Machine>,
    /// Deaths that last longer than a force-promote takes; more than a few would leave nothing.
    long_deaths: u32,
}

impl Scenario {
    /// Draws a scenario. It is valid, and the same choices give the same one.
    ///
    /// # Examples
    ///
    /// A seed is a scenario, and a scenario is a file:
    ///
    /// ```
    /// use narad_sim::random::Random;
    /// use narad_sim::scenario::{DrawOptions, Scenario};
    ///
    /// let drawn = Scenario::draw(&mut Random::root(7), &DrawOptions::default());
    /// let read = Scenario::parse(&drawn.to_toml(), "drawn.toml");
    /// assert_eq!(read.as_ref(), Ok(&drawn));
    /// ```
    #[must_use]
    pub fn draw(choices: &mut impl Choices, options: &DrawOptions) -> Self {
        let mut draft = Draft {
            dice: Dice::new(choices),
            scenario: Self::empty("drawn"),
            options: *options,
            strikes: false,
            gadgets: 0,
            draining: Vec::new(),
            spares: Vec::new(),
            long_deaths: 0,
        };
        draft.cluster();
        draft.topics();
        draft.load();
        draft.weather();
        draft.operators();
        draft.faults();
        draft.ingress();
        draft.extras();
        draft.scenario.steps.sort_by_key(|step| step.when.at.unwrap_or_default());
        draft.scenario
    }
}

impl Draft<'_> {
    fn cluster(&mut self) {
        let (dice, options) = (&mut self.dice, self.options);
        self.scenario.head.heals = *dice.pick(&[Heals::All, Heals::Core]);
        self.scenario.head.safety =
            options.safety.unwrap_or_else(|| Duration::from_secs(dice.within(25, 60)));
        let all = options.nodes.unwrap_or_else(|| {
            let usual = [3, 3, 4, 4, 5, 5, 6, 7];
            *dice.pick(&usual)
        });
        let spares = if all > 3 { dice.below(u64::from(all.min(5) - 2)) } else { 0 };
        let spares = u32::try_from(spares).expect("it is below 3");
        let cluster = &mut self.scenario.cluster;
        cluster.nodes = all - spares;
        cluster.spares = spares;
        self.spares = (cluster.nodes + 1..=all).map(Machine).collect();
        cluster.metastore = options.metastore.unwrap_or_else(|| {
            if dice.happens(20) { MetastoreKind::Raft } else { MetastoreKind::Abstract }
        });
        cluster.segment_bytes = Bytes(*dice.pick(&[16, 4, 4, 8]) << 10);
        let policy = &mut cluster.policy;
        policy.max_in_flight = dice.maybe(30, |dice| *dice.pick(&[1, 2, 4]));
        policy.moves_per_source = dice.maybe(30, |dice| *dice.pick(&[1, 4]));
        policy.moves_per_destination = dice.maybe(30, |dice| *dice.pick(&[1, 4]));
        policy.min_voters = dice.maybe(60, |dice| *dice.pick(&[2, 1]));
        // A copy that takes a while is one that something can happen to.
        policy.copy_rate_bytes_per_second =
            dice.maybe(60, |dice| Bytes(*dice.pick(&[64, 16, 8, 256]) << 10));
        let tight = if options.bias == Some(Bias::Clock) { 60 } else { 20 };
        if dice.happens(tight) {
            // A death is noticed before the lease is over, and there is nothing to spare.
            policy.dead_timeout = Some(Duration::from_secs(1));
            policy.force_promote_after = Some(Duration::from_secs(2));
        }
        let config = &mut cluster.config;
        config.lag_bytes = dice.maybe(30, |dice| Bytes(*dice.pick(&[1, 16]) << 10));
        config.freeze_ttl = dice.maybe(20, |_| Duration::from_secs(1));
        let long = dice.happens(if options.bias == Some(Bias::Freeze) { 40 } else { 8 });
        config.retry_max = dice.maybe(20, |_| Duration::from_secs(3));
        let raft = &mut cluster.raft;
        if dice.happens(40) {
            raft.snapshot_entries = *dice.pick(&[50, 20]);
            raft.keep_entries = *dice.pick(&[10, 1]);
        }
        if dice.happens(20) {
            cluster.tick_jitter = dice.millis(5, 90);
        }
        if long {
            self.long_tails();
        }
    }

    /// Has tails take longer than a freeze may, again and again.
    fn long_tails(&mut self) {
        let rate = Bytes(*self.dice.pick(&[8, 16, 4]) << 10);
        let cluster = &mut self.scenario.cluster;
        cluster.policy.copy_rate_bytes_per_second = Some(rate);
        let config = &mut cluster.config;
        config.freeze_duty_percent = Some(1);
        config.freeze_ttl = Some(Duration::from_secs(1));
        config.freeze_max = Some(Duration::from_secs(2));
        config.lag_bytes = Some(Bytes(64 << 10));
        config.freeze_target = Some(Duration::from_secs(30));
        for topic in &mut self.scenario.topics {
            (topic.preload, topic.preload_bytes) = (300, Bytes(300));
        }
    }

    fn topics(&mut self) {
        let dice = &mut self.dice;
        let partitions = u32::try_from(dice.within(1, 6)).expect("it is at most 6");
        let two = partitions > 1 && dice.happens(25);
        let first = if two { partitions.div_ceil(2) } else { partitions };
        let mut left = partitions;
        for (name, count) in [("orders", first), ("events", partitions)] {
            let count = count.min(left);
            left -= count;
            if count == 0 {
                continue;
            }
            // Partitions that all begin on one node are moved at once.
            let owners = match dice.below(4) {
                0 | 1 => vec![Machine(1)],
                2 => vec![Machine(1), Machine(2)],
                _ => Vec::new(),
            };
            let mut preload = u32::try_from(dice.within(0, 60) * 5).expect("it is at most 300");
            let mut preload_bytes = Bytes(*dice.pick(&[100, 300, 40]));
            if self.scenario.cluster.config.freeze_duty_percent.is_some() {
                // A tail that is as long as it may be.
                (preload, preload_bytes) = (300, Bytes(300));
            }
            let parent =
                (name == "events" && dice.happens(50)).then(|| TopicName("orders".to_owned()));
            self.scenario.topics.push(Topic {
                name: TopicName(name.to_owned()),
                partitions: count,
                owners,
                preload,
                preload_bytes,
                parent,
                pinned: false,
            });
        }
    }

    fn load(&mut self) {
        let dice = &mut self.dice;
        let produce = &mut self.scenario.workload.produce;
        *produce = Produce {
            per_second: Rate(f64::from(
                u32::try_from(*dice.pick(&[20, 5, 10, 40, 80])).unwrap_or(20),
            )),
            value_bytes: Bytes(*dice.pick(&[100, 50, 200, 400])),
            huge_bytes: dice.maybe(10, |_| Bytes(8 << 10)),
            batch: *dice.pick(&[1, 1, 1, 4, 16]),
            burst: dice.maybe(20, |dice| Burst {
                every: dice.secs(2, 8),
                records: *dice.pick(&[50, 100, 200]),
            }),
            hot: dice.maybe(15, |_| Chance(0.8)),
            route: *dice.pick(&[Route::Stale, Route::Stale, Route::Anyone, Route::Fresh]),
            ..Produce::standard()
        };
        let share = |dice: &mut Dice<'_>| {
            if dice.happens(30) { Chance(*dice.pick(&[0.02, 0.1, 0.3])) } else { Chance(0.0) }
        };
        self.scenario.workload.consume = Consume {
            per_second: Rate(*dice.pick(&[50.0, 20.0, 100.0, 5.0])),
            late: share(dice),
            twice: share(dice),
            never: share(dice),
            nack: share(dice),
            old_owner: share(dice),
            visibility: *dice.pick(&[Duration::from_secs(5), Duration::from_secs(2)]),
            ..Consume::standard()
        };
        let retention = if self.leans(Bias::Topics) { 50 } else { 12 };
        let dice = &mut self.dice;
        self.scenario.workload.retention = dice.maybe(retention, |dice| Retention {
            keep_bytes: Bytes(*dice.pick(&[32, 16, 8]) << 10),
            every: dice.secs(1, 5),
        });
    }

    /// What may happen to every message and at every step of a disk.
    fn weather(&mut self) {
        let (stormy, disks) = (self.leans(Bias::Network), self.leans(Bias::Disk));
        let museum = self.leans(Bias::Museum);
        let elections = self.leans(Bias::Leader);
        let raised = |on: bool, percent: u64| if on { (percent * 3).min(PERCENT) } else { percent };
        let dice = &mut self.dice;
        let small = [Chance(0.002), Chance(0.01), Chance(0.05)];
        let network = &mut self.scenario.network;
        if dice.happens(30) {
            network.delay = *dice.pick(&[
                Between::micros(50, 500),
                Between::micros(1_000, 20_000),
                Between::micros(5_000, 120_000),
            ]);
        }
        let mut share = |percent: u64| {
            if dice.happens(raised(stormy, percent)) { *dice.pick(&small) } else { Chance(0.0) }
        };
        network.loss = share(20);
        network.duplicate = share(20);
        network.reorder = share(15);
        network.reset = share(20);
        network.garbage = share(10);
        network.heavy_tail = dice.maybe(raised(stormy, 15), |dice| HeavyTail {
            chance: *dice.pick(&[Chance(0.001), Chance(0.005)]),
            up_to: dice.secs(2, 20),
        });
        network.museum = dice.maybe(raised(museum, 20), |dice| Museum {
            chance: *dice.pick(&[Chance(0.005), Chance(0.02), Chance(0.1)]),
            up_to: dice.secs(3, 40),
        });
        if dice.happens(raised(stormy, 10)) {
            network.bandwidth = Bytes(*dice.pick(&[64, 256, 1024]) << 10);
        }
        let disk = &mut self.scenario.disk;
        if dice.happens(raised(disks, 10)) {
            disk.error = *dice.pick(&[Chance(0.001), Chance(0.01)]);
        }
        if dice.happens(raised(disks, 10)) {
            disk.slow = *dice.pick(&[Chance(0.002), Chance(0.02)]);
        }
        if dice.happens(20) {
            disk.sync = *dice.pick(&[Between::micros(5_000, 60_000), Between::micros(50, 200)]);
        }
        if self.scenario.cluster.metastore == MetastoreKind::Abstract {
            let log = &mut self.scenario.abstract_log;
            let mut share = |percent: u64| {
                let on = dice.happens(raised(elections, percent));
                if on { *dice.pick(&small) } else { Chance(0.0) }
            };
            log.lost = share(20);
            log.late = share(20);
            log.twice = share(20);
            if dice.happens(raised(elections, 15)) {
                log.snapshot_entries = *dice.pick(&[10, 30]);
            }
            if dice.happens(raised(elections, 20)) {
                log.elections_per_minute = *dice.pick(&[Rate(2.0), Rate(6.0), Rate(15.0)]);
            }
            if dice.happens(20) {
                log.apply = Between::micros(500, *dice.pick(&[100_000, 1_000_000]));
            }
        }
    }

    fn faults(&mut self) {
        self.strikes = true;
        // Which gadgets may be used at all.
        let on: Vec<&gadget::Gadget> = GADGETS
            .iter()
            .filter(|gadget| {
                let fits = self.options.bias.is_some_and(|bias| gadget.of.contains(&bias));
                let percent = if fits { PERCENT } else { 35 };
                self.dice.happens(percent)
            })
            .collect();
        if on.is_empty() {
            return;
        }
        let favoured: Vec<&gadget::Gadget> = on
            .iter()
            .filter(|gadget| self.options.bias.is_some_and(|bias| gadget.of.contains(&bias)))
            .copied()
            .collect();
        let count = *self.dice.pick(&[1, 2, 3, 4, 5, 7]);
        for at in 0..count {
            let pool = if at % 2 == 0 && !favoured.is_empty() { &favoured } else { &on };
            let gadget = *self.dice.pick(pool);
            self.gadgets += 1;
            (gadget.draw)(self);
        }
        if self.dice.happens(if self.leans(Bias::Death) { 60 } else { 15 }) {
            self.gadgets += 1;
            gadget::promoted(self);
        }
    }

    /// Whether the scenario is to be mostly about this.
    fn leans(&self, bias: Bias) -> bool {
        self.options.bias == Some(bias)
    }

    /// Whether any node accepts records, or owners alone. Drawn last, so that the rest of a seed is
    /// the same either way.
    fn ingress(&mut self) {
        let is_deadly = self.leans(Bias::Death);
        let dice = &mut self.dice;
        if dice.happens(30) {
            self.scenario.workload.consume.extend = *dice.pick(&[Chance(0.02), Chance(0.2)]);
        }
        if dice.happens(if is_deadly { 60 } else { 30 }) {
            self.scenario.workload.consume.persist = dice.secs(5, 20);
        }
        if !dice.happens(50) {
            return;
        }
        let produce = &mut self.scenario.workload.produce;
        produce.via = Via::Ingress;
        let usual = [Address::Mixed, Address::Mixed, Address::Key, Address::Number, Address::Any];
        produce.address = *dice.pick(&usual);
        let config = &mut self.scenario.cluster.config;
        config.send_records_max = dice.maybe(40, |dice| *dice.pick(&[64, 16, 4]));
        config.sends_in_flight_max = dice.maybe(20, |dice| *dice.pick(&[2, 1]));
        config.reroute_after = dice.maybe(30, |dice| dice.millis(300, 1_500));
        config.checkpoint_interval = dice.maybe(30, |dice| dice.millis(20, 2_000));
        config.backlog_records_max = dice.maybe(30, |_| 1024);
    }

    fn push(&mut self, step: Step) {
        self.scenario.steps.push(step);
    }

    fn label(&self, of: &str) -> String {
        format!("{of}-{}", self.gadgets)
    }

    /// A partition that is there from the start; a fault is mostly about one that moves.
    fn partition(&mut self) -> PartitionName {
        let moves = |step: &Step| match &step.action {
            Action::Move { partition, .. } => Some(partition.clone()),
            _ => None,
        };
        let moving: Vec<PartitionName> = self.scenario.steps.iter().filter_map(moves).collect();
        if self.strikes && !moving.is_empty() && self.dice.happens(75) {
            return self.dice.pick(&moving).clone();
        }
        let topics: Vec<(String, u32)> =
            self.scenario.topics.iter().map(|one| (one.name.0.clone(), one.partitions)).collect();
        let all: Vec<PartitionName> = topics
            .iter()
            .flat_map(|(topic, count)| {
                (0..*count).map(|index| PartitionName { topic: topic.clone(), index })
            })
            .collect();
        self.dice.pick(&all).clone()
    }

    /// Any machine that takes part from the start.
    fn founder(&mut self) -> Machine {
        let nodes = u64::from(self.scenario.cluster.nodes);
        Machine(u32::try_from(1 + self.dice.below(nodes)).expect("there are at most 64"))
    }

    fn anyone(&mut self) -> Who {
        Who::Node(self.founder())
    }

    /// A time in the safety phase, early enough for something to come of it.
    fn moment(&mut self) -> When {
        let end = self.safety_ms() * 3 / 4;
        When::at(Duration::from_millis(self.dice.within(5, end / 100) * 100))
    }

    fn safety_ms(&self) -> u64 {
        u64::try_from(self.scenario.head.safety.as_millis()).unwrap_or(u64::MAX)
    }

    /// How long something lasts: mostly a moment, sometimes longer than a force-promote takes.
    fn lasting(&mut self) -> Duration {
        if self.long_deaths < 3 && self.dice.happens(20) {
            self.long_deaths += 1;
            return self.dice.millis_by_100(8_500, 16_000);
        }
        self.dice.millis_by_100(200, 4_000)
    }

    /// Longer than a source must be dead for its partitions to be promoted.
    fn for_long(&mut self) -> Duration {
        self.long_deaths += 1;
        self.dice.millis_by_100(8_500, 18_000)
    }
}

/// A step at a time.
fn at(when: When, action: Action) -> Step {
    Step::new(when, action)
}
