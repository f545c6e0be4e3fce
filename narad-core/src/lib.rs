//! Sans-IO state machines that move log partitions between nodes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod controller;
pub mod effects;
pub mod freeze;
pub mod host;
pub mod ids;
pub mod lease;
pub mod metastore;
pub mod mover;
pub mod node;
pub mod partition;
mod pause;
pub mod peer;
pub mod plan;
pub mod promote;
pub mod proposals;
mod rate;
pub mod time;
