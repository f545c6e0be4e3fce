//! Who the other members are and where they listen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use narad_core::ids::{Name, NodeId, StoreUuid};
use narad_core::metastore::{Addresses, State};
use narad_core::node::{News, Node};
use narad_core::peer::{Answer, Request};

use super::history::History;
use super::rates::Rates;
use super::topics::Topics;
use crate::disk::{read_whole, write_atomically};
use crate::net::{Directory, Transport};
use crate::node_loop::{NodeHandle, Watcher};
use crate::store::data_dir::DataDir;

/// The file in which a node remembers where others listen, for the time before its replica knows:
/// a line a member, `id address`.
const FILE: &str = "peers";

/// Longest file of that kind, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The members, as the replica or the file knows them.
#[derive(Debug)]
pub(super) struct Book {
    members: RwLock<BTreeMap<NodeId, Entry>>,
    /// Where nodes have said themselves that they listen.
    heard: RwLock<BTreeMap<NodeId, String>>,
    /// Whether a member has said that this node was taken out.
    told_out: AtomicBool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// `None` until the replica has said it.
    name: Option<Name>,
    peer: String,
    /// `None` until the replica has said it.
    store_uuid: Option<StoreUuid>,
    /// Whether it was taken out, and has no vote any more either.
    out: bool,
}

impl Book {
    pub(super) fn new(peers: Vec<(NodeId, Addresses)>) -> Self {
        let entry = |(node, addrs): (NodeId, Addresses)| {
            (node, Entry { name: None, peer: addrs.peer, store_uuid: None, out: false })
        };
        let members = RwLock::new(peers.into_iter().map(entry).collect());
        Self { members, heard: RwLock::default(), told_out: AtomicBool::new(false) }
    }

    /// Takes over what the replicated state says; returns whether anything was new.
    pub(super) fn learn(&self, state: &State) -> bool {
        let known = state.members().map(|member| {
            let out = member.retired && !state.configuration().contains(member.id);
            let peer = member.addrs.peer.clone();
            let (name, store_uuid) = (Some(member.name.clone()), Some(member.store_uuid));
            (member.id, Entry { name, peer, store_uuid, out })
        });
        let known: BTreeMap<NodeId, Entry> = known.collect();
        let mut members = self.members.write().unwrap_or_else(PoisonError::into_inner);
        // A replica that has heard nothing yet knows less than the file.
        let news = !known.is_empty() && *members != known;
        if news {
            *members = known;
        }
        news
    }

    /// Whether a member has said that this node was taken out.
    pub(super) fn is_told_out(&self) -> bool {
        self.told_out.load(Ordering::Acquire)
    }

    /// Takes note that this node takes part: whoever said otherwise is mistaken, or was too early.
    pub(super) fn takes_part(&self) {
        self.told_out.store(false, Ordering::Release);
    }

    /// Whether some member is thought to listen there.
    fn lists(&self, address: &str) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.values().any(|entry| entry.peer == address)
    }

    fn peers(&self) -> Vec<(NodeId, Addresses)> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let addrs = |entry: &Entry| Addresses { peer: entry.peer.clone(), http: String::new() };
        members.iter().map(|(node, entry)| (*node, addrs(entry))).collect()
    }
}

/// What is said of a node that a member has told so.
pub(super) const TOLD_OUT: &str = "a member says that this node was removed from the cluster: see there, \
                                   then it can be stopped and wiped";

impl Directory for Book {
    fn address(&self, node: NodeId) -> Option<String> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.get(&node).map(|entry| entry.peer.clone())
    }

    fn name(&self, node: NodeId) -> Option<String> {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        Some(members.get(&node)?.name.as_ref()?.to_string())
    }

    fn is_out(&self, node: NodeId) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        members.get(&node).is_some_and(|entry| entry.out)
    }

    fn told_out(&self) {
        if !self.told_out.swap(true, Ordering::AcqRel) {
            tracing::warn!("{TOLD_OUT}");
        }
    }

    fn heard(&self, node: NodeId, address: &str) {
        if crate::settings::address(address).is_err() {
            tracing::warn!(%node, address, "a node says it listens at what is no address");
            return;
        }
        let mut heard = self.heard.write().unwrap_or_else(PoisonError::into_inner);
        heard.insert(node, address.to_owned());
    }

    fn heard_at(&self, node: NodeId) -> Option<String> {
        let heard = self.heard.read().unwrap_or_else(PoisonError::into_inner);
        heard.get(&node).cloned()
    }

    fn admits(&self, node: NodeId, store_uuid: StoreUuid) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        match members.get(&node) {
            Some(entry) => entry.store_uuid.is_none_or(|known| known == store_uuid),
            // Before the replica has said anything, whoever knows the cluster's id may be one of
            // those who will tell it.
            None => members.values().all(|entry| entry.store_uuid.is_none()),
        }
    }
}

