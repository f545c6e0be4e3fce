//! The default transport: TCP, one connection for each node and direction, many calls on it at once.
//!
//! ```text
//! dial ── magic, token, id ──▶ accept
//!      ══ length, call, message ══▶
//!      ◀══ length, call, 1 + answer, or 0 ══
//! ```
//!
//! All numbers are little-endian. A node is believed to be who it says if it knows the cluster's token;
//! nothing is encrypted, so the network is to be one that nobody else listens on.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::NodeId;
use narad_core::node::CallFault;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::peer::{Inbound, MESSAGE_BYTES_MAX, Peer, Whom};

const MAGIC: [u8; 8] = *b"narad-e1";
const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Questions of one node that may be under way here.
const CALLS_MAX: usize = 1024;
/// Messages that may wait for one connection.
const QUEUE_MAX: usize = 64;

/// Connections over TCP.
#[derive(Debug)]
pub struct TcpPeer {
    listener: Mutex<Option<TcpListener>>,
    address: SocketAddr,
    token: u128,
    me: OnceLock<NodeId>,
    links: tokio::sync::Mutex<BTreeMap<NodeId, Link>>,
    cancel: CancellationToken,
}

/// A connection that was dialled.
#[derive(Clone, Debug)]
struct Link {
    address: String,
    out: mpsc::Sender<Question>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Question {
    message: Bytes,
    answer: oneshot::Sender<Option<Bytes>>,
}

impl TcpPeer {
    /// Listens at an address, `host:port`. All nodes of a cluster have the same token, a secret of
    /// theirs.
    ///
    /// # Errors
    ///
    /// If nobody can listen there.
    pub async fn listen(address: &str, token: u128) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (listener, me) = (Mutex::new(Some(listener)), OnceLock::new());
        let (links, cancel) = (tokio::sync::Mutex::default(), CancellationToken::new());
        Ok(Self { listener, address, token, me, links, cancel })
    }

    /// Returns where it listens, for [`Builder::address`](super::Builder::address).
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the connections that this node has dialled; they are dialled again when needed.
    pub async fn hang_up(&self) {
        for link in std::mem::take(&mut *self.links.lock().await).into_values() {
            link.closed.cancel();
        }
    }

    /// Returns a connection to a node, dialling it if there is none.
    async fn link(&self, to: &Whom) -> Result<Link, CallFault> {
        let mut links = self.links.lock().await;
        let is_good = |link: &&Link| !link.out.is_closed() && link.address == to.address;
        if let Some(link) = links.get(&to.node).filter(is_good) {
            return Ok(link.clone());
        }
        let me = self.me.get().ok_or(CallFault::Unreachable)?;
        let (out, questions) = mpsc::channel(QUEUE_MAX);
        let (address, closed) = (to.address.clone(), self.cancel.child_token());
        let link = Link { address: address.clone(), out, closed: closed.clone() };
        links.insert(to.node, link.clone());
        let hello = hello(self.token, *me);
        tokio::spawn(async move {
            let talking = closed.run_until_cancelled(dial(address, hello, questions));
            if let Some(Err(error)) = talking.await {
                tracing::debug!(%error, "a connection has ended");
            }
        });
        Ok(link)
    }
}

impl Drop for TcpPeer {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

#[async_trait]
impl Peer for TcpPeer {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let listener = listener.ok_or("it serves another node already")?;
        self.me.get_or_init(|| inbound.me().node);
        let (token, cancel) = (self.token, self.cancel.clone());
        tokio::spawn(async move {
            cancel.run_until_cancelled(accept(listener, token, inbound, cancel.clone())).await;
        });
        Ok(())
    }

    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(CallFault::Malformed);
        }
        let (answer, answered) = oneshot::channel();
        let mut question = Question { message, answer };
        // Of a connection that has just ended nobody knew; what it did not take was not sent.
        for _ in 0..2 {
            let link = self.link(to).await?;
            match link.out.send(question).await {
                Ok(()) => {
                    return match answered.await {
                        Ok(Some(answer)) => Ok(answer),
                        Ok(None) => Err(CallFault::Unreachable),
                        Err(_) => Err(CallFault::TimedOut),
                    };
                }
                Err(mpsc::error::SendError(back)) => question = back,
            }
        }
        Err(CallFault::Unreachable)
    }

    async fn stop(&self) {
        self.cancel.cancel();
    }
}

/// Answers that are waited for, by call.
type Pending = Arc<Mutex<BTreeMap<u64, oneshot::Sender<Option<Bytes>>>>>;

