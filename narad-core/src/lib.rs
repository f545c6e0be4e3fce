//! Sans-IO state machines that move log partitions between nodes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod effects;
pub mod ids;
pub mod partition;
pub mod plan;
pub mod time;
