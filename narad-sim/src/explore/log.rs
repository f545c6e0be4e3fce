//! The replicated log, as one list that is committed where it is appended.

use narad_core::ids::{Incarnation, LogIndex, Name, NodeId, Offset, ProposalId, TopicId};
use narad_core::metastore::{
    Applied, Command, Configuration, Entry, Member, Outcome as Folded, Reply, State, Status,
};

use super::world::{LOG, World, identity, policy};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Log {
    /// How many entries everybody has applied; they are forgotten.
    pub(super) base: u64,
    entries: Vec<Entry>,
    /// What all entries together come to.
    pub(super) state: State,
}

impl Log {
    /// Begins a cluster of these nodes, and a topic of one partition.
    pub(super) fn bootstrap(nodes: &[NodeId]) -> (Self, TopicId) {
        let mut log = Self { base: 0, entries: Vec::new(), state: State::new() };
        let voters = nodes.iter().copied().collect();
        let configuration = Configuration { voters, ..Configuration::default() };
        log.state.configure(LogIndex(0), configuration).expect("it is the first");
        log.say(Command::SetPolicy(policy()));
        for node in nodes {
            let who = identity(*node);
            let (name, store_uuid, addrs) = (who.name, who.store_uuid, who.addrs);
            log.say(Command::Join { name, store_uuid, addrs });
        }
        let name = Name::new("orders").expect("a word makes a name");
        let created = log.say(Command::CreateTopic { name, partitions: 1, parent: None });
        let Reply::Applied(Applied::Created(topic)) = created else {
            panic!("a topic can be created, but {created:?}")
        };
        log.forget(log.last());
        (log, topic)
    }

    pub(super) fn last(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Returns the entry after so many.
    pub(super) fn after(&self, applied: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(applied.checked_sub(self.base)?).ok()?)
    }

    pub(super) fn forget(&mut self, applied: u64) {
        let passed = usize::try_from(applied - self.base).expect("a small log");
        self.entries.drain(..passed);
        self.base = applied;
    }

    /// Commits what no node has proposed.
    pub(super) fn say(&mut self, command: Command) -> Reply {
        let sequence = self.last();
        let proposal = ProposalId { node: LOG, incarnation: Incarnation(1), sequence };
        self.append(&Entry { proposal, by: LOG, command }).reply
    }

    fn append(&mut self, entry: &Entry) -> Folded {
        self.entries.push(entry.clone());
        let index = LogIndex(self.last());
        self.state.apply(index, entry).expect("every command is known")
    }
}

impl World {
    /// Commits an entry, and judges what it does.
    pub(super) fn commit(&mut self, entry: &Entry) -> Reply {
        let before = self.log.state.clone();
        let folded = self.log.edit().append(entry);
        if let Command::Register { node, .. } = &entry.command {
            self.heard[Self::at(*node)] = self.now;
        }
        self.remember_report(&before, entry);
        self.check_entry(&before, entry, &folded);
        if before.assignment(self.rules.partition).map(|row| row.epoch)
            != self.row().map(|row| row.epoch)
        {
            self.ghost.edit().reported = None;
        }
        folded.reply
    }

    /// Commits a command of the controller or of an operator.
    pub(super) fn command(&mut self, command: Command) -> Reply {
        let sequence = self.log.last();
        let proposal = ProposalId { node: LOG, incarnation: Incarnation(1), sequence };
        self.commit(&Entry { proposal, by: LOG, command })
    }

    fn remember_report(&mut self, before: &State, entry: &Entry) {
        let Command::Report { node, incarnation, hwms } = &entry.command else { return };
        let Some(row) = before.assignment(self.rules.partition) else { return };
        let alive = before.member(*node).is_some_and(|member| member.incarnation == *incarnation);
        if !alive || row.owner != *node {
            return;
        }
        let reported: Option<Offset> = hwms
            .iter()
            .filter(|(partition, epoch, _)| {
                *partition == self.rules.partition && *epoch == row.epoch
            })
            .map(|(_, _, hwm)| *hwm)
            .max();
        let known = self.ghost.reported;
        self.ghost.edit().reported = known.max(reported);
    }

    pub(super) fn member(&self, node: NodeId) -> Option<&Member> {
        self.log.state.member(node)
    }

    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        self.member(node).is_some_and(|member| member.status == Status::Alive)
    }
}
