//! Runs a node's operations: peers, gates and disks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use narad_core::dispatch::Room;
use narad_core::effects::OpId;
use narad_core::freeze::gate::Authority;
use narad_core::ids::{Incarnation, NodeId, PartitionId};
use narad_core::node::{
    CallFault, Gating, GatingOutcome, Operation, Outcome, Shipping, ShippingOutcome,
};
use narad_core::peer::{Answer, Request};
use narad_core::time::Instant;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::inbox::{Mailbox, NodeHandle};
use super::shipping::{self, Consignment, Ingress};
use crate::broker::{Broker, Standpoint};
use crate::clock::{BootClock, wall_ms};
use crate::copy::{CancelFlag, LiveBytes, read_tail};
use crate::ingress::Load;
use crate::net::{Answered, CallError, ReplySender, Transport};
use crate::raft::{Outgoing, Voice};
use crate::storage::Storage;
use crate::store::PartitionStore;
use crate::transfer::Client;

/// What the gates of one node read: its clock and what it may do.
#[derive(Debug)]
pub struct Ground {
    clock: BootClock,
    authority: RwLock<Authority>,
}

impl Ground {
    /// Begins without any authority.
    #[must_use]
    pub const fn new(clock: BootClock) -> Self {
        Self { clock, authority: RwLock::new(Authority::NONE) }
    }
}

impl Standpoint for Ground {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn authority(&self) -> Authority {
        *self.authority.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn appended(&self) {
        super::failpoint::acknowledging();
    }
}

/// Makes the next incarnation durable.
pub type NextLife = Arc<dyn Fn() -> Option<Incarnation> + Send + Sync>;

/// What the operations of a node run on.
#[derive(Clone)]
pub struct HandsSeams {
    /// Connections to other nodes.
    pub transport: Arc<Transport>,
    /// Bulk copies from other nodes.
    pub client: Arc<Client>,
    /// The partitions on this node's disk.
    pub store: Arc<dyn PartitionStore>,
    /// The partitions that are live on this node.
    pub broker: Arc<Broker>,
    /// What this node accepts and dispatches.
    pub ingress: Arc<Ingress>,
    /// What the gates read.
    pub ground: Arc<Ground>,
    /// Makes the next incarnation durable.
    pub next_life: NextLife,
    /// Runs what waits for peers, and has the threads that may block.
    pub runtime: Handle,
    /// How long a peer may take to answer.
    pub request_timeout: Duration,
}

impl fmt::Debug for HandsSeams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandsSeams").field("store", &self.store).finish_non_exhaustive()
    }
}

/// Runs operations and posts their outcomes to the inbox.
#[derive(Debug)]
pub struct Hands {
    seams: HandsSeams,
    storage: Arc<Storage>,
    mailbox: Mailbox,
    under_way: Mutex<BTreeMap<OpId, UnderWay>>,
}

/// How an operation that is under way can be ended early.
#[derive(Debug)]
enum UnderWay {
    Copy(CancelFlag),
    Send(CancellationToken),
    Freeze(PartitionId),
}

impl Hands {
    /// Makes the hands of the node that a handle reaches.
    pub fn new(seams: HandsSeams, node: &NodeHandle) -> Self {
        let storage = Storage::new(Arc::clone(&seams.store), Arc::clone(&seams.broker));
        let storage = Arc::new(storage);
        Self { seams, storage, mailbox: node.mailbox(), under_way: Mutex::default() }
    }

    /// Returns what sends Raft messages; any may be lost.
    pub fn voice(&self) -> Voice {
        let transport = Arc::clone(&self.seams.transport);
        Box::new(move |message: Outgoing| {
            let bytes = Bytes::from(message.bytes);
            transport.send_raft(message.to, bytes, message.is_snapshot);
        })
    }

    /// Sends a Raft message that was to be sent before there was a voice; it may be lost.
    pub fn send(&self, message: Outgoing) {
        self.voice()(message);
    }

    /// Lets every gate know what the node may do.
    pub fn publish(&self, authority: Authority) {
        let ground = &self.seams.ground;
        *ground.authority.write().unwrap_or_else(PoisonError::into_inner) = authority;
    }

    /// Lets producers know how much may be accepted.
    pub fn room(&self, room: Room) {
        self.seams.ingress.door().publish(room);
    }

    /// Notes that the node knows of accepted records, and that its room is published.
    pub fn heard(&self, load: Load) {
        self.seams.ingress.door().heard(load);
    }

