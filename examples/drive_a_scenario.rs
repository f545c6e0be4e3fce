//! A scenario of the simulator, run from Rust: a source dies in the middle of a move, is succeeded by
//! the copy, and comes back.
//!
//! The same text is a file for `narad-sim run`. From Rust it can be changed between runs, and what a
//! run comes to is a value: here, how much is delivered twice, over ten seeds.
//!
//! ```text
//! cargo run --example drive_a_scenario
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use narad_sim::lab::{Describe, Watch};
use narad_sim::outcome::Summary;
use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::Scenario;
use narad_sim::trace::{Kind, Line};

const SCENARIO: &str = r#"
    title = "A source dies in the middle of a move and comes back after the promotion"
    safety = "40s"

    [[topic]]
    name = "orders"
    owners = ["n1"]
    preload = 100

    [workload]                  # nothing more is written, so that the copy is complete
    produce = { per_second = 0 }

    [[step]]
    at = "5s"
    do = "move"
    partition = "orders/0"
    to = "n3"

    [[step]]                    # all is copied; dead after 3 s, promoted 4 s later
    on = { effect = "prepare", node = "n3", partition = "orders/0" }
    label = "death"
    do = "power-loss"
    node = "owner of orders/0"
    keep = "torn"
    for = "20s"

    [[expect]]                  # while n1 is still down
    since = "death"
    within = "15s"
    owner = { partition = "orders/0", is = "n3" }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let scenario = Scenario::parse(SCENARIO, "a_source_dies.toml")?;

    // One run, with somebody who looks on.
    let mut diary = Diary::default();
    let options = RunOptions { watch: Some(&mut diary), ..RunOptions::default() };
    let watched = run(&scenario, options).summary;
    for entry in &diary.entries {
        println!("{entry}");
    }
    check(&watched);

    // Nobody's look changes anything: the same seed is the same run.
    let again = run(&scenario, RunOptions::default()).summary;
    assert_eq!(again.trace_hash, watched.trace_hash);

    // Ten seeds, of which each decides what the torn disk kept, and how long everything takes.
    println!("\nSEED  EVENTS  FREEZES  DELIVERED  AGAIN");
    for seed in 0..10 {
        let summary =
            run(&scenario, RunOptions { seed: Some(seed), ..RunOptions::default() }).summary;
        check(&summary);
        let Summary { events, freezes_us, delivered, duplicates, .. } = &summary;
        println!("{seed:4}  {events:6}  {:7}  {delivered:9}  {duplicates:5}", freezes_us.len());
    }
    Ok(())
}

/// Every invariant held, every expectation was met, and the copy was promoted.
fn check(summary: &Summary) {
    assert_eq!(summary.violations, [], "seed {}", summary.seed);
    assert_eq!(summary.moves_forced, 1, "seed {}", summary.seed);
}

/// Keeps what a person would want to read of a run.
#[derive(Default)]
struct Diary {
    entries: Vec<String>,
}

impl Watch for Diary {
    fn line(&mut self, line: &Line, _: &dyn Describe) -> ControlFlow<()> {
        if matches!(line.kind, Kind::Fault | Kind::Phase | Kind::Freeze) {
            let at = Duration::from_micros(line.at_us).as_secs_f64();
            let node = line.node.as_deref().unwrap_or_default();
            let entry = format!("{node}  {}", line.name);
            if self.entries.last().is_none_or(|last| !last.ends_with(&entry)) {
                self.entries.push(format!("{at:6.2} s  {entry}"));
            }
        }
        ControlFlow::Continue(())
    }
}
