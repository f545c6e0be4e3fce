//! Nodes as processes: started, killed at any point, started again, and never short of a record.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by unwrapping")]

mod decommission;
mod harness;
mod http;
mod large;
mod ledger;
mod matrix;
mod resume;
