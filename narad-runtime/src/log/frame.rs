//! The bytes of a segment: a file header, then frames.
//!
//! ```text
//! file header   magic 8 | version 2 | zero 2 | base offset 8 | checksum 4                    = 24
//! frame header  checksum 4 | payload checksum 4 | payload length 4 | kind 1 | flags 1 | zero 2
//!               | record count 4 | base offset 8 | high watermark 8 | epoch 8 | newest ms 8  = 52
//! payload       the records, one after another; empty in a control frame
//! ```
//!
//! A frame header's checksum covers the segment's base offset and the header's own position as
//! well, so that a block which a disk wrote or read at a wrong place is not taken for a frame, nor
//! bytes of a record that happen to look like one. A frame is found by its header alone: a damaged
//! payload costs its own records and no others (`case_048`).

use narad_core::ids::{Epoch, Offset};

use super::envelope::{COUNTER_MAX, FormatError};

/// Bytes of the file header.
pub(crate) const FILE_HEADER: usize = 24;
/// Bytes of a frame header.
pub(crate) const FRAME_HEADER: usize = 52;
/// Longest payload that any reader accepts, in bytes.
pub(crate) const PAYLOAD_MAX: usize = 16 << 20;
/// Highest version of the segment format that this binary reads, and the one that it writes.
pub(crate) const VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"NARADSEG";
const DATA: u8 = 1;
const CONTROL: u8 = 2;
const BEGINS_APPEND: u8 = 1;
/// Stands for "no record" in the place of a time.
const NEVER: i64 = i64::MIN;

/// Writes a segment's file header.
pub(crate) fn file_header(base: Offset) -> [u8; FILE_HEADER] {
    let mut bytes = [0; FILE_HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&base.0.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..20]);
    bytes[20..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Checks a segment's file header.
pub(crate) fn check_file_header(
    base: Offset,
    bytes: &[u8; FILE_HEADER],
) -> Result<(), FormatError> {
    if bytes[..8] != MAGIC {
        return Err(FormatError::Magic);
    }
    if crc32c::crc32c(&bytes[..20]).to_le_bytes() != bytes[20..] {
        return Err(FormatError::Checksum);
    }
    let found = u16::from_le_bytes([bytes[8], bytes[9]]);
    if found != VERSION {
        return Err(FormatError::Version { found, known: VERSION });
    }
    if bytes[12..20] != base.0.to_le_bytes() {
        return Err(FormatError::Value("the base offset"));
    }
    Ok(())
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records.
    Data,
    /// Nothing but its header: a high watermark and an epoch. Takes no offset.
    Control,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: Kind,
    /// Whether it is the first frame of one append. Such a frame proves that everything before it
    /// was durable, since an append begins only after the one before was synced.
    pub(crate) begins_append: bool,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_checksum: u32,
    pub(crate) count: u32,
    pub(crate) base: Offset,
    /// The high watermark known before this frame (H42).
    pub(crate) hwm: Offset,
    pub(crate) epoch: Epoch,
    /// The newest record's timestamp.
    pub(crate) newest_ms: Option<i64>,
}

impl FrameHeader {
    /// Returns the offset after the frame's last record.
    pub(crate) fn end(&self) -> Offset {
        // Decoding has checked that the base is far from the last number.
        Offset(self.base.0.saturating_add(u64::from(self.count)))
    }

    /// Returns the bytes of the whole frame.
    pub(crate) fn frame_bytes(&self) -> u64 {
        FRAME_HEADER as u64 + u64::from(self.payload_bytes)
    }

    /// Writes the header for one place in one segment.
    pub(crate) fn encode(&self, segment: Offset, position: u64) -> [u8; FRAME_HEADER] {
        let mut bytes = [0; FRAME_HEADER];
        bytes[4..8].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12] = match self.kind {
            Kind::Data => DATA,
            Kind::Control => CONTROL,
        };
        bytes[13] = if self.begins_append { BEGINS_APPEND } else { 0 };
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.hwm.0.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.newest_ms.unwrap_or(NEVER).to_le_bytes());
        let checksum = checksum(segment, position, &bytes);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header at one place of one segment, or returns `None` if no frame begins there.
    pub(crate) fn decode(
        segment: Offset,
        position: u64,
        bytes: &[u8; FRAME_HEADER],
    ) -> Option<Self> {
        let kind = match bytes[12] {
            DATA => Kind::Data,
            CONTROL => Kind::Control,
            _ => return None,
        };
        // The cheap checks come first: after damage, this is asked for every byte.
        if bytes[13] & !BEGINS_APPEND != 0 || bytes[14..16] != [0; 2] {
            return None;
        }
        let header = Self {
            kind,
            begins_append: bytes[13] == BEGINS_APPEND,
            payload_checksum: u32_at(bytes, 4),
            payload_bytes: u32_at(bytes, 8),
            count: u32_at(bytes, 16),
            base: Offset(u64_at(bytes, 20)),
            hwm: Offset(u64_at(bytes, 28)),
            epoch: Epoch(u64_at(bytes, 36)),
            newest_ms: Some(u64_at(bytes, 44).cast_signed()).filter(|&ms| ms != NEVER),
        };
        let fits = header.payload_bytes as usize <= PAYLOAD_MAX
            && match kind {
                Kind::Data => header.count > 0,
                Kind::Control => header.count == 0 && header.payload_bytes == 0,
            }
            && header.base.0 <= COUNTER_MAX
            && header.epoch.0 <= COUNTER_MAX
            && segment <= header.base
            && header.hwm <= header.base
            && u32_at(bytes, 0) == checksum(segment, position, bytes);
        fits.then_some(header)
    }
}

