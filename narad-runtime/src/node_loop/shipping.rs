//! A node's ingress log at work: what is accepted into it, and what is brought from it to owners.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use narad_core::dispatch::{BatchNo, LogFault, Refused, SendFault, Seqs};
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId, Seq};
use narad_core::mover::What;
use narad_core::node::{Salvaged, ShippingOutcome};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::wall_ms;
use crate::ingress::{Accepted, Door, IngressError, IngressLog, Load, Parcel, Pass, Ticket};
use crate::net::{Delivery, Transport};
use crate::salvage::salvage;
use crate::store::PartitionStore;

/// One node's ingress log with its door.
pub struct Ingress {
    log: Arc<IngressLog>,
    door: Arc<Door>,
    /// Told when the log must be opened again.
    failed: Notify,
}

impl fmt::Debug for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingress").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Why records are not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotAccepted {
    /// They were not let in.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The log did not take them.
    #[error(transparent)]
    Log(#[from] IngressError),
}

impl Ingress {
    const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(50);
    const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(5);

    /// Binds a log to the door that its producers pass.
    pub fn new(log: Arc<IngressLog>, door: Arc<Door>) -> Self {
        Self { log, door, failed: Notify::new() }
    }

    /// Returns the log.
    pub const fn log(&self) -> &Arc<IngressLog> {
        &self.log
    }

    /// Returns the door.
    pub const fn door(&self) -> &Arc<Door> {
        &self.door
    }

    /// Accepts records: they are durable when this has ended well. Looks at no partition's state, and
    /// never blocks the thread. If the future is dropped they may be accepted all the same.
    ///
    /// # Errors
    ///
    /// See [`NotAccepted`].
    pub async fn accept(&self, parcels: Vec<Parcel>) -> Result<Accepted, NotAccepted> {
        let pass = self.door.enter(Load::of(&parcels))?;
        let ticket = self.log.submit(parcels)?;
        let accepted = Entering { ticket: Some(ticket), pass: Some(pass) }.await;
        Ok(accepted.inspect_err(|error| self.saw(error))?)
    }

    /// Has the log opened again if that is what an error calls for.
    fn saw(&self, error: &IngressError) {
        if error.needs_reopening() {
            self.failed.notify_one();
        }
    }

