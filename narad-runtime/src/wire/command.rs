//! Entries of the replicated log, to and from their messages.
//!
//! To add a command: give it the next free tag in `message/command.rs`, raise
//! [`ENTRY_VERSION_MAX`], and name the new version in [`version_needed`]. The same goes for a new
//! field of an old command, whenever it is set.

use narad_core::ids::{
    Digest, Drain, Epoch, Generation, Incarnation, MoveId, NodeId, Offset, PartitionId, StoreUuid,
    TopicId,
};
use narad_core::metastore::{Command, Entry, Fence};

use super::message::command::{self as message, Command as Form};
use super::{Coded, DecodeError, name, nested, number, required};

/// The newest cluster version whose entries this build can apply.
pub const ENTRY_VERSION_MAX: u32 = 1;

impl Coded for Entry {
    type Message = message::Entry;
    const WHAT: &'static str = "an entry";

    fn to_message(&self) -> Self::Message {
        let command = form(&self.command);
        message::Entry {
            proposal: Some(self.proposal.to_message()),
            by: self.by.0,
            version: version_needed(&self.command),
            command_tag: tag(&command),
            command: Some(command),
        }
    }

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        let message::Entry { proposal, by, version, command_tag, command } = message;
        let unknown = DecodeError::UnknownCommand { tag: command_tag, version };
        if version > ENTRY_VERSION_MAX {
            return Err(unknown);
        }
        let Some(command) = command else {
            // A newer command is the only well-formed entry without one that we know.
            let foreign = command_tag != 0 && !(TAG_MIN..=TAG_MAX).contains(&command_tag);
            return Err(if foreign { unknown } else { malformed("an entry's command") });
        };
        if tag(&command) != command_tag {
            return Err(malformed("an entry's command tag"));
        }
        Ok(Self { proposal: nested(proposal)?, by: NodeId(by), command: read(command)? })
    }
}

