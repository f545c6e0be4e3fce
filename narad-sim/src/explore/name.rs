//! What makes two worlds one: the name that all have in common which go on alike.

use narad_core::effects::OpId;
use narad_core::ids::NodeId;

use super::hash::{Pool, Shared, name_of};
use super::log::Log;
use super::world::{Captured, Ghost, Machine, Message, World};

/// Parts that the worlds of one search share.
#[derive(Debug, Default)]
pub(super) struct Pools {
    machines: Pool<Machine>,
    logs: Pool<Log>,
    messages: Pool<Message>,
    ghosts: Pool<Ghost>,
}

impl World {
    /// Shares the parts of the world with others that have them.
    pub(super) fn share(&mut self, pools: &mut Pools) {
        for machine in &mut self.machines {
            machine.share(&mut pools.machines);
        }
        self.log.share(&mut pools.logs);
        self.ghost.share(&mut pools.ghosts);
        for message in self.wire.iter_mut().chain(&mut self.held) {
            message.share(&mut pools.messages);
        }
    }

    /// Brings what has no order into one, and drops what nobody will look at again.
    pub(super) fn put_in_order(&mut self) {
        self.forget_common_past();
        self.forget_what_is_over();
        let now = self.now;
        if self.wire.len() > 1 {
            self.wire.sort_by_key(|message| (message.rank(), message.kind(now), message.name()));
        }
        if self.held.len() > 1 {
            self.held.sort_by_key(|message| (message.kind(now), message.name()));
        }
    }

    /// Returns the name that the world has in common with those that go on alike.
    pub(super) fn kind(&self) -> u128 {
        let mut parts: Vec<u128> =
            self.machines.iter().map(|machine| machine.kind(self.now)).collect();
        parts.extend([self.log.kind(self.now), self.ghost.kind(self.now)]);
        // An operation that others speak of goes by its place at the node that runs it.
        let place = |id: NodeId, op: OpId| {
            self.process(id).and_then(|process| process.running.keys().position(|own| *own == op))
        };
        let asked: Vec<_> = self
            .nodes()
            .filter_map(|id| self.process(id))
            .flat_map(|process| process.asked.values().map(|(id, op)| place(*id, *op)))
            .collect();
        let of = |message: &Shared<Message>| {
            let (id, op) = message.asker();
            (message.kind(self.now), place(id, op))
        };
        let wire: Vec<_> = self.wire.iter().map(of).collect();
        let mut held: Vec<_> = self.held.iter().map(of).collect();
        held.sort_unstable();
        let budget = self.budget.effective(self.is_disturbed());
        let unheard = self.heard.iter().filter(|_| budget.kills > 0);
        let unheard: Vec<_> = unheard.map(|heard| self.now.since(*heard)).collect();
        name_of(&(parts, asked, wire, held, budget, unheard))
    }

    /// Whether something is wrong that will not mend by itself.
    pub(super) fn is_disturbed(&self) -> bool {
        !self.held.is_empty()
            || self.machines.iter().any(|machine| {
                machine.cut
                    || machine.lagging
                    || machine
                        .process
                        .as_ref()
                        .is_none_or(|process| process.append.as_ref().is_some_and(|a| a.slow))
            })
    }

    /// Drops freezes that no flip can rest on any more, and sessions of moves that are over.
    fn forget_what_is_over(&mut self) {
        let Some(plan) = self.row().map(|row| row.move_id) else { return };
        let over = |captured: &Captured| !self.could_flip(captured.owner, captured);
        if self.ghost.captures.iter().any(over) {
            let mut captures = self.ghost.captures.clone();
            captures.retain(|captured| !over(captured));
            self.ghost.edit().captures = captures;
        }
        if self.ghost.sessions.iter().any(|session| *session < plan) {
            self.ghost.edit().sessions.retain(|session| *session >= plan);
        }
    }

    /// Drops the entries that everybody has applied: how the state came about is no part of it.
    fn forget_common_past(&mut self) {
        let common = self.nodes().map(|node| self.applied(node)).min().unwrap_or(0);
        if common > self.log.base {
            self.log.edit().forget(common);
        }
    }
}
