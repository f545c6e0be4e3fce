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
    println!("log       pace  nodes  mix     times real time  M events/s  ns/event  violations");
    for (log, nodes) in [("raft", 5), ("abstract", 5), ("raft", 50), ("abstract", 50)] {
        for pace in ["fast", "real"] {
            for mix in [Mix::Quiet, Mix::Unread, Mix::Mild] {
                let seconds = if nodes > 5 { seconds / 10 } else { seconds };
                let speed = Scene { log, pace, nodes, mix, seconds }.measure(runs);
                println!(
                    "{log:<9} {pace:<5} {nodes:>5}  {:<6} {:>16.0}  {:>10.2}  {:>8.0}  {:>10}",
                    mix.name(),
                    speed.times_real,
                    speed.events / 1e6,
                    1e9 / speed.events,
                    speed.violations,
                );
            }
        }
    }
}