/// Returns the cluster version that a node needs in order to apply the command.
const fn version_needed(command: &Command) -> u32 {
    match command {
        Command::Join { .. }
        | Command::Register { .. }
        | Command::MarkDead { .. }
        | Command::Report { .. }
        | Command::SetDraining { .. }
        | Command::DrainedOut { .. }
        | Command::Retire { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::AssignPartition { .. }
        | Command::SetTarget { .. }
        | Command::ClearTarget { .. }
        | Command::CompleteMove { .. }
        | Command::Resolve { .. }
        | Command::Revoke { .. }
        | Command::ReclaimReady { .. }
        | Command::SetPolicy(_)
        | Command::SetPin { .. }
        | Command::DeclareLost { .. }
        | Command::RaiseVersion { .. } => 1,
    }
}

/// The first tag of a command.
const TAG_MIN: u32 = 16;
/// The last tag of a command that this build knows.
const TAG_MAX: u32 = 35;

const fn tag(command: &Form) -> u32 {
    match command {
        Form::Join(_) => 16,
        Form::Register(_) => 17,
        Form::MarkDead(_) => 18,
        Form::Report(_) => 19,
        Form::SetDraining(_) => 20,
        Form::DrainedOut(_) => 21,
        Form::Retire(_) => 22,
        Form::CreateTopic(_) => 23,
        Form::DeleteTopic(_) => 24,
        Form::AssignPartition(_) => 25,
        Form::SetTarget(_) => 26,
        Form::ClearTarget(_) => 27,
        Form::CompleteMove(_) => 28,
        Form::Resolve(_) => 29,
        Form::Revoke(_) => 30,
        Form::ReclaimReady(_) => 31,
        Form::SetPolicy(_) => 32,
        Form::SetPin(_) => 33,
        Form::DeclareLost(_) => 34,
        Form::RaiseVersion(_) => 35,
    }
}

fn form(command: &Command) -> Form {
    match command {
        Command::Join { name, store_uuid, addrs } => Form::Join(message::Join {
            name: name.as_str().to_owned(),
            store_uuid: uuid(*store_uuid),
            addrs: Some(addrs.to_message()),
        }),
        Command::Register { node, store_uuid, incarnation, addrs } => {
            Form::Register(message::Register {
                node: node.0,
                store_uuid: uuid(*store_uuid),
                incarnation: incarnation.0,
                addrs: Some(addrs.to_message()),
            })
        }
        Command::MarkDead { node, incarnation } => {
            Form::MarkDead(message::MarkDead { node: node.0, incarnation: incarnation.0 })
        }
        Command::Report { node, incarnation, hwms } => Form::Report(message::Report {
            node: node.0,
            incarnation: incarnation.0,
            hwms: hwms.iter().map(reported).collect(),
        }),
        Command::SetDraining { node, on } => {
            Form::SetDraining(message::SetDraining { node: node.0, on: *on })
        }
        Command::DrainedOut { node, incarnation, drain } => Form::DrainedOut(message::DrainedOut {
            node: node.0,
            incarnation: incarnation.0,
            drain: drain.0,
        }),
        Command::Retire { node, receipt } => {
            Form::Retire(message::Retire { node: node.0, receipt: receipt.clone() })
        }
        Command::CreateTopic { name, partitions, parent } => {
            Form::CreateTopic(message::CreateTopic {
                name: name.as_str().to_owned(),
                partitions: *partitions,
                parent: parent.map(|topic| topic.0),
            })
        }
        Command::DeleteTopic { topic } => {
            Form::DeleteTopic(message::DeleteTopic { topic: topic.0 })
        }
        Command::AssignPartition { partition, node } => {
            Form::AssignPartition(message::AssignPartition {
                partition: Some(partition.to_message()),
                node: node.0,
            })
        }
        Command::SetTarget { partition, expect, to } => Form::SetTarget(message::SetTarget {
            partition: Some(partition.to_message()),
            expect: Some(expect.to_message()),
            to: to.0,
        }),
        Command::ClearTarget { partition, move_id } => Form::ClearTarget(message::ClearTarget {
            partition: Some(partition.to_message()),
            move_id: move_id.0,
        }),
        Command::CompleteMove {
            partition,
            expect,
            attempt,
            fence,
            end,
            hwm,
            committed,
            digest,
        } => Form::CompleteMove(message::CompleteMove {
            partition: Some(partition.to_message()),
            expect: Some(expect.to_message()),
            attempt: Some(attempt.to_message()),
            fence: Some(match fence {
                Fence::Normal { token } => message::Fence::Normal(token.to_message()),
                Fence::Forced { generation } => message::Fence::Forced(generation.0),
            }),
            end: end.0,
            hwm: hwm.0,
            committed: committed.map(|offset| offset.0),
            digest: digest.0.to_be_bytes().to_vec(),
        }),
        Command::Resolve { partition, attempt } => Form::Resolve(message::Resolve {
            partition: Some(partition.to_message()),
            attempt: Some(attempt.to_message()),
        }),
        Command::Revoke { partition, token } => Form::Revoke(message::Revoke {
            partition: Some(partition.to_message()),
            token: Some(token.to_message()),
        }),
        Command::ReclaimReady { partition, node, epoch } => {
            Form::ReclaimReady(message::ReclaimReady {
                partition: Some(partition.to_message()),
                node: node.0,
                epoch: epoch.0,
            })
        }
        Command::SetPolicy(policy) => Form::SetPolicy(policy.to_message()),
        Command::SetPin { partition, on } => {
            Form::SetPin(message::SetPin { partition: Some(partition.to_message()), on: *on })
        }
        Command::DeclareLost { partition, expect, generation, to, data, end, receipt } => {
            Form::DeclareLost(message::DeclareLost {
                partition: Some(partition.to_message()),
                expect: Some(expect.to_message()),
                generation: generation.0,
                to: to.0,
                data: Some(data.to_message()),
                end: end.0,
                receipt: receipt.clone(),
            })
        }
        Command::RaiseVersion { to } => Form::RaiseVersion(message::RaiseVersion { to: *to }),
    }
}

fn read(form: Form) -> Result<Command, DecodeError> {
    Ok(match form {
        Form::Join(join) => Command::Join {
            name: name(join.name, "a joiner's name")?,
            store_uuid: store_uuid(&join.store_uuid)?,
            addrs: nested(join.addrs)?,
        },
        Form::Register(register) => Command::Register {
            node: NodeId(register.node),
            store_uuid: store_uuid(&register.store_uuid)?,
            incarnation: Incarnation(register.incarnation),
            addrs: nested(register.addrs)?,
        },
        Form::MarkDead(dead) => Command::MarkDead {
            node: NodeId(dead.node),
            incarnation: Incarnation(dead.incarnation),
        },
        Form::Report(report) => Command::Report {
            node: NodeId(report.node),
            incarnation: Incarnation(report.incarnation),
            hwms: report.hwms.into_iter().map(read_reported).collect::<Result<_, _>>()?,
        },
        Form::SetDraining(drain) => Command::SetDraining { node: NodeId(drain.node), on: drain.on },
        Form::DrainedOut(out) => Command::DrainedOut {
            node: NodeId(out.node),
            incarnation: Incarnation(out.incarnation),
            drain: Drain(out.drain),
        },
        Form::Retire(retire) => {
            Command::Retire { node: NodeId(retire.node), receipt: retire.receipt }
        }
        Form::CreateTopic(topic) => Command::CreateTopic {
            name: name(topic.name, "a new topic's name")?,
            partitions: topic.partitions,
            parent: topic.parent.map(TopicId),
        },
        Form::DeleteTopic(delete) => Command::DeleteTopic { topic: TopicId(delete.topic) },
        Form::AssignPartition(assign) => Command::AssignPartition {
            partition: nested(assign.partition)?,
            node: NodeId(assign.node),
        },
        Form::SetTarget(target) => Command::SetTarget {
            partition: nested(target.partition)?,
            expect: nested(target.expect)?,
            to: NodeId(target.to),
        },
        Form::ClearTarget(clear) => Command::ClearTarget {
            partition: nested(clear.partition)?,
            move_id: MoveId(clear.move_id),
        },
        Form::CompleteMove(complete) => read_complete_move(complete)?,
        Form::Resolve(resolve) => Command::Resolve {
            partition: nested(resolve.partition)?,
            attempt: nested(resolve.attempt)?,
        },
        Form::Revoke(revoke) => {
            Command::Revoke { partition: nested(revoke.partition)?, token: nested(revoke.token)? }
        }
        Form::ReclaimReady(ready) => Command::ReclaimReady {
            partition: nested(ready.partition)?,
            node: NodeId(ready.node),
            epoch: Epoch(ready.epoch),
        },
        Form::SetPolicy(policy) => Command::SetPolicy(Coded::from_message(policy)?),
        Form::SetPin(pin) => Command::SetPin { partition: nested(pin.partition)?, on: pin.on },
        Form::DeclareLost(lost) => Command::DeclareLost {
            partition: nested(lost.partition)?,
            expect: nested(lost.expect)?,
            generation: Generation(lost.generation),
            to: NodeId(lost.to),
            data: nested(lost.data)?,
            end: Offset(lost.end),
            receipt: lost.receipt,
        },
        Form::RaiseVersion(raise) => Command::RaiseVersion { to: raise.to },
    })
}

fn read_complete_move(complete: message::CompleteMove) -> Result<Command, DecodeError> {
    let message::CompleteMove { partition, expect, attempt, fence, end, hwm, committed, digest } =
        complete;
    Ok(Command::CompleteMove {
        partition: nested(partition)?,
        expect: nested(expect)?,
        attempt: nested(attempt)?,
        fence: match required(fence, "a flip's fence")? {
            message::Fence::Normal(token) => Fence::Normal { token: Coded::from_message(token)? },
            message::Fence::Forced(generation) => {
                Fence::Forced { generation: Generation(generation) }
            }
        },
        end: Offset(end),
        hwm: Offset(hwm),
        committed: committed.map(Offset),
        digest: Digest(number(&digest, "a flip's digest")?),
    })
}

fn reported((partition, epoch, hwm): &(PartitionId, Epoch, Offset)) -> message::ReportedHwm {
    message::ReportedHwm { partition: Some(partition.to_message()), epoch: epoch.0, hwm: hwm.0 }
}

fn read_reported(
    message: message::ReportedHwm,
) -> Result<(PartitionId, Epoch, Offset), DecodeError> {
    Ok((nested(message.partition)?, Epoch(message.epoch), Offset(message.hwm)))
}

fn uuid(store_uuid: StoreUuid) -> Vec<u8> {
    store_uuid.0.to_be_bytes().to_vec()
}

fn store_uuid(bytes: &[u8]) -> Result<StoreUuid, DecodeError> {
    number(bytes, "a store uuid").map(StoreUuid)
}

const fn malformed(what: &'static str) -> DecodeError {
    DecodeError::Malformed { what }
}
