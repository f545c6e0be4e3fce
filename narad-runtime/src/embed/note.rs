//! What Narad notes beside the records of a log.

use bytes::Bytes;
use narad_core::ids::{
    Attempt, AttemptNo, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset, PartitionId,
    StoreUuid, TopicId,
};
use narad_core::partition::{Manifest, Position, Staged};
use prost::Message;

use crate::wire::{Coded, each, messages};

/// Beside the records of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LogNote {
    /// What a copy was, or is being, made from; `None` for a log that was born here.
    pub(super) manifest: Option<Manifest>,
    /// The last reign in which its owner wrote here.
    pub(super) epoch: Epoch,
    /// The life of the log: one more at each opening (H16).
    pub(super) generation: LogGeneration,
    /// What consumers can see at least.
    pub(super) hwm: Offset,
    /// Where consumers stand.
    pub(super) position: Position,
}

/// Beside nothing: who the node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeNote {
    pub(super) store_uuid: StoreUuid,
    /// Its id; zero until it is a member.
    pub(super) node: NodeId,
    /// Its last life.
    pub(super) incarnation: Incarnation,
}

/// The note is damaged, or of a newer build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the note of a log cannot be read: it is damaged, or a newer build wrote it")]
pub struct BadNote;

impl LogNote {
    pub(super) fn encode(&self) -> Bytes {
        let message = LogMessage {
            manifest: self.manifest.as_ref().map(manifest_message),
            epoch: self.epoch.0,
            generation: self.generation.0,
            hwm: self.hwm.0,
            position: Some(self.position.to_message()),
        };
        seal(&message)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadNote> {
        let message: LogMessage = open(bytes)?;
        Ok(Self {
            manifest: message.manifest.map(manifest).transpose()?,
            epoch: Epoch(message.epoch),
            generation: LogGeneration(message.generation),
            hwm: Offset(message.hwm),
            position: position(message.position)?,
        })
    }
}

impl NodeNote {
    pub(super) fn encode(&self) -> Bytes {
        seal(&NodeMessage {
            store_uuid: self.store_uuid.0.to_be_bytes().to_vec(),
            node: self.node.0,
            incarnation: self.incarnation.0,
        })
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadNote> {
        let message: NodeMessage = open(bytes)?;
        let uuid = message.store_uuid.try_into().map_err(|_| BadNote)?;
        Ok(Self {
            store_uuid: StoreUuid(u128::from_be_bytes(uuid)),
            node: NodeId(message.node),
            incarnation: Incarnation(message.incarnation),
        })
    }
}

/// A checksum goes before the message, so that a torn or foreign note is never taken for one.
fn seal(message: &impl Message) -> Bytes {
    let body = message.encode_to_vec();
    let mut bytes = crc32c::crc32c(&body).to_le_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes.into()
}

fn open<M: Message + Default>(bytes: &[u8]) -> Result<M, BadNote> {
    let (sum, body) = bytes.split_first_chunk::<4>().ok_or(BadNote)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return Err(BadNote);
    }
    M::decode(body).map_err(|_| BadNote)
}

fn position(message: Option<<Position as Coded>::Message>) -> Result<Position, BadNote> {
    Position::from_message(message.ok_or(BadNote)?).map_err(|_| BadNote)
}

fn manifest_message(manifest: &Manifest) -> ManifestMessage {
    ManifestMessage {
        topic: manifest.partition.topic.0,
        index: manifest.partition.index,
        move_id: manifest.move_id.0,
        source: manifest.source.0,
        source_incarnation: manifest.source_incarnation.0,
        generation: manifest.generation.0,
        epoch: manifest.epoch.0,
        start: manifest.start.0,
        hwm: manifest.hwm.0,
        position: Some(manifest.position.to_message()),
        extents: messages(&manifest.extents),
        attempt: manifest.attempt.map(|attempt| AttemptMessage {
            move_id: attempt.move_id.0,
            destination: attempt.destination.0,
            incarnation: attempt.no.incarnation.0,
            n: attempt.no.n,
        }),
    }
}

fn manifest(message: ManifestMessage) -> Result<Manifest, BadNote> {
    let extents: Vec<Staged> = each(message.extents).map_err(|_| BadNote)?;
    if !extents.is_sorted_by(|a, b| a.base < b.base) {
        return Err(BadNote);
    }
    Ok(Manifest {
        partition: PartitionId { topic: TopicId(message.topic), index: message.index },
        move_id: MoveId(message.move_id),
        source: NodeId(message.source),
        source_incarnation: Incarnation(message.source_incarnation),
        generation: LogGeneration(message.generation),
        epoch: Epoch(message.epoch),
        start: Offset(message.start),
        hwm: Offset(message.hwm),
        position: position(message.position)?,
        extents,
        attempt: message.attempt.map(|attempt| Attempt {
            move_id: MoveId(attempt.move_id),
            destination: NodeId(attempt.destination),
            no: AttemptNo { incarnation: Incarnation(attempt.incarnation), n: attempt.n },
        }),
    })
}

#[derive(Clone, PartialEq, Message)]
struct LogMessage {
    #[prost(message, optional, tag = "1")]
    manifest: Option<ManifestMessage>,
    #[prost(uint64, tag = "2")]
    epoch: u64,
    #[prost(uint64, tag = "3")]
    generation: u64,
    #[prost(uint64, tag = "4")]
    hwm: u64,
    #[prost(message, optional, tag = "5")]
    position: Option<<Position as Coded>::Message>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    #[prost(bytes = "vec", tag = "1")]
    store_uuid: Vec<u8>,
    #[prost(uint64, tag = "2")]
    node: u64,
    #[prost(uint64, tag = "3")]
    incarnation: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ManifestMessage {
    #[prost(uint64, tag = "1")]
    topic: u64,
    #[prost(uint32, tag = "2")]
    index: u32,
    #[prost(uint64, tag = "3")]
    move_id: u64,
    #[prost(uint64, tag = "4")]
    source: u64,
    #[prost(uint64, tag = "5")]
    source_incarnation: u64,
    #[prost(uint64, tag = "6")]
    generation: u64,
    #[prost(uint64, tag = "7")]
    epoch: u64,
    #[prost(uint64, tag = "8")]
    start: u64,
    #[prost(uint64, tag = "9")]
    hwm: u64,
    #[prost(message, optional, tag = "10")]
    position: Option<<Position as Coded>::Message>,
    #[prost(message, repeated, tag = "11")]
    extents: Vec<<Staged as Coded>::Message>,
    #[prost(message, optional, tag = "12")]
    attempt: Option<AttemptMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct AttemptMessage {
    #[prost(uint64, tag = "1")]
    move_id: u64,
    #[prost(uint64, tag = "2")]
    destination: u64,
    #[prost(uint64, tag = "3")]
    incarnation: u64,
    #[prost(uint32, tag = "4")]
    n: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use narad_core::ids::ByteCount;
    use narad_core::partition::Checksum;

    #[test]
    fn a_note_comes_back_as_it_was_and_a_damaged_one_does_not() {
        let manifest = Manifest {
            partition: PartitionId { topic: TopicId(1), index: 2 },
            move_id: MoveId(3),
            source: NodeId(4),
            source_incarnation: Incarnation(5),
            generation: LogGeneration(6),
            epoch: Epoch(7),
            start: Offset(8),
            hwm: Offset(9),
            position: Position { committed: Some(Offset(8)), acked_ahead: vec![Offset(10)] },
            extents: vec![Staged { base: Offset(8), bytes: ByteCount(9), checksum: Checksum(1) }],
            attempt: Some(Attempt::birth(NodeId(4))),
        };
        let note = LogNote { manifest: Some(manifest), hwm: Offset(9), ..LogNote::default() };
        assert_eq!(LogNote::decode(&note.encode()), Ok(note.clone()));
        assert_eq!(LogNote::decode(&LogNote::default().encode()), Ok(LogNote::default()));
        for at in 0..note.encode().len() {
            let mut bytes = note.encode().to_vec();
            bytes[at] ^= 1;
            assert_eq!(LogNote::decode(&bytes), Err(BadNote), "byte {at}");
        }
        let (store_uuid, node) = (StoreUuid(1), NodeId(2));
        let node = NodeNote { store_uuid, node, incarnation: Incarnation(3) };
        assert_eq!(NodeNote::decode(&node.encode()), Ok(node));
    }
}
