//! What consumers ask: plain reads, records to work on, acknowledgements, offsets.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use narad_core::ids::{Epoch, Offset};
use narad_core::node::Node;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::hand_out::{Held, hand_out_now};
use super::{NodeService, Place, blocking, place_of};
use crate::broker::{Seat, Slot, SlotError, Watch};
use crate::client::{Client, ClientOptions};
use crate::log::LogError;
use crate::service::{
    AckSet, Fetched, Handed, HandedRecord, OffsetsOf, OffsetsView, Position, Read, Reserve, Route,
    ServiceError, Settle, Settled, Ticket,
};
use crate::tls::ClientTls;

impl NodeService {
    /// Makes durable where consumers stand; what cannot be is delivered again.
    pub(in crate::server) async fn store_positions(&self) {
        let broker = Arc::clone(&self.broker);
        // Whatever became of it was logged.
        drop(blocking(move || broker.flush_positions()).await);
    }

    pub(super) async fn read(
        &self,
        topic: &str,
        partition: u32,
        from: Position,
        bytes_max: u64,
        wait: Duration,
    ) -> Result<Fetched, ServiceError> {
        let place = match from {
            Position::Offset { epoch: Some(epoch), .. } => {
                self.place_in(topic, partition, epoch).await?
            }
            Position::Offset { epoch: None, .. } | Position::Committed => {
                self.place(topic, partition).await?
            }
        };
        let seat = self.seat(&place)?;
        let mut watch = seat.slot.watch();
        let until = Instant::now() + wait;
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let mut place = Arc::new(place);
        loop {
            let (seat, at) = (seat.clone(), Arc::clone(&place));
            let fetched = blocking(move || fetch_now(&seat, &at, from, bytes_max)).await?;
            let fetched = fetched.map_err(|held| held.of(topic, place.partition, &self.damages))?;
            if !fetched.records.is_empty() {
                return Ok(fetched);
            }
            let changed = poll_fn(|cx| watch.poll_change(cx));
            // Time running out is an answer like any other: nothing new.
            if timeout_at(until, changed).await.is_err() {
                return Ok(fetched);
            }
            // It may be another node's by now.
            place = Arc::new(self.place(topic, partition).await?);
            self.seat(&place)?;
        }
    }

    pub(super) async fn acknowledge(
        &self,
        topic: &str,
        partition: u32,
        epoch: Epoch,
        acks: AckSet,
    ) -> Result<(), ServiceError> {
        let place = self.place_in(topic, partition, epoch).await?;
        let seat = self.seat(&place)?;
        let acked = blocking(move || {
            if let Some(up_to) = acks.up_to {
                seat.slot.acknowledge_up_to(epoch, up_to)?;
            }
            let one = |offset: &Offset| seat.slot.acknowledge(epoch, *offset).map(|_| ());
            acks.offsets.iter().try_for_each(one)
        });
        acked.await?.map_err(|error| own(error.into()))
    }

