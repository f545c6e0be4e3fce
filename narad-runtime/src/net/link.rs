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

mod desk;
mod talk;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use narad_core::ids::NodeId;
use tokio::sync::{Notify, mpsc, oneshot};

use super::call::CallError;
use super::codec::{FrameReader, ReadError, put_frame};
use super::greet::{GreetError, Greeted, check_acceptor, greet, secure};
use super::jitter::Backoff;
use super::proof::Proof;
use super::socket;
use super::stream::ReadHalf;
use super::transport::Shared;
use super::{Directory, Settings, lock};
use crate::tls::Fault;
use crate::wire::frame::{FrameError, Kind};
use crate::wire::handshake::{Accepted, Hello, Purpose, Refused, Why};

use desk::Desk;
use talk::Outgoing;
pub(crate) use talk::{Batches, Control, Talk};

/// Bytes that are written at once, if as many wait.
const BATCH_BYTES: usize = 256 << 10;

/// Something that waits for its answer.
#[derive(Debug)]
struct Pending<A> {
    reply: oneshot::Sender<Result<A, CallError>>,
    /// Whether it may have reached the peer.
    sent: bool,
}

/// One peer, as seen by those who have something to send.
#[derive(Debug)]
pub(crate) struct Link<T: Talk = Control> {
    peer: NodeId,
    queue: mpsc::Sender<Outgoing>,
    queued_bytes: AtomicUsize,
    /// Calls without an answer. An id is never used twice, so a late answer hits nobody else.
    pending: Mutex<HashMap<u64, Pending<T::Answer>>>,
    next_id: AtomicU64,
    /// Whether the peer is being left alone for a while.
    pausing: AtomicBool,
    wake: Notify,
    reset: Notify,
    snapshot_underway: AtomicBool,
    desk: Desk,
    /// How many frames other threads have sent themselves.
    sent_at_once: AtomicU64,
}

