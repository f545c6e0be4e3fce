//! What steps do to disks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use narad_core::ids::PartitionId;
use narad_runtime::disk::mem::{Fault, FaultId, Step};
use narad_runtime::disk::{Disk, MemDisk};
use narad_runtime::store::{log_dir, parse_attempt, partition_dir, staging_dir};

use super::super::World;
use super::super::script::Place;
use super::Undo;
use crate::oracle::{Directory, DiskChange, Fact};
use crate::scenario::{Action, DiskAction, Files};

/// What ends a disk's fault.
#[derive(Clone, Debug)]
pub(crate) enum DiskUndo {
    Faults(Vec<FaultId>),
    Room,
    Slow(Duration),
    Raft,
}

impl World {
    pub(super) fn act_on_disk(&mut self, action: &Action, place: Place) {
        match action {
            Action::DiskFail { node, action, what, partition, skip, times, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                if *what == Some(Files::Raft) {
                    self.fail_raft(at, true);
                    return self.undo_after(*lasting, Undo::Disk(at, DiskUndo::Raft));
                }
                let partition = partition.as_ref().and_then(|name| self.partition(name));
                let below = self.below(at, *what, partition);
                let ids = self.inject(at, *action, &below, *skip, *times);
                self.undo_after(*lasting, Undo::Disk(at, DiskUndo::Faults(ids)));
            }
            Action::DiskFull { node, free, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                let disk = &self.machines[at].disk;
                disk.set_quota(Some(disk.used().saturating_add(free.0)));
                self.undo_after(*lasting, Undo::Disk(at, DiskUndo::Room));
            }
            Action::DiskSlow { node, by, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                self.machines[at].slower_by += *by;
                self.undo_after(*lasting, Undo::Disk(at, DiskUndo::Slow(*by)));
            }
            Action::DiskStuck { node, lasting } => {
                let Some(at) = self.who(node, place) else { return };
                // What is under way when the disk comes back goes on then; without an end, never
                // while the process lives: an hour outlasts every run.
                let lasting = lasting.unwrap_or(Duration::from_hours(1));
                let until = self.now.after(lasting);
                let stuck = &mut self.machines[at].disk_stuck_until;
                *stuck = (*stuck).max(until);
            }
            Action::Rot { node, what, partition, position, bytes } => {
                let Some(at) = self.who(node, place) else { return };
                let partition = partition.as_ref().and_then(|name| self.partition(name));
                self.rot(at, *what, partition, position.0, bytes.0);
            }
            Action::Erase { node, what, partition } => {
                let Some(at) = self.who(node, place) else { return };
                let partition = partition.as_ref().and_then(|name| self.partition(name));
                self.erase(at, *what, partition);
            }
            _ => {}
        }
    }

    pub(super) fn undo_disk(&mut self, at: usize, undo: DiskUndo) {
        let quota = self.setup.scenario.disk.capacity.map(|bytes| bytes.0);
        let machine = &mut self.machines[at];
        match undo {
            DiskUndo::Faults(ids) => ids.into_iter().for_each(|id| machine.disk.clear(id)),
            DiskUndo::Room => machine.disk.set_quota(quota),
            DiskUndo::Slow(by) => machine.slower_by = machine.slower_by.saturating_sub(by),
            DiskUndo::Raft => self.fail_raft(at, false),
        }
    }

    /// Lets the store of Raft's log fail, which ends the process, or mends it.
    fn fail_raft(&self, at: usize, is_failing: bool) {
        if let Some(log) = &self.machines[at].log {
            log.set_failing(is_failing);
        }
    }

    /// Makes a disk work again; what it has lost stays lost.
    pub(super) fn heal_disk(&mut self, at: usize) {
        self.fail_raft(at, false);
        let machine = &mut self.machines[at];
        machine.disk.clear_faults();
        machine.disk.set_quota(None);
        machine.slower_by = Duration::ZERO;
        machine.disk_stuck_until = self.now;
    }

    fn inject(
        &mut self,
        at: usize,
        action: Option<DiskAction>,
        below: &Path,
        skip: u32,
        times: u32,
    ) -> Vec<FaultId> {
        let steps: &[Step] = match action {
            None => &Step::ALL,
            Some(DiskAction::Read) => &[Step::Read],
            Some(DiskAction::Write) => &[Step::Write, Step::SetLen],
            Some(DiskAction::Sync) => &[Step::Sync],
            Some(DiskAction::Rename) => &[Step::Rename],
            Some(DiskAction::Create) => &[Step::Create],
            Some(DiskAction::Remove) => &[Step::Remove],
            Some(DiskAction::SyncDir) => &[Step::SyncDir],
        };
        let disk = &self.machines[at].disk;
        let fault = |step: &Step| {
            let fault = Fault::new(*step).below(below).after(u64::from(skip));
            let fault = if times == 0 { fault.lasting() } else { fault.times(u64::from(times)) };
            disk.inject(fault)
        };
        steps.iter().map(fault).collect()
    }

