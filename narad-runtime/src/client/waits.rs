//! What a client waits for, so that whoever looks on is not left in the dark.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Something that has not gone on for a while, and is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The partition; `None` for records that any partition may take.
    pub partition: Option<u32>,
    /// For how long by now.
    pub since: Duration,
    /// What went wrong last.
    pub why: String,
}

/// What is waited for at the moment.
#[derive(Debug, Default)]
pub(super) struct Waits {
    stuck: Mutex<BTreeMap<Option<u32>, (Instant, String)>>,
}

impl Waits {
    /// Notes that something did not go on, and is going to be tried again.
    pub(super) fn stuck(&self, partition: Option<u32>, why: impl ToString) {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.entry(partition).or_insert_with(|| (Instant::now(), String::new())).1 =
            why.to_string();
    }

    /// Notes that it goes on.
    pub(super) fn passed(&self, partition: Option<u32>) {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
    }

    /// Lists what is waited for, by partition.
    pub(super) fn list(&self) -> Vec<Waiting> {
        let stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = stuck.iter().map(|(partition, (begun, why))| Waiting {
            partition: *partition,
            since: begun.elapsed(),
            why: why.clone(),
        });
        waiting.collect()
    }
}
