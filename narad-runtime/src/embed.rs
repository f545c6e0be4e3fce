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

mod builder;
mod error;
mod extents;
mod follow;
mod hands;
mod ledger;
pub mod memory;
mod messages;
mod metastore;
mod names;
mod narad;
mod note;
mod peer;
mod salvage;
mod seat;
mod seats;
mod service;
mod store;
mod thinker;
mod throttle;
mod vault;

pub use builder::Builder;
pub use error::{AppendError, Ended, StartError};
pub use ledger::{Folded, Ledger, LedgerError, Record};
pub use metastore::{COMPACT_EVERY, DECISION_BYTES_MAX, Metastore, Proposed, Update, Watch};
pub use narad::Narad;
pub use note::BadNote;
pub use peer::{Inbound, KeptReachable, MESSAGE_BYTES_MAX, Peer, Whom};
pub use seat::Committed;
pub use store::{
    Kept, LOG_NAME_BYTES_MAX, NOTE_BYTES_MAX, PartitionStore, RECORD_BYTES_MAX, StoreFault, is_own,
};
