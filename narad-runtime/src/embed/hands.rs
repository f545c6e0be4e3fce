//! Runs a node's operations over the embedder's parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::dispatch::Room;
use narad_core::effects::OpId;
use narad_core::freeze::gate::{Authority, Command};
use narad_core::host;
use narad_core::ids::{Incarnation, NodeId, Offset, PartitionId};
use narad_core::metastore::{Configuration, Entry};
use narad_core::mover::{Copied, Fault, What};
use narad_core::node::{
    CallFault, Gating, GatingOutcome, Operation, Outcome, Salvaged, Shipping, ShippingOutcome,
    Staging, StagingOutcome,
};
use narad_core::peer::{Answer, Refusal, Request};
use narad_core::{controller, dispatch};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::extents::unframe;
use super::follow::Shared;
use super::ledger::Record;
use super::messages::{Question, Reply};
use super::metastore::{Metastore, Proposed};
use super::note::NodeNote;
use super::peer::{MESSAGE_BYTES_MAX, Peer, Whom};
use super::seat::CopyFault;
use super::seats::Seats;
use super::service::blocking;
use super::store::{PartitionStore, StoreFault};
use super::throttle::Throttle;
use super::vault::{Vault, Wanted};
use super::{names, salvage};
#[cfg(feature = "net")]
use crate::ingress::Load;
use crate::node_loop::{Mailbox, ReplyTo, Surroundings};
use crate::wire::Wire;

/// What the operations of a node run on.
pub(super) struct Parts {
    pub(super) me: NodeId,
    pub(super) store: Arc<dyn PartitionStore>,
    pub(super) metastore: Arc<dyn Metastore>,
    pub(super) peer: Arc<dyn Peer>,
    pub(super) seats: Arc<Seats>,
    pub(super) vault: Vault,
    pub(super) shared: Arc<Shared>,
    pub(super) throttle: Throttle,
    pub(super) identity: tokio::sync::Mutex<NodeNote>,
    pub(super) request_timeout: Duration,
}

/// Runs operations and posts their outcomes to the inbox.
pub(super) struct Hands {
    parts: Arc<Parts>,
    mailbox: Mailbox,
    runtime: Handle,
    under_way: Mutex<BTreeMap<OpId, UnderWay>>,
}

enum UnderWay {
    Copy(CancellationToken),
    Freeze(PartitionId),
}

impl Hands {
    pub(super) fn new(parts: Arc<Parts>, mailbox: Mailbox, runtime: Handle) -> Self {
        Self { parts, mailbox, runtime, under_way: Mutex::default() }
    }

