//! Consumers: how each reserves what is new, and says what became of it.

use std::time::Duration;

use narad_core::cursor::Handle;
use narad_core::ids::{Epoch, Offset, PartitionId};

use super::clients::{ClientDue, Clients, RequestNo, Waiting};
use super::message::{Ack, Fetch, Fetched, Payload, Settle};
use super::{Due, World};
use crate::random::Random;
use crate::time::Time;

/// The consumer of one partition.
#[derive(Debug)]
pub(super) struct Consumer {
    /// Behind the last record that it was given, and the reign.
    was: Option<(Epoch, Offset)>,
    /// When it fetches next; `None` while it waits for an answer.
    due: Option<Time>,
    /// It fetches no earlier, whatever is new.
    earliest: Time,
    /// An event that is scheduled: the one that serves if nothing new comes.
    backstop: Option<Time>,
    /// Whether records have come since it last asked.
    has_news: bool,
    random: Random,
}

impl Consumer {
    /// How long a consumer waits for something new before it asks all the same.
    const POLL_EVERY: Duration = Duration::from_millis(500);

    pub(super) const fn new(random: Random) -> Self {
        Self { was: None, due: None, earliest: Time::ZERO, backstop: None, has_news: false, random }
    }
}

impl World {
    /// The time of a fetch has come, unless that has changed since.
    pub(super) fn fetch_if_due(&mut self, partition: PartitionId) {
        let now = self.now;
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        if consumer.backstop.is_some_and(|at| at <= now) {
            consumer.backstop = None;
        }
        match consumer.due {
            Some(due) if due <= now => self.fetch_next(partition),
            Some(due) if consumer.backstop.is_none() => self.plan_fetch(partition, due),
            Some(_) | None => {}
        }
    }

    fn fetch_next(&mut self, partition: PartitionId) {
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        (consumer.due, consumer.has_news) = (None, false);
        let was = consumer.was;
        let Some((by, to)) = self.route(partition, None) else {
            return self.fetch_again(partition);
        };
        let request = self.clients.request(Waiting::Fetched { partition, machine: to });
        let visibility = self.clients.load.consume.visibility;
        let most = Clients::RESERVED_MAX;
        let fetch = Fetch { request, partition, was, most, visibility };
        self.send_as_client(by, to, request, Payload::Fetch(fetch));
    }

    /// Plans the fetch after one that went wrong.
    pub(super) fn fetch_again(&mut self, partition: PartitionId) {
        self.fetch_later(partition, true);
    }

    /// Plans the next fetch: soon, or once there is something new or a while has passed.
    fn fetch_later(&mut self, partition: PartitionId, is_soon: bool) {
        let now = self.now;
        let per_second = self.clients.load.consume.per_second.0.max(0.001);
        // A fetch brings several records; it is made a tenth as often as they are wanted, and at
        // least ten times a second.
        let pause = Duration::from_secs_f64((10.0 / per_second).clamp(0.01, 0.1));
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        let pause = consumer.random.duration(pause / 2..=pause + pause / 2);
        consumer.earliest = now.after(pause);
        let is_soon = is_soon || consumer.has_news;
        let at = if is_soon { consumer.earliest } else { now.after(Consumer::POLL_EVERY + pause) };
        self.plan_fetch(partition, at);
    }

    /// Has a partition's next fetch made at a time.
    pub(super) fn plan_fetch(&mut self, partition: PartitionId, at: Time) {
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        consumer.due = Some(at);
        if consumer.backstop.is_none_or(|backstop| at < backstop) {
            // A later event than one that is due already stays where it is.
            consumer.backstop = consumer.backstop.or(Some(at));
            self.schedule(at, Due::Client(ClientDue::Fetch(partition)));
        }
    }

    /// A partition has records that its consumer has not seen.
    pub(super) fn news(&mut self, partition: PartitionId) {
        let now = self.now;
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        consumer.has_news = true;
        let begins = Time::from_start(self.clients.load.consume.from);
        let soon = consumer.earliest.max(now).max(begins);
        if consumer.due.is_some_and(|due| soon < due) {
            self.plan_fetch(partition, soon);
        }
    }

