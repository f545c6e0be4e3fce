//! What a log finds on its disk when it is opened.

use std::path::Path;
use std::sync::Arc;

use narad_core::ids::{Epoch, Offset};
use narad_core::planted::{Bug, is_planted};

use super::check::{Checker, Damage};
use super::envelope::FormatError;
use super::frame::{FILE_HEADER, check_file_header};
use super::index::{SparseIndex, Spots};
use super::side::{self, Sealed, Segments, Stand};
use super::{LogError, Segment, View, check_segment, create_segment};
use crate::disk::{Disk, DiskError, DiskFile, Open};

/// Piece in which the last append is written again, in bytes.
const REWRITE_BYTES: usize = 1 << 20;

/// What opening a log came upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of a torn last append that were cut off. They were never acknowledged.
    pub cut_bytes: u64,
    /// Places that were durable once and are not what was written; reported, never cut
    /// (`case_048`).
    pub damage: Vec<Damage>,
    /// Where the log began, if segments at its beginning are gone that retention has not given up.
    pub lost_start: Option<Offset>,
    /// Whether sealed segments had to be read, since the `segments` file did not describe them.
    pub rescanned: bool,
}

pub(super) struct Found {
    pub(super) view: View,
    pub(super) last_file: Arc<dyn DiskFile>,
    pub(super) stand: Stand,
    pub(super) recovery: Recovery,
}

/// Reads a log's directory and makes its end safe to append to.
pub(super) fn recover(disk: &dyn Disk, dir: &Path) -> Result<Found, LogError> {
    let listed = Segments::load(disk, dir)?;
    let bases = present_bases(disk, dir, listed.as_ref())?;
    let mut recovery = Recovery::default();
    let mut segments: Vec<Segment> = Vec::with_capacity(bases.len());
    let mut hwm = listed.as_ref().map_or(Offset(0), |listed| listed.hwm);
    let mut epoch = listed.as_ref().map_or(Epoch(0), |listed| listed.epoch);
    let (&last, sealed) =
        bases.split_last().ok_or_else(|| LogError::NoSegments { dir: dir.to_path_buf() })?;
    let start = listed.as_ref().map(|listed| listed.start);
    recovery.lost_start = start.filter(|&start| start < bases[0]);
    for (at, &base) in sealed.iter().enumerate() {
        let next = bases[at + 1];
        let known = listed.as_ref().and_then(|listed| find(&listed.sealed, base));
        let mut segment = match known {
            Some(known) if length(disk, dir, base)? == known.bytes => from_listed(known),
            Some(_) | None => {
                recovery.rescanned = true;
                let checker = check_segment(disk, dir, base, u64::MAX)?;
                hwm = hwm.max(checker.hwm());
                epoch = epoch.max(checker.epoch());
                rescan(checker, next, &mut recovery.damage)
            }
        };
        if segment.end > next {
            let dir = dir.to_path_buf();
            return Err(LogError::Overlap { dir, base: next, end: segment.end });
        }
        if segment.end < next {
            // A missing file, or one whose own end is gone. A listing has no holes: what is missing
            // counts as damage of the segment before it, so that the rest can be read and moved.
            let position = segment.bytes;
            recovery.damage.push(Damage { segment: base, offset: segment.end, position });
            segment.end = next;
        }
        segments.push(segment);
    }
    let Last { checker, file: mut last_file, hwm: seen_last, epoch: epoch_last, seal } =
        recover_last(disk, dir, last, &mut recovery)?;
    hwm = hwm.max(seen_last);
    epoch = epoch.max(epoch_last);
    let (stand, seen) = consumers(disk, dir)?;
    hwm = hwm.max(seen).max(bases[0]);

    // Offsets that were given once are never given again, though their records are gone.
    let listed_end = listed.iter().flat_map(|listed| &listed.sealed).map(|one| one.end).max();
    let end = seal.unwrap_or(checker.end());
    let given = hwm.max(listed_end.unwrap_or_default()).max(end);
    if given > end {
        let position = checker.fed();
        recovery.damage.push(Damage { segment: last, offset: end, position });
    }
    segments.push(Segment { end: given, ..describe(checker) });
    if given > end || seal.is_some() {
        last_file = create_segment(disk, dir, given)?;
        disk.sync_dir(dir)?;
        segments.push(describe(check_segment(disk, dir, given, u64::MAX)?));
    }
    let view = View { segments, hwm, epoch, opened: None, spots: Spots::default() };
    Ok(Found { view, last_file, stand, recovery })
}