/// Dials a node and carries questions to it until somebody hangs up.
async fn dial(
    address: String,
    hello: Vec<u8>,
    mut questions: mpsc::Receiver<Question>,
) -> io::Result<()> {
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(&address)).await;
    let stream = match dialled {
        Ok(Ok(stream)) => stream,
        dialled => {
            // Nothing was sent.
            questions.close();
            while let Some(question) = questions.recv().await {
                // Whoever asked may be gone.
                drop(question.answer.send(None));
            }
            return dialled.unwrap_or_else(|late| Err(late.into())).map(|_| ());
        }
    };
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    writer.write_all(&hello).await?;
    let pending = Pending::default();
    let waiting = Arc::clone(&pending);
    let asking = async move {
        let mut call = 0_u64;
        while let Some(Question { message, answer }) = questions.recv().await {
            call += 1;
            waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(call, answer);
            write_frame(&mut writer, call, &message).await?;
        }
        Ok(())
    };
    let hearing = async move {
        let mut reader = BufReader::new(reader);
        loop {
            let (call, mut answer) = read_frame(&mut reader).await?;
            let asker = pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
            let is_answer = answer.first() == Some(&1);
            if let Some(asker) = asker.filter(|_| is_answer) {
                // Whoever asked may be gone. Others learn from the dropped sender.
                drop(asker.send(Some(answer.split_off(1))));
            }
        }
    };
    tokio::select! {
        asked = asking => asked,
        heard = hearing => heard,
    }
}

async fn accept(listener: TcpListener, token: u128, inbound: Inbound, cancel: CancellationToken) {
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let (inbound, cancel) = (inbound.clone(), cancel.clone());
        tokio::spawn(async move {
            let serving = cancel.run_until_cancelled(serve(stream, token, inbound));
            if let Some(Err(error)) = serving.await {
                tracing::debug!(%error, "a connection has ended");
            }
        });
    }
}

/// Answers questions of one node until it hangs up.
async fn serve(stream: TcpStream, token: u128, inbound: Inbound) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let from = tokio::time::timeout(HELLO_TIMEOUT, read_hello(&mut reader, token)).await??;
    let room = Arc::new(Semaphore::new(CALLS_MAX));
    let (out, mut answers) = mpsc::channel::<(u64, Bytes)>(QUEUE_MAX);
    let hearing = async move {
        loop {
            let (call, message) = read_frame(&mut reader).await?;
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
            let (inbound, out) = (inbound.clone(), out.clone());
            tokio::spawn(async move {
                let answer = inbound.answer(from, message).await;
                let mut frame = vec![u8::from(answer.is_some())];
                frame.extend_from_slice(&answer.unwrap_or_default());
                // Whoever asked may have hung up.
                drop(out.send((call, frame.into())).await);
                drop(permit);
            });
        }
    };
    let answering = async move {
        while let Some((call, answer)) = answers.recv().await {
            write_frame(&mut writer, call, &answer).await?;
        }
        Ok(())
    };
    tokio::select! {
        heard = hearing => heard,
        answered = answering => answered,
    }
}

fn hello(token: u128, me: NodeId) -> Vec<u8> {
    let mut hello = MAGIC.to_vec();
    hello.extend_from_slice(&token.to_le_bytes());
    hello.extend_from_slice(&me.0.to_le_bytes());
    hello
}

pub(super) async fn read_hello(
    reader: &mut (impl AsyncRead + Unpin),
    token: u128,
) -> io::Result<NodeId> {
    let mut hello = [0; 32];
    reader.read_exact(&mut hello).await?;
    let known = self::hello(token, NodeId(0));
    if hello[..24] != known[..24] {
        let why = "a stranger has dialled: it is no node, or does not know the token";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let id = hello[24..].try_into().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(NodeId(u64::from_le_bytes(id)))
}

async fn write_frame(
    writer: &mut (impl AsyncWrite + Unpin),
    call: u64,
    message: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut head = [0; 12];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&call.to_le_bytes());
    writer.write_all(&head).await?;
    writer.write_all(message).await
}

pub(super) async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<(u64, Bytes)> {
    let length = reader.read_u32_le().await?;
    let call = reader.read_u64_le().await?;
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX + 1);
    let length = length.ok_or(io::ErrorKind::InvalidData)?;
    // Memory is taken as bytes arrive, not as they are announced.
    let mut message = Vec::new();
    let read = reader.take(length as u64).read_to_end(&mut message).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((call, message.into()))
}
