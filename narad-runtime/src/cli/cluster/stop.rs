//! Whether a node may be stopped.

use std::fmt::Write as _;

use super::{Desk, encoded};
use crate::cli::{ExitCode, Failure};
use crate::service::{StopReason, StopView};

/// Says so, and exits with 0 only if it may.
pub(super) async fn safe_to_stop(
    desk: &mut Desk<'_>,
    id: &str,
    for_good: bool,
) -> Result<(), Failure> {
    let member = encoded(id);
    let path = format!("/v1/cluster/members/{member}/safe-to-stop?for_good={for_good}");
    let view: StopView = desk.read(&path, page).await?;
    if view.safe {
        return Ok(());
    }
    let reasons: Vec<String> =
        view.reasons.iter().map(|StopReason { reason, .. }| reason.clone()).collect();
    let message = format!("{id} must not be stopped now: {}", reasons.join("; "));
    let remedy = view.reasons.into_iter().next().map(|first| first.remedy).unwrap_or_default();
    Err(Failure::new(ExitCode::NotSafe, message).with_hint(remedy))
}

fn page(_: u16, _: bool, view: &StopView) -> String {
    let StopView { member, for_good, safe, notes, .. } = view;
    let mut text = match (safe, for_good) {
        (true, true) => format!("{member} may be stopped, and its disk wiped"),
        (true, false) => format!("{member} may be stopped"),
        (false, _) => format!("{member} must not be stopped now"),
    };
    for StopReason { reason, remedy, .. } in notes {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n  note: {reason}; {remedy}");
    }
    text
}
