//! The source: a log of records of sixteen bytes each, its offset and its content.

use narad_core::ids::*;
use narad_core::mover::Fault;
use narad_core::partition::*;
use narad_core::peer::Refusal;
use narad_core::time::Instant;

/// Bytes of one record.
pub(super) const RECORD: u64 = 16;

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) base: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) sealed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Freeze {
    pub(super) attempt: Attempt,
    pub(super) capture: Capture,
    pub(super) until: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) reachable: bool,
    pub(super) incarnation: u64,
    pub(super) generation: u64,
    pub(super) epoch: u64,
    pub(super) segments: Vec<Segment>,
    /// Records at the end that consumers cannot see.
    pub(super) hidden: u64,
    pub(super) committed: Option<u64>,
    pub(super) freeze: Option<Freeze>,
    pub(super) freezes: u64,
    /// Bytes after which a segment is rolled.
    pub(super) segment_bytes: u64,
    /// The source's words about its own bytes are a lie in this extent.
    pub(super) damaged: Option<u64>,
}

pub(super) fn checksum(bytes: &[u8]) -> Checksum {
    Checksum(
        bytes
            .iter()
            .fold(0x811c_9dc5, |sum, &byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)),
    )
}

pub(super) fn digest<'a>(files: impl Iterator<Item = (u64, &'a [u8])>) -> Digest {
    Digest(files.fold(7, |sum, (base, bytes)| {
        let len = bytes.len() as u128;
        (sum ^ u128::from(base) ^ (len << 64) ^ (u128::from(checksum(bytes).0) << 32))
            .wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    }))
}

impl Source {
    pub(super) fn new(start: u64) -> Self {
        let first = Segment { base: start, bytes: vec![], sealed: false };
        Self {
            reachable: true,
            incarnation: 1,
            generation: 1,
            epoch: 1,
            segments: vec![first],
            hidden: 0,
            committed: None,
            freeze: None,
            freezes: 0,
            segment_bytes: 20 * RECORD,
            damaged: None,
        }
    }

    /// A partition that has no file yet.
    pub(super) fn never_written() -> Self {
        Self { segments: vec![], ..Self::new(0) }
    }

    pub(super) fn start(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.base)
    }

    pub(super) fn end(&self) -> u64 {
        self.segments.last().map_or(0, |last| last.base + last.bytes.len() as u64 / RECORD)
    }

    pub(super) fn hwm(&self) -> u64 {
        self.end().saturating_sub(self.hidden).max(self.start())
    }

    /// Appends records, unless frozen.
    pub(super) fn produce(&mut self, records: u64) {
        if self.freeze.is_some() || !self.reachable {
            return;
        }
        for _ in 0..records {
            let offset = self.end();
            let full = self
                .segments
                .last()
                .is_none_or(|last| last.bytes.len() as u64 >= self.segment_bytes);
            if full {
                if let Some(last) = self.segments.last_mut() {
                    last.sealed = true;
                }
                self.segments.push(Segment { base: offset, bytes: vec![], sealed: false });
            }
            let content = offset * 1_000 + self.generation;
            let last = self.segments.last_mut().unwrap();
            last.bytes.extend(offset.to_le_bytes());
            last.bytes.extend(content.to_le_bytes());
        }
    }

    /// Retention deletes the oldest sealed segment; never under a freeze.
    pub(super) fn reap(&mut self) {
        if self.freeze.is_none() && self.segments.len() > 1 {
            self.segments.remove(0);
        }
    }

    /// The process starts again: the freeze is forgotten, and so are hidden records at the end,
    /// whose offsets other records will get.
    pub(super) fn restart(&mut self) {
        self.incarnation += 1;
        self.generation += 1;
        self.freeze = None;
        let last = self.segments.last_mut();
        if let Some(last) = last {
            let cut = (self.hidden * RECORD).min(last.bytes.len() as u64);
            let kept = last.bytes.len() as u64 - cut;
            last.bytes.truncate(usize::try_from(kept).unwrap());
            self.hidden -= cut / RECORD;
        }
        self.reachable = true;
    }

    pub(super) fn list(&self, check: &[Staged]) -> Listing {
        let extents = self.segments.iter().map(|segment| Extent {
            base: Offset(segment.base),
            end: Offset(segment.base + segment.bytes.len() as u64 / RECORD),
            bytes: ByteCount(segment.bytes.len() as u64),
            checksum: checksum(&segment.bytes),
            sealed: segment.sealed,
        });
        let agreed = check.iter().filter(|staged| {
            self.read(staged.base, 0, staged.bytes.0).is_ok_and(|bytes| {
                bytes.len() as u64 == staged.bytes.0 && checksum(&bytes) == staged.checksum
            })
        });
        Listing {
            incarnation: Incarnation(self.incarnation),
            generation: LogGeneration(self.generation),
            epoch: Epoch(self.epoch),
            start: Offset(self.start()),
            end: Offset(self.end()),
            hwm: Offset(self.hwm()),
            extents: extents.collect(),
            agreed: agreed.map(|staged| staged.base).collect(),
        }
    }

    pub(super) fn read(&self, base: Offset, position: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
        if self.damaged == Some(base.0) {
            return Err(Fault::Damaged { base, position });
        }
        let segment =
            self.segments.iter().find(|segment| segment.base == base.0).ok_or(Fault::ExtentGone)?;
        let whole = segment.bytes.len();
        let from = usize::try_from(position).unwrap().min(whole);
        let to = usize::try_from(position + bytes).unwrap().min(whole);
        Ok(segment.bytes[from..to].to_vec())
    }

    pub(super) fn prepare(
        &mut self,
        attempt: Attempt,
        now: Instant,
        ttl: core::time::Duration,
    ) -> Result<Capture, Fault> {
        if let Some(freeze) = &self.freeze {
            if freeze.attempt == attempt {
                return Ok(freeze.capture.clone());
            }
            return Err(Fault::Refused(Refusal::FrozenElsewhere));
        }
        self.freezes += 1;
        let no = FreezeNo { incarnation: Incarnation(self.incarnation), counter: self.freezes };
        let capture = Capture {
            token: Token { epoch: Epoch(self.epoch), no },
            listing: self.list(&[]),
            position: Position { committed: self.committed.map(Offset), acked_ahead: vec![] },
            digest: digest(
                self.segments.iter().map(|segment| (segment.base, segment.bytes.as_slice())),
            ),
        };
        self.freeze = Some(Freeze { attempt, capture: capture.clone(), until: now.after(ttl) });
        Ok(capture)
    }
}
