//! Where the nodes keep their data.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::DemoError;
use crate::cli::DemoOptions;

/// The directory of one run; removed again when this is dropped, if it is to be.
#[derive(Debug)]
pub(super) struct Home {
    path: PathBuf,
    remove: Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remove {
    Nothing,
    /// What is in it: it was there before.
    Content,
    All,
}

impl Home {
    /// Room for everything but records.
    const BASE_BYTES: u64 = 64 << 20;
    /// How often a record may be on the disk: where it is, on its way, and set aside.
    const COPIES: u64 = 4;
    /// What a record takes besides its value.
    const RECORD_BYTES: u64 = 64;

    /// Makes the directory, or takes an empty one.
    pub(super) fn open(options: &DemoOptions) -> Result<Self, DemoError> {
        let mut home = match &options.data_dir {
            Some(path) => Self::named(path)?,
            None => Self::temporary()?,
        };
        if options.keep {
            home.remove = Remove::Nothing;
        }
        Ok(home)
    }

    fn named(path: &Path) -> Result<Self, DemoError> {
        let fail = |source| DemoError::Directory { path: path.to_owned(), source };
        let remove = match fs::read_dir(path) {
            Ok(mut entries) => match entries.next() {
                None => Remove::Content,
                Some(_) => return Err(DemoError::NotEmpty(path.to_owned())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path).map_err(fail)?;
                Remove::All
            }
            Err(error) => return Err(fail(error)),
        };
        Ok(Self { path: path.to_owned(), remove })
    }

    fn temporary() -> Result<Self, DemoError> {
        const TRIES: u32 = 100;
        let process = std::process::id();
        let mut number = 0;
        loop {
            let path = std::env::temp_dir().join(format!("narad-demo-{process}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, remove: Remove::All }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < TRIES => {
                    number += 1;
                }
                Err(source) => return Err(DemoError::Directory { path, source }),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that so many records and their copies fit.
    pub(super) fn check_room(&self, records: u64, bytes: u64) -> Result<(), DemoError> {
        let path = self.path.clone();
        let found = rustix::fs::statvfs(&self.path)
            .map_err(|error| DemoError::Directory { path: path.clone(), source: error.into() })?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let once = bytes.saturating_add(records.saturating_mul(Self::RECORD_BYTES));
        let needed = once.saturating_mul(Self::COPIES).saturating_add(Self::BASE_BYTES);
        if free >= needed {
            return Ok(());
        }
        Err(DemoError::NoRoom { path, free_mib: free >> 20, needed_mib: needed >> 20 })
    }

    /// Returns whether the directory stays.
    pub(super) fn stays(&self) -> bool {
        self.remove == Remove::Nothing
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let removed = match self.remove {
            Remove::Nothing => Ok(()),
            Remove::All => fs::remove_dir_all(&self.path),
            Remove::Content => empty(&self.path),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %self.path.display(), %error, "not removed");
        }
    }
}

fn empty(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(path: &Path, keep: bool) -> DemoOptions {
        DemoOptions {
            records: 1,
            value_bytes: 1,
            rate: None,
            input: None,
            data_dir: Some(path.to_owned()),
            keep,
            seed: 1,
            json: false,
        }
    }

    #[test]
    fn only_what_the_demonstration_made_is_removed() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let (new, old) = (root.path().join("new"), root.path().join("old"));
        fs::create_dir(&old).expect("a directory");
        for path in [&new, &old] {
            let home = Home::open(&options(path, false)).expect("empty");
            fs::create_dir_all(home.path().join("n/a")).expect("a directory");
        }
        assert!(!new.exists());
        assert!(old.exists());
        fs::write(old.join("theirs"), "x").expect("a file");
        assert!(matches!(Home::open(&options(&old, false)), Err(DemoError::NotEmpty(_))));
        assert!(old.join("theirs").exists());
        drop(Home::open(&options(&new, true)).expect("new"));
        assert!(new.exists());
    }

    #[test]
    fn a_disk_that_is_too_small_is_noticed_before_anything_is_written() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let home = Home::open(&options(&root.path().join("a"), false)).expect("new");
        assert!(home.check_room(1000, 1000).is_ok());
        assert!(matches!(home.check_room(1, u64::MAX), Err(DemoError::NoRoom { .. })));
    }
}
