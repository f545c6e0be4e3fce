//! Checksums that are right, around content that is not.
//!
//! A checksum stops nearly everything that a fuzzer does to a file. What lies behind it must hold all
//! the same: a foreign writer, or an older version with a fault, makes right checksums too. So the
//! targets try their input twice, as it is and with its checksums mended.

/// Bytes of a segment's file header.
pub const FILE_HEADER: usize = 24;
/// Bytes of a frame's header in a segment.
pub const FRAME_HEADER: usize = 52;

/// Wraps a body as the small files beside a log are.
///
/// # Panics
///
/// If the body has 4 GiB or more.
pub fn side_file(magic: [u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("an input is short");
    let mut bytes = magic.to_vec();
    bytes.extend_from_slice(&1_u16.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Makes the bytes a segment with this base, as far as checksums can: its header becomes right, and
/// every frame whose length leads to the next one.
pub fn mend_segment(base: u64, bytes: &mut [u8]) {
    let Some((header, _)) = bytes.split_first_chunk_mut::<FILE_HEADER>() else { return };
    header[..8].copy_from_slice(b"NARADSEG");
    header[8..12].copy_from_slice(&[1, 0, 0, 0]);
    header[12..20].copy_from_slice(&base.to_le_bytes());
    let checksum = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());

    let mut at = FILE_HEADER;
    while let Some((header, rest)) =
        bytes.get_mut(at..).and_then(<[u8]>::split_first_chunk_mut::<FRAME_HEADER>)
    {
        let [a, b, c, d] = [header[8], header[9], header[10], header[11]];
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if let Some(payload) = rest.get(..length) {
            header[4..8].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        }
        let mut place = [0; 16];
        place[..8].copy_from_slice(&base.to_le_bytes());
        place[8..].copy_from_slice(&(at as u64).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&place), &header[4..]);
        header[..4].copy_from_slice(&checksum.to_le_bytes());
        let Some(next) = at.checked_add(FRAME_HEADER + length) else { return };
        at = next;
    }
}

/// Mends the checksum of every frame between nodes that the bytes hold whole.
pub fn mend_frames(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk_mut::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length < 6 || length > after.len() {
            return;
        }
        let (frame, next) = after.split_at_mut(length);
        let (covered, checksum) = frame.split_at_mut(length - 4);
        checksum.copy_from_slice(&crc32c::crc32c(covered).to_be_bytes());
        rest = next;
    }
}

/// Makes a segment of one frame that claims to hold so many records, with right checksums.
///
/// # Panics
///
/// If the payload has 4 GiB or more.
pub fn segment_of_one_frame(base: u64, count: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("an input is short");
    let mut header = [0; FRAME_HEADER];
    header[8..12].copy_from_slice(&length.to_le_bytes());
    // Data, and the first frame of its append.
    header[12..14].copy_from_slice(&[1, 1]);
    header[16..20].copy_from_slice(&count.to_le_bytes());
    header[20..28].copy_from_slice(&base.to_le_bytes());
    header[28..36].copy_from_slice(&base.to_le_bytes());
    header[36..44].copy_from_slice(&1_u64.to_le_bytes());
    let mut bytes = [&[0; FILE_HEADER][..], &header, payload].concat();
    mend_segment(base, &mut bytes);
    bytes
}
