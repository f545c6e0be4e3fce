//! Follows the metastore: folds what it shows, tells the node, and sees to it that somebody leads.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use narad_core::ids::{LogIndex, NodeId, PartitionId};
use narad_core::metastore::Configuration;
use narad_core::node::Event;
use narad_core::time::Instant;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ledger::{Folded, Ledger, LedgerError, Record};
use super::metastore::{COMPACT_EVERY, Metastore, Update};
use super::peer::Whom;
use crate::clock::Clock;
use crate::node_loop::{Letter, Mailbox};

/// What a node knows of the metastore, for all its tasks.
#[derive(Debug)]
pub(super) struct Shared {
    clock: Arc<dyn Clock>,
    ledger: RwLock<Ledger>,
    /// How far the node was told.
    told: watch::Sender<LogIndex>,
    /// When the leader answered last.
    heard: Mutex<Option<Instant>>,
    /// Why nothing more can be folded.
    failed: Mutex<Option<LedgerError>>,
    patience: Duration,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, patience: Duration) -> Self {
        let (ledger, told) = (RwLock::new(Ledger::new()), watch::Sender::new(LogIndex(0)));
        Self { clock, ledger, told, heard: Mutex::default(), failed: Mutex::default(), patience }
    }

    pub(super) fn ledger(&self) -> RwLockReadGuard<'_, Ledger> {
        self.ledger.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn members(&self) -> Vec<NodeId> {
        self.ledger().state().members().map(|member| member.id).collect()
    }

    pub(super) fn configuration(&self) -> Configuration {
        self.ledger().state().configuration().clone()
    }

    pub(super) fn led_since(&self) -> LogIndex {
        self.ledger().led_since()
    }

    pub(super) fn owner(&self, partition: PartitionId) -> Option<NodeId> {
        Some(self.ledger().state().assignment(partition)?.owner)
    }

    pub(super) fn whom(&self, node: NodeId) -> Option<Whom> {
        let ledger = self.ledger();
        let member = ledger.state().member(node)?;
        let (name, address) = (member.name.clone(), member.addrs.peer.clone());
        Some(Whom { node, name, address })
    }

    /// Returns at how many bytes per second this node may copy; 0 is unlimited.
    pub(super) fn copy_rate(&self, me: NodeId) -> u64 {
        let ledger = self.ledger();
        let (state, policy) = (ledger.state(), ledger.state().policy());
        let arriving = policy.copy_in_rate(state.inbound_count(me), state.targeted().len());
        let limits = [policy.copy_rate_bytes_per_second, arriving];
        limits.into_iter().filter(|rate| *rate > 0).min().unwrap_or(0)
    }

    /// Hears from a node.
    pub(super) fn heard(&self, from: NodeId) {
        if self.ledger().leader() == Some(from) {
            let now = self.clock.now();
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
    }

    pub(super) fn failed(&self) -> Option<LedgerError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Passes a barrier: when it returns, the node was told everything that was decided before.
    pub(super) async fn barrier(&self, metastore: &dyn Metastore) -> Option<LogIndex> {
        let index = tokio::time::timeout(self.patience, metastore.barrier()).await.ok()??;
        self.reached(index).await.then_some(index)
    }

    /// Passes a barrier on behalf of the machines: without a leader there is nobody to propose to, so
    /// nothing is to begin.
    pub(super) async fn barrier_with_leader(&self, metastore: &dyn Metastore) -> Option<LogIndex> {
        self.ledger().leader()?;
        self.barrier(metastore).await
    }

    /// Waits until the node was told a record. False if that takes too long.
    pub(super) async fn reached(&self, index: LogIndex) -> bool {
        let mut told = self.told.subscribe();
        let reached = told.wait_for(|told| *told >= index);
        tokio::time::timeout(self.patience, reached).await.is_ok_and(|reached| reached.is_ok())
    }

    /// Is told whenever the node was told something.
    pub(super) fn subscribe(&self) -> watch::Receiver<LogIndex> {
        self.told.subscribe()
    }

    /// Folds one thing in, and returns what the node is told of it.
    fn fold(&self, update: Update) -> Result<Vec<Event>, LedgerError> {
        let mut ledger = self.ledger.write().unwrap_or_else(PoisonError::into_inner);
        let shown = update.index();
        match update {
            Update::Snapshot { state, .. } => {
                if shown <= ledger.index() {
                    return Ok(Vec::new());
                }
                let restored = Ledger::from_bytes(&state)?;
                if restored.index() != shown {
                    return Err(LedgerError::Gap { expected: restored.index(), shown });
                }
                *ledger = restored;
                let state = Box::new(ledger.state().clone());
                Ok(vec![Event::Restored(state), Event::Leader(ledger.leader())])
            }
            Update::Record { index, record } => {
                let expected = ledger.index().next();
                if index != expected {
                    return Err(LedgerError::Gap { expected, shown });
                }
                Ok(match ledger.fold(&record)? {
                    (Record::Found(_), Folded::Done) => {
                        vec![Event::Restored(Box::new(ledger.state().clone()))]
                    }
                    (Record::Entry(entry), _) => vec![Event::Committed { index, entry }],
                    (Record::Configuration(configuration), _) => {
                        vec![Event::Configured { index, configuration }]
                    }
                    (Record::Lead { node, .. }, Folded::Lead { taken: true }) => {
                        vec![Event::Skipped { index }, Event::Leader(Some(node))]
                    }
                    (Record::Found(_) | Record::Lead { .. }, _) => vec![Event::Skipped { index }],
                })
            }
        }
    }
}

