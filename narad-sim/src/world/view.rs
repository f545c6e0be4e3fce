//! What the oracle may look at: disks, gates, machines and links, and nothing that a node says.

use std::path::Path;

use narad_core::ids::{NodeId, PartitionId, Seq};
use narad_core::node::Node;
use narad_core::time::Instant;
use narad_runtime::disk::mem::Keep;
use narad_runtime::disk::{Disk, MemDisk};
use narad_runtime::ingress;
use narad_runtime::log::scan;
use narad_runtime::store::{log_dir, parse_attempt, partition_dir, staging_dir};

use super::ingress::INGRESS;
use super::machine::Machine;
use super::records::id_of;
use crate::metastore::AbstractLog;
use crate::net::Net;
use crate::oracle::{Directory, LogView, Look};
use crate::time::Time;

/// The world, as the oracle sees it.
pub(crate) struct View<'a> {
    pub(crate) now: Time,
    pub(crate) machines: &'a [Machine],
    pub(crate) by_node: &'a [Option<usize>],
    pub(crate) net: &'a Net,
    pub(crate) log: Option<&'a AbstractLog>,
}

impl View<'_> {
    fn machine(&self, node: NodeId) -> Option<&Machine> {
        let at = self.by_node.get(usize::try_from(node.0).ok()?).copied().flatten()?;
        self.machines.get(at)
    }
}

impl Look for View<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn up(&self) -> Vec<NodeId> {
        let up = |machine: &&Machine| machine.process.is_some();
        let mut nodes: Vec<NodeId> =
            self.machines.iter().filter(up).filter_map(|machine| machine.node).collect();
        nodes.sort_unstable();
        nodes
    }

    fn local(&self, node: NodeId) -> Option<Instant> {
        Some(self.machine(node)?.clock.local(self.now))
    }

    fn node(&self, node: NodeId) -> Option<&Node> {
        Some(self.machine(node)?.process.as_ref()?.replica.node())
    }

    fn leader(&self) -> Option<NodeId> {
        if let Some(log) = self.log {
            // It has no terms: whoever was deposed may believe that it leads for a while.
            return log.leader().filter(|node| self.node(*node).is_some());
        }
        let leads = |machine: &&Machine| {
            let process = machine.process.as_ref()?;
            let node = machine.node?;
            (process.replica.node().leader() == Some(node))
                .then_some((process.replica.term(), node))
        };
        self.machines.iter().filter_map(|machine| leads(&machine)).max().map(|(_, node)| node)
    }

    fn talks(&self, a: NodeId, b: NodeId) -> bool {
        let at = |node: NodeId| {
            let at = self.by_node.get(usize::try_from(node.0).ok()?).copied().flatten()?;
            let machine = &self.machines[at];
            let talks = machine.process.is_some() && machine.paused.is_none();
            talks.then(|| super::traffic::address(at))
        };
        match (at(a), at(b)) {
            (Some(a), Some(b)) => self.net.talks(a, b),
            _ => false,
        }
    }

    fn would_ack(&self, node: NodeId, partition: PartitionId) -> bool {
        let Some(machine) = self.machine(node) else { return false };
        let Some(process) = machine.process.as_ref() else { return false };
        process.ground.set_now(machine.clock.local(self.now));
        process.broker.find(partition).is_some_and(|seat| seat.slot.commits())
    }

    fn log(&self, node: NodeId, partition: PartitionId, directory: Directory) -> Option<LogView> {
        let disk = MemDisk::of(&self.machine(node)?.disk.image(Keep::Nothing));
        let dir = match directory {
            Directory::Installed(attempt) => log_dir(partition, attempt),
            Directory::Staging => staging_dir(partition),
        };
        read_log(&disk, &dir)
    }

    fn directories(&self, node: NodeId, partition: PartitionId) -> Vec<Directory> {
        let Some(machine) = self.machine(node) else { return Vec::new() };
        let Ok(entries) = machine.disk.list(&partition_dir(partition)) else { return Vec::new() };
        let directory = |name: &str| match parse_attempt(name) {
            Some(attempt) => Some(Directory::Installed(attempt)),
            None => (name == "staging").then_some(Directory::Staging),
        };
        entries.iter().filter_map(|entry| directory(&entry.name)).collect()
    }

    fn ingress(&self, node: NodeId) -> Vec<u64> {
        let Some(machine) = self.machine(node) else { return Vec::new() };
        let disk = MemDisk::of(&machine.disk.image(Keep::Nothing));
        let found = ingress::scan(&disk, Path::new(INGRESS));
        let waiting = found.map(|found| found.waiting).unwrap_or_default();
        waiting.iter().map(|(_, parcel)| id_of(&parcel.record)).collect()
    }

    fn found_shut(&self, node: NodeId) -> bool {
        self.machine(node)
            .and_then(|it| it.process.as_ref())
            .is_some_and(|process| process.accepting.was_shut)
    }

    fn ingress_rest(&self, node: NodeId) -> Option<(Seq, Seq)> {
        let log = &self.machine(node)?.process.as_ref()?.accepting.log;
        Some((log.checkpointed(), log.next()))
    }
}

fn read_log(disk: &dyn Disk, dir: &Path) -> Option<LogView> {
    let found = scan(disk, dir).ok()?;
    let records = found.records.iter().map(|(offset, record)| (*offset, id_of(record))).collect();
    Some(LogView { start: found.start, end: found.end, hwm: found.hwm, records })
}
