//! What a killed node's directory holds that no other node has: records that it acknowledged after
//! the last look of those who copied from it. They are not lost, but nobody serves them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use narad_core::ids::{Attempt, Offset, PartitionId};

use super::DemoError;
use super::content::Content;
use crate::log::LogLimits;
use crate::settings::Settings;
use crate::store::data_dir::DataDir;
use crate::store::{PartitionStore as _, SegmentStore, StoreError};

/// A partition that was promoted without its old owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Promoted {
    pub(super) partition: PartitionId,
    /// The directory of the old owner.
    pub(super) data: Attempt,
    /// Where the new owner's reign begins: what the old one has from here on was not copied.
    pub(super) start: Offset,
}

/// Reads the numbers of the records that only the old directory has. Blocks; the node must be down.
pub(super) fn left_behind(
    settings: &Settings,
    promoted: &[Promoted],
    content: &Content,
) -> Result<BTreeSet<u64>, DemoError> {
    const READ_BYTES: usize = 1 << 20;
    let Some(name) = &settings.name else { return Ok(BTreeSet::new()) };
    let data_dir = once_released(settings, name)?;
    let limits = LogLimits { segment_bytes: settings.log.segment_bytes, ..LogLimits::default() };
    let store = SegmentStore::new(data_dir.disk(), limits)?;
    let mut numbers = BTreeSet::new();
    for Promoted { partition, data, start } in promoted {
        let log = store.open(*partition, *data)?;
        let bounds = log.bounds();
        let mut next = (*start).max(bounds.start);
        while next < bounds.end {
            let records = log.read_durable(next, READ_BYTES)?;
            let Some((last, _)) = records.last() else { break };
            next = last.next();
            let seen = records
                .iter()
                .filter_map(|(_, record)| content.recognise_parts(&record.headers, &record.value));
            numbers.extend(seen.map(|seen| seen.number));
        }
    }
    Ok(numbers)
}

/// Opens the directory as soon as the killed node has let go of it.
fn once_released(settings: &Settings, name: &narad_core::ids::Name) -> Result<DataDir, DemoError> {
    const PATIENCE: Duration = Duration::from_secs(15);
    const PAUSE: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match DataDir::open(&settings.data_dir, name) {
            Err(StoreError::Locked { .. }) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            opened => return Ok(opened?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::content::Feed;
    use crate::log::Record;
    use narad_core::ids::{Epoch, Name, NodeId, TopicId};

    /// H14: what a promoted copy lacks is found in the old directory, hidden or not.
    #[tokio::test]
    async fn records_past_the_copy_are_found_in_the_old_directory() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let name = Name::new("narad-1").expect("a name");
        let content = Content::Made { seed: 1, records: 10, bytes: 5 };
        let batch = Feed::begin(content.clone()).take(10).await.expect("made").expect("ten");
        let records: Vec<Record> = batch.records;

        let partition = PartitionId { topic: TopicId(3), index: 1 };
        let data = Attempt::birth(NodeId(1));
        {
            let data_dir = DataDir::open(root.path(), &name).expect("new");
            let store = SegmentStore::new(data_dir.disk(), LogLimits::default()).expect("new");
            store.create(partition, data, Offset(100)).expect("new");
            let log = store.open(partition, data).expect("created");
            let done = log.append(&records[..8], Epoch(1)).expect("room");
            log.expose(done.end).expect("durable");
            log.append(&records[8..], Epoch(1)).expect("room");
        }
        let settings =
            Settings { name: Some(name), data_dir: root.path().to_owned(), ..Settings::default() };
        let found = |start| {
            let promoted = [Promoted { partition, data, start: Offset(start) }];
            left_behind(&settings, &promoted, &content).expect("readable")
        };
        assert_eq!(found(106), BTreeSet::from([6, 7, 8, 9]));
        assert_eq!(found(110), BTreeSet::new());
        assert_eq!(found(200), BTreeSet::new());
    }
}
