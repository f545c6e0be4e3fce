//! The machines of this crate in small worlds of their own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends where it is")]

mod controller;
mod cursor;
mod dispatch;
mod mover;
mod node;
mod plan;
mod world;
