//! Whatever a frame holds as records: they are read or the frame is damaged, and what was read can be
//! written again.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Epoch, Offset};
use narad_fuzz::{forge, logs};
use narad_runtime::disk::MemDisk;
use narad_runtime::log::SegmentLog;
use narad_runtime::store::PartitionLog as _;

narad_fuzz::target!("records", |input| {
    let Some((&count, payload)) = input.split_first() else { return };
    let disk = MemDisk::new();
    let bytes = forge::segment_of_one_frame(5, u32::from(count), payload);
    logs::put(&disk, &logs::segment(Path::new("log"), 5), &bytes).expect("memory");
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new("log"), logs::LIMITS);
    let log = log.expect("a segment with a right header");
    if count > 0 {
        assert_eq!(log.bounds().end, Offset(5 + u64::from(count)));
    }
    if let Ok(found) = log.read_durable(Offset(5), usize::MAX) {
        let records: Vec<_> = found.iter().map(|(_, record)| record.clone()).collect();
        SegmentLog::create(&disk, Path::new("again"), Offset(5)).expect("memory");
        let again = SegmentLog::open(Arc::new(disk.clone()), Path::new("again"), logs::LIMITS);
        let again = again.expect("just created");
        if !records.is_empty() && again.append(&records, Epoch(1)).is_ok() {
            assert_eq!(again.read_durable(Offset(5), usize::MAX).ok(), Some(found));
        }
    }
    drop(log);
    logs::survives(&disk, Path::new("log"));
});
