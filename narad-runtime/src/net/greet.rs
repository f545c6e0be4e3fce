//! The handshake, from both sides.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use narad_core::ids::NodeId;
use tokio::time::timeout;

use super::Directory;
use super::codec::{FrameReader, ReadError, put_frame};
use super::socket::{self, TcpStream};
use super::transport::Identity;
use crate::wire::frame::Kind;
use crate::wire::handshake::{
    Accepted, HANDSHAKE_VERSION, Hello, Purpose, Refused, VERSION_MAX, VERSION_MIN, Welcome, Why,
};
use crate::wire::{DecodeError, Wire};

/// Why a handshake did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    /// The peer could not be dialled, or the connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What came is no handshake.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// What came is no handshake of Narad.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The peer ended the connection.
    #[error("the peer ended the connection during the handshake")]
    Ended,
    /// The peer said nothing for too long.
    #[error("the handshake took too long")]
    TimedOut,
    /// The acceptor refused.
    #[error("refused: {0}")]
    Refused(Refused),
    /// Another node answers at that address (field fault 56).
    #[error("{found:?} answers at the address of {expected:?}, or it has another disk")]
    WrongNode {
        /// Who should.
        expected: NodeId,
        /// Who does.
        found: NodeId,
    },
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Greeted {
    /// The connection.
    pub(crate) stream: TcpStream,
    /// Bytes that came after the handshake.
    pub(crate) rest: BytesMut,
}

/// Says who we are, and hears who answers.
pub(crate) async fn greet(
    stream: TcpStream,
    hello: &Hello,
    limit: Duration,
) -> Result<(Greeted, Accepted), GreetError> {
    timeout(limit, async {
        let mut reader = FrameReader::new(stream, BytesMut::new(), &[Kind::Welcome]);
        write(reader.io(), Kind::Hello, &hello.to_bytes(), limit).await?;
        let frame = reader.next().await?.ok_or(GreetError::Ended)?;
        match Welcome::from_bytes(&frame.payload)? {
            Welcome::Accepted(accepted) => {
                let (stream, rest) = reader.into_parts();
                Ok((Greeted { stream, rest }, accepted))
            }
            Welcome::Refused(refused) => Err(GreetError::Refused(refused)),
        }
    })
    .await
    .map_err(|_| GreetError::TimedOut)?
}

/// Checks that the acceptor is the node that was dialled, with the disk that it is known by.
pub(crate) fn check_acceptor(
    accepted: &Accepted,
    expected: NodeId,
    identity: &Identity,
    directory: &dyn Directory,
) -> Result<(), GreetError> {
    let known = accepted.node == expected
        && accepted.cluster == identity.cluster
        && directory.admits(accepted.node, accepted.store_uuid);
    if known { Ok(()) } else { Err(GreetError::WrongNode { expected, found: accepted.node }) }
}

/// Hears who dials. The caller decides, and answers by [`accept`] or [`refuse`].
pub(crate) async fn hear(
    reader: &mut FrameReader<TcpStream>,
) -> Result<Result<Hello, Refused>, GreetError> {
    let frame = reader.next().await?.ok_or(GreetError::Ended)?;
    match Hello::from_bytes(&frame.payload) {
        Ok(hello) => Ok(Ok(hello)),
        Err(error @ DecodeError::Unknown { .. }) => Ok(Err(Refused {
            why: Why::UnknownPurpose,
            message: format!("{error}; upgrade this node first"),
        })),
        Err(error) => Err(error.into()),
    }
}

/// Judges a dialer by what it said.
pub(crate) fn judge(
    hello: &Hello,
    identity: &Identity,
    directory: &dyn Directory,
) -> Result<Accepted, Refused> {
    let refused = |why, message| Err(Refused { why, message });
    let Some(version) = hello.version() else {
        let (oldest, newest) = hello.versions;
        return refused(
            Why::VersionMismatch,
            format!(
                "the dialer speaks protocol versions {oldest} to {newest}, this node \
                 {VERSION_MIN} to {VERSION_MAX}: bring both to builds that overlap"
            ),
        );
    };
    let joins = hello.purpose == Purpose::Join;
    match hello.cluster {
        Some(cluster) if cluster != identity.cluster => {
            return refused(
                Why::WrongCluster,
                format!(
                    "the dialer belongs to cluster {cluster}, this node to {}: check its peer \
                     addresses and its data directory",
                    identity.cluster
                ),
            );
        }
        None if !joins => {
            return refused(
                Why::WrongCluster,
                "the dialer names no cluster: it must join first".to_owned(),
            );
        }
        Some(_) | None => {}
    }
    let known = hello.node.is_some_and(|node| directory.admits(node, hello.store_uuid));
    if !joins && !known {
        let who = hello.node.map_or_else(
            || "a node without an id".to_owned(),
            |node| format!("node {node} with data directory {}", hello.store_uuid),
        );
        return refused(
            Why::UnknownNode,
            format!(
                "this node knows no {who}: if its disk was replaced it must join as a new node, \
                 if it has just joined it should try again"
            ),
        );
    }
    Ok(Accepted {
        version,
        node: identity.node,
        cluster: identity.cluster,
        store_uuid: identity.store_uuid,
    })
}

/// Answers that the connection stands.
pub(crate) async fn accept(
    stream: &mut TcpStream,
    accepted: Accepted,
    limit: Duration,
) -> io::Result<()> {
    let welcome = Welcome::Accepted(accepted);
    write(stream, Kind::Welcome, &welcome.to_bytes(), limit).await
}

/// Answers why the connection does not stand.
pub(crate) async fn refuse(
    stream: &mut TcpStream,
    refused: &Refused,
    limit: Duration,
) -> io::Result<()> {
    let welcome = Welcome::Refused(refused.clone());
    write(stream, Kind::Welcome, &welcome.to_bytes(), limit).await
}

async fn write(
    stream: &mut TcpStream,
    kind: Kind,
    payload: &[u8],
    limit: Duration,
) -> io::Result<()> {
    let mut out = BytesMut::new();
    put_frame(HANDSHAKE_VERSION, kind, payload, &mut out).expect("handshakes are short");
    socket::write_all(stream, &mut out, limit).await
}
