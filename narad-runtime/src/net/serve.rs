//! The acceptor's side of a connection, once it is known who dialled.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use narad_core::dispatch::SendFault;
use narad_core::ids::NodeId;
use narad_core::peer::Request;
use tokio::sync::mpsc;

use super::accept::Guest;
use super::call::read_request;
use super::codec::{FrameReader, ReadError, put_frame};
use super::proof::Proof;
use super::socket;
use super::stream::{ReadHalf, Stream, WriteHalf};
use super::transport::{ROOM_BYTES, Shared};
use super::{BulkConnection, Delivery, DeliveryReply};
use crate::tls::Fault;
use crate::wire::deliver::{Head, decode_records};
use crate::wire::frame::{Frame, FrameError, Kind};
use crate::wire::handshake::Purpose;
use crate::wire::{DecodeError, Wire};

/// Why a connection was closed from this side.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("nothing was said for too long")]
    Idle,
    #[error("a joiner may only ask to join")]
    NotAJoin,
    #[error("it is another node: {0}")]
    Identity(#[from] Fault),
}

/// An accepted connection.
struct Connection {
    version: u8,
    stream: Stream,
    proof: Proof,
    rest: BytesMut,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(shared: &Arc<Shared>, guest: Guest) {
    let Guest { hello, version, stream, proof, rest, _place } = guest;
    let connection = Connection { version, stream, proof, rest };
    let served = match (hello.purpose, hello.node) {
        (Purpose::Join, _) => shared.cancel.run_until_cancelled(join(shared, connection)).await,
        (Purpose::Control, Some(from)) => control(shared, from, connection).await,
        (Purpose::Snapshot, Some(from)) => {
            shared.cancel.run_until_cancelled(snapshot(shared, from, connection)).await
        }
        (Purpose::Bulk, Some(from)) => Some(bulk(shared, from, connection)),
        (Purpose::Delivery, Some(from)) => delivery(shared, from, connection).await,
        // The handshake admits nobody without an id but joiners.
        (Purpose::Control | Purpose::Snapshot | Purpose::Bulk | Purpose::Delivery, None) => None,
    };
    let purpose = hello.purpose;
    if let Some(Err(Closed::Identity(fault))) = &served {
        shared.refusals.count(fault.word());
    }
    if let Some(Err(Closed::Idle)) = served {
        tracing::debug!(from = ?hello.node, ?purpose, "a connection on which nothing was said");
    } else if let Some(Err(reason)) = served {
        tracing::warn!(from = ?hello.node, ?purpose, %reason, "closed a connection");
    } else {
        tracing::debug!(from = ?hello.node, ?purpose, "a connection ended");
    }
}

async fn control(
    shared: &Arc<Shared>,
    from: NodeId,
    connection: Connection,
) -> Option<Result<(), Closed>> {
    let kinds: &'static [Kind] = &[Kind::Raft, Kind::Request];
    converse(shared, from, connection, Purpose::Control, (kinds, Kind::Answer), take_all).await
}

/// Takes what a peer asks on one connection, and answers on it, until either ends.
async fn converse(
    shared: &Arc<Shared>,
    from: NodeId,
    connection: Connection,
    purpose: Purpose,
    (asked, answered): (&'static [Kind], Kind),
    take: impl AsyncFnOnce(
        &Shared,
        NodeId,
        FrameReader<ReadHalf>,
        Proof,
        mpsc::Sender<Bytes>,
    ) -> Result<(), Closed>,
) -> Option<Result<(), Closed>> {
    let Connection { version, stream, proof, rest } = connection;
    let (serial, token) = shared.begin(from, purpose);
    let (read, write) = stream.into_split();
    let (replies, queue) = mpsc::channel(shared.settings.calls_max);
    let reader = FrameReader::new(read, rest, asked);
    let both = async {
        tokio::select! {
            end = take(shared, from, reader, proof, replies) => end,
            end = reply_all(shared, (write, version), answered, queue) => end,
        }
    };
    let end = token.run_until_cancelled(both).await;
    shared.end(from, purpose, serial);
    end
}

async fn take_all(
    shared: &Shared,
    from: NodeId,
    mut reader: FrameReader<ReadHalf>,
    mut proof: Proof,
    replies: mpsc::Sender<Bytes>,
) -> Result<(), Closed> {
    while let Some(frame) = next(shared, &mut reader).await? {
        proof.check(from, &*shared.seams.directory)?;
        if frame.kind == Kind::Raft {
            shared.seams.inbound.raft(from, frame.payload);
            continue;
        }
        let asked = read_request(&frame.payload)?;
        // Every request takes the place of its answer in advance, so that answering never waits.
        let Ok(permit) = replies.clone().try_reserve_owned() else {
            tracing::debug!(?from, asked.id, "too many unanswered requests, this one is dropped");
            continue;
        };
        let reply = asked.reply(permit);
        if let Ok(Request::Join { name, .. }) = &asked.request {
            proof.is_named(name)?;
        }
        match asked.request {
            Ok(request) => shared.seams.inbound.request(Some(from), request, reply),
            Err(error) => {
                tracing::warn!(?from, %error, "a request was not understood");
                reply.not_understood();
            }
        }
    }
    Ok(())
}

/// Returns the next frame of a peer, unless it is silent for too long.
async fn next(
    shared: &Shared,
    reader: &mut FrameReader<ReadHalf>,
) -> Result<Option<Frame>, Closed> {
    let next = tokio::time::timeout(shared.settings.idle_timeout, reader.next()).await;
    next.map_err(|_| Closed::Idle)?.map_err(Closed::from)
}

async fn reply_all(
    shared: &Shared,
    (mut writer, version): (WriteHalf, u8),
    kind: Kind,
    mut queue: mpsc::Receiver<Bytes>,
) -> Result<(), Closed> {
    let mut bytes = BytesMut::new();
    while let Some(reply) = queue.recv().await {
        put_frame(version, kind, &reply, &mut bytes)?;
        socket::write_all(&mut writer, &mut bytes, shared.settings.stall_timeout).await?;
    }
    Ok(())
}

async fn delivery(
    shared: &Arc<Shared>,
    from: NodeId,
    connection: Connection,
) -> Option<Result<(), Closed>> {
    let kinds: &'static [Kind] = &[Kind::Deliver, Kind::Records];
    converse(shared, from, connection, Purpose::Delivery, (kinds, Kind::Delivered), take_batches)
        .await
}

async fn take_batches(
    shared: &Shared,
    from: NodeId,
    mut reader: FrameReader<ReadHalf>,
    mut proof: Proof,
    replies: mpsc::Sender<Bytes>,
) -> Result<(), Closed> {
    while let Some(frame) = next(shared, &mut reader).await? {
        proof.check(from, &*shared.seams.directory)?;
        let kind = frame.kind;
        if kind != Kind::Deliver {
            return Err(ReadError::Unexpected { kind }.into());
        }
        let head = Head::from_bytes(&frame.payload)?;
        let bytes = usize::try_from(head.bytes).unwrap_or(usize::MAX);
        // As with requests, the answer's place is taken in advance.
        let permit = replies.clone().try_reserve_owned().ok();
        let room = u32::try_from(bytes.div_ceil(ROOM_BYTES)).ok();
        let room = room.and_then(|room| shared.room.clone().try_acquire_many_owned(room).ok());
        let (Some(permit), Some(room)) = (permit, room) else {
            let kind = reader.skip().await?;
            if kind != Kind::Records {
                return Err(ReadError::Unexpected { kind }.into());
            }
            tracing::debug!(?from, bytes, "no room for a batch of records");
            // Without a place for its answer it is left unanswered.
            if let Ok(permit) = replies.clone().try_reserve_owned() {
                DeliveryReply::remote(head.id, permit, None).send(Err(SendFault::Busy));
            }
            continue;
        };
        let reply = DeliveryReply::remote(head.id, permit, Some(room));
        let Some(frame) = reader.next_of(bytes).await? else { return Ok(()) };
        if frame.kind != Kind::Records || frame.payload.len() != bytes {
            return Err(DecodeError::Malformed { what: "the records of a batch" }.into());
        }
        let records = decode_records(frame.payload, head.records)?;
        let (partition, epoch, batch) = (head.partition, head.epoch, head.batch(from));
        if let Some(deliveries) = &shared.seams.deliveries {
            deliveries.deliver(Delivery { partition, epoch, batch, records }, reply);
        }
    }
    Ok(())
}

async fn snapshot(shared: &Shared, from: NodeId, connection: Connection) -> Result<(), Closed> {
    let Connection { version, stream, rest, .. } = connection;
    let stall = shared.settings.stall_timeout;
    let mut reader = FrameReader::new(stream, rest, &[Kind::Snapshot]);
    let Some(frame) = reader.next_moving(stall).await? else { return Ok(()) };
    shared.seams.inbound.raft(from, frame.payload);
    let mut taken = BytesMut::new();
    put_frame(version, Kind::SnapshotTaken, &[], &mut taken)?;
    Ok(socket::write_all(reader.io(), &mut taken, stall).await?)
}

async fn join(shared: &Shared, connection: Connection) -> Result<(), Closed> {
    let Connection { version, stream, rest, proof } = connection;
    let stall = shared.settings.stall_timeout;
    let mut reader = FrameReader::new(stream, rest, &[Kind::Request]);
    let Some(frame) = reader.next_moving(stall).await? else { return Ok(()) };
    let asked = read_request(&frame.payload)?;
    let named = match &asked.request {
        Ok(Request::Join { name, .. }) => proof.is_named(name),
        Ok(_) => return Err(Closed::NotAJoin),
        Err(_) => Ok(()),
    };
    let (replies, mut queue) = mpsc::channel(1);
    let permit = replies.try_reserve_owned().expect("the queue was made for this one answer");
    let reply = asked.reply(permit);
    if let Err(fault) = named {
        // Whoever is mistaken learns about what.
        reply.refuse(format!("as node {} sees it, {fault}", shared.identity.node));
        let (reply, mut bytes) = (queue.recv().await.unwrap_or_default(), BytesMut::new());
        put_frame(version, Kind::Answer, &reply, &mut bytes)?;
        socket::write_all(reader.io(), &mut bytes, stall).await?;
        return Err(fault.into());
    }
    shared.seams.inbound.request(None, asked.request?, reply);
    // Ends by the answer, by the sender's drop, or when the joiner hangs up.
    tokio::select! {
        reply = queue.recv() => {
            let mut bytes = BytesMut::new();
            put_frame(version, Kind::Answer, &reply.unwrap_or_default(), &mut bytes)?;
            Ok(socket::write_all(reader.io(), &mut bytes, stall).await?)
        }
        more = reader.next() => more.map(drop).map_err(Closed::from),
    }
}

fn bulk(shared: &Shared, from: NodeId, connection: Connection) -> Result<(), Closed> {
    let Connection { version, stream, rest, .. } = connection;
    let (stream, tls) = match stream {
        Stream::Plain(stream) => (stream, None),
        Stream::Secret(secured) => {
            let (stream, session) = secured.into_session();
            (stream, Some(Box::new(session)))
        }
    };
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    if let Some(bulk) = &shared.seams.bulk {
        bulk.serve(BulkConnection { from, version, stream, tls, first: rest.freeze() });
    }
    Ok(())
}
