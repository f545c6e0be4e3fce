//! The destination side of a move, driven against a source, a disk and a row that are small and
//! otherwise real: bytes are copied, guards are checked, crashes lose what was not durable.

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
