//! Files that commands read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Failure;
use super::terminal::Terminal;
use crate::lab::Laboratory;
use crate::trace::Header;

/// More than any scenario or placement is long; a trace is read line by line.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// More than fits into a report, which shows a trace as a whole.
const TRACE_BYTES_MAX: u64 = 4 << 30;

/// Reads a text file, or standard input for `-`.
pub(super) fn read(path: &Path, terminal: &mut Terminal) -> Result<String, Failure> {
    read_up_to(TEXT_BYTES_MAX, path, terminal)
}

/// Reads a trace as a whole.
pub(super) fn read_trace(path: &Path, terminal: &mut Terminal) -> Result<String, Failure> {
    read_up_to(TRACE_BYTES_MAX, path, terminal)
}

fn read_up_to(bytes_max: u64, path: &Path, terminal: &mut Terminal) -> Result<String, Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be read: {error}", path.display()))
    };
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        (&mut terminal.input).take(bytes_max + 1).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        let file = std::fs::File::open(path).map_err(cannot)?;
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() as u64 > bytes_max {
        return Err(Failure::usage(format!(
            "{} is longer than {} MiB; is it the right file?",
            path.display(),
            bytes_max >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("{} is no text: byte {at} is not UTF-8", path.display()))
    })
}

/// Reads a scenario file.
pub(super) fn scenario<L: Laboratory>(
    lab: &L,
    path: &Path,
    terminal: &mut Terminal,
) -> Result<L::Scenario, Failure> {
    let text = read(path, terminal)?;
    parse(lab, path, &text)
}

/// Takes a text for a scenario.
pub(super) fn parse<L: Laboratory>(
    lab: &L,
    path: &Path,
    text: &str,
) -> Result<L::Scenario, Failure> {
    if header(text).is_some() {
        let message = format!("{} is a trace, and no scenario", path.display());
        let hint = "narad-sim replay, shrink and report take a trace";
        return Err(Failure::usage(message).with_hint(hint));
    }
    let name = if path.as_os_str() == "-" { "stdin".into() } else { path.display().to_string() };
    lab.parse(text, &name).map_err(|error| {
        Failure::usage(error).with_hint("narad-sim schema describes every key and action")
    })
}

/// Returns the header of a trace, if a text is one.
pub(super) fn header(text: &str) -> Option<Header> {
    serde_json::from_str(text.lines().next()?).ok()
}

/// Finds scenario files: directories stand for the `.toml` files below them, by name.
pub(super) fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            walk(path, &mut found)?;
            if found.len() == before {
                let message = format!("{} has no .toml file in it", path.display());
                return Err(Failure::usage(message));
            }
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::usage(format!("{} cannot be read: {error}", dir.display()))
    };
    let entries = std::fs::read_dir(dir).map_err(cannot)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(cannot)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "toml") {
            found.push(path);
        }
    }
    Ok(())
}
