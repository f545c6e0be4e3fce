//! The small files beside a log's segments.
//!
//! | file | content | written |
//! |---|---|---|
//! | `segments` | start, hwm, epoch, and what every sealed segment is | at each roll, at retention |
//! | `sidecar` | what an installed copy was captured with | at installation |
//! | `position` | where consumers stand; of an ingress log, what is not needed | when flushed |
//! | `generation` | the life of the log (H16) | at each opening |

use std::num::TryFromIntError;
use std::ops::Range;
use std::path::{Path, PathBuf};

use narad_core::dispatch::Checkpoint;
use narad_core::ids::{Epoch, LogGeneration, Offset};
use narad_core::partition::{Checksum, Position, Sidecar};

use super::envelope::{self, Body, COUNTER_MAX, FormatError, Reader};
use super::error::LogError;
use crate::disk::{self, Disk, DiskError};

/// Longest side file that is read, in bytes: the manifest of a partition of 100,000 segments.
pub(crate) const SIDE_BYTES_MAX: u64 = 4 << 20;

const VERSION: u16 = 1;
/// The version of a position that has ranges; one that has none is written as before.
const POSITION_VERSION: u16 = 2;
const SEGMENTS: [u8; 4] = *b"NSEG";
const SIDECAR: [u8; 4] = *b"NSID";
const POSITION: [u8; 4] = *b"NPOS";
const GENERATION: [u8; 4] = *b"NGEN";

/// Returns the path of a segment: its base offset in twenty digits, so that names sort as offsets.
pub(crate) fn segment_path(dir: &Path, base: Offset) -> PathBuf {
    dir.join(format!("{:020}.seg", base.0))
}

/// Reads a base offset from a segment's file name.
pub(crate) fn segment_base(name: &str) -> Option<Offset> {
    let digits = name.strip_suffix(".seg")?;
    let plain = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    let base = plain.then(|| digits.parse().ok()).flatten();
    base.filter(|&base| base <= COUNTER_MAX).map(Offset)
}

/// One segment that can no longer grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) base: Offset,
    pub(crate) end: Offset,
    pub(crate) bytes: u64,
    pub(crate) checksum: Checksum,
    pub(crate) newest_ms: Option<i64>,
}

/// What a restart need not read every byte for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) start: Offset,
    pub(crate) hwm: Offset,
    pub(crate) epoch: Epoch,
    pub(crate) sealed: Vec<Sealed>,
}

impl Segments {
    pub(crate) fn path(dir: &Path) -> PathBuf {
        dir.join("segments")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Body::default();
        body.u64(self.start.0).u64(self.hwm.0).u64(self.epoch.0).list(&self.sealed, |body, one| {
            body.u64(one.base.0).u64(one.end.0).u64(one.bytes).u32(one.checksum.0);
            body.option(one.newest_ms, |body, ms| {
                body.i64(ms);
            });
        });
        envelope::seal(SEGMENTS, VERSION, &body.0)
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = envelope::open(SEGMENTS, VERSION, bytes)?;
        let found = Self {
            start: Offset(body.counter()?),
            hwm: Offset(body.counter()?),
            epoch: Epoch(body.counter()?),
            sealed: body.list(29, |body| {
                Ok(Sealed {
                    base: Offset(body.counter()?),
                    end: Offset(body.counter()?),
                    bytes: body.u64()?,
                    checksum: Checksum(body.u32()?),
                    newest_ms: body.option(Reader::i64)?,
                })
            })?,
        };
        body.finish()?;
        Ok(found)
    }

    /// Reads the file. A damaged one counts as none, since the segments can say the same again; one
    /// of a newer version is an error, since its segments may be of a newer kind too.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let path = Self::path(dir);
        let Some(bytes) = disk::read_whole(disk, &path, SIDE_BYTES_MAX)? else { return Ok(None) };
        match Self::decode(&bytes) {
            Ok(found) => Ok(Some(found)),
            Err(source @ FormatError::Version { .. }) => Err(LogError::Format { path, source }),
            Err(_) => Ok(None),
        }
    }
}

pub(crate) fn put_position(body: &mut Body, position: &Position) {
    body.option(position.committed, |body, offset| {
        body.u64(offset.0);
    });
    body.list(&position.acked_ahead, |body, offset| {
        body.u64(offset.0);
    });
}

