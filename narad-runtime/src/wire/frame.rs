//! Frames: what stands between two nodes is `u32 length | u8 version | u8 kind | payload | u32 crc`.
//!
//! Numbers are big-endian. The length counts everything after itself; the checksum is the CRC-32C
//! of version, kind and payload. How long a frame may be depends on its kind and is known from its
//! first six bytes, so that no peer can make a node reserve memory by announcing much (case C59).
//!
//! # Examples
//!
//! Bytes may arrive in any pieces:
//!
//! ```
//! use narad_runtime::wire::frame::{self, Decoder, Kind};
//!
//! let bytes = frame::encode(1, Kind::Request, b"hello")?;
//! let mut decoder = Decoder::default();
//! decoder.push(&bytes[..3]);
//! assert_eq!(decoder.next_frame()?, None);
//! decoder.push(&bytes[3..]);
//! let frame = decoder.next_frame()?.expect("it is whole now");
//! assert_eq!((frame.kind, &frame.payload[..]), (Kind::Request, &b"hello"[..]));
//! # Ok::<(), narad_runtime::wire::frame::FrameError>(())
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::handshake::{VERSION_MAX, VERSION_MIN};

/// Bytes of the length field.
pub const LENGTH_BYTES: usize = 4;
/// Bytes that say how long a frame may be: length, version, kind.
pub const HEAD_BYTES: usize = LENGTH_BYTES + 2;
/// Bytes that a frame's length counts beside the payload: version, kind, checksum.
pub const OVERHEAD_BYTES: usize = 2 + 4;

/// Longest payload of a request or an answer: 4 MiB.
pub const CONTROL_BYTES_MAX: usize = 4 << 20;
/// Longest payload of a Raft message or a snapshot: 64 MiB.
pub const RAFT_BYTES_MAX: usize = 64 << 20;
/// Longest payload of a batch of records: 64 MiB.
pub const RECORDS_BYTES_MAX: usize = 64 << 20;
/// Longest payload of a handshake or of the head of something: 4 KiB, since it may come from anybody.
pub const HANDSHAKE_BYTES_MAX: usize = 4 << 10;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A handshake, by the dialer.
    Hello = 1,
    /// Its answer.
    Welcome = 2,
    /// One Raft message.
    Raft = 3,
    /// One Raft message that carries a snapshot.
    Snapshot = 4,
    /// The receiver has handed the snapshot on.
    SnapshotTaken = 5,
    /// A request with its number.
    Request = 6,
    /// An answer with its request's number.
    Answer = 7,
    /// The head of a bulk copy's request.
    CopyRequest = 8,
    /// The head of a bulk copy's answer; raw bytes follow.
    CopyHead = 9,
    /// The head of a batch of accepted records; their bytes are in the next frame.
    Deliver = 10,
    /// The bytes of a batch.
    Records = 11,
    /// What came of a batch.
    Delivered = 12,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Hello,
        Self::Welcome,
        Self::Raft,
        Self::Snapshot,
        Self::SnapshotTaken,
        Self::Request,
        Self::Answer,
        Self::CopyRequest,
        Self::CopyHead,
        Self::Deliver,
        Self::Records,
        Self::Delivered,
    ];

    /// Returns the longest payload, in bytes.
    pub const fn payload_bytes_max(self) -> usize {
        match self {
            Self::Raft | Self::Snapshot => RAFT_BYTES_MAX,
            Self::Records => RECORDS_BYTES_MAX,
            Self::Request | Self::Answer => CONTROL_BYTES_MAX,
            Self::Hello
            | Self::Welcome
            | Self::SnapshotTaken
            | Self::CopyRequest
            | Self::CopyHead
            | Self::Deliver
            | Self::Delivered => HANDSHAKE_BYTES_MAX,
        }
    }

    fn from_code(code: u8) -> Result<Self, FrameError> {
        Self::ALL
            .into_iter()
            .find(|&kind| kind as u8 == code)
            .ok_or(FrameError::UnknownKind { found: code })
    }
}

/// One frame, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: Kind,
    /// The payload.
    pub payload: Bytes,
}

/// Why bytes are no frame. The connection that they came from must be closed: where the next frame
/// would begin is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The payload is longer than its kind allows.
    #[error("a {kind:?} frame of {bytes} bytes is longer than {max} allowed: split the content")]
    TooLong {
        /// The kind.
        kind: Kind,
        /// The payload's length.
        bytes: usize,
        /// The longest allowed.
        max: usize,
    },
    /// The length does not even cover version, kind and checksum.
    #[error("a frame of {bytes} bytes is too short to be one: the peer does not speak Narad")]
    TooShort {
        /// The announced length.
        bytes: usize,
    },
    /// The version is none that this build speaks.
    #[error("a frame of protocol version {found}, which this build does not speak")]
    UnknownVersion {
        /// The version.
        found: u8,
    },
    /// The kind is none that this build knows.
    #[error("a frame of kind {found}, which this build does not know")]
    UnknownKind {
        /// The kind.
        found: u8,
    },
    /// The bytes were damaged on their way.
    #[error("a {kind:?} frame is damaged: its checksum is {found:08x}, not {stated:08x}")]
    Damaged {
        /// The kind.
        kind: Kind,
        /// The checksum of the bytes.
        found: u32,
        /// The checksum that the frame states.
        stated: u32,
    },
}

