//! The replicated log: one list, and the state that it makes.

use std::time::Duration;

use narad_core::config::Policy;
use narad_core::controller::Change;
use narad_core::ids::*;
use narad_core::metastore::{
    Addresses, Applied, Command, Configuration, Entry, Outcome as Folded, Reply, State,
};
use narad_core::node::{Event, Outcome};

use super::{Due, World, ms, n};

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Entry(Entry),
    Configuration(Configuration),
    Empty,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) items: Vec<Item>,
    /// What all items together come to.
    pub(crate) state: State,
    /// Who really leads.
    pub(crate) leader: Option<NodeId>,
    made_up: u64,
}

impl Log {
    /// Begins a cluster whose members have joined, but not registered.
    pub(crate) fn bootstrap(&mut self, nodes: u64, policy: &Policy) {
        let voters = (1..=nodes).map(n).collect();
        self.configure(Configuration { voters, ..Configuration::default() });
        self.say(Command::SetPolicy(policy.clone()));
        for id in 1..=nodes {
            let joined = self.say(join(n(id)));
            assert_eq!(joined, Reply::Applied(Applied::Joined(n(id))));
        }
    }

    pub(crate) fn last(&self) -> LogIndex {
        LogIndex(self.items.len() as u64)
    }

    /// Commits a command that no node has proposed.
    pub(crate) fn say(&mut self, command: Command) -> Reply {
        self.made_up += 1;
        let proposal =
            ProposalId { node: n(999), incarnation: Incarnation(1), sequence: self.made_up };
        self.append(&Entry { proposal, by: n(999), command }).reply
    }

    pub(crate) fn append(&mut self, entry: &Entry) -> Folded {
        self.items.push(Item::Entry(entry.clone()));
        self.state.apply(self.last(), entry).expect("every command is known")
    }

    pub(crate) fn configure(&mut self, configuration: Configuration) {
        self.items.push(Item::Configuration(configuration.clone()));
        self.state.configure(self.last(), configuration).expect("it is the next");
    }

    pub(crate) fn skip(&mut self) {
        self.items.push(Item::Empty);
        self.state.skip(self.last()).expect("it is the next");
    }
}

pub(crate) fn join(id: NodeId) -> Command {
    Command::Join {
        name: Name::new(format!("narad-{id}")).unwrap(),
        store_uuid: StoreUuid(id.0.into()),
        addrs: Addresses::default(),
    }
}

impl World {
    /// A node that believes it leads appends an entry. Returns whether it says so.
    pub(crate) fn append(&mut self, id: NodeId, entry: Entry) -> bool {
        if self.machines[&id].believes != Some(id) {
            return false;
        }
        if self.log.leader != Some(id) || !self.has_quorum(id) {
            // A deposed leader's entry is lost, or comes back with somebody who has it.
            if self.happens(self.faults.museum_percent) {
                self.schedule(ms(5_000), Due::Commit(Box::new(entry)));
            }
            return true;
        }
        if self.happens(self.faults.museum_percent) {
            let late = ms(100 + self.draw(9_000));
            self.schedule(late, Due::Commit(Box::new(entry.clone())));
        }
        if !self.happens(self.faults.lose_append_percent) {
            self.commit(&entry);
        }
        true
    }

    pub(crate) fn commit(&mut self, entry: &Entry) -> Folded {
        let before = self.log.state.clone();
        let folded = self.log.append(entry);
        self.check_entry(&before, entry, &folded);
        self.apply_everywhere();
        folded
    }

    pub(crate) fn say(&mut self, command: Command) -> Reply {
        let reply = self.log.say(command);
        self.apply_everywhere();
        reply
    }

    fn apply_everywhere(&mut self) {
        let all: Vec<NodeId> = self.machines.keys().copied().collect();
        for id in all {
            self.apply_soon(id);
        }
    }

    pub(crate) fn apply_soon(&mut self, id: NodeId) {
        let lag = self.machines[&id].lag + self.delay();
        self.schedule(lag, Due::Apply(id));
    }

