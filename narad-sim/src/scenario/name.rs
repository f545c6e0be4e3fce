//! Whom and what a scenario speaks of.

use std::fmt;
use std::str::FromStr;

use super::read::{Cx, Item};
use super::table::Value;
use super::value::{Mention, Out};

/// One machine, with a disk and a clock: `n1`, `n2` and so on.
///
/// A founding machine's node has the id of the same number. A machine that loses its disk may
/// come back as another node; scenarios go on calling the machine by its own name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine(pub u32);

/// A topic, by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(pub String);

/// A partition, by its topic's name and its number: `orders/0`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionName {
    /// The topic. A re-created topic of the same name is meant as well.
    pub topic: String,
    /// The position within it, from zero.
    pub index: u32,
}

/// The name of a step, under which others speak of it and of what it keeps.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub String);

/// A node, found when the step is taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// That one.
    Node(Machine),
    /// Who leads; of several that believe so, the one with the highest term.
    Leader,
    /// The lowest voter that is up and does not lead.
    Follower,
    /// The owner of a partition, as the newest committed state has it.
    Owner(PartitionName),
    /// The target of a partition; nobody if it has none.
    Target(PartitionName),
    /// The node at which the event of `on` happened.
    Here,
    /// The other end of the message of `on`.
    Peer,
}

/// One side of a link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// These.
    These(Vec<Who>),
    /// All that are not on the other side.
    Others,
}

/// Whether a text is a name: 1 to 200 of `A-Z a-z 0-9 . _ -`, not beginning with a dot.
fn is_name(text: &str) -> bool {
    narad_core::ids::Name::new(text).is_ok()
}

impl FromStr for Machine {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number: u32 = text.strip_prefix('n').ok_or(())?.parse().map_err(|_| ())?;
        // `n01` would be a second name of `n1`.
        if number > 0 && Self(number).to_string() == text { Ok(Self(number)) } else { Err(()) }
    }
}

impl FromStr for PartitionName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (topic, index) = text.split_once('/').ok_or(())?;
        let index: u32 = index.parse().map_err(|_| ())?;
        let name = Self { topic: topic.to_owned(), index };
        if is_name(topic) && name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

impl FromStr for Who {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "leader" => Ok(Self::Leader),
            "follower" => Ok(Self::Follower),
            "here" => Ok(Self::Here),
            "peer" => Ok(Self::Peer),
            _ => {
                if let Some(partition) = text.strip_prefix("owner of ") {
                    return partition.parse().map(Self::Owner);
                }
                if let Some(partition) = text.strip_prefix("target of ") {
                    return partition.parse().map(Self::Target);
                }
                text.parse().map(Self::Node)
            }
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.index)
    }
}

impl fmt::Debug for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(machine) => write!(f, "{machine}"),
            Self::Leader => f.write_str("leader"),
            Self::Follower => f.write_str("follower"),
            Self::Owner(partition) => write!(f, "owner of {partition}"),
            Self::Target(partition) => write!(f, "target of {partition}"),
            Self::Here => f.write_str("here"),
            Self::Peer => f.write_str("peer"),
        }
    }
}

/// Reads a text that has one of some forms.
fn parsed<T: FromStr + Value>(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<T> {
    let text = cx.text(item, path, &T::kind())?;
    let value = text.parse().ok();
    if value.is_none() {
        cx.refuse(item, path, &T::kind());
    }
    value
}

impl Value for Machine {
    const SHORT: &'static str = "node name";

    fn kind() -> String {
        "a node, such as \"n2\"".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        parsed(cx, item, path)
    }

    fn write(&self) -> Out {
        Out::Text(self.to_string())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        see(path, Mention::Machine(*self));
    }
}

impl Value for PartitionName {
    const SHORT: &'static str = "partition";

    fn kind() -> String {
        "a partition, such as \"orders/0\"".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        parsed(cx, item, path)
    }

    fn write(&self) -> Out {
        Out::Text(self.to_string())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        see(path, Mention::Partition(self));
    }
}

impl Value for TopicName {
    const SHORT: &'static str = "topic";

    fn kind() -> String {
        "a topic, such as \"orders\" (A-Z a-z 0-9 . _ -)".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let text = cx.text(item, path, &Self::kind())?;
        if is_name(text) {
            return Some(Self(text.to_owned()));
        }
        cx.refuse(item, path, &Self::kind());
        None
    }

    fn write(&self) -> Out {
        Out::Text(self.0.clone())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        see(path, Mention::Topic(self));
    }
}

impl Value for Label {
    const SHORT: &'static str = "label";

    fn kind() -> String {
        "the label of a step, such as \"late-flip\" (A-Z a-z 0-9 . _ -)".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let text = cx.text(item, path, &Self::kind())?;
        if is_name(text) {
            return Some(Self(text.to_owned()));
        }
        cx.refuse(item, path, &Self::kind());
        None
    }

    fn write(&self) -> Out {
        Out::Text(self.0.clone())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        see(path, Mention::Label(self));
    }
}

impl Value for Who {
    const SHORT: &'static str = "node";

    fn kind() -> String {
        "a node: \"n2\", \"leader\", \"follower\", \"owner of orders/0\", \"target of orders/0\", \
         or, in a step with `on`, \"here\" (where the event happens) or \"peer\" (the other end of \
         its message)"
            .to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        parsed(cx, item, path)
    }

    fn write(&self) -> Out {
        Out::Text(self.to_string())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        see(path, Mention::Who(self));
    }
}

impl Value for Side {
    const SHORT: &'static str = "node or nodes";

    fn kind() -> String {
        "a node, a list of nodes, such as \"n1\" or [\"n1\", \"leader\"], or \"others\" (all that \
         are not on the other side)"
            .to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        match item.get_ref().as_str() {
            Some("others") => Some(Self::Others),
            Some(text) => {
                let one = text.parse().ok();
                if one.is_none() {
                    cx.refuse(item, path, &Self::kind());
                }
                one.map(|who| Self::These(vec![who]))
            }
            None => Vec::read(cx, item, path).map(Self::These),
        }
    }

    fn write(&self) -> Out {
        match self {
            Self::Others => Out::Text("others".to_owned()),
            Self::These(these) => match these.as_slice() {
                [one] => one.write(),
                _ => these.write(),
            },
        }
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        match self {
            Self::Others => {}
            Self::These(these) => these.visit(path, see),
        }
    }
}
