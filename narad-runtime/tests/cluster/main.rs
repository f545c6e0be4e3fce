//! Whole nodes in one process: real files, sockets and Raft.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by unwrapping")]

mod accepting;
mod addresses;
mod consume;
mod damaged;
mod demo;
mod harness;
mod moves;
mod operator;
mod requirements;
mod seat;
mod starts;
