//! Which offsets of an earlier reign still name the same records.

use alloc::vec::Vec;

use crate::ids::{Epoch, Offset};
use crate::metastore::Assignment;
use crate::planted::{Bug, is_planted};

/// Where each reign over a partition began, up to the present one.
///
/// An offset below the beginning of the next reign names the same record in both; from there on,
/// the two histories are strangers (H15, H44). Reigns begin no earlier than those before them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lineage {
    epoch: Epoch,
    /// Reigns with their first offsets, oldest first.
    reigns: Vec<(Epoch, Offset)>,
    /// Whether older ones have been forgotten.
    is_cut: bool,
}

impl Lineage {
    /// Returns what a row knows of the reigns.
    #[must_use]
    pub fn of(row: &Assignment) -> Self {
        let reigns = row.lineage.iter().map(|reign| (reign.epoch, reign.start)).collect();
        Self { epoch: row.epoch, reigns, is_cut: row.lineage_cut }
    }

    /// Returns the present reign.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns where the offsets of a reign end: from there on, they name other records, or none.
    /// `None` for the present reign. Of a reign that is not known, or whose successor has been
    /// forgotten, nothing counts.
    pub fn end_of(&self, reign: Epoch) -> Option<Offset> {
        if reign == self.epoch {
            return None;
        }
        let next = self.reigns.iter().find(|(epoch, _)| *epoch > reign);
        let (next, start) = next.copied().unwrap_or_default();
        let is_next_forgotten = self.is_cut && reign.next() < next;
        Some(if is_next_forgotten { Offset(0) } else { start })
    }

    /// Takes a reader that was at an offset of some reign to where it goes on in this one: back to
    /// where the next reign began, if it was past that (H15).
    #[must_use]
    pub fn clamped(&self, of: Epoch, at: Offset) -> Offset {
        if is_planted(Bug::PositionNotClamped) {
            return at;
        }
        self.end_of(of).map_or(at, |end| at.min(end))
    }
}
