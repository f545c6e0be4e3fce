//! What must hold between the parts of a scenario.

mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::action::{Action, Files};
use super::error::{Problem, did_you_mean};
use super::expect::{Condition, Expect};
use super::name::{Label, Machine, PartitionName, Who};
use super::step::{Step, When};
use super::table::{Choice, Section};
use super::value::Mention;
use super::vocabulary::{BLOCKERS, NOTES, REASONS, WAITING};
use super::{PolicyChange, Scenario, file};
use narad_core::config::ConfigError;

/// What a scenario has, that its parts may speak of.
struct World<'a> {
    scenario: &'a Scenario,
    /// The most partitions that each topic ever has.
    topics: BTreeMap<&'a str, u32>,
    labels: BTreeMap<&'a str, &'a Action>,
}

/// Collects what is wrong.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn push(&mut self, key: impl Into<String>, text: impl Into<String>) {
        self.0.push(Problem { line: 0, key: key.into(), text: text.into() });
    }
}

impl Scenario {
    /// Returns what cannot be meant: nodes, partitions and labels that there are not, events that
    /// can never happen, values that contradict each other. Nothing if the scenario can be run.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Problems::default();
        let world = World::of(self);
        check_head(self, &mut problems);
        check_cluster(self, &mut problems);
        check_topics(self, &mut problems);
        world.check_mentions(&mut problems);
        let mut labels = BTreeSet::new();
        for (at, one) in self.steps.iter().enumerate() {
            let key = format!("step {}", at + 1);
            if let Some(label) = &one.label
                && !labels.insert(label)
            {
                problems.push(format!("{key}.label"), format!("two steps are labelled {label:?}"));
            }
            step::check(&world, one, &key, &mut problems);
        }
        for (at, one) in self.expects.iter().enumerate() {
            check_expect(&world, one, &format!("expect {}", at + 1), &mut problems);
        }
        problems.0
    }
}

impl<'a> World<'a> {
    fn of(scenario: &'a Scenario) -> Self {
        let mut topics = BTreeMap::new();
        let mut add = |name: &'a str, partitions: u32| {
            let most: &mut u32 = topics.entry(name).or_default();
            *most = partitions.max(*most);
        };
        for topic in &scenario.topics {
            add(&topic.name.0, topic.partitions);
        }
        for step in &scenario.steps {
            if let Action::CreateTopic { topic, partitions, .. } = &step.action {
                add(&topic.0, *partitions);
            }
        }
        let labelled = |step: &'a Step| Some((step.label.as_ref()?.0.as_str(), &step.action));
        let labels = scenario.steps.iter().filter_map(labelled).collect();
        Self { scenario, topics, labels }
    }

    /// Checks everything that is named anywhere.
    fn check_mentions(&self, problems: &mut Problems) {
        for (at, step) in self.scenario.steps.iter().enumerate() {
            let (key, on) = (format!("step {}", at + 1), step.when.on.is_some());
            step.visit(&key, &mut |key, mention| self.check_mention(key, mention, on, problems));
        }
        for (at, expect) in self.scenario.expects.iter().enumerate() {
            let (key, on) = (format!("expect {}", at + 1), expect.when.on.is_some());
            expect.visit(&key, &mut |key, mention| self.check_mention(key, mention, on, problems));
        }
    }

    fn check_mention(&self, key: &str, mention: Mention<'_>, on: bool, problems: &mut Problems) {
        match mention {
            Mention::Machine(machine) | Mention::Who(&Who::Node(machine)) => {
                self.check_machine(key, machine, problems);
            }
            Mention::Partition(partition)
            | Mention::Who(Who::Owner(partition) | Who::Target(partition)) => {
                self.check_partition(key, partition, problems);
            }
            Mention::Who(who @ (Who::Here | Who::Peer)) => {
                let in_filter = key.contains(".on.");
                if in_filter {
                    let text = format!("\"{who}\" is what the event decides: name a node");
                    problems.push(key, text);
                } else if !on {
                    let text = format!("\"{who}\" needs an event: there is no `on` beside it");
                    problems.push(key, text);
                }
            }
            Mention::Who(Who::Leader | Who::Follower) => {}
            Mention::Topic(topic) => {
                if !self.topics.contains_key(topic.0.as_str()) {
                    let hint = did_you_mean(&topic.0, self.topics.keys().copied());
                    problems.push(key, format!("there is no topic \"{topic}\"{hint}"));
                }
            }
            Mention::Label(label) => {
                if !self.labels.contains_key(label.0.as_str()) {
                    let hint = did_you_mean(&label.0, self.labels.keys().copied());
                    problems.push(key, format!("no step is labelled {label:?}{hint}"));
                }
            }
        }
    }

    fn check_machine(&self, key: &str, machine: Machine, problems: &mut Problems) {
        let machines = self.scenario.cluster.machines();
        if machine.0 > machines {
            let text = format!(
                "there is no node {machine}: the cluster has n1 to n{machines}; \
                 raise `nodes` or `spares` in [cluster]"
            );
            problems.push(key, text);
        }
    }

    fn check_partition(&self, key: &str, partition: &PartitionName, problems: &mut Problems) {
        match self.topics.get(partition.topic.as_str()) {
            None => {
                let hint = did_you_mean(&partition.topic, self.topics.keys().copied());
                problems.push(
                    key,
                    format!(
                        "there is no topic \"{}\"{hint} (it needs a [[topic]] or a `create-topic`)",
                        partition.topic
                    ),
                );
            }
            Some(partitions) if partition.index >= *partitions => {
                let text = format!(
                    "there is no partition {partition}: the topic has {partitions}, counted from 0"
                );
                problems.push(key, text);
            }
            Some(_) => {}
        }
    }

    /// Checks that a label is that of a step which does one of some things.
    fn check_label(
        &self,
        key: &str,
        label: &Label,
        fits: impl Fn(&Action) -> bool,
        what: &str,
        problems: &mut Problems,
    ) {
        if let Some(action) = self.labels.get(label.0.as_str())
            && !fits(action)
        {
            problems.push(key, format!("the step labelled {label:?} is none that {what}"));
        }
    }
}

