//! Producers and consumers: one of each for every partition, wherever that goes.
//!
//! A producer hands its records to the dispatcher of some node that is up, which sends them to
//! whom its own replica takes for the owner, and again until they are acknowledged; or it has them
//! accepted by the nodes that are up, one after the other. A consumer
//! reserves at the owner that some node names, and acknowledges what it was given a little later, or
//! late, or twice; or it hands it back, keeps it for longer, or dies over it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use narad_core::ids::{PartitionId, TopicId};
use narad_core::metastore::State;
use rustc_hash::FxHashMap;

use super::consumers::{Consumer, Then};
use super::machine::Machine;
use super::message::{Message, Payload, Produced, Settle};
use super::{Due, World};
use crate::random::Random;
use crate::scenario::{Address, Produce as Production, Route, Via, Workload};
use crate::time::Time;

/// Names one request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestNo(pub(crate) u64);

/// Records of a producer.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) partition: PartitionId,
    pub(crate) ids: Vec<u64>,
    /// How long each of them is.
    pub(crate) bytes: usize,
    pub(crate) via: Via,
    /// How the partition is asked for, of those that any node accepts.
    pub(crate) address: Address,
}

/// Something that a client will do.
#[derive(Clone, Debug)]
pub(crate) enum ClientDue {
    /// The producer of a partition makes its next records.
    Produce(PartitionId),
    /// A burst of records.
    Burst(PartitionId),
    /// Records are offered, or offered again.
    Offer(Offer),
    /// Some request may have had no answer for too long.
    GiveUp,
    /// The consumer of a partition asks for what comes next.
    Fetch(PartitionId),
    /// Retention is applied at the owner.
    Retain(PartitionId),
    /// What becomes of a record is said: to a given machine, or to the owner.
    Settle(PartitionId, Settle, Option<usize>),
}

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) load: Workload,
    /// When producers end.
    until: Time,
    /// What a step has set the rate of a partition to.
    rates: BTreeMap<PartitionId, f64>,
    /// What a step has set the rate of all others to.
    rate: f64,
    /// The first partition of the first topic, if most records go there.
    hot: Option<(PartitionId, f64)>,
    /// Whether the load in the background goes on.
    pub(crate) is_busy: bool,
    pub(super) consumers: BTreeMap<PartitionId, Consumer>,
    pub(super) producers: BTreeMap<PartitionId, Producer>,
    /// Looked up and never walked through.
    pub(super) waiting: FxHashMap<RequestNo, Waiting>,
    /// When each request is given up, the earliest first; those with an answer included.
    patience: VecDeque<(Time, RequestNo)>,
    next_request: u64,
    next_record: u64,
    /// Nodes that producers have gone to, one after the other.
    pub(super) next_node: usize,
    pub(super) random: Random,
}

#[derive(Debug)]
pub(super) struct Producer {
    /// Batches that are neither acknowledged nor given up.
    pub(super) open: u32,
    pub(super) random: Random,
}

/// What a client waits for.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Produced(Offer),
    Fetched {
        partition: PartitionId,
        machine: usize,
    },
    /// What a step asked for, and what it does with that, at a given machine.
    Reserved {
        partition: PartitionId,
        then: Option<Then>,
        at: Option<usize>,
    },
    Acked,
}

impl Clients {
    const TIMEOUT: Duration = Duration::from_secs(2);
    pub(super) const RETRY: Duration = Duration::from_millis(50);
    const FETCH_BYTES_MAX: usize = 64 << 10;
    /// Most records that a consumer reserves at once.
    pub(super) const RESERVED_MAX: usize = 256;
    /// Batches of one producer that may be open before it makes more: its buffer is full.
    const OPEN_MAX: u32 = 32;

