//! The dialer's side of one peer: a queue, a connection when there is something to send, and a
//! pause when there cannot be one.
//!
//! ```text
//!          first message          greeted
//!   Idle ───────────────▶ Dialling ──────▶ Carrying
//!    ▲                        │ failed        │ failed
//!    └──────── Pausing ◀──────┴───────────────┘
//!   (pausing: messages are refused at once; ends early when the peer dials us)
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use narad_core::ids::NodeId;
use narad_core::peer::{Answer, Request};
use tokio::sync::{Notify, mpsc, oneshot};

use super::call::{CallError, read_reply, request_payload};
use super::codec::{FrameReader, ReadError, put_frame};
use super::greet::{GreetError, Greeted, check_acceptor, greet};
use super::jitter::Backoff;
use super::socket::{self, OwnedReadHalf, OwnedWriteHalf};
use super::transport::Shared;
use super::{Settings, lock};
use crate::wire::frame::{FrameError, Kind, RAFT_BYTES_MAX};
use crate::wire::handshake::{Accepted, Hello, Purpose};

/// Bytes that are written at once, if as many wait.
const BATCH_BYTES: usize = 256 << 10;

/// What waits for a peer.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Raft(Bytes),
    Request { id: u64, payload: Bytes },
}

impl Outgoing {
    const fn parts(&self) -> (Kind, &Bytes) {
        match self {
            Self::Raft(bytes) => (Kind::Raft, bytes),
            Self::Request { payload, .. } => (Kind::Request, payload),
        }
    }
}

type Reply = oneshot::Sender<Result<Answer, CallError>>;

/// One peer, as seen by those who have something to send.
#[derive(Debug)]
pub(crate) struct Link {
    peer: NodeId,
    queue: mpsc::Sender<Outgoing>,
    queued_bytes: AtomicUsize,
    /// Calls without an answer. An id is never used twice, so a late answer hits nobody else.
    pending: Mutex<HashMap<u64, Reply>>,
    next_id: AtomicU64,
    /// Whether the peer is being left alone for a while.
    pausing: AtomicBool,
    wake: Notify,
    reset: Notify,
    snapshot_underway: AtomicBool,
}

impl Link {
    pub(crate) fn new(peer: NodeId, settings: &Settings) -> (Self, mpsc::Receiver<Outgoing>) {
        let (queue, receiver) = mpsc::channel(settings.queue_length_max);
        let link = Self {
            peer,
            queue,
            queued_bytes: AtomicUsize::new(0),
            pending: Mutex::default(),
            next_id: AtomicU64::new(0),
            pausing: AtomicBool::new(false),
            wake: Notify::new(),
            reset: Notify::new(),
            snapshot_underway: AtomicBool::new(false),
        };
        (link, receiver)
    }

    pub(crate) const fn peer(&self) -> NodeId {
        self.peer
    }

    /// Queues a Raft message, or says that it is lost.
    pub(crate) fn send_raft(&self, bytes: Bytes, settings: &Settings) -> bool {
        if bytes.len() > RAFT_BYTES_MAX {
            tracing::warn!(peer = ?self.peer, bytes = bytes.len(), "a Raft message is too long");
            return false;
        }
        self.push(Outgoing::Raft(bytes), settings)
    }

    /// Queues a request and waits for its answer. When dropped, the answer is forgotten.
    pub(crate) async fn call(
        &self,
        request: &Request,
        settings: &Settings,
    ) -> Result<Answer, CallError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let payload = request_payload(id, request);
        if payload.len() > Kind::Request.payload_bytes_max() {
            return Err(CallError::TooLong);
        }
        let (reply, answer) = oneshot::channel();
        {
            let mut pending = lock(&self.pending);
            if pending.len() >= settings.calls_max {
                return Err(CallError::Unreachable);
            }
            pending.insert(id, reply);
        }
        let _forget = Forget { link: self, id };
        if !self.push(Outgoing::Request { id, payload }, settings) {
            return Err(CallError::Unreachable);
        }
        answer.await.unwrap_or(Err(CallError::Closed))
    }

    /// Has the peer dialled, with nothing to say.
    pub(crate) fn open(&self, settings: &Settings) {
        // A request whose caller is gone opens the connection and is not sent.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.push(Outgoing::Request { id, payload: Bytes::new() }, settings);
    }

    /// Ends the present connection.
    pub(crate) fn reset(&self) {
        self.reset.notify_waiters();
    }

    /// Ends the present pause.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Whether a snapshot may be sent now; if so, one is under way.
    pub(crate) fn begin_snapshot(&self) -> bool {
        !self.snapshot_underway.swap(true, Ordering::AcqRel)
    }

    fn push(&self, outgoing: Outgoing, settings: &Settings) -> bool {
        if self.pausing.load(Ordering::Acquire) {
            return false;
        }
        let bytes = outgoing.parts().1.len();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before == 0 || before.saturating_add(bytes) <= settings.queue_bytes_max;
        let queued = fits && self.queue.try_send(outgoing).is_ok();
        if !queued {
            self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
        queued
    }

    fn taken(&self, outgoing: &Outgoing) {
        self.queued_bytes.fetch_sub(outgoing.parts().1.len(), Ordering::AcqRel);
    }

    fn answer(&self, id: u64, outcome: Result<Answer, CallError>) {
        if let Some(reply) = lock(&self.pending).remove(&id) {
            // The caller may have given up in this very moment.
            let _ = reply.send(outcome);
        }
    }

    /// Ends everything that waits: what was not sent is unreachable, what was sent has an unknown
    /// outcome.
    fn fail_all(&self, unsent: Option<Outgoing>, queue: &mut mpsc::Receiver<Outgoing>) {
        let mut unsent = unsent;
        while let Some(outgoing) = unsent.take().or_else(|| {
            let next = queue.try_recv().ok();
            next.inspect(|outgoing| self.taken(outgoing))
        }) {
            if let Outgoing::Request { id, .. } = outgoing {
                self.answer(id, Err(CallError::Unreachable));
            }
        }
        let sent: Vec<Reply> = lock(&self.pending).drain().map(|(_, reply)| reply).collect();
        for reply in sent {
            let _ = reply.send(Err(CallError::Closed));
        }
    }
}

