//! The connections of a destination, a few per source.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use narad_core::ids::NodeId;

use super::CancelFlag;
use super::stream::Stream;
use super::throttle::Cancelled;
use crate::net::lock;

/// A copy that waits for a connection looks this often whether it was cancelled.
const SLICE: Duration = Duration::from_millis(50);

/// Connections by source.
#[derive(Debug)]
pub(crate) struct Pool {
    per_source: usize,
    idle_max: Duration,
    sources: Mutex<HashMap<NodeId, Source>>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Source {
    /// Leases that are out.
    leased: usize,
    idle: Vec<(Stream, Instant)>,
}

impl Pool {
    pub(crate) fn new(per_source: usize, idle_max: Duration) -> Self {
        let per_source = per_source.max(1);
        Self { per_source, idle_max, sources: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits for the right to use one connection to a source.
    pub(crate) fn lease(&self, from: NodeId, cancel: &CancelFlag) -> Result<Lease<'_>, Cancelled> {
        let mut sources = lock(&self.sources);
        loop {
            let source = sources.entry(from).or_default();
            if source.leased < self.per_source {
                source.leased += 1;
                return Ok(Lease { pool: self, from });
            }
            if cancel.is_cancelled() {
                return Err(Cancelled);
            }
            let waited = self.freed.wait_timeout(sources, SLICE);
            sources = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The right to use one connection to a source.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    from: NodeId,
}

impl Lease<'_> {
    /// Returns a connection that an earlier copy has left, if there is a recent one.
    pub(crate) fn take_idle(&self) -> Option<Stream> {
        let mut sources = lock(&self.pool.sources);
        let idle = &mut sources.get_mut(&self.from)?.idle;
        idle.retain(|(_, since)| since.elapsed() < self.pool.idle_max);
        idle.pop().map(|(stream, _)| stream)
    }

    /// Leaves a connection, between two answers, to the next copy.
    pub(crate) fn leave(&self, stream: Stream) {
        if let Some(source) = lock(&self.pool.sources).get_mut(&self.from) {
            source.idle.push((stream, Instant::now()));
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut sources = lock(&self.pool.sources);
        if let Some(source) = sources.get_mut(&self.from) {
            source.leased -= 1;
            if source.leased == 0 && source.idle.is_empty() {
                sources.remove(&self.from);
            }
        }
        drop(sources);
        self.pool.freed.notify_all();
    }
}
