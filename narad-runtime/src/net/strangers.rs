//! Connections of which it is not known yet who is at their other end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::lock;
use crate::tls::{Fault, What};

/// People are told of one refusal in as long, and of how many there were.
const QUIET: Duration = Duration::from_secs(1);

/// The connections whose handshake is not complete. A new one is always let in; if there are too
/// many, the oldest goes, since an honest peer completes its handshake within milliseconds.
#[derive(Debug)]
pub(crate) struct Strangers {
    max: usize,
    next: AtomicU64,
    waiting: Mutex<VecDeque<(u64, CancellationToken)>>,
}

/// Tells people who was refused for what certificate, and not so often that a flood of them fills the
/// log.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    /// How many they were not told of since.
    untold: u64,
}

impl Strangers {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.max(1), next: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// Lets one in, with the token that ends it if it must make room.
    pub(crate) fn enter(&self, parent: &CancellationToken) -> (u64, CancellationToken) {
        let stranger = (self.next.fetch_add(1, Ordering::Relaxed), parent.child_token());
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= self.max
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.cancel();
        }
        waiting.push_back(stranger.clone());
        stranger
    }

    /// Notes that one is known now, or gone.
    pub(crate) fn leave(&self, id: u64) {
        lock(&self.waiting).retain(|&(waiting, _)| waiting != id);
    }
}

impl Refusals {
    /// Tells why somebody was refused.
    pub(crate) fn tell(&self, from: SocketAddr, fault: &Fault) {
        if let What::Broken(_) = fault.what {
            tracing::debug!(%from, %fault, "no TLS handshake, closed");
            return;
        }
        let mut told = lock(&self.told);
        if told.last.is_some_and(|last| last.elapsed() < QUIET) {
            told.untold += 1;
            tracing::debug!(%from, why = fault.word(), %fault, "refused a connection");
            return;
        }
        let untold = std::mem::take(&mut told.untold);
        told.last = Some(Instant::now());
        drop(told);
        tracing::warn!(%from, why = fault.word(), %fault, untold, "refused a connection");
    }
}
