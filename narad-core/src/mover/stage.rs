//! What is staged: in memory, on disk, and how far the one vouches for the other.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::desk::Job;
use super::operation::Fault;
use crate::ids::{ByteCount, MoveId, Offset, PartitionId};
use crate::partition::{Extent, Listing, Manifest, Position, Staged};
use crate::planted::{Bug, is_planted};

/// The staging area, as far as the operations that were answered tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the disk")]
pub(super) struct Stage {
    /// The manifest as it would be written now.
    working: Option<Manifest>,
    /// The manifest that a crash would leave.
    durable: Option<Manifest>,
    /// Whether the directory may exist.
    pub(super) on_disk: bool,
    /// Whether the source must say which staged bytes are its own before any is added.
    pub(super) check_due: bool,
    /// Whether the source has shown another life than that of the staged bytes (H16).
    pub(super) outlived: bool,
    /// Whether the disk may hold more than `working` names.
    pub(super) trim_due: bool,
    /// Whether bytes past `durable` may be lost: a checkpoint has failed (H17).
    pub(super) doubt: bool,
    /// The extent of which the last range that was copied did not fit what was staged.
    doubted: Option<Offset>,
}

/// What a listing made superfluous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) extents: u32,
    pub(super) bytes: u64,
}

impl Stage {
    /// Takes what a restart, or a directory that was renamed back, holds.
    ///
    /// `vouched`: whether this life has compared the bytes with the source.
    pub(super) fn load(&mut self, manifest: Option<Manifest>, vouched: bool) {
        let manifest = manifest.map(|found| Manifest { attempt: None, ..found });
        *self = Self {
            on_disk: manifest.is_some(),
            check_due: manifest.is_some() && !vouched,
            trim_due: manifest.is_some(),
            outlived: false,
            doubt: false,
            doubted: None,
            working: manifest.clone(),
            durable: manifest,
        };
    }

    /// Forgets everything: the directory was renamed or set aside.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that nobody knows whether the directory is there, or what is in it: a rename of it
    /// has failed. Whatever it holds is dropped before it is used.
    pub(super) fn lose(&mut self) {
        *self = Self { on_disk: true, trim_due: true, ..Self::default() };
    }

    /// Notes that a manifest is durable.
    pub(super) fn checkpointed(&mut self, manifest: &Manifest) {
        self.durable = Some(manifest.clone());
    }

    /// Notes that everything but `keep` is gone from the disk.
    pub(super) fn trimmed(&mut self, keep: &[Staged]) {
        if self.extents() == keep {
            self.trim_due = false;
        }
    }

    /// Prepares for a move: takes back what a failed checkpoint put in doubt, and has the bytes
    /// of another move compared before they are used (H30).
    pub(super) fn begin(&mut self, move_id: MoveId) {
        if self.doubt {
            self.doubt = false;
            self.trim_due = true;
            let known = core::mem::replace(&mut self.working, self.durable.clone());
            // How far consumers could see is known whatever the disk has kept (H13).
            if let (Some(working), Some(known)) = (self.working.as_mut(), known)
                && (working.source, working.epoch) == (known.source, known.epoch)
                && !is_planted(Bug::LowerListingTaken)
            {
                working.hwm = working.hwm.max(known.hwm);
            }
        }
        if self.working.as_ref().is_some_and(|working| working.move_id != move_id) {
            self.check_due = true;
        }
    }

    pub(super) const fn working(&self) -> Option<&Manifest> {
        self.working.as_ref()
    }

    pub(super) const fn durable(&self) -> Option<&Manifest> {
        self.durable.as_ref()
    }

    pub(super) fn extents(&self) -> &[Staged] {
        self.working.as_ref().map_or(&[], |working| &working.extents)
    }

