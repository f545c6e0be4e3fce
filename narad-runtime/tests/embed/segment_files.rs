//! The default store passes the batteries, with the power cut at every step of the disk under it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use narad_runtime::conformance::{self, StoreRig};
use narad_runtime::disk::mem::Keep;
use narad_runtime::disk::{Disk as _, MemDisk, read_whole};
use narad_runtime::embed::{PartitionStore, SegmentFiles};
use narad_runtime::log::LogLimits;

struct Rig {
    disk: Mutex<MemDisk>,
    keep: fn() -> Keep,
}

impl Rig {
    fn new(keep: fn() -> Keep) -> Self {
        Self { disk: Mutex::new(MemDisk::new()), keep }
    }

    fn disk(&self) -> MemDisk {
        self.disk.lock().expect("nobody panics").clone()
    }
}

#[async_trait]
impl StoreRig for Rig {
    async fn fresh(&self) {
        *self.disk.lock().expect("nobody panics") = MemDisk::new();
    }

    async fn open(&self) -> Arc<dyn PartitionStore> {
        let limits = LogLimits { segment_bytes: 64 << 10, ..LogLimits::default() };
        let opened = SegmentFiles::open(Arc::new(self.disk()), limits);
        Arc::new(opened.expect("the disk works"))
    }

    async fn power_loss(&self) {
        self.disk().crash((self.keep)());
    }

    async fn power_loss_at(&self, write: u64) -> bool {
        self.disk().stop_after(write);
        true
    }

    async fn rot(&self, _: &str, record: &Bytes) -> bool {
        let disk = self.disk();
        let (mut found, mut left) = (0, vec![PathBuf::new()]);
        while let Some(dir) = left.pop() {
            for entry in disk.list(&dir).expect("the disk works") {
                let path = dir.join(&entry.name);
                if entry.is_dir {
                    left.push(path);
                    continue;
                }
                let bytes = read_whole(&disk, &path, 1 << 20).expect("the disk works");
                let bytes = bytes.expect("it is there");
                let places = bytes.windows(record.len()).enumerate();
                for (at, _) in places.filter(|(_, bytes)| bytes == record) {
                    disk.rot(&path, at, 1);
                    found += 1;
                }
            }
        }
        assert_eq!(found, 1, "it is kept once");
        true
    }
}

/// S3, H16, H18, R61: whatever of the unsynced a crash keeps.
#[tokio::test]
async fn segment_files_are_a_store() {
    for keep in [|| Keep::Nothing, || Keep::Everything, || Keep::Torn(5)] {
        let report = conformance::store(&Rig::new(keep)).await.expect("it is right");
        assert!(report.crash_points > 30, "{report:?}");
        assert_eq!(report.skipped, Vec::<&str>::new());
    }
    let (one, other) = (Rig::new(|| Keep::Nothing), Rig::new(|| Keep::Nothing));
    conformance::moves(&one, &other).await.expect("it is right");
}
