//! Checks a segment's bytes as they stream by, in pieces of any size.
//!
//! The same check serves the recovery of a log, which feeds a file, and the staging of a copy, which
//! feeds what the network brings, so that nothing of the size of a partition is left to verify under
//! a freeze (`case_050`). It copies no payload and keeps one frame header at most.

use narad_core::ids::{Epoch, Offset};
use narad_core::partition::Checksum;

use super::frame::{FILE_HEADER, FRAME_HEADER, FrameHeader, check_file_header, file_header};
use super::index::SparseIndex;
use super::join::join;

/// Most places of damage that are remembered one by one.
const DAMAGE_MAX: usize = 64;

/// A place in a segment whose bytes are not what was once written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// Base offset of the segment.
    pub segment: Offset,
    /// First offset that may be unreadable.
    pub offset: Offset,
    /// Position of the first bad frame in the file.
    pub position: u64,
}

/// The state of one check.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    segment: Offset,
    fed: u64,
    /// Of all bytes that were fed, but for a long payload that is being read.
    checksum: u32,
    part: Part,
    /// Position of the header or frame that is being read.
    at: u64,
    /// Base that the next frame must have.
    next: Offset,
    hwm: Offset,
    epoch: Epoch,
    newest_ms: Option<i64>,
    last_append: u64,
    doubt: Option<Damage>,
    damage: Vec<Damage>,
    /// `None` if nobody will want it: a partition has many segments.
    index: Option<SparseIndex>,
}

#[derive(Clone, Debug)]
enum Part {
    FileHeader { bytes: [u8; FILE_HEADER], filled: usize },
    Header { bytes: [u8; FRAME_HEADER], filled: usize },
    Payload { header: FrameHeader, left: usize, checksum: u32 },
}

const NO_HEADER: Part = Part::Header { bytes: [0; FRAME_HEADER], filled: 0 };

impl Checker {
    /// Begins the check of the segment with this base offset.
    pub(crate) fn new(segment: Offset) -> Self {
        Self {
            segment,
            fed: 0,
            checksum: 0,
            part: Part::FileHeader { bytes: [0; FILE_HEADER], filled: 0 },
            at: 0,
            next: segment,
            hwm: Offset(0),
            epoch: Epoch(0),
            newest_ms: None,
            last_append: 0,
            doubt: None,
            damage: Vec::new(),
            index: Some(SparseIndex::default()),
        }
    }

    /// Goes on without an index, which takes most of a check's memory.
    #[must_use]
    pub(crate) fn without_index(mut self) -> Self {
        self.index = None;
        self
    }

