//! The machines of this crate in small worlds of their own.

mod mover;
mod plan;
