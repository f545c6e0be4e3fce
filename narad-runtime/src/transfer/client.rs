//! The destination's end: called on a thread that may block.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use narad_core::ids::{Name, NodeId};

use super::head::CopyHead;
use super::pool::{Lease, Pool};
use super::stream::{Stream, StreamError};
use super::{
    BUFFER_BYTES, CancelFlag, Copier, CopyReport, CopyRequest, Settings, Sink, Throttle,
    TransferError,
};
use crate::net::{Directory, Identity, socket};
use crate::tls::{Fault, Subject, Tls, What};
use crate::wire::Wire;
use crate::wire::frame::{Decoder, Kind};
use crate::wire::handshake::{HANDSHAKE_VERSION, Purpose, Welcome};

/// A dial looks this often whether it was cancelled.
const SLICE: Duration = Duration::from_millis(50);

/// Copies ranges from other nodes. One per node; its copies share the throttle.
pub struct Client {
    identity: Identity,
    directory: Arc<dyn Directory>,
    throttle: Arc<Throttle>,
    settings: Settings,
    pool: Pool,
}

impl Client {
    /// Makes a client. The throttle is the node's own, and not the one of its [`Server`], unless
    /// what it reads and what it writes are to count together.
    ///
    /// [`Server`]: super::Server
    pub fn new(
        identity: Identity,
        directory: Arc<dyn Directory>,
        throttle: Arc<Throttle>,
        settings: Settings,
    ) -> Self {
        // A source gives an idle connection up; to be first saves a failed try.
        let pool = Pool::new(settings.connections_per_source, settings.idle_timeout / 2);
        Self { identity, directory, throttle, settings, pool }
    }

    /// Copies one range into a sink. Blocks.
    ///
    /// # Errors
    ///
    /// Any [`TransferError`]; [`TransferError::received`] tells where to go on.
    pub fn copy(
        &self,
        from: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        let lease =
            self.pool.lease(from, cancel).map_err(|_| TransferError::Cancelled { received: 0 })?;
        let (mut stream, bytes) = self.ask(&lease, from, request, cancel)?;
        let report = self.receive(&mut stream, bytes, sink, cancel)?;
        lease.leave(stream);
        Ok(report)
    }

    /// Asks, over a connection that an earlier copy has left if possible, and returns how many
    /// bytes follow.
    fn ask(
        &self,
        lease: &Lease<'_>,
        from: NodeId,
        request: &CopyRequest,
        cancel: &CancelFlag,
    ) -> Result<(Stream, u64), TransferError> {
        let mut left = lease.take_idle();
        loop {
            let is_new = left.is_none();
            let mut stream = match left.take() {
                Some(stream) => stream,
                None => self.dial(from, cancel)?,
            };
            match exchange(&mut stream, request, cancel) {
                Ok(CopyHead(Ok(bytes))) if bytes <= request.bytes => return Ok((stream, bytes)),
                Ok(CopyHead(Ok(_))) => return Err(TransferError::Malformed),
                Ok(CopyHead(Err(error))) => {
                    lease.leave(stream);
                    return Err(error.into());
                }
                // The source has restarted, or has given the connection up: all that are left are
                // as old, so that the next one is new.
                Err(StreamError::Ended | StreamError::Io(_) | StreamError::Tls(_)) if !is_new => {
                    while lease.take_idle().is_some() {}
                }
                Err(error) => return Err(transfer_error(&error, 0)),
            }
        }
    }

    fn receive(
        &self,
        stream: &mut Stream,
        bytes: u64,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        let mut report = CopyReport::default();
        sink.expect(bytes).map_err(|error| TransferError::Sink { received: 0, error })?;
        let mut buffer = std::mem::take(&mut stream.buffer);
        buffer.resize(BUFFER_BYTES, 0);
        while report.bytes < bytes {
            let received = report.bytes;
            let left = usize::try_from(bytes - received).unwrap_or(usize::MAX);
            let piece = self.throttle.piece(buffer.len()).min(left);
            let read = stream
                .read_much(&mut buffer[..piece], cancel)
                .map_err(|error| transfer_error(&error, received))?;
            report.throttled += self
                .throttle
                .acquire(read as u64, cancel)
                .map_err(|_| TransferError::Cancelled { received })?;
            sink.write(&buffer[..read]).map_err(|error| TransferError::Sink { received, error })?;
            report.bytes += read as u64;
        }
        stream.buffer = buffer;
        Ok(report)
    }

