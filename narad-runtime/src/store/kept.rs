//! Reading what nobody serves: past logs, growing copies, the trash.

use std::path::{Path, PathBuf};

use narad_core::ids::{ByteCount, Offset, PartitionId};

use super::layout::{TRASH, log_dir, parse_trash_name, staging_dir};
use super::{StoreError, What, manifest};
use crate::disk::{self, Disk};
use crate::log::envelope::{self, Body, FormatError};
use crate::log::side::SIDE_BYTES_MAX;
use crate::log::{LogError, Record, scan_each};

const MAGIC: [u8; 4] = *b"NRCT";
const VERSION: u16 = 1;

/// A directory that nobody serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept<'a> {
    /// A past log or a growing copy of a partition.
    Of(PartitionId, What),
    /// Something in the trash, by its name there.
    Trashed(&'a str),
}

impl Kept<'_> {
    pub(super) fn dir(self) -> Result<PathBuf, StoreError> {
        Ok(match self {
            Self::Of(p, What::Staging) => staging_dir(p),
            Self::Of(p, What::Installed(attempt)) => log_dir(p, attempt),
            Self::Trashed(name) => trashed_dir(name)?,
        })
    }
}

/// Which of a kept log's records were accepted once more: its receipt, kept beside it (H14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The first one.
    pub from: Offset,
    /// Offset after the last one.
    pub end: Offset,
    /// How many; fewer than the range where consumers had acknowledged some, or some were damaged.
    pub records: u64,
    /// Bytes of their keys, values and headers.
    pub bytes: ByteCount,
    /// When the last one was accepted, in milliseconds of the wall clock since 1970.
    pub accepted_ms: i64,
}

/// The path of something in the trash; only names that this store gives lead anywhere, since a name
/// may come from outside.
pub(super) fn trashed_dir(name: &str) -> Result<PathBuf, StoreError> {
    match parse_trash_name(name) {
        Some(_) => Ok(Path::new(TRASH).join(name)),
        None => Err(StoreError::NoSuchTrash { name: name.to_owned() }),
    }
}

/// Reads records from an offset on, or from the first that consumers have not acknowledged there,
/// without those that they have; one segment in memory at a time. `each` returns whether to go on.
/// Returns where the records begin, and the end of the log if it was read to there.
pub(super) fn read(
    disk: &dyn Disk,
    kept: Kept<'_>,
    from: Option<Offset>,
    each: &mut dyn FnMut(Vec<(Offset, Record)>) -> bool,
) -> Result<Option<(Offset, Offset)>, StoreError> {
    enum Ended {
        Enough,
        Failed(LogError),
    }
    impl From<LogError> for Ended {
        fn from(error: LogError) -> Self {
            Self::Failed(error)
        }
    }

    let dir = kept.dir()?;
    if let (Kept::Trashed(name), None) = (kept, disk.metadata(&dir)?) {
        return Err(StoreError::NoSuchTrash { name: name.to_owned() });
    }
    let position = crate::log::side::Stand::load(disk, &dir)?.unwrap_or_default().position;
    let begin = from.or(position.committed).unwrap_or_default();
    let ahead = if from.is_none() { position.acked_ahead } else { Vec::new() };
    let scanned = scan_each(disk, &dir, |mut segment| {
        segment.retain(|(offset, _)| *offset >= begin && ahead.binary_search(offset).is_err());
        if segment.is_empty() || each(segment) { Ok(()) } else { Err(Ended::Enough) }
    });
    match scanned {
        Ok(found) => {
            let first = begin.max(found.start);
            Ok(Some((first, found.end.max(first))))
        }
        Err(Ended::Enough) => Ok(None),
        // Nothing of this copy has come yet; anything else without segments has lost them.
        Err(Ended::Failed(LogError::NoSegments { .. })) if has_only_begun(disk, kept, &dir)? => {
            Ok(Some((begin, begin)))
        }
        Err(Ended::Failed(error)) => Err(error.into()),
    }
}