fn check_head(scenario: &Scenario, problems: &mut Problems) {
    let head = &scenario.head;
    if head.safety.is_zero() {
        problems.push("safety", "0s is no time for anything: give a longer one");
    }
    for covered in &head.covers {
        let digits = covered.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let letters = covered.len() - digits.len();
        if !(1..=2).contains(&letters) || digits.parse::<u16>().is_err() {
            let text =
                format!("\"{covered}\" is no number such as \"H1\", \"S2\", \"C45\", \"FF9\"");
            problems.push("covers", text);
        }
    }
    for invariant in &head.violates {
        let number = |kind: char| invariant.strip_prefix(kind).and_then(|rest| rest.parse().ok());
        let known = invariant == "expect"
            || number('S').is_some_and(|number: u8| (1..=18).contains(&number))
            || number('L').is_some_and(|number: u8| (1..=7).contains(&number));
        if !known {
            let text =
                format!("\"{invariant}\" is no invariant: give S1 to S18, L1 to L7, or expect");
            problems.push("violates", text);
        }
    }
}

fn check_cluster(scenario: &Scenario, problems: &mut Problems) {
    let cluster = &scenario.cluster;
    if cluster.nodes == 0 || cluster.machines() > 64 {
        problems.push("cluster.nodes", "give 1 to 64 nodes, spares included");
    }
    if let Err(error) = cluster.check() {
        let key = match &error {
            ConfigError::OutOfRange { key, .. } if is_policy(key) => {
                format!("cluster.policy.{key}")
            }
            ConfigError::OutOfRange { key, .. } => format!("cluster.config.{key}"),
            ConfigError::UnsafeTiming { .. } => "cluster.policy".to_owned(),
        };
        problems.push(key, error.to_string());
    }
    if !(4 << 10..=1 << 30).contains(&cluster.segment_bytes.0) {
        problems.push("cluster.segment_bytes", "give a size from 4KiB to 1GiB");
    }
    let raft = &cluster.raft;
    if raft.tick.is_zero() {
        problems.push("cluster.raft.tick", "a tick must take some time");
    }
    if raft.heartbeat_ticks == 0 || raft.heartbeat_ticks >= raft.election_ticks_min {
        let text = "give at least 1, and less than election_ticks_min";
        problems.push("cluster.raft.heartbeat_ticks", text);
    }
    if raft.election_ticks_min >= raft.election_ticks_max {
        problems.push("cluster.raft.election_ticks_max", "give more than election_ticks_min");
    }
    if scenario.abstract_log != file::unset() && cluster.metastore != super::MetastoreKind::Abstract
    {
        let text = "this is looked at only with `metastore = \"abstract\"` in [cluster]";
        problems.push("abstract_log", text);
    }
}

/// Whether a key is one of the policy's.
fn is_policy(key: &str) -> bool {
    PolicyChange::KEYS.iter().any(|known| known.name == key)
}

