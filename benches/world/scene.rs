//! Worlds whose speed is measured, and how: CPU time, so that it is the time of one core.

use std::time::Duration;

use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::Scenario;

/// What goes wrong in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Nothing.
    Quiet,
    /// Nothing, and nobody reads: a record is committed, and that is all.
    Unread,
    /// A little of everything that is usual: lost messages, kills, pauses, cuts, moves.
    Mild,
}

impl Mix {
    /// Returns what it is called in a table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Unread => "unread",
            Self::Mild => "mild",
        }
    }
}

/// A world: 4 partitions, to which about 20 records a second are committed in all.
///
/// Who votes is left to the policy: of 50 nodes 5 do, and 45 are learners, which are sent all that
/// voters are sent. Each asks its leader for a lease again and again, behind a read barrier
/// that is a round of heartbeats to everybody, so that the messages grow with the square of the
/// nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    /// The log that replicates the state: `raft` or `abstract`.
    pub(crate) log: &'static str,
    /// Timings: those of production, `real`, or a tenth of them, `fast`.
    pub(crate) pace: &'static str,
    /// Nodes.
    pub(crate) nodes: u32,
    /// What goes wrong.
    pub(crate) mix: Mix,
    /// Simulated seconds of one run.
    pub(crate) seconds: u64,
}

/// What a world was measured at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Simulated time over CPU time.
    pub(crate) times_real: f64,
    /// Events a second of CPU time.
    pub(crate) events: f64,
    /// Violations seen, which there should not be.
    pub(crate) violations: usize,
}

impl Scene {
    fn scenario(&self) -> Scenario {
        let Self { log, pace, nodes, mix, seconds } = self;
        let faults = match mix {
            Mix::Quiet | Mix::Unread => "",
            Mix::Mild => {
                "[network]\nloss = 0.001\nduplicate = 0.001\nreorder = 0.001\n\
                 [chance]\nkill = 0.5\npause = 1\ncut = 1\nmove = 2\n"
            }
        };
        let reads = if *mix == Mix::Unread { 0 } else { 5 };
        let text = format!(
            r#"
            safety = "{seconds}s"
            liveness = "0s"
            [cluster]
            nodes = {nodes}
            metastore = "{log}"
            pace = "{pace}"
            [[topic]]
            name = "orders"
            partitions = 4
            owners = ["n1", "n2", "n3", "n4"]
            [workload]
            produce = {{ per_second = 5 }}
            consume = {{ per_second = {reads} }}
            {faults}
            "#
        );
        Scenario::parse(&text, "speed").unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the world so often, each time with another seed, and returns the median.
    pub(crate) fn measure(&self, runs: u64) -> Speed {
        let scenario = self.scenario();
        let mut speeds: Vec<Speed> = (1..=runs)
            .map(|seed| {
                let begin = cpu_time();
                let ran = run(&scenario, RunOptions { seed: Some(seed), ..RunOptions::default() });
                let took = cpu_time().saturating_sub(begin).as_secs_f64();
                let simulated = Duration::from_micros(ran.summary.simulated_us).as_secs_f64();
                Speed {
                    times_real: simulated / took,
                    events: number(ran.summary.events) / took,
                    violations: ran.summary.violations.len(),
                }
            })
            .collect();
        speeds.sort_by(|one, other| one.times_real.total_cmp(&other.times_real));
        let violations = speeds.iter().map(|speed| speed.violations).sum();
        Speed { violations, ..speeds[speeds.len() / 2] }
    }
}

/// Returns the CPU time that this process has had.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanos)
}

/// Returns a count as a number to divide.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}
