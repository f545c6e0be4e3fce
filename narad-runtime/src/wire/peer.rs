//! What nodes ask one another, to and from its messages.

use narad_core::cursor::{Acks, Span};
use narad_core::ids::{Epoch, Incarnation, LogIndex, MoveId, NodeId, Offset, StoreUuid};
use narad_core::metastore::Addresses;
use narad_core::peer::{Answer, Refusal, Request};

use super::message::command::Join;
use super::message::peer::{self as message, AnswerKind, RefusalKind, RequestKind};
use super::metastore::{reason, reason_code};
use super::{Coded, DecodeError, each, messages, name, nested, number};

impl Coded for Request {
    type Message = message::Request;
    const WHAT: &'static str = "a request";

    fn to_message(&self) -> Self::Message {
        let kind = match self {
            Self::Heartbeat { incarnation, stuck } => {
                let stuck = stuck.iter().map(|(partition, move_id)| message::Stuck {
                    partition: Some(partition.to_message()),
                    move_id: move_id.0,
                });
                let stuck = stuck.collect();
                RequestKind::Heartbeat(message::Heartbeat { incarnation: incarnation.0, stuck })
            }
            Self::Propose(entry) => RequestKind::Propose(entry.to_message()),
            Self::Join { name, store_uuid, addrs } => RequestKind::Join(Join {
                name: name.as_str().to_owned(),
                store_uuid: store_uuid.0.to_be_bytes().to_vec(),
                addrs: Some(addrs.to_message()),
            }),
            Self::List { partition, move_id, check } => RequestKind::List(message::List {
                partition: Some(partition.to_message()),
                move_id: move_id.0,
                check: messages(check),
            }),
            Self::Prepare { partition, attempt, tail_bytes_max } => {
                RequestKind::Prepare(message::Prepare {
                    partition: Some(partition.to_message()),
                    attempt: Some(attempt.to_message()),
                    tail_bytes_max: *tail_bytes_max,
                })
            }
            Self::Renew { partition, token, staged_bytes } => RequestKind::Renew(message::Renew {
                partition: Some(partition.to_message()),
                token: Some(token.to_message()),
                staged_bytes: *staged_bytes,
            }),
            Self::Release { partition, token } => RequestKind::Release(message::Release {
                partition: Some(partition.to_message()),
                token: Some(token.to_message()),
            }),
            Self::TakeAcks { partition, acks } => RequestKind::TakeAcks(message::TakeAcks {
                partition: Some(partition.to_message()),
                epoch: acks.epoch.0,
                firsts: acks.spans.iter().map(|span| span.first.0).collect(),
                ends: acks.spans.iter().map(|span| span.end.0).collect(),
            }),
        };
        message::Request { kind: Some(kind) }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(match message.kind.ok_or(DecodeError::Unknown { what: Self::WHAT })? {
            RequestKind::Heartbeat(heartbeat) => {
                let stuck =
                    |stuck: message::Stuck| Ok((nested(stuck.partition)?, MoveId(stuck.move_id)));
                Self::Heartbeat {
                    incarnation: Incarnation(heartbeat.incarnation),
                    stuck: heartbeat.stuck.into_iter().map(stuck).collect::<Result<_, _>>()?,
                }
            }
            RequestKind::Propose(entry) => Self::Propose(Coded::from_message(entry)?),
            RequestKind::Join(join) => Self::Join {
                name: name(join.name, "a joiner's name")?,
                store_uuid: StoreUuid(number(&join.store_uuid, "a joiner's store uuid")?),
                addrs: nested(join.addrs)?,
            },
            RequestKind::List(list) => Self::List {
                partition: nested(list.partition)?,
                move_id: MoveId(list.move_id),
                check: each(list.check)?,
            },
            RequestKind::Prepare(prepare) => Self::Prepare {
                partition: nested(prepare.partition)?,
                attempt: nested(prepare.attempt)?,
                tail_bytes_max: prepare.tail_bytes_max,
            },
            RequestKind::Renew(renew) => Self::Renew {
                partition: nested(renew.partition)?,
                token: nested(renew.token)?,
                staged_bytes: renew.staged_bytes,
            },
            RequestKind::Release(release) => Self::Release {
                partition: nested(release.partition)?,
                token: nested(release.token)?,
            },
            RequestKind::TakeAcks(take) => {
                let message::TakeAcks { partition, epoch, firsts, ends } = take;
                if firsts.len() != ends.len() {
                    return Err(DecodeError::Malformed { what: "acknowledged ranges" });
                }
                let span = |(first, end)| Span { first: Offset(first), end: Offset(end) };
                let spans = firsts.into_iter().zip(ends).map(span).collect();
                let acks = Acks { epoch: Epoch(epoch), spans };
                Self::TakeAcks { partition: nested(partition)?, acks }
            }
        })
    }
}