    pub(super) async fn hand_out(
        &self,
        topic: &str,
        wanted: Reserve,
    ) -> Result<Handed, ServiceError> {
        let until = Instant::now() + wanted.wait;
        loop {
            let seats = self.seats_to_hand_out(topic, wanted.partition).await?;
            let mut watches: Vec<Watch> = seats.iter().map(|(_, seat)| seat.slot.watch()).collect();
            let slots: Vec<_> = seats.iter().map(|(_, seat)| Arc::clone(&seat.slot)).collect();
            let (name, damages) = (topic.to_owned(), self.damages.clone());
            let tried = blocking(move || hand_out_now(&seats, &name, &wanted, &damages)).await?;
            let is_over = Instant::now() >= until;
            match tried {
                Ok(taken) if !taken.handed.records.is_empty() || is_over => {
                    let again = |one: &&HandedRecord| one.delivery.0 > 1;
                    let again = taken.handed.records.iter().filter(again).count();
                    self.steering.metrics.redelivered(again as u64);
                    return Ok(taken.deliver());
                }
                // Others are to acknowledge something first: that may be soon.
                Err(ServiceError::TooManyInFlight { .. } | ServiceError::TooFarAhead { .. })
                    if !is_over => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
            let free_in = slots.iter().filter_map(|slot| slot.free_in()).min();
            let look_again = free_in.map_or(until, |free_in| until.min(Instant::now() + free_in));
            let changed = poll_fn(|cx| {
                let is_ready = |watch: &mut Watch| watch.poll_change(cx).is_ready();
                if watches.iter_mut().any(is_ready) { Poll::Ready(()) } else { Poll::Pending }
            });
            tokio::select! {
                () = changed => {}
                () = sleep_until(look_again) => {}
            }
        }
    }

    /// Finds the seat of a partition, or those of all that this node serves, in turn.
    async fn seats_to_hand_out(
        &self,
        topic: &str,
        partition: Option<u32>,
    ) -> Result<Vec<(Place, Seat)>, ServiceError> {
        if let Some(partition) = partition {
            let place = self.place(topic, partition).await?;
            let seat = self.seat(&place)?;
            return Ok(vec![(place, seat)]);
        }
        let routes = self.routes_of(topic).await?;
        let indices: Vec<u32> = routes.iter().map(|route| route.partition).collect();
        let places = self.places(topic, indices).await?;
        let mut seats = Vec::new();
        for place in places.into_values().filter_map(Result::ok) {
            if let Ok(seat) = self.seat(&place) {
                seats.push((place, seat));
            }
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let shift =
            |among: usize| usize::try_from(turn % among.max(1) as u64).expect("below a usize");
        if seats.is_empty() {
            let alive: Vec<&Route> = routes.iter().filter(|route| route.alive).collect();
            let owner = alive.get(shift(alive.len())).map(|route| route.addr.clone());
            return Err(ServiceError::NotOwner { owner });
        }
        let shift = shift(seats.len());
        seats.rotate_left(shift);
        Ok(seats)
    }

    pub(super) async fn settle_all(
        &self,
        topic: &str,
        tickets: Vec<Ticket>,
        how: Settle,
    ) -> Result<Vec<Settled>, ServiceError> {
        let indices = tickets.iter().map(|ticket| ticket.partition).collect();
        let places = self.places(topic, indices).await?;
        let node = self.node;
        let seats: BTreeMap<u32, Result<Seat, Settled>> = places
            .iter()
            .map(|(partition, place)| {
                let seat = match place {
                    Ok(place) => self.seat(place).map_err(Settled::Unavailable),
                    Err(ServiceError::UnknownPartition { .. }) => Err(Settled::OtherTopic),
                    Err(error) => Err(Settled::Unavailable(error.clone())),
                };
                (*partition, seat)
            })
            .collect();
        let elsewhere = |ticket: &Ticket| {
            let place = places.get(&ticket.partition)?.as_ref().ok()?;
            let owner = place.owner_http.clone();
            if place.topic() != ticket.topic {
                Some(Settled::OtherTopic)
            } else if place.owner == node {
                None
            } else if place.was_of(node, ticket.handle.epoch) {
                // It may have been handed out here.
                Some(Settled::Moved { owner })
            } else {
                Some(Settled::Unavailable(ServiceError::NotOwner { owner }))
            }
        };
        let asked: Vec<_> =
            tickets.into_iter().map(|ticket| (ticket, elsewhere(&ticket))).collect();
        blocking(move || {
            let settle = |(ticket, known): (Ticket, Option<Settled>)| match (
                known,
                &seats[&ticket.partition],
            ) {
                (Some(known), _) => known,
                (None, Ok(seat)) => settle_now(&seat.slot, ticket, how),
                (None, Err(settled)) => settled.clone(),
            };
            asked.into_iter().map(settle).collect()
        })
        .await
    }

    pub(super) async fn offsets_of(
        &self,
        topic: &str,
        read: Read,
    ) -> Result<Vec<OffsetsView>, ServiceError> {
        let routes = self.routes_of(topic).await?;
        let places =
            self.places(topic, routes.iter().map(|route| route.partition).collect()).await?;
        let mut views = Vec::new();
        let mut elsewhere: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for route in routes {
            let here = match places.get(&route.partition) {
                Some(Ok(place)) if place.owner == self.node => {
                    Some(self.seat(place).and_then(|seat| seat.slot.offsets().map_err(Into::into)))
                }
                Some(_) | None => None,
            };
            let Route { partition, owner, addr, .. } = route;
            let mut view = OffsetsView { partition, owner, addr, offsets: None, unknown: None };
            match here {
                Some(Ok(offsets)) => view.offsets = Some(offsets.into()),
                Some(Err(error)) => view.unknown = Some(error.to_string()),
                None if read == Read::Stale => {
                    view.unknown = Some("another node owns this partition".to_owned());
                }
                None => elsewhere.entry(view.addr.clone()).or_default().push(views.len()),
            }
            views.push(view);
        }
        let asked = elsewhere
            .into_iter()
            .map(async |(addr, wanted)| (ask_offsets(&addr, topic, self.tls()).await, wanted));
        for (told, wanted) in join_all(asked).await {
            for at in wanted {
                add_offsets(&mut views[at], told.as_deref());
            }
        }
        Ok(views)
    }

    /// Finds several partitions with one look at the node.
    async fn places(
        &self,
        topic: &str,
        mut indices: Vec<u32>,
    ) -> Result<BTreeMap<u32, Result<Place, ServiceError>>, ServiceError> {
        indices.sort_unstable();
        indices.dedup();
        for read in [Read::Stale, Read::Barrier] {
            let (wanted, indices) = (topic.to_owned(), indices.clone());
            let find = move |node: &Node| {
                node.state().topic_named(&wanted)?;
                let find = |index: u32| (index, place_of(node, &wanted, index));
                Some(indices.into_iter().map(find).collect())
            };
            if let Some(found) = self.look(read, find).await? {
                return Ok(found);
            }
        }
        Err(ServiceError::UnknownTopic(topic.to_owned()))
    }
}

fn fetch_now(
    seat: &Seat,
    place: &Place,
    from: Position,
    bytes_max: usize,
) -> Result<Fetched, Held> {
    let (log, epoch) = seat.slot.readable()?;
    let (bounds, committed) = (log.bounds(), seat.slot.position()?.committed);
    let from = match from {
        Position::Committed => committed.unwrap_or(bounds.start),
        Position::Offset { at, epoch: Some(epoch) } => place.lineage.clamped(epoch, at),
        Position::Offset { at, epoch: None } => at,
    };
    let from = from.max(bounds.start);
    let records = if from >= bounds.hwm {
        Vec::new()
    } else {
        match log.read(from, bytes_max) {
            Err(LogError::Damaged { resume, .. }) => return Err(Held::Damaged(from..resume)),
            read => read?,
        }
    };
    let next = records.last().map_or(from, |(offset, _)| offset.next());
    Ok(Fetched { records, next, start: bounds.start, hwm: bounds.hwm, epoch, committed })
}

/// Names a refusal of a partition that this node owned when it was looked up, and that may have moved
/// since.
pub(super) fn own(error: ServiceError) -> ServiceError {
    match error {
        ServiceError::NotOwner { owner: None } => ServiceError::NotServing,
        error => error,
    }
}

fn settle_now(slot: &Slot, ticket: Ticket, how: Settle) -> Settled {
    let Ticket { handle, .. } = ticket;
    let settled = match how {
        Settle::Ack => slot.ack(handle).map(Settled::from),
        Settle::Nack { delay } => slot.nack(handle, delay).map(|()| Settled::Nacked),
        Settle::Extend { visibility } => {
            slot.extend(handle, visibility).map(|visibility| Settled::Extended { visibility })
        }
    };
    settled.unwrap_or_else(|error| match error {
        SlotError::Consumer(refused) => Settled::Refused(refused),
        error @ (SlotError::Refused(_) | SlotError::Log(_) | SlotError::NotOpen) => {
            Settled::Unavailable(error.into())
        }
    })
}

/// Asks another node where the consumers of its partitions stand; gives up soon, since it may be
/// dead.
async fn ask_offsets(addr: &str, topic: &str, tls: Option<&ClientTls>) -> Option<Vec<OffsetsView>> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let options = ClientOptions {
        connect_timeout: PATIENCE,
        request_timeout: PATIENCE,
        token: crate::http::presented(),
        tls: tls.cloned(),
        ..ClientOptions::default()
    };
    let client = Client::new(vec![addr.parse().ok()?], options);
    client.offsets(topic, Read::Stale).await.ok()
}

/// Adds what an owner has told, or that it does not tell.
fn add_offsets(view: &mut OffsetsView, told: Option<&[OffsetsView]>) {
    let Some(told) = told else {
        view.unknown = Some(format!("{} does not answer: look whether it runs", view.owner));
        return;
    };
    let found = told.iter().find(|other| other.partition == view.partition);
    match found {
        Some(OffsetsView { offsets: offsets @ Some(OffsetsOf { .. }), .. }) => {
            view.offsets = *offsets;
        }
        Some(OffsetsView { unknown, .. }) => view.unknown.clone_from(unknown),
        None => view.unknown = Some("the owner has not heard of it yet: ask again".to_owned()),
    }
}
