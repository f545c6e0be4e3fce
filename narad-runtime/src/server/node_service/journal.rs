//! What the mover of a partition was told, as text that a simulator drives it by.

use narad_core::ids::PartitionId;
use narad_core::mover::journal::{Beginning, Journal};
use narad_core::node::Node;
use serde::Serialize;

use super::salvage::client;
use super::{NodeService, blocking};
use crate::service::{Read, ServiceError};

/// How long another node may take to hand its journal over.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The first line.
#[derive(Serialize)]
struct Head<'a> {
    /// The version of the format.
    narad_journal: u32,
    partition: String,
    node: &'a str,
    left_out: u64,
    beginning: &'a Beginning,
}

/// What this node knows of the journal of a partition.
struct Found {
    journal: Option<Journal>,
    me: String,
    /// Where it is, if it is anywhere: the destination, or who has owned it since.
    elsewhere: Option<String>,
}

impl NodeService {
    /// Returns the newest journal of moves of a partition, one JSON object a line; with
    /// [`Read::Stale`] this node's own only.
    pub(super) async fn journal_text(
        &self,
        topic: &str,
        index: u32,
        read: Read,
    ) -> Result<String, ServiceError> {
        let partition = self.place(topic, index).await?.partition;
        let Found { journal, me, elsewhere } =
            self.look(Read::Stale, move |node| find(node, partition)).await?;
        let name = format!("{topic}/{index}");
        if let Some(journal) = journal {
            return blocking(move || text(&journal, name, &me)).await;
        }
        match elsewhere.filter(|_| read == Read::Barrier) {
            Some(addr) => {
                let Some(client) = client(&addr, PATIENCE, self.tls()) else {
                    return Err(ServiceError::Internal(format!("{addr} is no address")));
                };
                let told = client.journal(topic, index, Read::Stale).await;
                told.map_err(|error| ServiceError::Rejected(error.to_string()))
            }
            None => Err(ServiceError::Rejected(format!(
                "{me} has no journal of {name}: destinations keep those of their last moves until \
                 they restart"
            ))),
        }
    }
}

fn find(node: &Node, partition: PartitionId) -> Found {
    let (state, me) = (node.state(), node.identity());
    let keeper = state.assignment(partition).map(|row| row.target.unwrap_or(row.owner));
    let keeper = keeper.filter(|keeper| *keeper != me.node);
    let member = keeper.and_then(|keeper| state.member(keeper));
    Found {
        journal: node.journal(partition).cloned(),
        me: me.name.to_string(),
        elsewhere: member.map(|member| member.addrs.http.clone()),
    }
}

fn text(journal: &Journal, partition: String, node: &str) -> String {
    let Journal { beginning, entries, left_out, .. } = journal;
    let head = Head { narad_journal: 1, partition, node, left_out: *left_out, beginning };
    let line = |value: serde_json::Result<String>| value.expect("they have text keys only") + "\n";
    let mut text = line(serde_json::to_string(&head));
    for entry in entries {
        text.push_str(&line(serde_json::to_string(entry)));
    }
    text
}
