//! What the records of a metastore say, and the fold over them.

use bytes::Bytes;
use narad_core::config::Policy;
use narad_core::ids::{LogIndex, NodeId};
use narad_core::metastore::{Changed, Configuration, Entry, Halt, Parts, Reply, State};
use prost::Message as _;

use crate::wire::{Coded, DecodeError, Wire, required};

/// One record of a [`Metastore`](super::Metastore).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Founds the cluster with its policy; only as the first record.
    Found(Policy),
    /// A command of a node.
    Entry(Entry),
    /// A node takes over the lead, if whoever led since `after` (nobody: 0) still does.
    Lead {
        /// The node.
        node: NodeId,
        /// The place of the record by which the lead was taken before.
        after: LogIndex,
    },
    /// Who takes part, for guards that count voters; from the node that leads.
    Configuration(Configuration),
}

/// What a record came to in the fold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Folded {
    /// A command: its reply, and the rows, members and topics that it has changed.
    Entry {
        /// The reply.
        reply: Reply,
        /// What has changed.
        changed: Changed,
    },
    /// The lead was taken, or not.
    Lead {
        /// Whether it was.
        taken: bool,
    },
    /// The configuration is another one, or the cluster is founded.
    Done,
    /// A record that is not good at its place, and changes nothing: a second founding.
    Nothing,
}

/// The fold over the records: the replicated state, and who leads.
///
/// Narad has one on every node. A metastore may have one of its own, to say what a record would do
/// before it is decided, or to write rows that people can read beside it: [`Folded::Entry`] tells
/// which rows have changed, and [`Ledger::state`] what they are now.
///
/// # Examples
///
/// The first node that asks for the lead has it, and the second is told so:
///
/// ```
/// use narad_core::config::Policy;
/// use narad_core::ids::{LogIndex, NodeId};
/// use narad_runtime::embed::{Folded, Ledger, Record};
///
/// let mut ledger = Ledger::new();
/// let records = [
///     Record::Found(Policy::default()),
///     Record::Lead { node: NodeId(1), after: LogIndex(0) },
///     Record::Lead { node: NodeId(2), after: LogIndex(0) },
/// ];
/// for record in &records {
///     ledger.fold(&record.to_bytes())?;
/// }
/// assert_eq!((ledger.leader(), ledger.index()), (Some(NodeId(1)), LogIndex(3)));
/// assert_eq!(Ledger::from_bytes(&ledger.to_bytes())?, ledger);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    state: State,
    leader: Option<NodeId>,
    /// Where the lead was taken last.
    led_since: LogIndex,
}

/// Why a record or a snapshot cannot be folded. The node ends with it: skipping it would let nodes
/// diverge (case M145).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The bytes are no record, or one of a newer build.
    #[error("record {index} of the metastore cannot be read: {source}")]
    Unreadable {
        /// Its place.
        index: LogIndex,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The state cannot take it.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// A snapshot contradicts itself.
    #[error("the snapshot of the metastore is none: {reason}")]
    Snapshot {
        /// What is wrong with it.
        reason: String,
    },
    /// The metastore has shown another record than the next one.
    #[error(
        "the metastore has shown record {shown} where {expected} was to come: its watch left some out, or repeats them"
    )]
    Gap {
        /// What should have come.
        expected: LogIndex,
        /// What came.
        shown: LogIndex,
    },
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

