//! What is drawn after everything else, so that the rest of a seed is the same with and without it.

use std::time::Duration;

use super::{Bias, Draft, gadget};
use crate::scenario::name::{PartitionName, TopicName, Who};
use crate::scenario::step::{Repeat, Stage, Step, When};
use crate::scenario::{Action, Bytes, Chance, Files, Label};

impl Draft<'_> {
    /// Quarantines that end, losses that are declared, damage that is given up, topics that go when
    /// a copy of them has just been set aside, acknowledgements of what nobody has seen, words and
    /// thaws that come when the world has moved on, reports that are lost, a salvage that fails.
    pub(super) fn extras(&mut self) {
        let likely = |leans: bool, percent: u64| if leans { percent * 2 } else { percent };
        if self.dice.happens(likely(self.leans(Bias::Disk), 35)) {
            self.short_quarantine();
        }
        if self.dice.happens(likely(self.leans(Bias::Death), 20)) {
            self.declared_lost();
        }
        if self.dice.happens(likely(self.leans(Bias::Disk), 15)) {
            self.given_up();
        }
        if self.dice.happens(likely(self.leans(Bias::Topics), 15)) {
            self.deleted_in_quarantine();
        }
        if self.dice.happens(25) {
            self.acked_unseen();
        }
        if self.dice.happens(if self.leans(Bias::Leader) { 50 } else { 5 }) {
            self.gadgets += 1;
            gadget::word_of_who_leads(self);
        }
        if self.dice.happens(if self.leans(Bias::Freeze) { 50 } else { 5 }) {
            self.gadgets += 1;
            gadget::thaw_of_a_past_life(self);
        }
        if self.dice.happens(if self.leans(Bias::Membership) { 50 } else { 5 }) {
            self.gadgets += 1;
            gadget::word_of_an_earlier_life(self);
        }
        if self.dice.happens(if self.leans(Bias::Death) { 25 } else { 5 }) {
            self.gadgets += 1;
            gadget::untold(self);
        }
        let leans = self.leans(Bias::Death) || self.leans(Bias::Disk);
        if self.dice.happens(if leans { 25 } else { 8 }) {
            self.gadgets += 1;
            gadget::refused_at_first(self);
        }
    }

    /// S7: somebody acknowledges records that are not there yet.
    fn acked_unseen(&mut self) {
        const NEVER: u64 = 1 << 24;
        let (partition, when) = (self.partition(), self.moment());
        let action = Action::Ack { partition, offset: NEVER, epoch: None, node: None };
        self.push(Step::new(when, action));
    }

    /// W98: what was set aside is deleted while the run goes on, when its time is up or when space is
    /// short.
    fn short_quarantine(&mut self) {
        let kept = self.dice.secs(1, 15);
        self.scenario.cluster.config.quarantine = Some(kept);
        if self.dice.happens(40) {
            let (when, node) = (self.moment(), self.anyone());
            let free = Bytes(*self.dice.pick(&[20_000, 4_000, 0]));
            let lasting = Some(self.dice.millis_by_100(5_000, 12_000));
            self.push(Step::new(when, Action::DiskFull { node, free, lasting }));
        }
    }

    /// H39: an owner is dead for long, and an operator accepts the loss; now and then the node is
    /// taken out as well.
    fn declared_lost(&mut self) {
        let (partition, start) = (self.partition(), self.moment());
        let owner = Who::Owner(partition.clone());
        let died = format!("{}-of-loss", self.label("death"));
        let lasting = Some(self.for_long());
        let leaves = self.dice.happens(25);
        if leaves {
            let drain = Action::Drain { node: owner.clone(), through: None };
            self.push(Step::new(start.clone(), drain));
        }
        let kill = Action::Kill { node: owner, lasting };
        self.push(Step::new(start, kill).labelled(&died));
        let mut when = since(&died, self.dice.millis_by_100(100, 3_000));
        when.on = Some(crate::scenario::On::new(Stage::Committed, "mark-dead"));
        let declare = Action::DeclareLost {
            partition,
            to: self.dice.maybe(30, |_| ()).map(|()| self.anyone()),
            receipt: "accepted".to_owned(),
        };
        let declared = format!("{}-of-loss", self.label("declared"));
        self.push(Step::new(when, declare).labelled(&declared));
        if leaves {
            let retire = Action::Retire { node: self.anyone(), receipt: Some("scrap".to_owned()) };
            let gap = self.dice.millis_by_100(200, 2_000);
            self.push(Step::new(since(&declared, gap), retire));
        }
    }

    /// Records that rot at their owner, which may start again before an operator gives them up.
    fn given_up(&mut self) {
        let (partition, when) = (self.partition(), self.moment());
        let rot = Action::Rot {
            node: Who::Owner(partition.clone()),
            what: Files::Live,
            partition: Some(partition.clone()),
            position: Chance(*self.dice.pick(&[0.5, 0.9, 0.1, 0.99])),
            bytes: Bytes(*self.dice.pick(&[1, 100, 3_000])),
        };
        let rotten = format!("{}-to-skip", self.label("rot"));
        self.push(Step::new(when, rot).labelled(&rotten));
        if self.dice.happens(50) {
            let (node, lasting) = (Who::Owner(partition.clone()), Some(self.lasting()));
            let soon = since(&rotten, self.dice.millis_by_100(0, 400));
            self.push(Step::new(soon, Action::Kill { node, lasting }));
        }
        let gap = self.dice.millis_by_100(500, 5_000);
        let every = self.dice.secs(1, 4);
        let mut skip = Step::new(since(&rotten, gap), Action::Skip { partition, node: None });
        skip.repeat = Some(Repeat { every, times: 4 });
        self.push(skip);
    }

    /// W96: a topic is deleted when the old owner has just set its copy aside, and another of its name
    /// comes.
    fn deleted_in_quarantine(&mut self) {
        let partition = self.partition();
        let moved = Self::first(Stage::Performed, "set-aside", &partition);
        let PartitionName { topic, .. } = partition;
        let of_topic = |it: &&crate::scenario::Topic| it.name.0 == topic;
        let partitions = self.scenario.topics.iter().find(of_topic).map_or(1, |it| it.partitions);
        let topic = TopicName(topic);
        let gone = format!("{}-in-quarantine", self.label("deleted"));
        let delete = Action::DeleteTopic { topic: topic.clone() };
        self.push(Step::new(When::on(moved), delete).labelled(&gone));
        let gap = self.dice.millis_by_100(100, 4_000);
        let create = Action::CreateTopic { topic, partitions, parent: None };
        self.push(Step::new(since(&gone, gap), create));
    }
}

/// A while after a step.
fn since(label: &str, after: Duration) -> When {
    When { since: Some(Label(label.to_owned())), after, ..When::start() }
}
