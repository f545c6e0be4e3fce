//! A running node, and what its service asks of it.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use narad_core::freeze::gate::Refused;
use narad_core::ids::{Name, NodeId, Offset, PartitionId, TopicId};
use narad_core::metastore::{Applied, State};
use narad_core::node::{Ask, AskError, Node, Said};
use narad_core::partition::Position;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::builder::Builder;
use super::error::{AppendError, Ended};
use super::extents::frames;
use super::hands::Parts;
use super::messages::{Question, Reply};
use super::seat::Committed;
use super::service::{Service, append, blocking};
use crate::node_loop::{AskFault, Counters, NodeHandle, Stopped};

/// One node of a cluster. Any number of them may be in one process; they share nothing that is not
/// given to them.
///
/// Dropped, it stops at once, as by a crash; [`shutdown`](Self::shutdown) is kinder to the others.
pub struct Narad {
    running: Running,
    /// The thread, until it was waited for.
    thread: Option<JoinHandle<Result<(), Ended>>>,
}

/// What a running node consists of.
pub(super) struct Running {
    pub(super) parts: Arc<Parts>,
    pub(super) handle: NodeHandle,
    pub(super) service: Arc<Service>,
    pub(super) counters: Arc<Counters>,
    pub(super) cancel: CancellationToken,
    pub(super) runtime: Handle,
}

impl fmt::Debug for Narad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Narad").field("node", &self.node()).finish_non_exhaustive()
    }
}

impl Narad {
    /// How long an append or a wish that can be tried again is tried again, in request timeouts.
    const PATIENCE: u32 = 6;
    const PAUSE: Duration = Duration::from_millis(10);

