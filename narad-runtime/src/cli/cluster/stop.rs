//! Whether a node may be stopped.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::{Desk, encoded};
use crate::cli::{ExitCode, Failure};
use crate::service::{StopReason, StopView};

/// Says so, and exits with 0 only if it may; waits for that if it is to.
pub(super) async fn safe_to_stop(
    desk: &mut Desk<'_>,
    id: &str,
    for_good: bool,
    wait: Option<Duration>,
) -> Result<(), Failure> {
    /// How often it is worth asking.
    const PAUSE: Duration = Duration::from_millis(500);
    let member = encoded(id);
    let path = format!("/v1/cluster/members/{member}/safe-to-stop?for_good={for_good}");
    let until = Instant::now() + wait.unwrap_or_default();
    let mut told = None;
    loop {
        let is_last = Instant::now() + PAUSE > until;
        let failure = match desk.client.get_raw(&path).await {
            Ok(body) => {
                let view: StopView = crate::cli::topic::parsed(&body)?;
                if view.safe || is_last {
                    return answer(desk, id, &body, &view);
                }
                not_safe(id, &view)
            }
            Err(error) if error.is_retryable() && !is_last => error.into(),
            Err(error) => return Err(error.into()),
        };
        // Each reason once, however long it lasts.
        if told.as_ref() != Some(&failure.message) {
            desk.terminal.note(&format!("waiting: {}", failure.message));
            told = Some(failure.message);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn answer(desk: &mut Desk<'_>, id: &str, body: &[u8], view: &StopView) -> Result<(), Failure> {
    if desk.json() {
        desk.terminal.print_json(body)?;
    } else {
        desk.terminal.print(&page(view))?;
    }
    if view.safe { Ok(()) } else { Err(not_safe(id, view)) }
}

fn not_safe(id: &str, view: &StopView) -> Failure {
    let reasons: Vec<&str> =
        view.reasons.iter().map(|StopReason { reason, .. }| reason.as_str()).collect();
    let message = format!("{id} must not be stopped now: {}", reasons.join("; "));
    let remedy = view.reasons.first().map(|first| first.remedy.clone()).unwrap_or_default();
    Failure::new(ExitCode::NotSafe, message).with_hint(remedy)
}

fn page(view: &StopView) -> String {
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
