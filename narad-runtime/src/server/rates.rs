//! How fast this node copies: as the policy says, or as was said for this node alone.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::transfer::Throttle;

/// Sets the throttle.
pub(super) struct Rates {
    throttle: Arc<Throttle>,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    policy: u64,
    own: Option<u64>,
}

impl Rates {
    pub(super) fn new(throttle: Arc<Throttle>, policy: u64) -> Self {
        Self { throttle, known: Mutex::new(Known { policy, own: None }) }
    }

    /// Takes over what the policy says.
    pub(super) fn follow(&self, policy: u64) {
        let mut known = self.known();
        known.policy = policy;
        self.apply(*known);
    }

    /// Takes over what was said for this node alone; `None` is the policy again.
    pub(super) fn set(&self, own: Option<u64>) {
        let mut known = self.known();
        known.own = own;
        self.apply(*known);
    }

    /// Returns the bytes per second, and whether that is for this node alone. The throttle goes no
    /// lower than its least rate.
    pub(super) fn now(&self) -> (u64, bool) {
        (self.throttle.rate(), self.known().own.is_some())
    }

    fn apply(&self, known: Known) {
        let rate = known.own.unwrap_or(known.policy);
        if self.throttle.rate() != rate {
            self.throttle.set_rate(rate);
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rates").field("known", &*self.known()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_for_this_node_alone_outlives_a_change_of_the_policy() {
        let (slow, usual, fast) = (128 << 10, 1 << 20, 2 << 20);
        let throttle = Arc::new(Throttle::on_real_time(usual));
        let rates = Rates::new(Arc::clone(&throttle), usual);
        assert_eq!(rates.now(), (usual, false));
        rates.set(Some(slow));
        assert_eq!(rates.now(), (slow, true));
        rates.follow(fast);
        assert_eq!(rates.now(), (slow, true));
        rates.set(None);
        assert_eq!(rates.now(), (fast, false));
        rates.follow(0);
        assert_eq!((throttle.rate(), rates.now()), (0, (0, false)));
        rates.set(Some(1));
        assert_eq!(rates.now(), (Throttle::RATE_MIN, true));
    }
}