/// The segments of a directory, ascending.
pub(super) struct Bases {
    /// Those that retention had given up before a crash.
    pub(super) given_up: Vec<Offset>,
    /// The others.
    pub(super) kept: Vec<Offset>,
}

impl Bases {
    /// Lists the segments. Changes nothing.
    pub(super) fn find(
        disk: &dyn Disk,
        dir: &Path,
        listed: Option<&Segments>,
    ) -> Result<Self, LogError> {
        let mut bases: Vec<Offset> =
            disk.list(dir)?.iter().filter_map(|entry| side::segment_base(&entry.name)).collect();
        bases.sort_unstable();
        let start = listed.map_or(Offset(0), |listed| listed.start);
        let kept = bases.split_off(bases.partition_point(|&base| base < start));
        if kept.is_empty() {
            return Err(LogError::NoSegments { dir: dir.to_path_buf() });
        }
        Ok(Self { given_up: bases, kept })
    }
}

/// Lists the segments and removes those that retention had given up before a crash.
fn present_bases(
    disk: &dyn Disk,
    dir: &Path,
    listed: Option<&Segments>,
) -> Result<Vec<Offset>, LogError> {
    let Bases { given_up, kept } = Bases::find(disk, dir, listed)?;
    for &base in &given_up {
        disk.remove_file(&side::segment_path(dir, base))?;
    }
    if !given_up.is_empty() {
        disk.sync_dir(dir)?;
    }
    Ok(kept)
}

/// How a segment that nothing follows ends.
pub(crate) enum Ending {
    /// With a whole frame.
    Whole,
    /// With a torn append: the segment is to be cut at this position, and is then what the check
    /// says. Below the file header nothing is left but an empty segment.
    Torn { at: u64, kept: Box<Checker> },
    /// With a torn append whose header proves that the records before it were durable, while they
    /// are damaged. Without the torn append they would look torn themselves, and their offsets be
    /// given again: all of it stays, and the log goes on in a segment that begins at this offset.
    Damaged { next: Offset },
}

/// Finds out how a segment that nothing follows ends. Changes nothing.
pub(crate) fn ending(disk: &dyn Disk, dir: &Path, whole: &Checker) -> Result<Ending, DiskError> {
    let (base, Some(torn)) = (whole.segment(), whole.torn()) else { return Ok(Ending::Whole) };
    let mut at = torn.position;
    while at >= FILE_HEADER as u64 {
        let kept = check_segment(disk, dir, base, at)?;
        match kept.torn() {
            None => return Ok(Ending::Torn { at, kept: Box::new(kept) }),
            Some(_) if torn.offset > base => return Ok(Ending::Damaged { next: torn.offset }),
            // No offset was given here.
            Some(earlier) => at = earlier.position,
        }
    }
    Ok(Ending::Torn { at, kept: Box::new(Checker::of_empty(base)) })
}

/// The last segment, ready to be appended to.
struct Last {
    checker: Checker,
    file: Arc<dyn DiskFile>,
    /// What its frames say, that of a torn append included: a header by itself is evidence.
    hwm: Offset,
    epoch: Epoch,
    /// Where the log must go on in another segment.
    seal: Option<Offset>,
}

