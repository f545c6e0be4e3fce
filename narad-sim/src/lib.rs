//! The place of a deterministic world for the Narad state machines. **It contains nothing yet.**
//!
//! It is meant to become what drives the real core, the real segment log and the real Raft wrapper
//! under virtual clocks, networks and disks, so that a seed is a schedule: the same seed, the same
//! trace, on every machine. Until then, schedules are explored by the tests of `narad-core`, which
//! have small worlds of their own (`narad-core/tests/integration`), and by real processes that are
//! killed (`narad-runtime/tests/processes`).
//!
//! The crate stands here so that its dependencies are kept honest from the start: it links
//! `narad-runtime` with the features `log` and `raft` alone, and the gate refuses an async runtime
//! among what comes with them.