    fn remember(&self, op: OpId, work: UnderWay) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(op, work);
    }

    /// Runs something that waits for others.
    fn wait(&self, op: OpId, work: impl Future<Output = Outcome> + Send + 'static) {
        let mailbox = self.mailbox.clone();
        self.runtime.spawn(async move { mailbox.done(op, work.await) });
    }

    /// Runs something that may block its thread. If it panics the node must not wait for it for ever,
    /// and must not go on as if nothing had happened.
    fn block(&self, op: OpId, work: impl Future<Output = Outcome> + Send + 'static) {
        let (mailbox, runtime) = (self.mailbox.clone(), self.runtime.clone());
        self.runtime.spawn(async move {
            match blocking(&runtime, work).await {
                Some(outcome) => mailbox.done(op, outcome),
                None => drop(mailbox.post(crate::node_loop::Letter::Stop)),
            }
        });
    }

    fn gate(&self, op: OpId, partition: PartitionId, gating: Gating) {
        let seat = self.parts.seats.seat(partition);
        let outcome = match gating {
            Gating::Stand(standing) => {
                seat.command(Command::Stand(standing));
                GatingOutcome::Stand
            }
            Gating::Thaw(token) => {
                seat.command(Command::Thaw { token });
                GatingOutcome::Thaw
            }
            Gating::Resume(_) => GatingOutcome::Resume,
            // Nothing is acknowledged behind a capture: see `Seat::commit`.
            Gating::HandOver { .. } => GatingOutcome::HandOver(narad_core::cursor::Acks::default()),
            Gating::Take(_) => GatingOutcome::Take(Some(narad_core::cursor::Taken::default())),
            Gating::List { incarnation, check } => {
                return self.block(op, async move {
                    let listing = seat.list(incarnation, &check).await;
                    Outcome::Gate(GatingOutcome::List(listing))
                });
            }
            Gating::Freeze { epoch, life } => {
                self.remember(op, UnderWay::Freeze(partition));
                return self.block(op, async move {
                    Outcome::Gate(GatingOutcome::Freeze(seat.freeze(op, epoch, life).await))
                });
            }
        };
        self.mailbox.done(op, Outcome::Gate(outcome));
    }

    fn host(&self, op: OpId, partition: PartitionId, work: host::Operation) {
        let seat = self.parts.seats.seat(partition);
        self.block(op, async move {
            Outcome::Host(match work {
                host::Operation::Open { data, birth } => {
                    host::Outcome::Open(seat.open(data, birth).await)
                }
                host::Operation::Expose { epoch } => {
                    host::Outcome::Expose(seat.expose(epoch).await)
                }
                host::Operation::Close => {
                    seat.close().await;
                    host::Outcome::Close
                }
            })
        });
    }

    fn stage(&self, op: OpId, partition: PartitionId, work: Staging) {
        let parts = Arc::clone(&self.parts);
        let cancel = CancellationToken::new();
        if matches!(work, Staging::Copy { .. }) {
            self.remember(op, UnderWay::Copy(cancel.clone()));
        }
        self.block(op, async move { Outcome::Stage(parts.stage(partition, work, cancel).await) });
    }

    fn ship(&self, op: OpId, shipping: Shipping) {
        let parts = Arc::clone(&self.parts);
        match shipping {
            Shipping::Salvage { partition, what, from } => self.block(op, async move {
                let salvaged = parts.salvage(partition, what, from).await;
                Outcome::Ship(ShippingOutcome::Salvage(salvaged))
            }),
            // An embedded node accepts nothing for others: there is no ingress log.
            Shipping::Send { .. } => {
                let refused = Err(dispatch::SendFault::Unreadable);
                self.mailbox.done(op, Outcome::Ship(ShippingOutcome::Send(refused)));
            }
            Shipping::Checkpoint(_) => {
                self.mailbox.done(op, Outcome::Ship(ShippingOutcome::Checkpoint(Ok(()))));
            }
            Shipping::Carry(_) => {
                let refused = Err(dispatch::LogFault);
                self.mailbox.done(op, Outcome::Ship(ShippingOutcome::Carry(refused)));
            }
        }
    }
}

impl Surroundings for Hands {
    fn run(&self, op: OpId, operation: Operation) {
        let parts = Arc::clone(&self.parts);
        match operation {
            Operation::Append(entry) => {
                self.wait(
                    op,
                    async move { Outcome::Append(parts.propose(Record::Entry(entry)).await) },
                );
            }
            Operation::Barrier => {
                self.wait(op, async move {
                    Outcome::Barrier(parts.shared.barrier_with_leader(&*parts.metastore).await)
                });
            }
            Operation::Survey => {
                self.wait(op, async move {
                    let index = parts.shared.barrier_with_leader(&*parts.metastore).await;
                    // Whoever watches has come as far as the metastore shows.
                    let members = parts.shared.members();
                    Outcome::Survey(index.map(|index| {
                        (index, members.into_iter().map(|node| (node, index)).collect())
                    }))
                });
            }
            Operation::Configure(change) => {
                self.wait(op, async move {
                    let next = configured(parts.shared.configuration(), change);
                    Outcome::Configure(parts.propose(Record::Configuration(next)).await)
                });
            }
            Operation::Transfer { to } => {
                self.wait(op, async move {
                    let after = parts.shared.led_since();
                    parts.propose(Record::Lead { node: to, after }).await;
                    Outcome::Transfer
                });
            }
            Operation::Call { to, request } => {
                self.wait(op, async move { Outcome::Call(parts.call(to, request).await) });
            }
            Operation::NextIncarnation => {
                self.block(op, async move { Outcome::NextIncarnation(parts.next_life().await) });
            }
            Operation::Inspect(partition) => self.block(op, async move {
                let found = parts.vault.inspect(partition).await;
                let found = found.inspect_err(|fault| {
                    tracing::error!(%partition, %fault, "cannot inspect");
                });
                Outcome::Inspect(found.ok())
            }),
            Operation::Host(partition, work) => self.host(op, partition, work),
            Operation::Stage(partition, work) => self.stage(op, partition, work),
            Operation::Gate(partition, gating) => self.gate(op, partition, gating),
            Operation::Watermarks(partitions) => {
                let watermark = |partition: &PartitionId| {
                    let (epoch, hwm) = parts.seats.find(*partition)?.watermark()?;
                    Some((*partition, epoch, hwm))
                };
                let found = partitions.iter().filter_map(watermark).collect();
                self.mailbox.done(op, Outcome::Watermarks(found));
            }
            Operation::Ship(shipping) => self.ship(op, shipping),
            Operation::CloseAccept => self.mailbox.done(op, Outcome::CloseAccept(true)),
            Operation::OpenAccept => self.mailbox.done(op, Outcome::OpenAccept),
        }
    }

