//! A blocking connection that never blocks for ever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::CancelFlag;
use crate::tls::{Fault, Session, Subject};
use crate::wire::frame::{self, Decoder, Frame, FrameError, Kind};

/// A blocked read or write looks this often whether it was cancelled.
const SLICE: Duration = Duration::from_millis(50);

/// Why a read or a write did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// No byte moved for too long.
    #[error("no byte moved for too long")]
    TimedOut,
    /// The flag was raised.
    #[error("cancelled")]
    Cancelled,
    /// The peer ended the connection.
    #[error("the peer ended the connection")]
    Ended,
    /// The connection failed.
    #[error("{0}")]
    Io(io::Error),
    /// The other side's certificate, or this side's, is not good enough.
    #[error("{0}")]
    Tls(Fault),
    /// What came is no frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// What came is another frame than the one awaited.
    #[error("a {0:?} frame has no place here")]
    Unexpected(Kind),
}

/// A connection with a patience. Progress renews it; only silence ends it.
#[derive(Debug)]
pub(crate) struct Stream {
    inner: TcpStream,
    tls: Option<Box<Session>>,
    /// The protocol version of what is written.
    version: u8,
    stall: Duration,
    /// Where a copy puts what it reads; kept from one to the next, so that its memory is fetched once.
    pub(crate) buffer: Vec<u8>,
}

impl Stream {
    /// Takes a blocking connection, with what TLS there is on it; writes frames of that protocol
    /// version.
    pub(crate) fn new(
        inner: TcpStream,
        tls: Option<Box<Session>>,
        version: u8,
        stall: Duration,
    ) -> io::Result<Self> {
        inner.set_read_timeout(Some(SLICE))?;
        inner.set_write_timeout(Some(SLICE))?;
        Ok(Self { inner, tls, version, stall, buffer: Vec::new() })
    }

    /// Completes the TLS handshake, if there is to be any, and returns whom the other side's
    /// certificate names.
    pub(crate) fn secure(&mut self, cancel: &CancelFlag) -> Result<Option<Subject>, StreamError> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            self.patiently(cancel, |tls, stream| match tls {
                Some(tls) => tls.step(stream).map(|()| 0),
                None => Ok(0),
            })?;
        }
        match &self.tls {
            Some(tls) => tls.subject().map(Some).map_err(StreamError::Tls),
            None => Ok(None),
        }
    }

    /// Whether what is written is encrypted on its way.
    pub(crate) const fn is_secret(&self) -> bool {
        self.tls.is_some()
    }

    /// Goes on in the protocol version that was agreed upon.
    pub(crate) const fn set_version(&mut self, version: u8) {
        self.version = version;
    }

    /// Changes how long silence may last.
    pub(crate) const fn set_stall(&mut self, stall: Duration) {
        self.stall = stall;
    }

    /// Reads at least one byte.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        cancel: &CancelFlag,
    ) -> Result<usize, StreamError> {
        match self.patiently(cancel, |tls, stream| read(tls, stream, buffer))? {
            0 => Err(StreamError::Ended),
            read => Ok(read),
        }
    }

    /// Fills a buffer, so that few and even pieces are written from it, unless nothing comes for a
    /// moment; reads at least one byte.
    pub(crate) fn read_much(
        &mut self,
        buffer: &mut [u8],
        cancel: &CancelFlag,
    ) -> Result<usize, StreamError> {
        let mut filled = self.read(buffer, cancel)?;
        let begin = Instant::now();
        while filled < buffer.len() && !cancel.is_cancelled() && begin.elapsed() < 4 * SLICE {
            match read(self.tls.as_deref_mut(), &mut self.inner, &mut buffer[filled..]) {
                // The next read meets the end, or the error, again.
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Ok(filled)
    }

    /// Has the system send bytes of a file, and returns how many it took; zero at the file's end.
    pub(crate) fn send_file(
        &mut self,
        file: BorrowedFd<'_>,
        position: u64,
        bytes: usize,
        cancel: &CancelFlag,
    ) -> Result<usize, StreamError> {
        self.patiently(cancel, |_, stream| sendfile(stream, file, position, bytes))
    }

    /// Writes all bytes.
    pub(crate) fn write_all(
        &mut self,
        mut bytes: &[u8],
        cancel: &CancelFlag,
    ) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            let write = |tls: Option<&mut Session>, stream: &mut TcpStream| match tls {
                Some(tls) => tls.write(stream, bytes),
                None => stream.write(bytes),
            };
            match self.patiently(cancel, write)? {
                0 => return Err(StreamError::Ended),
                written => bytes = &bytes[written..],
            }
        }
        if self.is_secret() {
            self.patiently(cancel, |tls, stream| match tls {
                Some(tls) => tls.flush(stream).map(|()| 0),
                None => Ok(0),
            })?;
        }
        Ok(())
    }

    /// Writes one frame.
    pub(crate) fn write_frame(
        &mut self,
        kind: Kind,
        payload: &[u8],
        cancel: &CancelFlag,
    ) -> Result<(), StreamError> {
        self.write_all(&frame::encode(self.version, kind, payload)?, cancel)
    }

    /// Reads one frame and not a byte of what follows it. What `decoder` holds comes first.
    pub(crate) fn read_frame(
        &mut self,
        kind: Kind,
        decoder: &mut Decoder,
        cancel: &CancelFlag,
    ) -> Result<Frame, StreamError> {
        let mut buffer = [0; 4096];
        loop {
            match decoder.next_frame()? {
                Some(frame) if frame.kind == kind => return Ok(frame),
                Some(frame) => return Err(StreamError::Unexpected(frame.kind)),
                None => {}
            }
            let wanted = decoder.wanted().min(buffer.len());
            let read = self.read(&mut buffer[..wanted], cancel)?;
            decoder.push(&buffer[..read]);
        }
    }

    fn patiently(
        &mut self,
        cancel: &CancelFlag,
        mut try_once: impl FnMut(Option<&mut Session>, &mut TcpStream) -> io::Result<usize>,
    ) -> Result<usize, StreamError> {
        let begin = Instant::now();
        loop {
            if cancel.is_cancelled() {
                return Err(StreamError::Cancelled);
            }
            match try_once(self.tls.as_deref_mut(), &mut self.inner) {
                Ok(moved) => return Ok(moved),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        if begin.elapsed() >= self.stall {
                            return Err(StreamError::TimedOut);
                        }
                    }
                    _ => {
                        let fault = Fault::find(&error);
                        return Err(fault.map_or(StreamError::Io(error), StreamError::Tls));
                    }
                },
            }
        }
    }
}

fn read(tls: Option<&mut Session>, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match tls {
        Some(tls) => tls.read(stream, buffer),
        None => stream.read(buffer),
    }
}

#[cfg(target_os = "linux")]
fn sendfile(
    stream: &TcpStream,
    file: BorrowedFd<'_>,
    mut position: u64,
    bytes: usize,
) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(stream, file, Some(&mut position), bytes)?)
}

/// Others have it, too, each with a meaning of its own.
#[cfg(not(target_os = "linux"))]
fn sendfile(_: &TcpStream, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}
