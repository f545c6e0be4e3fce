//! The dispatch machine of one node against a log, owners, a network and an ingress log that are
//! small and otherwise real: guards are checked, copies arrive late, crashes lose what was not
//! durable.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod bounds;
mod carry;
mod cases;
mod cluster;
mod damage;
mod owners;
mod remembered;
mod schedules;
mod world;