    /// Returns the check of a segment without a frame.
    pub(crate) fn of_empty(segment: Offset) -> Self {
        let mut checker = Self::new(segment);
        checker.feed(&file_header(segment));
        checker
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.fed += bytes.len() as u64;
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match &mut self.part {
                Part::FileHeader { bytes, filled } => {
                    let rest = fill(bytes, filled, rest, &mut self.checksum);
                    if *filled == FILE_HEADER {
                        let bytes = *bytes;
                        self.take_file_header(&bytes);
                    }
                    rest
                }
                Part::Header { bytes, filled } => {
                    let rest = fill(bytes, filled, rest, &mut self.checksum);
                    if *filled == FRAME_HEADER {
                        let bytes = *bytes;
                        self.take_header(bytes);
                    }
                    rest
                }
                Part::Payload { header, left, checksum } => {
                    let (piece, rest) = rest.split_at((*left).min(rest.len()));
                    *checksum = crc32c::crc32c_append(*checksum, piece);
                    if !is_long(header) {
                        self.checksum = crc32c::crc32c_append(self.checksum, piece);
                    }
                    *left -= piece.len();
                    self.finish_payload();
                    rest
                }
            };
        }
    }

    /// Returns the base offset of the segment.
    pub(crate) fn segment(&self) -> Offset {
        self.segment
    }

    /// Returns how many bytes were fed.
    pub(crate) fn fed(&self) -> u64 {
        self.fed
    }

    /// Returns the checksum of all bytes that were fed.
    pub(crate) fn checksum(&self) -> Checksum {
        Checksum(match &self.part {
            Part::Payload { header, left, checksum } if is_long(header) => {
                let fed = header.payload_bytes as usize - left;
                join(self.checksum, *checksum, fed as u64)
            }
            Part::FileHeader { .. } | Part::Header { .. } | Part::Payload { .. } => self.checksum,
        })
    }

    /// Returns the offset after the last record.
    pub(crate) fn end(&self) -> Offset {
        self.next
    }

    /// Returns the highest high watermark that a frame carried.
    pub(crate) fn hwm(&self) -> Offset {
        self.hwm
    }

    /// Returns the epoch of the last frame.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the newest record's timestamp.
    pub(crate) fn newest_ms(&self) -> Option<i64> {
        self.newest_ms
    }

    /// Returns where the last append began; zero if there was none.
    pub(crate) fn last_append(&self) -> u64 {
        self.last_append
    }

    /// Returns the places that were damaged after they had been durable: a later append proves it.
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Returns the first place from which on nothing proves that the bytes were ever durable: a
    /// torn last append. `None` if the bytes end with a whole frame.
    pub(crate) fn torn(&self) -> Option<Damage> {
        let begun = match &self.part {
            Part::Header { filled, .. } => *filled > 0,
            Part::FileHeader { .. } | Part::Payload { .. } => true,
        };
        self.doubt.or_else(|| begun.then(|| self.here()))
    }

    /// Gives the index away, when the check is over.
    pub(crate) fn into_index(self) -> SparseIndex {
        self.index.unwrap_or_default()
    }

    fn take_file_header(&mut self, bytes: &[u8; FILE_HEADER]) {
        if check_file_header(self.segment, bytes).is_err() {
            self.doubt = Some(self.here());
        }
        self.at = FILE_HEADER as u64;
        self.part = NO_HEADER;
    }

    fn take_header(&mut self, mut bytes: [u8; FRAME_HEADER]) {
        let found = FrameHeader::decode(self.segment, self.at, &bytes).filter(|header| {
            // After damage the frames that it swallowed are missing, and only then.
            header.base == self.next || (self.doubt.is_some() && header.base > self.next)
        });
        let Some(header) = found else {
            self.doubt = self.doubt.or_else(|| Some(self.here()));
            bytes.rotate_left(1);
            self.at += 1;
            self.part = Part::Header { bytes, filled: FRAME_HEADER - 1 };
            return;
        };
        if header.begins_append {
            self.last_append = self.at;
            if let Some(proven) = self.doubt.take().filter(|_| self.damage.len() < DAMAGE_MAX) {
                self.damage.push(proven);
            }
        }
        self.hwm = self.hwm.max(header.hwm);
        self.epoch = self.epoch.max(header.epoch);
        self.newest_ms = self.newest_ms.max(header.newest_ms);
        if let Some(index) = &mut self.index {
            index.note(header.base, self.at);
        }
        self.next = header.base;
        self.part = Part::Payload { header, left: header.payload_bytes as usize, checksum: 0 };
        self.finish_payload();
    }

    fn finish_payload(&mut self) {
        let Part::Payload { header, left: 0, checksum } = &self.part else { return };
        if is_long(header) {
            self.checksum = join(self.checksum, *checksum, header.payload_bytes.into());
        }
        if *checksum != header.payload_checksum {
            self.doubt = self.doubt.or_else(|| Some(self.here()));
        }
        self.next = header.end();
        self.at += header.frame_bytes();
        self.part = NO_HEADER;
    }

    fn here(&self) -> Damage {
        Damage { segment: self.segment, offset: self.next, position: self.at }
    }
}

/// Whether a payload is checked once, and its checksum joined to the segment's, rather than twice:
/// joining takes about as long as going over so many bytes.
const fn is_long(header: &FrameHeader) -> bool {
    header.payload_bytes >= 32 << 10
}

