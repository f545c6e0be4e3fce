//! The locks and threads that group commit and the gate are made of.
//!
//! They are those of the standard library. A build with `--cfg shuttle` has others instead, which give
//! the turn to whomever a scheduler draws, so that a test sees thousands of interleavings and the same
//! ones again: `bash .ci/run shuttle`.

#[cfg(shuttle)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

/// Runs something under many schedules: drawn ones, and those that change the turn seldom, which find
/// what needs three unlucky moments.
#[cfg(all(test, shuttle))]
pub(crate) fn schedules(run: impl Fn() + Send + Sync + 'static) {
    const EACH: usize = 1_500;
    let run = std::sync::Arc::new(run);
    let again = std::sync::Arc::clone(&run);
    shuttle::check_random(move || run(), EACH);
    shuttle::check_pct(move || again(), EACH, 3);
}