    /// Reserves records once, as a step says: the first ones that are free.
    pub(crate) fn reserve(
        &mut self,
        partition: PartitionId,
        records: u32,
        then: Option<Then>,
        at: Option<usize>,
    ) {
        let Some((by, to)) = self.route(partition, at) else { return };
        let request = self.clients.request(Waiting::Reserved { partition, then, at });
        let most = usize::try_from(records).unwrap_or(usize::MAX);
        let visibility = self.clients.load.consume.visibility;
        let fetch = Fetch { request, partition, was: None, most, visibility };
        self.send_as_client(by, to, request, Payload::Fetch(fetch));
    }

    pub(super) fn fetch_ended(&mut self, request: RequestNo, outcome: Fetched) {
        match self.clients.waiting.remove(&request) {
            Some(Waiting::Fetched { partition, machine }) => {
                self.fetched(partition, machine, outcome);
            }
            Some(Waiting::Reserved { partition, then: Some(then), at }) => {
                let Fetched::Records { records, .. } = outcome else { return };
                let visibility = self.clients.load.consume.visibility;
                for handle in records {
                    let settle = match then {
                        Then::Ack => Settle::Ack(handle),
                        Then::Nack => Settle::Nack(handle, Duration::ZERO),
                        Then::Extend => Settle::Extend(handle, visibility),
                    };
                    self.settle(partition, settle, at);
                }
            }
            Some(Waiting::Reserved { then: None, .. } | Waiting::Produced(..) | Waiting::Acked)
            | None => {}
        }
    }

    fn fetched(&mut self, partition: PartitionId, machine: usize, outcome: Fetched) {
        let Fetched::Records { records, more } = outcome else {
            return self.fetch_again(partition);
        };
        if let (Some(last), Some(consumer)) =
            (records.last(), self.clients.consumers.get_mut(&partition))
        {
            consumer.was = Some((last.epoch, last.offset.next()));
        }
        self.plan_acks(partition, machine, &records);
        self.fetch_later(partition, more);
    }

    fn plan_acks(&mut self, partition: PartitionId, machine: usize, records: &[Handle]) {
        let consume = self.clients.load.consume.clone();
        for handle in records {
            let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
            let random = &mut consumer.random;
            // It has died: after a while somebody else is given it.
            if random.happens(consume.never.0) {
                continue;
            }
            let is_nacked = random.happens(consume.nack.0);
            let mut delay = random.duration(consume.lag.least..=consume.lag.most);
            if random.happens(consume.late.0) {
                delay += consume.visibility;
            }
            let at = random.happens(consume.old_owner.0).then_some(machine);
            let twice = random.happens(consume.twice.0);
            let mut settle = Settle::Ack(*handle);
            if is_nacked {
                let rest = Duration::from_millis(random.below(2) * 300);
                settle = Settle::Nack(*handle, rest);
            }
            if random.happens(consume.extend.0) {
                let extend = Settle::Extend(*handle, consume.visibility);
                let early = self.now.after(delay / 2);
                self.schedule(early, Due::Client(ClientDue::Settle(partition, extend, at)));
            }
            let due = ClientDue::Settle(partition, settle, at);
            self.schedule(self.now.after(delay), Due::Client(due.clone()));
            if twice {
                self.schedule(self.now.after(2 * delay), Due::Client(due));
            }
        }
    }

    /// Says what becomes of a record, to the owner that some node names or to a given machine.
    pub(crate) fn settle(&mut self, partition: PartitionId, settle: Settle, at: Option<usize>) {
        let Some((by, to)) = self.route(partition, at) else { return };
        let request = self.clients.request(Waiting::Acked);
        let ack = Ack { request, partition, settle };
        self.send_as_client(by, to, request, Payload::Ack(ack));
    }

    /// Whatever was not taken is delivered again in time.
    pub(super) fn ack_ended(&mut self, request: RequestNo, taken: bool) {
        self.clients.waiting.remove(&request);
        if !taken {
            self.recorder.count("consumers-refused");
        }
    }
}

/// What is done with what a step has reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Ack,
    Nack,
    Extend,
}