    /// Starts an operation; its outcome is posted to the inbox.
    pub fn run(&self, op: OpId, operation: Operation) {
        match operation {
            Operation::Call { to, request } => self.call(op, to, request),
            Operation::NextIncarnation => {
                let next_life = Arc::clone(&self.seams.next_life);
                self.block(op, move |_| Outcome::NextIncarnation(next_life()));
            }
            Operation::Inspect(partition) => {
                self.block(op, move |storage| Outcome::Inspect(storage.inspect(partition)));
            }
            Operation::Host(partition, work) => {
                self.block(op, move |storage| Outcome::Host(storage.host(partition, work)));
            }
            Operation::Stage(partition, work) => {
                let cancel = CancelFlag::default();
                self.remember(op, UnderWay::Copy(cancel.clone()));
                let client = Arc::clone(&self.seams.client);
                self.block(op, move |storage| {
                    Outcome::Stage(storage.stage(partition, work, wall_ms(), &*client, &cancel))
                });
            }
            Operation::Gate(partition, gating) => self.gate(op, partition, gating),
            Operation::Watermarks(partitions) => {
                self.block(op, move |storage| Outcome::Watermarks(storage.watermarks(&partitions)));
            }
            Operation::Ship(shipping) => self.ship(op, shipping),
            Operation::CloseAccept => {
                let (ingress, limit) = (self.ingress(), self.seams.request_timeout);
                self.block(op, move |_| Outcome::CloseAccept(ingress.close(limit)));
            }
            Operation::OpenAccept => {
                let ingress = self.ingress();
                self.block(op, move |_| {
                    ingress.open();
                    Outcome::OpenAccept
                });
            }
            // The replica carries these to Raft itself.
            Operation::Append(_) => self.mailbox.done(op, Outcome::Append(false)),
            Operation::Barrier => self.mailbox.done(op, Outcome::Barrier(None)),
            Operation::Survey => self.mailbox.done(op, Outcome::Survey(None)),
            Operation::Configure(_) => self.mailbox.done(op, Outcome::Configure(false)),
            Operation::Transfer { .. } => self.mailbox.done(op, Outcome::Transfer),
        }
    }