    pub(crate) fn new(load: &Workload, safety: Duration, rate: f64, random: &Random) -> Self {
        let until = load.produce.until.unwrap_or(safety);
        Self {
            load: load.clone(),
            until: Time::from_start(until),
            rates: BTreeMap::new(),
            rate,
            hot: None,
            is_busy: true,
            consumers: BTreeMap::new(),
            producers: BTreeMap::new(),
            waiting: FxHashMap::default(),
            patience: VecDeque::new(),
            next_request: 0,
            next_record: 0,
            next_node: 0,
            random: random.branch("clients"),
        }
    }

    /// Sets the rate of one partition, or of all, from now on.
    pub(crate) fn set_rate(&mut self, partition: Option<PartitionId>, per_second: f64) {
        if let Some(partition) = partition {
            self.rates.insert(partition, per_second);
        } else {
            self.rates.clear();
            self.rate = per_second;
        }
    }

    fn rate_of(&self, partition: PartitionId) -> f64 {
        if let Some(rate) = self.rates.get(&partition) {
            return *rate;
        }
        #[expect(clippy::cast_precision_loss, reason = "there are few partitions")]
        let all = self.producers.len() as f64;
        match self.hot {
            Some((hot, share)) if hot == partition => self.rate * all * share,
            Some((_, share)) if all > 1.0 => self.rate * all * (1.0 - share) / (all - 1.0),
            Some(_) | None => self.rate,
        }
    }

    /// Draws how long the value of a record is.
    fn value_bytes(&mut self) -> usize {
        let produce = &self.load.produce;
        let bytes = match &produce.huge_bytes {
            Some(huge) if self.random.below(100) == 0 => huge.0,
            Some(_) | None => produce.value_bytes.0,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn request(&mut self, waiting: Waiting) -> RequestNo {
        self.next_request += 1;
        let request = RequestNo(self.next_request);
        self.waiting.insert(request, waiting);
        request
    }

    /// Draws whether somebody reads beside a consumer.
    pub(super) fn reads_plainly(&mut self) -> bool {
        self.random.below(16) == 0
    }

    /// Returns records as producers offer them where nothing else is said.
    pub(crate) fn usual(&self, partition: PartitionId, ids: Vec<u64>, bytes: usize) -> Offer {
        let Production { via, address, .. } = self.load.produce;
        Offer { partition, ids, bytes, via, address }
    }

    /// Returns the ids of so many new records.
    pub(crate) fn mint(&mut self, count: u64) -> Vec<u64> {
        let first = self.next_record + 1;
        self.next_record += count;
        (first..=self.next_record).collect()
    }
}

impl World {
    /// Gives a partition that has come into being its producer and its consumer.
    pub(super) fn attend(&mut self, partition: PartitionId) {
        if self.clients.producers.contains_key(&partition) {
            return;
        }
        let key = partition.topic.0 << 32 | u64::from(partition.index);
        let random = self.clients.random.branch_no(key);
        let producer = Producer { open: 0, random: random.branch("produce") };
        self.clients.producers.insert(partition, producer);
        let consumer = Consumer::new(random.branch("consume"));
        self.clients.consumers.insert(partition, consumer);
        if let (Some(share), None) = (&self.clients.load.produce.hot, &self.clients.hot) {
            self.clients.hot = Some((partition, share.0));
        }
        let load = self.clients.load.clone();
        let from = self.now.max(Time::from_start(load.produce.from));
        self.schedule(from, Due::Client(ClientDue::Produce(partition)));
        if let Some(burst) = &load.produce.burst {
            self.schedule(from.after(burst.every), Due::Client(ClientDue::Burst(partition)));
        }
        if load.consume.per_second.0 > 0.0 {
            self.plan_fetch(partition, self.now.max(Time::from_start(load.consume.from)));
        }
        if let Some(retention) = &load.retention {
            self.schedule(
                self.now.after(retention.every),
                Due::Client(ClientDue::Retain(partition)),
            );
        }
    }

    /// Gives partitions what they hold from the start.
    pub(super) fn preload(&mut self, genesis: &State) {
        for topic in self.setup.scenario.topics.clone() {
            let Some(id) = genesis.topic_named(&topic.name.0).map(|topic| topic.id) else {
                continue;
            };
            for index in 0..topic.partitions {
                if topic.preload == 0 {
                    continue;
                }
                let partition = PartitionId { topic: id, index };
                let ids = self.clients.mint(u64::from(topic.preload));
                let bytes = usize::try_from(topic.preload_bytes.0).unwrap_or(100);
                let (via, address) = (Via::Direct, Address::Number);
                self.offer_at(self.now, Offer { partition, ids, bytes, via, address });
            }
        }
    }

    /// The clients of a topic that is no more go away.
    pub(super) fn dismiss(&mut self, topic: TopicId) {
        self.clients.producers.retain(|partition, _| partition.topic != topic);
        self.clients.consumers.retain(|partition, _| partition.topic != topic);
    }

    pub(super) fn client(&mut self, what: ClientDue) {
        match what {
            ClientDue::Produce(partition) => self.produce_next(partition),
            ClientDue::Burst(partition) => self.burst(partition),
            ClientDue::Offer(offer) => {
                self.close_batch(offer.partition);
                self.offer(offer, None);
            }
            ClientDue::Retain(partition) => self.retain_next(partition),
            ClientDue::GiveUp => self.clients_give_up(),
            ClientDue::Fetch(partition) => self.fetch_if_due(partition),
            ClientDue::Settle(partition, settle, at) => self.settle(partition, settle, at),
        }
    }

    fn produce_next(&mut self, partition: PartitionId) {
        if !self.clients.producers.contains_key(&partition) || self.now >= self.clients.until {
            return;
        }
        let batch = self.clients.load.produce.batch.max(1);
        let per_second = self.clients.rate_of(partition) / f64::from(batch);
        // A rate of zero is looked at again: a step may change it.
        let mean = if per_second > 0.0 { 1e9 / per_second } else { 1e8 };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a pause in nanoseconds"
        )]
        let mean = (mean as u64).max(2);
        let producer = self.clients.producers.get_mut(&partition).expect("just seen");
        let pause = Duration::from_nanos(producer.random.within(mean / 2..=mean + mean / 2));
        let has_room = producer.open < Clients::OPEN_MAX;
        self.schedule(self.now.after(pause), Due::Client(ClientDue::Produce(partition)));
        if self.clients.is_busy && per_second > 0.0 && has_room {
            let ids = self.clients.mint(u64::from(batch));
            let bytes = self.clients.value_bytes();
            self.offer(self.clients.usual(partition, ids, bytes), None);
        }
    }