impl Ledger {
    /// Begins with nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { state: State::new(), leader: None, led_since: LogIndex(0) }
    }

    /// Folds the next record in, and says what it came to.
    ///
    /// # Errors
    ///
    /// If it cannot be understood. Nothing has changed then, and nothing after it may be folded.
    pub fn fold(&mut self, record: &[u8]) -> Result<(Record, Folded), LedgerError> {
        let index = self.index().next();
        let record = Record::from_bytes(record)
            .map_err(|source| LedgerError::Unreadable { index, source })?;
        let folded = match &record {
            Record::Found(policy) if index == LogIndex(1) => {
                // Of a policy that no state may have nothing must be left.
                let mut founded = self.state.clone();
                founded.skip(index)?;
                let parts = Parts { policy: policy.clone(), ..founded.to_parts() };
                self.state = State::from_parts(parts)
                    .map_err(|error| LedgerError::Snapshot { reason: error.to_string() })?;
                Folded::Done
            }
            Record::Found(_) => {
                self.state.skip(index)?;
                Folded::Nothing
            }
            Record::Entry(entry) => {
                let outcome = self.state.apply(index, entry)?;
                Folded::Entry { reply: outcome.reply, changed: outcome.changed }
            }
            Record::Lead { node, after } => {
                self.state.skip(index)?;
                let taken = *after == self.led_since;
                if taken {
                    (self.leader, self.led_since) = (Some(*node), index);
                }
                Folded::Lead { taken }
            }
            Record::Configuration(configuration) => {
                self.state.configure(index, configuration.clone())?;
                Folded::Done
            }
        };
        Ok((record, folded))
    }

    /// Returns the place of the last record that is folded in.
    pub const fn index(&self) -> LogIndex {
        self.state.applied()
    }

    /// Returns the replicated state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns who leads.
    pub const fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Returns where the lead was taken last; 0 if it never was.
    pub const fn led_since(&self) -> LogIndex {
        self.led_since
    }

    /// Returns the bytes of a snapshot, for [`Metastore::compact`](super::Metastore::compact).
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let message = Snapshot {
            state: self.state.to_parts().to_bytes().into(),
            leader: self.leader.map(|node| node.0),
            led_since: self.led_since.0,
        };
        message.encode_to_vec().into()
    }

    /// Reads a snapshot.
    ///
    /// # Errors
    ///
    /// If the bytes are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LedgerError> {
        let fail = |reason: String| LedgerError::Snapshot { reason };
        let message = Snapshot::decode(bytes).map_err(|error| fail(error.to_string()))?;
        let parts = Wire::from_bytes(&message.state).map_err(|error| fail(error.to_string()))?;
        let state = State::from_parts(parts).map_err(|error| fail(error.to_string()))?;
        let (leader, led_since) = (message.leader.map(NodeId), LogIndex(message.led_since));
        Ok(Self { state, leader, led_since })
    }
}

impl Record {
    /// Encodes the record.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let what = match self {
            Self::Found(policy) => {
                let parts = Parts { policy: policy.clone(), ..State::new().to_parts() };
                What::Found(Box::new(parts.to_message()))
            }
            Self::Entry(entry) => What::Entry(entry.to_bytes().into()),
            Self::Lead { node, after } => What::Lead(Lead { node: node.0, after: after.0 }),
            Self::Configuration(configuration) => What::Configuration(configuration.to_message()),
        };
        RecordMessage { what: Some(what) }.encode_to_vec().into()
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// If the bytes are none that this build knows.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "a record of the metastore";
        let message = RecordMessage::decode(bytes).map_err(|_| DecodeError::Malformed { what })?;
        Ok(match required(message.what, what)? {
            What::Found(parts) => Self::Found(Parts::from_message(*parts)?.policy),
            What::Entry(bytes) => Self::Entry(Entry::from_bytes(&bytes)?),
            What::Lead(Lead { node, after }) => {
                Self::Lead { node: NodeId(node), after: LogIndex(after) }
            }
            What::Configuration(message) => {
                Self::Configuration(Configuration::from_message(message)?)
            }
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct RecordMessage {
    #[prost(oneof = "What", tags = "1, 2, 3, 4")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(message, tag = "1")]
    Found(Box<<Parts as Coded>::Message>),
    #[prost(bytes = "bytes", tag = "2")]
    Entry(Bytes),
    #[prost(message, tag = "3")]
    Lead(Lead),
    #[prost(message, tag = "4")]
    Configuration(<Configuration as Coded>::Message),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Lead {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(uint64, tag = "2")]
    after: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Snapshot {
    #[prost(bytes = "bytes", tag = "1")]
    state: Bytes,
    #[prost(uint64, optional, tag = "2")]
    leader: Option<u64>,
    #[prost(uint64, tag = "3")]
    led_since: u64,
}
