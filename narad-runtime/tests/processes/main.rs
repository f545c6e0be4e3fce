//! Nodes as processes: started, killed at any point, started again, and never short of a record.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by unwrapping")]
#![expect(clippy::print_stdout, reason = "a failure is understood by what was printed before")]

mod accepting;
mod bad_input;
mod data_path;
mod decommission;
mod harness;
mod http;
mod large;
mod ledger;
mod matrix;
mod node;
mod operator;
mod promote;
mod pty;
mod resume;
mod secure;
mod stories;
mod strings;
