//! The source's end: one thread per bulk connection.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::head::CopyHead;
use super::stream::{Stream, StreamError};
use super::{
    BUFFER_BYTES, CancelFlag, CopyRequest, ExtentFile, Settings, Source, SourceError, Throttle,
};
use crate::disk::DiskFile;
use crate::net::{Bulk, BulkConnection, lock, socket};
use crate::wire::frame::{Decoder, Kind};
use crate::wire::{DecodeError, Wire};

/// Bytes that the system is told to send at once. It takes them in small steps anyway; this only says
/// how often it is looked whether the server stops.
const SEND_BYTES: usize = 1 << 20;

/// Shortest range whose memory is given up again; of a shorter one nothing is known.
const COLD_BYTES_MIN: u64 = 1 << 20;

/// Serves ranges of this node's partitions. Give it to the transport as its bulk seam.
pub struct Server {
    shared: Arc<Shared>,
}

struct Shared {
    source: Arc<dyn Source>,
    throttle: Arc<Throttle>,
    settings: Settings,
    stop: CancelFlag,
    open: Mutex<Open>,
    closed: Condvar,
}

/// The connections that are being served, so that they can be ended.
#[derive(Default)]
struct Open {
    next: u64,
    streams: HashMap<u64, TcpStream>,
}

impl Server {
    /// Makes a server over a source. The throttle is the node's own.
    pub fn new(source: Arc<dyn Source>, throttle: Arc<Throttle>, settings: Settings) -> Self {
        let shared = Shared {
            source,
            throttle,
            settings,
            stop: CancelFlag::default(),
            open: Mutex::default(),
            closed: Condvar::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns how many connections are being served.
    pub fn connections(&self) -> usize {
        lock(&self.shared.open).streams.len()
    }

    /// Ends all connections, and waits until their threads have ended. A read that hangs in the
    /// source is waited for.
    pub fn stop(&self) {
        self.end();
        let mut open = lock(&self.shared.open);
        while !open.streams.is_empty() {
            open = self.shared.closed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        self.shared.stop.cancel();
        for stream in lock(&self.shared.open).streams.values() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("connections", &self.connections()).finish_non_exhaustive()
    }
}

impl Bulk for Server {
    fn has_room(&self) -> bool {
        !self.shared.stop.is_cancelled()
            && self.connections() < self.shared.settings.connections_max
    }

    fn serve(&self, connection: BulkConnection) {
        let shared = Arc::clone(&self.shared);
        let from = connection.from;
        let Some(id) = shared.enter(&connection.stream) else { return };
        let thread = std::thread::Builder::new().name("narad-bulk".to_owned());
        let spawned = thread.spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _leave = Leave { shared: &shared, id };
                match serve(&shared, connection) {
                    Err(reason) if !shared.stop.is_cancelled() => {
                        tracing::warn!(?from, %reason, "closed a bulk connection");
                    }
                    Ok(()) | Err(_) => tracing::debug!(?from, "a bulk connection ended"),
                }
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(?from, %error, "no thread for a bulk connection, closed it");
            shared.leave(id);
        }
    }
}

impl Shared {
    fn enter(&self, stream: &TcpStream) -> Option<u64> {
        let mut open = lock(&self.open);
        // The room was checked before the handshake ended; others may have come in since.
        if self.stop.is_cancelled() || open.streams.len() >= self.settings.connections_max {
            return None;
        }
        let handle = stream.try_clone().ok()?;
        open.next += 1;
        let id = open.next;
        open.streams.insert(id, handle);
        Some(id)
    }

    fn leave(&self, id: u64) {
        lock(&self.open).streams.remove(&id);
        self.closed.notify_all();
    }
}

/// Notes the end of a connection, even if its source panics.
struct Leave<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.shared.leave(self.id);
    }
}

/// Why a connection was closed from this side.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("the source failed within an answer: {0}")]
    Source(#[from] SourceError),
}