/// Whether this is a copy whose manifest says that nothing is staged.
fn has_only_begun(disk: &dyn Disk, kept: Kept<'_>, dir: &Path) -> Result<bool, StoreError> {
    let what = match kept {
        Kept::Of(_, what) => Some(what),
        Kept::Trashed(name) => parse_trash_name(name).map(|(.., what)| what),
    };
    if what != Some(What::Staging) {
        return Ok(false);
    }
    let manifest = manifest::load(disk, dir)?.unwrap_or_default();
    Ok(manifest.is_some_and(|manifest| manifest.extents.iter().all(|one| one.bytes.0 == 0)))
}

fn receipt_path(dir: &Path) -> PathBuf {
    dir.join("receipt")
}

/// Writes a directory's receipt durably.
pub(super) fn write_receipt(
    disk: &dyn Disk,
    kept: Kept<'_>,
    receipt: &Receipt,
) -> Result<(), StoreError> {
    let Receipt { from, end, records, bytes, accepted_ms } = *receipt;
    let mut body = Body::default();
    body.u64(from.0).u64(end.0).u64(records).u64(bytes.0).i64(accepted_ms);
    let sealed = envelope::seal(MAGIC, VERSION, &body.0);
    Ok(disk::write_atomically(disk, &receipt_path(&kept.dir()?), &sealed)?)
}

/// Reads a directory's receipt, if it has one. A damaged one counts as none: it informs, and nothing
/// is decided by it.
pub(super) fn load_receipt(disk: &dyn Disk, dir: &Path) -> Result<Option<Receipt>, StoreError> {
    let bytes = disk::read_whole(disk, &receipt_path(dir), SIDE_BYTES_MAX)?;
    Ok(bytes.and_then(|bytes| decode(&bytes).ok()))
}

