//! Replacing certificates while a node runs.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Tls;

/// A certificate that is valid for less than this is warned about at every look.
const SHORT: Duration = Duration::from_hours(7 * 24);

/// Reads the files again whenever the process gets SIGHUP, and every `interval`, until it is cancelled.
///
/// What cannot be used is logged, once for each reason, and changes nothing.
pub async fn watch(tls: Tls, interval: Duration, cancel: CancellationToken) {
    let mut hang_ups = match signal(SignalKind::hangup()) {
        Ok(hang_ups) => Some(hang_ups),
        Err(error) => {
            tracing::warn!(%error, "no signal can be received: certificates are only looked at now and then");
            None
        }
    };
    let mut looks = tokio::time::interval(interval.max(Duration::from_millis(100)));
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = String::new();
    loop {
        let asked = tokio::select! {
            () = cancel.cancelled() => return,
            Some(()) = hang_up(hang_ups.as_mut()) => true,
            _ = looks.tick() => false,
        };
        let read = tls.clone();
        let Ok(read) = tokio::task::spawn_blocking(move || read.reload()).await else { return };
        let said = match read {
            Ok(true) => {
                let valid_for = tls.certificate().left();
                tracing::info!(days = valid_for.as_secs() / 86_400, "the certificate was replaced");
                String::new()
            }
            Ok(false) => expiry(&tls).unwrap_or_default(),
            Err(error) => format!("the certificate files cannot be used: {error}"),
        };
        if !said.is_empty() && (asked || said != last) {
            tracing::warn!("{said}");
        }
        last = said;
    }
}

async fn hang_up(hang_ups: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    match hang_ups {
        Some(hang_ups) => hang_ups.recv().await,
        None => std::future::pending().await,
    }
}

/// Says how long the certificate is valid, if that is not long.
fn expiry(tls: &Tls) -> Option<String> {
    let left = tls.certificate().left();
    let path = tls.files().cert.display().to_string();
    if left.is_zero() {
        Some(format!(
            "{path} has expired: other nodes refuse it; `narad cert issue` makes a new one"
        ))
    } else if left < SHORT {
        let days = left.as_secs() / 86_400;
        Some(format!("{path} expires in {days} days; `narad cert issue` makes a new one"))
    } else {
        None
    }
}
