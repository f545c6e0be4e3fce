//! What must hold after every event.

use std::collections::BTreeMap;

use narad_core::ids::*;
use narad_core::metastore::{
    Applied, Command, Configuration, Entry, Fence, Outcome as Folded, Reply, State, Status, Verdict,
};
use narad_core::mover::What;

use super::World;

impl World {
    /// S2, after every event.
    pub(super) fn check(&mut self) {
        let mut writers: BTreeMap<PartitionId, Vec<NodeId>> = BTreeMap::new();
        for (id, machine) in &self.machines {
            let Some(process) = &machine.process else { continue };
            for (partition, gate) in &process.gates {
                if gate.may_ack(self.now, process.authority, None).is_ok()
                    && !gate.is_frozen()
                    && process.open.contains_key(partition)
                {
                    writers.entry(*partition).or_default().push(*id);
                }
            }
        }
        for (partition, nodes) in writers {
            assert!(nodes.len() == 1, "S2: {partition:?} has {nodes:?}\n{}", self.describe());
        }
    }

    /// S1: whatever was acknowledged is live, waits on a disk to be salvaged, or was accepted again.
    pub(crate) fn check_nothing_is_lost(&self) {
        for acked in &self.work.acked {
            let Some(row) = self.log.state.assignment(acked.partition) else { continue };
            let live = self.directory(row.owner, acked.partition, row.data);
            let is_live = live.is_some_and(|log| log.holds(acked.content));
            let is_residue = self.machines.values().any(|machine| {
                let area = machine.disk.get(&acked.partition);
                area.is_some_and(|area| {
                    area.installed.iter().any(|(attempt, log)| {
                        let verdict = self.log.state.verdict(acked.partition, *attempt);
                        matches!(verdict, Verdict::Residue { .. }) && log.holds(acked.content)
                    })
                })
            });
            let is_accepted =
                self.machines.values().any(|machine| machine.ingress.contains(&acked.content));
            assert!(
                is_live || is_residue || is_accepted,
                "S1: {acked:?} is nowhere\n{}",
                self.describe()
            );
        }
    }

    pub(crate) fn directory(
        &self,
        id: NodeId,
        partition: PartitionId,
        attempt: Attempt,
    ) -> Option<&super::disk::Directory> {
        self.machines.get(&id)?.disk.get(&partition)?.installed.get(&attempt)
    }

    /// S3, S8, S14, S16 and S18, whenever an entry is committed.
    pub(super) fn check_entry(&self, before: &State, entry: &Entry, folded: &Folded) {
        for (partition, row) in self.log.state.assignments() {
            let Some(old) = before.assignment(partition) else { continue };
            assert!(row.epoch >= old.epoch && row.move_id >= old.move_id, "S16: {partition:?}");
        }
        let Command::CompleteMove { partition, attempt, fence, end, hwm, .. } = &entry.command
        else {
            return;
        };
        let Reply::Applied(Applied::Won(_)) = folded.reply else { return };
        if folded.changed.partitions.is_empty() {
            return;
        }
        assert_eq!(entry.by, attempt.destination, "S18");
        let old = before.assignment(*partition).expect("it was flipped");
        let copy = self.directory(entry.by, *partition, *attempt).expect("S3: it is installed");
        assert_eq!((copy.end(), copy.hwm), (end.0, hwm.0), "S8: what was said is what is there");
        let source = self.directory(old.owner, *partition, old.data).expect("it owned it");
        match fence {
            Fence::Normal { .. } => {
                let (copied, theirs): (Vec<_>, Vec<_>) =
                    (copy.records().collect(), source.records().collect());
                assert_eq!(copied, theirs, "S8: {partition:?}\n{}", self.describe());
                let appending = self.work.is_appending(old.owner, *partition);
                assert!(!appending, "S9: {partition:?}\n{}", self.describe());
            }
            Fence::Forced { .. } => {
                let status = before.member(old.owner).expect("it is a member").status;
                assert!(matches!(status, Status::Dead(_)), "S6");
                assert!(*end >= old.reported_hwm.unwrap_or_default(), "S6, H12");
            }
        }
        self.check_nothing_is_lost();
    }

    /// S10: nothing is set aside that is live, unresolved or missing elsewhere; nor what is staged
    /// from a source that is dead (case C54).
    pub(super) fn check_set_aside(&self, id: NodeId, partition: PartitionId, what: What) {
        let state = &self.log.state;
        match what {
            What::Installed(attempt) => {
                let verdict = state.verdict(partition, attempt);
                assert_eq!(verdict, Verdict::Dead, "S10: {id:?} {partition:?} {attempt:?}");
                let process = self.machines[&id].process.as_ref().expect("it acts");
                assert_ne!(process.open.get(&partition), Some(&attempt), "it is still open");
            }
            What::Staging => {
                let Some(row) = state.assignment(partition) else { return };
                let owner = state.member(row.owner).expect("it is a member");
                let wanted = row.target == Some(id) && owner.status != Status::Alive;
                assert!(!wanted, "C54: {id:?} {partition:?}\n{}", self.describe());
            }
        }
    }

    /// S10, H2: a directory whose flip may have won is not used again.
    pub(super) fn check_restage(&self, id: NodeId, partition: PartitionId, attempt: Attempt) {
        let verdict = self.log.state.verdict(partition, attempt);
        let lost = matches!(verdict, Verdict::Dead | Verdict::Unresolved);
        assert!(lost, "S10: {id:?} {partition:?} {attempt:?} is {verdict:?}");
    }

    /// S15, whenever the voters change.
    pub(super) fn check_configuration(&self, next: &Configuration) {
        let state = &self.log.state;
        let removed = state.configuration().voters.difference(&next.voters);
        for node in removed {
            let member = state.member(*node).expect("it is a member");
            assert!(member.retired, "S15: {node:?} is removed before it is retired");
            assert_eq!(state.owned_count(*node) + state.inbound_count(*node), 0, "S15");
            assert_ne!(self.log.leader, Some(*node), "S15: a leader is not removed");
            let alive = |node: &&NodeId| {
                state.member(**node).is_some_and(|member| member.status == Status::Alive)
            };
            let healthy = next.voters.iter().filter(alive).count();
            assert!(healthy > next.voters.len() / 2, "S15: {next:?}");
            assert!(next.voters.len() >= state.policy().min_voters as usize, "S15: {next:?}");
        }
    }

    /// S14: no more moves run than may, those aside that cannot.
    pub(crate) fn check_slots(&self) {
        let state = &self.log.state;
        let dead = |node: NodeId| state.member(node).is_none_or(|m| m.status != Status::Alive);
        let running = state.targeted().filter(|partition| {
            let row = state.assignment(*partition).expect("it has a target");
            !dead(row.owner) && !row.target.is_some_and(dead)
        });
        assert!(running.count() <= state.policy().max_in_flight as usize, "S14");
    }

    /// Everything that was acknowledged can be read at its owner, or waits for salvage.
    pub(crate) fn check_everything_is_visible(&self) {
        self.check_nothing_is_lost();
        for acked in &self.work.acked {
            let Some(row) = self.log.state.assignment(acked.partition) else { continue };
            let Some(log) = self.live(row.owner, acked.partition) else {
                panic!("{:?} is not open\n{}", acked.partition, self.describe());
            };
            let at = log.records().find(|(_, record)| *record == acked.content);
            if let Some((offset, _)) = at {
                assert!(offset < log.hwm, "{acked:?} is hidden at {offset}, {}", log.hwm);
            }
        }
    }
}
