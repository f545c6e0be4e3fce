//! The handshake, from both sides.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use narad_core::ids::NodeId;
use tokio::time::timeout;

use super::Directory;
use super::codec::{FrameReader, ReadError, put_frame};
use super::proof::Proof;
use super::socket::{self, TcpStream};
use super::stream::Stream;
use super::transport::Identity;
use crate::tls::{Fault, Tls, What};
use crate::wire::frame::{Frame, FrameError, Kind};
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
    Read(ReadError),
    /// The peer's certificate, or this node's, is not good enough.
    #[error("{0}")]
    Tls(#[from] Fault),
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

impl GreetError {
    /// Says it in one word, for counting.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Io(_) | Self::Ended => "ended",
            Self::Read(_) | Self::Decode(_) => "malformed",
            Self::Tls(fault) => fault.word(),
            Self::TimedOut => "slow",
            Self::Refused(refused) => refused.why.word(),
            Self::WrongNode { .. } => "wrong_node",
        }
    }
}

impl From<ReadError> for GreetError {
    fn from(error: ReadError) -> Self {
        // Under TLS 1.3, a dialer learns only with the first answer that it was refused.
        match &error {
            ReadError::Io(cause) => Fault::find(cause).map_or(Self::Read(error), Self::Tls),
            _ => Self::Read(error),
        }
    }
}

/// A connection that has been greeted.
#[derive(Debug)]
pub(crate) struct Greeted {
    /// The connection.
    pub(crate) stream: Stream,
    /// Whom its certificate names.
    pub(crate) proof: Proof,
    /// Bytes that came after the handshake.
    pub(crate) rest: BytesMut,
}

/// Puts a dialled connection under TLS, if this node has a certificate.
pub(crate) async fn secure(
    tls: Option<&Tls>,
    stream: TcpStream,
    limit: Duration,
) -> Result<(Stream, Proof), GreetError> {
    let stream = match tls {
        None => Stream::Plain(stream),
        Some(tls) => {
            let dialled = timeout(limit, tls.dial_peer(stream)).await;
            Stream::Secret(Box::new(dialled.map_err(|_| GreetError::TimedOut)??))
        }
    };
    let proof = Proof::of(tls, &stream)?;
    Ok((stream, proof))
}

/// Says who we are, and hears who answers.
pub(crate) async fn greet(
    stream: Stream,
    proof: Proof,
    hello: &Hello,
    limit: Duration,
) -> Result<(Greeted, Accepted), GreetError> {
    timeout(limit, async {
        let mut reader = FrameReader::new(stream, BytesMut::new(), &[Kind::Welcome]);
        write(reader.io(), Kind::Hello, &hello.to_bytes(), limit).await?;
        let frame = first(&mut reader).await?;
        match Welcome::from_bytes(&frame.payload)? {
            Welcome::Accepted(accepted) => {
                let (stream, rest) = reader.into_parts();
                Ok((Greeted { stream, proof, rest }, accepted))
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
    proof: &mut Proof,
    expected: NodeId,
    identity: &Identity,
    directory: &dyn Directory,
) -> Result<(), GreetError> {
    proof.check(accepted.node, directory)?;
    let known = accepted.node == expected
        && accepted.cluster == identity.cluster
        && directory.admits(accepted.node, accepted.store_uuid);
    if known { Ok(()) } else { Err(GreetError::WrongNode { expected, found: accepted.node }) }
}

/// Hears who dials. The caller decides, and answers by [`accept`] or [`refuse`].
pub(crate) async fn hear(
    reader: &mut FrameReader<Stream>,
) -> Result<Result<Hello, Refused>, GreetError> {
    let frame = first(reader).await?;
    match Hello::from_bytes(&frame.payload) {
        Ok(hello) => Ok(Ok(hello)),
        Err(error @ DecodeError::Unknown { .. }) => Ok(Err(Refused {
            why: Why::UnknownPurpose,
            message: format!("{error}; upgrade this node first"),
        })),
        Err(error) => Err(error.into()),
    }
}

/// Reads the first frame of a connection.
async fn first(reader: &mut FrameReader<Stream>) -> Result<Frame, GreetError> {
    match reader.next().await {
        Ok(frame) => frame.ok_or(GreetError::Ended),
        // A record of TLS where a frame should be: a greeting, or an alert.
        Err(ReadError::Frame(FrameError::UnknownVersion { .. }))
            if matches!(reader.io(), Stream::Plain(_)) && reader.begins_with_tls() =>
        {
            Err(Fault::theirs(What::NotTls).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Judges a dialer by what it said, and by the certificate that it showed.
pub(crate) fn judge(
    hello: &Hello,
    proof: &mut Result<Proof, Fault>,
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
    let proven = proof.as_mut().map_err(|fault| fault.clone()).and_then(|proof| match hello.node {
        Some(node) => proof.check(node, directory),
        None => Ok(()),
    });
    if let Err(fault) = proven {
        let why = match fault.what {
            What::WrongCluster { .. } => Why::WrongCluster,
            _ => Why::WrongIdentity,
        };
        return refused(why, format!("as {} sees it, {fault}", identity.node));
    }
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
    if let Some(node) = hello.node.filter(|node| directory.is_out(*node)) {
        return refused(
            Why::TakenOut,
            format!(
                "node {node} was taken out of this cluster for good: stop it; to come back it joins \
                 with an empty data directory, as a new node"
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
    stream: &mut Stream,
    accepted: Accepted,
    limit: Duration,
) -> io::Result<()> {
    let welcome = Welcome::Accepted(accepted);
    write(stream, Kind::Welcome, &welcome.to_bytes(), limit).await
}

/// Answers why the connection does not stand.
pub(crate) async fn refuse(
    stream: &mut Stream,
    refused: &Refused,
    limit: Duration,
) -> io::Result<()> {
    let welcome = Welcome::Refused(refused.clone());
    write(stream, Kind::Welcome, &welcome.to_bytes(), limit).await
}

async fn write(stream: &mut Stream, kind: Kind, payload: &[u8], limit: Duration) -> io::Result<()> {
    let mut out = BytesMut::new();
    put_frame(HANDSHAKE_VERSION, kind, payload, &mut out).expect("handshakes are short");
    socket::write_all(stream, &mut out, limit).await
}
