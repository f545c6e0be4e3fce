//! Opening a log of which everything is known already: one that this process has just installed.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use narad_core::ids::{Epoch, LogGeneration, Offset};
use narad_core::partition::Sidecar;

use super::append::Writer;
use super::check::Checker;
use super::index::Spots;
use super::position::Positions;
use super::recover::{Recovery, describe};
use super::side::Stand;
use super::{LogError, LogLimits, Segment, SegmentLog, View, side};
use crate::disk::{Disk, Open};

/// What a recovery of the log would find, every byte of which was checked, and is durable.
#[derive(Debug)]
pub(crate) struct Opening {
    segments: Vec<Segment>,
    hwm: Offset,
    epoch: Epoch,
    stand: Stand,
    generation: LogGeneration,
}

impl Opening {
    /// Takes the checks of all segments, and the life that is counted for the log on its disk; `None`
    /// if anything is damaged or missing, which only a recovery deals with.
    pub(crate) fn of_installed(
        checkers: Vec<Checker>,
        sidecar: &Sidecar,
        generation: LogGeneration,
    ) -> Option<Self> {
        let last = checkers.last()?;
        let follows = |pair: &[Checker]| pair[0].end() == pair[1].segment();
        let is_whole = |checker: &Checker| checker.torn().is_none() && checker.damage().is_empty();
        let stand = Stand { position: sidecar.position.clone(), spent: Vec::new() };
        let hwm = sidecar.hwm.max(last.hwm()).max(stand.end()).max(checkers[0].segment());
        let sound = checkers.windows(2).all(follows) && checkers.iter().all(is_whole);
        if !sound || hwm > last.end() || checkers[0].segment() != sidecar.start {
            return None;
        }
        let epoch = checkers.iter().map(Checker::epoch).max().unwrap_or_default();
        let segments = checkers.into_iter().map(describe).collect();
        Some(Self { segments, hwm, epoch, stand, generation })
    }
}

impl SegmentLog {
    /// Opens a log without reading it, or writing anything.
    pub(crate) fn open_known(
        disk: Arc<dyn Disk>,
        dir: &Path,
        limits: LogLimits,
        opening: Opening,
    ) -> Result<Self, LogError> {
        let Opening { segments, hwm, epoch, stand, generation } = opening;
        let last =
            segments.last().ok_or_else(|| LogError::NoSegments { dir: dir.to_path_buf() })?;
        let file = disk.open(&side::segment_path(dir, last.base), Open::Existing)?;
        let writer = Writer::new(file, Some(last));
        let view = View { segments, hwm, epoch, opened: None, spots: Spots::default() };
        Ok(Self {
            dir: dir.to_path_buf(),
            limits,
            generation,
            recovery: Recovery::default(),
            writer: Mutex::new(writer),
            positions: Positions::new(stand),
            view: Mutex::new(view),
            closed: AtomicBool::new(false),
            disk,
        })
    }
}
