//! The real world, as a whole: it is a function of its seed, and every invariant holds in it.

mod determinism;
mod properties;
