//! What the records hold: made up from a seed, or taken from real files.
//!
//! Every record has a number, its place in the whole; it travels in a header, so that whoever reads
//! the record can tell which one it is and what it has to hold.

use std::path::Path;

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc};

use super::DemoError;
use super::input::{Ending, Input, Piece};
use crate::cli::DemoOptions;
use crate::service::Record;

/// The header that carries the number, and how the piece ended.
const HEADER: &str = "n";

/// Most records that can be kept account of.
const RECORDS_MAX: u64 = 1 << 30;

/// What the records hold.
#[derive(Clone, Debug)]
pub(super) enum Content {
    /// Bytes that follow from the seed and the number.
    Made {
        /// The seed.
        seed: u64,
        /// How many records.
        records: u64,
        /// Length of each.
        bytes: usize,
    },
    /// The lines of files.
    Lines(Input),
}

/// A record as it was read, told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) number: u64,
    pub(super) print: Print,
}

/// What a value and its ending come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Print {
    /// Compared record by record.
    pub(super) check: u32,
    /// Summed over all records; its sum is compared with that of the files.
    pub(super) digest: u128,
}

impl Print {
    fn of(number: u64, value: &[u8], ending: Ending) -> Self {
        let seed = number << 2 | ending as u64;
        let digest = xxhash_rust::xxh3::xxh3_128_with_seed(value, seed);
        let check = crc32c::crc32c_append(crc32c::crc32c(value), &[ending as u8]);
        Self { check, digest }
    }
}

impl Content {
    /// Decides what the records hold; reads the input once.
    pub(super) fn choose(options: &DemoOptions) -> Result<Self, DemoError> {
        let content = match &options.input {
            Some(path) => Self::Lines(Input::look(path)?),
            None => Self::Made {
                seed: options.seed,
                records: options.records,
                bytes: options.value_bytes as usize,
            },
        };
        let records = content.records();
        if records > RECORDS_MAX {
            return Err(DemoError::TooMany { records, most: RECORDS_MAX });
        }
        Ok(content)
    }

    /// Returns how many records there are.
    pub(super) const fn records(&self) -> u64 {
        match self {
            Self::Made { records, .. } => *records,
            Self::Lines(input) => input.pieces,
        }
    }

    /// Returns how long their values are together.
    pub(super) const fn bytes(&self) -> u64 {
        match self {
            Self::Made { records, bytes, .. } => records.saturating_mul(*bytes as u64),
            Self::Lines(input) => input.bytes,
        }
    }

    /// Returns whether prints have to be remembered to compare a record with.
    pub(super) const fn needs_prints(&self) -> bool {
        match self {
            Self::Made { .. } => false,
            Self::Lines(_) => true,
        }
    }

    /// Tells which record this is. `None` if it is none of ours, or its bytes are not what they
    /// have to be; for lines, only the print can tell that.
    pub(super) fn recognise(&self, record: &Record) -> Option<Seen> {
        self.recognise_parts(&record.headers, &record.value)
    }

    /// As [`Content::recognise`], of a record that was taken apart.
    pub(super) fn recognise_parts(
        &self,
        headers: &[(String, Bytes)],
        value: &Bytes,
    ) -> Option<Seen> {
        let (_, mark) = headers.iter().find(|(name, _)| name == HEADER)?;
        let (number, ending) = mark.split_at_checked(8)?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        let [ending] = *ending else { return None };
        let ending = Ending::from_number(ending)?;
        if number >= self.records() {
            return None;
        }
        if let Self::Made { seed, bytes, .. } = self
            && (*value != made(*seed, number, *bytes) || ending != Ending::Line)
        {
            return None;
        }
        Some(Seen { number, print: Print::of(number, value, ending) })
    }

    /// Reads the files once more and returns what all their prints come to; `None` where nothing
    /// was read from files.
    pub(super) fn digest(&self) -> Result<Option<u128>, DemoError> {
        let Self::Lines(input) = self else { return Ok(None) };
        let mut sum = 0_u128;
        for (number, piece) in (0..).zip(input.read()) {
            let Piece { value, ending } = piece?;
            sum = sum.wrapping_add(Print::of(number, &value, ending).digest);
        }
        Ok(Some(sum))
    }

    fn pieces(&self) -> Box<dyn Iterator<Item = Result<Piece, DemoError>> + Send> {
        match *self {
            Self::Made { seed, records, bytes } => Box::new((0..records).map(move |number| {
                Ok(Piece { value: made(seed, number, bytes), ending: Ending::Line })
            })),
            Self::Lines(ref input) => Box::new(input.read()),
        }
    }

    /// Returns how many files the records were taken from.
    pub(super) fn files(&self) -> u64 {
        match self {
            Self::Made { .. } => 0,
            Self::Lines(input) => input.files() as u64,
        }
    }

    /// Returns a file of the input that has been changed meanwhile.
    pub(super) fn changed(&self) -> Option<&Path> {
        match self {
            Self::Made { .. } => None,
            Self::Lines(input) => input.changed(),
        }
    }
}

/// Returns the bytes of a record that is made up.
fn made(seed: u64, number: u64, bytes: usize) -> Bytes {
    let mut state = xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), seed);
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        // Steps of an odd constant, each mixed.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value.extend_from_slice(&(mixed ^ (mixed >> 29)).to_le_bytes());
    }
    value.truncate(bytes);
    value.into()
}

