//! Rows of the replicated state, to and from their messages.

use narad_core::ids::{
    Drain, Epoch, Generation, Incarnation, LogIndex, MoveId, NodeId, Offset, PartitionId,
    StoreUuid, TopicId,
};
use narad_core::metastore::{
    Assignment, Configuration, Member, Parts, Reason, Reign, Residue, Status, Timing, Topic,
};

use super::message::metastore as message;
use super::{Coded, DecodeError, each, messages, name, nested, nodes, number, optional, required};

impl Coded for Member {
    type Message = message::Member;
    const WHAT: &'static str = "a member";

    fn to_message(&self) -> Self::Message {
        message::Member {
            id: self.id.0,
            name: self.name.as_str().to_owned(),
            addrs: Some(self.addrs.to_message()),
            store_uuid: self.store_uuid.0.to_be_bytes().to_vec(),
            incarnation: self.incarnation.0,
            status: Some(match self.status {
                Status::Alive => message::Status::Alive(true),
                Status::Dead(Generation(generation)) => message::Status::Dead(generation),
            }),
            deaths: self.deaths.0,
            draining: self.draining,
            drains: self.drains.0,
            drained_out: self.drained_out,
            retired: self.retired,
            timing: Some(self.timing.to_message()),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            id: NodeId(message.id),
            name: name(message.name, "a member's name")?,
            addrs: nested(message.addrs)?,
            store_uuid: StoreUuid(number(&message.store_uuid, "a member's store uuid")?),
            incarnation: Incarnation(message.incarnation),
            status: match required(message.status, "a member's status")? {
                message::Status::Alive(_) => Status::Alive,
                message::Status::Dead(generation) => Status::Dead(Generation(generation)),
            },
            deaths: Generation(message.deaths),
            draining: message.draining,
            drains: Drain(message.drains),
            drained_out: message.drained_out,
            retired: message.retired,
            timing: nested(message.timing)?,
        })
    }
}

impl Coded for Timing {
    type Message = message::Timing;
    const WHAT: &'static str = "a member's timing";

    fn to_message(&self) -> Self::Message {
        message::Timing {
            reach: Some(self.reach.to_message()),
            silence: Some(self.silence.to_message()),
            promote_after: Some(self.promote_after.to_message()),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            reach: nested(message.reach)?,
            silence: nested(message.silence)?,
            promote_after: nested(message.promote_after)?,
        })
    }
}

impl Coded for Configuration {
    type Message = message::Configuration;
    const WHAT: &'static str = "a configuration";

    fn to_message(&self) -> Self::Message {
        message::Configuration {
            voters: self.voters.iter().map(|node| node.0).collect(),
            voters_outgoing: self.voters_outgoing.iter().map(|node| node.0).collect(),
            learners: self.learners.iter().map(|node| node.0).collect(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            voters: nodes(message.voters),
            voters_outgoing: nodes(message.voters_outgoing),
            learners: nodes(message.learners),
        })
    }
}

impl Coded for Topic {
    type Message = message::Topic;
    const WHAT: &'static str = "a topic";

    fn to_message(&self) -> Self::Message {
        message::Topic {
            id: self.id.0,
            name: self.name.as_str().to_owned(),
            partitions: self.partitions,
            parent: self.parent.map(|topic| topic.0),
            created_by: Some(self.created_by.to_message()),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            id: TopicId(message.id),
            name: name(message.name, "a topic's name")?,
            partitions: message.partitions,
            parent: message.parent.map(TopicId),
            created_by: nested(message.created_by)?,
        })
    }
}

impl Coded for Assignment {
    type Message = message::Assignment;
    const WHAT: &'static str = "an assignment";

    fn to_message(&self) -> Self::Message {
        message::Assignment {
            owner: self.owner.0,
            epoch: self.epoch.0,
            data: Some(self.data.to_message()),
            min_end: self.min_end.0,
            lineage: messages(&self.lineage),
            lineage_cut: self.lineage_cut,
            target: self.target.map(|node| node.0),
            move_id: self.move_id.0,
            burned: self.burned.map(|no| no.to_message()),
            revoked: self.revoked.map(|no| no.to_message()),
            reported_hwm: self.reported_hwm.map(|offset| offset.0),
            pinned: self.pinned,
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            owner: NodeId(message.owner),
            epoch: Epoch(message.epoch),
            data: nested(message.data)?,
            min_end: Offset(message.min_end),
            lineage: each(message.lineage)?,
            lineage_cut: message.lineage_cut,
            target: message.target.map(NodeId),
            move_id: MoveId(message.move_id),
            burned: optional(message.burned)?,
            revoked: optional(message.revoked)?,
            reported_hwm: message.reported_hwm.map(Offset),
            pinned: message.pinned,
        })
    }
}

