//! Who this node is: read from its data directory, founded, or asked for.

use std::net::SocketAddr;

use narad_core::config::Policy;
use narad_core::ids::{Name, NodeId, StoreUuid};
use narad_core::metastore::{Addresses, Reason};
use narad_core::peer::{Answer, Refusal, Request};

use super::{Server, ServerError, Start, draw_cluster};
use crate::net::{Joiner, join};
use crate::store::data_dir::DataDir;
use crate::tls::Tls;
use crate::wire::handshake::ClusterId;

/// A node that has an id.
pub(super) struct Admitted {
    pub(super) node: NodeId,
    pub(super) cluster: ClusterId,
    pub(super) store_uuid: StoreUuid,
    /// Whether it is the first member of its cluster, and may not have said so yet.
    pub(super) founder: bool,
    /// Where other members listen, as far as this node has been told.
    pub(super) peers: Vec<(NodeId, Addresses)>,
}

/// Finds out who this node is; asks to be admitted if it is nobody yet.
pub(super) async fn admit(
    data_dir: &mut DataDir,
    name: &Name,
    addrs: &Addresses,
    listens: Option<SocketAddr>,
    policy: &Policy,
    start: &Start,
    tls: Option<&Tls>,
) -> Result<Admitted, ServerError> {
    let identity = data_dir.identity();
    let store_uuid = identity.store;
    if let (Some(node), Some(cluster)) = (identity.node, identity.cluster) {
        let cluster = ClusterId(cluster);
        // The first member is the founder for ever; being it again changes nothing.
        let founder = node == FOUNDER;
        let peers = super::book::load(data_dir);
        return Ok(Admitted { node, cluster, store_uuid, founder, peers });
    }
    match start {
        Start::Resume => Err(ServerError::New),
        Start::Bootstrap => {
            let cluster = draw_cluster();
            data_dir.join(cluster.0, FOUNDER)?;
            let node = FOUNDER;
            Ok(Admitted { node, cluster, store_uuid, founder: true, peers: Vec::new() })
        }
        Start::Join(addresses) => {
            if let Some(address) = addresses.iter().find(|address| is_own(address, addrs, listens))
            {
                return Err(ServerError::JoinsItself { address: address.clone() });
            }
            let Answered { node, cluster, peers, policy: agreed } =
                ask(addresses, name, store_uuid, addrs, tls).await?;
            // Before it takes any part: a cluster gives a node that has caught up a vote, and then
            // needs it.
            super::check_policy(policy, &agreed)?;
            data_dir.join(cluster.0, node)?;
            super::book::save(data_dir, &peers);
            Ok(Admitted { node, cluster, store_uuid, founder: false, peers })
        }
    }
}

/// Whether whoever would be asked there is this node.
fn is_own(address: &str, addrs: &Addresses, listens: Option<SocketAddr>) -> bool {
    let is_there = |found: SocketAddr| {
        listens.is_some_and(|own| {
            let everywhere = own.ip().is_unspecified() && found.ip().is_loopback();
            own.port() == found.port() && (own.ip() == found.ip() || everywhere)
        })
    };
    *address == addrs.peer || address.parse().is_ok_and(is_there)
}

/// The id that a new cluster gives to its first member.
const FOUNDER: NodeId = NodeId(1);

/// What a node that was admitted is told.
struct Answered {
    node: NodeId,
    cluster: ClusterId,
    peers: Vec<(NodeId, Addresses)>,
    policy: Policy,
}

/// Asks members to be admitted, one after the other and over again: asking twice is harmless, and
/// a cluster that elects a leader answers a moment later.
async fn ask(
    addresses: &[String],
    name: &Name,
    store_uuid: StoreUuid,
    addrs: &Addresses,
    tls: Option<&Tls>,
) -> Result<Answered, ServerError> {
    const ROUNDS: usize = 6;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);
    let request = Request::Join { name: name.clone(), store_uuid, addrs: addrs.clone() };
    let joiner = Joiner { cluster: None, store_uuid };
    let mut reason = "nobody was asked".to_owned();
    for round in 0..ROUNDS {
        if round > 0 {
            tracing::info!(reason, "not admitted yet; asking again");
            tokio::time::sleep(PAUSE).await;
        }
        for address in addresses {
            if round == 0 {
                tracing::info!(%name, address, "asking to join the cluster");
            }
            match join(address, joiner, &request, Server::ADMISSION_TIMEOUT, tls).await {
                Ok(reply) => match reply.answer {
                    Answer::Joined { node, peers, policy } => {
                        return Ok(Answered { node, cluster: reply.cluster, peers, policy });
                    }
                    Answer::Refused(Refusal::NotAdmitted(Reason::NameTaken)) => {
                        return Err(ServerError::NameTaken { name: name.to_string() });
                    }
                    Answer::Refused(refusal @ Refusal::NotAdmitted(_)) => {
                        let addresses = addresses.to_vec();
                        let reason = refusal.to_string();
                        return Err(ServerError::NotAdmitted { addresses, reason });
                    }
                    Answer::Refused(refusal) => reason = refusal.to_string(),
                    _ => "the answer was none to this question".clone_into(&mut reason),
                },
                Err(error) => reason = format!("{address}: {error}"),
            }
        }
    }
    Err(ServerError::NotAdmitted { addresses: addresses.to_vec(), reason })
}