pub(crate) fn take_position(body: &mut Reader<'_>) -> Result<Position, FormatError> {
    let committed = body.option(|body| Ok(Offset(body.counter()?)))?;
    let acked_ahead = body.list(8, |body| Ok(Offset(body.counter()?)))?;
    let ascending = acked_ahead.is_sorted_by(|a, b| a < b);
    if acked_ahead.len() > Position::ACKED_AHEAD_MAX || !ascending {
        return Err(FormatError::Value("the acked-ahead set"));
    }
    Ok(Position { committed, acked_ahead })
}

/// What a `position` file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stand {
    pub(crate) position: Position,
    /// Ranges above the committed offset that are not needed either: of an ingress log only.
    pub(crate) spent: Vec<Range<Offset>>,
}

impl Stand {
    /// Most ranges.
    pub(crate) const SPENT_MAX: usize = Checkpoint::RANGES_MAX;

    /// The first offset that nothing here names.
    pub(crate) fn end(&self) -> Offset {
        let ahead = self.position.acked_ahead.last().map(|offset| offset.next());
        let spent = self.spent.last().map(|range| range.end);
        self.position.committed.max(ahead).max(spent).unwrap_or_default()
    }

    /// The distance of each range from the one before it, and its length.
    fn steps(&self) -> Result<Vec<(u32, u32)>, TryFromIntError> {
        let mut last = self.position.committed.unwrap_or_default().0;
        let steps = self.spent.iter().map(|range| {
            let gap = u32::try_from(range.start.0.saturating_sub(last))?;
            last = range.end.0;
            Ok((gap, u32::try_from(range.end.0.saturating_sub(range.start.0))?))
        });
        steps.collect()
    }

    /// Checks that the ranges are what a file can hold: few enough, ascending, apart, not empty.
    pub(crate) fn has_sound_ranges(&self) -> bool {
        let steps = self.steps();
        self.spent.len() <= Self::SPENT_MAX
            && steps.is_ok_and(|steps| steps.iter().all(|&(gap, length)| gap > 0 && length > 0))
    }

    /// Writes what the file holds; the ranges are [sound](Self::has_sound_ranges).
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Body::default();
        put_position(&mut body, &self.position);
        if self.spent.is_empty() {
            return envelope::seal(POSITION, VERSION, &body.0);
        }
        let steps = self.steps().expect("the ranges were checked");
        body.list(&steps, |body, &(gap, length)| {
            body.u32(gap).u32(length);
        });
        envelope::seal(POSITION, POSITION_VERSION, &body.0)
    }

    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let path = position_path(dir);
        let Some(bytes) = disk::read_whole(disk, &path, SIDE_BYTES_MAX)? else { return Ok(None) };
        Self::decode(&bytes).map(Some).map_err(|source| LogError::Format { path, source })
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (version, mut body) = envelope::open_version(POSITION, POSITION_VERSION, bytes)?;
        let position = take_position(&mut body)?;
        let mut last = position.committed.unwrap_or_default().0;
        let spent = if version < POSITION_VERSION {
            Vec::new()
        } else {
            body.list(8, |body| {
                let (gap, length) = (body.u32()?, body.u32()?);
                let start = last + u64::from(gap);
                last = start + u64::from(length);
                if gap == 0 || length == 0 || last > COUNTER_MAX {
                    return Err(FormatError::Value("a range of positions"));
                }
                Ok(Offset(start)..Offset(last))
            })?
        };
        body.finish()?;
        if spent.len() > Self::SPENT_MAX {
            return Err(FormatError::Value("the number of ranges"));
        }
        Ok(Self { position, spent })
    }
}

/// Returns the path of the consumers' position.
pub(crate) fn position_path(dir: &Path) -> PathBuf {
    dir.join("position")
}

/// Returns the path of what an installed copy was captured with.
pub(crate) fn sidecar_path(dir: &Path) -> PathBuf {
    dir.join("sidecar")
}

pub(crate) fn encode_sidecar(sidecar: &Sidecar) -> Vec<u8> {
    let mut body = Body::default();
    body.u64(sidecar.start.0).u64(sidecar.hwm.0);
    put_position(&mut body, &sidecar.position);
    envelope::seal(SIDECAR, VERSION, &body.0)
}

pub(crate) fn load_sidecar(disk: &dyn Disk, dir: &Path) -> Result<Option<Sidecar>, LogError> {
    load(disk, sidecar_path(dir), SIDECAR, |body| {
        Ok(Sidecar {
            start: Offset(body.counter()?),
            hwm: Offset(body.counter()?),
            position: take_position(body)?,
        })
    })
}

