//! Who may come in: the dispatcher's room, less what has come in since it was measured.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use narad_core::dispatch::{Refused, Room, Waybill};

use super::Parcel;
use crate::log::lock;

/// Keeps producers out while there is no room for their records, or while the node is to become
/// empty. It looks at no topic and no partition (L4, H23).
///
/// What is let in counts from then on until the dispatcher has heard of it: first by its [`Pass`],
/// then as told, and no more once a [`Room`] was published that knows of it.
///
/// # Examples
///
/// What has been let in is counted off although nobody has measured anew:
///
/// ```
/// use narad_core::dispatch::{Refused, Room};
/// use narad_runtime::ingress::{Door, Load};
/// use std::{sync::Arc, time::Duration};
///
/// let door = Arc::new(Door::default());
/// let retry_after = Duration::from_secs(1);
/// let room = Room { records: 10, bytes: 1000, draining: false, retry_after, bytes_max: 4000 };
/// door.publish(room);
/// let pass = door.enter(Load { records: 1, bytes: 600 })?;
/// let full = door.enter(Load { records: 1, bytes: 600 });
/// assert_eq!(full.unwrap_err(), Refused::Full { retry_after });
/// drop(pass);
/// assert!(door.enter(Load { records: 1, bytes: 600 }).is_ok());
/// # Ok::<(), Refused>(())
/// ```
#[derive(Debug)]
pub struct Door {
    inner: Mutex<Inner>,
    /// Told when somebody has left.
    left: Condvar,
}

#[derive(Debug)]
struct Inner {
    room: Room,
    is_closed: bool,
    /// Let in, and not answered.
    inside: Load,
    /// Told to the dispatcher, which has not looked yet.
    told: Load,
}

/// So many records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub records: u64,
    /// What they take in the ingress log, in bytes.
    pub bytes: u64,
}

impl Load {
    /// Returns what parcels come to.
    #[must_use]
    pub fn of(parcels: &[Parcel]) -> Self {
        let bytes = parcels.iter().map(|parcel| parcel.encoded_bytes() as u64).sum();
        Self { records: parcels.len() as u64, bytes }
    }

    /// Returns what waybills come to.
    #[must_use]
    pub fn of_waybills(waybills: &[Waybill]) -> Self {
        let bytes = waybills.iter().map(|waybill| u64::from(waybill.bytes)).sum();
        Self { records: waybills.len() as u64, bytes }
    }

    const fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
    }

    const fn take(&mut self, other: Self) {
        self.records = self.records.saturating_sub(other.records);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}

impl Default for Door {
    /// Makes a door to a room of nothing: nobody has measured yet.
    fn default() -> Self {
        const SOON: Duration = Duration::from_millis(200);
        let room =
            Room { records: 0, bytes: 0, draining: false, retry_after: SOON, bytes_max: u64::MAX };
        let inner =
            Inner { room, is_closed: false, inside: Load::default(), told: Load::default() };
        Self { inner: Mutex::new(inner), left: Condvar::new() }
    }
}

impl Door {
    /// Says what the dispatcher has room for.
    pub fn publish(&self, room: Room) {
        lock(&self.inner).room = room;
    }

    /// Lets records in, until the pass is dropped.
    ///
    /// # Errors
    ///
    /// As [`Room::admit`]; [`Refused::Draining`] while the door is closed.
    pub fn enter(self: &Arc<Self>, load: Load) -> Result<Pass, Refused> {
        self.let_in(load, false)
    }

    /// Lets records in that this node has already, also while it is to become empty: salvage.
    ///
    /// # Errors
    ///
    /// If there is no room.
    pub fn enter_again(self: &Arc<Self>, load: Load) -> Result<Pass, Refused> {
        self.let_in(load, true)
    }

