//! Smaller scenarios that may fail like a given one.

use std::collections::BTreeSet;
use std::time::Duration;

use super::file::unset;
use super::name::Label;
use super::step::Step;
use super::value::{Mention, Rate};
use super::{Address, ConfigChange, Consume, Pace, PolicyChange, Produce, Raft, Scenario, Via};

impl Scenario {
    /// Returns scenarios that are a little smaller, the boldest first; all are valid.
    ///
    /// Whoever shrinks takes the first one that still fails and asks it again, until none does. A
    /// step goes together with those that speak of its label. Expectations stay: they may be what
    /// fails.
    pub fn shrinks(&self) -> impl Iterator<Item = Self> {
        let mut all = Vec::new();
        self.with_fewer_steps(&mut all);
        self.with_better_weather(&mut all);
        self.with_less_time(&mut all);
        self.with_less_load(&mut all);
        self.with_less_cluster(&mut all);
        self.with_plainer_steps(&mut all);
        all.into_iter().filter(|smaller| smaller.check().is_empty())
    }

    /// Adds what a change makes of the scenario, if it makes anything else of it.
    fn try_change(&self, all: &mut Vec<Self>, change: impl FnOnce(&mut Self)) {
        let mut smaller = self.clone();
        change(&mut smaller);
        if smaller != *self {
            all.push(smaller);
        }
    }

    /// Halves first, then quarters, down to single steps.
    fn with_fewer_steps(&self, all: &mut Vec<Self>) {
        let count = self.steps.len();
        let mut size = count;
        while size > 0 {
            for start in (0..count).step_by(size) {
                let gone = start..(start + size).min(count);
                self.try_change(all, |smaller| {
                    let mut at = 0..;
                    smaller.steps.retain(|_| !at.next().is_some_and(|at| gone.contains(&at)));
                    smaller.drop_dangling();
                });
            }
            size /= 2;
        }
    }

