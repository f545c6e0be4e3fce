//! What the wire between two machines does to what is sent over it.
//!
//! The network holds no messages and no time: it says when each copy of a message arrives, and
//! whoever drives it delivers. Every directed link has its own chance, per [`Lane`], so that more
//! of one kind of traffic does not change what happens to another.
//!
//! # Divergence from reality
//!
//! A lane is a connection that never has to be made again: a message that is lost leaves no gap
//! that later ones wait for, and what is in flight when a link is cut is lost only if the cut
//! lasts until it would have arrived. Small
//! messages go before bulk: [`BULK_BYTES_MIN`] and more wait for all that was sent before, less
//! waits only for what is small too, while both use up the same bandwidth.

#[cfg(test)]
mod tests;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use narad_core::ids::NodeId;
use rustc_hash::FxHashMap;

pub use wire::Wire;

use crate::random::Random;
use crate::time::Time;

/// From how many bytes on a message is bulk and waits its turn.
pub const BULK_BYTES_MIN: u64 = 32 * 1024;

/// How far behind what clients send over a link may be, if it is given half of the bandwidth.
pub const CLIENTS_BEHIND_MAX: Duration = Duration::from_millis(250);

/// How long a message takes from a node to itself; nothing else happens to it.
pub const LOOPBACK: Duration = Duration::from_micros(20);

/// What a connection is for. Messages of one lane arrive in the order in which they were sent,
/// unless they are reordered by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// The log's own messages.
    Raft,
    /// Requests between nodes, and their answers.
    Peer,
    /// What producers and consumers say.
    Data,
    /// Copies of partitions.
    Bulk,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, perhaps twice, if the link [carries](Net::arrives) then.
    Arrives {
        /// When.
        at: Time,
        /// When its second copy does.
        again: Option<Time>,
    },
    /// It waits on a clogged link until that is [unclogged](Net::unclog).
    Held(Parcel),
    /// It never arrives.
    Lost(Loss),
}

/// Names a message that waits on a clogged link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parcel(pub u64);

/// Why a message does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The link is cut.
    Cut,
    /// By chance.
    Chance,
}

/// How much worse than others one link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// Bytes a second instead of the wire's; zero leaves that as it is.
    pub bandwidth: u64,
    /// What comes on top of each delay.
    pub delay: Duration,
}

type Ends = (NodeId, NodeId);

/// All links between all machines.
#[derive(Clone, Debug)]
pub struct Net {
    wire: Wire,
    random: Random,
    /// Looked up and never walked through, so that their order means nothing.
    links: FxHashMap<Ends, Link>,
    cut: BTreeSet<Ends>,
    clogged: BTreeMap<Ends, Vec<Waiting>>,
    slow: BTreeMap<Ends, Slow>,
    parcels: u64,
}

/// One direction between two machines.
#[derive(Clone, Debug, Default)]
struct Link {
    /// When everything that was sent has left.
    free: Time,
    /// When every small message that was sent has left.
    free_for_small: Time,
    /// When everything that clients sent would have left if half of the bandwidth were theirs.
    free_for_clients: Time,
    lanes: [Option<Connection>; 4],
}

#[derive(Clone, Debug)]
struct Connection {
    random: Random,
    /// When the last message arrives, which no other overtakes.
    last: Time,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    parcel: Parcel,
    lane: Lane,
    bytes: u64,
}

impl Net {
    /// Makes a network without links; each comes into being when it is first used.
    pub fn new(wire: Wire, random: &Random) -> Self {
        Self {
            wire,
            random: random.branch("net"),
            links: FxHashMap::default(),
            cut: BTreeSet::new(),
            clogged: BTreeMap::new(),
            slow: BTreeMap::new(),
            parcels: 0,
        }
    }

    /// Returns how every link behaves.
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Makes every link behave so from now on.
    pub fn set_wire(&mut self, wire: Wire) {
        self.wire = wire;
    }

