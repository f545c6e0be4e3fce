//! Appending once more, at the present owner, what a log of a past reign holds (H14).

use std::time::Duration;

use bytes::Bytes;
use narad_core::ids::{Offset, PartitionId};
use narad_core::node::Salvaged;

use super::extents::{frame_bytes, frames};
use super::hands::Parts;
use super::messages::{Question, Reply};
use super::note::LogNote;
use super::seat::READ_BYTES;
use super::store::StoreFault;

/// How often a batch is tried before all of it is left for later.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Appends everything from an offset on, or from the first record that consumers have not
/// acknowledged. Returns `None` if not all of it could be; all of it is appended again next time.
pub(super) async fn salvage(
    parts: &Parts,
    partition: PartitionId,
    log: &str,
    from: Option<Offset>,
) -> Result<Option<Salvaged>, StoreFault> {
    let Some(kept) = parts.store.open(log).await? else {
        return Err(StoreFault::NoSuchLog { log: log.to_owned() });
    };
    let note = LogNote::decode(&kept.note).map_err(StoreFault::failed)?;
    let from = from.or(note.position.committed).unwrap_or(kept.start).max(kept.start);
    let acked = |offset: Offset| note.position.acked_ahead.binary_search(&offset).is_ok();
    let (mut at, mut total) = (from, 0);
    while at < kept.end {
        let records = parts.store.read(log, at, READ_BYTES).await?;
        if records.is_empty() {
            return Err(StoreFault::OutOfRange { log: log.to_owned(), offset: at });
        }
        let offsets = (at.0..).map(Offset);
        let wanted: Vec<Bytes> = offsets
            .zip(&records)
            .filter(|(offset, _)| !acked(*offset))
            .map(|(_, record)| record.clone())
            .collect();
        at = Offset(at.0 + records.len() as u64);
        total += wanted.iter().map(|record| frame_bytes(record)).sum::<u64>();
        if !wanted.is_empty() && !append(parts, partition, &wanted).await {
            return Ok(None);
        }
    }
    Ok(Some(Salvaged { from, end: kept.end.max(from), bytes: total }))
}

async fn append(parts: &Parts, partition: PartitionId, records: &[Bytes]) -> bool {
    let frames = frames(records);
    for _ in 0..TRIES {
        if let Some(owner) = parts.shared.owner(partition) {
            let appended = if owner == parts.me {
                let appended = parts.seats.seat(partition).append(records).await;
                appended.is_ok()
            } else {
                let question = Question::Append { partition, frames: frames.clone() };
                matches!(parts.ask(owner, question).await, Ok(Reply::Appended(_)))
            };
            if appended {
                return true;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}