/// Follows the metastore until it is cancelled, or shows what cannot be folded.
pub(super) async fn follow(
    shared: Arc<Shared>,
    metastore: Arc<dyn Metastore>,
    mailbox: Mailbox,
    cancel: CancellationToken,
) {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut compacted = LogIndex(0);
    loop {
        let after = shared.ledger().index();
        let watching = cancel.run_until_cancelled(metastore.watch(after));
        let Some(mut watch) = watching.await else { return };
        loop {
            let Some(update) = cancel.run_until_cancelled(watch.next()).await else { return };
            let Some(update) = update else { break };
            let (index, is_snapshot) = (update.index(), matches!(update, Update::Snapshot { .. }));
            match shared.fold(update) {
                Ok(events) => {
                    for event in events {
                        // A node that has stopped needs to be told nothing.
                        drop(mailbox.post(Letter::Event(Box::new(event))));
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the node cannot go on");
                    *shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    drop(mailbox.post(Letter::Stop));
                    return;
                }
            }
            if is_snapshot {
                compacted = index;
            }
            shared.told.send_replace(shared.ledger().index());
            if index.0 >= compacted.0 + COMPACT_EVERY {
                compacted = index;
                let (state, metastore) = (shared.ledger().to_bytes(), Arc::clone(&metastore));
                tokio::spawn(async move { metastore.compact(index, state).await });
            }
        }
        if cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}

/// Takes the lead over when nobody has it, or nobody has heard of whoever has it.
///
/// Several may try at once: a take-over names the one before, so that the order of the metastore lets
/// one of them pass. Whether a leader still is one is never judged by this, but behind a barrier.
pub(super) async fn see_to_a_leader(
    shared: Arc<Shared>,
    metastore: Arc<dyn Metastore>,
    me: NodeId,
    heartbeat: Duration,
    cancel: CancellationToken,
) {
    let tick = (heartbeat / 4).max(Duration::from_millis(5));
    // Nodes lose their patience one after the other.
    let turn = tick * u32::try_from(me.0 % 8).unwrap_or_default();
    let mut since = (LogIndex(0), shared.clock.now());
    while cancel.run_until_cancelled(tokio::time::sleep(tick)).await.is_some() {
        let now = shared.clock.now();
        let (leader, led_since, is_fit) = {
            let ledger = shared.ledger();
            let member = ledger.state().member(me);
            let is_fit = member.is_some_and(|me| !me.retired && !me.draining);
            (ledger.leader(), ledger.led_since(), is_fit)
        };
        if led_since != since.0 {
            since = (led_since, now);
        }
        if leader == Some(me) || !is_fit {
            continue;
        }
        let heard = *shared.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet_since = heard.map_or(since.1, |heard| heard.max(since.1));
        let patience = if leader.is_some() { heartbeat * 4 + turn } else { turn };
        if now.since(quiet_since) >= patience {
            since = (led_since, now);
            let record = Record::Lead { node: me, after: led_since };
            // Whether it was taken shows when it is folded.
            metastore.propose(record.to_bytes()).await;
        }
    }
}