/// Counts the opening of a log, durably, and returns its new life.
///
/// Where the count is damaged it goes on far above every count that was reached by counting, so that
/// no life is taken for an earlier one (H16).
pub(crate) fn next_generation(disk: &dyn Disk, dir: &Path) -> Result<LogGeneration, LogError> {
    /// More lives than any log has, and room for as many damages.
    const FAR: u64 = 1 << 40;
    let path = dir.join("generation");
    let next = match load(disk, path.clone(), GENERATION, |body| Ok(LogGeneration(body.counter()?)))
    {
        Ok(last) => last.unwrap_or_default().next(),
        Err(LogError::Format { path, source })
            if !matches!(source, FormatError::Version { .. }) =>
        {
            let bytes = disk::read_whole(disk, &path, SIDE_BYTES_MAX)?.unwrap_or_default();
            tracing::error!(path = %path.display(), %source, "the count of openings is damaged");
            LogGeneration(FAR | u64::from(crc32c::crc32c(&bytes)))
        }
        Err(error) => return Err(error),
    };
    let mut body = Body::default();
    body.u64(next.0);
    disk::write_atomically(disk, &path, &envelope::seal(GENERATION, VERSION, &body.0))?;
    Ok(next)
}

fn load<T>(
    disk: &dyn Disk,
    path: PathBuf,
    magic: [u8; 4],
    take: impl FnOnce(&mut Reader<'_>) -> Result<T, FormatError>,
) -> Result<Option<T>, LogError> {
    let Some(bytes) = disk::read_whole(disk, &path, SIDE_BYTES_MAX)? else { return Ok(None) };
    let decode = || {
        let mut body = envelope::open(magic, VERSION, &bytes)?;
        let found = take(&mut body)?;
        body.finish()?;
        Ok(found)
    };
    decode().map(Some).map_err(|source| LogError::Format { path, source })
}

/// Removes a file that may be missing; for left-overs of an interrupted step.
pub(crate) fn remove_if_present(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    match disk.remove_file(path) {
        Ok(()) | Err(DiskError::NotFound { .. }) => Ok(()),
        Err(failed) => Err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(committed: u64, spent: &[(u64, u64)]) -> Stand {
        let position = Position { committed: Some(Offset(committed)), ..Position::default() };
        let spent = spent.iter().map(|&(first, end)| Offset(first)..Offset(end)).collect();
        Stand { position, spent }
    }

    /// A position without ranges is written as it always was; one with ranges comes back whole, and
    /// is refused by name where it must not be taken for the older kind.
    #[test]
    fn ranges_come_back_and_older_files_are_read() {
        let plain = stand(7, &[]);
        let mut body = Body::default();
        put_position(&mut body, &plain.position);
        assert_eq!(plain.encode(), envelope::seal(POSITION, 1, &body.0));
        assert_eq!(Stand::decode(&plain.encode()), Ok(plain));
        let ranged = stand(7, &[(8, 20), (21, 22), (1 << 31, (1 << 31) + 5)]);
        assert!(ranged.has_sound_ranges());
        assert_eq!(Stand::decode(&ranged.encode()), Ok(ranged.clone()));
        assert_eq!(ranged.end(), Offset((1 << 31) + 5));
        let older = envelope::open(POSITION, 1, &ranged.encode()).map(|_| ());
        assert_eq!(older, Err(FormatError::Version { found: 2, known: 1 }));
    }

    #[test]
    fn ranges_that_no_log_has_are_refused() {
        let wrong: [&[(u64, u64)]; 5] = [
            &[(7, 9)],
            &[(8, 8)],
            &[(8, 10), (10, 12)],
            &[(20, 30), (8, 10)],
            &[(8, 9), (1 << 40, 1 << 41)],
        ];
        for spent in wrong {
            assert!(!stand(7, spent).has_sound_ranges(), "{spent:?}");
        }
        let many: Vec<(u64, u64)> = (0..=4_096).map(|at| (at * 2 + 8, at * 2 + 9)).collect();
        assert!(!stand(7, &many).has_sound_ranges());
        let mut body = Body::default();
        put_position(&mut body, &stand(7, &[]).position);
        body.list(&[(1_u32, 0_u32)], |body, &(gap, length)| {
            body.u32(gap).u32(length);
        });
        let decoded = Stand::decode(&envelope::seal(POSITION, 2, &body.0));
        assert_eq!(decoded, Err(FormatError::Value("a range of positions")));
    }
}
