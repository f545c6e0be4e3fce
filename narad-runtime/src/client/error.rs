//! Why a request has no result.

use super::Endpoint;
use crate::http::ErrorBody;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// None of the addresses could be reached; nothing was asked.
    #[error("no node could be reached: {}", .tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Unreachable {
        /// Each address with the reason.
        tried: Vec<Tried>,
    },
    /// The request was sent, and no answer came.
    #[error("{endpoint} did not answer ({cause}), so the outcome is not known")]
    OutcomeUnknown {
        /// Who was asked.
        endpoint: Endpoint,
        /// What happened.
        cause: String,
    },
    /// The node answered that it did not do it.
    #[error("{}", .body.error)]
    Refused {
        /// Who was asked.
        endpoint: Endpoint,
        /// The HTTP status.
        status: u16,
        /// What the node says.
        body: Box<ErrorBody>,
    },
    /// The owner of a partition, whom only that partition is waiting for.
    #[error("the owner of partition {partition} cannot be reached: {owner}")]
    OwnerUnreachable {
        /// The partition.
        partition: u32,
        /// Its owner, with the reason.
        owner: Tried,
    },
    /// A partition that was just created, or whose owner has no address.
    #[error("partition {partition} has no owner yet")]
    NoOwner {
        /// The partition.
        partition: u32,
    },
    /// The node sends the request elsewhere and does not know where, or in a circle.
    #[error("{endpoint} does not serve this partition, and who does could not be learned")]
    OwnerNotFound {
        /// Who was asked last.
        endpoint: Endpoint,
    },
    /// The topic has no such partition.
    #[error("the topic has {partitions} partitions, from 0; there is no partition {partition}")]
    NoSuchPartition {
        /// The partition asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// Whatever answers there does not speak this API.
    #[error("{endpoint} answers, but not as a Narad node: {cause}")]
    BadAnswer {
        /// Who was asked.
        endpoint: Endpoint,
        /// What is wrong with the answer.
        cause: String,
    },
}

/// One address that could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{endpoint}: {cause}")]
pub struct Tried {
    /// The address.
    pub endpoint: Endpoint,
    /// What happened.
    pub cause: String,
}

impl ClientError {
    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::OutcomeUnknown { .. }
            | Self::OwnerUnreachable { .. }
            | Self::NoOwner { .. }
            | Self::OwnerNotFound { .. } => true,
            Self::Refused { body, .. } => body.retryable,
            Self::BadAnswer { .. } | Self::NoSuchPartition { .. } => false,
        }
    }

    /// Says what one node did, and which, where it is clear what it was asked about.
    pub(super) fn of_node(&self) -> String {
        match self {
            Self::Refused { endpoint, body, .. } => format!("{endpoint}: {}", body.error),
            Self::Unreachable { tried } if tried.len() == 1 => {
                format!("{} cannot be reached ({})", tried[0].endpoint, tried[0].cause)
            }
            Self::OwnerUnreachable { owner, .. } => {
                format!("its owner, {}, cannot be reached ({})", owner.endpoint, owner.cause)
            }
            Self::NoOwner { .. } => "it has no owner yet".to_owned(),
            Self::Unreachable { .. }
            | Self::OutcomeUnknown { .. }
            | Self::OwnerNotFound { .. }
            | Self::NoSuchPartition { .. }
            | Self::BadAnswer { .. } => self.to_string(),
        }
    }

    /// Whether records cannot be read: others of the topic may be all the same.
    pub fn is_damage(&self) -> bool {
        self.code() == Some("damaged_records")
    }

    /// Returns the code of a refusal.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { body, .. } => Some(&body.code),
            Self::Unreachable { .. }
            | Self::OutcomeUnknown { .. }
            | Self::OwnerUnreachable { .. }
            | Self::NoOwner { .. }
            | Self::OwnerNotFound { .. }
            | Self::NoSuchPartition { .. }
            | Self::BadAnswer { .. } => None,
        }
    }
}
