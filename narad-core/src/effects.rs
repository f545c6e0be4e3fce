//! What a machine asks its driver to do, and when it wants to be woken.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem;

use crate::ids::Incarnation;
use crate::time::Instant;

/// Names one operation of one incarnation of one machine.
///
/// An answer that carries the id of an earlier life, or of a step that is over, is stale and is
/// noted, never acted upon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OpId {
    incarnation: Incarnation,
    sequence: u64,
}

impl OpId {
    /// Names an operation: what a driver needs to name one that no machine has asked for.
    #[must_use]
    pub const fn new(incarnation: Incarnation, sequence: u64) -> Self {
        Self { incarnation, sequence }
    }
}

/// One number of its own width, so that a search over states can tell operations from whatever
/// else a state holds: states that differ only in how their operations are numbered behave alike.
impl Hash for OpId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128((u128::from(self.incarnation.0) << 64) | u128::from(self.sequence));
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op{}.{}", self.incarnation.0, self.sequence)
    }
}

/// Mints the operation ids of one machine in one incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ops {
    next: OpId,
}

impl Ops {
    /// Starts the ids of one incarnation at zero.
    pub(crate) const fn new(incarnation: Incarnation) -> Self {
        Self { next: OpId { incarnation, sequence: 0 } }
    }

    /// Returns an id that this machine has never returned before.
    pub(crate) const fn mint(&mut self) -> OpId {
        let id = self.next;
        self.next.sequence += 1;
        id
    }
}

/// The effects of one `handle` call.
///
/// No effect depends on another effect of the same call: a driver may start them in any order, or
/// all at once (rule 3 of the [crate docs](crate)).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Effects<E> {
    items: Vec<E>,
}

impl<E> Default for Effects<E> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<E> Effects<E> {
    /// Appends one effect.
    pub fn push(&mut self, effect: E) {
        self.items.push(effect);
    }

    /// Moves all effects of another one behind these. Where there are none the two are exchanged,
    /// which moves nothing.
    pub fn append(&mut self, other: &mut Self) {
        if self.items.is_empty() {
            mem::swap(self, other);
        } else {
            self.items.append(&mut other.items);
        }
    }

    /// Removes and returns all effects.
    pub fn drain(&mut self) -> impl Iterator<Item = E> + '_ {
        self.items.drain(..)
    }

    /// Returns the effects without removing them.
    pub fn as_slice(&self) -> &[E] {
        &self.items
    }

    /// Returns whether the machine asked for nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// When a machine wants its `Wake` event, and why.
///
/// Derived from the machine's state: it may change with every event, and a driver asks again after
/// each one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline {
    /// The instant from which on `Wake` does something.
    pub at: Instant,
    /// The reason, for people.
    pub why: &'static str,
}

impl Deadline {
    /// Returns the earlier of two deadlines.
    #[must_use]
    pub fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (only, None) | (None, only) => only,
        }
    }
}