impl<T: Talk> Link<T> {
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
            desk: Desk::default(),
            sent_at_once: AtomicU64::new(0),
        };
        (link, receiver)
    }

    pub(crate) const fn peer(&self) -> NodeId {
        self.peer
    }

    fn mint(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues something and waits for its answer, but not beyond `end`. When dropped, the answer is
    /// forgotten.
    async fn exchange(
        &self,
        id: u64,
        outgoing: Outgoing,
        settings: &Settings,
        end: impl Future<Output = ()>,
    ) -> Result<T::Answer, CallError> {
        let (reply, mut answer) = oneshot::channel();
        {
            let mut pending = lock(&self.pending);
            if pending.len() >= settings.calls_max {
                return Err(CallError::Unreachable);
            }
            pending.insert(id, Pending { reply, sent: false });
        }
        let _forget = Forget { link: self, id };
        if !self.push(outgoing, settings) {
            return Err(CallError::Unreachable);
        }
        tokio::select! {
            biased;
            answered = &mut answer => answered.unwrap_or(Err(CallError::Closed)),
            () = end => {
                let waits = lock(&self.pending).remove(&id).map(|pending| pending.sent);
                match waits {
                    Some(false) => Err(CallError::Unreachable),
                    Some(true) => Err(CallError::TimedOut),
                    // It was answered in this very moment.
                    None => answer.await.unwrap_or(Err(CallError::Closed)),
                }
            }
        }
    }

    /// Ends the present connection.
    pub(crate) fn reset(&self) {
        self.reset.notify_waiters();
    }

    /// Ends the present pause.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    fn push(&self, outgoing: Outgoing, settings: &Settings) -> bool {
        if self.pausing.load(Ordering::Acquire) {
            return false;
        }
        let bytes = outgoing.bytes();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before == 0 || before.saturating_add(bytes) <= settings.queue_bytes_max;
        let queued = fits && self.queue.try_send(outgoing).is_ok();
        if !queued {
            self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
        queued
    }

    /// Sends a frame from the caller's thread, if nothing is on its way or waits: no other thread
    /// has to wake up for it then. Says whether it was sent.
    fn send_at_once(&self, outgoing: &Outgoing) -> bool {
        let idle = || self.queued_bytes.load(Ordering::Acquire) == 0;
        let sent = self.desk.send_if(idle, |version, buffer| outgoing.put(version, buffer));
        if sent {
            self.sent_at_once.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// Waits until nothing has been sent and nobody has waited for an answer for so long.
    async fn idle(&self, long: Duration) {
        loop {
            let before = self.sent_at_once.load(Ordering::Relaxed);
            tokio::time::sleep(long).await;
            let nothing_sent = self.sent_at_once.load(Ordering::Relaxed) == before;
            if nothing_sent && lock(&self.pending).is_empty() {
                return;
            }
        }
    }

    fn taken(&self, outgoing: &Outgoing) {
        self.queued_bytes.fetch_sub(outgoing.bytes(), Ordering::AcqRel);
    }

    fn answer(&self, id: u64, outcome: Result<T::Answer, CallError>) {
        if let Some(Pending { reply, .. }) = lock(&self.pending).remove(&id) {
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
            if let Some(id) = outgoing.id() {
                self.answer(id, Err(CallError::Unreachable));
            }
        }
        let rest: Vec<Pending<_>> = lock(&self.pending).drain().map(|(_, rest)| rest).collect();
        for Pending { reply, sent } in rest {
            // What is not sent here is about to be queued, and will be refused there.
            let fault = if sent { CallError::Closed } else { CallError::Unreachable };
            let _ = reply.send(Err(fault));
        }
    }
}

/// Forgets a call when its caller stops to wait.
struct Forget<'a, T: Talk> {
    link: &'a Link<T>,
    id: u64,
}

impl<T: Talk> Drop for Forget<'_, T> {
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
    #[error("it is another node: {0}")]
    Identity(#[from] Fault),
    #[error("the peer ended the connection")]
    Ended,
    #[error("the peer sent an answer that is none")]
    Malformed,
    #[error("disconnected on request")]
    Reset,
    #[error("nothing was said for a long time")]
    Idle,
}

/// Carries what is queued for one peer, as long as the transport lives.
pub(crate) async fn run<T: Talk>(
    shared: Arc<Shared>,
    link: Arc<Link<T>>,
    mut queue: mpsc::Receiver<Outgoing>,
) {
    let cancel = shared.cancel.clone();
    let _ = cancel.run_until_cancelled(keep_up(&shared, &link, &mut queue)).await;
    queue.close();
    link.fail_all(None, &mut queue);
}

async fn keep_up<T: Talk>(shared: &Shared, link: &Link<T>, queue: &mut mpsc::Receiver<Outgoing>) {
    let settings = &shared.settings;
    let seed = shared.identity.store_uuid.0 ^ u128::from(link.peer.0);
    let seed = u64::try_from(seed & u128::from(u64::MAX)).expect("masked to 64 bits");
    let mut backoff = Backoff::new(settings.backoff_min, settings.backoff_max, seed);
    let mut known_down = false;
    while let Some(first) = queue.recv().await {
        link.taken(&first);
        let mut unsent = Some(first);
        let down = match connect(shared, link.peer, T::PURPOSE).await {
            Ok(greeted) => {
                backoff.reset();
                known_down = false;
                tracing::debug!(peer = ?link.peer, purpose = ?T::PURPOSE, "connected");
                carry(shared, link, greeted, &mut unsent, queue).await
            }
            Err(error) => {
                if let GreetError::Refused(Refused { why: Why::TakenOut, .. }) = &error {
                    shared.seams.directory.told_out();
                }
                Down::Greet(error)
            }
        };
        if let Down::Idle = down {
            tracing::debug!(peer = ?link.peer, purpose = ?T::PURPOSE, "idle, disconnected");
            continue;
        }
        // Once is enough for people; the peer is dialled again and again.
        if known_down {
            tracing::debug!(peer = ?link.peer, purpose = ?T::PURPOSE, reason = %down, "still down");
        } else {
            let name = shared.seams.directory.name(link.peer);
            tracing::warn!(
                peer = ?link.peer, name, purpose = ?T::PURPOSE, reason = %down,
                "the peer is unreachable"
            );
        }
        known_down = true;
        link.pausing.store(true, Ordering::Release);
        link.fail_all(unsent, queue);
        if T::PURPOSE == Purpose::Control {
            shared.seams.inbound.unreachable(link.peer);
        }
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
    let (mut greeted, accepted) = introduce(shared, address, purpose).await?;
    let (identity, directory) = (&shared.identity, &*shared.seams.directory);
    check_acceptor(&accepted, &mut greeted.proof, peer, identity, directory)?;
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
    let (stream, proof) = secure(settings.tls.as_ref(), stream, settings.handshake_timeout).await?;
    let listens_at = settings.listens_at.clone();
    let hello = Hello { listens_at, ..shared.identity.hello(purpose) };
    greet(stream, proof, &hello, settings.handshake_timeout).await
}

/// Lets this node and whoever listens at an address know where the other one is.
pub(crate) async fn meet(shared: &Shared, address: &str) -> Result<NodeId, GreetError> {
    let (mut greeted, accepted) = introduce(shared, address, Purpose::Control).await?;
    let directory = &*shared.seams.directory;
    let proof = &mut greeted.proof;
    check_acceptor(&accepted, proof, accepted.node, &shared.identity, directory)?;
    directory.heard(accepted.node, address);
    Ok(accepted.node)
}

async fn carry<T: Talk>(
    shared: &Shared,
    link: &Link<T>,
    (greeted, version): (Greeted, u8),
    first: &mut Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> Down {
    let (read, write) = greeted.stream.into_split();
    let reader = FrameReader::new(read, greeted.rest, T::ANSWERS);
    let directory = &*shared.seams.directory;
    link.desk.open(write, version).await;
    let down = tokio::select! {
        down = write_all(shared, link, version, first, queue) => down,
        down = read_all(link, reader, greeted.proof, directory) => down,
        () = link.reset.notified() => Down::Reset,
    };
    link.desk.close().await;
    down
}

async fn write_all<T: Talk>(
    shared: &Shared,
    link: &Link<T>,
    version: u8,
    first: &mut Option<Outgoing>,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> Down {
    let stall = shared.settings.stall_timeout;
    if let Some(first) = first.take() {
        let mut turn = link.desk.turn().await;
        put(link, version, &first, turn.buffer());
        if let Err(error) = turn.write(stall).await {
            return Down::Write(error);
        }
    }
    loop {
        // What waits in the queue counts as waiting until it is this task's turn to write.
        let next = tokio::select! {
            next = queue.recv() => next.map(Some),
            () = link.desk.left_over() => Some(None),
            () = link.idle(shared.settings.idle_timeout / 2) => return Down::Idle,
        };
        let Some(mut next) = next else { return Down::Ended };
        let mut turn = link.desk.turn().await;
        while let Some(outgoing) = next.take() {
            link.taken(&outgoing);
            put(link, version, &outgoing, turn.buffer());
            if turn.buffer().len() < BATCH_BYTES {
                next = queue.try_recv().ok();
            }
        }
        if let Err(error) = turn.write(stall).await {
            return Down::Write(error);
        }
    }
}

fn put<T: Talk>(link: &Link<T>, version: u8, outgoing: &Outgoing, buffer: &mut BytesMut) {
    if let Some(id) = outgoing.id() {
        let mut pending = lock(&link.pending);
        // Its caller has stopped to wait; what was not sent need not be.
        let Some(pending) = pending.get_mut(&id) else { return };
        pending.sent = true;
    }
    outgoing.put(version, buffer);
}

async fn read_all<T: Talk>(
    link: &Link<T>,
    mut reader: FrameReader<ReadHalf>,
    mut proof: Proof,
    directory: &dyn Directory,
) -> Down {
    loop {
        let next = reader.next().await;
        if let Err(fault) = proof.check(link.peer, directory) {
            return Down::Identity(fault);
        }
        match next {
            Ok(Some(frame)) => match T::read(frame.payload) {
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
