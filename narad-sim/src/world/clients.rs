//! Producers and consumers: one of each for every partition, wherever that goes.
//!
//! A producer hands its records to the dispatcher of some node that is up, which sends them to
//! whom its own replica takes for the owner, and again until they are acknowledged. A consumer
//! reads at the owner that some node names, acknowledges what it has read a little later (or late,
//! twice, or not before it is delivered again), and goes back to the acknowledged position whenever
//! the partition has changed hands or nothing new comes (R53).

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::ids::{Epoch, Offset, PartitionId, TopicId};

use super::message::{Ack, Fetch, Fetched, Message, Payload, Produce, Produced};
use super::records::record;
use super::setup::{Consuming, Producing};
use super::{Due, World};
use crate::oracle::{Fact, Read};
use crate::random::Random;
use crate::time::Time;

/// Names one request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestNo(pub(crate) u64);

/// Something that a client will do.
#[derive(Clone, Debug)]
pub(crate) enum ClientDue {
    /// The producer of a partition makes its next records.
    Produce(PartitionId),
    /// A burst of records.
    Burst(PartitionId),
    /// Records are offered again.
    Offer(PartitionId, Vec<u64>),
    /// A request has had no answer for too long.
    GiveUp(RequestNo),
    /// The consumer of a partition asks for what comes next.
    Fetch(PartitionId),
    /// A record is acknowledged; at a given machine, or at the owner.
    Ack(PartitionId, Epoch, Offset, Option<usize>),
}

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) load: Workload,
    /// When producers end.
    pub(crate) until: Time,
    /// Whether the load in the background goes on.
    pub(crate) is_busy: bool,
    consumers: BTreeMap<PartitionId, Consumer>,
    producers: BTreeMap<PartitionId, Random>,
    waiting: BTreeMap<RequestNo, Waiting>,
    next_request: u64,
    next_record: u64,
    random: Random,
}

#[derive(Debug)]
struct Consumer {
    /// Where it goes on; `None`: where the acknowledged position is.
    next: Option<(Epoch, Offset)>,
    /// Fetches in a row that brought nothing.
    idle: u32,
    random: Random,
}

/// What a client waits for.
#[derive(Clone, Debug)]
enum Waiting {
    Produced(PartitionId, Vec<u64>),
    Fetched { partition: PartitionId, machine: usize },
    Acked { partition: PartitionId },
}

impl Clients {
    const TIMEOUT: Duration = Duration::from_secs(2);
    const RETRY: Duration = Duration::from_millis(50);
    /// Fetches without anything new after which a consumer looks at what it has not acknowledged.
    const IDLE_MAX: u32 = 20;
    const FETCH_BYTES_MAX: usize = 64 << 10;

    pub(crate) fn new(
        producing: Option<Producing>,
        consuming: Option<Consuming>,
        random: &Random,
    ) -> Self {
        Self {
            producing,
            consuming,
            is_busy: true,
            consumers: BTreeMap::new(),
            producers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_request: 0,
            next_record: 0,
            random: random.branch("clients"),
        }
    }

    fn request(&mut self, waiting: Waiting) -> RequestNo {
        self.next_request += 1;
        let request = RequestNo(self.next_request);
        self.waiting.insert(request, waiting);
        request
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
        self.clients.producers.insert(partition, random.branch("produce"));
        let consumer = Consumer { next: None, idle: 0, random: random.branch("consume") };
        self.clients.consumers.insert(partition, consumer);
        if let Some(producing) = self.clients.producing.clone() {
            let from = self.now.max(Time::from_start(producing.from));
            self.schedule(from, Due::Client(ClientDue::Produce(partition)));
            if let Some((every, _)) = producing.burst {
                self.schedule(from.after(every), Due::Client(ClientDue::Burst(partition)));
            }
        }
        if self.clients.consuming.is_some() {
            self.schedule(self.now, Due::Client(ClientDue::Fetch(partition)));
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
            ClientDue::Offer(partition, ids) => self.offer(partition, ids, None),
            ClientDue::GiveUp(request) => self.client_gives_up(request),
            ClientDue::Fetch(partition) => self.fetch_next(partition),
            ClientDue::Ack(partition, epoch, offset, at) => {
                self.acknowledge(partition, epoch, offset, at);
            }
        }
    }

