//! Certificates and keys on a disk: all of them or none, and keys for their owner's eyes only.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::{ExitCode, Failure};
use crate::tls::authority::Issued;

/// Longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate with its key, and what their files are called.
pub(super) struct Pair<'a> {
    pub(super) called: &'a str,
    pub(super) issued: Issued,
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |why: String| {
        Failure::new(ExitCode::Usage, format!("{} cannot be read: {why}", path.display()))
    };
    let found = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if found.len() > FILE_BYTES_MAX {
        return Err(unreadable("it is longer than 1 MiB".to_owned()));
    }
    std::fs::read(path).map_err(|error| unreadable(error.to_string()))
}

/// Writes all pairs; none if a file of one is there already, unless it may be replaced.
pub(super) fn write_all(dir: &Path, pairs: &[Pair<'_>], replace: bool) -> Result<(), Failure> {
    let unwritable = |path: &Path, error: &io::Error| {
        let code = match error.kind() {
            io::ErrorKind::StorageFull => ExitCode::DiskFull,
            _ => ExitCode::Usage,
        };
        Failure::new(code, format!("{} cannot be written: {error}", path.display()))
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| unwritable(dir, &error))?;
    // The key first: a certificate without its key is of no use to anybody.
    let files = pairs.iter().flat_map(|Pair { called, issued }| {
        let at = |ending: &str| dir.join(format!("{called}.{ending}"));
        [(at("key"), &issued.key, 0o600), (at("crt"), &issued.cert, 0o644)]
    });
    let files: Vec<(PathBuf, &String, u32)> = files.collect();
    if !replace
        && let Some((there, ..)) = files.iter().find(|(path, ..)| path.symlink_metadata().is_ok())
    {
        let message = format!("{} is there already; nothing was written", there.display());
        return Err(Failure::new(ExitCode::Usage, message).with_hint(
            "--force replaces it; whoever trusts what is there does not trust the new one",
        ));
    }
    for (path, content, mode) in files {
        let written = if replace {
            write_over(&path, content.as_bytes(), mode)
        } else {
            write_new(&path, content.as_bytes(), mode)
        };
        written.map_err(|error| unwritable(&path, &error))?;
    }
    Ok(())
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Whoever reads it meanwhile gets the old one or the new one.
fn write_over(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    write_new(&beside, content, mode)?;
    std::fs::rename(&beside, path)
}