/// Records with consecutive numbers.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) first: u64,
    pub(super) records: Vec<Record>,
    /// One for each record, where prints have to be remembered.
    pub(super) checks: Vec<u32>,
}

/// The records in order, read ahead a little by a thread of its own.
#[derive(Debug)]
pub(super) struct Feed {
    ahead: Mutex<Ahead>,
}

/// What has been read and not been taken.
#[derive(Debug)]
struct Ahead {
    coming: mpsc::Receiver<Result<Batch, DemoError>>,
    /// The rest of a batch of which less was wanted.
    rest: Option<Batch>,
}

impl Feed {
    /// Most records of a batch.
    pub(super) const RECORDS_MAX: usize = 512;
    /// Bytes at which a batch is full.
    const BYTES_MAX: usize = 512 << 10;
    /// Batches read ahead.
    const AHEAD: usize = 4;

    /// Begins to read.
    pub(super) fn begin(content: Content) -> Self {
        let (sender, coming) = mpsc::channel(Self::AHEAD);
        tokio::task::spawn_blocking(move || read_ahead(&content, &sender));
        Self { ahead: Mutex::new(Ahead { coming, rest: None }) }
    }

    /// Returns the next records, at most so many; `None` at the end.
    pub(super) async fn take(&self, most: usize) -> Result<Option<Batch>, DemoError> {
        let most = most.max(1);
        let mut ahead = self.ahead.lock().await;
        let next = match ahead.rest.take() {
            Some(rest) => Some(rest),
            None => ahead.coming.recv().await.transpose()?,
        };
        let Some(mut batch) = next else { return Ok(None) };
        if batch.records.len() > most {
            let records = batch.records.split_off(most);
            let checks = batch.checks.split_off(most.min(batch.checks.len()));
            ahead.rest = Some(Batch { first: batch.first + most as u64, records, checks });
        }
        Ok(Some(batch))
    }
}

fn read_ahead(content: &Content, sender: &mpsc::Sender<Result<Batch, DemoError>>) {
    let empty = |first| Batch { first, records: Vec::new(), checks: Vec::new() };
    let (mut batch, mut bytes) = (empty(0), 0);
    for (number, piece) in (0_u64..).zip(content.pieces()) {
        let Piece { value, ending } = match piece {
            Ok(piece) => piece,
            Err(error) => {
                // Whoever takes the records may be gone.
                drop(sender.blocking_send(Err(error)));
                return;
            }
        };
        bytes += value.len();
        if content.needs_prints() {
            batch.checks.push(Print::of(number, &value, ending).check);
        }
        let mut mark = number.to_be_bytes().to_vec();
        mark.push(ending as u8);
        let headers = vec![(HEADER.to_owned(), mark.into())];
        let timestamp_ms = crate::clock::wall_ms();
        batch.records.push(Record { key: None, value, timestamp_ms, headers });
        if batch.records.len() >= Feed::RECORDS_MAX || bytes >= Feed::BYTES_MAX {
            let full = std::mem::replace(&mut batch, empty(number + 1));
            bytes = 0;
            if sender.blocking_send(Ok(full)).is_err() {
                return;
            }
        }
    }
    if !batch.records.is_empty() {
        drop(sender.blocking_send(Ok(batch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MADE: Content = Content::Made { seed: 7, records: 1000, bytes: 20 };

    async fn all(content: &Content, most: usize) -> Vec<Record> {
        let feed = Feed::begin(content.clone());
        let mut records = Vec::new();
        while let Some(batch) = feed.take(most).await.expect("nothing to fail") {
            assert_eq!(batch.first, records.len() as u64);
            assert!(batch.records.len() <= most);
            records.extend(batch.records);
        }
        records
    }

    #[tokio::test]
    async fn records_are_recognised_by_number_and_content() {
        let records = all(&MADE, 7).await;
        assert_eq!(records.len(), 1000);
        for (number, record) in (0..).zip(&records) {
            assert_eq!(MADE.recognise(record).map(|seen| seen.number), Some(number));
        }
        let other = Record { value: "else".into(), ..records[3].clone() };
        assert_eq!(MADE.recognise(&other), None);
        assert_eq!(MADE.recognise(&Record { headers: Vec::new(), ..records[3].clone() }), None);
        let swapped = Record { headers: records[4].headers.clone(), ..records[3].clone() };
        assert_eq!(MADE.recognise(&swapped), None);
    }

    #[tokio::test]
    async fn the_sum_of_all_prints_is_that_of_the_files() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("a")).expect("a directory");
        std::fs::write(directory.path().join("a/1"), b"one\n\ntwo").expect("a file");
        std::fs::write(directory.path().join("b"), b"\x00\xff\n").expect("a file");
        let content = Content::Lines(Input::look(directory.path()).expect("lines"));
        let records = all(&content, 2).await;
        assert_eq!(records.len(), 4);
        let sum = records.iter().filter_map(|record| content.recognise(record));
        let sum = sum.fold(0_u128, |sum, seen| sum.wrapping_add(seen.print.digest));
        assert_eq!(content.digest().expect("readable"), Some(sum));
        std::fs::write(directory.path().join("b"), b"\x00\xfe\n").expect("a file");
        assert_ne!(content.digest().expect("readable"), Some(sum));
    }
}
