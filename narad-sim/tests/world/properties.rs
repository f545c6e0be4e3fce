//! Properties of any schedule: proptest feeds the choices from which a scenario is drawn, as
//! libFuzzer does in `fuzz/src/bin/schedules.rs`.
//!
//! Choices that run out are the plainest ones, so a failure shrinks to a scenario in which little
//! happens; it is printed as a file for `narad-sim run`, and its choices are kept in
//! `proptest-regressions`. A few cases run, the same each time, so that a change is judged by
//! itself; `NARAD_SCHEDULES` asks for so many others.

use std::time::Duration;

use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::{Bias, DrawOptions, MetastoreKind, Scenario, Tape};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// How many cases of each property, other ones each time.
fn asked() -> Option<u32> {
    std::env::var("NARAD_SCHEDULES").ok()?.parse().ok()
}

fn config() -> ProptestConfig {
    let rng_seed = asked().map_or(RngSeed::Fixed(1), |_| RngSeed::Random);
    let cases = asked().unwrap_or(8);
    ProptestConfig { max_shrink_iters: 400, rng_seed, ..ProptestConfig::with_cases(cases) }
}

/// What a scenario is drawn from, and the seed of what it leaves to chance.
fn choices() -> impl Strategy<Value = (u64, Vec<u8>)> {
    (0_u64..1 << 16, proptest::collection::vec(any::<u8>(), 0..600))
}

/// Runs what is drawn and fails if one of the invariants does not hold.
fn hold(
    invariants: &[&str],
    bias: Option<Bias>,
    (seed, choices): (u64, Vec<u8>),
) -> Result<(), TestCaseError> {
    let metastore = if seed % 4 == 0 { MetastoreKind::Raft } else { MetastoreKind::Abstract };
    let options = DrawOptions {
        metastore: Some(metastore),
        bias,
        safety: Some(Duration::from_secs(12)),
        ..DrawOptions::default()
    };
    let mut scenario = Scenario::draw(&mut Tape::new(&choices), &options);
    scenario.head.seed = seed;
    let violations = run(&scenario, RunOptions::default()).summary.violations;
    let broken = violations.iter().find(|it| invariants.contains(&it.invariant.as_str()));
    prop_assert!(broken.is_none(), "{broken:?}\n{}", scenario.to_toml());
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    /// S1, S11: what was acknowledged is there, and is delivered.
    #[test]
    fn no_gap(choices in choices()) {
        hold(&["S1", "S11"], None, choices)?;
    }

    /// S2, S9, S18: one node commits at a time, and nobody else's word counts.
    #[test]
    fn no_split_brain(choices in choices()) {
        hold(&["S2", "S9", "S18"], Some(Bias::Freeze), choices)?;
    }

    /// S3: the owner has the data.
    #[test]
    fn the_owner_has_the_data(choices in choices()) {
        hold(&["S3"], Some(Bias::Power), choices)?;
    }

    /// S4: what consumers could not see stays unseen by a recovery or a move.
    #[test]
    fn hidden_tail_stays_hidden(choices in choices()) {
        hold(&["S4"], Some(Bias::Restart), choices)?;
    }

    /// S5, S16: an offset that was visible means the same record for ever.
    #[test]
    fn offsets_are_stable(choices in choices()) {
        hold(&["S5", "S16"], Some(Bias::Death), choices)?;
    }

    /// S6: a copy succeeds a dead owner only with everything that the owner made visible.
    #[test]
    fn force_promotions_are_proven(choices in choices()) {
        hold(&["S6"], Some(Bias::Death), choices)?;
    }

    /// S7: positions move along, and are never ahead of what was consumed.
    #[test]
    fn positions_move_along(choices in choices()) {
        hold(&["S7"], Some(Bias::Museum), choices)?;
    }

    /// S8: a flip means a frozen source and a whole, durable copy.
    #[test]
    fn flips_are_of_whole_copies(choices in choices()) {
        hold(&["S8"], Some(Bias::Flip), choices)?;
    }

    /// S10, L6: nothing is deleted on suspicion, and what is proven to be garbage goes.
    #[test]
    fn only_garbage_goes(choices in choices()) {
        hold(&["S10", "L6"], Some(Bias::Disk), choices)?;
    }

    /// S12, S13, S14: no more moves than needed, no more at once than allowed.
    #[test]
    fn plans_are_minimal(choices in choices()) {
        hold(&["S12", "S13", "S14"], Some(Bias::Membership), choices)?;
    }

    /// L1, L2: a move ends or says what it waits for; so does a freeze.
    #[test]
    fn every_move_ends(choices in choices()) {
        hold(&["L1", "L2"], Some(Bias::Network), choices)?;
    }

    /// S15, L3: a drain ends or says what it waits for, and never takes a voter too many.
    #[test]
    fn drain_ends(choices in choices()) {
        hold(&["S15", "L3"], Some(Bias::Membership), choices)?;
    }

    /// L4, L5, L7: what can be served is served, and the load is spread.
    #[test]
    fn everything_is_served(choices in choices()) {
        hold(&["L4", "L5", "L7"], Some(Bias::Leader), choices)?;
    }
}