fn serve(shared: &Shared, connection: BulkConnection) -> Result<(), Closed> {
    let BulkConnection { from: _, version, stream, tls, first } = connection;
    let idle = shared.settings.idle_timeout;
    // The transport's patience, which the connection has so far, is too short for a stalled disk.
    socket::tune(&stream, shared.settings.stall_timeout).map_err(StreamError::Io)?;
    let mut stream = Stream::new(stream, tls, version, idle).map_err(StreamError::Io)?;
    let mut decoder = Decoder::default();
    decoder.push(&first);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        stream.set_stall(idle);
        let frame = match stream.read_frame(Kind::CopyRequest, &mut decoder, &shared.stop) {
            Ok(frame) => frame,
            // Between two requests, these are how connections end.
            Err(StreamError::Ended | StreamError::TimedOut | StreamError::Cancelled) => {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        stream.set_stall(shared.settings.stall_timeout);
        answer(shared, &mut stream, &CopyRequest::from_bytes(&frame.payload)?, &mut buffer)?;
    }
}

fn answer(
    shared: &Shared,
    stream: &mut Stream,
    request: &CopyRequest,
    buffer: &mut [u8],
) -> Result<(), Closed> {
    let total = request.bytes.min(shared.settings.range_bytes_max);
    match Stretch::open(&*shared.source, request, total) {
        Ok(Some(stretch)) => return answer_from(&stretch, shared, stream, request, buffer),
        Ok(None) => {}
        Err(error) => return send_head(shared, stream, CopyHead(Err(error))),
    }
    let (read, total) = match begin(shared, request, total, buffer) {
        Ok(begun) => begun,
        Err(error) => return send_head(shared, stream, CopyHead(Err(error))),
    };
    send_head(shared, stream, CopyHead(Ok(total)))?;
    send_piece(shared, stream, &buffer[..read])?;
    send_read(shared, stream, request, read as u64..total, buffer)
}

/// Has the system send a range of a file; what it will not send is read.
fn answer_from(
    stretch: &Stretch,
    shared: &Shared,
    stream: &mut Stream,
    request: &CopyRequest,
    buffer: &mut [u8],
) -> Result<(), Closed> {
    send_head(shared, stream, CopyHead(Ok(stretch.bytes)))?;
    let sent = send_file(stretch, shared, stream)?;
    send_read(shared, stream, request, sent..stretch.bytes, buffer)?;
    stretch.leave();
    Ok(())
}

/// Sends as much of a file as the system will; that is all of it, unless it cannot send it at all.
fn send_file(stretch: &Stretch, shared: &Shared, stream: &mut Stream) -> Result<u64, Closed> {
    // What the system sends, it sends as it is.
    let Some(descriptor) = stretch.file.descriptor().filter(|_| !stream.is_secret()) else {
        return Ok(0);
    };
    let mut sent = 0;
    while sent < stretch.bytes {
        let left = saturated(stretch.bytes - sent);
        let mut piece = shared.throttle.piece(SEND_BYTES).min(left);
        pause(shared, piece)?;
        while piece > 0 {
            match stream.send_file(descriptor, stretch.position + sent, piece, &shared.stop) {
                // The extent was cut after its bytes had been promised.
                Ok(0) => return Err(SourceError::OutOfRange.into()),
                Ok(moved) => {
                    sent += moved as u64;
                    piece -= moved;
                }
                Err(StreamError::Io(error)) if sent == 0 && is_unsupported(&error) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(sent)
}

/// Reads and sends a range, counted from the first byte that was asked for.
fn send_read(
    shared: &Shared,
    stream: &mut Stream,
    request: &CopyRequest,
    Range { start: mut sent, end: total }: Range<u64>,
    buffer: &mut [u8],
) -> Result<(), Closed> {
    while sent < total {
        let read = read_piece(shared, request, sent, total - sent, buffer)?;
        if read == 0 {
            // The extent was cut after its bytes had been promised: the head cannot be taken back.
            return Err(SourceError::OutOfRange.into());
        }
        send_piece(shared, stream, &buffer[..read])?;
        sent += read as u64;
    }
    Ok(())
}

fn send_piece(shared: &Shared, stream: &mut Stream, piece: &[u8]) -> Result<(), Closed> {
    pause(shared, piece.len())?;
    Ok(stream.write_all(piece, &shared.stop)?)
}

/// Waits for the throttle. A wait is cancelled when the server stops; the connection goes with it.
fn pause(shared: &Shared, bytes: usize) -> Result<(), Closed> {
    let waited = shared.throttle.acquire(bytes as u64, &shared.stop);
    waited.map_err(|_| StreamError::Cancelled)?;
    Ok(())
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// A range of a file that the system can send.
struct Stretch {
    file: Arc<dyn DiskFile>,
    position: u64,
    /// How many bytes may be sent.
    bytes: u64,
    /// Whether nobody has used the range lately, so that only this copy brings it into memory.
    is_cold: bool,
}

impl Stretch {
    /// Opens the file behind a request, and makes sure that its bytes are there.
    fn open(
        source: &dyn Source,
        request: &CopyRequest,
        total: u64,
    ) -> Result<Option<Self>, SourceError> {
        let CopyRequest { partition, base, position, .. } = *request;
        if total == 0 {
            return Ok(None);
        }
        let Some(ExtentFile { file, durable_bytes }) = source.open(partition, base, position)?
        else {
            return Ok(None);
        };
        let bytes = total.min(durable_bytes.saturating_sub(position));
        if bytes == 0 {
            return Err(SourceError::OutOfRange);
        }
        // What is close behind the last request was fetched with it, so the beginning says nothing.
        let is_cold = bytes >= COLD_BYTES_MIN
            && !file.is_cached(position + bytes / 2)
            && !file.is_cached(position + bytes - 1);
        for at in [position, position + bytes - 1] {
            match file.read_at(at, &mut [0]) {
                Ok(1) => {}
                Ok(_) => return Err(SourceError::OutOfRange),
                Err(error) => {
                    tracing::error!(%partition, %base, %error, "cannot read for a copy");
                    return Err(SourceError::Disk);
                }
            }
        }
        Ok(Some(Self { file, position, bytes, is_cold }))
    }

    /// Leaves the memory to those who used it before: what only this copy has brought in goes.
    fn leave(&self) {
        if self.is_cold {
            self.file.evict(self.position, self.bytes);
        }
    }
}

/// Reads the first piece and finds out how much can be promised: all, if the last byte that is
/// asked for can be read; otherwise that piece, which is short only at the extent's end.
fn begin(
    shared: &Shared,
    request: &CopyRequest,
    total: u64,
    buffer: &mut [u8],
) -> Result<(usize, u64), SourceError> {
    if total == 0 {
        return Ok((0, 0));
    }
    let piece = shared.throttle.piece(buffer.len()).min(saturated(total));
    let read = read_piece(shared, request, 0, total, &mut buffer[..piece])?;
    if read == 0 {
        return Err(SourceError::OutOfRange);
    }
    let bytes = read as u64;
    let whole = bytes == total
        || read == piece && matches!(read_piece(shared, request, total - 1, 1, &mut [0]), Ok(1));
    Ok((read, if whole { total } else { bytes }))
}

fn read_piece(
    shared: &Shared,
    request: &CopyRequest,
    done: u64,
    left: u64,
    buffer: &mut [u8],
) -> Result<usize, SourceError> {
    let piece = shared.throttle.piece(buffer.len()).min(saturated(left));
    let position = request.position.checked_add(done).ok_or(SourceError::OutOfRange)?;
    let read =
        shared.source.read_at(request.partition, request.base, position, &mut buffer[..piece])?;
    assert!(read <= piece, "a source reads no more than its buffer holds");
    Ok(read)
}

fn send_head(shared: &Shared, stream: &mut Stream, head: CopyHead) -> Result<(), Closed> {
    Ok(stream.write_frame(Kind::CopyHead, &head.to_bytes(), &shared.stop)?)
}

fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