    fn dial(&self, from: NodeId, cancel: &CancelFlag) -> Result<Stream, TransferError> {
        let address = self
            .directory
            .address(from)
            .ok_or_else(|| unreachable("no address of the node is known"))?;
        let stream = connect(address, self.settings.connect_timeout, cancel)?;
        socket::tune(&stream, self.settings.stall_timeout).map_err(unreachable)?;
        let tls = self.settings.tls.as_ref();
        let session = tls.map(Tls::dial_session).transpose().map_err(unreachable)?;
        let patience = self.settings.handshake_timeout;
        let mut stream = Stream::new(stream, session.map(Box::new), HANDSHAKE_VERSION, patience)
            .map_err(unreachable)?;
        let met = stream.secure(cancel).map_err(unsecured)?;
        self.check(from, met.as_ref())?;
        let welcome = greet(&mut stream, &self.identity, cancel).map_err(unsecured)?;
        match Welcome::from_bytes(&welcome).map_err(|_| TransferError::Malformed)? {
            Welcome::Refused(refused) => Err(TransferError::Refused(refused)),
            Welcome::Accepted(accepted) => {
                let known = accepted.node == from
                    && accepted.cluster == self.identity.cluster
                    && self.directory.admits(from, accepted.store_uuid);
                if !known {
                    return Err(unreachable(format_args!(
                        "node {} answers at its address, or it has another disk",
                        accepted.node
                    )));
                }
                stream.set_version(accepted.version);
                stream.set_stall(self.settings.stall_timeout);
                Ok(stream)
            }
        }
    }
}

impl Client {
    /// Checks that a certificate is the source's. Its name is known by the time that anything moves.
    fn check(&self, from: NodeId, met: Option<&Subject>) -> Result<(), TransferError> {
        let (Some(tls), Some(met)) = (&self.settings.tls, met) else { return Ok(()) };
        let own = tls.certificate().subject;
        let found = own.admits_node(met).map_err(unreachable)?;
        let claimed = self.directory.name(from).and_then(|name| Name::new(name).ok());
        match claimed {
            Some(claimed) if claimed != *found => {
                let found = found.clone();
                Err(unreachable(Fault::theirs(What::WrongNode { found, claimed })))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Copier for Client {
    fn copy(
        &self,
        from: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        Client::copy(self, from, request, sink, cancel)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("identity", &self.identity).finish_non_exhaustive()
    }
}

fn exchange(
    stream: &mut Stream,
    request: &CopyRequest,
    cancel: &CancelFlag,
) -> Result<CopyHead, StreamError> {
    stream.write_frame(Kind::CopyRequest, &request.to_bytes(), cancel)?;
    let head = stream.read_frame(Kind::CopyHead, &mut Decoder::default(), cancel)?;
    CopyHead::from_bytes(&head.payload).map_err(|_| StreamError::Unexpected(Kind::CopyHead))
}

fn greet(
    stream: &mut Stream,
    identity: &Identity,
    cancel: &CancelFlag,
) -> Result<bytes::Bytes, StreamError> {
    let hello = identity.hello(Purpose::Bulk).to_bytes();
    stream.write_frame(Kind::Hello, &hello, cancel)?;
    Ok(stream.read_frame(Kind::Welcome, &mut Decoder::default(), cancel)?.payload)
}

/// Resolves and dials on a thread of its own, which neither can be interrupted nor takes longer
/// than its resolver and the limit.
fn connect(
    address: String,
    limit: Duration,
    cancel: &CancelFlag,
) -> Result<TcpStream, TransferError> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name("narad-dial".to_owned());
    // Nobody may wait for it any more by then.
    let dial = move || drop(sender.send(dial_any(&address, limit)));
    thread.spawn(dial).map_err(unreachable)?;
    let begin = Instant::now();
    loop {
        match receiver.recv_timeout(SLICE) {
            Ok(dialled) => return dialled.map_err(unreachable),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(unreachable("the dial ended without a result"));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if cancel.is_cancelled() {
            return Err(TransferError::Cancelled { received: 0 });
        }
        if begin.elapsed() >= limit {
            return Err(unreachable(io::Error::from(io::ErrorKind::TimedOut)));
        }
    }
}

fn dial_any(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn transfer_error(error: &StreamError, received: u64) -> TransferError {
    match error {
        StreamError::TimedOut => TransferError::TimedOut { received },
        StreamError::Cancelled => TransferError::Cancelled { received },
        StreamError::Ended | StreamError::Io(_) | StreamError::Tls(_) => {
            TransferError::Reset { received }
        }
        StreamError::Frame(_) | StreamError::Unexpected(_) => TransferError::Malformed,
    }
}

/// Why a connection did not come to stand.
fn unsecured(error: StreamError) -> TransferError {
    match error {
        StreamError::Cancelled => TransferError::Cancelled { received: 0 },
        other => unreachable(other),
    }
}

fn unreachable(reason: impl fmt::Display) -> TransferError {
    TransferError::Unreachable { reason: reason.to_string() }
}