/// Encodes a frame of a protocol version, with its length.
///
/// # Errors
///
/// [`FrameError::TooLong`] if the payload is longer than its kind allows.
pub fn encode(version: u8, kind: Kind, payload: &[u8]) -> Result<Bytes, FrameError> {
    let mut out = BytesMut::with_capacity(LENGTH_BYTES + OVERHEAD_BYTES + payload.len());
    out.put_u32(0);
    put_body(version, kind, payload, &mut out)?;
    let bytes = out.len() - LENGTH_BYTES;
    let length = u32::try_from(bytes).map_err(|_| FrameError::TooLong {
        kind,
        bytes,
        max: kind.payload_bytes_max(),
    })?;
    out[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(out.freeze())
}

/// Encodes a frame of a protocol version without its length, for a codec that adds that.
///
/// # Errors
///
/// [`FrameError::TooLong`] if the payload is longer than its kind allows.
pub fn encode_body(version: u8, kind: Kind, payload: &[u8]) -> Result<Bytes, FrameError> {
    let mut out = BytesMut::with_capacity(OVERHEAD_BYTES + payload.len());
    put_body(version, kind, payload, &mut out)?;
    Ok(out.freeze())
}

fn put_body(version: u8, kind: Kind, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
    check_length(kind, payload.len())?;
    let begin = out.len();
    out.put_u8(version);
    out.put_u8(kind as u8);
    out.put_slice(payload);
    let crc = crc32c::crc32c(&out[begin..]);
    out.put_u32(crc);
    Ok(())
}

/// Checks a frame without its length and takes the payload out of it.
///
/// # Errors
///
/// Any [`FrameError`].
pub fn decode_body(mut body: Bytes) -> Result<Frame, FrameError> {
    let payload_bytes = payload_bytes(body.len())?;
    let kind = check_head(body[0], body[1])?;
    check_length(kind, payload_bytes)?;
    let stated = (&body[2 + payload_bytes..]).get_u32();
    let found = crc32c::crc32c(&body[..2 + payload_bytes]);
    if found != stated {
        return Err(FrameError::Damaged { kind, found, stated });
    }
    body.advance(2);
    body.truncate(payload_bytes);
    Ok(Frame { kind, payload: body })
}

/// Checks the first bytes of a frame and returns the kind.
pub(crate) fn check_head(version: u8, code: u8) -> Result<Kind, FrameError> {
    if !(VERSION_MIN..=VERSION_MAX).contains(&version) {
        return Err(FrameError::UnknownVersion { found: version });
    }
    Kind::from_code(code)
}

fn check_length(kind: Kind, bytes: usize) -> Result<(), FrameError> {
    let max = kind.payload_bytes_max();
    if bytes > max { Err(FrameError::TooLong { kind, bytes, max }) } else { Ok(()) }
}

fn payload_bytes(length: usize) -> Result<usize, FrameError> {
    length.checked_sub(OVERHEAD_BYTES).ok_or(FrameError::TooShort { bytes: length })
}

/// Takes frames out of bytes as they arrive.
///
/// It holds at most what was pushed, and says how much it wants next, so that a reader never takes
/// a byte that does not belong to the frame. After an error it stays in error.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    failed: Option<FrameError>,
}

impl Decoder {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns how many more bytes complete the head, or the frame if the head is there.
    ///
    /// Zero if a frame can be taken, or if the decoder has failed.
    pub fn wanted(&self) -> usize {
        if self.failed.is_some() {
            return 0;
        }
        match self.length() {
            Some(length) => (LENGTH_BYTES + length).saturating_sub(self.buffer.len()),
            None => HEAD_BYTES - self.buffer.len(),
        }
    }

    /// Takes the next frame, if it is whole.
    ///
    /// # Errors
    ///
    /// Any [`FrameError`], as soon as the head shows it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.take().inspect_err(|&error| self.failed = Some(error))
    }

    fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.length() else { return Ok(None) };
        let kind = check_head(self.buffer[LENGTH_BYTES], self.buffer[LENGTH_BYTES + 1])?;
        check_length(kind, payload_bytes(length)?)?;
        if self.buffer.len() < LENGTH_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH_BYTES);
        decode_body(self.buffer.split_to(length).freeze()).map(Some)
    }

    /// The announced length, once the head is there.
    fn length(&self) -> Option<usize> {
        let head = self.buffer.get(..HEAD_BYTES)?;
        Some((&head[..LENGTH_BYTES]).get_u32() as usize)
    }
}
