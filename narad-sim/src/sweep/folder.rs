//! Where a sweep leaves what it found.
//!
//! ```text
//! DIR/sweep.json            what was run: a Manifest
//! DIR/rows.jsonl            one Row a line, in the order of the runs
//! DIR/rows.csv              the same for spreadsheets
//! DIR/failures/NAME-SEED.toml         the scenario of a run that failed
//! DIR/failures/NAME-SEED.trace.jsonl  what happened in it
//! ```
//!
//! All of it is the same bytes for the same runs, however many threads made them.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::grid::{Grid, Seeds, Shard};
use super::row::{COLUMNS, Row};

const MANIFEST: &str = "sweep.json";
const ROWS: &str = "rows.jsonl";
const CSV: &str = "rows.csv";
const FAILURES: &str = "failures";

/// What a sweep ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this format: 1.
    pub narad_sweep: u32,
    /// The version of narad-sim. Rows of two versions do not compare.
    pub version: String,
    /// The seeds.
    pub seeds: Seeds,
    /// Which part of the runs.
    pub shard: Shard,
    /// The scenarios, in their order; none if each seed draws its own.
    pub scenarios: Vec<Source>,
    /// What was asked for on the command line besides, as it is written there.
    pub options: String,
    /// The bug that was planted.
    pub planted: Option<String>,
    /// How many runs there are rows of.
    pub runs: u64,
    /// Whether these are all of them.
    pub complete: bool,
}

/// A scenario of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its name.
    pub name: String,
    /// Sixteen hexadecimal digits that stand for its text.
    pub hash: String,
}

impl Source {
    /// Names a scenario by its text.
    pub fn new(name: &str, text: &str) -> Self {
        let hash = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()));
        Self { name: name.into(), hash }
    }
}

impl Manifest {
    /// Returns the runs that it speaks of.
    pub fn grid(&self) -> Grid {
        let scenarios = self.scenarios.len().max(1) as u64;
        Grid { seeds: self.seeds, scenarios, shard: self.shard }
    }

    /// Returns the place of a row among all runs: its seed, then its scenario.
    pub(super) fn place(&self, row: &Row) -> Option<(u64, usize)> {
        let named = |source: &Source| source.name == row.summary.scenario;
        let scenario = match self.scenarios.as_slice() {
            [] => 0,
            some => some.iter().position(named)?,
        };
        let seed = row.summary.seed;
        let Seeds { first, end } = self.seeds;
        let run = seed.checked_sub(first)?.checked_mul(self.grid().scenarios)?;
        let Shard { number, of } = self.shard;
        let wanted = run.checked_add(scenario as u64)? % of == number - 1;
        (seed < end && wanted).then_some((seed, scenario))
    }
}

/// Why a folder cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system refused.
    #[error("{} cannot be {what}: {source}", path.display())]
    Io {
        /// What of.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// There is a sweep already.
    #[error("{} holds a sweep already; name another folder, or replace it with --force", .0.display())]
    Taken(PathBuf),
    /// No sweep is there.
    #[error("{} holds no sweep; name what sweep --out wrote", .0.display())]
    NoSweep(PathBuf),
    /// A file is not what a sweep writes.
    #[error("{}, line {line}: {why}; it is damaged, so run that shard again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: u64,
        /// What is wrong.
        why: String,
    },
}

pub(super) fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::Io { path, what, source }
}

/// A folder that a sweep writes.
#[derive(Debug)]
pub struct Folder {
    dir: PathBuf,
    rows: BufWriter<File>,
    csv: csv::Writer<File>,
    manifest: Manifest,
}

