//! A deterministic world of clocks, networks and disks that drives the Narad state machines.

pub mod guard;
pub mod lab;
pub mod outcome;
pub mod random;
pub mod sweep;
pub mod time;
pub mod trace;
