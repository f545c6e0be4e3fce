//! Rows that people can read: who owns what, who is a member, who leads.
//!
//! Rows are named by what people call things, and their values are what the state says now; so whatever
//! order they are written in, the last one is right.

use std::collections::BTreeSet;

use narad_core::ids::{NodeId, PartitionId, TopicId};
use narad_core::metastore::{Assignment, Member, State, Status};
use narad_runtime::embed::{Folded, Ledger};
use serde::Serialize;

use crate::keys::Keys;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    /// Of a partition: its topic's name, and its number.
    Assignment(String, u32),
    /// Of a member, by name.
    Member(String),
    /// Of a topic, by name.
    Topic(String),
    /// Of whoever leads.
    Leader,
}

/// Returns the rows that a record has altered.
pub(crate) fn changed(before: &State, after: &State, folded: &Folded) -> BTreeSet<Row> {
    let mut rows = BTreeSet::new();
    let topic_name = |topic: TopicId| {
        let topic = after.topic(topic).or_else(|| before.topic(topic));
        topic.map(|topic| topic.name.to_string())
    };
    match folded {
        Folded::Entry { changed, .. } => {
            rows.extend(changed.partitions.iter().filter_map(|partition| {
                Some(Row::Assignment(topic_name(partition.topic)?, partition.index))
            }));
            let member =
                |node| after.member(node).map(|member| Row::Member(member.name.to_string()));
            rows.extend(changed.members.iter().copied().filter_map(member));
            rows.extend(
                changed.topics.iter().filter_map(|topic| Some(Row::Topic(topic_name(*topic)?))),
            );
        }
        Folded::Lead { taken: true } => {
            rows.insert(Row::Leader);
        }
        Folded::Lead { taken: false } | Folded::Done | Folded::Nothing => {}
    }
    rows
}

/// Returns every row that there should be.
pub(crate) fn all(ledger: &Ledger) -> BTreeSet<Row> {
    let state = ledger.state();
    let mut rows = BTreeSet::new();
    rows.extend(state.assignments().filter_map(|(partition, _)| {
        let topic = state.topic(partition.topic)?;
        Some(Row::Assignment(topic.name.to_string(), partition.index))
    }));
    rows.extend(state.members().map(|member| Row::Member(member.name.to_string())));
    rows.extend(state.topics().map(|topic| Row::Topic(topic.name.to_string())));
    if ledger.leader().is_some() {
        rows.insert(Row::Leader);
    }
    rows
}

impl Row {
    pub(crate) fn key(&self, keys: &Keys) -> String {
        match self {
            Self::Assignment(topic, partition) => keys.assignment(topic, *partition),
            Self::Member(name) => keys.member(name),
            Self::Topic(name) => keys.topic(name),
            Self::Leader => keys.leader(),
        }
    }

    /// Returns which row a key is of, if any.
    pub(crate) fn of_key(keys: &Keys, key: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(key).ok()?;
        let row = if let Some(rest) = key.strip_prefix(&keys.assignments()) {
            let (topic, partition) = rest.rsplit_once('/')?;
            Self::Assignment(topic.to_owned(), partition.parse().ok()?)
        } else if let Some(name) = key.strip_prefix(&keys.members()) {
            Self::Member(name.to_owned())
        } else if let Some(name) = key.strip_prefix(&keys.topics()) {
            Self::Topic(name.to_owned())
        } else if key == keys.leader() {
            Self::Leader
        } else {
            return None;
        };
        // `orders/03` is not how the row of `orders/3` is written.
        (row.key(keys) == key).then_some(row)
    }

    /// Returns what it says now; nothing if there should be none.
    pub(crate) fn value(&self, ledger: &Ledger) -> Option<String> {
        let state = ledger.state();
        match self {
            Self::Assignment(name, index) => {
                let topic = state.topic_named(name)?.id;
                let row = state.assignment(PartitionId { topic, index: *index })?;
                assignment(state, &format!("{name}/{index}"), row)
            }
            Self::Member(name) => state.member_named(name).and_then(member),
            Self::Topic(name) => {
                let topic = state.topic_named(name)?;
                let parent = topic.parent.map(|parent| match state.topic(parent) {
                    Some(parent) => parent.name.to_string(),
                    None => parent.to_string(),
                });
                let (id, partitions) = (topic.id.0, topic.partitions);
                text(&TopicRow { topic: topic.name.as_str(), id, partitions, parent })
            }
            Self::Leader => {
                let leader = name(state, ledger.leader()?);
                text(&LeaderRow { leader, since: ledger.led_since().0 })
            }
        }
    }
}

#[derive(Serialize)]
struct AssignmentRow<'a> {
    partition: &'a str,
    owner: String,
    target: Option<String>,
    epoch: u64,
    move_id: u64,
    min_end: u64,
    pinned: bool,
}

#[derive(Serialize)]
struct MemberRow<'a> {
    member: &'a str,
    id: u64,
    peer: &'a str,
    http: &'a str,
    life: u64,
    alive: bool,
    draining: bool,
    retired: bool,
}

#[derive(Serialize)]
struct TopicRow<'a> {
    topic: &'a str,
    id: u64,
    partitions: u32,
    parent: Option<String>,
}

#[derive(Serialize)]
struct LeaderRow {
    leader: String,
    /// The record by which it took the lead.
    since: u64,
}

fn text(row: &impl Serialize) -> Option<String> {
    // Rows have text keys and plain values: there is nothing that could fail.
    serde_json::to_string(row).ok()
}

fn assignment(state: &State, partition: &str, assignment: &Assignment) -> Option<String> {
    text(&AssignmentRow {
        partition,
        owner: name(state, assignment.owner),
        target: assignment.target.map(|target| name(state, target)),
        epoch: assignment.epoch.0,
        move_id: assignment.move_id.0,
        min_end: assignment.min_end.0,
        pinned: assignment.pinned,
    })
}

fn member(member: &Member) -> Option<String> {
    text(&MemberRow {
        member: member.name.as_str(),
        id: member.id.0,
        peer: &member.addrs.peer,
        http: &member.addrs.http,
        life: member.incarnation.0,
        alive: member.status == Status::Alive,
        draining: member.draining,
        retired: member.retired,
    })
}

/// Returns how people call a node.
fn name(state: &State, node: NodeId) -> String {
    state.member(node).map_or_else(|| node.to_string(), |member| member.name.to_string())
}
