//! Puts shards together.

use std::iter::Peekable;
use std::path::{Path, PathBuf};

use super::folder::{Folder, FolderError, Manifest, read_manifest, read_rows};
use super::grid::{Seeds, Shard};
use super::row::Row;

/// What merging found.
#[derive(Debug)]
pub struct Merged {
    /// What the merged sweep is a sweep of.
    pub manifest: Manifest,
    /// The folders it was made of.
    pub parts: Vec<PathBuf>,
}

/// Why sweeps cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is nothing to merge.
    #[error("no folder is named; name what sweep --out wrote, at least one")]
    Nothing,
    /// Two sweeps were not of the same thing.
    #[error("{} and {} differ in {what}: {one} and {other}; run both in the same way", a.display(), b.display())]
    Differ {
        /// One folder.
        a: PathBuf,
        /// The other.
        b: PathBuf,
        /// In what.
        what: &'static str,
        /// What one says.
        one: String,
        /// What the other says.
        other: String,
    },
    /// Two sweeps have runs in common.
    #[error("{} (seeds {one}) and {} (seeds {other}) have runs in common; merge each run once", a.display(), b.display())]
    Overlap {
        /// One folder.
        a: PathBuf,
        /// The other.
        b: PathBuf,
        /// Its seeds and its shard.
        one: String,
        /// The other's.
        other: String,
    },
}

/// Checks that sweeps are parts of one.
///
/// Parts are shards of the same seeds, or have seeds apart from each other. What nobody ran is no
/// mistake: the merged sweep is then incomplete, and says so.
///
/// # Errors
///
/// If a folder holds no sweep, or two of them differ or overlap.
pub fn merge(dirs: &[PathBuf]) -> Result<Merged, MergeError> {
    let parts = dirs.iter().map(|dir| Ok((dir.as_path(), read_manifest(dir)?)));
    let parts: Vec<(&Path, Manifest)> = parts.collect::<Result<_, FolderError>>()?;
    let Some(((_, first), rest)) = parts.split_first() else { return Err(MergeError::Nothing) };
    for (at, part) in parts.iter().enumerate() {
        same(&parts[0], part)?;
        parts[..at].iter().try_for_each(|earlier| apart(earlier, part))?;
    }
    let seeds = rest.iter().fold(first.seeds, |all, (_, part)| Seeds {
        first: all.first.min(part.seeds.first),
        end: all.end.max(part.seeds.end),
    });
    let manifest = Manifest { seeds, shard: Shard::default(), ..first.clone() };
    Ok(Merged { manifest, parts: dirs.to_vec() })
}

impl Merged {
    /// Returns the rows of all parts in the order in which one sweep would have made them.
    ///
    /// # Errors
    ///
    /// If a part cannot be read; later, if a row is damaged, out of order, or of no run of its part.
    pub fn rows(&self) -> Result<impl Iterator<Item = Result<Row, MergeError>>, MergeError> {
        let mut parts = Vec::new();
        for dir in &self.parts {
            parts.push(placed(dir)?.peekable());
        }
        Ok(std::iter::from_fn(move || next(&mut parts)))
    }

    /// Takes over what the parts kept of their failures.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn adopt_failures(&self, folder: &Folder) -> Result<(), MergeError> {
        self.parts.iter().try_for_each(|dir| folder.adopt_failures(dir))?;
        Ok(())
    }
}

type Placed = Result<((u64, usize), Row), FolderError>;

/// The rows of one part with their places, which ascend.
fn placed(dir: &Path) -> Result<impl Iterator<Item = Placed> + use<>, FolderError> {
    let manifest = read_manifest(dir)?;
    let path = dir.join("rows.jsonl");
    let mut before = None;
    Ok((1..).zip(read_rows(dir)?).map(move |(line, row)| {
        let row = row?;
        let damaged =
            |why: &str| FolderError::Damaged { path: path.clone(), line, why: why.into() };
        let place = manifest.place(&row).ok_or_else(|| damaged("a row of no run of this sweep"))?;
        if before.is_some_and(|before| before >= place) {
            return Err(damaged("a row out of order"));
        }
        before = Some(place);
        Ok((place, row))
    }))
}

/// Takes the row that comes first, or an error as soon as there is one.
fn next<I: Iterator<Item = Placed>>(parts: &mut [Peekable<I>]) -> Option<Result<Row, MergeError>> {
    let place = |part: &mut Peekable<I>| match part.peek()? {
        Ok((place, _)) => Some(Some(*place)),
        Err(_) => Some(None),
    };
    let first =
        (parts.iter_mut().enumerate()).filter_map(|(at, part)| Some((place(part)?, at))).min()?.1;
    parts[first].next().map(|row| row.map(|(_, row)| row).map_err(MergeError::from))
}

fn same((a, one): &(&Path, Manifest), (b, other): &(&Path, Manifest)) -> Result<(), MergeError> {
    let none = || "none".to_owned();
    let names = |of: &Manifest| {
        let name = |it: &super::folder::Source| format!("{}#{}", it.name, it.hash);
        let names: Vec<_> = of.scenarios.iter().map(name).collect();
        if names.is_empty() { "drawn from the seed".into() } else { names.join(" ") }
    };
    let text = |of: &Manifest| {
        [
            ("the format", of.narad_sweep.to_string()),
            ("the version of narad-sim", of.version.clone()),
            ("their scenarios", names(of)),
            ("their options", of.options.clone()),
            ("the planted bug", of.planted.clone().unwrap_or_else(none)),
        ]
    };
    for ((what, one), (_, other)) in text(one).into_iter().zip(text(other)) {
        if one != other {
            let (a, b) = (a.to_path_buf(), b.to_path_buf());
            return Err(MergeError::Differ { a, b, what, one, other });
        }
    }
    Ok(())
}

fn apart((a, one): &(&Path, Manifest), (b, other): &(&Path, Manifest)) -> Result<(), MergeError> {
    let seeds_apart = one.seeds.end <= other.seeds.first || other.seeds.end <= one.seeds.first;
    let shards_apart = one.seeds == other.seeds
        && one.shard.of == other.shard.of
        && one.shard.number != other.shard.number;
    if seeds_apart || shards_apart {
        return Ok(());
    }
    let which = |of: &Manifest| format!("{}, shard {}", of.seeds, of.shard);
    let (one, other) = (which(one), which(other));
    Err(MergeError::Overlap { a: a.to_path_buf(), b: b.to_path_buf(), one, other })
}