impl Coded for Reign {
    type Message = message::Reign;
    const WHAT: &'static str = "a reign";

    fn to_message(&self) -> Self::Message {
        message::Reign {
            epoch: self.epoch.0,
            start: self.start.0,
            owner: self.owner.0,
            data: Some(self.data.to_message()),
            residue: match self.residue {
                Residue::None => message::Residue::None,
                Residue::Pending => message::Residue::Pending,
                Residue::Reclaimed => message::Residue::Reclaimed,
            }
            .into(),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch(message.epoch),
            start: Offset(message.start),
            owner: NodeId(message.owner),
            data: nested(message.data)?,
            residue: match message::Residue::try_from(message.residue) {
                Ok(message::Residue::None) => Residue::None,
                Ok(message::Residue::Pending) => Residue::Pending,
                Ok(message::Residue::Reclaimed) => Residue::Reclaimed,
                Ok(message::Residue::Unspecified) | Err(_) => {
                    return Err(DecodeError::Unknown { what: "a residue" });
                }
            },
        })
    }
}

impl Coded for Parts {
    type Message = message::Parts;
    const WHAT: &'static str = "a snapshot";

    fn to_message(&self) -> Self::Message {
        let row = |(partition, assignment): &(PartitionId, Assignment)| message::Row {
            partition: Some(partition.to_message()),
            assignment: Some(assignment.to_message()),
        };
        message::Parts {
            applied: self.applied.0,
            version: self.version,
            newest_node: self.newest_node.0,
            policy: Some(self.policy.to_message()),
            configuration: Some(self.configuration.to_message()),
            members: messages(&self.members),
            topics: messages(&self.topics),
            rows: self.assignments.iter().map(row).collect(),
            remembered: messages(&self.remembered),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        let row = |row: message::Row| Ok((nested(row.partition)?, nested(row.assignment)?));
        Ok(Self {
            applied: LogIndex(message.applied),
            version: message.version,
            newest_node: NodeId(message.newest_node),
            policy: nested(message.policy)?,
            configuration: nested(message.configuration)?,
            members: each(message.members)?,
            topics: each(message.topics)?,
            assignments: message.rows.into_iter().map(row).collect::<Result<_, _>>()?,
            remembered: each(message.remembered)?,
        })
    }
}

/// Maps the reasons in both directions from one list.
macro_rules! reasons {
    ($($variant:ident),* $(,)?) => {
        /// Returns the code of a reason.
        pub(crate) const fn reason_code(reason: Reason) -> message::Reason {
            match reason {
                $(Reason::$variant => message::Reason::$variant,)*
            }
        }

        /// Returns the reason of a code, unless a newer build made it.
        pub(crate) fn reason(code: i32) -> Result<Reason, DecodeError> {
            match message::Reason::try_from(code) {
                $(Ok(message::Reason::$variant) => Ok(Reason::$variant),)*
                Ok(message::Reason::Unspecified) | Err(_) => {
                    Err(DecodeError::Unknown { what: "a reason" })
                }
            }
        }

        #[cfg(test)]
        pub(crate) const REASONS: &[Reason] = &[$(Reason::$variant),*];
    };
}

reasons![
    Gone,
    UnknownMember,
    UnknownTopic,
    NotYours,
    OwnerChanged,
    EpochChanged,
    MoveChanged,
    NotTarget,
    AttemptBurned,
    TokenRevoked,
    TokenStale,
    NotDead,
    CopyBehind,
    Forgotten,
    NotOwner,
    NodeDead,
    NodeDraining,
    NodeRetired,
    NodeUnregistered,
    AlreadyThere,
    AlreadyAssigned,
    NameTaken,
    WrongStore,
    StaleIncarnation,
    NotDraining,
    NotDrainedOut,
    OwnsPartitions,
    IsTarget,
    BelowMinVoters,
    NoHealthyMajority,
    NeedsReceipt,
    OutOfRange,
    UnsafeTiming,
    TopicBusy,
];