    /// Puts a message on the wire. Returns when it arrives, which is to be checked again then:
    /// see [`arrives`](Self::arrives).
    pub fn send(&mut self, now: Time, from: NodeId, to: NodeId, lane: Lane, bytes: u64) -> Fate {
        if from == to {
            return Fate::Arrives { at: now.after(LOOPBACK), again: None };
        }
        let ends = (from, to);
        if self.cut.contains(&ends) {
            return Fate::Lost(Loss::Cut);
        }
        let slow = self.slow_of(ends);
        let Self { wire, links, random, clogged, parcels, .. } = self;
        let link = links.entry(ends).or_default();
        if link.connection(random, ends, lane).random.happens(wire.loss) {
            return Fate::Lost(Loss::Chance);
        }
        if let Some(queue) = clogged.get_mut(&ends) {
            *parcels += 1;
            let parcel = Parcel(*parcels);
            queue.push(Waiting { parcel, lane, bytes });
            return Fate::Held(parcel);
        }
        let (at, again) = link.pass(now, ends, lane, bytes, slow, (wire, random));
        Fate::Arrives { at, again }
    }

    /// Whether a message that is due now gets through. A cut takes what is in flight.
    pub fn arrives(&self, from: NodeId, to: NodeId) -> bool {
        from == to || !self.cut.contains(&(from, to))
    }

    /// Whether two nodes can exchange messages at present: no direction is cut or clogged.
    pub fn talks(&self, a: NodeId, b: NodeId) -> bool {
        let flows = |ends| !self.cut.contains(&ends) && !self.clogged.contains_key(&ends);
        a == b || (flows((a, b)) && flows((b, a)))
    }

    /// Whether a client has to wait before it sends more over a link: a connection takes no more
    /// than fits its window, so that clients never keep nodes from talking to each other.
    pub fn is_full(&self, now: Time, from: NodeId, to: NodeId) -> bool {
        let link = self.links.get(&(from, to));
        link.is_some_and(|link| link.free_for_clients > now.after(CLIENTS_BEHIND_MAX))
    }

    /// Returns the bandwidth of a link, in bytes a second; zero is without limit.
    pub fn bandwidth(&self, from: NodeId, to: NodeId) -> u64 {
        self.wire.bandwidth_of(self.slow_of((from, to)))
    }

    fn slow_of(&self, ends: Ends) -> Slow {
        self.slow.get(&ends).copied().unwrap_or_default()
    }

    /// Draws whether a stream of `bytes` ends early. Returns how many of them arrive: fewer.
    pub fn chunk_cut(&mut self, from: NodeId, to: NodeId, bytes: u64) -> Option<u64> {
        let reset = self.wire.reset;
        let random = &mut self.connection((from, to), Lane::Bulk).random;
        (from != to && random.happens(reset)).then(|| random.below(bytes))
    }

    /// Draws whether a chunk arrives with other bytes than were sent.
    pub fn garbles(&mut self, from: NodeId, to: NodeId) -> bool {
        let garbage = self.wire.garbage;
        from != to && self.connection((from, to), Lane::Bulk).random.happens(garbage)
    }

    /// Lets nothing through from one node to another. What waits on the link is lost; the parcels
    /// are returned.
    pub fn cut(&mut self, from: NodeId, to: NodeId) -> Vec<Parcel> {
        self.cut.insert((from, to));
        let waiting = self.clogged.get_mut(&(from, to)).map(std::mem::take).unwrap_or_default();
        waiting.into_iter().map(|waiting| waiting.parcel).collect()
    }

    /// Ends a cut of one direction.
    pub fn heal(&mut self, from: NodeId, to: NodeId) {
        self.cut.remove(&(from, to));
    }

    /// Keeps back whatever is sent from one node to another from now on.
    pub fn clog(&mut self, from: NodeId, to: NodeId) {
        self.clogged.entry((from, to)).or_default();
    }

    /// Lets flow again. Returns when what has waited arrives, in the order in which it was sent.
    pub fn unclog(&mut self, now: Time, from: NodeId, to: NodeId) -> Vec<(Parcel, Time)> {
        let waiting = self.clogged.remove(&(from, to)).unwrap_or_default();
        let mut released = Vec::with_capacity(waiting.len());
        for Waiting { parcel, lane, bytes } in waiting {
            let (at, _) = self.pass(now, (from, to), lane, bytes);
            released.push((parcel, at));
        }
        released
    }

    /// Opens the connections of one direction anew. What is sent from now on does not wait for what is
    /// still under way on the old ones, and that arrives when it would have.
    pub fn reconnect(&mut self, from: NodeId, to: NodeId) {
        let lanes = self.links.get_mut(&(from, to)).map(|link| &mut link.lanes);
        for connection in lanes.into_iter().flatten().flatten() {
            connection.last = Time::ZERO;
        }
    }

