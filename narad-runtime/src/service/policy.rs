//! What the whole cluster agrees on, as operators see and change it.

use std::time::Duration;

use narad_core::config::Policy;
use serde::{Deserialize, Serialize};

/// Defines the view and the change of a policy with the same fields.
macro_rules! policy {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $of:ident, $show:expr, $read:expr;)+) => {
        /// What the whole cluster agrees on, as `GET /v1/cluster/policy` shows it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct PolicyView {
            $($(#[$doc])* pub $field: $kind,)+
        }

        /// What is to change of it, as `PATCH /v1/cluster/policy` takes it.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct PolicyChange {
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$kind>,)+
        }

        impl From<&Policy> for PolicyView {
            fn from(policy: &Policy) -> Self {
                Self { $($field: $show(policy.$of),)+ }
            }
        }

        impl From<&PolicyView> for Policy {
            fn from(view: &PolicyView) -> Self {
                Self { $($of: $read(view.$field),)+ }
            }
        }

        impl PolicyChange {
            /// Returns the policy with the change made.
            #[must_use]
            pub fn apply(&self, policy: &Policy) -> Policy {
                let mut changed = policy.clone();
                $(if let Some(value) = self.$field {
                    changed.$of = $read(value);
                })+
                changed
            }

            /// Returns what leads from one policy to another.
            #[must_use]
            pub fn between(before: &Policy, after: &Policy) -> Self {
                Self { $($field: Some($show(after.$of)).filter(|_| before.$of != after.$of),)+ }
            }

            /// Whether nothing is to change.
            pub fn is_empty(&self) -> bool {
                *self == Self::default()
            }
        }
    };
}

policy! {
    /// Moves that may be under way at once, cluster-wide.
    max_in_flight: u32 = max_in_flight, same, same;
    /// Moves that may leave one node at once.
    moves_per_source: u32 = moves_per_source, same, same;
    /// Moves that may arrive at one node at once.
    moves_per_destination: u32 = moves_per_destination, same, same;
    /// Whether the planner starts nothing new.
    paused: bool = paused, same, same;
    /// Voters below which no node is ever removed.
    min_voters: u32 = min_voters, same, same;
    /// Voters up to which joining nodes are given a vote.
    voters_max: u32 = voters_max, same, same;
    /// Bytes that one node copies per second; 0 is any number.
    copy_rate_bytes_per_second: u64 = copy_rate_bytes_per_second, same, same;
    /// Bytes that one node receives per second; 0 is no limit of its own.
    copy_in_bytes_per_second: u64 = copy_in_bytes_per_second, same, same;
    /// Bytes that one node sends per second; 0 is no limit of its own.
    copy_out_bytes_per_second: u64 = copy_out_bytes_per_second, same, same;
    /// Bytes that all nodes together copy per second; 0 is any number.
    cluster_copy_rate_bytes_per_second: u64 = cluster_copy_rate_bytes_per_second, same, same;
    /// How long a heartbeat lets an owner commit to a partition that is moving, in milliseconds.
    lease_ms: u64 = lease, millis, Duration::from_millis;
    /// The rate error of any two clocks that is allowed for, in percent.
    clock_rate_error_percent: u32 = clock_rate_error_percent, same, same;
    /// What is added to the lease for everything that is not clock rate, in milliseconds.
    lease_margin_ms: u64 = lease_margin, millis, Duration::from_millis;
    /// Silence after which a node is declared dead, in milliseconds.
    dead_timeout_ms: u64 = dead_timeout, millis, Duration::from_millis;
    /// How long a source stays dead before its partitions may be promoted without it, in milliseconds.
    force_promote_after_ms: u64 = force_promote_after, millis, Duration::from_millis;
}

const fn same<T: Copy>(value: T) -> T {
    value
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field of the policy is shown and can be changed: a change from one policy to another
    /// that differs in all of them leads there.
    #[test]
    fn a_change_leads_from_one_policy_to_any_other() {
        let before = Policy::default();
        let after = Policy {
            max_in_flight: 1,
            moves_per_source: 3,
            moves_per_destination: 4,
            paused: true,
            min_voters: 5,
            voters_max: 7,
            copy_rate_bytes_per_second: 0,
            copy_in_bytes_per_second: 1,
            copy_out_bytes_per_second: 2,
            cluster_copy_rate_bytes_per_second: 3,
            lease: Duration::from_secs(1),
            clock_rate_error_percent: 2,
            lease_margin: Duration::from_secs(2),
            dead_timeout: Duration::from_secs(3),
            force_promote_after: Duration::from_secs(4),
        };
        let change = PolicyChange::between(&before, &after);
        assert_eq!(change.apply(&before), after);
        let json = serde_json::to_value(&change).expect("json");
        let view = serde_json::to_value(PolicyView::from(&after)).expect("json");
        assert_eq!(json, view, "every field differs");
        assert_eq!(Policy::from(&PolicyView::from(&after)), after);
        assert!(PolicyChange::between(&after, &after).is_empty());
        assert_eq!(PolicyChange::default().apply(&after), after);
    }
}
