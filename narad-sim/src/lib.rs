//! A deterministic world of clocks, networks and disks that drives the Narad state machines.

pub mod outcome;
pub mod plant;
pub mod random;
pub mod time;
pub mod trace;
