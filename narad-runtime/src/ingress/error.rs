//! What an ingress log refuses, and why.

use std::sync::Arc;

use narad_core::ids::Seq;

use crate::disk::DiskError;
use crate::group;
use crate::log::{FormatError, LogError};

/// Why an ingress log did not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngressError {
    /// The log or the disk under it failed. Records of an append may be there all the same, except
    /// when the disk was [full](Self::is_full).
    #[error(transparent)]
    Log(Arc<LogError>),
    /// Too much waits to be written already.
    #[error("too much waits to be accepted by this node: try again in a moment")]
    Busy,
    /// Whoever wrote for all ended in the midst of it.
    #[error("the append ended without an answer: try again, the records may be there twice then")]
    Abandoned,
    /// Nobody writes any more.
    #[error("the node is stopping: send the records to another one")]
    Stopping,
    /// An append without records.
    #[error("an append needs at least one record")]
    Empty,
    /// A record beyond the limit. Nothing of its batch was written.
    #[error(
        "a record of {bytes} bytes is above the limit of {bytes_max}; split it or raise the limit"
    )]
    TooLarge {
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// A record that is whole and cannot be understood. It is never dropped for that.
    #[error("record {seq} of the ingress log is not understood: {source}")]
    Format {
        /// The record.
        seq: Seq,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A record whose bytes are damaged. They never come back (`case_048`).
    #[error("record {seq} of the ingress log is damaged and cannot be carried; go on without it")]
    Damaged {
        /// The record.
        seq: Seq,
    },
    /// Records that had been acknowledged were gone when the log was opened again.
    #[error(
        "the ingress log ends at {found} although {acknowledged} records were acknowledged: the \
         disk has lost a confirmed write; check the device, then restart the node"
    )]
    Shrunk {
        /// Where it ends.
        found: Seq,
        /// Where it had ended.
        acknowledged: Seq,
    },
}

impl IngressError {
    /// Returns whether the same records may be taken later, by this node, as they are.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Log(_) | Self::Busy | Self::Abandoned => true,
            Self::Stopping
            | Self::Empty
            | Self::TooLarge { .. }
            | Self::Format { .. }
            | Self::Damaged { .. }
            | Self::Shrunk { .. } => false,
        }
    }

    /// Returns whether nothing is accepted before the log has been
    /// [opened again](super::IngressLog::reopen).
    #[must_use]
    pub fn needs_reopening(&self) -> bool {
        matches!(self, Self::Log(error) if error.needs_reopening())
    }

    /// Returns whether space on the disk would help. Nothing was left behind then.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Log(error) if error.is_full())
    }
}

impl From<LogError> for IngressError {
    fn from(error: LogError) -> Self {
        Self::Log(Arc::new(error))
    }
}

impl From<DiskError> for IngressError {
    fn from(error: DiskError) -> Self {
        Self::from(LogError::from(error))
    }
}

impl From<group::Refused> for IngressError {
    fn from(refused: group::Refused) -> Self {
        match refused {
            group::Refused::Full => Self::Busy,
            group::Refused::Closed => Self::Stopping,
        }
    }
}

impl From<group::Abandoned> for IngressError {
    fn from(_: group::Abandoned) -> Self {
        Self::Abandoned
    }
}