    /// Ends an operation early, if it can be; its outcome is posted all the same.
    pub fn cancel(&self, op: OpId) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        match under_way.get(&op) {
            Some(UnderWay::Copy(cancel)) => cancel.cancel(),
            Some(UnderWay::Send(cancel)) => cancel.cancel(),
            Some(UnderWay::Freeze(partition)) => {
                let seat = self.seams.broker.seat(*partition);
                seat.slot.give_up(op);
            }
            None => {}
        }
    }

    /// Forgets an operation that has ended.
    pub fn forget(&self, op: OpId) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&op);
    }

    /// Ends whatever can be ended.
    pub fn stop(&self) {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        for work in under_way.values() {
            match work {
                UnderWay::Copy(cancel) => cancel.cancel(),
                UnderWay::Send(cancel) => cancel.cancel(),
                UnderWay::Freeze(_) => {}
            }
        }
    }

    fn remember(&self, op: OpId, work: UnderWay) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(op, work);
    }

    /// Answers a peer. A tail that goes along is read on a thread that may block.
    pub fn answer(&self, reply: ReplySender, answer: Answer) {
        let (Answer::Capture(capture), Some((partition, reach))) = (&answer, reply.wish()) else {
            return reply.send(&answer);
        };
        let (listing, broker) = (capture.listing.clone(), Arc::clone(&self.seams.broker));
        self.seams.runtime.spawn_blocking(move || {
            let tail = read_tail(&LiveBytes::new(broker), partition, &listing, reach);
            reply.send_with(&answer, tail);
        });
    }

    fn call(&self, op: OpId, to: NodeId, request: Request) {
        let reach = match &request {
            Request::Prepare { partition, tail_bytes_max, .. } => {
                Some((*partition, self.storage.reach(*partition, *tail_bytes_max)))
            }
            // Whatever is copied after these belongs to no freeze that was.
            Request::List { partition, .. } | Request::Release { partition, .. } => {
                self.storage.tails().forget(*partition);
                None
            }
            Request::Heartbeat { .. }
            | Request::Propose(_)
            | Request::Join { .. }
            | Request::Renew { .. }
            | Request::TakeAcks { .. } => None,
        };
        let storage = Arc::clone(&self.storage);
        let transport = Arc::clone(&self.seams.transport);
        let (mailbox, limit) = (self.mailbox.clone(), self.seams.request_timeout);
        self.seams.runtime.spawn(async move {
            let asked = reach.map(|(_, reach)| reach);
            let answered = transport.call_with(to, &request, asked, limit).await;
            let answer = answered.map(|Answered { answer, tail }| {
                if let (Answer::Capture(capture), Some((partition, reach))) = (&answer, reach) {
                    storage.tails().keep(partition, to, (&capture.listing, reach), tail);
                }
                answer
            });
            let answer = answer.map_err(|error| match error {
                CallError::TimedOut | CallError::Closed => CallFault::TimedOut,
                CallError::Malformed => CallFault::Malformed,
                _ => CallFault::Unreachable,
            });
            mailbox.done(op, Outcome::Call(answer));
        });
    }

    fn ingress(&self) -> Arc<Ingress> {
        Arc::clone(&self.seams.ingress)
    }

    fn ship(&self, op: OpId, shipping: Shipping) {
        let ingress = self.ingress();
        match shipping {
            Shipping::Send { to, partition, epoch, batch, records } => {
                let cancel = CancellationToken::new();
                self.remember(op, UnderWay::Send(cancel.clone()));
                let consignment = Consignment { to, partition, epoch, batch, records };
                let transport = Arc::clone(&self.seams.transport);
                let (mailbox, limit) = (self.mailbox.clone(), self.seams.request_timeout);
                self.seams.runtime.spawn(async move {
                    let sent = shipping::send(ingress, transport, consignment, limit, cancel).await;
                    let outcome = Outcome::Ship(sent);
                    super::failpoint::after(&outcome);
                    mailbox.done(op, outcome);
                });
            }
            Shipping::Checkpoint(spent) => {
                self.block(op, move |_| Outcome::Ship(ingress.checkpoint(spent)));
            }
            Shipping::Carry(seqs) => {
                self.block(op, move |_| Outcome::Ship(ingress.carry(&seqs)));
            }
            Shipping::Salvage { partition, what, from } => {
                let store = Arc::clone(&self.seams.store);
                self.block(op, move |_| {
                    let salvaged = ingress.salvage(&*store, partition, what, from);
                    Outcome::Ship(ShippingOutcome::Salvage(salvaged))
                });
            }
        }
    }

    fn gate(&self, op: OpId, partition: PartitionId, gating: Gating) {
        let slot = self.seams.broker.seat(partition).slot;
        let outcome = match gating {
            Gating::Stand(standing) => {
                slot.stand(standing);
                GatingOutcome::Stand
            }
            Gating::Thaw(token) => {
                slot.thaw(token);
                GatingOutcome::Thaw
            }
            Gating::Resume(lineage) => {
                slot.resume(lineage);
                GatingOutcome::Resume
            }
            Gating::HandOver { forced } => GatingOutcome::HandOver(slot.hand_over(forced)),
            Gating::Take(acks) => GatingOutcome::Take(slot.take_acks(&acks)),
            Gating::List { incarnation, check } => {
                return self.block(op, move |_| {
                    let listing = slot.list(incarnation, &check);
                    let listing = listing.inspect_err(|error| {
                        tracing::warn!(%partition, %error, "cannot list");
                    });
                    Outcome::Gate(GatingOutcome::List(listing.ok()))
                });
            }
            Gating::Freeze { epoch, life } => {
                slot.begin_freeze(op, epoch, life);
                let Some(answer) = slot.take_answer(op) else {
                    // An append is under way.
                    self.remember(op, UnderWay::Freeze(partition));
                    return self.block(op, move |_| {
                        Outcome::Gate(GatingOutcome::Freeze(slot.await_answer(op)))
                    });
                };
                GatingOutcome::Freeze(answer)
            }
        };
        let outcome = Outcome::Gate(outcome);
        super::failpoint::after(&outcome);
        self.mailbox.done(op, outcome);
    }

    /// Runs something on a thread that may block.
    fn block(&self, op: OpId, work: impl FnOnce(&Storage) -> Outcome + Send + 'static) {
        let (storage, mailbox) = (Arc::clone(&self.storage), self.mailbox.clone());
        self.seams.runtime.spawn_blocking(move || {
            let outcome = work(&storage);
            super::failpoint::after(&outcome);
            mailbox.done(op, outcome);
        });
    }
}
