//! A deterministic world of clocks, networks and disks that drives the Narad state machines.

pub mod cli;
pub mod clock;
pub mod crash_points;
pub mod explore;
pub mod guard;
pub mod hunt;
pub mod lab;
pub mod metastore;
pub mod narad;
pub mod net;
pub mod oracle;
pub mod outcome;
pub mod placement;
pub mod plant;
pub mod random;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod world;
