//! Reading parcels back: some of them for a batch, or all that wait after a restart.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::vec;

use narad_core::dispatch::Waybill;
use narad_core::ids::{Offset, Seq};

use super::{IngressError, IngressLog, Parcel};
use crate::log::{LogError, SegmentLog, lock};
use crate::store::PartitionLog as _;

/// What is read from one parcel on if others nearby are wanted, in bytes.
const NEIGHBOURS_BYTES: usize = 256 << 10;
/// How near the next parcel must be for that. Neighbours are worth reading if a good part of them
/// is sent before the cache forgets them; of records that lie further apart each is read alone.
const NEAR: u64 = 32;
/// Piece in which a log is read from end to end, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// What a read has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The parcels, in the order in which they were asked for, from the first one on; what did not
    /// fit is missing at the end.
    pub parcels: Vec<(Seq, Parcel)>,
    /// Those among the ones looked at whose bytes are damaged. They never come back (`case_048`).
    pub lost: Vec<Seq>,
}

/// What stands at a position.
enum Found {
    Parcels(Vec<(Seq, Parcel)>),
    Damaged { resume: Seq },
}

impl IngressLog {
    /// Reads the parcels at some positions: at least one if there is one, and no more than fit into
    /// `bytes_max` otherwise, counting what their [waybills](Parcel::waybill) say. Ascending positions
    /// are read fastest.
    ///
    /// # Errors
    ///
    /// If the disk fails, if a position was never given or is below the checkpoint's segment, or if
    /// a record is of a newer version.
    pub fn read(
        &self,
        seqs: impl IntoIterator<Item = Seq>,
        bytes_max: usize,
    ) -> Result<Read, IngressError> {
        let mut read = Read::default();
        let mut bytes = 0;
        let mut seqs = seqs.into_iter().peekable();
        while let Some(seq) = seqs.next() {
            let is_near = seqs.peek().is_some_and(|next| next.0.abs_diff(seq.0) <= NEAR);
            let Some(parcel) = self.find(seq, is_near)? else {
                read.lost.push(seq);
                continue;
            };
            bytes += parcel.encoded_bytes();
            if bytes > bytes_max && !read.parcels.is_empty() {
                break;
            }
            read.parcels.push((seq, parcel));
        }
        Ok(read)
    }

    /// Finds one parcel, or `None` if its bytes are damaged.
    fn find(&self, seq: Seq, is_near: bool) -> Result<Option<Parcel>, IngressError> {
        if let Some(parcel) = lock(&self.cache).find(seq) {
            return Ok(Some(parcel));
        }
        let log = self.log();
        let end = log.bounds_now().end;
        if seq.0 >= end.0 {
            return Err(LogError::AheadOfHwm { asked: Offset(seq.0), hwm: end }.into());
        }
        // Several of them must fit into the cache, or they are read for nothing.
        let neighbours = NEIGHBOURS_BYTES.min(self.limits.cache_bytes_max / 4);
        match parcels(&log, seq, if is_near { neighbours.max(1) } else { 1 })? {
            Found::Damaged { .. } => Ok(None),
            Found::Parcels(found) => {
                let found: Vec<Parcel> = found.into_iter().map(|(_, parcel)| parcel).collect();
                let first = found.first().cloned();
                lock(&self.cache).insert(seq, found);
                Ok(first)
            }
        }
    }
}

/// Reads parcels from a position on, without a gap: at least one, unless that is damaged.
fn parcels(log: &SegmentLog, from: Seq, bytes_max: usize) -> Result<Found, IngressError> {
    let records = match log.read_durable(Offset(from.0), bytes_max) {
        Ok(records) => records,
        Err(LogError::Damaged { resume, .. }) if resume.0 > from.0 => {
            return Ok(Found::Damaged { resume: Seq(resume.0) });
        }
        Err(error) => return Err(error.into()),
    };
    let first = records.first().map_or_else(|| log.bounds_now().end, |(offset, _)| *offset);
    if first.0 > from.0 {
        return Ok(Found::Damaged { resume: Seq(first.0) });
    }
    let mut found = Vec::with_capacity(records.len());
    for (next, (offset, record)) in (from.0..).zip(records) {
        if offset.0 != next {
            break;
        }
        let seq = Seq(offset.0);
        match Parcel::unseal(record) {
            Ok(parcel) => found.push((seq, parcel)),
            // Those before it are good; the next read meets the error.
            Err(_) if !found.is_empty() => break,
            Err(source) => return Err(IngressError::Format { seq, source }),
        }
    }
    Ok(Found::Parcels(found))
}

