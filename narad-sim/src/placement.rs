//! Placements as text: who owns what, so that the planner can be asked what it would do.
//!
//! A placement is a TOML file of `[[node]]` and `[[topic]]` tables; [`EXAMPLE`] shows every key.
//!
//! ```
//! use narad_sim::placement::{EXAMPLE, NamedPlacement};
//!
//! let placement = NamedPlacement::parse(EXAMPLE)?;
//! let plan = narad_core::plan::plan(&placement.placement, &placement.limits);
//! let plan = plan.explain(&placement.placement);
//! assert_eq!(narad_core::plan::lint(&placement.placement, &plan), vec![]);
//! # Ok::<(), narad_sim::placement::PlacementFileError>(())
//! ```

mod file;
mod show;

use std::collections::BTreeMap;
use std::ops::Range;

use narad_core::ids::{ByteCount, NodeId, PartitionId, TopicId};
use narad_core::plan::{Limits, Node, Partition, Placement, Role, Topic, TopicLimit, assign};
use toml::Spanned;

use self::file::{File, PartitionTable, PerTopic, Status, TopicTable};
pub use self::show::{MoveView, NodeView, PlanView, StayView};

/// A placement file with every key.
pub const EXAMPLE: &str = r#"# A placement: who owns what. Every key but the names is optional.
[limits]                     # what may be in flight at once; these are the defaults
max_in_flight = 8            # in the cluster
per_source = 2               # away from one node
per_destination = 2          # to one node
reserved_for_drain = 0       # slots that balance moves leave free
per_topic = "half"           # or "unlimited"
paused = false               # true: nothing starts

[[node]]
name = "n1"
status = "alive"             # or "dead", or "retired"; default "alive"

[[node]]
name = "n2"
draining = true              # gives everything away; default false

[[node]]
name = "n3"

[[topic]]
name = "orders"
partitions = 6
owners = ["n1", "n2"]        # taken in turn; without it the planner places the partitions
bytes = "1GiB"               # of each partition: of two equally good plans one copies less

[[topic]]
name = "orders-retry"
parent = "orders"            # partitions of one index prefer different nodes
partitions = 2
owners = ["n1"]

[[topic.partition]]          # what is not as the topic says
index = 0
owner = "n2"
target = "n3"                # it is moving there
stuck = true                 # and its move cannot progress, so that it holds no slot

[[topic.partition]]
index = 1
pinned = true                # an operator keeps it where it is
bytes = "16MiB"
priority = 1                 # starts before others of its class; default 0
"#;

/// A placement with the names that its file gives to nodes and topics.
#[derive(Clone, Debug)]
pub struct NamedPlacement {
    /// What the planner looks at.
    pub placement: Placement,
    /// What may be in flight at once.
    pub limits: Limits,
    nodes: BTreeMap<NodeId, String>,
    topics: BTreeMap<TopicId, String>,
}

/// Why a text is no placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct PlacementFileError {
    /// The line, from one.
    pub line: usize,
    /// The column, from one.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl NamedPlacement {
    /// Reads a placement file.
    ///
    /// # Errors
    ///
    /// If it is no TOML, has an unknown key, names what is not listed or lists a thing twice; with the
    /// line.
    pub fn parse(text: &str) -> Result<Self, PlacementFileError> {
        let file: File = toml::from_str(text).map_err(|error| {
            at(text, error.span().unwrap_or(0..0), error.message().trim().to_owned())
        })?;
        Reader { text, nodes: Vec::new(), topics: Vec::new() }.read(file)
    }

    /// Returns the name of a node.
    pub fn node(&self, id: NodeId) -> &str {
        self.nodes.get(&id).map_or("?", String::as_str)
    }

    /// Returns the name of a topic.
    pub fn topic(&self, id: TopicId) -> &str {
        self.topics.get(&id).map_or("?", String::as_str)
    }

    /// Returns the name of a partition, such as `orders/3`.
    pub fn partition(&self, id: PartitionId) -> String {
        format!("{}/{}", self.topic(id.topic), id.index)
    }
}

