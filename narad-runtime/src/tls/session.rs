//! TLS over a blocking connection, for copies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};

use super::certificate::Subject;
use super::fault::{Fault, subject_of};

/// Bytes that are taken from the system at once. The TLS library takes a record in four pieces, each of
/// which would be a call to the system.
const AHEAD_BYTES: usize = 256 << 10;

/// Bytes that may wait to be sent. More would only be copied more often.
const UNSENT_BYTES: usize = 512 << 10;

/// The state of TLS on one connection.
pub struct Session {
    connection: Connection,
    ahead: Ahead,
}

impl Session {
    /// Most memory that one takes, in bytes, but for a few records.
    pub(crate) const BYTES_MAX: u64 = (AHEAD_BYTES + UNSENT_BYTES) as u64;

    /// Begins as the side that dials.
    pub(super) fn dial(
        config: Arc<ClientConfig>,
        host: ServerName<'static>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self::over(ClientConnection::new(config, host)?.into()))
    }

    /// Goes on with a connection whose handshake is over.
    pub(crate) fn over(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(UNSENT_BYTES));
        Self { connection, ahead: Ahead::default() }
    }

    /// Returns what the other side's certificate says; only after the handshake.
    pub(crate) fn subject(&self) -> Result<Subject, Fault> {
        subject_of(self.connection.peer_certificates())
    }

    /// Whether the handshake goes on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Does one step of the handshake; an error that passes leaves everything as it was.
    pub(crate) fn step(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        self.flush(stream)?;
        if self.connection.is_handshaking() && self.fill(stream)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // What it says about the step that failed is for the other side, too.
        self.flush(stream)
    }

    /// Reads some bytes; zero at the end.
    pub(crate) fn read(&mut self, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if self.fill(stream)? == 0 {
                return Ok(0);
            }
        }
    }

    /// Takes some bytes; they may wait to be sent, see [`flush`](Self::flush).
    pub(crate) fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.flush(stream)?;
        let taken = self.connection.writer().write(bytes)?;
        match self.flush(stream) {
            Err(error) if !is_passing(&error) => Err(error),
            Ok(()) | Err(_) => Ok(taken),
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(stream)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Takes what has come; zero at the end.
    fn fill(&mut self, stream: &mut TcpStream) -> io::Result<usize> {
        let came = self.connection.read_tls(&mut self.ahead.of(stream))?;
        if let Err(error) = self.connection.process_new_packets() {
            // The other side is told why, if it still listens.
            let _ = self.flush(stream);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(came)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// Whether the same call may succeed in a moment.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// What was taken from the system and not yet by the TLS library.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
}

impl Ahead {
    fn of<'a>(&'a mut self, stream: &'a mut TcpStream) -> Through<'a> {
        Through { ahead: self, stream }
    }
}

struct Through<'a> {
    ahead: &'a mut Ahead,
    stream: &'a mut TcpStream,
}

impl Read for Through<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Ahead { bytes, from, to } = self.ahead;
        if from == to {
            bytes.resize(AHEAD_BYTES, 0);
            (*from, *to) = (0, self.stream.read(bytes)?);
        }
        let taken = buffer.len().min(*to - *from);
        buffer[..taken].copy_from_slice(&bytes[*from..*from + taken]);
        *from += taken;
        Ok(taken)
    }
}