    /// Begins to put a node together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) const fn new(running: Running, thread: JoinHandle<Result<(), Ended>>) -> Self {
        Self { running, thread: Some(thread) }
    }

    /// Returns the node's id in its cluster.
    pub fn node(&self) -> NodeId {
        self.running.parts.me
    }

    /// Waits until the node takes part: it is registered, and may own partitions.
    ///
    /// # Errors
    ///
    /// If it stops before.
    pub async fn ready(&self) -> Result<(), Stopped> {
        self.until(Node::is_registered).await
    }

    /// Creates a topic and returns its id; finds it if it is there with as many partitions. The
    /// partitions are assigned in a moment, see [`owner`](Self::owner).
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub async fn create_topic(&self, name: Name, partitions: u32) -> Result<TopicId, AskFault> {
        match self.ask(Ask::CreateTopic { name, partitions, parent: None }).await? {
            Said::Done(Applied::Created(topic)) => Ok(topic),
            // No other reply belongs to this question.
            Said::Done(_) | Said::Fresh => Err(AskError::Unknown.into()),
        }
    }

    /// Returns who owns a partition, as far as this node knows.
    pub fn owner(&self, partition: PartitionId) -> Option<NodeId> {
        self.running.parts.shared.owner(partition)
    }

    /// Appends records to a partition, wherever it is, and returns once they are durable at its owner.
    /// Waits out a freeze and a change of owner. Each record is at most
    /// [`RECORD_BYTES_MAX`](super::RECORD_BYTES_MAX) long, all of them together fit into a
    /// [message](super::MESSAGE_BYTES_MAX).
    ///
    /// # Errors
    ///
    /// See [`AppendError`]. After [`AppendError::Unknown`] and [`AppendError::Store`] the records may be
    /// there, so that appending them again may double them; they are never acknowledged and lost.
    pub async fn append(
        &self,
        partition: PartitionId,
        records: Vec<Bytes>,
    ) -> Result<Committed, AppendError> {
        let patience = self.running.parts.request_timeout * Self::PATIENCE;
        let until = tokio::time::Instant::now() + patience;
        loop {
            let error = match self.append_once(partition, &records).await {
                Err(error) if error.is_retryable() => error,
                appended => return appended,
            };
            if tokio::time::Instant::now() >= until {
                return Err(error);
            }
            tokio::time::sleep(Self::PAUSE).await;
        }
    }

    async fn append_once(
        &self,
        partition: PartitionId,
        records: &[Bytes],
    ) -> Result<Committed, AppendError> {
        let Running { parts, handle, runtime, cancel, .. } = &self.running;
        if cancel.is_cancelled() {
            return Err(AppendError::Stopped);
        }
        let owner = self.owner(partition).ok_or(AppendError::NoOwner)?;
        if owner == self.node() {
            let (mailbox, records) = (handle.mailbox(), records.to_vec());
            return append(&mailbox, &parts.seats, runtime, partition, records).await;
        }
        let long = records.iter().find(|record| record.len() > super::RECORD_BYTES_MAX);
        if let Some(long) = long {
            return Err(AppendError::TooLarge { bytes: long.len() });
        }
        let frames = frames(records);
        if frames.is_empty() {
            return Err(AppendError::Empty);
        }
        match parts.ask(owner, Question::Append { partition, frames }).await {
            Ok(Reply::Appended(committed)) => Ok(committed),
            Ok(Reply::NotNow) | Err(narad_core::node::CallFault::Unreachable) => {
                Err(AppendError::NotOwner { owner })
            }
            Ok(_) | Err(_) => Err(AppendError::Unknown),
        }
    }

    /// Reads records that consumers may see, from an offset on: at least one if there is one, and no
    /// more than fit into `bytes_max` otherwise. Only its owner serves a partition, also while it moves
    /// away.
    ///
    /// # Errors
    ///
    /// [`AppendError::NotOwner`], [`AppendError::OutOfRange`], or what the store says.
    pub async fn read(
        &self,
        partition: PartitionId,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<(Offset, Bytes)>, AppendError> {
        let seat = self.seat(partition)?;
        let reading = async move { seat.read(from, bytes_max).await };
        blocking(&self.running.runtime, reading).await.ok_or(AppendError::Stopped)?
    }

    /// Returns the first offset that is kept, and the one after the last that consumers may see.
    ///
    /// # Errors
    ///
    /// [`AppendError::NotOwner`] if the partition is not served here.
    pub fn bounds(&self, partition: PartitionId) -> Result<(Offset, Offset), AppendError> {
        self.seat(partition)?.bounds().ok_or_else(|| Refused::NotServing.into())
    }

    /// Notes, durably, where the consumers of a partition stand; that moves along with it. Refused
    /// while the partition is frozen: try again in a moment.
    ///
    /// # Errors
    ///
    /// [`AppendError::NotOwner`], [`AppendError::Refused`], [`AppendError::NoPosition`].
    pub async fn commit(
        &self,
        partition: PartitionId,
        position: Position,
    ) -> Result<(), AppendError> {
        let seat = self.seat(partition)?;
        let committing = async move { seat.commit(position).await };
        blocking(&self.running.runtime, committing).await.ok_or(AppendError::Stopped)?
    }

    /// Returns where the consumers of a partition stand.
    ///
    /// # Errors
    ///
    /// [`AppendError::NotOwner`] if the partition is not open here.
    pub fn position(&self, partition: PartitionId) -> Result<Position, AppendError> {
        self.seat(partition)?.position().ok_or_else(|| Refused::NotServing.into())
    }

    fn seat(&self, partition: PartitionId) -> Result<Arc<super::seat::Seat>, AppendError> {
        match self.owner(partition) {
            None => Err(AppendError::NoOwner),
            Some(owner) if owner != self.node() => Err(AppendError::NotOwner { owner }),
            Some(_) => Ok(self.running.parts.seats.seat(partition)),
        }
    }

    /// Asks the node for something that the cluster decides: a move, a decommission, another policy.
    /// See [`Ask`]. Waits for a leader for a while.
    ///
    /// # Errors
    ///
    /// If it says no, does not know, or has stopped.
    pub async fn ask(&self, ask: Ask) -> Result<Said, AskFault> {
        let patience = self.running.parts.request_timeout * Self::PATIENCE;
        let until = tokio::time::Instant::now() + patience;
        loop {
            let said = self.running.handle.ask(ask.clone()).await;
            let is_early = matches!(said, Err(AskFault::Refused(AskError::NoLeader)));
            if !is_early || tokio::time::Instant::now() >= until {
                return said;
            }
            tokio::time::sleep(Self::PAUSE).await;
        }
    }

    /// Looks at the replicated state, as far as this node has come.
    ///
    /// # Errors
    ///
    /// If the node has stopped.
    pub async fn state<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.query(move |node| look(node.state())).await
    }

    /// Looks at the machines of the node: moves to it, what it serves, why not.
    ///
    /// # Errors
    ///
    /// If the node has stopped.
    pub async fn query<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Node) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        self.running.handle.query(look).await
    }

    /// Waits until something is so at this node. Looks whenever the metastore has decided something,
    /// and every now and then.
    ///
    /// # Errors
    ///
    /// If the node has stopped.
    pub async fn until(
        &self,
        is_so: impl Fn(&Node) -> bool + Clone + Send + 'static,
    ) -> Result<(), Stopped> {
        let mut told = self.running.parts.shared.subscribe();
        loop {
            let look = is_so.clone();
            if self.query(move |node| look(node)).await? {
                return Ok(());
            }
            // Nobody sends any more once the node has stopped, and the next look says so.
            drop(tokio::time::timeout(Self::PAUSE * 5, told.changed()).await);
        }
    }

    /// Returns what the node has done so far.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.running.counters)
    }

    /// Waits until the node cannot go on, or was stopped. Never returns before that.
    ///
    /// # Errors
    ///
    /// Why it cannot go on.
    pub async fn ended(&mut self) -> Result<(), Ended> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let ended = tokio::task::spawn_blocking(move || thread.join()).await;
        match ended {
            // The thread ends without an error where the task that follows the metastore had one.
            Ok(Ok(Ok(()))) => self.running.parts.shared.failed().map_or(Ok(()), |e| Err(e.into())),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) => Err(Ended::Panicked),
            Err(_) => Ok(()),
        }
    }

    /// Stops the node: no more appends, no more messages; logs that are open are closed. Nothing is lost
    /// by it, and nothing by a stop without it.
    ///
    /// # Errors
    ///
    /// What the node ended with, if it could not go on before.
    pub async fn shutdown(mut self) -> Result<(), Ended> {
        self.running.handle.finish();
        let ended = self.ended().await;
        self.running.cancel.cancel();
        self.running.parts.peer.stop().await;
        let parts = Arc::clone(&self.running.parts);
        let closing = async move { parts.seats.close_all().await };
        // The runtime may be ending.
        blocking(&self.running.runtime, closing).await;
        ended
    }
}

impl Drop for Narad {
    fn drop(&mut self) {
        self.running.cancel.cancel();
        self.running.handle.stop();
        // Whoever holds an `Inbound` gets no answers any more once this is gone.
        let _: &Arc<Service> = &self.running.service;
    }
}

/// Deletes what was set aside long enough ago.
pub(super) async fn sweep(
    parts: Arc<Parts>,
    runtime: Handle,
    quarantine: Duration,
    cancel: CancellationToken,
) {
    const PAUSE: Duration = Duration::from_mins(1);
    loop {
        let now_ms = parts.seats.ground.clock.wall_ms();
        let kept_ms = i64::try_from(quarantine.as_millis()).unwrap_or(i64::MAX);
        let (parts, older) = (Arc::clone(&parts), now_ms.saturating_sub(kept_ms));
        let sweeping = async move { parts.vault.sweep(older).await };
        if let Some(Err(fault)) = blocking(&runtime, sweeping).await {
            tracing::warn!(%fault, "what was set aside could not be deleted");
        }
        if cancel.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}
