//! Narad inside a service that owns its log, its decisions and its connections.
//!
//! ```text
//!           your service
//!     append, read, commit, ask
//!                │
//!              Narad ────────── one node; many may be in one process
//!       ┌────────┼─────────┐
//!       ▼        ▼         ▼
//! PartitionStore Metastore Peer          yours, each a small trait
//!   records      decisions  messages
//! ```
//!
//! The node loop is the one that a whole server has; what it runs over is yours.

mod ledger;
mod metastore;
mod peer;
mod service;
mod store;

pub use ledger::{Folded, Ledger, LedgerError, Record};
pub use metastore::{COMPACT_EVERY, DECISION_BYTES_MAX, Metastore, Proposed, Update, Watch};
pub use peer::{Inbound, Kept as KeptReachable, MESSAGE_BYTES_MAX, Peer, Whom};
pub use store::{
    Kept, LOG_NAME_BYTES_MAX, NOTE_BYTES_MAX, PartitionStore, RECORD_BYTES_MAX, StoreFault, is_own,
};
