//! How producers offer records: to the owner of a partition, or to any node.

use narad_core::dispatch;
use narad_core::ids::PartitionId;
use narad_runtime::ingress::Parcel;
use narad_runtime::log::Record;

use super::clients::{ClientDue, Clients, Offer, Waiting};
use super::ingress::Accept;
use super::message::{Payload, Produce};
use super::records::record;
use super::{Due, World};
use crate::scenario::{Address, Via};
use crate::time::Time;

impl World {
    /// Offers records, by way of some node that is up: to the owner of their partition, or to
    /// whatever node. `at`: the one that is meant.
    pub(crate) fn offer(&mut self, offer: Offer, at: Option<usize>) {
        match offer.via {
            Via::Direct => self.offer_owner(offer, at),
            Via::Ingress => self.offer_anyone(offer, at),
        }
    }

    fn offer_owner(&mut self, offer: Offer, at: Option<usize>) {
        let partition = offer.partition;
        let Some((from, to)) = self.route(partition, at) else { return self.offer_later(offer) };
        let records = self.records_of(&offer, from);
        self.open_batch(partition);
        let request = self.clients.request(Waiting::Produced(offer));
        let produce = Produce { request, partition, records };
        self.send_as_client(from, to, request, Payload::Produce(produce));
    }

    fn offer_anyone(&mut self, offer: Offer, at: Option<usize>) {
        let Some((from, to)) = self.anyone(at) else { return self.offer_later(offer) };
        let Some(route) = self.address_of(&offer) else { return self.offer_later(offer) };
        let topic = offer.partition.topic;
        let parcel = |record| Parcel { topic, route, record };
        let parcels = self.records_of(&offer, from).into_iter().map(parcel).collect();
        self.open_batch(offer.partition);
        let request = self.clients.request(Waiting::Produced(offer));
        self.send_as_client(from, to, request, Payload::Accept(Accept { request, parcels }));
    }

    fn records_of(&self, offer: &Offer, from: usize) -> Vec<Record> {
        let wall = self.machines[from].clock.wall_ms(self.now);
        offer.ids.iter().map(|id| record(*id, offer.bytes, wall)).collect()
    }

    /// Returns how a producer's records are addressed; the same again when they are offered again.
    fn address_of(&self, offer: &Offer) -> Option<dispatch::Route> {
        let partitions = u64::from(self.newest()?.topic(offer.partition.topic)?.partitions);
        let drawn = mixed(offer.ids.first().copied().unwrap_or_default());
        let address = match offer.address {
            Address::Mixed => match drawn % 3 {
                0 => Address::Number,
                1 => Address::Key,
                _ => Address::Any,
            },
            address => address,
        };
        let index = offer.partition.index;
        Some(match address {
            Address::Key => dispatch::Route::Key(u64::from(index) + partitions * (drawn >> 8 & 7)),
            Address::Any => dispatch::Route::Any,
            Address::Number | Address::Mixed => dispatch::Route::Partition(index),
        })
    }

    /// Picks a node that is up, for a producer to be beside, and the one that it goes to: each in
    /// turn.
    fn anyone(&mut self, at: Option<usize>) -> Option<(usize, usize)> {
        let living: Vec<usize> = (0..self.up.len()).filter(|at| self.up[*at]).collect();
        let from = *self.clients.random.pick(&living)?;
        let turn = self.clients.next_node;
        self.clients.next_node = turn.wrapping_add(1);
        Some((from, at.unwrap_or(living[turn % living.len()])))
    }

    pub(super) fn offer_later(&mut self, offer: Offer) {
        let Some(producer) = self.clients.producers.get_mut(&offer.partition) else { return };
        let pause = producer.random.duration(Clients::RETRY..=4 * Clients::RETRY);
        self.offer_at(self.now.after(pause), offer);
    }

    pub(super) fn offer_at(&mut self, at: Time, offer: Offer) {
        self.open_batch(offer.partition);
        self.schedule(at, Due::Client(ClientDue::Offer(offer)));
    }

    /// A batch is under way, or waits for its turn.
    fn open_batch(&mut self, partition: PartitionId) {
        if let Some(producer) = self.clients.producers.get_mut(&partition) {
            producer.open += 1;
        }
    }

    pub(super) fn close_batch(&mut self, partition: PartitionId) {
        if let Some(producer) = self.clients.producers.get_mut(&partition) {
            producer.open = producer.open.saturating_sub(1);
        }
    }
}

/// Spreads a number over all bits.
const fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}
