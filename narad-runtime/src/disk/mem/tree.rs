//! Files and directories of a [`MemDisk`](super::MemDisk), each name with a durable and a volatile
//! side.

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::path::Path;

use super::content::Content;
use super::fault::{Survival, Unsynced};
use crate::disk::{DiskError, Entry, Metadata};

const ROOT: usize = 0;

/// The number of a file or directory, given anew once nothing leads to it any more.
pub(super) type Number = usize;

#[derive(Clone, Debug)]
pub(super) struct Tree {
    inodes: Vec<Option<Inode>>,
    free: Vec<Number>,
    /// Changes of names that no sync has covered, oldest first.
    names: Vec<NameChange>,
    /// Bytes of all files that have a name.
    used: u64,
}

#[derive(Clone, Debug)]
struct Inode {
    /// Names of either side, unsynced names and open files.
    refs: u32,
    /// Names of the volatile side.
    links: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    File(Content),
    Dir { durable: Names, now: Names },
}

type Names = BTreeMap<String, Number>;

/// Names that change together.
#[derive(Clone, Debug)]
struct NameChange(Vec<NewName>);

#[derive(Clone, Debug)]
struct NewName {
    dir: Number,
    name: String,
    /// What it stands for from now on.
    target: Option<Number>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Durable,
    Volatile,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Inode { refs: 1, links: 1, kind: Kind::new_dir() };
        Self { inodes: vec![Some(root)], free: Vec::new(), names: Vec::new(), used: 0 }
    }
}

impl Kind {
    fn new_dir() -> Self {
        Self::Dir { durable: Names::new(), now: Names::new() }
    }

    /// Lists what the names in a directory stand for, on either side.
    fn children(&self) -> impl Iterator<Item = Number> {
        let sides = match self {
            Self::Dir { durable, now } => Some([durable, now]),
            Self::File(_) => None,
        };
        sides.into_iter().flatten().flat_map(|names| names.values().copied())
    }
}

/// Returns the error of a failed device.
pub(super) fn broken(action: &'static str, path: &Path, why: &'static str) -> DiskError {
    DiskError::Io { action, path: path.to_path_buf(), source: io::Error::other(why) }
}

impl Tree {
    pub(super) fn find(&self, path: &Path) -> Option<Number> {
        self.find_named(path.to_str()?)
    }