fn checksum(segment: Offset, position: u64, header: &[u8; FRAME_HEADER]) -> u32 {
    // In one piece: of so few bytes, each call costs more than the bytes do.
    let mut covered = [0; 16 + FRAME_HEADER - 4];
    covered[..8].copy_from_slice(&segment.0.to_le_bytes());
    covered[8..16].copy_from_slice(&position.to_le_bytes());
    covered[16..].copy_from_slice(&header[4..]);
    crc32c::crc32c(&covered)
}

fn u32_at(bytes: &[u8; FRAME_HEADER], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; FRAME_HEADER], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_header() -> impl Strategy<Value = FrameHeader> {
        (any::<bool>(), any::<bool>(), any::<u32>(), 0..1000_u64, 0..1000_u64, 0..=COUNTER_MAX)
            .prop_map(|(data, begins_append, payload_checksum, base, below, epoch)| FrameHeader {
                kind: if data { Kind::Data } else { Kind::Control },
                begins_append,
                payload_bytes: if data { 40 } else { 0 },
                payload_checksum,
                count: u32::from(data) * 2,
                base: Offset(5000 + base),
                hwm: Offset(5000 + base - below),
                epoch: Epoch(epoch),
                newest_ms: data.then_some(-7),
            })
    }

    proptest! {
        #[test]
        fn a_header_comes_back_only_at_its_own_place(
            header in any_header(),
            segment in 0..5000_u64,
            position in 0..1000_u64,
        ) {
            let segment = Offset(segment);
            let bytes = header.encode(segment, position);
            prop_assert_eq!(FrameHeader::decode(segment, position, &bytes), Some(header));
            prop_assert_eq!(FrameHeader::decode(segment, position + 1, &bytes), None);
            prop_assert_eq!(FrameHeader::decode(Offset(segment.0 + 1), position, &bytes), None);
        }

        #[test]
        fn a_damaged_header_is_no_header(
            header in any_header(),
            at in 0..FRAME_HEADER,
            mask in 1..=255_u8,
        ) {
            let mut bytes = header.encode(Offset(0), 24);
            bytes[at] ^= mask;
            prop_assert_eq!(FrameHeader::decode(Offset(0), 24, &bytes), None);
        }

        #[test]
        fn arbitrary_bytes_are_no_header(bytes in proptest::collection::vec(any::<u8>(), FRAME_HEADER)) {
            let bytes: [u8; FRAME_HEADER] = bytes.try_into().expect("that many");
            prop_assert_eq!(FrameHeader::decode(Offset(0), 24, &bytes), None);
        }
    }

    #[test]
    fn a_segment_of_a_newer_format_names_both_versions() {
        let mut bytes = file_header(Offset(3));
        assert_eq!(check_file_header(Offset(3), &bytes), Ok(()));
        assert_eq!(
            check_file_header(Offset(4), &bytes),
            Err(FormatError::Value("the base offset"))
        );
        bytes[8] = 2;
        let checksum = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&checksum.to_le_bytes());
        let newer = FormatError::Version { found: 2, known: 1 };
        assert_eq!(check_file_header(Offset(3), &bytes), Err(newer));
    }
}