    /// Removes steps and expectations that speak of labels which are no more.
    fn drop_dangling(&mut self) {
        loop {
            let labels: BTreeSet<Label> =
                self.steps.iter().filter_map(|step| step.label.clone()).collect();
            let holds = |mentioned: &mut bool, mention: Mention<'_>| {
                if let Mention::Label(label) = mention {
                    *mentioned &= labels.contains(label);
                }
            };
            let before = (self.steps.len(), self.expects.len());
            self.steps.retain(|step| {
                let mut fine = true;
                step.visit("", &mut |_, mention| holds(&mut fine, mention));
                fine
            });
            self.expects.retain(|expect| {
                let mut fine = true;
                expect.visit("", &mut |_, mention| holds(&mut fine, mention));
                fine
            });
            if before == (self.steps.len(), self.expects.len()) {
                return;
            }
        }
    }

    fn with_better_weather(&self, all: &mut Vec<Self>) {
        self.try_change(all, |smaller| {
            smaller.network = unset();
            smaller.disk = unset();
            smaller.abstract_log = unset();
            smaller.chance = unset();
        });
        self.try_change(all, |smaller| smaller.network = unset());
        self.try_change(all, |smaller| smaller.disk = unset());
        self.try_change(all, |smaller| smaller.abstract_log = unset());
        self.try_change(all, |smaller| smaller.chance = unset());
        let good = super::Network::good();
        self.try_change(all, |smaller| smaller.network.loss = good.loss);
        self.try_change(all, |smaller| smaller.network.duplicate = good.duplicate);
        self.try_change(all, |smaller| smaller.network.reorder = good.reorder);
        self.try_change(all, |smaller| smaller.network.reset = good.reset);
        self.try_change(all, |smaller| smaller.network.garbage = good.garbage);
        self.try_change(all, |smaller| smaller.network.museum = None);
        self.try_change(all, |smaller| smaller.network.heavy_tail = None);
        self.try_change(all, |smaller| smaller.network.delay = good.delay);
        self.try_change(all, |smaller| smaller.network.bandwidth = good.bandwidth);
        self.try_change(all, |smaller| smaller.disk.error = super::Chance(0.0));
        self.try_change(all, |smaller| smaller.disk.slow = super::Chance(0.0));
        self.try_change(all, |smaller| smaller.disk.sync = super::Disk::good().sync);
        self.try_change(all, |smaller| smaller.abstract_log.elections_per_minute = Rate(0.0));
        self.try_change(all, |smaller| smaller.abstract_log.late = super::Chance(0.0));
        self.try_change(all, |smaller| smaller.abstract_log.lost = super::Chance(0.0));
        self.try_change(all, |smaller| smaller.abstract_log.twice = super::Chance(0.0));
    }

    fn with_less_time(&self, all: &mut Vec<Self>) {
        let safety = self.head.safety;
        let last = self.steps.iter().filter_map(|step| step.when.at).max().unwrap_or_default();
        let whole = |time: Duration| Duration::from_secs(time.as_secs() + 1);
        let shorter =
            [whole(safety / 2), whole(last), whole(safety * 3 / 4), whole(safety * 9 / 10)];
        for time in shorter {
            if time < safety {
                self.try_change(all, |smaller| {
                    smaller.head.safety = time;
                    smaller.steps.retain(|step| step.when.at.is_none_or(|at| at <= time));
                    smaller.drop_dangling();
                });
            }
        }
        self.try_change(all, |smaller| smaller.head.liveness = Duration::ZERO);
    }

    fn with_less_load(&self, all: &mut Vec<Self>) {
        self.try_change(all, |smaller| {
            smaller.workload.produce =
                Produce { per_second: smaller.workload.produce.per_second, ..Produce::standard() };
            smaller.workload.consume = Consume::standard();
            smaller.workload.retention = None;
        });
        self.try_change(all, |smaller| smaller.workload.produce.via = Via::Direct);
        self.try_change(all, |smaller| smaller.workload.produce.address = Address::Number);
        self.try_change(all, |smaller| smaller.workload.produce.per_second.0 = 0.0);
        self.try_change(all, |smaller| smaller.workload.consume.per_second.0 = 0.0);
        self.try_change(all, |smaller| smaller.workload.consume = Consume::standard());
        self.try_change(all, |smaller| smaller.workload.retention = None);
        self.try_change(all, |smaller| smaller.workload.produce.burst = None);
        self.try_change(all, |smaller| smaller.workload.produce.hot = None);
        self.try_change(all, |smaller| smaller.workload.produce.huge_bytes = None);
        self.try_change(all, |smaller| smaller.workload.produce.batch = 1);
        self.try_change(all, |smaller| {
            let rate = &mut smaller.workload.produce.per_second.0;
            // Halves of whole numbers stay easy to read.
            *rate = if *rate > 2.0 { (*rate / 2.0).floor() } else { *rate };
        });
        for at in 0..self.topics.len() {
            self.try_change(all, |smaller| smaller.topics[at].preload = 0);
            self.try_change(all, |smaller| smaller.topics[at].preload /= 2);
        }
    }

    fn with_less_cluster(&self, all: &mut Vec<Self>) {
        for at in 0..self.topics.len() {
            self.try_change(all, |smaller| {
                smaller.topics.remove(at);
            });
            self.try_change(all, |smaller| {
                let partitions = &mut smaller.topics[at].partitions;
                *partitions = (*partitions / 2).max(1);
            });
            self.try_change(all, |smaller| {
                let partitions = &mut smaller.topics[at].partitions;
                *partitions = (*partitions - 1).max(1);
            });
        }
        self.try_change(all, |smaller| smaller.cluster.spares = 0);
        self.try_change(all, |smaller| {
            smaller.cluster.spares = smaller.cluster.spares.saturating_sub(1);
        });
        // A founding node goes only together with its number: the spares' names would shift.
        if self.cluster.spares == 0 && self.cluster.nodes > 1 {
            self.try_change(all, |smaller| smaller.cluster.nodes -= 1);
        }
        self.try_change(all, |smaller| smaller.cluster.policy = PolicyChange::none());
        self.try_change(all, |smaller| smaller.cluster.config = ConfigChange::none());
        self.try_change(all, |smaller| smaller.cluster.raft = Raft::standard());
        self.try_change(all, |smaller| smaller.cluster.tick_jitter = Duration::ZERO);
        self.try_change(all, |smaller| smaller.cluster.pace = Pace::Fast);
        let plain: super::Cluster = unset();
        self.try_change(all, |smaller| smaller.cluster.segment_bytes = plain.segment_bytes);
    }

    fn with_plainer_steps(&self, all: &mut Vec<Self>) {
        for at in 0..self.steps.len() {
            let mut try_step = |change: &dyn Fn(&mut Step)| {
                self.try_change(all, |smaller| change(&mut smaller.steps[at]));
            };
            try_step(&|step| step.repeat = None);
            try_step(&|step| {
                if let Some(on) = &mut step.when.on {
                    on.filter.nth = 1;
                }
            });
            try_step(&|step| {
                if let Some(on) = &mut step.when.on {
                    on.filter.times = 1;
                }
            });
            try_step(&|step| step.when.after = Duration::ZERO);
        }
    }
}
