//! TLS on the API's listener: who is at the other end, and what that allows.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use tokio::net::TcpStream;

use super::role::{Peer, Role};
use crate::net::stream::Stream;
use crate::tls::{Fault, Secured, Subject, Tls, What, Who};

/// A connection whose other end is known as far as it will ever be.
pub(super) struct Met {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
}

/// Why a connection is not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMet {
    /// There is no TLS handshake, or its certificate is not good enough.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// It took too long.
    #[error("the TLS handshake took too long")]
    TimedOut,
    /// The connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Lets a client in: under TLS, if the node has a certificate.
///
/// A certificate of another cluster, or of nobody, ends the connection: whoever shows it is mistaken
/// about where he is. One without a certificate goes on as somebody who is not known.
pub(super) async fn meet(
    tls: Option<&Tls>,
    stream: TcpStream,
    address: SocketAddr,
    limit: Duration,
) -> Result<Met, NotMet> {
    let peer = Peer { address: Some(address.ip()), ..Peer::default() };
    let Some(tls) = tls else { return Ok(Met { stream: Stream::Plain(stream), peer }) };
    let accepted = tokio::time::timeout(limit, tls.accept_client(stream)).await;
    let secured = accepted.map_err(|_| NotMet::TimedOut)??;
    let peer = Peer { encrypted: true, ..peer };
    let peer = if secured.has_certificate() { known(tls, &secured, peer)? } else { peer };
    Ok(Met { stream: Stream::Secret(Box::new(secured)), peer })
}

/// Says what a certificate allows. Another node may do what an admin may: it can change the replicated
/// state by itself, and asks on behalf of those whom it has let in.
fn known(tls: &Tls, secured: &Secured, peer: Peer) -> Result<Peer, Fault> {
    let own = tls.certificate().subject;
    let Subject { cluster, who } = secured.subject()?;
    if cluster != own.cluster {
        return Err(Fault {
            is_told: false,
            what: What::WrongCluster { found: cluster, ours: own.cluster },
        });
    }
    let called = secured.called();
    let (certificate, role) = match who {
        Who::Node(name) => (format!("node {name}"), Some(Role::Admin)),
        Who::Role(role) => (called.unwrap_or_else(|| role.to_string()), role.as_str().parse().ok()),
    };
    Ok(Peer { certificate: Some(certificate), role, ..peer })
}

/// Has an answer point to where other nodes speak TLS as well.
pub(super) fn point_to_https(headers: &mut HeaderMap) {
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    let secret = location
        .and_then(|location| location.strip_prefix("http://"))
        .and_then(|rest| HeaderValue::try_from(format!("https://{rest}")).ok());
    if let Some(secret) = secret {
        headers.insert(header::LOCATION, secret);
    }
}
