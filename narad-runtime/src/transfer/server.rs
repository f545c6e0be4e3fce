//! The source's end: one thread per bulk connection.

use std::collections::HashMap;
use std::fmt;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::head::CopyHead;
use super::stream::{Stream, StreamError};
use super::{BUFFER_BYTES, CancelFlag, CopyRequest, Settings, Source, SourceError, Throttle};
use crate::net::{Bulk, BulkConnection, lock, socket};
use crate::wire::frame::{Decoder, Kind};
use crate::wire::{DecodeError, Wire};

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
    let BulkConnection { from: _, version, stream, first } = connection;
    let idle = shared.settings.idle_timeout;
    // The transport's patience, which the connection has so far, is too short for a stalled disk.
    socket::tune(&stream, shared.settings.stall_timeout).map_err(StreamError::Io)?;
    let mut stream = Stream::new(stream, version, idle).map_err(StreamError::Io)?;
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
    let (mut read, total) = match begin(shared, request, total, buffer) {
        Ok(begun) => begun,
        Err(error) => return send_head(shared, stream, CopyHead(Err(error))),
    };
    send_head(shared, stream, CopyHead(Ok(total)))?;
    let mut sent = 0;
    loop {
        // A cancelled wait means that the server stops; the connection goes with it.
        let bytes = read as u64;
        shared.throttle.acquire(bytes, &shared.stop).map_err(|_| StreamError::Cancelled)?;
        stream.write_all(&buffer[..read], &shared.stop)?;
        sent += bytes;
        if sent == total {
            return Ok(());
        }
        read = read_piece(shared, request, sent, total - sent, buffer)?;
        if read == 0 {
            // The extent was cut after its bytes had been promised: the head cannot be taken back.
            return Err(SourceError::OutOfRange.into());
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
