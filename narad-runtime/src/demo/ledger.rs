//! The account of every record: what was acknowledged, what came back, and who served it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Delivery;

use super::content::{Batch, Content, Seen};

/// The account of all records of a run.
#[derive(Debug)]
pub(super) struct Ledger {
    content: Content,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    acked: Bits,
    consumed: Bits,
    /// What records have to come to, where that does not follow from their number.
    checks: Vec<u32>,
    digest: u128,
    duplicates: u64,
    altered: u64,
    /// Where the node serves HTTP that answered in a reign of a partition.
    reigns: BTreeMap<(u32, u64), String>,
    two_owners: BTreeSet<String>,
    last_ack: Option<Instant>,
    longest_silence: Duration,
    last_news: Instant,
}

/// What the account comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Records acknowledged.
    pub(super) acked: u64,
    /// Records that came back, each counted once.
    pub(super) consumed: u64,
    /// Times that a record came back again.
    pub(super) duplicates: u64,
    /// Records that came back with other bytes, or that nobody produced.
    pub(super) altered: u64,
    /// Reigns in which two nodes answered.
    pub(super) two_owners: Vec<String>,
    /// Reigns seen.
    pub(super) reigns: u64,
    /// Longest time without an acknowledged record.
    pub(super) longest_silence: Duration,
    /// What all records that came back come to.
    pub(super) digest: u128,
}

impl Ledger {
    /// Opens an account for so many records.
    pub(super) fn new(content: Content) -> Self {
        let records = usize::try_from(content.records()).unwrap_or(usize::MAX);
        let checks = if content.needs_prints() { vec![0; records] } else { Vec::new() };
        let inner = Inner {
            acked: Bits::new(records),
            consumed: Bits::new(records),
            checks,
            digest: 0,
            duplicates: 0,
            altered: 0,
            reigns: BTreeMap::new(),
            two_owners: BTreeSet::new(),
            last_ack: None,
            longest_silence: Duration::ZERO,
            last_news: Instant::now(),
        };
        Self { content, inner: Mutex::new(inner) }
    }

    /// Remembers what records have to come to, before they are sent.
    pub(super) fn expect(&self, batch: &Batch) {
        let mut inner = self.lock();
        for (number, check) in (batch.first..).zip(&batch.checks) {
            if let Some(place) = place(number).and_then(|place| inner.checks.get_mut(place)) {
                *place = *check;
            }
        }
    }

    /// Counts records as acknowledged.
    pub(super) fn acknowledged(&self, batch: &Batch) {
        let mut inner = self.lock();
        let now = Instant::now();
        if let Some(last) = inner.last_ack.replace(now) {
            let silence = now.saturating_duration_since(last);
            inner.longest_silence = inner.longest_silence.max(silence);
        }
        inner.last_news = now;
        for number in (batch.first..).take(batch.records.len()) {
            inner.acked.set(number);
        }
    }

    /// Counts records as come back.
    pub(super) fn consumed(&self, delivery: &Delivery) {
        let seen: Vec<Option<Seen>> =
            delivery.records.iter().map(|one| self.content.recognise(&one.record)).collect();
        let mut inner = self.lock();
        let reign = (delivery.partition, delivery.epoch.0);
        inner.answered(reign, &delivery.endpoint.to_string());
        for seen in seen {
            let Some(Seen { number, print }) = seen else {
                inner.altered += 1;
                continue;
            };
            let check = place(number).and_then(|place| inner.checks.get(place));
            if check.is_some_and(|check| *check != print.check) {
                inner.altered += 1;
            } else if inner.consumed.set(number) {
                inner.digest = inner.digest.wrapping_add(print.digest);
                inner.last_news = Instant::now();
            } else {
                inner.duplicates += 1;
            }
        }
    }

    /// Returns how many records were acknowledged, and how many came back.
    pub(super) fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.acked.count, inner.consumed.count)
    }

    /// Returns how long ago a record was acknowledged or came back for the first time.
    pub(super) fn quiet_for(&self) -> Duration {
        self.lock().last_news.elapsed()
    }

    /// Returns the records that were acknowledged and did not come back; at most so many.
    pub(super) fn missing(&self, most: usize) -> Vec<u64> {
        let inner = self.lock();
        let missing = inner.acked.words.iter().zip(&inner.consumed.words).enumerate();
        let missing = missing.filter(|(_, (acked, consumed))| *acked & !*consumed != 0);
        let numbers = missing.flat_map(|(word, (acked, consumed))| {
            let bits = acked & !consumed;
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u64 * 64 + bit)
        });
        numbers.take(most).collect()
    }

    /// Returns what the account comes to.
    pub(super) fn account(&self) -> Account {
        let inner = self.lock();
        Account {
            acked: inner.acked.count,
            consumed: inner.consumed.count,
            duplicates: inner.duplicates,
            altered: inner.altered,
            two_owners: inner.two_owners.iter().cloned().collect(),
            reigns: inner.reigns.len() as u64,
            longest_silence: inner.longest_silence,
            digest: inner.digest,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Notes which node answered in a reign.
    fn answered(&mut self, reign: (u32, u64), node: &str) {
        let (partition, epoch) = reign;
        let known = self.reigns.entry(reign).or_insert_with(|| node.to_owned());
        if known != node {
            let both = format!("partition {partition}, epoch {epoch}: {known} and {node}");
            self.two_owners.insert(both);
        }
    }
}

fn place(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}

/// A bit for each record.
#[derive(Debug)]
struct Bits {
    words: Vec<u64>,
    count: u64,
}

impl Bits {
    fn new(bits: usize) -> Self {
        Self { words: vec![0; bits.div_ceil(64)], count: 0 }
    }

    /// Sets a bit; returns whether it was not set before.
    fn set(&mut self, bit: u64) -> bool {
        let Some(word) = place(bit / 64).and_then(|word| self.words.get_mut(word)) else {
            return false;
        };
        let new = *word >> (bit % 64) & 1 == 0;
        *word |= 1 << (bit % 64);
        self.count += u64::from(new);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Record;
    use narad_core::ids::Epoch;

    const CONTENT: Content = Content::Made { seed: 1, records: 100, bytes: 8 };

    fn acknowledge(ledger: &Ledger, first: u64) {
        let records = vec![Record::default(); 10];
        ledger.acknowledged(&Batch { first, records, checks: Vec::new() });
    }

    fn deliver(ledger: &Ledger, epoch: u64, node: &str) {
        let endpoint = node.parse().expect("an address");
        ledger.consumed(&Delivery {
            partition: 3,
            epoch: Epoch(epoch),
            records: Vec::new(),
            endpoint,
        });
    }

    #[test]
    fn what_was_acknowledged_and_did_not_come_back_is_missing() {
        let ledger = Ledger::new(CONTENT);
        acknowledge(&ledger, 60);
        assert_eq!(ledger.missing(100), (60..70).collect::<Vec<_>>());
        assert_eq!(ledger.missing(3), [60, 61, 62]);
        assert_eq!(ledger.counts(), (10, 0));
    }

    #[test]
    fn two_nodes_that_answer_in_one_reign_are_noticed() {
        let ledger = Ledger::new(CONTENT);
        deliver(&ledger, 1, "a:1");
        deliver(&ledger, 2, "b:1");
        assert_eq!(ledger.account().two_owners, Vec::<String>::new());
        deliver(&ledger, 1, "b:1");
        assert_eq!(ledger.account().two_owners, ["partition 3, epoch 1: a:1 and b:1"]);
    }
}
