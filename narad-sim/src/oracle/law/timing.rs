//! The policy, and how long a death must last before a promotion.

use std::time::Duration;

use narad_core::config::Policy;
use narad_core::metastore::{Applied, Reason, Status};

use super::{Case, Law};

impl Law {
    pub(super) fn set_policy(
        &mut self,
        case: &mut Case<'_>,
        policy: &Policy,
    ) -> Result<Applied, Reason> {
        check(policy)?;
        if self.policy == *policy || self.is_remembered(case) {
            return Ok(Applied::Done);
        }
        self.remember(case.entry.proposal);
        self.policy = policy.clone();
        let (reach, silence) = (reach(policy), policy.dead_timeout);
        for member in self.members.values_mut() {
            let leased = member.status == Status::Alive && !member.retired;
            if leased && member.incarnation.0 > 0 {
                let timing = &mut member.timing;
                if reach > timing.reach || silence < timing.silence {
                    timing.reach = timing.reach.max(reach);
                    timing.silence = timing.silence.min(silence);
                    case.touched.members.insert(member.id);
                }
            }
        }
        Ok(Applied::Done)
    }
}

/// How long an owner may go on after it sent the heartbeat that was answered last, in true time:
/// `lease * (1 + rho) + margin`.
pub(super) fn reach(policy: &Policy) -> Duration {
    let percent = 100 + u128::from(policy.clock_rate_error_percent);
    millis((millis_up(policy.lease) * percent).div_ceil(100)).saturating_add(policy.lease_margin)
}

/// How long a death must last: as long as the policy says, and until what was leased for `reach`
/// has run out, `silence` of which had passed when the death was noticed, by the slowest clock.
pub(super) fn wait(policy: &Policy, reach: Duration, silence: Duration) -> Duration {
    let total = ((millis_up(reach) + 1) * 100).div_ceil(slowest(policy));
    policy.force_promote_after.max(millis(total.saturating_sub(silence.as_millis())))
}

fn check(policy: &Policy) -> Result<(), Reason> {
    let counts = [
        policy.max_in_flight,
        policy.moves_per_source,
        policy.moves_per_destination,
        policy.min_voters,
    ];
    let fits = !counts.contains(&0)
        && policy.voters_max >= policy.min_voters
        && policy.clock_rate_error_percent <= 50
        && policy.lease > Duration::ZERO
        && policy.dead_timeout > Duration::ZERO;
    if !fits {
        return Err(Reason::OutOfRange);
    }
    let death = policy.dead_timeout.saturating_add(policy.force_promote_after);
    let safe = millis_up(reach(policy)) < death.as_millis() * slowest(policy) / 100;
    if safe { Ok(()) } else { Err(Reason::UnsafeTiming) }
}

/// What a clock that runs as slowly as allowed shows of a hundred units.
fn slowest(policy: &Policy) -> u128 {
    100 - u128::from(policy.clock_rate_error_percent.min(50))
}

fn millis_up(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}

fn millis(millis: u128) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}