    fn burst(&mut self, partition: PartitionId) {
        let Some(burst) = self.clients.load.produce.burst.clone() else { return };
        let Some(producer) = self.clients.producers.get(&partition) else { return };
        if self.now >= self.clients.until {
            return;
        }
        let has_room = producer.open < Clients::OPEN_MAX;
        self.schedule(self.now.after(burst.every), Due::Client(ClientDue::Burst(partition)));
        if self.clients.is_busy && has_room {
            let ids = self.clients.mint(u64::from(burst.records));
            let bytes = self.clients.value_bytes();
            self.offer(self.clients.usual(partition, ids, bytes), None);
        }
    }

    /// Picks a node that is up and asks its replica who the owner is.
    pub(super) fn route(
        &mut self,
        partition: PartitionId,
        at: Option<usize>,
    ) -> Option<(usize, usize)> {
        let count = self.up.iter().filter(|up| **up).count();
        let nth = self.clients.random.below(count as u64);
        let nth = usize::try_from(nth).ok()?;
        let from = if count == self.up.len() {
            (nth < count).then_some(nth)?
        } else {
            self.up.iter().enumerate().filter(|(_, up)| **up).nth(nth)?.0
        };
        if let Some(to) = at {
            return Some((from, to));
        }
        let owner = match self.clients.load.produce.route {
            Route::Fresh => self.newest()?.assignment(partition)?.owner,
            Route::Stale => {
                let process = self.machines[from].process.as_ref()?;
                process.replica.node().state().assignment(partition)?.owner
            }
            Route::Anyone => {
                let claims = self.claimants(partition);
                return self.clients.random.pick(&claims).map(|to| (from, *to));
            }
        };
        Some((from, self.machine_of(owner)?))
    }