/// Reads the last segment, cuts a torn append off, and writes the last whole one again.
fn recover_last(
    disk: &dyn Disk,
    dir: &Path,
    base: Offset,
    recovery: &mut Recovery,
) -> Result<Last, LogError> {
    let path = side::segment_path(dir, base);
    let file = disk.open(&path, Open::Existing)?;
    refuse_newer(&*file, &path, base)?;
    let whole = check_segment(disk, dir, base, u64::MAX)?;
    let (hwm, epoch) = (whole.hwm(), whole.epoch());
    let (checker, seal) = match ending(disk, dir, &whole)? {
        Ending::Whole => (whole, None),
        Ending::Torn { at, kept } => {
            recovery.cut_bytes = whole.fed() - at;
            if at < FILE_HEADER as u64 {
                create_segment(disk, dir, base)?;
            } else {
                file.set_len(at)?;
            }
            (*kept, None)
        }
        Ending::Damaged { next } => {
            recovery.damage.extend(whole.torn());
            (whole, Some(next))
        }
    };
    if !is_planted(Bug::TailNotRewritten) {
        rewrite(&*file, checker.last_append(), checker.fed())?;
    }
    disk.sync_dir(dir)?;
    recovery.damage.extend_from_slice(checker.damage());
    Ok(Last { checker, file, hwm, epoch, seal })
}

/// Refuses a segment of a newer binary, which must not be taken for a torn one.
fn refuse_newer(file: &dyn DiskFile, path: &Path, base: Offset) -> Result<(), LogError> {
    let mut header = [0; FILE_HEADER];
    file.read_at(0, &mut header)?;
    match check_file_header(base, &header) {
        Err(source @ FormatError::Version { .. }) => {
            Err(LogError::Format { path: path.to_path_buf(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes the last append dirty again and syncs it: after a failed sync its pages may look clean
/// without ever having reached the disk (H17).
fn rewrite(file: &dyn DiskFile, from: u64, to: u64) -> Result<(), LogError> {
    let all = usize::try_from(to.saturating_sub(from)).unwrap_or(REWRITE_BYTES);
    let mut buf = vec![0; all.min(REWRITE_BYTES)];
    let mut at = from;
    while at < to {
        let length = usize::try_from(to - at).map_or(buf.len(), |left| left.min(buf.len()));
        let read = file.read_at(at, &mut buf[..length])?;
        if read == 0 {
            break;
        }
        file.write_at(at, &buf[..read])?;
        at += read as u64;
    }
    file.sync()?;
    Ok(())
}

/// Describes a sealed segment that had to be read.
fn rescan(checker: Checker, next: Offset, damage: &mut Vec<Damage>) -> Segment {
    damage.extend_from_slice(checker.damage());
    let torn = checker.torn();
    let mut segment = describe(checker);
    if let Some(torn) = torn {
        // Sealed once, so its end was durable; the next segment says where that was.
        damage.push(torn);
        segment.end = next;
    }
    segment
}

fn describe(checker: Checker) -> Segment {
    Segment {
        base: checker.segment(),
        end: checker.end(),
        bytes: checker.fed(),
        checksum: checker.checksum(),
        newest_ms: checker.newest_ms(),
        index: checker.into_index(),
    }
}

fn from_listed(known: &Sealed) -> Segment {
    Segment {
        base: known.base,
        end: known.end,
        bytes: known.bytes,
        checksum: known.checksum,
        newest_ms: known.newest_ms,
        index: SparseIndex::default(),
    }
}

fn find(sealed: &[Sealed], base: Offset) -> Option<&Sealed> {
    sealed.binary_search_by_key(&base, |one| one.base).ok().map(|at| &sealed[at])
}

fn length(disk: &dyn Disk, dir: &Path, base: Offset) -> Result<u64, LogError> {
    let found = disk.metadata(&side::segment_path(dir, base))?;
    Ok(found.map_or(0, |found| found.bytes))
}

/// Returns the consumers' position, and the high watermark that it and the sidecar are evidence
/// for: whatever was acknowledged had been visible.
pub(super) fn consumers(disk: &dyn Disk, dir: &Path) -> Result<(Stand, Offset), LogError> {
    let sidecar = side::load_sidecar(disk, dir)?;
    let installed_hwm = sidecar.as_ref().map_or(Offset(0), |sidecar| sidecar.hwm);
    let stand = match Stand::load(disk, dir)? {
        Some(stand) => stand,
        None => Stand {
            position: sidecar.map(|sidecar| sidecar.position).unwrap_or_default(),
            spent: Vec::new(),
        },
    };
    let seen = stand.end();
    Ok((stand, seen.max(installed_hwm)))
}
