//! The names of things. Every number has its own type, so that an epoch is never taken for an
//! offset.

use alloc::string::String;
use core::fmt;

/// Defines a number with a meaning: ordered, copyable, with a short debug form.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the next number.
            ///
            /// # Panics
            ///
            /// At the end of the 64-bit range, which no real cluster reaches.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.checked_add(1).expect("a 64-bit counter does not run out"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// A member of the cluster. Never reused: a new disk is a new node (H25).
    ///
    /// Equal to the node's Raft id. Zero names nobody.
    NodeId, "n"
);
number!(
    /// One start of one node's process.
    ///
    /// A counter in the data directory, made durable before its first use; +1 at every start and
    /// whenever a node finds itself declared dead (H6, H32).
    Incarnation, "i"
);
number!(
    /// The log index at which a topic was created. A re-created name is another topic (H26).
    TopicId, "t"
);
number!(
    /// The reign of one owner over one partition: +1 with every flip.
    Epoch, "e"
);
number!(
    /// One plan for one partition: +1 whenever its target is set, cleared or reached (H5).
    MoveId, "m"
);
number!(
    /// The position of a record in its partition, from zero.
    Offset, "@"
);
number!(
    /// An amount of data in bytes.
    ByteCount, "b"
);
number!(
    /// A position in the replicated log.
    LogIndex, "x"
);
number!(
    /// The number of a death certificate of one member: +1 with every `MarkDead` that found it
    /// alive (H11).
    Generation, "g"
);
number!(
    /// The number of a decommission of one member: +1 with every `SetDraining` that began one
    /// (H24d, H37).
    Drain, "w"
);
number!(
    /// One life of a partition's log on its node: +1 whenever the log is opened after a crash may
    /// have cut its tail (H16).
    LogGeneration, "l"
);
number!(
    /// Which handing-out of a record to a consumer this is, from one; counted while its partition's
    /// log stays open (R51).
    Delivery, "d"
);
number!(
    /// The position of a record in a node's ingress log, from zero.
    Seq, "q"
);

/// One partition of one topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PartitionId {
    /// The topic.
    pub topic: TopicId,
    /// The position within the topic, from zero.
    pub index: u32,
}

impl fmt::Debug for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{}", self.topic, self.index)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}/{}", self.topic, self.index)
    }
}

/// The part of an [`Attempt`] that tells two tries of one move apart, in the order in which they
/// were made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AttemptNo {
    /// The destination's life.
    pub incarnation: Incarnation,
    /// The try within that life, from zero.
    pub n: u32,
}

impl fmt::Debug for AttemptNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}#{}", self.incarnation, self.n)
    }
}

/// One try of one destination at one move; also the name of the directory that it installs (H4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attempt {
    /// The move that this is a try of.
    pub move_id: MoveId,
    /// The node that tries.
    pub destination: NodeId,
    /// Which of its tries.
    pub no: AttemptNo,
}

impl Attempt {
    /// Names the directory in which a partition is born on its first owner.
    #[must_use]
    pub const fn birth(owner: NodeId) -> Self {
        Self {
            move_id: MoveId(0),
            destination: owner,
            no: AttemptNo { incarnation: Incarnation(0), n: 0 },
        }
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}>{:?}{:?}", self.move_id, self.destination, self.no)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { move_id, destination, no } = self;
        write!(f, "m{move_id}-n{destination}-i{}-a{}", no.incarnation, no.n)
    }
}

/// The part of a [`Token`] that tells two freezes of one epoch apart, in the order in which the
/// owner made them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FreezeNo {
    /// The source's life. A freeze does not outlive it (H6).
    pub incarnation: Incarnation,
    /// The freeze within that life, from one.
    pub counter: u64,
}

impl fmt::Debug for FreezeNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}.{}", self.incarnation, self.counter)
    }
}

/// Names one freeze of one partition; issued by its source under the partition's gate.
///
/// A token is compared within its epoch only, so that a past owner's numbers never outrank the
/// present one's (H33).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token {
    /// The reign in which it was issued.
    pub epoch: Epoch,
    /// Which freeze of that reign.
    pub no: FreezeNo,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{:?}", self.epoch, self.no)
    }
}

/// Names one proposal, so that its proposer knows it again when its own replica applies it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProposalId {
    /// The proposing node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: Incarnation,
    /// The proposal within that life.
    pub sequence: u64,
}

impl fmt::Debug for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}p{}", self.node, self.incarnation, self.sequence)
    }
}

/// The content of a partition's bytes, summarised; opaque to every machine here, which only ever
/// compares two of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Digest(pub u128);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The identity of a data directory, drawn once when it is made.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StoreUuid(pub u128);

impl fmt::Debug for StoreUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for StoreUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The name of a node or of a topic: 1 to 200 of `A-Z a-z 0-9 . _ -`, not beginning with a dot.
///
/// For people, the command line, HTTP and configuration; files are named by ids.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing at all.
    #[error("a name needs at least one character")]
    Empty,
    /// More than [`Name::LENGTH_MAX`] bytes.
    #[error("a name has at most {max} characters, this one has {length}", max = Name::LENGTH_MAX)]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character outside the allowed set, or a leading dot.
    #[error("a name has only A-Z a-z 0-9 . _ - and does not begin with a dot; found {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

impl Name {
    /// The longest name, in bytes.
    pub const LENGTH_MAX: usize = 200;

    /// Checks a text and takes it as a name.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or has a character outside the allowed set.
    ///
    /// # Examples
    ///
    /// A name is safe in a path, in a URL and on a terminal:
    ///
    /// ```
    /// use narad_core::ids::Name;
    ///
    /// assert!(Name::new("narad-4").is_ok());
    /// assert!(Name::new("../etc/passwd").is_err());
    /// ```
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::LENGTH_MAX {
            return Err(NameError::TooLong { length: text.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let leading_dot = text.starts_with('.').then_some('.');
        match leading_dot.or_else(|| text.chars().find(|&c| !allowed(c))) {
            Some(found) => Err(NameError::Character { found }),
            None => Ok(Self(text)),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn debug_forms_are_short() {
        let attempt = Attempt {
            move_id: MoveId(7),
            destination: NodeId(3),
            no: AttemptNo { incarnation: Incarnation(2), n: 1 },
        };
        assert_eq!(format!("{attempt:?}"), "m7>n3i2#1");
        assert_eq!(format!("{attempt}"), "m7-n3-i2-a1");
        assert_eq!(format!("{:?}", PartitionId { topic: TopicId(7), index: 2 }), "t7/2");
        let token =
            Token { epoch: Epoch(4), no: FreezeNo { incarnation: Incarnation(9), counter: 1 } };
        assert_eq!(format!("{token:?}"), "e4:i9.1");
        assert_eq!(format!("{:?}", StoreUuid(0xab)), "000000000000000000000000000000ab");
    }

    #[test]
    fn names_that_could_be_paths_are_refused() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new("a/b"), Err(NameError::Character { found: '/' }));
        assert_eq!(Name::new(".."), Err(NameError::Character { found: '.' }));
        assert_eq!(Name::new("a".repeat(201)), Err(NameError::TooLong { length: 201 }));
        assert_eq!(Name::new("orders.eu_1-x").expect("allowed").as_str(), "orders.eu_1-x");
    }
}
