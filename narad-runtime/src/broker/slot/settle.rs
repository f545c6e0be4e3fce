//! Damage that nobody waits for any more.

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use narad_core::ids::Offset;
use narad_core::partition::Position;

use super::{Slot, SlotError};
use crate::log::{Altered, LogError};
use crate::store::PartitionLog;

/// Records that are looked at in one go, in bytes.
const READ_BYTES: usize = 1 << 20;

impl Slot {
    /// Has altered segments that hold some of these offsets moved as they are from now on, if all that
    /// cannot be read in them was acknowledged, or given up (`case_048`); so is one that was put back from
    /// a backup. Returns how many they were; `None` if that may not be now, since the partition is frozen
    /// or not served here. Blocks on the disk.
    ///
    /// # Errors
    ///
    /// If no log is open, or the log fails.
    pub fn settle_damage(&self, offsets: &Range<Offset>) -> Result<Option<usize>, SlotError> {
        let _settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let log = self.lock().open_log()?;
        let position = self.position()?;
        let mut settled = Vec::new();
        for altered in log.find_altered(offsets)? {
            if is_given_up(&log, &position, &altered)? {
                settled.push(altered);
            }
        }
        if settled.is_empty() {
            return Ok(Some(0));
        }
        // No freeze begins meanwhile.
        let inner = self.lock();
        if !inner.gate.may_mutate() {
            return Ok(None);
        }
        log.describe_anew(&settled)?;
        drop(inner);
        Ok(Some(settled.len()))
    }
}

/// Whether every record of a segment can be read or is acknowledged.
fn is_given_up(
    log: &Arc<dyn PartitionLog>,
    position: &Position,
    altered: &Altered,
) -> Result<bool, LogError> {
    let committed = position.committed.unwrap_or_default();
    let is_acked =
        |offset| offset < committed || position.acked_ahead.binary_search(&offset).is_ok();
    let mut at = altered.base;
    while at < altered.end {
        let (readable, next) = match log.read_durable(at, READ_BYTES) {
            Ok(records) => match (records.first(), records.last()) {
                (Some((first, _)), Some((last, _))) => (*first, last.next()),
                (None, _) | (_, None) => return Ok(false),
            },
            Err(LogError::Damaged { resume, .. }) => (resume, resume.max(at.next())),
            // Retention has removed it meanwhile.
            Err(LogError::BelowStart { .. }) => return Ok(false),
            Err(failed) => return Err(failed),
        };
        let lost = at.0..readable.max(at).min(altered.end).0;
        if !lost.map(Offset).all(is_acked) {
            return Ok(false);
        }
        at = next;
    }
    Ok(true)
}