    fn cancel(&self, op: OpId) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.get(&op) {
            Some(UnderWay::Copy(cancel)) => cancel.cancel(),
            Some(UnderWay::Freeze(partition)) => {
                self.parts.seats.seat(*partition).command(Command::GiveUp { ticket: op });
            }
            None => {}
        }
    }

    fn forget(&self, op: OpId) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&op);
    }

    fn answer(&self, reply: ReplyTo, answer: Answer) {
        match reply {
            #[cfg(feature = "net")]
            ReplyTo::Connection(reply) => reply.send(&answer),
            // Whoever asked may be gone.
            ReplyTo::Caller(reply) => drop(reply.send(answer)),
        }
    }

    fn publish(&self, authority: Authority) {
        let ground = &self.parts.seats.ground;
        *ground.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
    }

    fn room(&self, _: Room) {}

    #[cfg(feature = "net")]
    fn heard(&self, _: Load) {}

    fn stop(&self) {
        self.publish(Authority::NONE);
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        for (op, work) in &*under_way {
            match work {
                UnderWay::Copy(cancel) => cancel.cancel(),
                UnderWay::Freeze(partition) => {
                    self.parts.seats.seat(*partition).command(Command::GiveUp { ticket: *op });
                }
            }
        }
    }
}

/// A node thread that panics drops its hands: nothing may be acknowledged behind it.
impl Drop for Hands {
    fn drop(&mut self) {
        Surroundings::stop(self);
    }
}

impl Parts {
    /// Hands a record to the metastore. Its fate shows when it is folded here.
    pub(super) async fn propose(&self, record: Record) -> bool {
        match self.metastore.propose(record.to_bytes()).await {
            Proposed::Applied(_) => true,
            Proposed::Rejected { reason } => {
                tracing::debug!(reason, "the metastore has rejected a record");
                false
            }
            Proposed::Unknown => false,
        }
    }

    async fn call(&self, to: NodeId, request: Request) -> Result<Answer, CallFault> {
        // Every node reaches the metastore itself.
        if let Request::Propose(entry) = request {
            return self.forward(entry).await;
        }
        let question = Question::Request(request.to_bytes().into());
        let reply = self.ask(to, question).await?;
        let Reply::Answer(answer) = reply else { return Err(CallFault::Malformed) };
        let answer = Answer::from_bytes(&answer).map_err(|_| CallFault::Malformed)?;
        if !matches!(answer, Answer::Refused(Refusal::NotLeader { .. })) {
            self.shared.heard(to);
        }
        Ok(answer)
    }

    async fn forward(&self, entry: Entry) -> Result<Answer, CallFault> {
        let handed = self.propose(Record::Entry(entry)).await;
        if handed { Ok(Answer::Accepted) } else { Err(CallFault::TimedOut) }
    }

    /// Asks a node, for as long as an answer may take.
    pub(super) async fn ask(&self, to: NodeId, question: Question) -> Result<Reply, CallFault> {
        let whom = self.shared.whom(to).ok_or(CallFault::Unreachable)?;
        self.ask_whom(&whom, question).await
    }

