//! How many times faster than real time a world of the laboratory goes, on one core, with all its
//! checks on: five nodes that commit about 20 records a simulated second.

#[path = "world/scene.rs"]
mod scene;

use scene::{Mix, Scene};

#[expect(clippy::print_stdout, reason = "a benchmark's result")]
fn main() {
    // Without the flag of `cargo bench` the question is only whether it works.
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let (runs, seconds) = if is_measured { (9, 600) } else { (1, 10) };
    println!(
        "log       pace  nodes  mix    x real time  events/s  ns/event  commits/s  violations"
    );
    for (log, nodes) in [("raft", 5), ("abstract", 5), ("raft", 50), ("abstract", 50)] {
        for pace in ["fast", "real"] {
            for mix in [Mix::Quiet, Mix::Mild] {
                let seconds = if nodes > 5 { seconds / 10 } else { seconds };
                let speed = Scene { log, pace, nodes, mix, seconds }.measure(runs);
                let mix = if mix == Mix::Quiet { "quiet" } else { "mild" };
                println!(
                    "{log:<9} {pace:<5} {nodes:>5}  {mix:<5}  {:>11.0}  {:>7.2}M  {:>8.0}  \
                     {:>9.1}  {:>10}",
                    speed.times_real,
                    speed.events / 1e6,
                    1e9 / speed.events,
                    speed.commits,
                    speed.violations,
                );
            }
        }
    }
}
