//! The handshake: the first frame of every connection each way, before anything else is believed.

use std::fmt;

use narad_core::ids::{NodeId, StoreUuid};
use narad_core::metastore::Addresses;

use super::message::handshake::{self as message, RefusedWhy, WelcomeKind};
use super::{Coded, DecodeError, number};

/// The oldest protocol version that this build speaks.
pub const VERSION_MIN: u8 = 1;
/// The newest protocol version that this build speaks.
pub const VERSION_MAX: u8 = 1;
/// The version of the frames of the handshake itself, which every build reads: what comes after
/// them is of the version that was agreed upon.
pub const HANDSHAKE_VERSION: u8 = 1;

/// Tells a Narad peer from whatever else may connect to the port: `NRAD`.
const MAGIC: u32 = 0x4e52_4144;

/// Longest text in a refusal, in bytes; longer ones are cut by the receiver.
pub(crate) const MESSAGE_MAX: usize = 512;

/// The identity of a cluster, drawn once when it is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What a connection is for. Each purpose has its own connections, so that bulk bytes never stand
/// before a heartbeat (case C60).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Raft messages and requests from the dialer, answers from the acceptor.
    Control,
    /// One Raft snapshot.
    Snapshot,
    /// Ranges of partitions, asked for by the dialer.
    Bulk,
    /// One request to be admitted, by a node that has no id yet.
    Join,
    /// Batches of accepted records from the dialer, answers from the acceptor.
    Delivery,
}

/// What a dialer says first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol versions that it speaks, oldest and newest.
    pub versions: (u32, u32),
    /// Its cluster; a joiner may not know one yet.
    pub cluster: Option<ClusterId>,
    /// Its id; a joiner has none.
    pub node: Option<NodeId>,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
    /// What the connection is for.
    pub purpose: Purpose,
    /// Where it listens for other nodes, as `host:port`, if it says so: a node that came back at
    /// another address cannot register that before somebody finds it there.
    pub listens_at: Option<String>,
}

/// What an acceptor answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Welcome {
    /// The connection stands.
    Accepted(Accepted),
    /// The connection is closed after this.
    Refused(Refused),
}

/// Who the acceptor is, so that a reused address is not taken for a dead node's (field fault 56).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The protocol version of all further frames.
    pub version: u8,
    /// The acceptor.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
}

/// Why a connection was refused, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// For programs.
    pub why: Why,
    /// For people: what is wrong and what to do.
    pub message: String,
}

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The dialer belongs to another cluster.
    WrongCluster,
    /// The acceptor knows no such node, or knows it with another disk (H25).
    UnknownNode,
    /// There is no protocol version that both speak.
    VersionMismatch,
    /// The acceptor is too old to know what the connection is for.
    UnknownPurpose,
    /// The acceptor has as many connections of that kind as it allows; try again later.
    Busy,
    /// The acceptor serves no connections of that kind.
    NotServing,
    /// The dialer's certificate is not that of the node that it says it is.
    WrongIdentity,
    /// The dialer was taken out of the cluster for good (field fault 50).
    TakenOut,
    /// The acceptor is newer, and gave a reason that this build does not know.
    Other,
}

impl Why {
    /// Says it in one word, for counting.
    pub const fn word(self) -> &'static str {
        match self {
            Self::WrongCluster => "wrong_cluster",
            Self::UnknownNode => "unknown_node",
            Self::VersionMismatch => "version_mismatch",
            Self::UnknownPurpose => "unknown_purpose",
            Self::Busy => "busy",
            Self::NotServing => "not_serving",
            Self::WrongIdentity => "wrong_identity",
            Self::TakenOut => "taken_out",
            Self::Other => "other",
        }
    }
}

impl Hello {
    /// Returns the newest protocol version that both sides speak.
    pub fn version(&self) -> Option<u8> {
        let (oldest, newest) = self.versions;
        let newest = newest.min(u32::from(VERSION_MAX));
        (newest >= oldest.max(u32::from(VERSION_MIN))).then(|| u8::try_from(newest).ok())?
    }
}

impl Coded for Hello {
    type Message = message::Hello;
    const WHAT: &'static str = "a handshake";

