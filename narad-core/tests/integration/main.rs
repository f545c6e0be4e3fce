//! The machines of this crate in small worlds of their own.

mod controller;
mod mover;
mod node;
mod plan;
mod world;
