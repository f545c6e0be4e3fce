//! Judging a copy, without touching it.

use narad_core::ids::{ByteCount, Offset};
use narad_core::partition::{Boundary, Staged, Verified};

use super::staging::Staging;
use super::{Refusal, StoreError};
use crate::disk::Disk;
use crate::log::check::Checker;
use crate::log::{Ending, digest_of, ending};

impl Staging {
    /// Judges the copy against a boundary. All frames were checked while they streamed; only what an
    /// earlier process staged is read again.
    pub(super) fn verify(
        &mut self,
        disk: &dyn Disk,
        boundary: &Boundary,
    ) -> Result<Verified, StoreError> {
        self.check_idle()?;
        self.vouch(disk)?;
        let partition = self.partition;
        let refuse = |why| Err(StoreError::Refused { partition, why });
        let checkers: Vec<&Checker> =
            self.extents.values().filter_map(|extent| extent.checker.as_ref()).collect();
        let shape = match shape(&checkers, boundary) {
            Ok(shape) => shape,
            Err(why) => return refuse(why),
        };
        if shape.end < boundary.hwm {
            return refuse(Refusal::BelowHwm { end: shape.end, hwm: boundary.hwm });
        }
        let mut extents = self.staged();
        if let (true, Some(last)) = (shape.torn, checkers.last()) {
            match ending(disk, &self.dir, last)? {
                Ending::Whole => {}
                Ending::Torn { kept, .. } => {
                    extents.pop();
                    extents.push(staged_by(&kept));
                }
                Ending::Damaged { next } => extents.push(staged_by(&Checker::of_empty(next))),
            }
        }
        let digest = digest_of(extents);
        if boundary.digest.is_some_and(|expected| expected != digest) {
            return refuse(shape.gap.unwrap_or(Refusal::Digest { found: digest }));
        }
        Ok(Verified { start: boundary.start, end: shape.end, digest })
    }
}

/// What the frames of a copy add up to.
struct Shape {
    end: Offset,
    /// Whether the last append of a copy whose source is dead is torn; it does not count.
    torn: bool,
    /// The first hole. It is the source's own if the digests are equal (`case_048`).
    gap: Option<Refusal>,
}

fn shape(checkers: &[&Checker], boundary: &Boundary) -> Result<Shape, Refusal> {
    let start = boundary.start;
    let Some((last, sealed)) = checkers.split_last() else {
        return if boundary.end == start || boundary.digest.is_none() {
            Ok(Shape { end: start, torn: false, gap: None })
        } else {
            Err(Refusal::Gap { end: start, next: boundary.end })
        };
    };
    let first = checkers.first().map_or(start, |checker| checker.segment());
    if first != start {
        return Err(Refusal::Start { found: first, start });
    }
    let mut gap = None;
    for (at, checker) in sealed.iter().enumerate() {
        let end = checker.torn().map_or(checker.end(), |torn| torn.offset);
        let next = checkers[at + 1].segment();
        if end > next {
            return Err(Refusal::Gap { end, next });
        }
        if end < next {
            gap = gap.or(Some(Refusal::Gap { end, next }));
        }
    }
    // Nothing can tell whose it is once the source is dead.
    if let Some(gap) = gap.filter(|_| boundary.digest.is_none()) {
        return Err(gap);
    }
    match (last.torn(), boundary.digest) {
        (Some(torn), Some(_)) => Err(Refusal::Torn { base: torn.segment, position: torn.position }),
        (Some(torn), None) => Ok(Shape { end: torn.offset, torn: true, gap }),
        (None, Some(_)) if last.end() != boundary.end => {
            Err(Refusal::End { found: last.end(), end: boundary.end })
        }
        (None, Some(_) | None) => Ok(Shape { end: last.end(), torn: false, gap }),
    }
}

/// Describes bytes by the check that they went through.
pub(super) fn staged_by(checker: &Checker) -> Staged {
    Staged {
        base: checker.segment(),
        bytes: ByteCount(checker.fed()),
        checksum: checker.checksum(),
    }
}
