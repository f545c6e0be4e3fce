//! A cluster on one machine that shows what Narad promises.

use crate::cli::{DemoOptions, ExitCode, Failure};

/// Runs the demonstration.
///
/// # Errors
///
/// If the nodes cannot be run, or a promise was not kept.
#[expect(clippy::unused_async, reason = "its callers wait for it")]
pub async fn run(options: DemoOptions) -> Result<(), Failure> {
    tracing::debug!(?options, "starting");
    Err(Failure::new(ExitCode::Failure, "this build has no demonstration"))
}