/// The waybills of all records that wait, read off the disk one piece at a time.
///
/// An iterator cannot fail; whether this one has come to its end is what [`finish`](Self::finish)
/// says, and nothing is to be done with the waybills before it has been asked.
#[derive(Debug)]
pub struct Waybills {
    log: Arc<SegmentLog>,
    next: Seq,
    end: Seq,
    /// What is not needed, from the next position on.
    spent: VecDeque<Range<Seq>>,
    ready: vec::IntoIter<Waybill>,
    lost: Vec<Range<Seq>>,
    failed: Option<IngressError>,
}

impl Waybills {
    /// Reads from a position to the present end of a log, without what is not needed; a beginning
    /// that is gone is lost.
    pub(super) fn new(log: Arc<SegmentLog>, from: Seq, spent: Vec<Range<Seq>>) -> Self {
        let bounds = log.bounds_now();
        let (start, end) = (Seq(bounds.start.0), Seq(bounds.end.0));
        let (spent, ready) = (spent.into(), Vec::new().into_iter());
        let mut this = Self { log, next: from, end, spent, ready, lost: Vec::new(), failed: None };
        this.lose_before(start);
        this
    }

    /// Reads what is left and returns the ranges of acknowledged records whose bytes are damaged
    /// or gone; empty on a good disk (`case_048`, `case_161`).
    ///
    /// # Errors
    ///
    /// If the disk failed, or a record is of a newer version. The waybills so far are then not all.
    pub fn finish(mut self) -> Result<Vec<Range<Seq>>, IngressError> {
        self.by_ref().for_each(drop);
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.lost),
        }
    }

    /// Reads the next piece, past damage.
    fn refill(&mut self) -> Result<(), IngressError> {
        if let Some(end) = self.spent_until(self.next) {
            self.next = end;
            return Ok(());
        }
        match parcels(&self.log, self.next, PIECE_BYTES)? {
            Found::Parcels(found) => {
                self.next = Seq(self.next.0 + found.len() as u64);
                let mut waybills = Vec::with_capacity(found.len());
                for (seq, parcel) in found {
                    if self.spent_until(seq).is_none() {
                        waybills.push(parcel.waybill(seq));
                    }
                }
                self.ready = waybills.into_iter();
            }
            Found::Damaged { resume } => self.lose_before(resume.min(self.end)),
        }
        Ok(())
    }

    /// Goes on at a position; what is needed before it is lost.
    fn lose_before(&mut self, resume: Seq) {
        while self.next < resume {
            let is_spent = self.spent_until(self.next);
            let next_spent = self.spent.front().map(|range| range.start);
            let until = is_spent.or(next_spent).map_or(resume, |until| until.min(resume));
            if is_spent.is_none() {
                self.lost.push(self.next..until);
            }
            self.next = until;
        }
    }

    /// Returns where the range ends that a position is in. Positions are asked for in their order.
    fn spent_until(&mut self, seq: Seq) -> Option<Seq> {
        while self.spent.front().is_some_and(|range| range.end <= seq) {
            self.spent.pop_front();
        }
        self.spent.front().filter(|range| range.start <= seq).map(|range| range.end)
    }
}

impl Iterator for Waybills {
    type Item = Waybill;

    fn next(&mut self) -> Option<Waybill> {
        loop {
            if let Some(waybill) = self.ready.next() {
                return Some(waybill);
            }
            if self.next >= self.end || self.failed.is_some() {
                return None;
            }
            self.failed = self.refill().err();
        }
    }
}
