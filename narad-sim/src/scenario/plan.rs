//! Turns what happens every now and then into steps.

use std::time::Duration;

use super::draw::Choices;
use super::file::unset;
use super::name::{Label, Machine, PartitionName, Side, TopicName, Who};
use super::step::{Step, When};
use super::value::{Bytes, Chance, Rate, Shift};
use super::{Action, DiskAction, Files, Keep, Platter, PolicyChange, Scenario};

impl Scenario {
    /// Returns the same scenario with `[chance]` turned into steps at times and places that are
    /// drawn: what is run, and what a trace keeps, so that it can be shrunk step by step.
    #[must_use]
    pub fn planned(&self, choices: &mut impl Choices) -> Self {
        let mut planned = self.clone();
        planned.chance = unset();
        let mut planner = Planner { scenario: self, choices, steps: Vec::new(), saved: 0 };
        planner.plan();
        planned.steps.append(&mut planner.steps);
        planned
    }

    /// Returns the classes of faults that are on, by the names of `[chance]`, `[network]`,
    /// `[disk]`, `[abstract_log]` and of the steps that are taken.
    #[must_use]
    pub fn classes(&self) -> Vec<String> {
        use super::table::Section;
        let mut classes = std::collections::BTreeSet::new();
        let mut sections = Vec::new();
        self.network.write_to(&mut sections);
        self.disk.write_to(&mut sections);
        self.abstract_log.write_to(&mut sections);
        self.chance.write_to(&mut sections);
        classes.extend(sections.into_iter().map(|(key, _)| key.replace('_', "-")));
        classes.extend(self.steps.iter().map(|step| step.action.word().to_owned()));
        classes.into_iter().collect()
    }
}

struct Planner<'a, C> {
    scenario: &'a Scenario,
    choices: &'a mut C,
    steps: Vec<Step>,
    saved: u32,
}

/// Something that happens at a time.
type Act<'a, C> = fn(&mut Planner<'a, C>, Duration);