    /// Applies whatever a node can get hold of.
    pub(crate) fn apply(&mut self, id: NodeId) {
        let hears = self.log.leader.is_some_and(|leader| {
            self.is_up(leader) && self.reaches(leader, id) && self.reaches(id, leader)
        });
        if !self.is_up(id) || !hears || !self.takes_part(id) {
            return;
        }
        let life = self.machines[&id].processes;
        loop {
            let Some(process) = self.process(id, life) else { return };
            let at = process.node.state().applied().0;
            let Some(item) = usize::try_from(at).ok().and_then(|at| self.log.items.get(at)) else {
                break;
            };
            let index = LogIndex(at + 1);
            let event = match item.clone() {
                Item::Entry(entry) => Event::Committed { index, entry },
                Item::Configuration(configuration) => Event::Configured { index, configuration },
                Item::Empty => Event::Skipped { index },
            };
            self.tell(id, life, event);
        }
        self.answer_barriers(id, life);
        let machine = self.machines.get_mut(&id).unwrap();
        if let Some(process) = &machine.process
            && process.node.state().applied().0 >= machine.snapshot.applied().0 + 16
        {
            machine.snapshot = process.node.state().clone();
        }
    }

    /// Gives a node the whole state at once, as a snapshot does.
    pub(crate) fn jump(&mut self, id: NodeId) {
        let life = self.machines[&id].processes;
        let state = Box::new(self.log.state.clone());
        self.tell(id, life, Event::Restored(state));
        self.answer_barriers(id, life);
    }

    /// A barrier holds only if the node reaches the leader, and that a majority.
    pub(crate) fn barrier_arrives(&mut self, id: NodeId, life: u64, op: narad_core::effects::OpId) {
        let confirmed = self.log.leader.is_some_and(|leader| {
            self.has_quorum(leader) && self.reaches(id, leader) && self.reaches(leader, id)
        });
        let last = self.log.last();
        let takes_part = self.takes_part(id);
        let Some(process) = self.process(id, life) else { return };
        if let Some((index, _)) = process.barriers.get_mut(&op)
            && confirmed
            && takes_part
        {
            *index = Some(last);
            self.answer_barriers(id, life);
        }
    }

    fn answer_barriers(&mut self, id: NodeId, life: u64) {
        let Some(process) = self.process(id, life) else { return };
        let applied = process.node.state().applied();
        let passed: Vec<_> = process
            .barriers
            .iter()
            .filter_map(|(op, (index, survey))| Some((*op, (*index)?, *survey)))
            .filter(|(_, index, _)| *index <= applied)
            .collect();
        for (op, index, survey) in passed {
            let outcome = if survey {
                let matched = self.machines.iter().filter_map(|(id, machine)| {
                    Some((*id, machine.process.as_ref()?.node.state().applied()))
                });
                Outcome::Survey(Some((index, matched.collect())))
            } else {
                Outcome::Barrier(Some(index))
            };
            self.done(id, life, op, outcome);
        }
    }

    pub(crate) fn configure(&mut self, id: NodeId, change: Change) -> bool {
        if self.log.leader != Some(id) || !self.has_quorum(id) {
            return false;
        }
        let mut next = self.log.state.configuration().clone();
        match change {
            Change::AddLearner(node) => {
                next.learners.insert(node);
            }
            Change::Promote(node) => {
                next.learners.remove(&node);
                next.voters.insert(node);
            }
            Change::Remove(node) => {
                next.learners.remove(&node);
                next.voters.remove(&node);
            }
            Change::Replace { add, remove } => {
                next.learners.remove(&add);
                next.voters.insert(add);
                next.voters.remove(&remove);
            }
            Change::LeaveJoint => next.voters_outgoing.clear(),
        }
        self.check_configuration(&next);
        self.log.configure(next);
        self.apply_everywhere();
        true
    }

    /// A new machine joins by asking a member; it starts once it has an id.
    pub(crate) fn join(&mut self, id: NodeId) {
        let reply = self.say(join(id));
        assert_eq!(reply, Reply::Applied(Applied::Joined(id)));
        let snapshot = State::new();
        self.add_machine(id, snapshot);
        self.start(id);
    }

    pub(crate) fn transfer(&mut self, to: NodeId) {
        if self.machines.contains_key(&to) && self.has_quorum(to) {
            self.elect(to);
        }
    }

    pub(crate) const SECOND: Duration = Duration::from_secs(1);
}
