//! Notes of the machines: counts for whoever wants figures, and log lines in `notes/lines.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::mover::Freeze;
use narad_core::node::Note;
use narad_core::{dispatch, mover};

use crate::mind::Pulse;

mod lines;

pub(super) use lines::Lines;

/// Sees every note of a node, on the node's thread; must not block.
pub trait Observer: Send {
    /// Takes one note.
    fn note(&mut self, note: &Note);

    /// Takes how the replicated log stands, whenever that has changed.
    fn pulse(&mut self, pulse: &Pulse) {
        let _ = pulse;
    }

    /// Takes how long a move to this node took that ended in a flip, from its plan on.
    fn moved(&mut self, lasted: Duration) {
        let _ = lasted;
    }
}

/// What a node has done so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Moves to this node that ended in a flip.
    pub moved: AtomicU64,
    /// Of these, without the source's freeze, because it was dead.
    pub forced: AtomicU64,
    /// Of these, those whose tail never became small.
    pub not_converged: AtomicU64,
    /// Bytes that these copied.
    pub copied_bytes: AtomicU64,
    /// Keyed records that went to a sibling of their partition (R45, R47).
    pub rerouted: AtomicU64,
    /// Accepted records of topics that are no more.
    pub dropped: AtomicU64,
    /// Accepted records that were damaged in the ingress log, and lost.
    pub damaged: AtomicU64,
    /// Records that a promotion had not captured, in bytes, accepted again (H14).
    pub salvaged_bytes: AtomicU64,
    /// The freeze of each normal move.
    pub freezes: Mutex<Vec<Freeze>>,
    /// Partitions whose next owner was told what was acknowledged here after the capture (R52).
    pub acks_forwarded: AtomicU64,
}

impl Counters {
    /// Most freezes that are remembered one by one.
    pub const FREEZES_MAX: usize = 1 << 16;

    /// Returns the freezes so far.
    pub fn freezes(&self) -> Vec<Freeze> {
        self.freezes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Counts notes.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    counters: Arc<Counters>,
}

impl Telemetry {
    /// Counts into the given counters.
    #[must_use]
    pub const fn new(counters: Arc<Counters>) -> Self {
        Self { counters }
    }
}

impl Observer for Telemetry {
    fn note(&mut self, note: &Note) {
        match note {
            Note::Mover(_, note) => self.count(note),
            Note::Dispatch(note) => self.count_dispatch(note),
            Note::Salvaged { salvaged, .. } => {
                self.counters.salvaged_bytes.fetch_add(salvaged.bytes, Ordering::Relaxed);
            }
            Note::AcksForwarded { .. } => {
                self.counters.acks_forwarded.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

impl Telemetry {
    fn count_dispatch(&self, note: &dispatch::Note) {
        let add = |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed);
        match note {
            dispatch::Note::Rerouted { records, .. } => {
                add(&self.counters.rerouted, u64::from(*records));
            }
            dispatch::Note::Dropped { records, .. } => {
                add(&self.counters.dropped, *records);
            }
            dispatch::Note::Damaged { records, .. } => {
                add(&self.counters.damaged, *records);
            }
            _ => {}
        }
    }

    fn count_freeze(&self, freeze: Freeze) {
        let mut freezes = self.counters.freezes.lock().unwrap_or_else(PoisonError::into_inner);
        if freezes.len() < Counters::FREEZES_MAX {
            freezes.push(freeze);
        }
    }

    fn count(&self, note: &mover::Note) {
        let add = |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed);
        match note {
            mover::Note::Moved { copied_bytes, freeze, .. } => {
                add(&self.counters.moved, 1);
                add(&self.counters.copied_bytes, *copied_bytes);
                match freeze {
                    Some(freeze) => self.count_freeze(*freeze),
                    None => {
                        add(&self.counters.forced, 1);
                    }
                }
            }
            mover::Note::NotConverged { .. } => {
                add(&self.counters.not_converged, 1);
            }
            _ => {}
        }
    }
}
