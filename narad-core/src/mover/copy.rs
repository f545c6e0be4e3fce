//! One run over a fixed list of extents: several ranges in flight, at most one of each extent, so
//! that the running checksum of an extent only ever grows at its end.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::cx::Cx;
use super::note::Note;
use super::operation::{Copied, Fault, Operation, Outcome};
use crate::effects::OpId;
use crate::ids::{NodeId, Offset};
use crate::partition::Extent;
use crate::planted::{Bug, is_planted};
use crate::rate::Rate;
use crate::time::Instant;

/// The run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyRun {
    source: NodeId,
    goal: Vec<Extent>,
    /// All extents before this one are staged or gone.
    first_open: usize,
    flights: Vec<Flight>,
    /// Extents that the source no longer has.
    gone: BTreeSet<Offset>,
    /// The first failure; after it nothing more is asked for.
    fault: Option<Fault>,
    checkpoint: Option<OpId>,
    checkpoint_due: bool,
    copied_bytes: u64,
    throttled: Duration,
    started: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    op: OpId,
    extent: Extent,
    position: u64,
    bytes: u64,
    asked: Instant,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ended {
    pub(super) result: Result<(), Fault>,
    /// Whether extents vanished under the run.
    pub(super) gone: bool,
    pub(super) copied_bytes: u64,
    pub(super) throttled: Duration,
}

impl CopyRun {
    /// Begins to copy what is not staged.
    pub(super) fn begin(source: NodeId, goal: Vec<Extent>, cx: &mut Cx<'_>) -> Self {
        let mut run = Self {
            source,
            goal,
            first_open: 0,
            flights: Vec::new(),
            gone: BTreeSet::new(),
            fault: None,
            checkpoint: None,
            checkpoint_due: false,
            copied_bytes: 0,
            throttled: Duration::ZERO,
            started: cx.now,
        };
        run.ask(cx);
        run
    }

    /// Takes an answer.
    pub(super) fn done(&mut self, op: OpId, outcome: Outcome, cx: &mut Cx<'_>) {
        match outcome {
            Outcome::Copy(result) => {
                let at = self.flights.iter().position(|flight| flight.op == op);
                let at = at.expect("every copy that runs is in flight");
                let flight = self.flights.swap_remove(at);
                match result {
                    Ok(copied) => self.copied(&flight, copied, cx),
                    Err(Fault::ExtentGone) => {
                        self.gone.insert(flight.extent.base);
                    }
                    Err(fault) => {
                        // The range may have been written in part.
                        cx.desk.stage.trim_due = true;
                        if matches!(fault, Fault::Mismatch { .. }) {
                            cx.desk.stage.misfits(flight.extent.base);
                        }
                        self.fail(fault);
                    }
                }
            }
            Outcome::Checkpoint(result) => {
                assert_eq!(self.checkpoint.take(), Some(op), "one checkpoint runs at a time");
                if let Err(fault) = result {
                    self.fail(fault);
                }
            }
            outcome => unreachable!("a run was answered by {outcome:?}"),
        }
        self.ask(cx);
    }

