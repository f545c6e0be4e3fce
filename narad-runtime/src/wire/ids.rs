//! Identities and the policy, to and from their messages.

use std::time::Duration;

use narad_core::config::Policy;
use narad_core::ids::{
    Attempt, AttemptNo, Epoch, FreezeNo, Incarnation, MoveId, NodeId, PartitionId, ProposalId,
    Token, TopicId,
};
use narad_core::metastore::{Addresses, Expect};

use super::message::metastore as message;
use super::{Coded, DecodeError, nested};

impl Coded for PartitionId {
    type Message = message::PartitionId;
    const WHAT: &'static str = "a partition id";

    fn to_message(&self) -> Self::Message {
        message::PartitionId { topic: self.topic.0, index: self.index }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self { topic: TopicId(message.topic), index: message.index })
    }
}

impl Coded for AttemptNo {
    type Message = message::AttemptNo;
    const WHAT: &'static str = "an attempt number";

    fn to_message(&self) -> Self::Message {
        message::AttemptNo { incarnation: self.incarnation.0, n: self.n }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self { incarnation: Incarnation(message.incarnation), n: message.n })
    }
}

impl Coded for Attempt {
    type Message = message::Attempt;
    const WHAT: &'static str = "an attempt";

    fn to_message(&self) -> Self::Message {
        message::Attempt {
            move_id: self.move_id.0,
            destination: self.destination.0,
            no: Some(self.no.to_message()),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            move_id: MoveId(message.move_id),
            destination: NodeId(message.destination),
            no: nested(message.no)?,
        })
    }
}

impl Coded for FreezeNo {
    type Message = message::FreezeNo;
    const WHAT: &'static str = "a freeze number";

    fn to_message(&self) -> Self::Message {
        message::FreezeNo { incarnation: self.incarnation.0, counter: self.counter }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self { incarnation: Incarnation(message.incarnation), counter: message.counter })
    }
}

impl Coded for Token {
    type Message = message::Token;
    const WHAT: &'static str = "a freeze token";

    fn to_message(&self) -> Self::Message {
        message::Token { epoch: self.epoch.0, no: Some(self.no.to_message()) }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self { epoch: Epoch(message.epoch), no: nested(message.no)? })
    }
}

impl Coded for ProposalId {
    type Message = message::ProposalId;
    const WHAT: &'static str = "a proposal id";

    fn to_message(&self) -> Self::Message {
        message::ProposalId {
            node: self.node.0,
            incarnation: self.incarnation.0,
            sequence: self.sequence,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            node: NodeId(message.node),
            incarnation: Incarnation(message.incarnation),
            sequence: message.sequence,
        })
    }
}

impl Coded for Expect {
    type Message = message::Expect;
    const WHAT: &'static str = "an expected row";

    fn to_message(&self) -> Self::Message {
        message::Expect { owner: self.owner.0, epoch: self.epoch.0, move_id: self.move_id.0 }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            owner: NodeId(message.owner),
            epoch: Epoch(message.epoch),
            move_id: MoveId(message.move_id),
        })
    }
}

impl Coded for Addresses {
    type Message = message::Addresses;
    const WHAT: &'static str = "a node's addresses";

    fn to_message(&self) -> Self::Message {
        message::Addresses { peer: self.peer.clone(), http: self.http.clone() }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self { peer: message.peer, http: message.http })
    }
}

impl Coded for Duration {
    type Message = message::Span;
    const WHAT: &'static str = "a duration";

    fn to_message(&self) -> Self::Message {
        message::Span { seconds: self.as_secs(), nanoseconds: self.subsec_nanos() }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        if message.nanoseconds >= 1_000_000_000 {
            return Err(DecodeError::Malformed { what: Self::WHAT });
        }
        Ok(Self::new(message.seconds, message.nanoseconds))
    }
}

impl Coded for Policy {
    type Message = message::Policy;
    const WHAT: &'static str = "a policy";

    fn to_message(&self) -> Self::Message {
        message::Policy {
            max_in_flight: self.max_in_flight,
            moves_per_source: self.moves_per_source,
            moves_per_destination: self.moves_per_destination,
            paused: self.paused,
            min_voters: self.min_voters,
            voters_max: self.voters_max,
            copy_rate_bytes_per_second: self.copy_rate_bytes_per_second,
            lease: Some(self.lease.to_message()),
            clock_rate_error_percent: self.clock_rate_error_percent,
            lease_margin: Some(self.lease_margin.to_message()),
            dead_timeout: Some(self.dead_timeout.to_message()),
            force_promote_after: Some(self.force_promote_after.to_message()),
            copy_in_bytes_per_second: self.copy_in_bytes_per_second,
            copy_out_bytes_per_second: self.copy_out_bytes_per_second,
            cluster_copy_rate_bytes_per_second: self.cluster_copy_rate_bytes_per_second,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            max_in_flight: message.max_in_flight,
            moves_per_source: message.moves_per_source,
            moves_per_destination: message.moves_per_destination,
            paused: message.paused,
            min_voters: message.min_voters,
            voters_max: message.voters_max,
            copy_rate_bytes_per_second: message.copy_rate_bytes_per_second,
            lease: nested(message.lease)?,
            clock_rate_error_percent: message.clock_rate_error_percent,
            lease_margin: nested(message.lease_margin)?,
            dead_timeout: nested(message.dead_timeout)?,
            force_promote_after: nested(message.force_promote_after)?,
            copy_in_bytes_per_second: message.copy_in_bytes_per_second,
            copy_out_bytes_per_second: message.copy_out_bytes_per_second,
            cluster_copy_rate_bytes_per_second: message.cluster_copy_rate_bytes_per_second,
        })
    }
}
