//! A deterministic world of clocks, networks and disks that drives the Narad state machines.

pub mod clock;
pub mod explore;
pub mod metastore;
pub mod net;
pub mod oracle;
pub mod outcome;
pub mod plant;
pub mod random;
pub mod report;
pub mod run;
pub mod scenario;
pub mod time;
pub mod trace;
pub mod world;