    /// Follows names by plain text: a path has normal components only, and a world in memory looks
    /// up so many that taking them apart as the system does would show.
    fn find_named(&self, path: &str) -> Option<Number> {
        let (mut at, mut rest) = (ROOT, path);
        while !rest.is_empty() {
            // Names are short: a plain loop finds their end sooner than a search by words does.
            let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
            at = self.child(at, &rest[..end])?;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        Some(at)
    }

    fn child(&self, dir: Number, name: &str) -> Option<Number> {
        self.names_of(dir)?.get(name).copied()
    }

    pub(super) fn find_file(&self, path: &Path) -> Option<Number> {
        let at = self.find(path)?;
        matches!(self.inode(at).kind, Kind::File(_)).then_some(at)
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    fn inode(&self, at: Number) -> &Inode {
        self.inodes[at].as_ref().expect("what a name or an open file leads to is there")
    }

    fn inode_mut(&mut self, at: Number) -> &mut Inode {
        self.inodes[at].as_mut().expect("what a name or an open file leads to is there")
    }

    fn names_of(&self, at: Number) -> Option<&Names> {
        match &self.inode(at).kind {
            Kind::Dir { now, .. } => Some(now),
            Kind::File(_) => None,
        }
    }

    pub(super) fn content(&self, file: Number) -> &Content {
        match &self.inode(file).kind {
            Kind::File(content) => content,
            Kind::Dir { .. } => panic!("a directory was opened as a file"),
        }
    }

    /// Changes a file's content and counts what it takes.
    pub(super) fn change<T>(&mut self, file: Number, change: impl FnOnce(&mut Content) -> T) -> T {
        let inode = self.inode_mut(file);
        let Kind::File(content) = &mut inode.kind else {
            panic!("a directory was opened as a file");
        };
        let before = content.length();
        let result = change(content);
        let after = content.length();
        if inode.links > 0 {
            self.used = self.used - before + after;
        }
        result
    }

    /// Counts an open file, so that its content outlives its name.
    pub(super) fn hold(&mut self, file: Number) {
        self.inode_mut(file).refs += 1;
    }

    /// Forgets a name, or an open file, that led to an inode.
    pub(super) fn release(&mut self, at: Number) {
        let inode = self.inode_mut(at);
        inode.refs -= 1;
        if inode.refs > 0 {
            return;
        }
        self.free.push(at);
        let gone = self.inodes[at].take();
        let Some(Inode { kind: Kind::Dir { durable, .. }, .. }) = gone else { return };
        // Nobody can sync a directory that is gone, so neither does what happened in it matter.
        for child in durable.into_values() {
            self.release(child);
        }
        let (inodes, mut orphans) = (&self.inodes, Vec::new());
        self.names.retain(|change| {
            let alive = change.0.iter().any(|new| inodes[new.dir].is_some());
            if !alive {
                orphans.extend(change.0.iter().filter_map(|new| new.target));
            }
            alive
        });
        for orphan in orphans {
            self.release(orphan);
        }
    }

    pub(super) fn create_file(&mut self, path: &Path, now_ms: i64) -> Result<Number, DiskError> {
        self.create(path, Kind::File(Content::new(now_ms)))
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> Result<Number, DiskError> {
        self.create(path, Kind::new_dir())
    }

    fn create(&mut self, path: &Path, kind: Kind) -> Result<Number, DiskError> {
        let (dir, name) = self.place("create", path)?;
        let inode = Some(Inode { refs: 0, links: 0, kind });
        let at = if let Some(at) = self.free.pop() {
            self.inodes[at] = inode;
            at
        } else {
            self.inodes.push(inode);
            self.inodes.len() - 1
        };
        self.change_names(vec![NewName { dir, name, target: Some(at) }]);
        Ok(at)
    }

    /// Splits a path into an existing directory and a name in it.
    fn place(&self, action: &'static str, path: &Path) -> Result<(Number, String), DiskError> {
        let split = path.to_str().map(|path| path.rsplit_once('/').unwrap_or(("", path)));
        let dir = split.and_then(|(dir, _)| self.find_named(dir));
        match (dir.filter(|&at| self.names_of(at).is_some()), split) {
            (Some(dir), Some((_, name))) if !matches!(name, "" | "." | "..") => {
                Ok((dir, name.to_owned()))
            }
            _ => Err(DiskError::NotFound { action, path: path.to_path_buf() }),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let (old_dir, old_name) = self.place("rename", from)?;
        let (new_dir, new_name) = self.place("rename onto", to)?;
        let Some(at) = self.child(old_dir, &old_name) else {
            return Err(DiskError::NotFound { action: "rename", path: from.to_path_buf() });
        };
        if self.child(new_dir, &new_name).is_some_and(|at| self.names_of(at).is_some()) {
            let taken = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(DiskError::new("rename onto", to, taken));
        }
        self.change_names(vec![
            NewName { dir: old_dir, name: old_name, target: None },
            NewName { dir: new_dir, name: new_name, target: Some(at) },
        ]);
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, is_dir: bool) -> Result<(), DiskError> {
        let action = if is_dir { "remove directory" } else { "remove" };
        let Some(at) = self.find(path) else {
            return Err(DiskError::NotFound { action, path: path.to_path_buf() });
        };
        let fits = match &self.inode(at).kind {
            Kind::File(_) => !is_dir,
            Kind::Dir { now, .. } => is_dir && now.is_empty(),
        };
        if !fits {
            return Err(broken(action, path, "not empty, or of another kind"));
        }
        let (dir, name) = self.place(action, path)?;
        self.change_names(vec![NewName { dir, name, target: None }]);
        Ok(())
    }

    fn change_names(&mut self, change: Vec<NewName>) {
        for target in change.iter().filter_map(|new| new.target) {
            self.inode_mut(target).refs += 1;
        }
        self.apply(&change, Side::Volatile);
        self.names.push(NameChange(change));
    }

    fn apply(&mut self, change: &[NewName], side: Side) {
        for NewName { dir, name, target } in change {
            // What happened in a directory that is gone matters to nobody.
            let Some(Inode { kind: Kind::Dir { durable, now }, .. }) = &mut self.inodes[*dir]
            else {
                continue;
            };
            let names = if side == Side::Durable { durable } else { now };
            let displaced = match (target, names.get_mut(name)) {
                (Some(at), Some(there)) => Some(mem::replace(there, *at)),
                (Some(at), None) => names.insert(name.clone(), *at),
                (None, _) => names.remove(name),
            };
            if let Some(at) = *target {
                self.link(at, side);
            }
            if let Some(at) = displaced {
                self.unlink(at, side);
            }
        }
    }

    fn link(&mut self, at: Number, side: Side) {
        let inode = self.inode_mut(at);
        inode.refs += 1;
        if side == Side::Volatile {
            inode.links += 1;
            if let (Kind::File(content), 1) = (&inode.kind, inode.links) {
                self.used += content.length();
            }
        }
    }

    fn unlink(&mut self, at: Number, side: Side) {
        if side == Side::Volatile {
            let inode = self.inode_mut(at);
            inode.links -= 1;
            if let (Kind::File(content), 0) = (&inode.kind, inode.links) {
                self.used -= content.length();
            }
        }
        self.release(at);
    }

    pub(super) fn list(&self, path: &Path) -> Result<Vec<Entry>, DiskError> {
        let Some(names) = self.find(path).and_then(|at| self.names_of(at)) else {
            return Err(DiskError::NotFound { action: "list", path: path.to_path_buf() });
        };
        let entry = |(name, &at): (&String, &Number)| Entry {
            name: name.clone(),
            is_dir: self.names_of(at).is_some(),
        };
        Ok(names.iter().map(entry).collect())
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<Metadata> {
        Some(match &self.inode(self.find(path)?).kind {
            Kind::File(content) => Metadata {
                is_dir: false,
                bytes: content.length(),
                modified_ms: content.modified_ms,
            },
            Kind::Dir { .. } => Metadata { is_dir: true, bytes: 0, modified_ms: 0 },
        })
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<(), DiskError> {
        let Some(dir) = self.find(path) else {
            return Err(DiskError::NotFound { action: "sync directory", path: path.to_path_buf() });
        };
        let covers = |change: &mut NameChange| change.0.iter().any(|new| new.dir == dir);
        let covered: Vec<NameChange> = self.names.extract_if(.., covers).collect();
        for NameChange(change) in covered {
            self.apply(&change, Side::Durable);
            change.iter().filter_map(|new| new.target).for_each(|at| self.release(at));
        }
        Ok(())
    }

    /// Drops what was not synced, except for what `keep` says.
    pub(super) fn crash(&mut self, sector: usize, keep: &mut dyn FnMut(Unsynced) -> Survival) {
        for inode in self.inodes.iter_mut().flatten() {
            if let Kind::File(content) = &mut inode.kind {
                content.crash(sector, keep);
            }
        }
        for NameChange(change) in mem::take(&mut self.names) {
            if keep(Unsynced::Name) == Survival::Kept {
                self.apply(&change, Side::Durable);
            }
            change.iter().filter_map(|new| new.target).for_each(|at| self.release(at));
        }
        for inode in self.inodes.iter_mut().flatten() {
            if let Kind::Dir { durable, now } = &mut inode.kind {
                now.clone_from(durable);
            }
        }
        self.close_all();
    }

    /// Forgets every open file, and whatever nothing leads to without them.
    pub(super) fn close_all(&mut self) {
        let mut reached = vec![false; self.inodes.len()];
        let pending = self.names.iter().flat_map(|change| &change.0).filter_map(|new| new.target);
        let mut open: Vec<Number> = pending.chain([ROOT]).collect();
        while let Some(at) = open.pop() {
            if !mem::replace(&mut reached[at], true) {
                open.extend(self.inode(at).kind.children());
            }
        }
        for at in (0..reached.len()).filter(|&at| !reached[at]) {
            if self.inodes[at].take().is_some() {
                self.free.push(at);
            }
        }
        self.recount();
    }

    /// Counts anew what leads to each inode, open files apart.
    fn recount(&mut self) {
        let mut leads = vec![(0, 0); self.inodes.len()];
        leads[ROOT] = (1, 1);
        let pending = self.names.iter().flat_map(|change| &change.0).filter_map(|new| new.target);
        pending.for_each(|at| leads[at].0 += 1);
        for inode in self.inodes.iter().flatten() {
            inode.kind.children().for_each(|at| leads[at].0 += 1);
            if let Kind::Dir { now, .. } = &inode.kind {
                for &at in now.values() {
                    leads[at].1 += 1;
                }
            }
        }
        self.used = 0;
        for (inode, (refs, links)) in self.inodes.iter_mut().zip(leads) {
            let Some(inode) = inode else { continue };
            (inode.refs, inode.links) = (refs, links);
            if let (Kind::File(content), 1..) = (&inode.kind, links) {
                self.used += content.length();
            }
        }
    }
}

#[cfg(test)]
impl Tree {
    /// Returns how many files and directories there are.
    pub(super) fn inodes(&self) -> usize {
        self.inodes.iter().flatten().count()
    }

    /// Checks what is counted along the way against counting anew.
    pub(super) fn check(&self, open_max: u32) {
        let mut anew = self.clone();
        anew.recount();
        assert_eq!(self.used, anew.used);
        let mut open = 0;
        for (at, (ours, anew)) in self.inodes.iter().zip(&anew.inodes).enumerate() {
            assert_eq!(ours.is_none(), self.free.contains(&at));
            let (Some(ours), Some(anew)) = (ours, anew) else { continue };
            assert_eq!(ours.links, anew.links, "{at}");
            assert!(ours.refs >= anew.refs && ours.refs > 0, "{at}: {ours:?} {anew:?}");
            open += ours.refs - anew.refs;
        }
        assert!(open <= open_max, "{open} files are open");
    }
}