fn check_topics(scenario: &Scenario, problems: &mut Problems) {
    let mut names = BTreeSet::new();
    for (at, topic) in scenario.topics.iter().enumerate() {
        let key = format!("topic {}", at + 1);
        if !names.insert(&topic.name) {
            problems.push(format!("{key}.name"), format!("two topics are called {}", topic.name));
        }
        if !(1..=1024).contains(&topic.partitions) {
            problems.push(format!("{key}.partitions"), "give 1 to 1024");
        }
        for owner in &topic.owners {
            if owner.0 > scenario.cluster.nodes {
                let text = format!("{owner} is no founding node, and cannot own anything yet");
                problems.push(format!("{key}.owners"), text);
            }
        }
        if let Some(parent) = &topic.parent
            && !scenario.topics.iter().take(at).any(|other| other.name == *parent)
        {
            let text = format!("there is no topic {parent} above this one");
            problems.push(format!("{key}.parent"), text);
        }
    }
    if scenario.workload.produce.batch == 0 {
        problems.push("workload.produce.batch", "give at least 1");
    }
}

fn check_expect(world: &World<'_>, expect: &Expect, key: &str, problems: &mut Problems) {
    let head = &world.scenario.head;
    check_when(&expect.when, key, head.safety.saturating_add(head.liveness), problems);
    if expect.always && expect.within.is_some() {
        problems.push(key, "`always` and `within` exclude each other");
    }
    let mut kinds = BTreeSet::new();
    for condition in &expect.conditions {
        let key = format!("{key}.{}", condition.name());
        if !kinds.insert(condition.name()) {
            problems.push(&key, "one expectation has every condition once: write another one");
        }
        check_condition(world, condition, &key, problems);
    }
}

fn check_condition(world: &World<'_>, condition: &Condition, key: &str, problems: &mut Problems) {
    let mut bounds = |is: bool, least: bool, most: bool| {
        if !(is || least || most) {
            problems.push(key, "give at least one of is, at_least, at_most");
        }
    };
    match condition {
        Condition::Epoch { is, at_least, at_most, .. }
        | Condition::Count { is, at_least, at_most, .. }
        | Condition::Visible { is, at_least, at_most, .. } => {
            bounds(is.is_some(), at_least.is_some(), at_most.is_some());
        }
        Condition::Log { what, is, at_least, at_most, .. } => {
            bounds(is.is_some(), at_least.is_some(), at_most.is_some());
            if matches!(what, Files::Trash | Files::Raft | Files::Identity) {
                let text = "no log of a partition is there: give live, staging or installed";
                problems.push(format!("{key}.what"), text);
            }
        }
        Condition::Directories { what, is, at_least, at_most, .. } => {
            bounds(is.is_some(), at_least.is_some(), at_most.is_some());
            if matches!(what, Files::Raft | Files::Identity) {
                let text = "it is no directory of a partition: give live, staging, installed or \
                            trash";
                problems.push(format!("{key}.what"), text);
            }
        }
        Condition::Note { name, is, at_least, at_most, .. } => {
            bounds(is.is_some(), at_least.is_some(), at_most.is_some());
            known_word(&format!("{key}.name"), name, NOTES, "note", problems);
        }
        Condition::Frozen { at_least, at_most, .. } => {
            bounds(false, at_least.is_some(), at_most.is_some());
        }
        Condition::Waiting { reason: Some(reason), .. } => {
            known_word(&format!("{key}.reason"), reason, WAITING, "reason", problems);
        }
        Condition::Taken { of, is, at_least, at_most } => {
            bounds(is.is_some(), at_least.is_some(), at_most.is_some());
            world.check_label(&format!("{key}.of"), of, |_| true, "takes", problems);
        }
        Condition::Reply { of, reason, .. } => {
            let of_key = format!("{key}.of");
            world.check_label(&of_key, of, Action::is_operators, "an operator takes", problems);
            if let Some(reason) = reason {
                let known = [REASONS, BLOCKERS].concat();
                known_word(&format!("{key}.reason"), reason, &known, "reason", problems);
            }
        }
        Condition::Owner { .. }
        | Condition::Open { .. }
        | Condition::Target { .. }
        | Condition::Member { .. }
        | Condition::Process { .. }
        | Condition::Waiting { reason: None, .. }
        | Condition::Leader { .. }
        | Condition::Settled { .. } => {}
    }
}

fn known_word(key: &str, word: &str, words: &[&str], what: &str, problems: &mut Problems) {
    if !words.contains(&word) {
        let hint = did_you_mean(word, words.iter().copied());
        let end = if hint.is_empty() { "." } else { "" };
        let allowed = words.join(", ");
        let text = format!("there is no {what} \"{word}\"{hint}{end} Allowed: {allowed}");
        problems.push(key, text);
    }
}

fn check_when(when: &When, key: &str, end: Duration, problems: &mut Problems) {
    if let Some(at) = when.at
        && at > end
    {
        let text = format!("this is after the end, {}", super::value::show_time(end));
        problems.push(format!("{key}.at"), text);
    }
    if let Some(on) = &when.on {
        step::check_on(on, &format!("{key}.on"), problems);
    }
}
