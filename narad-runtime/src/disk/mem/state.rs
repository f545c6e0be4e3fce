//! Files and directories of a [`MemDisk`](super::MemDisk), each with a durable and a volatile side.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

use super::{Step, Unsynced};
use crate::disk::{DiskError, Entry, Metadata, parent};

const ROOT: u64 = 0;

#[derive(Debug)]
pub(super) struct State {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// Changes of names that no sync has covered, oldest first.
    names: Vec<NameChange>,
    /// Files opened in an earlier life are dead.
    pub(super) life: u64,
    pub(super) steps: u64,
    pub(super) stop_after: Option<u64>,
    pub(super) faults: Vec<(Step, u64)>,
    pub(super) quota: Option<u64>,
    pub(super) now_ms: i64,
    pub(super) sector: usize,
}

#[derive(Debug)]
enum Inode {
    File(Content),
    Dir { durable: BTreeMap<String, u64>, now: BTreeMap<String, u64> },
}

#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) durable: Vec<u8>,
    pub(super) now: Vec<u8>,
    unsynced: Vec<Change>,
    modified_ms: i64,
}

#[derive(Debug)]
enum Change {
    Write { position: u64, bytes: Vec<u8> },
    Length(u64),
}

/// Names that change together: `(directory, name, what it stands for from now on)`.
#[derive(Debug)]
struct NameChange(Vec<(u64, String, Option<u64>)>);

impl Default for State {
    fn default() -> Self {
        let root = Inode::Dir { durable: BTreeMap::new(), now: BTreeMap::new() };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            next_inode: ROOT + 1,
            names: Vec::new(),
            life: 0,
            steps: 0,
            stop_after: None,
            faults: Vec::new(),
            quota: None,
            now_ms: 0,
            sector: 512,
        }
    }
}

/// Returns the error of a failed device.
pub(super) fn broken(action: &'static str, path: &Path, why: &'static str) -> DiskError {
    DiskError::Io { action, path: path.to_path_buf(), source: io::Error::other(why) }
}

impl State {
    /// Counts a changing step, unless the power is off or the step was told to fail.
    pub(super) fn step(
        &mut self,
        step: Step,
        action: &'static str,
        path: &Path,
    ) -> Result<(), DiskError> {
        self.check_power(action, path)?;
        self.fault(step, action, path)?;
        if let Some(left) = &mut self.stop_after {
            *left -= 1;
        }
        self.steps += 1;
        Ok(())
    }

