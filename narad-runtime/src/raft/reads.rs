//! Read barriers that are asked for until they are answered.
//!
//! The consensus library drops a read request without a word if there is no leader, if the leader
//! has committed nothing in its term yet, and whenever its role changes. So each request is kept
//! here and made again under a fresh name: at once if the leader or term has changed, or if the
//! leader has become able to answer, and after each election timeout. Requests made between two
//! turns share one name, hence one round of heartbeats.

use super::log::Log;
use super::output::ReadId;
use super::store::RaftStore;
use ::raft::RawNode;
use narad_core::ids::{LogIndex, NodeId};
use std::collections::BTreeMap;

/// The length of a request's name in bytes.
const NAME_BYTES: usize = 24;

/// The barriers of one life of one node that have not passed yet.
#[derive(Debug)]
pub(super) struct Reads {
    id: NodeId,
    life: u64,
    last_id: u64,
    last_round: u64,
    /// Asked for here, not yet of the leader.
    waiting: Vec<ReadId>,
    /// Asked of the leader, by the number in the request's name.
    rounds: BTreeMap<u64, Round>,
    /// Answered, with the index that has to be applied first.
    answered: Vec<(u64, ReadId)>,
}

#[derive(Debug)]
struct Round {
    reads: Vec<ReadId>,
    standing: Standing,
    tick: u64,
}

/// What decides whether a request can still be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    term: u64,
    leader: u64,
    /// Whether an entry of this term is known to be committed: only then is it certain that the
    /// leader answers.
    settled: bool,
}

impl Reads {
    pub(super) fn new(id: NodeId, life: u64) -> Self {
        Self {
            id,
            life,
            last_id: 0,
            last_round: 0,
            waiting: Vec::new(),
            rounds: BTreeMap::new(),
            answered: Vec::new(),
        }
    }

    /// Registers a read. It is asked of the leader with the next turn.
    pub(super) fn register(&mut self) -> ReadId {
        self.last_id += 1;
        let id = ReadId(self.last_id);
        self.waiting.push(id);
        id
    }

    /// Whether nobody waits for anything.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.rounds.is_empty() && self.answered.is_empty()
    }

    pub(super) fn cancel(&mut self, id: ReadId) {
        self.waiting.retain(|read| *read != id);
        self.answered.retain(|(_, read)| *read != id);
        self.rounds.values_mut().for_each(|round| round.reads.retain(|read| *read != id));
        self.rounds.retain(|_, round| !round.reads.is_empty());
    }

    /// Asks the leader for everything that waits, and again for what it may have dropped.
    pub(super) fn ask<S: RaftStore>(
        &mut self,
        node: &mut RawNode<Log<S>>,
        tick: u64,
        timeout_ticks: u64,
    ) {
        if self.rounds.is_empty() && self.waiting.is_empty() {
            return;
        }
        let now = Standing {
            term: node.raft.term,
            leader: node.raft.leader_id,
            settled: node.raft.commit_to_current_term(),
        };
        let lost = |round: &Round| round.standing != now || tick - round.tick >= timeout_ticks;
        let lost = self.rounds.extract_if(.., |_, round| lost(round));
        self.waiting.extend(lost.flat_map(|(_, round)| round.reads));

        // A follower may know less than its leader, so it asks even before it knows of a
        // committed entry; the leader itself knows that it would drop the request.
        let leads = now.leader == self.id.0;
        if self.waiting.is_empty() || now.leader == 0 || (leads && !now.settled) {
            return;
        }
        self.last_round += 1;
        let reads = std::mem::take(&mut self.waiting);
        self.rounds.insert(self.last_round, Round { reads, standing: now, tick });
        node.read_index(self.name(self.last_round));
    }

    /// Takes the library's answer to a request. Answers to earlier names are ignored.
    pub(super) fn answer(&mut self, name: &[u8], index: u64) {
        let Some(number) = name.get(16..).and_then(|bytes| bytes.try_into().ok()) else {
            return;
        };
        let number = u64::from_le_bytes(number);
        if name != self.name(number) {
            return;
        }
        if let Some(round) = self.rounds.remove(&number) {
            self.answered.extend(round.reads.into_iter().map(|read| (index, read)));
        }
    }

    /// Returns the barriers that an applied index lets pass.
    pub(super) fn passed(&mut self, applied: u64) -> Vec<(ReadId, LogIndex)> {
        if self.answered.is_empty() {
            return Vec::new();
        }
        let (passed, kept) = std::mem::take(&mut self.answered)
            .into_iter()
            .partition(|(index, _)| *index <= applied);
        self.answered = kept;
        let passed: Vec<(u64, ReadId)> = passed;
        passed.into_iter().map(|(index, read)| (read, LogIndex(index))).collect()
    }

    /// Names a request: node, life and number. Unique in the cluster and across restarts, so that
    /// a late answer from before a restart, which may be older than what was committed since, is
    /// never taken for a present one.
    fn name(&self, number: u64) -> Vec<u8> {
        [self.id.0, self.life, number].iter().flat_map(|part| part.to_le_bytes()).collect()
    }
}

/// Returns whether a request's name is one that this node would have made.
pub(super) fn is_name_of(node: NodeId, name: &[u8]) -> bool {
    name.len() == NAME_BYTES && name[..8] == node.0.to_le_bytes()
}