impl Folder {
    /// Makes a folder; with `replace`, over an older sweep.
    ///
    /// # Errors
    ///
    /// If there is a sweep already, or the disk refuses.
    pub fn create(dir: &Path, manifest: Manifest, replace: bool) -> Result<Self, FolderError> {
        let taken = [MANIFEST, ROWS].iter().any(|name| dir.join(name).exists());
        if taken && !replace {
            return Err(FolderError::Taken(dir.to_owned()));
        }
        let failures = dir.join(FAILURES);
        if taken && failures.exists() {
            fs::remove_dir_all(&failures).map_err(io_error(&failures, "emptied"))?;
        }
        fs::create_dir_all(dir).map_err(io_error(dir, "created"))?;
        let rows = create(&dir.join(ROWS))?;
        let mut csv = csv::Writer::from_writer(create(&dir.join(CSV))?);
        csv.write_record(COLUMNS).map_err(|error| csv_error(dir, error))?;
        let manifest = Manifest { runs: 0, complete: false, ..manifest };
        let folder = Self { dir: dir.to_owned(), rows: BufWriter::new(rows), csv, manifest };
        // At once, so that what an end of the process leaves behind is a sweep, too.
        folder.write_manifest()?;
        Ok(folder)
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn add(&mut self, row: &Row) -> Result<(), FolderError> {
        self.manifest.runs += 1;
        let written = serde_json::to_writer(&mut self.rows, row).map_err(io::Error::from);
        let written = written.and_then(|()| self.rows.write_all(b"\n"));
        written.map_err(io_error(&self.dir.join(ROWS), "written"))?;
        self.csv.write_record(row.cells()).map_err(|error| csv_error(&self.dir, error))
    }

    /// Returns where the trace of a failed run belongs.
    ///
    /// # Errors
    ///
    /// If the disk refuses to make the folder of failures.
    pub fn trace_path(&self, row: &Row) -> Result<PathBuf, FolderError> {
        self.failure(row, "trace.jsonl")
    }

    /// Keeps the scenario of a failed run.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn add_failure(&self, row: &Row, scenario: &str) -> Result<(), FolderError> {
        let path = self.failure(row, "toml")?;
        fs::write(&path, scenario).map_err(io_error(&path, "written"))
    }

    fn failure(&self, row: &Row, ending: &str) -> Result<PathBuf, FolderError> {
        let dir = self.dir.join(FAILURES);
        fs::create_dir_all(&dir).map_err(io_error(&dir, "created"))?;
        let stem = stem(&row.summary.scenario, row.summary.seed);
        Ok(dir.join(format!("{stem}.{ending}")))
    }

    /// Takes over what another sweep kept of its failures.
    pub(super) fn adopt_failures(&self, from: &Path) -> Result<(), FolderError> {
        let source = from.join(FAILURES);
        if !source.exists() {
            return Ok(());
        }
        let dir = self.dir.join(FAILURES);
        fs::create_dir_all(&dir).map_err(io_error(&dir, "created"))?;
        for entry in fs::read_dir(&source).map_err(io_error(&source, "read"))? {
            let entry = entry.map_err(io_error(&source, "read"))?;
            let to = dir.join(entry.file_name());
            fs::copy(entry.path(), &to).map_err(io_error(&to, "written"))?;
        }
        Ok(())
    }

    /// Ends the sweep.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn finish(mut self) -> Result<(), FolderError> {
        self.manifest.complete = self.manifest.runs == self.manifest.grid().count();
        self.rows.flush().map_err(io_error(&self.dir.join(ROWS), "written"))?;
        self.csv.flush().map_err(io_error(&self.dir.join(CSV), "written"))?;
        self.write_manifest()
    }

    fn write_manifest(&self) -> Result<(), FolderError> {
        let path = self.dir.join(MANIFEST);
        let text = serde_json::to_string_pretty(&self.manifest).map_err(io::Error::from);
        let written = text.and_then(|text| fs::write(&path, text + "\n"));
        written.map_err(io_error(&path, "written"))
    }
}

fn create(path: &Path) -> Result<File, FolderError> {
    File::create(path).map_err(io_error(path, "written"))
}

fn csv_error(dir: &Path, error: csv::Error) -> FolderError {
    io_error(&dir.join(CSV), "written")(error.into())
}

/// A file name for one run: no name of a scenario leads out of the folder.
#[must_use]
pub fn stem(scenario: &str, seed: u64) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = scenario.chars().map(plain).collect();
    format!("{}-{seed}", name.trim_start_matches('.'))
}

/// Reads what a sweep ran.
pub(super) fn read_manifest(dir: &Path) -> Result<Manifest, FolderError> {
    let path = dir.join(MANIFEST);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FolderError::NoSweep(dir.to_owned()));
        }
        Err(error) => return Err(io_error(&path, "read")(error)),
    };
    serde_json::from_str(&text).map_err(|error| FolderError::Damaged {
        line: error.line() as u64,
        why: error.to_string(),
        path,
    })
}

/// Reads the rows of a sweep one by one.
///
/// # Errors
///
/// If there are none to read; later, if a line is none.
pub fn read_rows(
    dir: &Path,
) -> Result<impl Iterator<Item = Result<Row, FolderError>> + use<>, FolderError> {
    let path = dir.join(ROWS);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FolderError::NoSweep(dir.to_owned()));
        }
        Err(error) => return Err(io_error(&path, "read")(error)),
    };
    let lines = (1..).zip(BufReader::new(file).lines());
    Ok(lines.map(move |(line, text)| {
        let text = text.map_err(io_error(&path, "read"))?;
        serde_json::from_str(&text).map_err(|error| FolderError::Damaged {
            path: path.clone(),
            line,
            why: error.to_string(),
        })
    }))
}
