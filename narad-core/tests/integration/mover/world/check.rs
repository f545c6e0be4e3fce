//! What must hold after every event.

use narad_core::ids::*;

use super::super::disk::Directory;
use super::super::row::B;
use super::super::source::{RECORD, checksum};
use super::World;

impl World {
    /// S1, S3, S4: whoever owns has the data.
    pub(super) fn check(&self) {
        let Some(row) = &self.replicated.row else { return };
        if row.owner != B {
            return;
        }
        let directory = self.disk.installed.get(&row.data).expect("the owner has its directory");
        let sidecar = directory.sidecar.as_ref().expect("an installed copy has a sidecar");
        let verified = directory.verify(sidecar.start);
        assert!(verified.end >= sidecar.hwm && sidecar.hwm >= row.min_end);
        let forced = self.replicated.forced;
        for (&offset, &content) in self.acked.range(sidecar.start.0..) {
            match record(directory, offset) {
                // What was never visible to a listing may have been written again since; it comes
                // back by salvage.
                Some(_) if forced && offset >= sidecar.hwm.0 => {}
                Some(found) => assert_eq!(found, content, "offset {offset}"),
                None => assert!(forced, "acknowledged record {offset} is lost"),
            }
            assert!(forced || offset < sidecar.hwm.0, "record {offset} is hidden");
        }
        if !forced {
            let visible = self.acked.keys().next_back().map_or(sidecar.start.0, |last| last + 1);
            assert_eq!(sidecar.hwm.0, visible.max(sidecar.start.0), "the exact watermark (R41)");
        }
    }

    pub(in crate::mover) fn assert_moved(&self) {
        let row = self.replicated.row.as_ref().expect("the partition exists");
        assert_eq!(row.owner, B, "{:?} {:?}", self.mover.progress(), self.notes);
        assert_eq!(self.replicated.flips, 1, "flipped exactly once");
        assert_eq!(self.disk.installed.len(), 1, "one directory, the live one");
        assert!(self.disk.staging.is_none());
        assert!(self.mover.is_over());
    }

    pub(in crate::mover) fn count(&self, name: &str) -> usize {
        self.operations.iter().filter(|operation| **operation == name).count()
    }
}

fn record(directory: &Directory, offset: u64) -> Option<u64> {
    let (base, file) = directory.files.range(..=Offset(offset)).next_back()?;
    let at = usize::try_from((offset - base.0) * RECORD).unwrap();
    let record = file.get(at..at + 16)?;
    Some(u64::from_le_bytes(record[8..].try_into().unwrap()))
}

/// A checksum is what the source says of the same bytes.
#[test]
fn the_disk_and_the_source_agree_on_checksums() {
    let mut directory = Directory::default();
    let staged = directory.write(Offset(0), 0, &[1, 2, 3]);
    assert_eq!(staged.checksum, checksum(&[1, 2, 3]));
}
