//! Room for connections: who gets a place when there are more than there is room for.
//!
//! A place is taken from whoever uses it least. A connection without a request under way, which
//! includes one whose first request has not come yet, has to go when a new one comes and there is no
//! other room; the one that has waited longest goes first. So ten thousand connections that say
//! nothing cost nobody else anything but the time to be let in. Connections that do have requests
//! under way keep their places; beyond those are a few that serve only probes and operators, so that
//! a node that is busy with clients is not taken for a dead one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The places of one listener.
#[derive(Debug)]
pub(super) struct Seats {
    /// Places for everybody.
    max: usize,
    /// Most of them for one address.
    per_address_max: usize,
    places: Mutex<Places>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    taken: BTreeMap<u64, Arc<Use>>,
    /// How many of them are spare.
    spare: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// What is known of one connection.
#[derive(Debug)]
struct Use {
    address: IpAddr,
    /// Whether the place is one of those for probes and operators.
    spare: bool,
    /// When it has become what it is, counted in such events: even for a connection without a request,
    /// odd while there is one under way.
    turn: AtomicU64,
    out: CancellationToken,
}

/// A place; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    id: u64,
    used: Arc<Use>,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Busy {
    seats: Arc<Seats>,
    used: Arc<Use>,
}

/// What the turns of all connections are drawn from: two for each, so that odd ones are free to mean
/// something.
static TURNS: AtomicU64 = AtomicU64::new(0);

fn next_turn() -> u64 {
    TURNS.fetch_add(2, Ordering::Relaxed)
}

impl Seats {
    /// Places beyond the others, for probes and operators.
    pub(super) const SPARE: usize = 32;

    pub(super) fn new(max: u32, per_address_max: u32) -> Arc<Self> {
        let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        Arc::new(Self {
            max: size(max),
            per_address_max: size(per_address_max),
            places: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// Finds a place, and waits while every connection of that address, or all of them, have requests
    /// under way.
    pub(super) async fn take(self: &Arc<Self>, address: IpAddr) -> Seat {
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.try_take(address) {
                return seat;
            }
            freed.await;
        }
    }

    fn try_take(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut places = self.places();
        let of_address = places.by_address.get(&address).copied().unwrap_or(0);
        let ordinary = places.taken.len() - places.spare;
        // An address that has its share makes room for itself; so does everybody once all is taken.
        let has_room = if of_address >= self.per_address_max {
            places.show_out(|used| !used.spare && used.address == address)
        } else {
            ordinary < self.max || places.show_out(|used| !used.spare)
        };
        // The spare ones go round among themselves, so that probes always find one soon.
        let spare = !has_room;
        if spare && places.spare >= Self::SPARE && !places.show_out(|used| used.spare) {
            return None;
        }
        let id = places.next;
        places.next += 1;
        let (turn, out) = (AtomicU64::new(next_turn()), CancellationToken::new());
        let used = Arc::new(Use { address, spare, turn, out });
        places.taken.insert(id, Arc::clone(&used));
        places.spare += usize::from(spare);
        *places.by_address.entry(address).or_default() += 1;
        drop(places);
        Some(Seat { seats: Arc::clone(self), id, used })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Ends the connection that has been idle longest among some; tells whether there was one.
    fn show_out(&mut self, among: impl Fn(&Use) -> bool) -> bool {
        let idle = self.taken.iter().filter_map(|(id, used)| {
            let turn = used.turn.load(Ordering::Acquire);
            (turn % 2 == 0 && among(used)).then_some((turn, *id))
        });
        let Some((turn, id)) = idle.min() else { return false };
        let used = Arc::clone(&self.taken[&id]);
        // A request may have begun just now.
        let was = used.turn.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed);
        if was.is_err() {
            return self.show_out(among);
        }
        used.out.cancel();
        self.remove(id);
        true
    }

    fn remove(&mut self, id: u64) {
        let Some(used) = self.taken.remove(&id) else { return };
        self.spare -= usize::from(used.spare);
        if let Some(count) = self.by_address.get_mut(&used.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&used.address);
            }
        }
    }
}

impl Seat {
    /// Whether it is one of the places for probes and operators.
    pub(super) fn is_spare(&self) -> bool {
        self.used.spare
    }

