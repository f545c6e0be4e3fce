//! How fast the log is, and what goes wrong with it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How long everything takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one node to another, written down there. Default 0.5 to 3 ms.
    pub hop: RangeInclusive<Duration>,
    /// How long a leader is missed before another is elected. Default 1 to 2 s.
    pub election: RangeInclusive<Duration>,
    /// After how many entries an image of the state is made. Default 10,000, at least 1.
    pub snapshot_entries: u64,
    /// How many entries before an image stay to be told one by one. Default 1,000.
    pub keep_entries: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            hop: Duration::from_micros(500)..=Duration::from_millis(3),
            election: Duration::from_secs(1)..=Duration::from_secs(2),
            snapshot_entries: 10_000,
            keep_entries: 1_000,
        }
    }
}

/// What goes wrong by chance, each 0 to 1. By default, nothing does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// An entry that the leader takes is never committed.
    pub lose: f64,
    /// An entry that the leader takes, or a deposed one does, or that is lost with a reign, is
    /// committed up to `late_max` later, if there is a leader then.
    pub late: f64,
    /// An entry is committed, and once more up to `late_max` later.
    pub twice: f64,
    /// Longest delay of such an entry. Default 10 s.
    pub late_max: Duration,
    /// An uncommitted entry does not survive a change of the leader, nor do those after it.
    pub forget: f64,
    /// A leader goes on believing that it leads: cut off, until it hears another; deposed, for as
    /// long as an election takes.
    pub stubborn: f64,
    /// A node is given a snapshot instead of the entries that it lacks.
    pub skip: f64,
    /// What a node is told of the log is up to `lag_max` late.
    pub lag: f64,
    /// Longest lag. Default 5 s.
    pub lag_max: Duration,
    /// A barrier never reaches the leader.
    pub deaf: f64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            lose: 0.0,
            late: 0.0,
            twice: 0.0,
            late_max: Duration::from_secs(10),
            forget: 0.0,
            stubborn: 0.0,
            skip: 0.0,
            lag: 0.0,
            lag_max: Duration::from_secs(5),
            deaf: 0.0,
        }
    }
}
