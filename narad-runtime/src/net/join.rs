//! The joiner's side: one request to be admitted, before there is an id to transport with.

use std::time::Duration;

use bytes::BytesMut;
use narad_core::ids::{NodeId, StoreUuid};
use narad_core::peer::{Answer, Request};
use tokio::time::timeout;

use super::call::{CallError, read_reply, request_payload};
use super::codec::{FrameReader, put_frame};
use super::greet::{GreetError, Greeted, greet, secure};
use super::{Settings, socket};
use crate::tls::Tls;
use crate::wire::frame::Kind;
use crate::wire::handshake::{ClusterId, Hello, Purpose, VERSION_MAX, VERSION_MIN};

/// A node that has no id yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joiner {
    /// The cluster that it must be, if it knows one.
    pub cluster: Option<ClusterId>,
    /// The identity of its disk.
    pub store_uuid: StoreUuid,
}

/// What a joiner learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The cluster that answered.
    pub cluster: ClusterId,
    /// The member that answered.
    pub by: NodeId,
    /// Its answer; may well be a refusal.
    pub answer: Answer,
}

/// Asks the member at an address to be admitted, under TLS if the joiner has a certificate.
///
/// # Errors
///
/// [`CallError::NotGreeted`], [`CallError::Tls`] and [`CallError::Refused`] if it was not admitted; with any
/// other error the joiner may be a member by now, and asks again with the same store uuid.
pub async fn join(
    address: &str,
    joiner: Joiner,
    request: &Request,
    limit: Duration,
    tls: Option<&Tls>,
) -> Result<Joined, CallError> {
    timeout(limit, ask(address, joiner, request, tls)).await.map_err(|_| CallError::TimedOut)?
}

async fn ask(
    address: &str,
    joiner: Joiner,
    request: &Request,
    tls: Option<&Tls>,
) -> Result<Joined, CallError> {
    let settings = Settings::default();
    let hello = Hello {
        versions: (u32::from(VERSION_MIN), u32::from(VERSION_MAX)),
        cluster: joiner.cluster,
        node: None,
        store_uuid: joiner.store_uuid,
        purpose: Purpose::Join,
        listens_at: None,
    };
    let stream = socket::dial(address, settings.connect_timeout)
        .await
        .map_err(|error| CallError::NotGreeted(error.to_string()))?;
    let limit = settings.handshake_timeout;
    let greeted = async {
        let (stream, proof) = secure(tls, stream, limit).await?;
        greet(stream, proof, &hello, limit).await
    };
    let (Greeted { stream, rest, .. }, accepted) = greeted.await.map_err(|error| match error {
        GreetError::Refused(refused) => CallError::Refused(refused),
        GreetError::Tls(fault) => CallError::Tls(fault),
        other => CallError::NotGreeted(other.to_string()),
    })?;
    let mut reader = FrameReader::new(stream, rest, &[Kind::Answer]);
    let mut out = BytesMut::new();
    put_frame(accepted.version, Kind::Request, &request_payload(0, request, None), &mut out)
        .map_err(|_| CallError::TooLong)?;
    socket::write_all(reader.io(), &mut out, settings.stall_timeout)
        .await
        .map_err(|_| CallError::Closed)?;
    let frame = reader.next().await.map_err(|_| CallError::Closed)?.ok_or(CallError::Closed)?;
    let (_, outcome) = read_reply(frame.payload).map_err(|_| CallError::Malformed)?;
    Ok(Joined { cluster: accepted.cluster, by: accepted.node, answer: outcome?.answer })
}
