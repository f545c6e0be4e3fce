//! How fast a node copies: the cluster's policy, as far as it concerns this node, or what was said for
//! this node alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narad_core::ids::NodeId;
use narad_core::metastore::State;

use crate::foreground::Foreground;
use crate::transfer::Throttle;

/// The throttles of one node. What it receives and what it sends each have their own, within one for
/// both.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    node: NodeId,
    both: Arc<Throttle>,
    pub(super) arriving: Arc<Throttle>,
    pub(super) leaving: Arc<Throttle>,
    known: Arc<Mutex<Known>>,
}

/// Where the rate for both comes from.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    policy: u64,
    own: Option<u64>,
}

impl Rates {
    /// Makes the throttles of a node, whose copies give way to a foreground if there is one.
    pub(super) fn new(node: NodeId, state: &State, foreground: Option<Arc<Foreground>>) -> Self {
        let unlimited = || Throttle::on_real_time(0);
        let both = match foreground {
            Some(foreground) => unlimited().yielding_to(foreground),
            None => unlimited(),
        };
        let both = Arc::new(both);
        let within = || Arc::new(unlimited().within(Arc::clone(&both)));
        let known = Arc::default();
        let rates = Self { node, arriving: within(), leaving: within(), both, known };
        rates.follow(state);
        rates
    }

    /// Takes up what the replicated state says, also for copies that are under way.
    pub(super) fn follow(&self, state: &State) {
        let policy = state.policy();
        let moves = match policy.cluster_copy_rate_bytes_per_second {
            0 => 0,
            _ => state.targeted().len(),
        };
        let arriving = policy.copy_in_rate(state.inbound_count(self.node), moves);
        apply(&self.arriving, arriving);
        apply(&self.leaving, policy.copy_out_bytes_per_second);
        let mut known = self.known();
        known.policy = policy.copy_rate_bytes_per_second;
        apply(&self.both, known.own.unwrap_or(known.policy));
    }

    /// Takes over what was said for this node alone; `None` is the policy again.
    pub(super) fn set(&self, own: Option<u64>) {
        let mut known = self.known();
        known.own = own;
        apply(&self.both, own.unwrap_or(known.policy));
    }

    /// Returns the bytes per second, and whether that is for this node alone. A throttle goes no lower
    /// than its least rate.
    pub(super) fn now(&self) -> (u64, bool) {
        (self.both.rate(), self.known().own.is_some())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn apply(throttle: &Throttle, rate: u64) {
    if throttle.rate() != rate {
        throttle.set_rate(rate);
    }
}

#[cfg(test)]
mod tests {
    use narad_core::config::Policy;
    use narad_core::metastore::Parts;

    use super::*;

    fn state(policy: Policy) -> State {
        State::from_parts(Parts { policy, ..State::default().to_parts() }).expect("it was one")
    }

    /// A change counts for what is under way, and leaves nothing of the old rates behind.
    #[test]
    fn the_throttles_follow_the_policy_and_come_back() {
        let before = Policy::default();
        let rates = Rates::new(NodeId(1), &state(before.clone()), None);
        let now = |rates: &Rates| [rates.both.rate(), rates.arriving.rate(), rates.leaving.rate()];
        assert_eq!(now(&rates), [200 << 20, 0, 0]);
        rates.follow(&state(Policy {
            copy_rate_bytes_per_second: 0,
            copy_in_bytes_per_second: 30 << 20,
            copy_out_bytes_per_second: 20 << 20,
            ..before.clone()
        }));
        assert_eq!(now(&rates), [0, 30 << 20, 20 << 20]);
        rates.follow(&state(before));
        assert_eq!(now(&rates), [200 << 20, 0, 0]);
    }

    #[test]
    fn what_was_said_for_this_node_alone_outlives_a_change_of_the_policy() {
        let state = State::new();
        let usual = state.policy().copy_rate_bytes_per_second;
        let slow = 128 << 10;
        let rates = Rates::new(NodeId(1), &state, None);
        assert_eq!(rates.now(), (usual, false));
        rates.set(Some(slow));
        assert_eq!(rates.now(), (slow, true));
        rates.follow(&state);
        assert_eq!(rates.now(), (slow, true));
        rates.set(Some(1));
        assert_eq!(rates.now(), (Throttle::RATE_MIN, true));
        rates.set(None);
        assert_eq!(rates.now(), (usual, false));
    }
}
