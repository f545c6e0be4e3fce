//! Whatever goes wrong in a simulated cluster, every invariant holds.
//!
//! The input is what a scenario is drawn from, as in `narad-sim/tests/world/properties.rs`; bytes that
//! run out are the plainest choices.
#![cfg_attr(fuzzing, no_main)]

use std::time::Duration;

use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::{DrawOptions, Scenario, Tape};

narad_fuzz::target!("schedules", |input| {
    let options = DrawOptions { safety: Some(Duration::from_secs(8)), ..DrawOptions::default() };
    let scenario = Scenario::draw(&mut Tape::new(input), &options);
    let summary = run(&scenario, RunOptions::default()).summary;
    assert!(summary.violations.is_empty(), "{:?}\n{}", summary.violations, scenario.to_toml());
});
