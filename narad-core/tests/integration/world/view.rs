//! What a test may want to know of the whole cluster.

use narad_core::metastore::{Member, Status};

use super::{World, ms};

impl World {
    /// Every question to a process that still runs was answered, the newest ones aside.
    pub(crate) fn check_everybody_was_answered(&self) {
        for (id, asked) in &self.requests {
            let gone = self.life(asked.to) != asked.there || !self.is_up(asked.to);
            let fresh = self.now.since(asked.at) < ms(3_000);
            assert!(gone || fresh, "{id:?}, {asked:?}, was never answered");
        }
    }

    /// Returns whether every partition rests where it should, and is served there.
    pub(crate) fn is_settled(&self) -> bool {
        self.log.state.unassigned().len() == 0
            && self.log.state.targeted().len() == 0
            && self.log.state.assignments().all(|(partition, row)| {
                self.is_up(row.owner) && self.node(row.owner).serving(partition) == Some(row.epoch)
            })
            && self.is_balanced()
    }

    fn is_balanced(&self) -> bool {
        let counts: Vec<usize> = self
            .log
            .state
            .members()
            .filter(|member| member.is_receiver())
            .map(|member| self.log.state.owned_count(member.id))
            .collect();
        let (most, least) = (counts.iter().max(), counts.iter().min());
        let spread = most.zip(least).map_or(0, |(most, least)| most - least);
        let leaver = |member: &&Member| member.draining && member.status == Status::Alive;
        spread <= 1
            && self
                .log
                .state
                .members()
                .filter(leaver)
                .all(|member| self.log.state.owned_count(member.id) == 0)
    }

    pub(crate) fn describe(&self) -> String {
        let rows: Vec<String> = self
            .log
            .state
            .assignments()
            .map(|(partition, row)| {
                let serving = self
                    .machines
                    .get(&row.owner)
                    .and_then(|machine| machine.process.as_ref()?.node.serving(partition));
                format!(
                    "{partition:?} {:?} {:?} -> {:?} {:?} served {serving:?}",
                    row.owner, row.epoch, row.target, row.move_id
                )
            })
            .collect();
        let members: Vec<String> = self
            .log
            .state
            .members()
            .map(|member| {
                let moves: Vec<_> = self.machines[&member.id]
                    .process
                    .iter()
                    .flat_map(|process| process.node.moves())
                    .map(|(p, progress)| {
                        format!("{p:?} {:?} {:?}", progress.phase, progress.waiting)
                    })
                    .collect();
                format!(
                    "{:?} {:?} {:?} draining {} out {} retired {} {moves:?}",
                    member.id,
                    member.status,
                    member.incarnation,
                    member.draining,
                    member.drained_out,
                    member.retired
                )
            })
            .collect();
        let last: Vec<String> =
            self.notes.iter().rev().take(12).map(|(id, note)| format!("{id:?} {note:?}")).collect();
        format!(
            "at {:?}, step {}, leader {:?}, {:?}\n{}\n{}\nlast: {}",
            self.now,
            self.steps,
            self.log.leader,
            self.log.state.configuration(),
            rows.join("\n"),
            members.join("\n"),
            last.join("\n  ")
        )
    }
}
