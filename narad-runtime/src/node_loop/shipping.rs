//! A node's ingress log at work: what is accepted into it, and what is brought from it to owners.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use narad_core::dispatch::{BatchNo, Checkpoint, LogFault, Refused, SendFault, Seqs, send_limit};
use narad_core::ids::{Epoch, NodeId, Offset, PartitionId};
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
    /// Whether the disk was full when something was last written.
    is_full: AtomicBool,
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
        Self { log, door, failed: Notify::new(), is_full: AtomicBool::new(false) }
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
        if accepted.is_ok() && self.is_full.load(Ordering::Relaxed) {
            self.is_full.store(false, Ordering::Relaxed);
            tracing::info!("the disk has room again: records are accepted");
        }
        Ok(accepted.inspect_err(|error| self.saw(error))?)
    }

    /// Has the log opened again if that is what an error calls for.
    fn saw(&self, error: &IngressError) {
        if error.needs_reopening() {
            self.failed.notify_one();
        }
        // Said once: each of many producers hears of it.
        if error.is_full() && !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the disk of this node is full: it accepts nothing until there is room; what was \
                 deleted or has moved is kept in quarantine for a while, see narad cluster salvage"
            );
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

    /// Lets nobody in any more, in later lives of the node neither, and waits for who is inside;
    /// returns whether all that was accepted has been told. Blocks.
    pub(super) fn close(&self, limit: Duration) -> bool {
        self.door.close();
        let noted = self.log.shut().inspect_err(|error| {
            tracing::warn!(%error, "cannot note that nothing is accepted any more, tries again");
        });
        noted.is_ok() && self.door.wait_until_empty(limit)
    }

    /// Lets producers in again. Blocks.
    pub(super) fn open(&self) {
        if let Err(error) = self.log.unshut() {
            tracing::warn!(
                %error,
                "cannot note that records are accepted again: after a restart they will be once the \
                 node is registered"
            );
        }
        self.door.open();
    }

    pub(super) fn checkpoint(&self, spent: Checkpoint) -> ShippingOutcome {
        let below = spent.below;
        let done = self.log.checkpoint(spent).inspect_err(|error| {
            tracing::warn!(%below, %error, "cannot note what has arrived");
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
    request_timeout: Duration,
    cancel: CancellationToken,
) -> ShippingOutcome {
    let Consignment { to, partition, epoch, batch, records } = consignment;
    let read = tokio::task::spawn_blocking(move || ingress.read(&records)).await;
    let records = match read {
        Ok(Ok(records)) => records,
        Ok(Err(outcome)) => return outcome,
        Err(_) => return ShippingOutcome::Send(Err(SendFault::Unreadable)),
    };
    let bytes = records.iter().map(|record| record.encoded_bytes() as u64).sum();
    let limit = send_limit(request_timeout, bytes);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use narad_core::dispatch::{Room, Route};
    use narad_core::ids::{Seq, TopicId};

    use super::*;
    use crate::disk::mem::{Fault, Step};
    use crate::disk::{Disk, MemDisk};
    use crate::ingress::{Committer, Limits};
    use crate::log::Record;

    const DIR: &str = "ingress";

    fn parcels(count: usize) -> Vec<Parcel> {
        let record = Record { value: "v".into(), ..Record::default() };
        vec![Parcel { topic: TopicId(1), route: Route::Any, record }; count]
    }

    /// A node's ingress log, without a node that hears of anything.
    fn ingress(disk: &MemDisk, limits: Limits) -> Arc<Ingress> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        IngressLog::create(&*disk, Path::new(DIR)).unwrap();
        let door = Arc::new(Door::default());
        let retry_after = Duration::from_secs(1);
        let (records, bytes) = (1000, 1 << 20);
        let room = Room { records, bytes, draining: false, retry_after, bytes_max: bytes };
        door.publish(room);
        let (log, _) = IngressLog::open(disk, Path::new(DIR), limits, |_| {}).unwrap();
        Arc::new(Ingress::new(Arc::new(log), door))
    }

    fn is_empty(ingress: &Ingress) -> bool {
        ingress.door().wait_until_empty(Duration::ZERO)
    }

    /// H17: a failed sync is told to those whose records it was for, nothing is accepted until the log
    /// was opened again, and that is tried for as long as it takes.
    #[tokio::test]
    async fn a_failed_log_is_opened_again_and_accepts() {
        let disk = MemDisk::new();
        let ingress = ingress(&disk, Limits::default());
        let _committer = Committer::start(Arc::clone(ingress.log())).unwrap();
        let cancel = CancellationToken::new();
        assert_eq!(ingress.accept(parcels(2)).await.unwrap().first, Seq(0));
        let fault = disk.inject(Fault::new(Step::Sync).below(DIR).lasting());
        for _ in 0..2 {
            let NotAccepted::Log(error) = ingress.accept(parcels(1)).await.unwrap_err() else {
                panic!("there is room")
            };
            assert!(error.needs_reopening() && error.is_retryable(), "{error}");
        }
        let reopening = tokio::spawn(Arc::clone(&ingress).keep_open(cancel.clone()));
        let (before, mut pause) = (disk.steps(), tokio::time::interval(Duration::from_millis(5)));
        while disk.steps() == before {
            pause.tick().await;
        }
        disk.clear(fault);
        while ingress.accept(parcels(1)).await.is_err() {
            pause.tick().await;
        }
        assert!(is_empty(&ingress));
        cancel.cancel();
        reopening.await.unwrap();
    }

    /// H37: whoever loses interest in what is being appended stays inside until it is.
    #[tokio::test]
    async fn a_producer_that_is_gone_is_waited_for() {
        let disk = MemDisk::new();
        let ingress = ingress(&disk, Limits::default());
        let accepting = ingress.accept(parcels(1));
        // Handed in, and nobody writes yet.
        assert!(tokio::time::timeout(Duration::ZERO, accepting).await.is_err());
        assert!(!ingress.close(Duration::ZERO));
        assert!(ingress.log().commit_waiting());
        while !is_empty(&ingress) {
            tokio::task::yield_now().await;
        }
        let refused = ingress.accept(parcels(1)).await.unwrap_err();
        assert!(matches!(refused, NotAccepted::Refused(Refused::Draining)));
    }

    /// `case_048`: what cannot be read in a batch is named, so that the rest can go without it.
    #[test]
    fn a_damaged_record_is_named() {
        let disk = MemDisk::new();
        let limits = Limits { cache_bytes_max: 0, ..Limits::default() };
        let ingress = ingress(&disk, limits);
        for _ in 0..3 {
            ingress.log().append(parcels(1)).unwrap();
        }
        let seqs: Seqs = [0, 1, 2].map(Seq).into_iter().collect();
        assert_eq!(ingress.read(&seqs).unwrap().len(), 3);
        let path = Path::new(DIR).join(format!("{:020}.seg", 0));
        let length = disk.metadata(&path).unwrap().unwrap().bytes;
        let middle = usize::try_from(length).unwrap() / 2;
        disk.rot(&path, middle, 0xff);
        let lost = [1].map(Seq).into_iter().collect();
        assert_eq!(ingress.read(&seqs), Err(ShippingOutcome::Damaged(lost)));
        let lost = [1].map(Seq).into_iter().collect();
        assert_eq!(ingress.carry(&seqs), ShippingOutcome::Damaged(lost));
    }
}