/// Keeps the book, the topics, the file, the throttle and the history in line with the replicated
/// state.
pub(super) struct Clerk {
    book: Arc<Book>,
    topics: Arc<Topics>,
    rates: Rates,
    history: Arc<History>,
    data_dir: Arc<Mutex<DataDir>>,
    /// What it has seen; none until it has seen anything.
    seen: Option<News>,
}

impl Clerk {
    pub(super) const fn new(
        book: Arc<Book>,
        topics: Arc<Topics>,
        rates: Rates,
        history: Arc<History>,
        data_dir: Arc<Mutex<DataDir>>,
    ) -> Self {
        Self { book, topics, rates, history, data_dir, seen: None }
    }
}

impl Watcher for Clerk {
    fn changed(&mut self, node: &Node) {
        let (state, news) = (node.state(), node.news());
        // Most entries are about moves: they cost nothing here, however many topics there are.
        let is_new = |of: fn(&News) -> u64| self.seen.as_ref().map(of) != Some(of(&news));
        let (topics, members) = (is_new(|news| news.topics), is_new(|news| news.members));
        self.seen = Some(news);
        if topics {
            self.topics.learn(state);
        }
        if members && self.book.learn(state) {
            let data_dir = self.data_dir.lock().unwrap_or_else(PoisonError::into_inner);
            save(&data_dir, &self.book.peers());
        }
        if node.is_registered() {
            self.book.takes_part();
        }
        self.rates.follow(state);
        self.history.changed(node);
    }
}

/// Lets the others know where this node listens until it has registered that: whoever leads may
/// look for it elsewhere. Looks for members at `addresses` too, where the operator says that they
/// are: if all have moved, none of them is where the others remember it. Asks `again` to be
/// admitted, which changes nothing for a member, and tells it where the others are: the leader may
/// be one that has moved, too.
pub(super) async fn announce(
    mut addresses: Vec<String>,
    again: Request,
    book: Arc<Book>,
    transport: Arc<Transport>,
    handle: NodeHandle,
) {
    const PAUSE: Duration = Duration::from_secs(1);
    addresses.retain(|address| !book.lists(address));
    // Ends with the node, too.
    while let Ok(false) = handle.query(Node::is_registered).await {
        for address in std::mem::take(&mut addresses) {
            match transport.meet(&address).await {
                Ok(node) => tracing::info!(%node, address, "found a member"),
                Err(reason) => {
                    tracing::debug!(address, reason, "no member was found there");
                    addresses.push(address);
                }
            }
        }
        let peers = book.peers();
        for &(node, _) in &peers {
            transport.open(node);
        }
        tokio::time::sleep(PAUSE).await;
        if !matches!(handle.query(Node::is_registered).await, Ok(false)) {
            return;
        }
        let told = peers.iter().map(|&(node, _)| transport.call(node, &again, PAUSE));
        for answer in join_all(told).await {
            let Ok(Answer::Joined { peers, .. }) = answer else { continue };
            for (node, addrs) in peers {
                book.heard(node, &addrs.peer);
            }
        }
    }
}

/// Remembers where others listen. A failure costs nothing but time after a restart.
pub(super) fn save(data_dir: &DataDir, peers: &[(NodeId, Addresses)]) {
    let line = |(node, addrs): &(NodeId, Addresses)| format!("{node} {}\n", addrs.peer);
    let text: String = peers.iter().map(line).collect();
    if let Err(error) = write_atomically(&*data_dir.disk(), Path::new(FILE), text.as_bytes()) {
        tracing::warn!(%error, "cannot remember where other nodes listen");
    }
}

/// Returns where others listened when it was last written down; lines that say nothing are left
/// out.
pub(super) fn load(data_dir: &DataDir) -> Vec<(NodeId, Addresses)> {
    let read = read_whole(&*data_dir.disk(), Path::new(FILE), FILE_BYTES_MAX);
    let bytes = read.inspect_err(|error| tracing::warn!(%error, "cannot read the peers file"));
    let Ok(Some(bytes)) = bytes else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let entry = |line: &str| {
        let (node, peer) = line.split_once(' ')?;
        let addrs = Addresses { peer: peer.trim().to_owned(), http: String::new() };
        Some((NodeId(node.parse().ok()?), addrs))
    };
    text.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A leader that lags may say it of a node that has joined since: what the node itself finds in the
    /// log counts for more.
    #[test]
    fn a_word_that_this_node_is_out_counts_until_it_takes_part() {
        let book = Book::new(Vec::new());
        assert!(!book.is_told_out());
        book.told_out();
        book.told_out();
        assert!(book.is_told_out());
        book.takes_part();
        assert!(!book.is_told_out());
        book.told_out();
        assert!(book.is_told_out(), "once more");
    }
}
