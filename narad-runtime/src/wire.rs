//! The one codec: what the Raft log, snapshots and peers carry, as bytes.
//!
//! Core types are plain; their messages live in `wire/message` and read like a schema. A tag is
//! never reused, an unknown tag is ignored, and every enumeration has an `Unspecified = 0`, so
//! that an older and a newer build understand one another as far as both can.
//!
//! **Invariant: a committed entry is never skipped.** An entry that this build does not know
//! decodes to [`DecodeError::UnknownCommand`]; whoever applies the log must halt there, since a
//! node that skipped it would diverge (case M145). This is why an [`Entry`] also carries the
//! cluster version that it needs: a new *field* of an old command would otherwise be ignored in
//! silence by an older build.
//!
//! Decoding never panics and allocates in proportion to the bytes that have arrived; ranges of
//! values are judged where they are applied, by every node alike, not here.
//!
//! # Examples
//!
//! What is written is what is read, and a foreign byte string is an error:
//!
//! ```
//! use narad_core::config::Policy;
//! use narad_core::ids::NodeId;
//! use narad_core::peer::Answer;
//! use narad_runtime::wire::Wire;
//!
//! let policy = Policy::default();
//! let answer = Answer::Joined { node: NodeId(4), peers: Vec::new(), policy };
//! assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
//! assert!(Answer::from_bytes(b"GET / HTTP/1.1").is_err());
//! ```
//!
//! [`Entry`]: narad_core::metastore::Entry

mod command;
#[cfg(feature = "log")]
pub mod deliver;
#[cfg(feature = "log")]
pub mod frame;
pub mod handshake;
mod ids;
pub(crate) mod message;
mod metastore;
mod partition;
pub(crate) mod peer;
#[cfg(test)]
pub(crate) mod strategy;
#[cfg(test)]
mod tests;

pub use command::ENTRY_VERSION_MAX;

use narad_core::ids::{Name, NodeId};

/// A core type that has a form in bytes.
pub trait Wire: Sized {
    /// Encodes the value.
    fn to_bytes(&self) -> Vec<u8>;

    /// Decodes a value, whoever wrote it.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownCommand`] and [`DecodeError::Unknown`] if a newer build wrote it,
    /// [`DecodeError::Malformed`] if nobody should have.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// Why bytes are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// An entry of the replicated log holds a command, or a form of one, that this build does not
    /// know. Apply must halt.
    #[error(
        "the log holds command {tag} of cluster version {version}, which this build does not know: \
         nothing after it may be applied, run a newer build on this node"
    )]
    UnknownCommand {
        /// The command's number in the schema.
        tag: u32,
        /// The cluster version that it needs.
        version: u32,
    },
    /// A peer sent a variant that this build does not know. The outcome of what it answers is
    /// unknown, not refused (case F20).
    #[error("{what} is of a kind that this build does not know: a newer build sent it")]
    Unknown {
        /// What the variant is one of.
        what: &'static str,
    },
    /// The bytes are no message, or one that lacks or breaks what it must have.
    #[error("{what} is malformed: the bytes were damaged, or were never written by Narad")]
    Malformed {
        /// The part that is wrong.
        what: &'static str,
    },
}

/// A core type with its message. The public face is [`Wire`]; this is for messages that nest.
pub(crate) trait Coded: Sized {
    /// The message.
    type Message: prost::Message + Default;
    /// The name that an error gives to it.
    const WHAT: &'static str;

    /// Makes the message.
    fn to_message(&self) -> Self::Message;

    /// Checks the message and takes the value out of it.
    fn from_message(message: Self::Message) -> Result<Self, DecodeError>;
}

impl<T: Coded> Wire for T {
    fn to_bytes(&self) -> Vec<u8> {
        prost::Message::encode_to_vec(&self.to_message())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let message = <T::Message as prost::Message>::decode(bytes)
            .map_err(|_| DecodeError::Malformed { what: T::WHAT })?;
        T::from_message(message)
    }
}

/// Takes a part that must be there.
pub(crate) fn required<T>(part: Option<T>, what: &'static str) -> Result<T, DecodeError> {
    part.ok_or(DecodeError::Malformed { what })
}

/// Takes a nested value that must be there.
pub(crate) fn nested<T: Coded>(part: Option<T::Message>) -> Result<T, DecodeError> {
    T::from_message(required(part, T::WHAT)?)
}

/// Takes a nested value that may be absent.
pub(crate) fn optional<T: Coded>(part: Option<T::Message>) -> Result<Option<T>, DecodeError> {
    part.map(T::from_message).transpose()
}

/// Takes a list of nested values.
pub(crate) fn each<T: Coded>(parts: Vec<T::Message>) -> Result<Vec<T>, DecodeError> {
    parts.into_iter().map(T::from_message).collect()
}

/// Makes the messages of a list.
pub(crate) fn messages<T: Coded>(values: &[T]) -> Vec<T::Message> {
    values.iter().map(Coded::to_message).collect()
}

/// Takes a 128-bit number from its 16 bytes, most significant first.
pub(crate) fn number(bytes: &[u8], what: &'static str) -> Result<u128, DecodeError> {
    let bytes = bytes.try_into().map_err(|_| DecodeError::Malformed { what })?;
    Ok(u128::from_be_bytes(bytes))
}

/// Takes a name.
pub(crate) fn name(text: String, what: &'static str) -> Result<Name, DecodeError> {
    Name::new(text).map_err(|_| DecodeError::Malformed { what })
}

/// Takes a set of nodes from a list.
pub(crate) fn nodes<C: FromIterator<NodeId>>(ids: Vec<u64>) -> C {
    ids.into_iter().map(NodeId).collect()
}