/// Returns the name that is most like a wrong one, if one is like it at all.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let like = |name: &'a str| (strsim::damerau_levenshtein(wrong, name), name);
    let (distance, name) = names.map(like).min()?;
    (distance <= (wrong.chars().count() / 3).max(1)).then_some(name)
}

fn at(text: &str, span: Range<usize>, message: String) -> PlacementFileError {
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    PlacementFileError { line, column, message }
}

struct Reader<'a> {
    text: &'a str,
    nodes: Vec<String>,
    topics: Vec<String>,
}

type Fallible<T> = Result<T, PlacementFileError>;

impl Reader<'_> {
    fn read(mut self, file: File) -> Fallible<NamedPlacement> {
        let limits = limits(&file);
        let mut nodes = Vec::new();
        for row in &file.node {
            let id = NodeId(self.name("node", |reader| &mut reader.nodes, &row.name)?);
            let role = match (row.status, row.draining) {
                (Status::Dead, _) => Role::Dead,
                (Status::Retired, _) | (Status::Alive, true) => Role::Leaving,
                (Status::Alive, false) => Role::Receiver,
            };
            nodes.push(Node { id, role });
        }
        for row in &file.topic {
            self.name("topic", |reader| &mut reader.topics, &row.name)?;
        }
        let (mut topics, mut placed, mut unplaced) = (Vec::new(), Vec::new(), Vec::new());
        for (id, row) in (1..).map(TopicId).zip(&file.topic) {
            let parent = row.parent.as_ref().map(|name| self.topic(name)).transpose()?;
            if parent == Some(id) {
                let span = row.parent.as_ref().map_or(0..0, Spanned::span);
                return Err(self.error(span, "a topic is not its own parent".into()));
            }
            topics.push(Topic { id, parent });
            let rows = self.partitions(id, row)?;
            if row.owners.is_some() { placed.extend(rows) } else { unplaced.push((id, row, rows)) }
        }
        let whole = |reader: &Self, partitions: Vec<Partition>| {
            Placement::new(nodes.clone(), topics.clone(), partitions)
                .map_err(|error| reader.error(0..0, error.to_string()))
        };
        for (id, row, rows) in unplaced {
            // An owner of its own wins over the planner's choice.
            let topic = topics[usize::try_from(id.0 - 1).unwrap_or(0)];
            let so_far = whole(&self, placed.clone())?;
            let owners = assign(&so_far, topic, 0..*row.partitions.get_ref())
                .map_err(|error| self.error(row.partitions.span(), error.to_string()))?;
            placed.extend(rows.into_iter().zip(owners).map(|(row, owner)| {
                let owner = if row.owner == NOBODY { owner } else { row.owner };
                Partition { owner, ..row }
            }));
        }
        let placement = whole(&self, placed)?;
        let ids = |names: Vec<String>| (1..).zip(names);
        Ok(NamedPlacement {
            placement,
            limits,
            nodes: ids(self.nodes).map(|(id, name)| (NodeId(id), name)).collect(),
            topics: ids(self.topics).map(|(id, name)| (TopicId(id), name)).collect(),
        })
    }

    fn partitions(&self, topic: TopicId, row: &TopicTable) -> Fallible<Vec<Partition>> {
        let count = *row.partitions.get_ref();
        if !(1..=PARTITIONS_MAX).contains(&count) {
            let message = format!("a topic has 1 to {PARTITIONS_MAX} partitions, not {count}");
            return Err(self.error(row.partitions.span(), message));
        }
        let owners = match &row.owners {
            None => vec![NOBODY],
            Some(names) if names.get_ref().is_empty() => {
                let message = "name at least one owner, or leave the key out".into();
                return Err(self.error(names.span(), message));
            }
            Some(names) => {
                names.get_ref().iter().map(|name| self.node(name)).collect::<Fallible<_>>()?
            }
        };
        let bytes = self.bytes(row.bytes.as_ref())?.unwrap_or(ByteCount(0));
        let settled = |(index, owner): (u32, &NodeId)| Partition {
            bytes,
            pinned: row.pinned,
            ..Partition::settled(PartitionId { topic, index }, *owner)
        };
        let mut rows: Vec<_> = (0..count).zip(owners.iter().cycle()).map(settled).collect();
        let mut seen = vec![false; rows.len()];
        for table in &row.partition {
            let index = *table.index.get_ref();
            let position = usize::try_from(index).unwrap_or(usize::MAX);
            let Some(partition) = rows.get_mut(position) else {
                let message = format!("partition {index} of {count}: they count from 0");
                return Err(self.error(table.index.span(), message));
            };
            if std::mem::replace(&mut seen[position], true) {
                let message = format!("partition {index} is listed twice");
                return Err(self.error(table.index.span(), message));
            }
            self.partition(table, partition)?;
        }
        Ok(rows)
    }

    fn partition(&self, table: &PartitionTable, partition: &mut Partition) -> Fallible<()> {
        if let Some(owner) = &table.owner {
            partition.owner = self.node(owner)?;
        }
        if let Some(target) = &table.target {
            let node = self.node(target)?;
            if node == partition.owner {
                let message = "its target is its owner; leave the target out".into();
                return Err(self.error(target.span(), message));
            }
            partition.target = Some(node);
        }
        partition.pinned = table.pinned.unwrap_or(partition.pinned);
        partition.stuck = table.stuck;
        partition.priority = table.priority;
        partition.bytes = self.bytes(table.bytes.as_ref())?.unwrap_or(partition.bytes);
        Ok(())
    }

    /// Gives a name the next number, from one.
    fn name(
        &mut self,
        what: &str,
        list: impl Fn(&mut Self) -> &mut Vec<String>,
        name: &Spanned<String>,
    ) -> Fallible<u64> {
        let text = name.get_ref();
        if text.is_empty() {
            return Err(self.error(name.span(), format!("a {what} needs a name")));
        }
        if list(self).contains(text) {
            return Err(self.error(name.span(), format!("{what} {text} is listed twice")));
        }
        list(self).push(text.clone());
        Ok(list(self).len() as u64)
    }

    fn node(&self, name: &Spanned<String>) -> Fallible<NodeId> {
        self.find("node", &self.nodes, name).map(NodeId)
    }

    fn topic(&self, name: &Spanned<String>) -> Fallible<TopicId> {
        self.find("topic", &self.topics, name).map(TopicId)
    }

    fn find(&self, what: &str, names: &[String], name: &Spanned<String>) -> Fallible<u64> {
        let text = name.get_ref();
        let found = (1..).zip(names).find(|(_, known)| *known == text);
        found.map(|(id, _)| id).ok_or_else(|| {
            let close = nearest(text, names.iter().map(String::as_str));
            let hint = close.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            let message = format!("no {what} {text} is listed{hint} (listed: {known})");
            self.error(name.span(), message)
        })
    }

    fn bytes(&self, size: Option<&Spanned<file::Size>>) -> Fallible<Option<ByteCount>> {
        let Some(size) = size else { return Ok(None) };
        let bytes = size.get_ref().bytes().ok_or_else(|| {
            let message = "a size is a number of bytes, or such as \"64KiB\", \"16MiB\", \"1GiB\"";
            self.error(size.span(), message.into())
        })?;
        Ok(Some(ByteCount(bytes)))
    }

    fn error(&self, span: Range<usize>, message: String) -> PlacementFileError {
        at(self.text, span, message)
    }
}

/// The owner of a partition whose owner is yet to be chosen; no node has this number.
const NOBODY: NodeId = NodeId(0);

/// More than any real topic has, and little memory.
const PARTITIONS_MAX: u32 = 100_000;

fn limits(file: &File) -> Limits {
    let (usual, given) = (Limits::default(), &file.limits);
    Limits {
        max_in_flight: given.max_in_flight.unwrap_or(usual.max_in_flight),
        reserved_for_drain: given.reserved_for_drain.unwrap_or(usual.reserved_for_drain),
        per_source: given.per_source.unwrap_or(usual.per_source),
        per_destination: given.per_destination.unwrap_or(usual.per_destination),
        per_topic: match given.per_topic {
            None => usual.per_topic,
            Some(PerTopic::Half) => TopicLimit::Half,
            Some(PerTopic::Unlimited) => TopicLimit::Unlimited,
        },
        paused: given.paused,
    }
}
