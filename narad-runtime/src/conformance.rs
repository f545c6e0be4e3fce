//! Batteries that an embedder runs against its own parts: whether a store, a metastore or a transport
//! keeps the contract of its seam.
//!
//! Each battery is given a rig, which makes fresh instances and does to them what the world does: it
//! cuts the power, loses contact, loses answers. What a rig cannot do it says, and the report names
//! what was therefore not looked at.
//!
//! ```text
//! StoreRig ──────▶ store()      records, names, notes; power cut after, and at every step of, each call;
//!                               a medium that goes bad
//! MetastoreRig ──▶ metastore()  one order, three outcomes, barriers beside one another, snapshots, restarts
//! PeerRig ───────▶ peer()       whole messages, at most once, from whom, nobody held up
//! StoreRig ──────▶ moves()      whole nodes over the store: moves under load, crashes, restarts
//! ```
//!
//! # Examples
//!
//! A store whose power cannot be cut at a step of its own choosing still has it cut between calls:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use async_trait::async_trait;
//! use narad_runtime::conformance::{self, StoreRig};
//! use narad_runtime::embed::PartitionStore;
//! use narad_runtime::embed::memory::MemoryStore;
//!
//! #[derive(Default)]
//! struct Rig(Mutex<MemoryStore>);
//!
//! #[async_trait]
//! impl StoreRig for Rig {
//!     async fn fresh(&self) {
//!         *self.0.lock().unwrap() = MemoryStore::default();
//!     }
//!     async fn open(&self) -> Arc<dyn PartitionStore> {
//!         Arc::new(self.0.lock().unwrap().clone())
//!     }
//!     // What is in memory is durable here: nothing is lost.
//!     async fn power_loss(&self) {}
//! }
//!
//! # #[tokio::main]
//! # async fn main() {
//! let report = conformance::store(&Rig::default()).await.expect("it keeps the contract");
//! assert!(report.checks > 50);
//! # }
//! ```

mod metastore;
mod moves;
mod peer;
mod store;

use std::fmt;

pub use metastore::{MetastoreRig, metastore};
pub use moves::moves;
pub use peer::{PeerRig, peer};
pub use store::{StoreRig, store};

/// What a battery has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Facts that were checked.
    pub checks: u64,
    /// Moments at which the power was cut within a call.
    pub crash_points: u64,
    /// What was not looked at, because the rig cannot do what that takes.
    pub skipped: Vec<&'static str>,
}

/// A rule of a contract that is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {what}")]
pub struct Violation {
    /// The rule, in the words of the contract.
    pub rule: &'static str,
    /// What was done, what was to be, and what was.
    pub what: String,
}

impl Report {
    /// Checks one fact.
    fn check(
        &mut self,
        holds: bool,
        rule: &'static str,
        what: impl FnOnce() -> String,
    ) -> Result<(), Violation> {
        self.checks += 1;
        if holds { Ok(()) } else { Err(Violation { rule, what: what() }) }
    }

    /// Checks that something is as it was to be.
    fn same<T: PartialEq + fmt::Debug>(
        &mut self,
        found: &T,
        expected: &T,
        rule: &'static str,
        doing: &str,
    ) -> Result<(), Violation> {
        self.check(found == expected, rule, || {
            let brief = |text: String| text.chars().take(400).collect::<String>();
            let (found, expected) = (brief(format!("{found:?}")), brief(format!("{expected:?}")));
            format!("{doing}: expected {expected}, found {found}")
        })
    }
}
