//! What a log looks like from outside, to and from its messages.

use narad_core::ids::{ByteCount, Digest, Epoch, Incarnation, LogGeneration, Offset};
use narad_core::partition::{Capture, Checksum, Extent, Listing, Position, Staged};

use super::message::peer as message;
use super::{Coded, DecodeError, each, messages, nested, number};

impl Coded for Extent {
    type Message = message::Extent;
    const WHAT: &'static str = "an extent";

    fn to_message(&self) -> Self::Message {
        message::Extent {
            base: self.base.0,
            end: self.end.0,
            bytes: self.bytes.0,
            checksum: self.checksum.0,
            sealed: self.sealed,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            base: Offset(message.base),
            end: Offset(message.end),
            bytes: ByteCount(message.bytes),
            checksum: Checksum(message.checksum),
            sealed: message.sealed,
        })
    }
}

impl Coded for Staged {
    type Message = message::Staged;
    const WHAT: &'static str = "a staged extent";

    fn to_message(&self) -> Self::Message {
        message::Staged { base: self.base.0, bytes: self.bytes.0, checksum: self.checksum.0 }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            base: Offset(message.base),
            bytes: ByteCount(message.bytes),
            checksum: Checksum(message.checksum),
        })
    }
}

impl Coded for Position {
    type Message = message::Position;
    const WHAT: &'static str = "a consumer position";

    fn to_message(&self) -> Self::Message {
        message::Position {
            committed: self.committed.map(|offset| offset.0),
            acked_ahead: self.acked_ahead.iter().map(|offset| offset.0).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            committed: message.committed.map(Offset),
            acked_ahead: message.acked_ahead.into_iter().map(Offset).collect(),
        })
    }
}

impl Coded for Listing {
    type Message = message::Listing;
    const WHAT: &'static str = "a listing";

    fn to_message(&self) -> Self::Message {
        message::Listing {
            incarnation: self.incarnation.0,
            generation: self.generation.0,
            epoch: self.epoch.0,
            start: self.start.0,
            end: self.end.0,
            hwm: self.hwm.0,
            extents: messages(&self.extents),
            agreed: self.agreed.iter().map(|offset| offset.0).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            incarnation: Incarnation(message.incarnation),
            generation: LogGeneration(message.generation),
            epoch: Epoch(message.epoch),
            start: Offset(message.start),
            end: Offset(message.end),
            hwm: Offset(message.hwm),
            extents: each(message.extents)?,
            agreed: message.agreed.into_iter().map(Offset).collect(),
        })
    }
}

impl Coded for Capture {
    type Message = message::Capture;
    const WHAT: &'static str = "a capture";

    fn to_message(&self) -> Self::Message {
        message::Capture {
            token: Some(self.token.to_message()),
            listing: Some(self.listing.to_message()),
            position: Some(self.position.to_message()),
            digest: self.digest.0.to_be_bytes().to_vec(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            token: nested(message.token)?,
            listing: nested(message.listing)?,
            position: nested(message.position)?,
            digest: Digest(number(&message.digest, "a capture's digest")?),
        })
    }
}