impl Coded for Answer {
    type Message = message::Answer;
    const WHAT: &'static str = "an answer";

    fn to_message(&self) -> Self::Message {
        let kind = match self {
            Self::Heartbeat { index } => AnswerKind::Heartbeat(index.0),
            Self::Accepted => AnswerKind::Accepted(true),
            Self::Joined { node, peers, policy } => {
                let peer = |(node, addrs): &(NodeId, Addresses)| message::Peer {
                    node: node.0,
                    addrs: Some(addrs.to_message()),
                };
                let peers = peers.iter().map(peer).collect();
                let policy = Some(policy.to_message());
                AnswerKind::Joined(message::Joined { node: node.0, peers, policy })
            }
            Self::Listing(listing) => AnswerKind::Listing(listing.to_message()),
            Self::Capture(capture) => AnswerKind::Capture(capture.to_message()),
            Self::Noted => AnswerKind::Noted(true),
            Self::Refused(refusal) => AnswerKind::Refused(refusal.to_message()),
        };
        message::Answer { kind: Some(kind) }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Ok(match message.kind.ok_or(DecodeError::Unknown { what: Self::WHAT })? {
            AnswerKind::Heartbeat(index) => Self::Heartbeat { index: LogIndex(index) },
            AnswerKind::Accepted(_) => Self::Accepted,
            AnswerKind::Joined(joined) => {
                let peer = |peer: message::Peer| Ok((NodeId(peer.node), nested(peer.addrs)?));
                let peers = joined.peers.into_iter().map(peer).collect::<Result<_, _>>()?;
                let policy = nested(joined.policy)?;
                Self::Joined { node: NodeId(joined.node), peers, policy }
            }
            AnswerKind::Listing(listing) => Self::Listing(Coded::from_message(listing)?),
            AnswerKind::Capture(capture) => Self::Capture(Coded::from_message(capture)?),
            AnswerKind::Noted(_) => Self::Noted,
            AnswerKind::Refused(refusal) => Self::Refused(Coded::from_message(refusal)?),
        })
    }
}

impl Coded for Refusal {
    type Message = message::Refusal;
    const WHAT: &'static str = "a refusal";

    fn to_message(&self) -> Self::Message {
        let mut message = message::Refusal::default();
        let kind = match *self {
            Self::NotLeader { leader } => {
                message.leader = leader.map(|node| node.0);
                RefusalKind::NotLeader
            }
            Self::AskerDead => RefusalKind::AskerDead,
            Self::NotOwner => RefusalKind::NotOwner,
            Self::NoSuchMove => RefusalKind::NoSuchMove,
            Self::NotYet => RefusalKind::NotYet,
            Self::NotServing => RefusalKind::NotServing,
            Self::FrozenElsewhere => RefusalKind::FrozenElsewhere,
            Self::FrozenTooOften { retry_after_ms } => {
                message.retry_after_ms = retry_after_ms;
                RefusalKind::FrozenTooOften
            }
            Self::AppendStuck => RefusalKind::AppendStuck,
            Self::NoSuchFreeze => RefusalKind::NoSuchFreeze,
            Self::Disk => RefusalKind::Disk,
            Self::NotAdmitted(why) => {
                message.set_reason(reason_code(why));
                RefusalKind::NotAdmitted
            }
            Self::Unknown => RefusalKind::Unknown,
        };
        message.set_kind(kind);
        message
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        let unknown = DecodeError::Unknown { what: Self::WHAT };
        Ok(match RefusalKind::try_from(message.kind).map_err(|_| unknown.clone())? {
            RefusalKind::Unspecified => return Err(unknown),
            RefusalKind::NotLeader => Self::NotLeader { leader: message.leader.map(NodeId) },
            RefusalKind::AskerDead => Self::AskerDead,
            RefusalKind::NotOwner => Self::NotOwner,
            RefusalKind::NoSuchMove => Self::NoSuchMove,
            RefusalKind::NotYet => Self::NotYet,
            RefusalKind::NotServing => Self::NotServing,
            RefusalKind::FrozenElsewhere => Self::FrozenElsewhere,
            RefusalKind::FrozenTooOften => {
                Self::FrozenTooOften { retry_after_ms: message.retry_after_ms }
            }
            RefusalKind::AppendStuck => Self::AppendStuck,
            RefusalKind::NoSuchFreeze => Self::NoSuchFreeze,
            RefusalKind::Disk => Self::Disk,
            RefusalKind::NotAdmitted => Self::NotAdmitted(reason(message.reason)?),
            RefusalKind::Unknown => Self::Unknown,
        })
    }
}
