//! Running one node.

use crate::cli::{ExitCode, Failure};
use crate::settings::Settings;

/// What a node does when its data directory is new. One that belongs to a cluster already goes on in
/// it, whatever is said here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// Goes on; a new data directory is an error.
    Resume,
    /// Founds a cluster.
    Bootstrap,
    /// Joins the cluster that one of these nodes belongs to, given by their peer addresses.
    Join(Vec<String>),
}

/// Runs a node until it is told to stop.
///
/// # Errors
///
/// If it cannot start or go on, with the exit code that says why.
#[expect(clippy::unused_async, reason = "its callers wait for it")]
pub async fn run(settings: Settings, start: Start) -> Result<(), Failure> {
    settings.required_name()?;
    tracing::debug!(?settings, ?start, "starting");
    Err(Failure::new(ExitCode::Failure, "this build has no node"))
}
