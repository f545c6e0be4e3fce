//! Notes of the machines: log lines, and counts for whoever wants figures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use narad_core::node::Note;
use narad_core::{controller, freeze, host, lease, mover};

/// Sees every note of a node, on the node's thread; must not block.
pub trait Observer: Send {
    /// Takes one note.
    fn note(&mut self, note: &Note);
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
    /// How long each normal move kept its source frozen.
    pub freezes: Mutex<Vec<Duration>>,
    /// Partitions whose next owner was told what was acknowledged here after the capture (R52).
    pub acks_forwarded: AtomicU64,
}

impl Counters {
    /// Most freezes that are remembered one by one.
    pub const FREEZES_MAX: usize = 1 << 16;

    /// Returns the freezes so far.
    pub fn freezes(&self) -> Vec<Duration> {
        self.freezes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Logs notes and counts them.
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
        if let Note::Mover(_, note) = note {
            self.count(note);
        } else if let Note::AcksForwarded { .. } = note {
            self.counters.acks_forwarded.fetch_add(1, Ordering::Relaxed);
        }
        log(note);
    }
}

impl Telemetry {
    fn count(&self, note: &mover::Note) {
        let add = |counter: &AtomicU64, amount| counter.fetch_add(amount, Ordering::Relaxed);
        match note {
            mover::Note::Moved { copied_bytes, frozen, forced, .. } => {
                add(&self.counters.moved, 1);
                add(&self.counters.copied_bytes, *copied_bytes);
                if *forced {
                    add(&self.counters.forced, 1);
                } else {
                    let mut freezes =
                        self.counters.freezes.lock().unwrap_or_else(PoisonError::into_inner);
                    if freezes.len() < Counters::FREEZES_MAX {
                        freezes.push(*frozen);
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

fn log(note: &Note) {
    match note {
        Note::Mover(partition, note) => log_mover(*partition, note),
        Note::Handoff(partition, note) => match note {
            freeze::handoff::Note::NotFrozen { .. }
            | freeze::handoff::Note::Revoking { .. }
            | freeze::handoff::Note::RevokeRejected { .. } => {
                tracing::info!(%partition, ?note, "hand-off");
            }
            note => tracing::debug!(%partition, ?note, "hand-off"),
        },
        Note::Host(partition, host::Note::Unavailable(fault)) => {
            tracing::error!(%partition, %fault, "a partition of this node cannot be served");
        }
        Note::Host(partition, note) => tracing::debug!(%partition, ?note, "host"),
        Note::Controller(controller::Note::Outrun(reason)) => {
            tracing::debug!(%reason, "a plan was outrun");
        }
        Note::Controller(note) => tracing::info!(?note, "controller"),
        Note::Lease(lease::Note::Superseded { by }) => {
            tracing::error!(%by, "a later life of this node is registered: another process runs \
                as this node, or an older disk image was put back; this one serves nothing");
        }
        Note::Lease(lease::Note::Stale(_)) | Note::Stale(_) => tracing::trace!(?note, "stale"),
        Note::Lease(note) => tracing::info!(?note, "lease"),
        Note::Leader(leader) => tracing::info!(?leader, "the leader has changed"),
        Note::Dispatch(note) => tracing::debug!(?note, "dispatch"),
        Note::Salvaged { partition, epoch, salvaged } => tracing::warn!(
            %partition, %epoch, from = %salvaged.from, end = %salvaged.end, bytes = salvaged.bytes,
            "records that a promotion had not captured were accepted again"
        ),
        Note::AcksForwarded { partition, to } => {
            tracing::debug!(%partition, %to, "the next owner knows what was acknowledged here");
        }
        Note::SetAside(partition, what) => {
            tracing::info!(%partition, ?what, "set aside into quarantine");
        }
        Note::Retired => tracing::warn!("this node was removed: it can be stopped and wiped"),
    }
}

fn log_mover(partition: narad_core::ids::PartitionId, note: &mover::Note) {
    match note {
        mover::Note::NotConverged { tail_bytes, reason, passes } => tracing::warn!(
            %partition, tail_bytes, ?reason, passes,
            "non-converged cutover: the partition is written faster than it is copied, the \
             freeze will be longer"
        ),
        mover::Note::Waiting(reason) => tracing::info!(%partition, %reason, "the move waits"),
        mover::Note::Frozen { token, tail_bytes } => {
            tracing::info!(%partition, ?token, tail_bytes, "the source is frozen");
        }
        mover::Note::Moved { attempt, copied_bytes, passes, frozen, forced } => tracing::info!(
            %partition, %attempt, copied_bytes, passes, frozen_us = frozen.as_micros(), forced,
            "the partition has moved here"
        ),
        mover::Note::Stale(_) | mover::Note::PassEnded { .. } => {
            tracing::trace!(%partition, ?note, "move");
        }
        mover::Note::CopyUnverifiable(_)
        | mover::Note::ChecksumMismatch { .. }
        | mover::Note::FlipUnknown { .. } => tracing::warn!(%partition, ?note, "move"),
        note => tracing::info!(%partition, ?note, "move"),
    }
}