/// Forgets a call when its caller stops to wait.
struct Forget<'a> {
    link: &'a Link,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(&self.link.pending).remove(&self.id);
    }
}

/// Why a connection ended or did not begin.
#[derive(Debug, thiserror::Error)]
enum Down {
    #[error("no connection: {0}")]
    Greet(#[from] GreetError),
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    #[error("cannot read: {0}")]
    Read(#[from] ReadError),
    #[error("cannot be sent: {0}")]
    Frame(#[from] FrameError),
    #[error("the peer ended the connection")]
    Ended,
    #[error("the peer sent an answer that is none")]
    Malformed,
    #[error("disconnected on request")]
    Reset,
}

/// Carries what is queued for one peer, as long as the transport lives.
pub(crate) async fn run(shared: Arc<Shared>, link: Arc<Link>, mut queue: mpsc::Receiver<Outgoing>) {
    let cancel = shared.cancel.clone();
    let _ = cancel.run_until_cancelled(keep_up(&shared, &link, &mut queue)).await;
    queue.close();
    link.fail_all(None, &mut queue);
}

async fn keep_up(shared: &Shared, link: &Link, queue: &mut mpsc::Receiver<Outgoing>) {
    let settings = &shared.settings;
    let seed = shared.identity.store_uuid.0 ^ u128::from(link.peer.0);
    let seed = u64::try_from(seed & u128::from(u64::MAX)).expect("masked to 64 bits");
    let mut backoff = Backoff::new(settings.backoff_min, settings.backoff_max, seed);
    let mut known_down = false;
    while let Some(first) = queue.recv().await {
        link.taken(&first);
        let mut unsent = Some(first);
        let down = match connect(shared, link.peer, Purpose::Control).await {
            Ok(greeted) => {
                backoff.reset();
                known_down = false;
                tracing::debug!(peer = ?link.peer, "connected");
                carry(shared, link, greeted, &mut unsent, queue).await
            }
            Err(error) => Down::Greet(error),
        };
        // Once is enough for people; the peer is dialled again and again.
        if known_down {
            tracing::debug!(peer = ?link.peer, reason = %down, "still unreachable");
        } else {
            tracing::warn!(peer = ?link.peer, reason = %down, "the peer is unreachable");
        }
        known_down = true;
        link.pausing.store(true, Ordering::Release);
        link.fail_all(unsent, queue);
        shared.seams.inbound.unreachable(link.peer);
        // Woken or not, the pause is over.
        let _ = tokio::time::timeout(backoff.pause(), link.wake.notified()).await;
        link.pausing.store(false, Ordering::Release);
    }
}

/// Dials a peer and greets it; returns the protocol version that was agreed upon as well.
async fn connect(
    shared: &Shared,
    peer: NodeId,
    purpose: Purpose,
) -> Result<(Greeted, u8), GreetError> {
    let directory = &*shared.seams.directory;
    let no_address =
        || io::Error::new(io::ErrorKind::NotFound, "no address of the node is known").into();
    let first = match directory.address(peer) {
        Some(address) => greet_at(shared, peer, &address, purpose).await,
        None => Err(no_address()),
    };
    match (first, directory.heard_at(peer)) {
        (Err(_), Some(heard)) => greet_at(shared, peer, &heard, purpose).await,
        (first, _) => first,
    }
}

async fn greet_at(
    shared: &Shared,
    peer: NodeId,
    address: &str,
    purpose: Purpose,
) -> Result<(Greeted, u8), GreetError> {
    let (greeted, accepted) = introduce(shared, address, purpose).await?;
    check_acceptor(&accepted, peer, &shared.identity, &*shared.seams.directory)?;
    Ok((greeted, accepted.version))
}

/// Dials an address and says who this node is and where it listens.
async fn introduce(
    shared: &Shared,
    address: &str,
    purpose: Purpose,
) -> Result<(Greeted, Accepted), GreetError> {
    let settings = &shared.settings;
    let stream = socket::dial(address, settings.connect_timeout).await?;
    socket::tune(&stream, settings.stall_timeout)?;
    let listens_at = settings.listens_at.clone();
    let hello = Hello { listens_at, ..shared.identity.hello(purpose) };
    greet(stream, &hello, settings.handshake_timeout).await
}

/// Lets this node and whoever listens at an address know where the other one is.
pub(crate) async fn meet(shared: &Shared, address: &str) -> Result<NodeId, GreetError> {
    let (_, accepted) = introduce(shared, address, Purpose::Control).await?;
    let directory = &*shared.seams.directory;
    check_acceptor(&accepted, accepted.node, &shared.identity, directory)?;
    directory.heard(accepted.node, address);
    Ok(accepted.node)
}

async fn carry(
    shared: &Shared,
    link: &Link,
    (greeted, version): (Greeted, u8),
    first: &mut Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> Down {
    let (read, write) = greeted.stream.into_split();
    let reader = FrameReader::new(read, greeted.rest, &[Kind::Answer]);
    tokio::select! {
        down = write_all(shared, link, (write, version), first, queue) => down,
        down = read_all(link, reader) => down,
        () = link.reset.notified() => Down::Reset,
    }
}

async fn write_all(
    shared: &Shared,
    link: &Link,
    (mut writer, version): (OwnedWriteHalf, u8),
    first: &mut Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> Down {
    let mut buffer = BytesMut::new();
    loop {
        let mut next = first.take();
        if next.is_none() {
            next = queue.recv().await.inspect(|outgoing| link.taken(outgoing));
        }
        let Some(mut outgoing) = next else { return Down::Ended };
        loop {
            put(link, version, &outgoing, &mut buffer);
            if buffer.len() >= BATCH_BYTES {
                break;
            }
            match queue.try_recv() {
                Ok(more) => outgoing = more,
                Err(_) => break,
            }
            link.taken(&outgoing);
        }
        let stall = shared.settings.stall_timeout;
        if let Err(error) = socket::write_all(&mut writer, &mut buffer, stall).await {
            return Down::Write(error);
        }
    }
}

fn put(link: &Link, version: u8, outgoing: &Outgoing, buffer: &mut BytesMut) {
    if let Outgoing::Request { id, .. } = outgoing
        && !lock(&link.pending).contains_key(id)
    {
        // Its caller has stopped to wait; what was not sent need not be.
        return;
    }
    let (kind, payload) = outgoing.parts();
    put_frame(version, kind, payload, buffer).expect("lengths are checked before they are queued");
}

async fn read_all(link: &Link, mut reader: FrameReader<OwnedReadHalf>) -> Down {
    loop {
        match reader.next().await {
            Ok(Some(frame)) => match read_reply(&frame.payload) {
                Ok((id, outcome)) => link.answer(id, outcome),
                Err(_) => return Down::Malformed,
            },
            Ok(None) => return Down::Ended,
            Err(error) => return Down::Read(error),
        }
    }
}

/// Sends one snapshot over a connection of its own, so that no heartbeat waits behind it.
pub(crate) async fn send_snapshot(shared: Arc<Shared>, link: Arc<Link>, bytes: Bytes) {
    let sent = shared.cancel.run_until_cancelled(deliver(&shared, link.peer, &bytes)).await;
    link.snapshot_underway.store(false, Ordering::Release);
    let ok = match sent {
        Some(Ok(())) => true,
        Some(Err(reason)) => {
            tracing::warn!(peer = ?link.peer, %reason, "a snapshot was not delivered");
            false
        }
        None => false,
    };
    shared.seams.inbound.snapshot_sent(link.peer, ok);
}

async fn deliver(shared: &Shared, peer: NodeId, bytes: &Bytes) -> Result<(), Down> {
    let stall = shared.settings.stall_timeout;
    let mut out = BytesMut::new();
    let (greeted, version) = connect(shared, peer, Purpose::Snapshot).await?;
    put_frame(version, Kind::Snapshot, bytes, &mut out)?;
    let mut reader = FrameReader::new(greeted.stream, greeted.rest, &[Kind::SnapshotTaken]);
    socket::write_all(reader.io(), &mut out, stall).await?;
    reader.next_moving(stall).await?.map(drop).ok_or(Down::Ended)
}