    /// Returns the machines whose node takes itself for the owner of a partition.
    fn claimants(&self, partition: PartitionId) -> Vec<usize> {
        let claims = |machine: &Machine| {
            let process = machine.process.as_ref()?;
            let row = process.replica.node().state().assignment(partition)?;
            (Some(row.owner) == machine.node).then_some(())
        };
        (0..self.machines.len()).filter(|at| claims(&self.machines[*at]).is_some()).collect()
    }

    pub(super) fn send_as_client(
        &mut self,
        from: usize,
        to: usize,
        request: RequestNo,
        payload: Payload,
    ) {
        let late = self.now.after(Clients::TIMEOUT);
        if self.clients.patience.is_empty() {
            self.schedule(late, Due::Client(ClientDue::GiveUp));
        }
        self.clients.patience.push_back((late, request));
        let life = self.machines[from].life;
        self.send(Message { from, to, life, payload, line: 0 });
    }

    /// Gives up what has waited for too long. All wait equally long, so that one event, at the time
    /// of the first that still waits, serves all of them.
    fn clients_give_up(&mut self) {
        while let Some((late, request)) = self.clients.patience.front().copied() {
            if !self.clients.waiting.contains_key(&request) {
                self.clients.patience.pop_front();
            } else if late > self.now {
                return self.schedule(late, Due::Client(ClientDue::GiveUp));
            } else {
                // What follows may begin to wait anew: it finds others waiting, and no event due.
                self.client_gives_up(request);
            }
        }
    }

    fn client_gives_up(&mut self, request: RequestNo) {
        match self.clients.waiting.remove(&request) {
            Some(Waiting::Produced(offer)) => {
                self.close_batch(offer.partition);
                self.offer_unsure(offer);
            }
            Some(Waiting::Fetched { partition, .. }) => self.fetch_again(partition),
            Some(Waiting::Reserved { .. } | Waiting::Acked) | None => {}
        }
    }

    pub(super) fn produce_ended(&mut self, request: RequestNo, outcome: Produced) {
        let Some(Waiting::Produced(offer)) = self.clients.waiting.remove(&request) else {
            return;
        };
        self.close_batch(offer.partition);
        if outcome == Produced::Refused {
            self.offer_later(offer);
        }
    }

    /// Records whose fate is not known are offered again, or not.
    fn offer_unsure(&mut self, offer: Offer) {
        if self.clients.random.happens(self.clients.load.produce.retry.0) {
            self.offer_later(offer);
        }
    }

    fn retain_next(&mut self, partition: PartitionId) {
        let Some(retention) = self.clients.load.retention.clone() else { return };
        if !self.clients.producers.contains_key(&partition) {
            return;
        }
        let next = self.now.after(retention.every);
        self.schedule(next, Due::Client(ClientDue::Retain(partition)));
        let owner = self.newest().and_then(|state| Some(state.assignment(partition)?.owner));
        if let Some(machine) = owner.and_then(|owner| self.machine_of(owner)) {
            self.retain_at(machine, partition, retention.keep_bytes.0);
        }
    }

    /// How much a consumer gets at once over a link of that bandwidth: what it carries in an eighth
    /// of a second, so that the answers to all consumers of an owner arrive in time.
    pub(super) fn fetch_bytes_max(bandwidth: u64) -> usize {
        match usize::try_from(bandwidth / 8) {
            Ok(0) | Err(_) => Clients::FETCH_BYTES_MAX,
            Ok(carried) => carried.min(Clients::FETCH_BYTES_MAX),
        }
    }
}
