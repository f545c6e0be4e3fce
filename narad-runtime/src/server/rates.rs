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
