//! Connections of which it is not known yet who is at their other end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Tally, lock};
use crate::tls::{Fault, What};
use crate::wire::handshake::Refused;

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

/// Counts who was refused on one port, and tells people of it, not so often that a flood of them fills
/// the log.
#[derive(Debug)]
pub(crate) struct Refusals {
    port: &'static str,
    tally: Tally,
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
    pub(crate) fn on(port: &'static str, tally: Tally) -> Self {
        Self { port, tally, told: Mutex::default() }
    }

    /// Counts one of whom nobody needs to be told.
    pub(crate) fn count(&self, reason: &'static str) {
        self.tally.count(self.port, reason);
    }

    /// Counts somebody who was refused for a certificate, and tells why.
    pub(crate) fn tell(&self, from: SocketAddr, fault: &Fault) {
        self.count(fault.word());
        if let What::Broken(_) = fault.what {
            tracing::debug!(%from, %fault, "no TLS handshake, closed");
            return;
        }
        self.say(from, fault.word(), fault);
    }

    /// Counts somebody whose greeting was refused, and tells why.
    pub(crate) fn tell_refused(&self, from: SocketAddr, refused: &Refused) {
        self.count(refused.why.word());
        self.say(from, refused.why.word(), refused);
    }

    fn say(&self, from: SocketAddr, why: &'static str, what: &dyn std::fmt::Display) {
        let mut told = lock(&self.told);
        if told.last.is_some_and(|last| last.elapsed() < QUIET) {
            told.untold += 1;
            tracing::debug!(%from, why, %what, "refused a connection");
            return;
        }
        let untold = std::mem::take(&mut told.untold);
        told.last = Some(Instant::now());
        drop(told);
        tracing::warn!(%from, why, fault = %what, untold, "refused a connection");
    }
}