    fn let_in(self: &Arc<Self>, load: Load, again: bool) -> Result<Pass, Refused> {
        let mut inner = lock(&self.inner);
        if inner.is_closed && !again {
            return Err(Refused::Draining);
        }
        let room = inner.room;
        let left = Room {
            records: room.records.saturating_sub(inner.inside.records + inner.told.records),
            bytes: room.bytes.saturating_sub(inner.inside.bytes + inner.told.bytes),
            draining: room.draining && !again,
            ..room
        };
        left.admit(load.records, load.bytes)?;
        inner.inside.add(load);
        Ok(Pass { door: Arc::clone(self), load })
    }

    /// Notes that the dispatcher was told of records.
    pub fn tell(&self, load: Load) {
        lock(&self.inner).told.add(load);
    }

    /// Notes that the dispatcher has taken note of records it was told of, and that its room is
    /// published.
    pub fn heard(&self, load: Load) {
        lock(&self.inner).told.take(load);
    }

    /// Refuses whoever comes from now on.
    pub fn close(&self) {
        lock(&self.inner).is_closed = true;
    }

    /// Lets in again.
    pub fn open(&self) {
        lock(&self.inner).is_closed = false;
    }

    /// Waits until everybody who was let in is answered, at most for so long; returns whether that
    /// is so. What was accepted by then has been told. Blocks.
    pub fn wait_until_empty(&self, limit: Duration) -> bool {
        let begun = Instant::now();
        let mut inner = lock(&self.inner);
        while inner.inside.records > 0 {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.left.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Leave to bring in so many records. To be dropped once their producer can be answered.
#[derive(Debug)]
#[must_use = "what is dropped at once lets others in"]
pub struct Pass {
    door: Arc<Door>,
    load: Load,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut inner = lock(&self.door.inner);
        inner.inside.take(self.load);
        let is_empty = inner.inside.records == 0;
        drop(inner);
        if is_empty {
            self.door.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY_AFTER: Duration = Duration::from_secs(3);

    fn room(bytes: u64) -> Room {
        let (draining, retry_after) = (false, RETRY_AFTER);
        Room { records: 100, bytes, draining, retry_after, bytes_max: 1000 }
    }

    fn load(bytes: u64) -> Load {
        Load { records: 1, bytes }
    }

    fn refusal(door: &Arc<Door>, bytes: u64) -> Option<Refused> {
        door.enter(load(bytes)).err()
    }

    #[test]
    fn what_is_inside_or_told_takes_room_until_it_is_measured() {
        let door = Arc::new(Door::default());
        let soon = Duration::from_millis(200);
        assert_eq!(refusal(&door, 1), Some(Refused::Full { retry_after: soon }));
        door.publish(room(100));
        let pass = door.enter(load(60)).unwrap();
        let full = Some(Refused::Full { retry_after: RETRY_AFTER });
        assert_eq!(refusal(&door, 41), full);
        door.tell(load(60));
        drop(pass);
        assert_eq!(refusal(&door, 41), full, "the dispatcher has not looked yet");
        door.publish(room(40));
        door.heard(load(60));
        assert_eq!((refusal(&door, 40), refusal(&door, 41)), (None, full));
        let too_large = Refused::TooLarge { bytes: 1001, max: 1000 };
        assert_eq!(refusal(&door, 1001), Some(too_large));
    }

    /// H37: a closed door lets nobody in but what the node has already, and whoever is inside is
    /// waited for.
    #[test]
    fn a_closed_door_is_waited_at_until_nobody_is_inside() {
        let door = Arc::new(Door::default());
        door.publish(room(100));
        let pass = door.enter(load(1)).unwrap();
        door.close();
        assert_eq!(refusal(&door, 1), Some(Refused::Draining));
        assert!(!door.wait_until_empty(Duration::ZERO));
        assert!(door.enter_again(load(1)).is_ok());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| door.wait_until_empty(Duration::from_secs(20)));
            drop(pass);
            assert!(waiting.join().unwrap());
        });
        door.open();
        assert_eq!(refusal(&door, 1), None);
        door.publish(Room { draining: true, ..room(100) });
        assert_eq!(refusal(&door, 1), Some(Refused::Draining));
        assert!(door.enter_again(load(1)).is_ok());
    }
}
