//! Reading parcels back: some of them for a batch, or all that wait after a restart.

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
    ready: vec::IntoIter<Waybill>,
    lost: Vec<Range<Seq>>,
    failed: Option<IngressError>,
}

impl Waybills {
    /// Reads from a position to the present end of a log; a beginning that is gone is lost.
    pub(super) fn new(log: Arc<SegmentLog>, from: Seq) -> Self {
        let bounds = log.bounds_now();
        let (start, end) = (Seq(bounds.start.0), Seq(bounds.end.0));
        let lost = if from < start { vec![from..start] } else { Vec::new() };
        let ready = Vec::new().into_iter();
        Self { log, next: from.max(start), end, ready, lost, failed: None }
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
        match parcels(&self.log, self.next, PIECE_BYTES)? {
            Found::Parcels(found) => {
                let waybills: Vec<Waybill> =
                    found.iter().map(|(seq, parcel)| parcel.waybill(*seq)).collect();
                self.next = Seq(self.next.0 + waybills.len() as u64);
                self.ready = waybills.into_iter();
            }
            Found::Damaged { resume } => {
                let resume = resume.min(self.end);
                self.lost.push(self.next..resume);
                self.next = resume;
            }
        }
        Ok(())
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