    /// Returns how the run ended, once it has.
    pub(super) fn ended(&self, cx: &mut Cx<'_>) -> Option<Ended> {
        if !self.flights.is_empty() || self.checkpoint.is_some() {
            return None;
        }
        cx.desk.copy_rate.observe(self.copied_bytes, cx.now.since(self.started));
        Some(Ended {
            result: self.fault.map_or(Ok(()), Err),
            gone: !self.gone.is_empty(),
            copied_bytes: self.copied_bytes,
            throttled: self.throttled,
        })
    }

    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn copied(&mut self, flight: &Flight, copied: Copied, cx: &mut Cx<'_>) {
        let Copied { staged, throttled } = copied;
        let from = flight.position;
        assert!(
            staged.base == flight.extent.base
                && (from..=from + flight.bytes).contains(&staged.bytes.0),
            "a copy writes the range that was asked for, and no other: {flight:?}, {staged:?}"
        );
        if staged.bytes.0 == from && flight.bytes > 0 {
            // Shorter at the source than it was listed.
            self.gone.insert(flight.extent.base);
            return;
        }
        let bytes = staged.bytes.0 - from;
        self.copied_bytes += bytes;
        self.throttled += throttled;
        cx.desk.copied_bytes += bytes;
        let moving = cx.now.since(flight.asked).saturating_sub(throttled);
        cx.desk.way_rate = cx.desk.way_rate.max(Rate::of(bytes, moving).unwrap_or(0));
        if staged.bytes == flight.extent.bytes
            && staged.checksum != flight.extent.checksum
            && !is_planted(Bug::VerifiedByReachAlone)
        {
            cx.note(Note::ChecksumMismatch { base: staged.base });
            cx.desk.stage.forget(Some(staged.base));
            // Neither the way nor a disk here makes the same mistake twice: the source reads it so.
            let is_same = cx.desk.mismatched.replace(staged) == Some(staged);
            let base = staged.base;
            self.fail(if is_same {
                Fault::Damaged { base, position: 0 }
            } else {
                Fault::Mismatch { base }
            });
            return;
        }
        cx.desk.stage.put(staged);
        self.checkpoint_due |= flight.extent.sealed && staged.bytes == flight.extent.bytes;
    }

    /// Asks for as much as may be under way.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        if self.fault.is_some() {
            return;
        }
        if self.checkpoint_due && self.checkpoint.is_none() {
            self.checkpoint_due = false;
            self.checkpoint = Some(cx.checkpoint());
        }
        let is_closed = |run: &Self, cx: &Cx<'_>, extent: &Extent| {
            run.gone.contains(&extent.base) || cx.desk.stage.has(extent)
        };
        while let Some(extent) = self.goal.get(self.first_open) {
            if !is_closed(self, cx, extent) {
                break;
            }
            self.first_open += 1;
        }
        let most = usize::try_from(cx.desk.config.chunks_in_flight_max).unwrap_or(usize::MAX);
        for at in self.first_open..self.goal.len() {
            if self.flights.len() >= most {
                break;
            }
            let extent = self.goal[at];
            let in_flight = self.flights.iter().any(|flight| flight.extent.base == extent.base);
            if in_flight || is_closed(self, cx, &extent) {
                continue;
            }
            let position = cx.desk.stage.staged_bytes(extent.base);
            let bytes = (extent.bytes.0 - position).min(self.chunk_bytes(cx));
            let operation =
                Operation::Copy { source: self.source, base: extent.base, position, bytes };
            let op = cx.run(operation);
            self.flights.push(Flight { op, extent, position, bytes, asked: cx.now });
        }
    }

    /// How much one request asks for: so little on a slow way that the source hears of progress several
    /// times before it would give a freeze up (H22), and whoever watches sees that it comes on. Nothing is
    /// known of a way at first, which may be throttled to very little.
    fn chunk_bytes(&self, cx: &Cx<'_>) -> u64 {
        /// The least that `chunk_bytes_max` may be.
        const BYTES_MIN: u64 = 4096;
        /// The most of a way that is not known yet.
        const FIRST_BYTES_MAX: u64 = 1 << 20;
        let config = &cx.desk.config;
        let rate = match cx.desk.copy_rate.bytes_per_second() {
            0 => Rate::of(self.copied_bytes, cx.now.since(self.started)).unwrap_or(0),
            known => known,
        };
        if rate == 0 {
            return config.chunk_bytes_max.min(FIRST_BYTES_MAX);
        }
        let at_once = u128::from(config.chunks_in_flight_max.max(1));
        let bytes = u128::from(rate) * config.freeze_ttl.as_millis() / 8_000 / at_once;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(BYTES_MIN).min(config.chunk_bytes_max)
    }
}
