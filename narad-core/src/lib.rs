//! Sans-IO state machines that move log partitions between nodes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod effects;
pub mod ids;
pub mod metastore;
pub mod mover;
pub mod partition;
pub mod peer;
pub mod promote;
mod rate;
pub mod time;
