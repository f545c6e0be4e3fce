//! What the API calls the failures of a node.

use narad_core::controller::preflight::Blocker;
use narad_core::cursor;
use narad_core::dispatch::Refused as Full;
use narad_core::freeze::gate::Refused;
use narad_core::metastore::Reason;
use narad_core::node::AskError;

use crate::broker::{ProduceError, SlotError};
use crate::ingress::IngressError;
use crate::log::LogError;
use crate::node_loop::{NotAccepted, Stopped};
use crate::service::ServiceError;

impl From<Stopped> for ServiceError {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<AskError> for ServiceError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::NoLeader => Self::NoLeader,
            AskError::Unknown => Self::OutcomeUnknown,
            AskError::Rejected(reason @ (Reason::OutOfRange | Reason::UnsafeTiming)) => {
                Self::Invalid(reason.to_string())
            }
            AskError::Rejected(reason) => Self::Rejected(told(reason)),
            AskError::Blocked(blockers) => {
                Self::Blocked(blockers.iter().map(Blocker::to_string).collect())
            }
        }
    }
}

/// Says why the log refused what somebody asked for, and what to do instead where that is known.
fn told(reason: Reason) -> String {
    let instead = match reason {
        Reason::NodeDraining => "name another member, or cancel its decommission",
        Reason::NodeDead => "start it again, or name another member",
        Reason::NodeRetired | Reason::UnknownMember => "narad cluster members shows who is here",
        Reason::NodeUnregistered => "it is about to come up: try again in a moment",
        Reason::TopicBusy => "wait until its moves are over, or abort them",
        Reason::NotDead => "only what a dead member owns can be given up",
        Reason::NotDraining => "begin with narad cluster decommission",
        Reason::Gone
        | Reason::UnknownTopic
        | Reason::NotYours
        | Reason::OwnerChanged
        | Reason::EpochChanged
        | Reason::MoveChanged
        | Reason::NotTarget
        | Reason::AttemptBurned
        | Reason::TokenRevoked
        | Reason::TokenStale
        | Reason::CopyBehind
        | Reason::Forgotten
        | Reason::NotOwner
        | Reason::AlreadyThere
        | Reason::AlreadyAssigned
        | Reason::NameTaken
        | Reason::WrongStore
        | Reason::StaleIncarnation
        | Reason::NotDrainedOut
        | Reason::OwnsPartitions
        | Reason::IsTarget
        | Reason::BelowMinVoters
        | Reason::NoHealthyMajority
        | Reason::NeedsReceipt
        | Reason::OutOfRange
        | Reason::UnsafeTiming => return reason.to_string(),
    };
    format!("{reason}: {instead}")
}

impl From<Refused> for ServiceError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Frozen => Self::Frozen,
            Refused::NoLease => Self::NoLease,
            Refused::AppendUnderWay => Self::Busy,
            Refused::NotServing | Refused::OtherEpoch { .. } | Refused::AppendFailed => {
                Self::NotServing
            }
        }
    }
}

impl From<&LogError> for ServiceError {
    fn from(error: &LogError) -> Self {
        match error {
            error if error.is_full() => Self::DiskFull,
            LogError::RecordTooLarge { .. }
            | LogError::EmptyAppend
            | LogError::AheadOfHwm { .. }
            | LogError::BelowStart { .. } => Self::Invalid(error.to_string()),
            LogError::Poisoned { .. } | LogError::Closed | LogError::StaleEpoch { .. } => {
                Self::NotServing
            }
            error => Self::Internal(error.to_string()),
        }
    }
}

impl From<LogError> for ServiceError {
    fn from(error: LogError) -> Self {
        Self::from(&error)
    }
}

impl From<ProduceError> for ServiceError {
    fn from(error: ProduceError) -> Self {
        match error {
            ProduceError::Refused(refused) => refused.into(),
            ProduceError::Log(error) => Self::from(&*error),
            ProduceError::NotOpen => Self::NotServing,
            ProduceError::Busy => Self::Busy,
            ProduceError::Abandoned => Self::OutcomeUnknown,
        }
    }
}

impl From<NotAccepted> for ServiceError {
    fn from(error: NotAccepted) -> Self {
        match error {
            NotAccepted::Refused(Full::Full { retry_after }) => Self::Full { retry_after },
            NotAccepted::Refused(Full::Draining) => Self::Draining,
            NotAccepted::Refused(error @ Full::TooLarge { .. }) => {
                Self::TooLarge(error.to_string())
            }
            NotAccepted::Log(error) => match error {
                error if error.is_full() => Self::DiskFull,
                IngressError::Busy => Self::Busy,
                IngressError::TooLarge { .. } => Self::TooLarge(error.to_string()),
                IngressError::Empty => Self::Invalid(error.to_string()),
                IngressError::Log(failed) if matches!(&*failed, LogError::Disk(_)) => {
                    // They may be there all the same, and are delivered then.
                    tracing::error!(error = %failed, "the ingress log cannot be written");
                    Self::OutcomeUnknown
                }
                IngressError::Abandoned => Self::OutcomeUnknown,
                error => Self::NotAccepting(error.to_string()),
            },
        }
    }
}

impl From<SlotError> for ServiceError {
    fn from(error: SlotError) -> Self {
        match error {
            SlotError::Refused(refused) => refused.into(),
            SlotError::Log(error) => error.into(),
            SlotError::NotOpen => Self::NotServing,
            SlotError::Consumer(refused) => refused.into(),
        }
    }
}

impl From<cursor::Refused> for ServiceError {
    fn from(refused: cursor::Refused) -> Self {
        match refused {
            cursor::Refused::OtherEpoch { .. } => Self::StaleEpoch,
            cursor::Refused::OutOfRange { .. } => Self::Invalid(refused.to_string()),
            cursor::Refused::TooFarAhead { frontier } => Self::TooFarAhead { frontier },
            cursor::Refused::TooManyInFlight { max } => Self::TooManyInFlight { max },
            cursor::Refused::Moved => Self::NotOwner { owner: None },
            cursor::Refused::Superseded { .. }
            | cursor::Refused::Expired
            | cursor::Refused::AlreadyAcked => Self::Rejected(refused.to_string()),
        }
    }
}
