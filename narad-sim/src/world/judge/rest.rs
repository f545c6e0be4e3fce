//! What has not come to rest.

use narad_core::metastore::Status;

use crate::world::World;

impl World {
    /// Returns everything that has not come to rest.
    pub(crate) fn restless(&self) -> Vec<String> {
        let Some(state) = self.newest() else { return vec!["nobody runs".to_owned()] };
        let mut found = Vec::new();
        for partition in state.unassigned() {
            found.push(format!("{partition} has no owner"));
        }
        for partition in state.targeted() {
            let waits = self.waiting(partition).unwrap_or("under way");
            found.push(format!("{partition} moves: {waits}"));
        }
        for (partition, row) in state.assignments() {
            let serving = self.machine_of(row.owner).and_then(|at| {
                self.machines[at].process.as_ref()?.replica.node().serving(partition)
            });
            if serving != Some(row.epoch) {
                found.push(format!("{partition} is not served in epoch {}", row.epoch));
            }
        }
        for member in state.members() {
            let drains = member.draining && !member.retired && member.status == Status::Alive;
            if drains && state.owned_count(member.id) > 0 {
                found.push(format!("{} drains and owns partitions", member.name));
            }
        }
        found
    }
}
