//! The destination side of a move, driven against a source, a disk and a row that are small and
//! otherwise real: bytes are copied, guards are checked, crashes lose what was not durable.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod bad_days;
mod cases;
mod convergence;
mod crash;
mod disk;
mod promotion;
mod row;
mod schedules;
mod source;
mod world;