    fn to_message(&self) -> Self::Message {
        let mut message = message::Hello {
            magic: MAGIC,
            version_min: self.versions.0,
            version_max: self.versions.1,
            cluster: self.cluster.map(|cluster| cluster.0.to_be_bytes().to_vec()),
            node: self.node.map(|node| node.0),
            store_uuid: self.store_uuid.0.to_be_bytes().to_vec(),
            purpose: 0,
            listens_at: self.listens_at.clone(),
        };
        message.set_purpose(match self.purpose {
            Purpose::Control => message::Purpose::Control,
            Purpose::Snapshot => message::Purpose::Snapshot,
            Purpose::Bulk => message::Purpose::Bulk,
            Purpose::Join => message::Purpose::Join,
            Purpose::Delivery => message::Purpose::Delivery,
        });
        message
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        if message.magic != MAGIC {
            return Err(DecodeError::Malformed { what: "a handshake's magic" });
        }
        let cluster = message.cluster.map(|bytes| number(&bytes, "a handshake's cluster"));
        let purpose = match message::Purpose::try_from(message.purpose) {
            Ok(message::Purpose::Control) => Purpose::Control,
            Ok(message::Purpose::Snapshot) => Purpose::Snapshot,
            Ok(message::Purpose::Bulk) => Purpose::Bulk,
            Ok(message::Purpose::Join) => Purpose::Join,
            Ok(message::Purpose::Delivery) => Purpose::Delivery,
            Ok(message::Purpose::Unspecified) | Err(_) => {
                return Err(DecodeError::Unknown { what: "a connection's purpose" });
            }
        };
        Ok(Self {
            versions: (message.version_min, message.version_max),
            cluster: cluster.transpose()?.map(ClusterId),
            node: message.node.map(NodeId),
            store_uuid: StoreUuid(number(&message.store_uuid, "a handshake's store uuid")?),
            purpose,
            listens_at: message.listens_at.filter(|at| at.len() <= Addresses::LENGTH_MAX),
        })
    }
}

impl Coded for Welcome {
    type Message = message::Welcome;
    const WHAT: &'static str = "a handshake's answer";

    fn to_message(&self) -> Self::Message {
        let kind = match self {
            Self::Accepted(accepted) => WelcomeKind::Accepted(message::Accepted {
                version: u32::from(accepted.version),
                node: accepted.node.0,
                cluster: accepted.cluster.0.to_be_bytes().to_vec(),
                store_uuid: accepted.store_uuid.0.to_be_bytes().to_vec(),
            }),
            Self::Refused(refused) => {
                let mut message = message::Refused { why: 0, message: refused.message.clone() };
                message.set_why(why_code(refused.why));
                WelcomeKind::Refused(message)
            }
        };
        message::Welcome { kind: Some(kind) }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        match message.kind.ok_or(DecodeError::Unknown { what: Self::WHAT })? {
            WelcomeKind::Accepted(accepted) => Ok(Self::Accepted(Accepted {
                version: u8::try_from(accepted.version)
                    .map_err(|_| DecodeError::Malformed { what: "an accepted version" })?,
                node: NodeId(accepted.node),
                cluster: ClusterId(number(&accepted.cluster, "an acceptor's cluster")?),
                store_uuid: StoreUuid(number(&accepted.store_uuid, "an acceptor's store uuid")?),
            })),
            WelcomeKind::Refused(refused) => {
                let mut text = refused.message;
                text.truncate(text.floor_char_boundary(MESSAGE_MAX));
                Ok(Self::Refused(Refused { why: why(refused.why), message: text }))
            }
        }
    }
}

const fn why_code(why: Why) -> RefusedWhy {
    match why {
        Why::WrongCluster => RefusedWhy::WrongCluster,
        Why::UnknownNode => RefusedWhy::UnknownNode,
        Why::VersionMismatch => RefusedWhy::VersionMismatch,
        Why::UnknownPurpose => RefusedWhy::UnknownPurpose,
        Why::Busy => RefusedWhy::Busy,
        Why::NotServing => RefusedWhy::NotServing,
        Why::WrongIdentity => RefusedWhy::WrongIdentity,
        Why::TakenOut => RefusedWhy::TakenOut,
        Why::Other => RefusedWhy::Unspecified,
    }
}

fn why(code: i32) -> Why {
    match RefusedWhy::try_from(code) {
        Ok(RefusedWhy::WrongCluster) => Why::WrongCluster,
        Ok(RefusedWhy::UnknownNode) => Why::UnknownNode,
        Ok(RefusedWhy::VersionMismatch) => Why::VersionMismatch,
        Ok(RefusedWhy::UnknownPurpose) => Why::UnknownPurpose,
        Ok(RefusedWhy::Busy) => Why::Busy,
        Ok(RefusedWhy::NotServing) => Why::NotServing,
        Ok(RefusedWhy::WrongIdentity) => Why::WrongIdentity,
        Ok(RefusedWhy::TakenOut) => Why::TakenOut,
        Ok(RefusedWhy::Unspecified) | Err(_) => Why::Other,
    }
}