fn decode(bytes: &[u8]) -> Result<Receipt, FormatError> {
    let mut body = envelope::open(MAGIC, VERSION, bytes)?;
    let receipt = Receipt {
        from: Offset(body.counter()?),
        end: Offset(body.counter()?),
        records: body.u64()?,
        bytes: ByteCount(body.u64()?),
        accepted_ms: body.i64()?,
    };
    body.finish()?;
    Ok(receipt)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use narad_core::ids::{Attempt, Epoch, Incarnation, LogGeneration, MoveId, NodeId, TopicId};
    use narad_core::partition::{Manifest, Position};

    use super::*;
    use crate::disk::MemDisk;
    use crate::log::LogLimits;
    use crate::store::{PartitionStore as _, SegmentStore};

    const P: PartitionId = PartitionId { topic: TopicId(3), index: 1 };

    fn record(n: u64) -> Record {
        Record { value: n.to_string().into(), ..Record::default() }
    }

    /// A log with ten records in small segments, of which consumers have acknowledged 0 to 3 and 6.
    fn store() -> (SegmentStore, Attempt) {
        let limits = LogLimits { segment_bytes: 128, ..LogLimits::default() };
        let store = SegmentStore::new(Arc::new(MemDisk::new()), limits).unwrap();
        let attempt = Attempt::birth(NodeId(1));
        store.create(P, attempt, Offset(0)).unwrap();
        let log = store.open(P, attempt).unwrap();
        for n in 0..10 {
            log.append(&[record(n)], Epoch(1)).unwrap();
        }
        log.expose(Offset(10)).unwrap();
        let position = Position { committed: Some(Offset(4)), acked_ahead: vec![Offset(6)] };
        log.set_position(position).unwrap();
        log.close().unwrap();
        (store, attempt)
    }

    fn read_all(
        store: &SegmentStore,
        kept: Kept<'_>,
        from: Option<Offset>,
    ) -> (Vec<u64>, Option<(Offset, Offset)>) {
        let mut found = Vec::new();
        let ends = store.read_kept(kept, from, &mut |segment| {
            for (offset, record) in segment {
                assert_eq!(record.value, offset.to_string());
                found.push(offset.0);
            }
            true
        });
        (found, ends.unwrap())
    }

    /// H14, S11: what is salvaged is everything from the captured end on, or everything that
    /// consumers have not acknowledged, and nothing else.
    #[test]
    fn exactly_what_is_missing_is_read() {
        let (store, attempt) = store();
        let kept = Kept::Of(P, What::Installed(attempt));
        let whole = Some((Offset(7), Offset(10)));
        assert_eq!(read_all(&store, kept, Some(Offset(7))), (vec![7, 8, 9], whole));
        let whole = Some((Offset(4), Offset(10)));
        assert_eq!(read_all(&store, kept, None), (vec![4, 5, 7, 8, 9], whole));
        let mut seen = 0;
        let ends = store.read_kept(kept, Some(Offset(0)), &mut |_| {
            seen += 1;
            false
        });
        assert_eq!((ends.unwrap(), seen), (None, 1), "it ends when it is told to");
    }

    /// L6, H14: a copy that was given up before anything of it came holds nothing, and says so; a log
    /// without segments has lost them.
    #[test]
    fn a_copy_that_has_only_begun_holds_nothing() {
        let (store, attempt) = store();
        let manifest = Manifest {
            partition: P,
            move_id: MoveId(2),
            source: NodeId(1),
            source_incarnation: Incarnation(1),
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(3),
            hwm: Offset(9),
            position: Position::default(),
            extents: Vec::new(),
            attempt: None,
        };
        store.checkpoint(&manifest).unwrap();
        let kept = Kept::Of(P, What::Staging);
        let nothing = Some((Offset(3), Offset(3)));
        assert_eq!(read_all(&store, kept, Some(Offset(3))), (vec![], nothing));
        store.set_aside(P, What::Staging, 5).unwrap();
        let trash = store.trash().unwrap();
        let kept = Kept::Trashed(&trash[0].name);
        assert_eq!(read_all(&store, kept, Some(Offset(3))), (vec![], nothing));

        let dir = log_dir(P, attempt);
        for file in store.disk.list(&dir).unwrap() {
            store.disk.remove_file(&dir.join(file.name)).unwrap();
        }
        let lost = store.read_kept(Kept::Of(P, What::Installed(attempt)), None, &mut |_| true);
        assert!(lost.is_err(), "{lost:?}");
    }

    /// A receipt stays with its log, also in the trash, where the log can still be read.
    #[test]
    fn a_receipt_goes_with_its_log() {
        let (store, attempt) = store();
        let what = What::Installed(attempt);
        let receipt = Receipt {
            from: Offset(7),
            end: Offset(10),
            records: 3,
            bytes: ByteCount(3),
            accepted_ms: 17,
        };
        store.write_receipt(Kept::Of(P, what), &receipt).unwrap();
        store.set_aside(P, what, 5).unwrap();
        let trash = store.trash().unwrap();
        assert_eq!(trash[0].receipt, Some(receipt));
        let (found, _) = read_all(&store, Kept::Trashed(&trash[0].name), Some(Offset(8)));
        assert_eq!(found, [8, 9]);
        store.drop_trash(&trash[0].name).unwrap();
        assert_eq!(store.trash().unwrap(), []);
        let gone = store.drop_trash(&trash[0].name);
        assert!(matches!(gone, Err(StoreError::NoSuchTrash { .. })), "{gone:?}");
    }

    /// Names come from outside: none leads out of the trash.
    #[test]
    fn no_name_leads_out_of_the_trash() {
        let (store, _) = store();
        for name in ["", ".", "..", "../partitions", "/etc", "a/b", "partitions"] {
            let dropped = store.drop_trash(name);
            assert!(matches!(dropped, Err(StoreError::NoSuchTrash { .. })), "{name}: {dropped:?}");
        }
        assert_eq!(store.recover().unwrap().partitions.len(), 1);
    }
}