    async fn ask_whom(&self, whom: &Whom, question: Question) -> Result<Reply, CallFault> {
        let message = question.encode();
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(CallFault::Malformed);
        }
        let call = self.peer.call(whom, message);
        let answered = tokio::time::timeout(self.request_timeout, call).await;
        let bytes = answered.map_err(|_| CallFault::TimedOut)??;
        Reply::decode(bytes).map_err(|_| CallFault::Malformed)
    }

    async fn next_life(&self) -> Option<Incarnation> {
        let mut identity = self.identity.lock().await;
        let next = NodeNote { incarnation: identity.incarnation.next(), ..*identity };
        let written = self.store.write_note(names::NODE, next.encode()).await;
        written.inspect_err(|fault| tracing::error!(%fault, "cannot begin the next life")).ok()?;
        *identity = next;
        Some(next.incarnation)
    }

    async fn stage(
        &self,
        partition: PartitionId,
        work: Staging,
        cancel: CancellationToken,
    ) -> StagingOutcome {
        let (vault, now_ms) = (&self.vault, self.seats.ground.clock.wall_ms());
        match work {
            Staging::Copy { source, base, position, bytes } => {
                let request = CopyRequest { partition, source, base, position, bytes };
                StagingOutcome::Copy(self.copy(request, &cancel).await)
            }
            Staging::Checkpoint(manifest) => {
                StagingOutcome::Checkpoint(vault.checkpoint(manifest).await)
            }
            Staging::Trim(keep) => StagingOutcome::Trim(vault.trim(partition, &keep).await),
            Staging::Probe { .. } => StagingOutcome::Probe(vault.probe(partition).await),
            Staging::Verify(boundary) => {
                StagingOutcome::Verify(vault.verify(partition, &boundary).await)
            }
            Staging::Install { attempt, sidecar, manifest } => {
                StagingOutcome::Install(vault.install(attempt, sidecar, manifest).await)
            }
            Staging::Restage(attempt) => {
                StagingOutcome::Restage(vault.restage(partition, attempt, now_ms).await)
            }
            Staging::SetAside(what) => {
                StagingOutcome::SetAside(vault.set_aside(partition, what, now_ms).await)
            }
        }
    }

    /// Brings one range of an extent. Only waiting for the source is cut short by a cancel: what has
    /// arrived is either taken whole or not at all.
    async fn copy(
        &self,
        request: CopyRequest,
        cancel: &CancellationToken,
    ) -> Result<Copied, Fault> {
        let CopyRequest { partition, source, base, position, bytes } = request;
        let from = match self.vault.begin(partition, base, position, bytes).await? {
            Wanted::Nothing(staged) => return Ok(Copied { staged, throttled: Duration::ZERO }),
            Wanted::From(from) => from,
        };
        let rate = self.shared.copy_rate(self.me);
        let throttled = self.throttle.wait(bytes, rate).await;
        let question = Question::Copy { partition, from, bytes_max: bytes };
        let asking = cancel.run_until_cancelled(self.ask(source, question));
        let records = match asking.await.ok_or(Fault::Cancelled)? {
            Ok(Reply::Records(frames)) => unframe(frames).ok_or(Fault::Malformed)?,
            Ok(Reply::NoRecords(CopyFault::NotServing)) | Err(CallFault::Unreachable) => {
                return Err(Fault::Unreachable);
            }
            Ok(Reply::NoRecords(CopyFault::Gone)) => return Err(Fault::ExtentGone),
            Ok(Reply::NoRecords(CopyFault::Failed)) => return Err(Fault::Refused(Refusal::Disk)),
            Ok(_) | Err(CallFault::Malformed) => return Err(Fault::Malformed),
            Err(CallFault::TimedOut) => return Err(Fault::TimedOut),
        };
        let reach = position.saturating_add(bytes);
        let staged = self.vault.take(partition, base, reach, from, &records).await?;
        Ok(Copied { staged, throttled })
    }

    /// Appends, at whoever owns the partition, what a log of a past reign holds (H14).
    async fn salvage(
        &self,
        partition: PartitionId,
        what: What,
        from: Option<Offset>,
    ) -> Option<Salvaged> {
        let log = match what {
            What::Staging => names::staging(partition),
            What::Installed(attempt) => names::log(partition, attempt),
        };
        let salvaged = salvage::salvage(self, partition, &log, from).await;
        let salvaged = salvaged.inspect_err(|fault: &StoreFault| {
            tracing::error!(%partition, log, %fault, "cannot append again what is left here");
        });
        salvaged.ok().flatten()
    }
}

/// A range of an extent that is to be brought.
#[derive(Clone, Copy, Debug)]
struct CopyRequest {
    partition: PartitionId,
    source: NodeId,
    base: Offset,
    position: u64,
    bytes: u64,
}

/// Returns what a configuration is after a change. Nobody's vote counts in the metastore; the guards
/// of the fold count them all the same, so that a cluster is not decommissioned below its minimum.
fn configured(mut now: Configuration, change: controller::Change) -> Configuration {
    match change {
        controller::Change::AddLearner(node) => {
            if !now.voters.contains(&node) {
                now.learners.insert(node);
            }
        }
        controller::Change::Promote(node) => {
            now.learners.remove(&node);
            now.voters.insert(node);
        }
        controller::Change::Remove(node) => {
            now.learners.remove(&node);
            now.voters.remove(&node);
        }
        controller::Change::Replace { add, remove } => {
            now.learners.remove(&add);
            now.voters.remove(&remove);
            now.voters.insert(add);
        }
        controller::Change::LeaveJoint => now.voters_outgoing.clear(),
    }
    now
}