    /// Makes one direction worse than others, or like them again with `Slow::default()`.
    pub fn slow(&mut self, from: NodeId, to: NodeId, slow: Slow) {
        if slow == Slow::default() {
            self.slow.remove(&(from, to));
        } else {
            self.slow.insert((from, to), slow);
        }
    }

    /// Makes every link whole and as fast as others. Returns what has waited, as
    /// [`unclog`](Self::unclog) does. The chances of the [`Wire`] stay.
    pub fn heal_all(&mut self, now: Time) -> Vec<(Parcel, Time)> {
        self.cut.clear();
        self.slow.clear();
        let clogged: Vec<Ends> = self.clogged.keys().copied().collect();
        clogged.into_iter().flat_map(|(from, to)| self.unclog(now, from, to)).collect()
    }

    /// Returns the directions that carry nothing, ascending.
    pub fn cuts(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.cut.iter().copied()
    }

    /// Sends a message over a link that flows.
    fn pass(&mut self, now: Time, ends: Ends, lane: Lane, bytes: u64) -> (Time, Option<Time>) {
        let slow = self.slow_of(ends);
        let Self { wire, links, random, .. } = self;
        links.entry(ends).or_default().pass(now, ends, lane, bytes, slow, (wire, random))
    }

    fn connection(&mut self, ends: Ends, lane: Lane) -> &mut Connection {
        self.links.entry(ends).or_default().connection(&self.random, ends, lane)
    }
}

/// Nanoseconds in a second.
const NANOS: u64 = 1_000_000_000;

impl Link {
    /// Sends a message over it.
    fn pass(
        &mut self,
        now: Time,
        ends: Ends,
        lane: Lane,
        bytes: u64,
        slow: Slow,
        (wire, random): (&Wire, &Random),
    ) -> (Time, Option<Time>) {
        let left = self.leave(now, lane, bytes, wire.bandwidth_of(slow));
        self.connection(random, ends, lane).arrive(wire, left.after(slow.delay))
    }

    fn connection(&mut self, random: &Random, ends: Ends, lane: Lane) -> &mut Connection {
        self.lanes[lane as usize].get_or_insert_with(|| {
            let random = random.branch_no(ends.0.0).branch_no(ends.1.0);
            Connection { random: random.branch_no(lane as u64), last: Time::ZERO }
        })
    }

    /// Takes a message's share of the bandwidth. Returns when its last byte has left.
    fn leave(&mut self, now: Time, lane: Lane, bytes: u64, bandwidth: u64) -> Time {
        if bandwidth == 0 {
            return now;
        }
        // The wide division is many times slower, and hardly ever needed.
        let nanos = bytes.checked_mul(NANOS).map_or_else(
            || u64::try_from(u128::from(bytes) * u128::from(NANOS) / u128::from(bandwidth)),
            |product| Ok(product / bandwidth),
        );
        let takes = Duration::from_nanos(nanos.unwrap_or(u64::MAX));
        self.free = self.free.max(now).after(takes);
        if lane == Lane::Data {
            self.free_for_clients = self.free_for_clients.max(now).after(takes * 2);
        }
        if bytes >= BULK_BYTES_MIN {
            return self.free;
        }
        self.free_for_small = self.free_for_small.max(now).after(takes);
        self.free_for_small
    }
}

impl Connection {
    /// Draws when a message that has left arrives, and when its copy does, if there is one.
    fn arrive(&mut self, wire: &Wire, left: Time) -> (Time, Option<Time>) {
        let random = &mut self.random;
        let delay = if random.happens(wire.tail) {
            random.duration(*wire.delay.start()..=wire.tail_max)
        } else {
            random.duration(wire.delay.clone())
        };
        let mut at = left.after(delay);
        if random.happens(wire.reorder) {
            at = at.after(random.duration(Duration::ZERO..=*wire.delay.end() * 4));
        } else {
            at = at.max(self.last);
            self.last = at;
        }
        let again = if random.happens(wire.museum) {
            let late = Duration::from_secs(1)..=wire.museum_max;
            Some(at.after(random.duration(late)))
        } else if random.happens(wire.duplicate) {
            Some(at.after(random.duration(wire.delay.clone())))
        } else {
            None
        };
        (at, again)
    }
}