    pub(super) fn check_power(&self, action: &'static str, path: &Path) -> Result<(), DiskError> {
        match self.stop_after {
            Some(0) => Err(broken(action, path, "the power is off")),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn fault(
        &mut self,
        step: Step,
        action: &'static str,
        path: &Path,
    ) -> Result<(), DiskError> {
        let Some(at) = self.faults.iter().position(|(kind, _)| *kind == step) else {
            return Ok(());
        };
        if let Some(left) = self.faults[at].1.checked_sub(1) {
            self.faults[at].1 = left;
            return Ok(());
        }
        self.faults.remove(at);
        Err(DiskError::new(action, path, io::Error::from_raw_os_error(5)))
    }

    pub(super) fn find(&self, path: &Path) -> Option<u64> {
        path.components().try_fold(ROOT, |at, part| match (&self.inodes[&at], part) {
            (Inode::Dir { now, .. }, Component::Normal(name)) => now.get(name.to_str()?).copied(),
            (Inode::Dir { .. } | Inode::File(_), _) => None,
        })
    }

    pub(super) fn file_mut(&mut self, path: &Path) -> Option<&mut Content> {
        let inode = self.find(path)?;
        match self.inodes.get_mut(&inode)? {
            Inode::File(content) => Some(content),
            Inode::Dir { .. } => None,
        }
    }

    pub(super) fn content(&self, inode: u64) -> &Content {
        match &self.inodes[&inode] {
            Inode::File(content) => content,
            Inode::Dir { .. } => panic!("a directory was opened as a file"),
        }
    }

    fn content_mut(&mut self, inode: u64) -> &mut Content {
        match self.inodes.get_mut(&inode) {
            Some(Inode::File(content)) => content,
            Some(Inode::Dir { .. }) | None => panic!("a directory was opened as a file"),
        }
    }

    pub(super) fn create_file(&mut self, path: &Path) -> Result<u64, DiskError> {
        let content = Content { modified_ms: self.now_ms, ..Content::default() };
        self.create(path, Inode::File(content))
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> Result<u64, DiskError> {
        self.create(path, Inode::Dir { durable: BTreeMap::new(), now: BTreeMap::new() })
    }

    fn create(&mut self, path: &Path, inode: Inode) -> Result<u64, DiskError> {
        let (dir, name) = self.place("create", path)?;
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        self.change_names(vec![(dir, name, Some(number))]);
        Ok(number)
    }

    /// Splits a path into an existing directory and a name in it.
    fn place(&self, action: &'static str, path: &Path) -> Result<(u64, String), DiskError> {
        let name = path.file_name().and_then(|name| name.to_str());
        let dir = self.find(parent(path)).filter(|at| matches!(self.inodes[at], Inode::Dir { .. }));
        match (dir, name) {
            (Some(dir), Some(name)) => Ok((dir, name.to_owned())),
            _ => Err(DiskError::NotFound { action, path: path.to_path_buf() }),
        }
    }

    fn change_names(&mut self, change: Vec<(u64, String, Option<u64>)>) {
        let change = NameChange(change);
        change.apply(&mut self.inodes, false);
        self.names.push(change);
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let (old_dir, old_name) = self.place("rename", from)?;
        let (new_dir, new_name) = self.place("rename onto", to)?;
        let Some(inode) = self.find(from) else {
            return Err(DiskError::NotFound { action: "rename", path: from.to_path_buf() });
        };
        if self.find(to).is_some_and(|at| matches!(self.inodes[&at], Inode::Dir { .. })) {
            let taken = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(DiskError::new("rename onto", to, taken));
        }
        self.change_names(vec![(old_dir, old_name, None), (new_dir, new_name, Some(inode))]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, is_dir: bool) -> Result<(), DiskError> {
        let action = if is_dir { "remove directory" } else { "remove" };
        let fits = |inode: &Inode| match inode {
            Inode::File(_) => !is_dir,
            Inode::Dir { now, .. } => is_dir && now.is_empty(),
        };
        match self.find(path) {
            None => return Err(DiskError::NotFound { action, path: path.to_path_buf() }),
            Some(at) if fits(&self.inodes[&at]) => {}
            Some(_) => return Err(broken(action, path, "not empty, or of another kind")),
        }
        let (dir, name) = self.place(action, path)?;
        self.change_names(vec![(dir, name, None)]);
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        let Some(Inode::Dir { now, .. }) = self.find(path).map(|at| &self.inodes[&at]) else {
            return Err(DiskError::NotFound { action: "list", path: path.to_path_buf() });
        };
        let entry = |(name, at): (&String, &u64)| Entry {
            name: name.clone(),
            is_dir: matches!(self.inodes[at], Inode::Dir { .. }),
        };
        Ok(now.iter().map(entry).collect())
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<Metadata> {
        Some(match &self.inodes[&self.find(path)?] {
            Inode::File(content) => Metadata {
                is_dir: false,
                bytes: content.now.len() as u64,
                modified_ms: content.modified_ms,
            },
            Inode::Dir { .. } => Metadata { is_dir: true, bytes: 0, modified_ms: 0 },
        })
    }

    pub(super) fn used(&self) -> u64 {
        self.reachable(ROOT)
    }

    fn reachable(&self, inode: u64) -> u64 {
        match &self.inodes[&inode] {
            Inode::File(content) => content.now.len() as u64,
            Inode::Dir { now, .. } => now.values().map(|&at| self.reachable(at)).sum(),
        }
    }

    pub(super) fn write(
        &mut self,
        inode: u64,
        position: u64,
        bytes: &[u8],
        path: &Path,
    ) -> Result<(), DiskError> {
        let mut fitting = bytes;
        if let Some(quota) = self.quota {
            let length = self.content(inode).now.len() as u64;
            let room = quota.saturating_sub(self.used()) + length.saturating_sub(position);
            // A full disk takes what still fits, as a real one may.
            fitting = &bytes[..usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len())];
        }
        let now_ms = self.now_ms;
        let content = self.content_mut(inode);
        let change = Change::Write { position, bytes: fitting.to_vec() };
        change.apply(&mut content.now);
        content.unsynced.push(change);
        content.modified_ms = now_ms;
        if fitting.len() < bytes.len() {
            return Err(DiskError::Full { action: "write", path: path.to_path_buf() });
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, inode: u64, length: u64) {
        let content = self.content_mut(inode);
        let change = Change::Length(length);
        change.apply(&mut content.now);
        content.unsynced.push(change);
    }

    pub(super) fn sync(&mut self, inode: u64) {
        let content = self.content_mut(inode);
        for change in content.unsynced.drain(..) {
            change.apply(&mut content.durable);
        }
    }

    pub(super) fn drop_unsynced(&mut self, inode: u64) {
        self.content_mut(inode).unsynced.clear();
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<(), DiskError> {
        let Some(dir) = self.find(path) else {
            return Err(DiskError::NotFound { action: "sync directory", path: path.to_path_buf() });
        };
        let inodes = &mut self.inodes;
        self.names.retain(|change| {
            let covered = change.0.iter().any(|(at, ..)| *at == dir);
            if covered {
                change.apply(inodes, true);
            }
            !covered
        });
        Ok(())
    }

    pub(super) fn crash(&mut self, keep: &mut dyn FnMut(Unsynced) -> bool) {
        let sector = self.sector;
        for inode in self.inodes.values_mut() {
            if let Inode::File(content) = inode {
                for change in content.unsynced.drain(..) {
                    change.apply_some(&mut content.durable, sector, keep);
                }
                content.now.clone_from(&content.durable);
            }
        }
        for change in self.names.drain(..) {
            if keep(Unsynced::Name) {
                change.apply(&mut self.inodes, true);
            }
        }
        for inode in self.inodes.values_mut() {
            if let Inode::Dir { durable, now } = inode {
                now.clone_from(durable);
            }
        }
        self.life += 1;
        self.stop_after = None;
        self.faults.clear();
    }
}

impl NameChange {
    fn apply(&self, inodes: &mut BTreeMap<u64, Inode>, durable_side: bool) {
        for (dir, name, target) in &self.0 {
            let Some(Inode::Dir { durable, now }) = inodes.get_mut(dir) else { continue };
            let names = if durable_side { durable } else { now };
            match target {
                Some(inode) => names.insert(name.clone(), *inode),
                None => names.remove(name),
            };
        }
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes } => put(content, *position, bytes),
            Self::Length(length) => content.resize(index(*length), 0),
        }
    }

    /// Applies those sectors that survive.
    fn apply_some(
        &self,
        content: &mut Vec<u8>,
        sector: usize,
        keep: &mut dyn FnMut(Unsynced) -> bool,
    ) {
        match self {
            Self::Write { position, bytes } => {
                let mut at = *position;
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let whole = sector - index(at) % sector;
                    let (piece, later) = rest.split_at(whole.min(rest.len()));
                    if keep(Unsynced::Sector { position: at }) {
                        put(content, at, piece);
                    }
                    at += piece.len() as u64;
                    rest = later;
                }
            }
            Self::Length(_) => {
                if keep(Unsynced::Length) {
                    self.apply(content);
                }
            }
        }
    }
}

fn put(content: &mut Vec<u8>, position: u64, bytes: &[u8]) {
    let from = index(position);
    if content.len() < from + bytes.len() {
        content.resize(from + bytes.len(), 0);
    }
    content[from..from + bytes.len()].copy_from_slice(bytes);
}

fn index(position: u64) -> usize {
    usize::try_from(position).expect("a file in memory fits into memory")
}
