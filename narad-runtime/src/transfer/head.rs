//! The heads of a copy's request and answer, to and from their messages.

use narad_core::ids::Offset;

use super::{CopyRequest, SourceError};
use crate::wire::message::transfer as message;
use crate::wire::{Coded, DecodeError, nested};

/// What stands before the raw bytes: how many follow, or why none do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyHead(pub(crate) Result<u64, SourceError>);

impl Coded for CopyRequest {
    type Message = message::CopyRequest;
    const WHAT: &'static str = "a copy's request";

    fn to_message(&self) -> Self::Message {
        message::CopyRequest {
            partition: Some(self.partition.to_message()),
            base: self.base.0,
            position: self.position,
            bytes: self.bytes,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            partition: nested(message.partition)?,
            base: Offset(message.base),
            position: message.position,
            bytes: message.bytes,
        })
    }
}

impl Coded for CopyHead {
    type Message = message::CopyHead;
    const WHAT: &'static str = "a copy's head";

    fn to_message(&self) -> Self::Message {
        let status = match self.0 {
            Ok(_) => message::CopyStatus::Ok,
            Err(SourceError::Gone) => message::CopyStatus::Gone,
            Err(SourceError::OutOfRange) => message::CopyStatus::OutOfRange,
            Err(SourceError::NotServing) => message::CopyStatus::NotServing,
            Err(SourceError::Disk) => message::CopyStatus::Disk,
            Err(SourceError::Busy) => message::CopyStatus::Busy,
        };
        message::CopyHead { status: status.into(), bytes: self.0.unwrap_or(0) }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        use message::CopyStatus;
        let unknown = DecodeError::Unknown { what: "a copy's status" };
        Ok(Self(match CopyStatus::try_from(message.status).map_err(|_| unknown.clone())? {
            CopyStatus::Unspecified => return Err(unknown),
            CopyStatus::Ok => Ok(message.bytes),
            CopyStatus::Gone => Err(SourceError::Gone),
            CopyStatus::OutOfRange => Err(SourceError::OutOfRange),
            CopyStatus::NotServing => Err(SourceError::NotServing),
            CopyStatus::Disk => Err(SourceError::Disk),
            CopyStatus::Busy => Err(SourceError::Busy),
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Wire, strategy};

    proptest! {
        #[test]
        fn heads_come_back(
            partition in strategy::partition(),
            base in any::<u64>(),
            position in any::<u64>(),
            bytes in any::<u64>(),
            error in proptest::sample::select(&[
                SourceError::Gone,
                SourceError::OutOfRange,
                SourceError::NotServing,
                SourceError::Disk,
                SourceError::Busy,
            ][..]),
        ) {
            let request = CopyRequest { partition, base: Offset(base), position, bytes };
            prop_assert_eq!(CopyRequest::from_bytes(&request.to_bytes()), Ok(request));
            for head in [CopyHead(Ok(bytes)), CopyHead(Err(error))] {
                prop_assert_eq!(CopyHead::from_bytes(&head.to_bytes()), Ok(head));
            }
        }

        #[test]
        fn arbitrary_heads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _: Result<CopyRequest, DecodeError> = Wire::from_bytes(&bytes);
            let _: Result<CopyHead, DecodeError> = Wire::from_bytes(&bytes);
        }
    }

    /// F20: a status that a newer source may send is no refusal that this build knows.
    #[test]
    fn case_020_an_unknown_status_is_an_error() {
        assert!(CopyHead::from_bytes(&[0x08, 99]).is_err());
        assert!(CopyHead::from_bytes(&[]).is_err());
    }
}