impl<'a, C: Choices> Planner<'a, C> {
    fn plan(&mut self) {
        let chance = &self.scenario.chance;
        let rates: [(Rate, Act<'a, C>); 29] = [
            (chance.kill, |it, at| it.blow(at, |node, lasting| Action::Kill { node, lasting })),
            (chance.power_loss, |it, at| {
                let keep = it.pick(Keep::ALL);
                it.blow(at, |node, lasting| Action::PowerLoss { node, keep, lasting });
            }),
            (chance.long_death, Self::long_death),
            (chance.pause, |it, at| it.blow(at, |node, lasting| Action::Pause { node, lasting })),
            (chance.suspend, |it, at| {
                it.lasting(at, |node, lasting| Action::Suspend {
                    node,
                    lasting,
                    clock_stops: false,
                });
            }),
            (chance.clock_rate, Self::clock_rate),
            (chance.clock_jump, |it, at| {
                let by = Duration::from_secs(it.within(1, 3_600));
                it.one(at, |node| Action::ClockJump { node, by });
            }),
            (chance.wall_jump, |it, at| {
                let ms = i64::try_from(it.within(1, 7_200_000)).unwrap_or(1);
                let by = Shift { ms: if it.choices.below(2) == 1 { -ms } else { ms } };
                it.one(at, |node| Action::WallJump { node, by });
            }),
            (chance.cut, |it, at| it.cut(at, true)),
            (chance.one_way_cut, |it, at| it.cut(at, false)),
            (chance.clog, |it, at| {
                let both = it.choices.below(2) == 1;
                it.blow(at, |node, lasting| {
                    let from = Side::These(vec![node]);
                    Action::Clog { from, to: Side::Others, both, lasting }
                });
            }),
            (chance.slow_link, |it, at| {
                let delay = Duration::from_millis(it.within(10, 1_000));
                it.blow(at, |node, lasting| {
                    let from = Side::These(vec![node]);
                    Action::Slow {
                        from,
                        to: Side::Others,
                        both: true,
                        bandwidth: None,
                        delay,
                        lasting,
                    }
                });
            }),
            (chance.lag, |it, at| it.lasting(at, |node, lasting| Action::Lag { node, lasting })),
            (chance.io_error, |it, at| it.disk_fail(at, None)),
            (chance.sync_error, |it, at| it.disk_fail(at, Some(DiskAction::Sync))),
            (chance.disk_full, |it, at| {
                let free = Bytes(it.within(0, 32 << 10));
                it.blow(at, |node, lasting| Action::DiskFull { node, free, lasting });
            }),
            (chance.slow_disk, |it, at| {
                let by = Duration::from_millis(it.within(5, 500));
                it.blow(at, |node, lasting| Action::DiskSlow { node, by, lasting });
            }),
            (chance.stuck_disk, |it, at| {
                it.blow(at, |node, lasting| Action::DiskStuck { node, lasting });
            }),
            (chance.bit_rot, Self::bit_rot),
            (chance.stale_disk, Self::stale_disk),
            (chance.join, Self::join),
            (chance.drain, |it, at| it.one(at, |node| Action::Drain { node, through: None })),
            (chance.cancel, |it, at| it.one(at, |node| Action::Cancel { node, through: None })),
            (chance.moves, Self::move_one),
            (chance.abort, |it, at| {
                if let Some(partition) = it.partition() {
                    it.push(at, Action::Abort { partition, through: None });
                }
            }),
            (chance.delete_topic, Self::delete_topic),
            (chance.policy, Self::policy),
            (chance.transfer, |it, at| it.push(at, Action::Transfer { to: Who::Follower })),
            (chance.rolling_restart, Self::rolling_restart),
        ];
        for (rate, act) in rates {
            for _ in 0..self.times(rate) {
                let at = self.moment();
                act(self, at);
            }
        }
        self.steps.sort_by_key(|step| step.when.at);
    }

    /// How often something of a rate per minute happens.
    fn times(&mut self, rate: Rate) -> u64 {
        let expected = rate.0 * self.scenario.head.safety.as_secs_f64() / 60.0;
        // The fraction is a chance of one in a million each.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rates are not negative, and a cast saturates"
        )]
        let millionths = (expected.min(10_000.0) * 1e6) as u64;
        let more = self.choices.below(1_000_000) < millionths % 1_000_000;
        millionths / 1_000_000 + u64::from(more)
    }

    fn push(&mut self, at: Duration, action: Action) {
        self.steps.push(Step::new(When::at(at), action));
    }

    fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.choices.below(most.saturating_sub(least) + 1)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.choices.below(from.len() as u64)).unwrap_or(0)]
    }

    fn moment(&mut self) -> Duration {
        let end = self.scenario.head.safety * 9 / 10;
        Duration::from_millis(
            self.within(0, u64::try_from(end.as_millis()).unwrap_or(u64::MAX - 1)),
        )
    }

    fn machine(&mut self) -> Machine {
        let nodes = u64::from(self.scenario.cluster.nodes);
        Machine(u32::try_from(self.within(1, nodes)).unwrap_or(1))
    }

    fn partition(&mut self) -> Option<PartitionName> {
        let named =
            |topic: &super::Topic, index| PartitionName { topic: topic.name.0.clone(), index };
        let all: Vec<PartitionName> = self
            .scenario
            .topics
            .iter()
            .flat_map(|topic| (0..topic.partitions).map(move |index| named(topic, index)))
            .collect();
        let at = usize::try_from(self.choices.below(all.len() as u64)).unwrap_or(0);
        all.get(at).cloned()
    }

    fn duration(&mut self) -> Duration {
        let between = self.scenario.chance.lasting;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.within(millis(between.least), millis(between.most)))
    }

    /// Something that happens to one node.
    fn one(&mut self, at: Duration, action: impl FnOnce(Who) -> Action) {
        let node = Who::Node(self.machine());
        self.push(at, action(node));
    }

    /// Something that happens to one node and lasts.
    fn lasting(&mut self, at: Duration, action: impl FnOnce(Who, Duration) -> Action) {
        let lasting = self.duration();
        self.one(at, |node| action(node, lasting));
    }

    /// The same, for actions that could last without end.
    fn blow(&mut self, at: Duration, action: impl FnOnce(Who, Option<Duration>) -> Action) {
        self.lasting(at, |node, lasting| action(node, Some(lasting)));
    }

    fn long_death(&mut self, at: Duration) {
        let policy = self.scenario.cluster.policy();
        let needed = policy.dead_timeout.saturating_add(policy.force_promote_after);
        let more = Duration::from_millis(self.within(500, 8_000));
        let lasting = Some(needed.saturating_add(more));
        self.one(at, |node| Action::Kill { node, lasting });
    }

    fn clock_rate(&mut self, at: Duration) {
        // Half of the bound: it is that of any two clocks.
        let bound = u64::from(self.scenario.cluster.policy().clock_rate_error_percent) * 10_000 / 2;
        let ppm = i64::try_from(self.within(1, bound.max(1))).unwrap_or(1);
        let ppm = if self.choices.below(2) == 1 { -ppm } else { ppm };
        self.one(at, |node| Action::ClockRate { node, ppm });
    }

    fn cut(&mut self, at: Duration, both: bool) {
        let nodes = self.scenario.cluster.nodes;
        let alone = self.machine();
        let others: Vec<Who> = (1..=nodes)
            .map(Machine)
            .filter(|machine| *machine != alone)
            .filter(|_| self.choices.below(3) > 0)
            .map(Who::Node)
            .collect();
        let to = if others.is_empty() { Side::Others } else { Side::These(others) };
        let (lasting, from) = (Some(self.duration()), Side::These(vec![Who::Node(alone)]));
        let back = !both && self.choices.below(2) == 1;
        let (from, to) = if back { (to, from) } else { (from, to) };
        self.push(at, Action::Cut { from, to, both, lasting });
    }

    fn disk_fail(&mut self, at: Duration, action: Option<DiskAction>) {
        let skip = u32::try_from(self.within(0, 20)).unwrap_or(0);
        self.blow(at, |node, lasting| Action::DiskFail {
            node,
            action,
            what: None,
            partition: None,
            skip,
            times: 1,
            lasting,
        });
    }

    fn bit_rot(&mut self, at: Duration) {
        let position = self.pick(&[Chance(0.0), Chance(0.2), Chance(0.5), Chance(0.9)]);
        if let Some(partition) = self.partition() {
            let node = Who::Target(partition.clone());
            let what = Files::Staging;
            let (partition, bytes) = (Some(partition), Bytes(1));
            self.push(at, Action::Rot { node, what, partition, position, bytes });
        }
    }

    fn stale_disk(&mut self, at: Duration) {
        let node = self.machine();
        self.saved += 1;
        let label = format!("saved-{}", self.saved);
        let save = Step::new(When::at(at), Action::SaveDisk { node }).labelled(&label);
        self.steps.push(save);
        let later = at.saturating_add(self.duration()).min(self.scenario.head.safety);
        let of = Some(Label(label));
        let node = Who::Node(node);
        self.push(later, Action::Restart { node, disk: Platter::Saved, of, from: None });
    }

    fn join(&mut self, at: Duration) {
        let cluster = &self.scenario.cluster;
        let joined = |machine: &Machine| {
            let is_it =
                |step: &Step| matches!(step.action, Action::Join { node, .. } if node == *machine);
            self.steps.iter().chain(&self.scenario.steps).any(is_it)
        };
        let mut spares = (cluster.nodes + 1..=cluster.machines()).map(Machine);
        if let Some(node) = spares.find(|machine| !joined(machine)) {
            let through = Who::Node(self.machine());
            self.push(at, Action::Join { node, through });
        }
    }

    fn move_one(&mut self, at: Duration) {
        let to = Who::Node(self.machine());
        if let Some(partition) = self.partition() {
            self.push(at, Action::Move { partition, to, through: None });
        }
    }

    fn delete_topic(&mut self, at: Duration) {
        let which = usize::try_from(self.choices.below(self.scenario.topics.len() as u64));
        let Some(topic) = which.ok().and_then(|at| self.scenario.topics.get(at)) else {
            return;
        };
        let (topic, partitions) = (TopicName(topic.name.0.clone()), topic.partitions);
        self.push(at, Action::DeleteTopic { topic: topic.clone() });
        let later = at.saturating_add(self.duration()).min(self.scenario.head.safety);
        self.push(later, Action::CreateTopic { topic, partitions, parent: None });
    }

    fn policy(&mut self, at: Duration) {
        let set = PolicyChange {
            max_in_flight: Some(u32::try_from(self.within(1, 8)).unwrap_or(1)),
            ..PolicyChange::none()
        };
        self.push(at, Action::Policy { set });
    }

    fn rolling_restart(&mut self, at: Duration) {
        let mut due = at;
        for number in 1..=self.scenario.cluster.nodes {
            let lasting = self.duration();
            if due > self.scenario.head.safety {
                return;
            }
            let node = Who::Node(Machine(number));
            self.push(due, Action::Stop { node, lasting: Some(lasting) });
            due = due.saturating_add(lasting).saturating_add(Duration::from_secs(1));
        }
    }
}