/// Moves bytes into a buffer until it is full, counts them, and returns what is left of them.
fn fill<'a, const N: usize>(
    buf: &mut [u8; N],
    filled: &mut usize,
    bytes: &'a [u8],
    checksum: &mut u32,
) -> &'a [u8] {
    let (piece, rest) = bytes.split_at((N - *filled).min(bytes.len()));
    *checksum = crc32c::crc32c_append(*checksum, piece);
    buf[*filled..*filled + piece.len()].copy_from_slice(piece);
    *filled += piece.len();
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::frame::Kind;
    use proptest::prelude::*;

    const BASE: Offset = Offset(10);

    /// A segment of data frames of one record each; every second one begins an append.
    fn segment(payloads: &[u8]) -> Vec<u8> {
        segment_of(payloads.iter().map(|&length| vec![length; usize::from(length)]))
    }

    fn segment_of(payloads: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        let mut bytes = file_header(BASE).to_vec();
        for (at, payload) in payloads.enumerate() {
            let length = payload.len();
            let base = Offset(BASE.0 + at as u64);
            let header = FrameHeader {
                kind: Kind::Data,
                begins_append: at % 2 == 0,
                payload_bytes: u32::try_from(length).unwrap(),
                payload_checksum: crc32c::crc32c(&payload),
                count: 1,
                base,
                hwm: BASE,
                epoch: Epoch(3),
                newest_ms: Some(i64::try_from(length).unwrap()),
            };
            bytes.extend_from_slice(&header.encode(BASE, bytes.len() as u64));
            bytes.extend_from_slice(&payload);
        }
        bytes
    }

    fn check<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Checker {
        let mut checker = Checker::new(BASE);
        pieces.into_iter().for_each(|piece| checker.feed(piece));
        checker
    }

    type Findings = (u64, Checksum, Offset, Option<Damage>, Vec<Damage>, Option<i64>);

    fn findings(checker: &Checker) -> Findings {
        let damage = checker.damage().to_vec();
        let (fed, checksum) = (checker.fed(), checker.checksum());
        (fed, checksum, checker.end(), checker.torn(), damage, checker.newest_ms())
    }

    proptest! {
        #[test]
        fn the_size_of_pieces_does_not_matter(
            payloads in proptest::collection::vec(any::<u8>(), 0..6),
            damage in proptest::option::of((any::<prop::sample::Index>(), 1..=255_u8)),
            cut in 0..40_usize,
            piece in 1..90_usize,
        ) {
            let mut bytes = segment(&payloads);
            if let Some((at, mask)) = damage {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let whole = check([&bytes[..]]);
            let pieced = check(bytes.chunks(piece));
            prop_assert_eq!(findings(&whole), findings(&pieced));
        }

        /// Long payloads are gone over once; that shows nowhere.
        #[test]
        fn a_long_payload_is_checked_as_a_short_one(
            lengths in proptest::collection::vec(30_000..40_000_usize, 1..4),
            cut in 0..50_000_usize,
            piece in 1..20_000_usize,
            damage in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut bytes = segment_of(lengths.iter().map(|length| vec![7; *length]));
            if let Some(at) = damage {
                let at = at.index(bytes.len());
                bytes[at] ^= 1;
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let mut checker = Checker::new(BASE);
            let mut fed = 0;
            for piece in bytes.chunks(piece) {
                checker.feed(piece);
                fed += piece.len();
                prop_assert_eq!(checker.checksum(), Checksum(crc32c::crc32c(&bytes[..fed])));
            }
            prop_assert_eq!(findings(&checker), findings(&check([&bytes[..]])));
        }

        /// H16: what is left after the cut is whole, and nothing in front of a later append is cut.
        #[test]
        fn a_single_damage_is_torn_only_in_the_last_append(
            payloads in proptest::collection::vec(any::<u8>(), 1..7),
            at in any::<prop::sample::Index>(),
            mask in 1..=255_u8,
        ) {
            let good = segment(&payloads);
            let last = check([&good[..]]).last_append();
            let mut bytes = good.clone();
            let at = at.index(good.len());
            bytes[at] ^= mask;
            let checker = check([&bytes[..]]);
            if let Some(torn) = checker.torn() {
                prop_assert!(at as u64 >= last || last == FILE_HEADER as u64);
                let cut = usize::try_from(torn.position).unwrap();
                prop_assert!(cut == 0 || check([&bytes[..cut]]).torn().is_none());
            } else {
                prop_assert_eq!(checker.damage().len(), 1);
                prop_assert_eq!(checker.end().0, BASE.0 + payloads.len() as u64);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let checker = check([&bytes[..]]);
            prop_assert_eq!(checker.end(), BASE);
        }
    }
}
