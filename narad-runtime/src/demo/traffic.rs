//! Producers and a consumer that never stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::DemoError;
use super::content::Feed;
use super::ledger::Ledger;
use super::pace::Pace;
use crate::client::{
    Client, ConsumerOptions, Placement, Producer, ProducerOptions, ReaderOptions, SendError,
    StartAt,
};

/// The topic that everything goes through.
pub(super) const TOPIC: &str = "demo";

/// Producers and a consumer at work. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Traffic {
    controls: Controls,
    tasks: JoinSet<Result<(), DemoError>>,
    lanes: usize,
}

impl Traffic {
    /// Producers at once.
    const LANES: usize = 6;

    /// Begins to produce and to consume.
    pub(super) fn begin(
        client: &Client,
        partitions: u32,
        feed: Feed,
        pace: Pace,
        ledger: &Arc<Ledger>,
    ) -> Self {
        let options = ProducerOptions { in_flight_max: Self::LANES, ..ProducerOptions::default() };
        let producer = Arc::new(client.producer(TOPIC, options));
        let (feed, pace) = (Arc::new(feed), Arc::new(pace));
        let seats = Arc::new(Seats::new(partitions));
        let mut tasks = JoinSet::new();
        for _ in 0..Self::LANES {
            let lane = Lane {
                producer: Arc::clone(&producer),
                feed: Arc::clone(&feed),
                pace: Arc::clone(&pace),
                seats: Arc::clone(&seats),
                ledger: Arc::clone(ledger),
            };
            tasks.spawn(lane.run());
        }
        tasks.spawn(consume(client.clone(), Arc::clone(ledger)));
        Self { controls: Controls { seats, pace }, tasks, lanes: Self::LANES }
    }

    /// Returns what steers it.
    pub(super) fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Waits until a part of the work has failed; never returns while all goes well.
    pub(super) async fn failed(&mut self) -> DemoError {
        while let Some(error) = self.next_end().await {
            if let Err(error) = error {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Waits until all records have been acknowledged.
    pub(super) async fn produced(&mut self) -> Result<(), DemoError> {
        while self.lanes > 0 {
            match self.next_end().await {
                Some(ended) => ended?,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Waits until a task ends. Only producers end without an error.
    async fn next_end(&mut self) -> Option<Result<(), DemoError>> {
        let ended = self.tasks.join_next().await?;
        self.lanes = self.lanes.saturating_sub(1);
        Some(ended.unwrap_or_else(|error| Err(DemoError::Internal(error.to_string()))))
    }
}

/// Steers the producers.
#[derive(Clone, Debug)]
pub(super) struct Controls {
    seats: Arc<Seats>,
    pub(super) pace: Arc<Pace>,
}

impl Controls {
    /// Holds back records to some partitions, and waits until none is on its way there.
    pub(super) async fn hold(&self, partitions: &[u32]) {
        self.seats.set_held(partitions, true);
        while self.seats.busy(partitions) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Lets records to some partitions go on.
    pub(super) fn release(&self, partitions: &[u32]) {
        self.seats.set_held(partitions, false);
    }
}

/// Whose turn it is among the partitions, and which are left out.
#[derive(Debug)]
struct Seats(Mutex<Vec<Seat>>);

#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    held: bool,
    under_way: usize,
    taken: u64,
}

impl Seats {
    fn new(partitions: u32) -> Self {
        Self(Mutex::new(vec![Seat::default(); partitions as usize]))
    }

    /// Takes the partition that has been taken least often.
    fn take(&self) -> Option<u32> {
        let mut seats = self.lock();
        let free = seats.iter_mut().enumerate().filter(|(_, seat)| !seat.held);
        let (partition, seat) = free.min_by_key(|(_, seat)| (seat.under_way, seat.taken))?;
        seat.under_way += 1;
        seat.taken += 1;
        u32::try_from(partition).ok()
    }

    fn leave(&self, partition: u32) {
        if let Some(seat) = self.lock().get_mut(partition as usize) {
            seat.under_way = seat.under_way.saturating_sub(1);
        }
    }

    fn set_held(&self, partitions: &[u32], held: bool) {
        let mut seats = self.lock();
        for partition in partitions {
            if let Some(seat) = seats.get_mut(*partition as usize) {
                seat.held = held;
            }
        }
    }

    fn busy(&self, partitions: &[u32]) -> bool {
        let seats = self.lock();
        let mut seats = partitions.iter().filter_map(|partition| seats.get(*partition as usize));
        seats.any(|seat| seat.under_way > 0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One producer.
struct Lane {
    producer: Arc<Producer>,
    feed: Arc<Feed>,
    pace: Arc<Pace>,
    seats: Arc<Seats>,
    ledger: Arc<Ledger>,
}

impl Lane {
    async fn run(self) -> Result<(), DemoError> {
        loop {
            let leave = self.pace.take(Feed::RECORDS_MAX).await;
            let Some(batch) = self.feed.take(leave).await? else { return Ok(()) };
            self.pace.give_back(leave.saturating_sub(batch.records.len()));
            self.ledger.expect(&batch);
            loop {
                let partition = self.seat().await;
                let sent = self.producer.send(Placement::Pinned(partition), &batch.records).await;
                self.seats.leave(partition);
                match sent {
                    Ok(_) => {
                        self.ledger.acknowledged(&batch);
                        break;
                    }
                    // Every record is acknowledged in the end, however long that takes.
                    Err(error @ SendError::GaveUp { .. }) => {
                        tracing::warn!(%error, partition, "again, to another partition");
                    }
                    Err(error @ SendError::Refused(_)) => return Err(error.into()),
                }
            }
        }
    }

    async fn seat(&self) -> u32 {
        loop {
            if let Some(partition) = self.seats.take() {
                return partition;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Reads all partitions, wherever they go, and acknowledges what it has read.
async fn consume(client: Client, ledger: Arc<Ledger>) -> Result<(), DemoError> {
    const PAUSE: Duration = Duration::from_millis(200);
    loop {
        let read = read(&client, &ledger).await;
        if let Err(error) = read {
            tracing::warn!(%error, "reading begins anew");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read(client: &Client, ledger: &Ledger) -> Result<(), crate::client::ClientError> {
    /// How long one partition may keep the others waiting. What is not acknowledged by then is
    /// with the next delivery, or comes again.
    const ACK_WAIT: Duration = Duration::from_millis(300);
    let mut consumer = client.consumer(TOPIC, ConsumerOptions::default()).await?;
    while let Some(delivery) = consumer.next().await? {
        ledger.consumed(&delivery);
        let ack = consumer.ack(delivery.tickets());
        match tokio::time::timeout(ACK_WAIT, ack).await {
            Ok(Ok(settled)) => tracing::trace!(?settled, "acknowledged"),
            Ok(Err(error)) => tracing::debug!(%error, "not acknowledged"),
            Err(_) => tracing::debug!(partition = delivery.partition, "not acknowledged in time"),
        }
    }
    Ok(())
}

/// Reads the whole topic once from its beginning.
pub(super) async fn read_all(
    client: &Client,
    mut each: impl FnMut(&crate::service::Record),
) -> Result<(), DemoError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let options = ReaderOptions {
        start: StartAt::Beginning,
        follow: false,
        unavailable_max: Some(PATIENCE),
        ..ReaderOptions::default()
    };
    let mut reader = client.reader(TOPIC, options).await?;
    while let Some(stretch) = reader.next().await? {
        stretch.records.iter().for_each(|(_, record)| each(record));
    }
    Ok(())
}
