//! The listener: strangers, until they have said who they are.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustix::net::sockopt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::codec::FrameReader;
use super::greet::{self, GreetError};
use super::proof::Proof;
use super::serve;
use super::socket::{self, TcpListener, TcpStream};
use super::stream::Stream;
use super::transport::Shared;
use crate::wire::frame::Kind;
use crate::wire::handshake::{Hello, Purpose, Refused, Why};

/// Pause after a failed accept: the process is out of descriptors, and needs time more than tries.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections as long as the transport lives.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener) {
    if let Some(name) = &shared.settings.congestion
        && let Err(error) = sockopt::set_tcp_congestion(&listener, name)
    {
        tracing::warn!(
            name, %error,
            "the congestion control cannot be set, the system's is used: load its kernel module, \
             allow it in net.ipv4.tcp_allowed_congestion_control, or choose another"
        );
    }
    while let Some(accepted) = shared.cancel.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, from)) => {
                let stranger = shared.strangers.enter(&shared.cancel);
                shared.spawn(receive(Arc::clone(&shared), stream, from, stranger));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn receive(
    shared: Arc<Shared>,
    stream: TcpStream,
    from: SocketAddr,
    (id, evicted): (u64, CancellationToken),
) {
    let limit = shared.settings.handshake_timeout;
    let introduced =
        evicted.run_until_cancelled(timeout(limit, introduce(&shared, stream, from))).await;
    shared.strangers.leave(id);
    match introduced {
        Some(Ok(Ok(Some(guest)))) => serve::serve(&shared, guest).await,
        Some(Ok(Ok(None))) => {}
        Some(Ok(Err(GreetError::Tls(fault)))) => shared.refusals.tell(from, &fault),
        Some(Ok(Err(error))) => {
            shared.refusals.count(error.word());
            tracing::debug!(%from, %error, "no handshake, closed");
        }
        Some(Err(_)) => {
            shared.refusals.count("slow");
            tracing::debug!(%from, "no handshake in time, closed");
        }
        None => {
            shared.refusals.count("crowded");
            tracing::debug!(%from, "no handshake yet, closed to make room");
        }
    }
}

/// A dialer whose handshake was accepted.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) hello: Hello,
    /// The protocol version that was agreed upon.
    pub(crate) version: u8,
    pub(crate) stream: Stream,
    /// Whom its certificate names.
    pub(crate) proof: Proof,
    pub(crate) rest: BytesMut,
    /// Its place, if there are only so many of its kind.
    pub(crate) _place: Option<OwnedSemaphorePermit>,
}

async fn introduce(
    shared: &Shared,
    stream: TcpStream,
    from: SocketAddr,
) -> Result<Option<Guest>, GreetError> {
    let limit = shared.settings.handshake_timeout;
    socket::tune(&stream, shared.settings.stall_timeout)?;
    let tls = shared.settings.tls.as_ref();
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(tls) => Stream::Secret(Box::new(tls.accept_peer(stream).await?)),
    };
    // Who is refused for its certificate is told so as soon as it has greeted.
    let mut proof = Proof::of(tls, &stream);
    let mut reader = FrameReader::new(stream, BytesMut::new(), &[Kind::Hello]);
    let judged = greet::hear(&mut reader).await?.and_then(|hello| {
        let directory = &*shared.seams.directory;
        let accepted = greet::judge(&hello, &mut proof, &shared.identity, directory)?;
        let place = find_place(shared, hello.purpose)?;
        Ok((hello, accepted, place))
    });
    let (mut stream, rest) = reader.into_parts();
    match judged {
        Ok((hello, accepted, place)) => {
            greet::accept(&mut stream, accepted, limit).await?;
            if let (Some(node), Some(address)) = (hello.node, &hello.listens_at)
                && hello.purpose == Purpose::Control
            {
                shared.seams.directory.heard(node, address);
            }
            let version = accepted.version;
            Ok(Some(Guest { hello, version, stream, proof: proof?, rest, _place: place }))
        }
        Err(refused) => {
            shared.refusals.tell_refused(from, &refused);
            greet::refuse(&mut stream, &refused, limit).await?;
            drain(&mut stream).await?;
            Ok(None)
        }
    }
}

fn find_place(shared: &Shared, purpose: Purpose) -> Result<Option<OwnedSemaphorePermit>, Refused> {
    let busy = || Refused {
        why: Why::Busy,
        message: "this node has as many such connections as it allows: try again later".to_owned(),
    };
    let places = match purpose {
        Purpose::Control => return Ok(None),
        Purpose::Delivery => {
            return match &shared.seams.deliveries {
                Some(_) => Ok(None),
                None => Err(Refused {
                    why: Why::NotServing,
                    message: "this node takes no records from other nodes".to_owned(),
                }),
            };
        }
        Purpose::Join => &shared.joiners,
        Purpose::Snapshot => &shared.snapshots,
        Purpose::Bulk => {
            let bulk = shared.seams.bulk.as_ref().ok_or_else(|| Refused {
                why: Why::NotServing,
                message: "this node serves no bulk copies: ask the partition's owner".to_owned(),
            })?;
            return if bulk.has_room() { Ok(None) } else { Err(busy()) };
        }
    };
    Arc::clone(places).try_acquire_owned().map(Some).map_err(|_| busy())
}

/// Waits for the dialer to go, so that it gets to read why: closing with unread bytes would throw
/// the refusal away on its way.
async fn drain(stream: &mut Stream) -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    stream.shutdown().await?;
    let mut scrap = [0; 1024];
    while stream.read(&mut scrap).await? > 0 {}
    Ok(())
}
