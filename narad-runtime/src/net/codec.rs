//! Frames on an asynchronous connection: the length by `LengthDelimitedCodec`, the rest by
//! [`frame`].

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;
use tokio_util::codec::{Decoder, Encoder, LengthDelimitedCodec};

use crate::wire::frame::{self, Frame, FrameError, HEAD_BYTES, Kind, LENGTH_BYTES, OVERHEAD_BYTES};

/// Why no further frame can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The frame has no place here.
    #[error("a {kind:?} frame has no place on this connection")]
    Unexpected {
        /// What it is.
        kind: Kind,
    },
    /// The peer ended the connection within a frame.
    #[error("the connection ended within a frame")]
    Torn,
}

/// Takes frames of the allowed kinds off a connection.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    lengths: LengthDelimitedCodec,
    within_frame: bool,
    allowed: &'static [Kind],
    /// Longest payload of the next frame, where that is less than its kind allows.
    payload_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads from a connection of which `buffer` has been read already.
    pub(crate) fn new(io: R, buffer: BytesMut, allowed: &'static [Kind]) -> Self {
        let lengths = LengthDelimitedCodec::new();
        let payload_bytes_max = usize::MAX;
        Self { io, buffer, lengths, within_frame: false, allowed, payload_bytes_max }
    }

    /// Returns the connection and what has been read of the next frame.
    pub(crate) fn into_parts(self) -> (R, BytesMut) {
        (self.io, self.buffer)
    }

    /// Returns the connection, to write to it between two frames.
    pub(crate) fn io(&mut self) -> &mut R {
        &mut self.io
    }

    /// Whether what has been read is no frame because it is a record of TLS.
    pub(crate) fn begins_with_tls(&self) -> bool {
        /// A handshake or an alert, of any version since 3.1 as it is called on the wire.
        const RECORDS: [[u8; 2]; 2] = [[0x16, 3], [0x15, 3]];
        RECORDS.iter().any(|record| self.buffer.starts_with(record))
    }

    /// Returns the next frame, or `None` at the end of the connection. May be dropped at any time
    /// without losing a byte.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            self.make_room();
            if self.io.read_buf(&mut self.buffer).await? == 0 {
                let whole = self.buffer.is_empty() && !self.within_frame;
                return if whole { Ok(None) } else { Err(ReadError::Torn) };
            }
        }
    }

    /// As [`FrameReader::next`], for a frame of which it is known how long its payload is: a longer
    /// one is refused before there is room for it.
    pub(crate) async fn next_of(&mut self, bytes: usize) -> Result<Option<Frame>, ReadError> {
        self.payload_bytes_max = bytes;
        let frame = self.next().await;
        self.payload_bytes_max = usize::MAX;
        frame
    }

    /// Lets the next frame pass without keeping it, whatever is in it; returns its kind.
    pub(crate) async fn skip(&mut self) -> Result<Kind, ReadError> {
        while self.buffer.len() < HEAD_BYTES {
            self.fill().await?;
        }
        let kind = self.head_kind(self.buffer[LENGTH_BYTES], self.buffer[LENGTH_BYTES + 1])?;
        let length = (&self.buffer[..LENGTH_BYTES]).get_u32() as usize;
        let max = kind.payload_bytes_max();
        if length > max + OVERHEAD_BYTES {
            return Err(FrameError::TooLong { kind, bytes: length, max }.into());
        }
        let mut left = LENGTH_BYTES + length;
        loop {
            let passed = left.min(self.buffer.len());
            self.buffer.advance(passed);
            left -= passed;
            if left == 0 {
                return Ok(kind);
            }
            self.fill().await?;
        }
    }

    /// Leaves room for some small frames, or one would be read in pieces of what happens to be
    /// left over.
    fn make_room(&mut self) {
        const READ_BYTES_MIN: usize = 4096;
        if self.buffer.capacity() - self.buffer.len() < READ_BYTES_MIN {
            self.buffer.reserve(READ_BYTES_MIN);
        }
    }

    async fn fill(&mut self) -> Result<(), ReadError> {
        self.make_room();
        if self.io.read_buf(&mut self.buffer).await? == 0 { Err(ReadError::Torn) } else { Ok(()) }
    }

    fn head_kind(&self, version: u8, code: u8) -> Result<Kind, ReadError> {
        let kind = frame::check_head(version, code)?;
        if self.allowed.contains(&kind) { Ok(kind) } else { Err(ReadError::Unexpected { kind }) }
    }

    /// As [`FrameReader::next`], but fails if not one byte comes for as long as `stall`.
    pub(crate) async fn next_moving(
        &mut self,
        stall: Duration,
    ) -> Result<Option<Frame>, ReadError> {
        loop {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            let read = timeout(stall, self.io.read_buf(&mut self.buffer));
            if read.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? == 0 {
                return Err(ReadError::Torn);
            }
        }
    }

    fn decode(&mut self) -> Result<Option<Frame>, ReadError> {
        if !self.within_frame {
            let Some(head) = self.buffer.get(..HEAD_BYTES) else { return Ok(None) };
            // The limit depends on the kind, and must stand before the length is acted upon: the
            // codec reserves memory for a whole frame as soon as it knows its length (case C59).
            let kind = self.head_kind(head[LENGTH_BYTES], head[LENGTH_BYTES + 1])?;
            let payload_bytes_max = kind.payload_bytes_max().min(self.payload_bytes_max);
            self.lengths.set_max_frame_length(payload_bytes_max + OVERHEAD_BYTES);
        }
        let body = self.lengths.decode(&mut self.buffer)?;
        self.within_frame = body.is_none();
        Ok(body.map(|body| frame::decode_body(body.freeze())).transpose()?)
    }
}

/// Appends a frame to what will be written.
pub(crate) fn put_frame(
    version: u8,
    kind: Kind,
    payload: &[u8],
    out: &mut BytesMut,
) -> Result<(), FrameError> {
    let body = frame::encode_body(version, kind, payload)?;
    LengthDelimitedCodec::builder()
        .max_frame_length(kind.payload_bytes_max() + OVERHEAD_BYTES)
        .new_codec()
        .encode(body, out)
        .expect("the body is within the limit of its kind");
    Ok(())
}
