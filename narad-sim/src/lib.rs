//! A deterministic world of clocks, networks and disks that drives the Narad state machines.

pub mod outcome;
pub mod random;
pub mod report;
pub mod time;
pub mod trace;
