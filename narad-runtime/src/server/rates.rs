//! How fast a node copies: the cluster's policy, as far as it concerns this node.

use std::sync::Arc;

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
        let rates = Self { node, arriving: within(), leaving: within(), both };
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
        let rates = [
            (&self.both, policy.copy_rate_bytes_per_second),
            (&self.arriving, arriving),
            (&self.leaving, policy.copy_out_bytes_per_second),
        ];
        for (throttle, rate) in rates {
            if throttle.rate() != rate {
                throttle.set_rate(rate);
            }
        }
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
}