    /// Returns the path that some files of a machine are below.
    fn below(&self, at: usize, what: Option<Files>, partition: Option<PartitionId>) -> PathBuf {
        match (what, partition) {
            (None, Some(partition)) => partition_dir(partition),
            (None | Some(Files::Raft), _) => PathBuf::new(),
            (Some(Files::Identity), _) => PathBuf::from("identity"),
            (Some(Files::Trash), _) => PathBuf::from(".trash"),
            (Some(what), Some(partition)) => self
                .directories_of(at, what, partition)
                .first()
                .map_or_else(|| partition_dir(partition), |(path, _)| path.clone()),
            (Some(_), None) => PathBuf::from("partitions"),
        }
    }

    /// Returns the directories of a partition that are meant.
    pub(crate) fn directories_of(
        &self,
        at: usize,
        what: Files,
        partition: PartitionId,
    ) -> Vec<(PathBuf, Directory)> {
        let live = self.newest().and_then(|state| state.assignment(partition));
        let live = live.filter(|row| self.machine_of(row.owner) == Some(at)).map(|row| row.data);
        let disk = &self.machines[at].disk;
        let entries = disk.list(&partition_dir(partition)).unwrap_or_default();
        let installed = entries.iter().filter_map(|entry| parse_attempt(&entry.name));
        match what {
            Files::Live => installed
                .filter(|attempt| Some(*attempt) == live)
                .map(|attempt| (log_dir(partition, attempt), Directory::Installed(attempt)))
                .collect(),
            Files::Installed => installed
                .filter(|attempt| Some(*attempt) != live)
                .map(|attempt| (log_dir(partition, attempt), Directory::Installed(attempt)))
                .collect(),
            Files::Staging if entries.iter().any(|entry| entry.name == "staging") => {
                vec![(staging_dir(partition), Directory::Staging)]
            }
            Files::Staging | Files::Trash | Files::Raft | Files::Identity => Vec::new(),
        }
    }

    /// Returns every partition of which something lies on a machine.
    pub(crate) fn partitions_on(&self, at: usize) -> Vec<PartitionId> {
        let process = self.machines[at].process.as_ref();
        let Some(found) = process.and_then(|process| process.store.recover().ok()) else {
            return self.newest().map_or_else(Vec::new, |state| {
                state.assignments().map(|(partition, _)| partition).collect()
            });
        };
        found.partitions.into_iter().map(|(partition, _)| partition).collect()
    }

    fn rot(
        &mut self,
        at: usize,
        what: Files,
        partition: Option<PartitionId>,
        position: f64,
        bytes: u64,
    ) {
        let partitions = partition.map_or_else(|| self.partitions_on(at), |one| vec![one]);
        for partition in partitions {
            let Some((dir, directory)) =
                self.directories_of(at, what, partition).into_iter().next()
            else {
                continue;
            };
            let disk = self.machines[at].disk.clone();
            let segments = segments(&disk, &dir);
            let all: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
            if all == 0 {
                continue;
            }
            if let Some(node) = self.machines[at].node {
                let change = DiskChange::Rotted(partition, directory);
                self.observe(Fact::Disk { node, change });
            }
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in files of a simulated disk"
            )]
            let mut first = ((all as f64 * position) as u64).min(all - 1);
            let mut left = bytes;
            for (path, length) in segments {
                for byte in first..length.min(first.saturating_add(left)) {
                    disk.rot(&path, usize::try_from(byte).unwrap_or(0), 0x10);
                    left -= 1;
                }
                first = first.saturating_sub(length);
            }
            return;
        }
    }

    fn erase(&mut self, at: usize, what: Files, partition: Option<PartitionId>) {
        let disk = self.machines[at].disk.clone();
        if what == Files::Identity {
            // A name that is not there is as erased as one that was.
            let _ = disk.remove_file(Path::new("identity"));
            let _ = disk.sync_dir(Path::new(""));
            return;
        }
        let partitions = partition.map_or_else(|| self.partitions_on(at), |one| vec![one]);
        for partition in partitions {
            for (dir, directory) in self.directories_of(at, what, partition) {
                if let Some(node) = self.machines[at].node {
                    let change = DiskChange::Erased(partition, directory);
                    self.observe(Fact::Disk { node, change });
                }
                let entries = disk.list(&dir).unwrap_or_default();
                for entry in entries {
                    let _ = disk.remove_file(&dir.join(entry.name));
                }
                let _ = disk.remove_dir(&dir);
                let _ = disk.sync_dir(&partition_dir(partition));
            }
        }
    }
}

/// The segments of a directory that have any bytes, in the order of their records, with their lengths.
fn segments(disk: &MemDisk, dir: &Path) -> Vec<(PathBuf, u64)> {
    let entries = disk.list(dir).unwrap_or_default();
    let names = entries.iter().map(|entry| Path::new(&entry.name));
    let mut segments: Vec<(PathBuf, u64)> = names
        .filter(|name| name.extension().is_some_and(|end| end == "seg"))
        .filter_map(|name| {
            let path = dir.join(name);
            let bytes = disk.metadata(&path).ok()??.bytes;
            (bytes > 0).then_some((path, bytes))
        })
        .collect();
    segments.sort();
    segments
}
