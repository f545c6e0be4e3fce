//! The bytes of a copy's manifest.

use std::path::{Path, PathBuf};

use narad_core::ids::{
    Attempt, AttemptNo, ByteCount, Epoch, Incarnation, LogGeneration, MoveId, NodeId, Offset,
    PartitionId, TopicId,
};
use narad_core::partition::{Checksum, Manifest, Staged};

use crate::disk::{self, Disk, DiskError};
use crate::log::envelope::{self, Body, FormatError, Reader};
use crate::log::side::{SIDE_BYTES_MAX, put_position, take_position};

const MAGIC: [u8; 4] = *b"NMAN";
const VERSION: u16 = 1;
const STAGED_BYTES: usize = 20;

/// Returns the path of a directory's manifest.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("manifest")
}

/// A manifest that may be there, and may be readable.
pub(crate) type Loaded = Result<Option<Manifest>, FormatError>;

/// Reads a directory's manifest.
pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Loaded, DiskError> {
    let bytes = disk::read_whole(disk, &path(dir), SIDE_BYTES_MAX)?;
    Ok(bytes.map(|bytes| decode(&bytes)).transpose())
}

pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut body = Body::default();
    body.u64(manifest.partition.topic.0).u32(manifest.partition.index);
    body.u64(manifest.move_id.0).u64(manifest.source.0).u64(manifest.source_incarnation.0);
    body.u64(manifest.generation.0).u64(manifest.epoch.0);
    body.u64(manifest.start.0).u64(manifest.hwm.0);
    put_position(&mut body, &manifest.position);
    body.list(&manifest.extents, |body, staged| {
        body.u64(staged.base.0).u64(staged.bytes.0).u32(staged.checksum.0);
    });
    body.option(manifest.attempt, |body, attempt| {
        body.u64(attempt.move_id.0).u64(attempt.destination.0);
        body.u64(attempt.no.incarnation.0).u32(attempt.no.n);
    });
    envelope::seal(MAGIC, VERSION, &body.0)
}

fn decode(bytes: &[u8]) -> Result<Manifest, FormatError> {
    let mut body = envelope::open(MAGIC, VERSION, bytes)?;
    let manifest = Manifest {
        partition: PartitionId { topic: TopicId(body.counter()?), index: body.u32()? },
        move_id: MoveId(body.counter()?),
        source: NodeId(body.counter()?),
        source_incarnation: Incarnation(body.counter()?),
        generation: LogGeneration(body.counter()?),
        epoch: Epoch(body.counter()?),
        start: Offset(body.counter()?),
        hwm: Offset(body.counter()?),
        position: take_position(&mut body)?,
        extents: body.list(STAGED_BYTES, take_staged)?,
        attempt: body.option(take_attempt)?,
    };
    body.finish()?;
    if !manifest.extents.is_sorted_by(|a, b| a.base < b.base) {
        return Err(FormatError::Value("the order of extents"));
    }
    Ok(manifest)
}

fn take_staged(body: &mut Reader<'_>) -> Result<Staged, FormatError> {
    Ok(Staged {
        base: Offset(body.counter()?),
        bytes: ByteCount(body.counter()?),
        checksum: Checksum(body.u32()?),
    })
}

fn take_attempt(body: &mut Reader<'_>) -> Result<Attempt, FormatError> {
    Ok(Attempt {
        move_id: MoveId(body.counter()?),
        destination: NodeId(body.counter()?),
        no: AttemptNo { incarnation: Incarnation(body.counter()?), n: body.u32()? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::envelope::COUNTER_MAX;
    use narad_core::partition::Position;
    use proptest::prelude::*;

    fn any_manifest() -> impl Strategy<Value = Manifest> {
        let count = || 0..=COUNTER_MAX;
        let extent = (count(), any::<u32>());
        let extents = proptest::collection::btree_map(count(), extent, 0..5);
        let counts = proptest::collection::vec(count(), 7);
        let committed = proptest::option::of(count());
        (counts, any::<u32>(), extents, committed, any::<bool>()).prop_map(
            |(n, index, extents, committed, tried)| Manifest {
                partition: PartitionId { topic: TopicId(n[0]), index },
                move_id: MoveId(n[1]),
                source: NodeId(n[2]),
                source_incarnation: Incarnation(n[3]),
                generation: LogGeneration(n[4]),
                epoch: Epoch(n[5]),
                start: Offset(n[6]),
                hwm: Offset(n[0] ^ n[1]),
                position: Position {
                    committed: committed.map(Offset),
                    acked_ahead: vec![Offset(3), Offset(9)],
                },
                extents: extents
                    .into_iter()
                    .map(|(base, (bytes, checksum))| Staged {
                        base: Offset(base),
                        bytes: ByteCount(bytes),
                        checksum: Checksum(checksum),
                    })
                    .collect(),
                attempt: tried.then_some(Attempt::birth(NodeId(n[2]))),
            },
        )
    }

    proptest! {
        #[test]
        fn a_manifest_comes_back_as_it_was(manifest in any_manifest()) {
            prop_assert_eq!(decode(&encode(&manifest)), Ok(manifest));
        }

        #[test]
        fn a_damaged_manifest_is_unreadable(
            manifest in any_manifest(),
            at in any::<prop::sample::Index>(),
            mask in 1..=255_u8,
        ) {
            let mut bytes = encode(&manifest);
            let at = at.index(bytes.len());
            bytes[at] ^= mask;
            prop_assert!(decode(&bytes).is_err());
        }
    }
}