    fn produce_next(&mut self, partition: PartitionId) {
        let Some(producing) = self.clients.producing.clone() else { return };
        let Some(random) = self.clients.producers.get_mut(&partition) else { return };
        if self.now >= Time::from_start(producing.until) {
            return;
        }
        let per_second = producing.rate_of(partition);
        if per_second <= 0.0 {
            return;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a pause in nanoseconds")]
        let mean = (1e9 / per_second) as u64;
        let pause = Duration::from_nanos(random.within(mean / 2..=mean + mean / 2));
        self.schedule(self.now.after(pause), Due::Client(ClientDue::Produce(partition)));
        if self.clients.is_busy {
            let ids = self.clients.mint(1);
            self.offer(partition, ids, None);
        }
    }

    fn burst(&mut self, partition: PartitionId) {
        let Some(producing) = self.clients.producing.clone() else { return };
        let Some((every, records)) = producing.burst else { return };
        let gone = !self.clients.producers.contains_key(&partition);
        if gone || self.now >= Time::from_start(producing.until) {
            return;
        }
        self.schedule(self.now.after(every), Due::Client(ClientDue::Burst(partition)));
        if self.clients.is_busy {
            let ids = self.clients.mint(records);
            self.offer(partition, ids, None);
        }
    }

    /// Offers records to a partition, by way of some node that is up.
    pub(crate) fn offer(&mut self, partition: PartitionId, ids: Vec<u64>, at: Option<usize>) {
        let Some((from, to)) = self.route(partition, at) else {
            return self.offer_later(partition, ids);
        };
        let wall = self.machines[from].clock.wall_ms(self.now);
        let bytes = self.clients.producing.as_ref().map_or(100, |producing| producing.value_bytes);
        let records = ids.iter().map(|id| record(*id, bytes, wall)).collect();
        let request = self.clients.request(Waiting::Produced(partition, ids));
        self.send_as_client(from, to, request, Payload::Produce(Produce { request, partition, records }));
    }

    fn offer_later(&mut self, partition: PartitionId, ids: Vec<u64>) {
        let Some(random) = self.clients.producers.get_mut(&partition) else { return };
        let pause = random.duration(Clients::RETRY..=4 * Clients::RETRY);
        let again = ClientDue::Offer(partition, ids);
        self.schedule(self.now.after(pause), Due::Client(again));
    }

    /// Picks a node that is up and asks its replica who the owner is.
    fn route(&mut self, partition: PartitionId, at: Option<usize>) -> Option<(usize, usize)> {
        let up: Vec<usize> = (0..self.machines.len())
            .filter(|it| {
                let machine = &self.machines[*it];
                machine.process.is_some() && machine.paused.is_none()
            })
            .collect();
        let from = *self.clients.random.pick(&up)?;
        let process = self.machines[from].process.as_ref()?;
        let owner = || process.replica.node().state().assignment(partition).map(|row| row.owner);
        let to = match at {
            Some(to) => to,
            None => self.machine_of(owner()?)?,
        };
        Some((from, to))
    }

    fn send_as_client(&mut self, from: usize, to: usize, request: RequestNo, payload: Payload) {
        let late = self.now.after(Clients::TIMEOUT);
        self.schedule(late, Due::Client(ClientDue::GiveUp(request)));
        let life = self.machines[from].life;
        self.send(Message { from, to, life, payload, line: 0 });
    }

    fn client_gives_up(&mut self, request: RequestNo) {
        match self.clients.waiting.remove(&request) {
            Some(Waiting::Produced(partition, ids)) => self.offer_later(partition, ids),
            Some(Waiting::Fetched { partition, .. }) => self.fetch_later(partition, false),
            Some(Waiting::Acked { .. }) | None => {}
        }
    }

    pub(super) fn produce_ended(&mut self, request: RequestNo, outcome: Produced) {
        let Some(Waiting::Produced(partition, ids)) = self.clients.waiting.remove(&request) else {
            return;
        };
        if outcome == Produced::Refused {
            self.offer_later(partition, ids);
        }
    }

    fn fetch_next(&mut self, partition: PartitionId) {
        let Some(consumer) = self.clients.consumers.get(&partition) else { return };
        let from = consumer.next;
        let Some((by, to)) = self.route(partition, None) else {
            return self.fetch_later(partition, false);
        };
        let request = self.clients.request(Waiting::Fetched { partition, machine: to });
        self.send_as_client(by, to, request, Payload::Fetch(Fetch { request, partition, from }));
    }

    fn fetch_later(&mut self, partition: PartitionId, had_some: bool) {
        let Some(consuming) = self.clients.consuming.as_ref() else { return };
        let pause = consuming.pause;
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        consumer.idle = if had_some { 0 } else { consumer.idle + 1 };
        if consumer.idle >= Clients::IDLE_MAX {
            consumer.next = None;
            consumer.idle = 0;
        }
        let pause = consumer.random.duration(pause / 2..=pause + pause / 2);
        self.schedule(self.now.after(pause), Due::Client(ClientDue::Fetch(partition)));
    }

    pub(super) fn fetch_ended(&mut self, request: RequestNo, outcome: Fetched) {
        let Some(Waiting::Fetched { partition, machine }) = self.clients.waiting.remove(&request)
        else {
            return;
        };
        let Fetched::Records { epoch, hwm, records } = outcome else {
            if let Some(node) = self.machines[machine].node {
                self.observe(Fact::ReadRefused { node, partition });
            }
            return self.fetch_later(partition, false);
        };
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        let Some((last, _)) = records.last() else { return self.fetch_later(partition, false) };
        consumer.next = Some((epoch, last.next()));
        self.delivered_to_consumer(partition, machine, epoch, hwm, &records);
        self.plan_acks(partition, machine, epoch, &records);
        self.fetch_later(partition, true);
    }

    /// Tells of records that a consumer has got, run by run: offsets have gaps where control
    /// frames are.
    fn delivered_to_consumer(
        &mut self,
        partition: PartitionId,
        machine: usize,
        epoch: Epoch,
        hwm: Offset,
        records: &[(Offset, u64)],
    ) {
        let Some(node) = self.machines[machine].node else { return };
        for run in records.chunk_by(|(one, _), (next, _)| one.next() == *next) {
            let ids: Vec<u64> = run.iter().map(|(_, id)| *id).collect();
            let (first, how) = (run[0].0, Read::Reserved);
            self.recorder.read(self.now, machine, partition, ids.len());
            self.observe(Fact::Delivered { node, partition, epoch, first, ids: &ids, hwm, how });
        }
    }

    fn plan_acks(
        &mut self,
        partition: PartitionId,
        machine: usize,
        epoch: Epoch,
        records: &[(Offset, u64)],
    ) {
        let Some(consuming) = self.clients.consuming.clone() else { return };
        for (offset, _) in records {
            let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
            let random = &mut consumer.random;
            if random.happens(consuming.never) {
                continue;
            }
            let lag = consuming.lag;
            let mut delay = random.duration(lag / 2..=lag + lag / 2);
            if random.happens(consuming.late) {
                delay += random.duration(Duration::from_secs(1)..=Duration::from_secs(10));
            }
            let at = random.happens(consuming.old_owner).then_some(machine);
            let twice = random.happens(consuming.twice);
            let ack = ClientDue::Ack(partition, epoch, *offset, at);
            self.schedule(self.now.after(delay), Due::Client(ack.clone()));
            if twice {
                self.schedule(self.now.after(2 * delay), Due::Client(ack));
            }
        }
    }

    /// Acknowledges one record, at the owner that some node names or at a given machine.
    pub(crate) fn acknowledge(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
        offset: Offset,
        at: Option<usize>,
    ) {
        let Some((by, to)) = self.route(partition, at) else { return };
        let request = self.clients.request(Waiting::Acked { partition });
        let ack = Ack { request, partition, epoch, offset };
        self.send_as_client(by, to, request, Payload::Ack(ack));
    }

    pub(super) fn ack_ended(&mut self, request: RequestNo, taken: bool) {
        let Some(Waiting::Acked { partition }) = self.clients.waiting.remove(&request) else {
            return;
        };
        if !taken && let Some(consumer) = self.clients.consumers.get_mut(&partition) {
            // Whatever was not taken is delivered again.
            consumer.next = None;
        }
    }

    /// How much a consumer gets at once.
    pub(super) const fn fetch_bytes_max() -> usize {
        Clients::FETCH_BYTES_MAX
    }
}