    /// Returns what the source is to compare.
    pub(super) fn to_check(&self) -> Vec<Staged> {
        if self.check_due { self.extents().to_vec() } else { Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents().is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.extents().iter().map(|staged| staged.bytes.0).sum()
    }

    /// Returns the bytes of the extents that are not staged.
    pub(super) fn tail(&self, extents: &[Extent]) -> u64 {
        let missing =
            |extent: &Extent| extent.bytes.0.saturating_sub(self.staged_bytes(extent.base));
        extents.iter().map(missing).sum()
    }

    pub(super) fn staged(&self, base: Offset) -> Option<&Staged> {
        let extents = self.extents();
        let at = extents.binary_search_by_key(&base, |staged| staged.base).ok()?;
        extents.get(at)
    }

    pub(super) fn staged_bytes(&self, base: Offset) -> u64 {
        self.staged(base).map_or(0, |staged| staged.bytes.0)
    }

    /// Whether an extent is staged as far as it was listed; an empty one must exist, too.
    pub(super) fn has(&self, extent: &Extent) -> bool {
        self.staged(extent.base).is_some_and(|staged| staged.bytes >= extent.bytes)
    }

    /// Adds what a copy has brought.
    pub(super) fn put(&mut self, staged: Staged) {
        let working = self.working.as_mut().expect("a copy begins after a listing was adopted");
        match working.extents.binary_search_by_key(&staged.base, |known| known.base) {
            Ok(at) => working.extents[at] = staged,
            Err(at) => working.extents.insert(at, staged),
        }
    }

    /// Forgets one extent, or all of them.
    pub(super) fn forget(&mut self, base: Option<Offset>) {
        self.trim_due = true;
        if let Some(working) = self.working.as_mut() {
            working.extents.retain(|staged| base.is_some_and(|base| staged.base != base));
        }
    }

    /// What was staged of an extent does not go together with what comes after it. The first time
    /// the way is to blame; the second time what is staged is, perhaps since the disk lost some of
    /// it: all of it is copied again.
    pub(super) fn misfits(&mut self, base: Offset) {
        if self.doubted.take() == Some(base) {
            self.forget(Some(base));
        } else {
            self.doubted = Some(base);
        }
    }

    /// The disk says that one extent is not there any more, or not what it was: it is copied again,
    /// whatever a manifest says that could not be replaced since.
    pub(super) fn bereave(&mut self, fault: Fault) {
        let Fault::Mismatch { base } = fault else { return };
        self.trim_due = true;
        for manifest in [&mut self.working, &mut self.durable].into_iter().flatten() {
            manifest.extents.retain(|staged| staged.base != base);
        }
    }

    /// Remembers where consumers stood.
    pub(super) fn set_position(&mut self, position: &Position) {
        if let Some(working) = self.working.as_mut() {
            working.position = position.clone();
        }
    }

    /// Whether the staged bytes are of the life that a listing shows.
    pub(super) fn is_of(&self, listing: &Listing) -> bool {
        self.working.as_ref().is_some_and(|working| {
            let same_life = working.source_incarnation == listing.incarnation
                && working.generation == listing.generation;
            (same_life || is_planted(Bug::OtherLifeNotCompared)) && working.epoch == listing.epoch
        })
    }

    /// Takes from a listing of another life what holds without a comparison: how far consumers
    /// could see (H13), and that the bytes must be compared.
    pub(super) fn outlive(&mut self, listing: &Listing) {
        self.check_due = true;
        self.outlived = true;
        self.hear(listing);
    }

    /// Takes from a listing that nothing else is done with how far consumers could see (H13).
    pub(super) fn hear(&mut self, listing: &Listing) {
        let same_epoch = |working: &&mut Manifest| working.epoch == listing.epoch;
        if let Some(working) = self.working.as_mut().filter(same_epoch) {
            working.hwm = working.hwm.max(listing.hwm);
        }
    }

    /// Whether the staged bytes come from another source or reign.
    pub(super) fn is_foreign(&self, job: Job) -> bool {
        self.working.as_ref().is_some_and(|working| {
            working.source != job.source || working.epoch != job.expect.epoch
        })
    }

    /// Whether the source vouches for every staged extent that it still has.
    pub(super) fn is_vouched_by(&self, listing: &Listing) -> bool {
        let agreed: BTreeSet<Offset> = listing.agreed.iter().copied().collect();
        let mut kept = self.extents().iter().filter(|staged| staged.base >= listing.start);
        kept.all(|staged| agreed.contains(&staged.base))
    }

    /// Takes a listing of the job's source: drops what it no longer has or, where it was asked,
    /// does not vouch for.
    pub(super) fn adopt(
        &mut self,
        partition: PartitionId,
        job: Job,
        listing: &Listing,
        checked: bool,
    ) -> Dropped {
        let foreign = self.is_foreign(job);
        let agreed: Option<BTreeSet<Offset>> =
            checked.then(|| listing.agreed.iter().copied().collect());
        let kept = |staged: &Staged| {
            agreed.as_ref().is_none_or(|agreed| agreed.contains(&staged.base))
                && extent(listing, staged.base).is_some_and(|extent| {
                    staged.bytes < extent.bytes
                        || (staged.bytes == extent.bytes && staged.checksum == extent.checksum)
                        || is_planted(Bug::VerifiedByReachAlone)
                })
        };
        let mut dropped = Dropped::default();
        let mut extents = self
            .working
            .as_mut()
            .map_or_else(Vec::new, |known| core::mem::take(&mut known.extents));
        extents.retain(|staged| {
            let keep = kept(staged);
            if !keep {
                dropped.extents += 1;
                dropped.bytes += staged.bytes.0;
            }
            keep
        });
        let known = self.working.take().filter(|_| !foreign);
        self.trim_due |= dropped.extents > 0;
        self.check_due &= !checked;
        self.outlived = false;
        self.working = Some(Manifest {
            partition,
            move_id: job.expect.move_id,
            source: job.source,
            source_incarnation: listing.incarnation,
            generation: listing.generation,
            epoch: listing.epoch,
            start: listing.start,
            hwm: known
                .as_ref()
                .filter(|_| !is_planted(Bug::LowerListingTaken))
                .map_or(listing.hwm, |known| known.hwm.max(listing.hwm)),
            position: known.map_or_else(Position::default, |known| known.position),
            extents,
            attempt: None,
        });
        dropped
    }

    /// Whether a crash now would forget which session reached which life of the source.
    pub(super) fn header_is_durable(&self) -> bool {
        let header = |manifest: &Manifest| {
            let Manifest { move_id, source, source_incarnation, generation, epoch, start, .. } =
                *manifest;
            (move_id, source, source_incarnation, generation, epoch, start)
        };
        self.working.as_ref().map(header) == self.durable.as_ref().map(header)
    }

    /// Whether a crash now would forget anything.
    pub(super) fn is_dirty(&self) -> bool {
        self.working != self.durable
    }
}

/// Most extents of one listing.
pub(super) const EXTENTS_MAX: usize = 1 << 17;

/// Whether a listing does not contradict itself; it comes from another node.
pub(super) fn is_well_formed(listing: &Listing) -> bool {
    let Listing { start, end, hwm, ref extents, .. } = *listing;
    let contiguous = extents.windows(2).all(|pair| pair[0].end == pair[1].base);
    let ordered = extents.iter().all(|extent| extent.base <= extent.end)
        && extents.windows(2).all(|pair| pair[0].base < pair[1].base);
    let total = extents
        .iter()
        .try_fold(ByteCount(0), |sum, extent| sum.0.checked_add(extent.bytes.0).map(ByteCount));
    let covers = match (extents.first(), extents.last()) {
        (Some(first), Some(last)) => first.base == start && last.end == end,
        (None, _) | (_, None) => start == end,
    };
    extents.len() <= EXTENTS_MAX
        && start <= hwm
        && hwm <= end
        && contiguous
        && ordered
        && covers
        && total.is_some()
}

fn extent(listing: &Listing, base: Offset) -> Option<&Extent> {
    let at = listing.extents.binary_search_by_key(&base, |extent| extent.base).ok()?;
    listing.extents.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, Incarnation, LogGeneration, NodeId, TopicId};

    fn manifest(hwm: u64) -> Manifest {
        Manifest {
            partition: PartitionId { topic: TopicId(5), index: 0 },
            move_id: MoveId(2),
            source: NodeId(1),
            source_incarnation: Incarnation(1),
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(0),
            hwm: Offset(hwm),
            position: Position::default(),
            extents: Vec::new(),
            attempt: None,
        }
    }

    /// Covers H13: a checkpoint that failed says nothing against what the source has shown.
    #[test]
    fn a_failed_checkpoint_does_not_lower_what_consumers_could_see() {
        let mut stage =
            Stage { working: Some(manifest(174)), durable: Some(manifest(0)), ..Stage::default() };
        stage.doubt = true;
        stage.begin(MoveId(2));
        assert_eq!(stage.working().map(|working| working.hwm), Some(Offset(174)));
        assert!(stage.is_dirty(), "and it is written again");

        let other_reign = Manifest { epoch: Epoch(2), ..manifest(0) };
        let mut stage =
            Stage { working: Some(manifest(174)), durable: Some(other_reign), ..Stage::default() };
        stage.doubt = true;
        stage.begin(MoveId(2));
        assert_eq!(stage.working().map(|working| working.hwm), Some(Offset(0)));
    }
}