    /// Opens the log again whenever it has failed, as often as that takes.
    pub async fn keep_open(self: Arc<Self>, cancel: CancellationToken) {
        while cancel.run_until_cancelled(self.failed.notified()).await.is_some() {
            let mut pause = Self::REOPEN_PAUSE_MIN;
            loop {
                let log = Arc::clone(&self.log);
                match tokio::task::spawn_blocking(move || log.reopen()).await {
                    Ok(Ok(true)) => {
                        tracing::warn!("the ingress log was opened again after a failed write");
                        break;
                    }
                    Ok(Ok(false)) => break,
                    Ok(Err(error)) => {
                        tracing::error!(%error, "the ingress log cannot be opened again yet");
                    }
                    Err(_) => return,
                }
                if cancel.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    return;
                }
                pause = (pause * 2).min(Self::REOPEN_PAUSE_MAX);
            }
        }
    }

    /// Lets nobody in any more and waits for who is inside; returns whether all that was accepted
    /// has been told. Blocks.
    pub(super) fn close(&self, limit: Duration) -> bool {
        self.door.close();
        self.door.wait_until_empty(limit)
    }

    pub(super) fn checkpoint(&self, seq: Seq) -> ShippingOutcome {
        let done = self.log.checkpoint(seq).inspect_err(|error| {
            tracing::warn!(%seq, %error, "cannot note what has arrived");
            self.saw(error);
        });
        ShippingOutcome::Checkpoint(done.map(|_| ()).map_err(|_| LogFault))
    }

    pub(super) fn carry(&self, seqs: &Seqs) -> ShippingOutcome {
        match self.log.carry(seqs.iter()) {
            Ok(carried) => ShippingOutcome::Carry(Ok(carried.first)),
            Err(IngressError::Damaged { seq }) => {
                tracing::error!(%seq, "an accepted record is damaged in the ingress log, and lost");
                ShippingOutcome::Damaged([seq].into_iter().collect())
            }
            Err(error) => {
                tracing::warn!(%error, "cannot append records again");
                self.saw(&error);
                ShippingOutcome::Carry(Err(LogFault))
            }
        }
    }

    pub(super) fn salvage(
        &self,
        store: &dyn PartitionStore,
        partition: PartitionId,
        what: What,
        from: Option<Offset>,
    ) -> Option<Salvaged> {
        salvage(store, partition, what, from, wall_ms(), &mut |parcels| self.accept_again(parcels))
    }

    /// Accepts what was accepted before, even while the node leaves. Returns whether it is durable
    /// and told; if not, there is no room now, or the log has failed. Blocks.
    pub(crate) fn accept_again(&self, parcels: Vec<Parcel>) -> bool {
        let Ok(_pass) = self.door.enter_again(Load::of(&parcels)) else {
            tracing::warn!("no room for what is accepted again: it is tried later");
            return false;
        };
        let appended = self.log.append(parcels).inspect_err(|error| {
            tracing::warn!(%error, "cannot accept again yet");
            self.saw(error);
        });
        appended.is_ok()
    }

    /// Reads the records of a batch. Blocks on the disk if they are not in memory.
    fn read(&self, seqs: &Seqs) -> Result<Vec<crate::log::Record>, ShippingOutcome> {
        let read = self.log.read(seqs.iter(), usize::MAX).map_err(|error| {
            tracing::warn!(%error, "cannot read what is to be dispatched");
            ShippingOutcome::Send(Err(SendFault::Unreadable))
        })?;
        if !read.lost.is_empty() {
            for seq in &read.lost {
                tracing::error!(%seq, "an accepted record is damaged in the ingress log, and lost");
            }
            return Err(ShippingOutcome::Damaged(read.lost.into_iter().collect()));
        }
        Ok(read.parcels.into_iter().map(|(_, parcel)| parcel.record).collect())
    }
}

/// A batch that is to be brought to its owner.
#[derive(Debug)]
pub(super) struct Consignment {
    pub(super) to: NodeId,
    pub(super) partition: PartitionId,
    pub(super) epoch: Epoch,
    pub(super) batch: BatchNo,
    pub(super) records: Seqs,
}

/// Brings a batch to its owner; ends early, with an answer all the same, when it is cancelled.
pub(super) async fn send(
    ingress: Arc<Ingress>,
    transport: Arc<Transport>,
    consignment: Consignment,
    limit: Duration,
    cancel: CancellationToken,
) -> ShippingOutcome {
    let Consignment { to, partition, epoch, batch, records } = consignment;
    let read = tokio::task::spawn_blocking(move || ingress.read(&records)).await;
    let records = match read {
        Ok(Ok(records)) => records,
        Ok(Err(outcome)) => return outcome,
        Err(_) => return ShippingOutcome::Send(Err(SendFault::Unreadable)),
    };
    let end = async {
        drop(tokio::time::timeout(limit, cancel.cancelled()).await);
    };
    let delivery = Delivery { partition, epoch, batch, records };
    ShippingOutcome::Send(transport.deliver(to, delivery, end).await)
}

/// Waits for the answer, and if nobody does any more, keeps the pass until there is one: what is
/// being appended is inside, whoever has lost interest in it.
struct Entering {
    ticket: Option<Ticket>,
    pass: Option<Pass>,
}

impl Future for Entering {
    type Output = Result<Accepted, IngressError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket.as_mut().expect("a future is not polled after its end");
        let answer = std::task::ready!(Pin::new(ticket).poll(context));
        self.ticket = None;
        Poll::Ready(answer)
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        let (Some(ticket), Some(pass)) = (self.ticket.take(), self.pass.take()) else { return };
        // Outside a runtime the process is ending, and nobody counts any more.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                // Whoever asked is gone.
                drop(ticket.await);
                drop(pass);
            });
        }
    }
}