    /// Says that a request has come.
    pub(super) fn busy(&self) -> Busy {
        let turn = next_turn();
        self.used.turn.store(turn + 1, Ordering::Release);
        Busy { seats: Arc::clone(&self.seats), used: Arc::clone(&self.used) }
    }

    /// Resolves when somebody else needs the place more.
    pub(super) fn out(&self) -> impl Future<Output = ()> + use<> {
        self.used.out.clone().cancelled_owned()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.used.turn.store(next_turn(), Ordering::Release);
        // It may be the place that somebody waits for.
        self.seats.freed.notify_waiters();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.places().remove(self.id);
        self.seats.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn is_out(seat: &Seat) -> bool {
        seat.used.out.is_cancelled()
    }

    /// Half-open connections make room for others.
    #[test]
    fn the_one_that_has_been_idle_longest_makes_room() {
        let seats = Seats::new(2, 9);
        let first = seats.try_take(from(1)).expect("room");
        let second = seats.try_take(from(2)).expect("room");
        drop(first.busy());
        let third = seats.try_take(from(3)).expect("room was made");
        assert!(is_out(&second) && !is_out(&first) && !third.is_spare());
        // Whoever was shown out gives no place free a second time.
        drop(second);
        assert_eq!(seats.places().taken.len(), 2);
        let fourth = seats.try_take(from(4)).expect("room was made");
        assert!(is_out(&first) && !is_out(&third) && !fourth.is_spare());
    }

    #[test]
    fn requests_under_way_keep_their_place_and_some_places_are_spare() {
        let seats = Seats::new(1, 99);
        let first = seats.try_take(from(1)).expect("room");
        let under_way = first.busy();
        let spares: Vec<Seat> =
            (0..Seats::SPARE).map(|_| seats.try_take(from(2)).expect("spare")).collect();
        assert!(spares[0].is_spare() && !is_out(&first));
        // Spare ones are idle, so that they go round.
        let next = seats.try_take(from(3)).expect("room was made");
        assert!(is_out(&spares[0]) && !is_out(&first));
        drop((spares, next));
        let all: Vec<_> = (0..Seats::SPARE).map(|_| seats.try_take(from(2)).expect("x")).collect();
        let busy: Vec<Busy> = all.iter().map(Seat::busy).collect();
        assert!(seats.try_take(from(4)).is_none(), "all have something to do");
        drop((busy, under_way));
        assert!(seats.try_take(from(4)).is_some());
    }

    #[test]
    fn one_address_makes_room_for_itself() {
        let seats = Seats::new(9, 2);
        let other = seats.try_take(from(1)).expect("room");
        let (one, two) = (seats.try_take(from(2)), seats.try_take(from(2)));
        let three = seats.try_take(from(2)).expect("room was made");
        assert!(is_out(&one.expect("room")) && !is_out(&other) && !three.is_spare());
        drop((two, three, other));
        assert_eq!(seats.places().by_address.len(), 0);
    }

    #[tokio::test]
    async fn whoever_waits_gets_the_place_that_becomes_free() {
        let seats = Seats::new(1, 1);
        let take = |_| {
            let seat = seats.try_take(from(1)).expect("room");
            (seat.busy(), seat)
        };
        let held: Vec<(Busy, Seat)> = (0..=Seats::SPARE).map(take).collect();
        assert!(seats.try_take(from(1)).is_none(), "none of them is idle");
        let waiting = tokio::spawn({
            let seats = Arc::clone(&seats);
            async move { seats.take(from(1)).await }
        });
        drop(held);
        drop(waiting.await.expect("no panic"));
    }
}
