//! Notes of the machines: log lines, and counts for whoever wants figures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use narad_core::mover::Freeze;
use narad_core::node::Note;
use narad_core::{controller, dispatch, freeze, host, lease, mover};

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
        log(note);
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
        Note::Dispatch(note) => log_dispatch(note),
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

fn log_dispatch(note: &dispatch::Note) {
    match note {
        dispatch::Note::Damaged { records, bytes } => tracing::error!(
            records,
            bytes,
            "accepted records are damaged in this node's ingress log, and lost: look at its disk"
        ),
        dispatch::Note::Dropped { topic, records, bytes } => tracing::warn!(
            %topic, records, bytes, "accepted records of a topic that is no more were dropped"
        ),
        dispatch::Note::LogFault => {
            tracing::warn!("the ingress log could not be written; it is tried again");
        }
        dispatch::Note::Held { partition, fault } => {
            tracing::info!(%partition, %fault, "a partition takes nothing at the moment");
        }
        dispatch::Note::Resumed(partition) => {
            tracing::info!(%partition, "a partition takes records again");
        }
        dispatch::Note::Rerouted { .. }
        | dispatch::Note::Carried { .. }
        | dispatch::Note::Stale(_) => tracing::debug!(?note, "dispatch"),
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
        mover::Note::Cutover { tail_bytes, predicted } => tracing::info!(
            %partition, tail_bytes, predicted_us = predicted.as_micros(),
            "the source is about to be frozen"
        ),
        mover::Note::Moved { attempt, copied_bytes, passes, freeze: None } => tracing::info!(
            %partition, %attempt, copied_bytes, passes,
            "the partition was promoted here, since its source is dead"
        ),
        mover::Note::Moved { attempt, copied_bytes, passes, freeze: Some(freeze) } => {
            let Freeze { tail_bytes, predicted, lasted, steps, .. } = freeze;
            tracing::info!(
                %partition, %attempt, copied_bytes, passes, tail_bytes,
                frozen_us = lasted.as_micros(), predicted_us = predicted.as_micros(), ?steps,
                "the partition has moved here"
            );
        }
        mover::Note::Stale(_) | mover::Note::PassEnded { .. } => {
            tracing::trace!(%partition, ?note, "move");
        }
        mover::Note::CopyUnverifiable(_)
        | mover::Note::ChecksumMismatch { .. }
        | mover::Note::FlipUnknown { .. } => tracing::warn!(%partition, ?note, "move"),
        note => tracing::info!(%partition, ?note, "move"),
    }
}
