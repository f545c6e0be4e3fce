//! What heals between the two phases.

use std::collections::BTreeSet;

use super::super::traffic::address;
use super::super::{Due, World};
use crate::metastore::Faults;
use crate::net::{Parcel, Slow};
use crate::time::Time;

impl World {
    /// Makes links, disks, clocks and processes whole again.
    pub(crate) fn heal_everything(&mut self) {
        let parcels: Vec<(Parcel, Time)> = self.net.heal_all(self.now);
        self.release_parcels(parcels);
        let all: Vec<usize> = (0..self.machines.len()).collect();
        self.heal_machines(&all);
    }

    /// Makes a core whole, and the links within it; the rest stays as it is.
    pub(crate) fn heal_core(&mut self) {
        let core = self.core();
        for from in &core {
            for to in &core {
                let (from, to) = (address(*from), address(*to));
                self.net.heal(from, to);
                self.net.slow(from, to, Slow::default());
                let parcels = self.net.unclog(self.now, from, to);
                self.release_parcels(parcels);
            }
        }
        self.heal_machines(&core);
    }

    /// Returns a majority of the voters, those that run first, and the owner of every partition.
    fn core(&self) -> Vec<usize> {
        let Some(state) = self.newest() else { return (0..self.machines.len()).collect() };
        let configuration = state.configuration();
        let mut core = BTreeSet::new();
        for side in [&configuration.voters, &configuration.voters_outgoing] {
            let mut voters: Vec<usize> =
                side.iter().filter_map(|node| self.machine_of(*node)).collect();
            voters.sort_by_key(|at| !self.up[*at]);
            core.extend(voters.into_iter().take(side.len() / 2 + 1));
        }
        let owners = state.assignments().filter_map(|(_, row)| self.machine_of(row.owner));
        core.extend(owners);
        core.into_iter().collect()
    }

    /// Makes the wire whole, and these machines.
    fn heal_machines(&mut self, which: &[usize]) {
        let healed = self.net.wire().healed();
        self.net.set_wire(healed);
        // The wire is the same for all; a message that takes for ever must not keep a link from healing.
        for from in 0..self.machines.len() {
            for to in 0..self.machines.len() {
                self.net.reconnect(address(from), address(to));
            }
        }
        for due in self.script.release_all() {
            self.schedule(self.now, due);
        }
        for at in which.iter().copied() {
            let now = self.now;
            self.heal_disk(at);
            let machine = &mut self.machines[at];
            machine.clock.set_rate(now, 0);
            machine.clock.go(now);
            machine.lags_until = Time::ZERO;
            self.catch_up(at);
            self.go_on(at);
            self.clock_changed(at);
            let machine = &self.machines[at];
            let takes_part = machine.node.is_some() || machine.joins_through.is_some();
            if machine.process.is_none() && takes_part {
                self.machines[at].wanted = true;
                self.schedule(now, Due::Start(at));
            }
        }
        if let Some(log) = self.log.as_mut() {
            log.set_faults(Faults::default());
            // Whoever asks the log waits for two hops, and for no longer than for a request.
            log.hurry(self.setup.config.request_timeout / 8);
        }
        self.reach_changed();
    }
}
