//! Consumers: how each reads what is new, and acknowledges what it has read.

use std::time::Duration;

use narad_core::ids::{Epoch, Offset, PartitionId};

use super::clients::{ClientDue, RequestNo, Waiting};
use super::message::{Ack, Fetch, Fetched, Payload};
use super::{Due, World};
use crate::random::Random;
use crate::time::Time;

/// The consumer of one partition.
#[derive(Debug)]
pub(super) struct Consumer {
    /// Where it goes on; `None`: where the acknowledged position is.
    next: Option<(Epoch, Offset)>,
    /// Whether it goes back to where the acknowledged position is, after the next answer.
    looks_back: bool,
    /// When it was last given something, or looked back.
    last_some: Time,
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
    /// How long without anything new before a consumer looks at what it has not acknowledged.
    const LOOK_BACK_AFTER: Duration = Duration::from_secs(2);

    pub(super) const fn new(random: Random) -> Self {
        Self {
            next: None,
            looks_back: false,
            last_some: Time::ZERO,
            due: None,
            earliest: Time::ZERO,
            backstop: None,
            has_news: false,
            random,
        }
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
        let from = consumer.next;
        let Some((by, to)) = self.route(partition, None) else {
            return self.fetch_again(partition);
        };
        let request = self.clients.request(Waiting::Fetched { partition, machine: to });
        self.send_as_client(by, to, request, fetch_of(request, partition, from, None));
    }

    /// Plans the fetch after one that went wrong. Where the consumer was, it still is: only what is
    /// answered, and brings nothing new, makes it look back.
    pub(super) fn fetch_again(&mut self, partition: PartitionId) {
        if let Some(consumer) = self.clients.consumers.get_mut(&partition) {
            consumer.last_some = self.now;
        }
        self.fetch_later(partition, false, true);
    }

    /// Plans the next fetch: soon, or once there is something new or a while has passed.
    fn fetch_later(&mut self, partition: PartitionId, had_some: bool, is_soon: bool) {
        let now = self.now;
        let per_second = self.clients.load.consume.per_second.0.max(0.001);
        // A fetch brings several records; it is made a tenth as often as they are wanted, and at
        // least ten times a second.
        let pause = Duration::from_secs_f64((10.0 / per_second).clamp(0.01, 0.1));
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        if had_some {
            consumer.last_some = now;
        }
        if now.since(consumer.last_some) >= Consumer::LOOK_BACK_AFTER {
            consumer.next = None;
            consumer.last_some = now;
        }
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

    /// Reserves records once, as a step says: the first ones that are not acknowledged.
    pub(crate) fn reserve(
        &mut self,
        partition: PartitionId,
        records: u32,
        ack: bool,
        at: Option<usize>,
    ) {
        let Some((by, to)) = self.route(partition, at) else { return };
        let request = self.clients.request(Waiting::Reserved { partition, ack, at });
        let most = usize::try_from(records).ok();
        self.send_as_client(by, to, request, fetch_of(request, partition, None, most));
    }

    pub(super) fn fetch_ended(&mut self, request: RequestNo, outcome: Fetched) {
        match self.clients.waiting.remove(&request) {
            Some(Waiting::Fetched { partition, machine }) => {
                self.fetched(partition, machine, outcome);
            }
            Some(Waiting::Reserved { partition, ack: true, at }) => {
                let Fetched::Records { epoch, records, .. } = outcome else { return };
                for (offset, _) in records {
                    self.acknowledge(partition, epoch, offset, at);
                }
            }
            Some(
                Waiting::Reserved { ack: false, .. }
                | Waiting::Produced(..)
                | Waiting::Acked { .. },
            )
            | None => {}
        }
    }

    fn fetched(&mut self, partition: PartitionId, machine: usize, outcome: Fetched) {
        let Fetched::Records { epoch, records, more, next } = outcome else {
            return self.fetch_again(partition);
        };
        let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
        let looks_back = std::mem::take(&mut consumer.looks_back);
        let Some((last, _)) = records.last() else {
            // What was acknowledged ahead is passed over.
            let after = next.map(|next| (epoch, next)).or(consumer.next);
            consumer.next = after.filter(|_| !looks_back);
            return self.fetch_later(partition, false, more);
        };
        let after = next.unwrap_or(last.next());
        consumer.next = Some((epoch, after)).filter(|_| !looks_back);
        self.plan_acks(partition, machine, epoch, &records);
        self.fetch_later(partition, true, more);
    }

    fn plan_acks(
        &mut self,
        partition: PartitionId,
        machine: usize,
        epoch: Epoch,
        records: &[(Offset, u64)],
    ) {
        let consume = self.clients.load.consume.clone();
        for (offset, _) in records {
            let Some(consumer) = self.clients.consumers.get_mut(&partition) else { return };
            let random = &mut consumer.random;
            // What is handed back is as good as never acknowledged: it is delivered again.
            if random.happens(consume.never.0) || random.happens(consume.nack.0) {
                continue;
            }
            let mut delay = random.duration(consume.lag.least..=consume.lag.most);
            if random.happens(consume.late.0) {
                delay += consume.visibility;
            }
            let at = random.happens(consume.old_owner.0).then_some(machine);
            let twice = random.happens(consume.twice.0);
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
            // Whatever was not taken is delivered again, after what comes next.
            consumer.looks_back = true;
        }
    }
}

const fn fetch_of(
    request: RequestNo,
    partition: PartitionId,
    from: Option<(Epoch, Offset)>,
    most: Option<usize>,
) -> Payload {
    Payload::Fetch(Fetch { request, partition, from, most })
}
