//! Waiting for a change of a slot without a thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::Slot;

/// Those who wait for a change of one slot.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
    changes: u64,
}

impl Watchers {
    /// Returns how many wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Notes a change, and takes those out who wait for one. They are woken without the slot's mutex,
    /// since a waker may run whatever it likes.
    pub(super) fn change(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.changes += 1;
        std::mem::take(&mut self.waiting).into_values()
    }
}

/// Tells somebody when a slot changes: more is visible or free, or the partition is served no longer,
/// or again. Dropping it ends that, so that those who have given up take no room.
pub struct Watch {
    slot: Arc<Slot>,
    id: u64,
    seen: u64,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Watch {
    /// Is ready once for all that has changed since this was last ready, or since it began.
    pub fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.slot.lock();
        if inner.watchers.changes != self.seen {
            self.seen = inner.watchers.changes;
            return Poll::Ready(());
        }
        let waker = inner.watchers.waiting.entry(self.id).or_insert_with(|| cx.waker().clone());
        waker.clone_from(cx.waker());
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let waiting = self.slot.lock().watchers.waiting.remove(&self.id);
        // Not under the mutex.
        drop(waiting);
    }
}

impl Slot {
    /// Begins to watch for changes. Look at the slot after this, not before.
    pub fn watch(self: &Arc<Self>) -> Watch {
        let mut inner = self.lock();
        let id = inner.watchers.next;
        inner.watchers.next += 1;
        Watch { slot: Arc::clone(self), id, seen: inner.watchers.changes }
    }
}
