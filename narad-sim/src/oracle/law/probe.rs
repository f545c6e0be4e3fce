//! What if: entries that did not come, but might have.
//!
//! A guard of the fold only shows when an entry meets it, and most schedules never bring the entry
//! that meets a missing one: a copy of an old flip, a command in the name of another node, a plan
//! for what is no more. So the law asks on: of a copy of the state it has the next entries made up,
//! from those that were seen and from what the rows say, each with one thing changed perhaps, and
//! compares what the fold makes of them with what is right. Nothing of it comes into the world.

use std::collections::VecDeque;

use narad_core::ids::{
    Attempt, AttemptNo, Digest, Drain, Epoch, FreezeNo, Generation, Incarnation, LogIndex, MoveId,
    Name, NodeId, Offset, PartitionId, ProposalId, Token, TopicId,
};
use narad_core::metastore::{Assignment, Command, Entry, Expect, Fence, State, Status};

use super::super::sink::Cx;
use super::Law;
use crate::random::Random;

/// Entries in a row that are made up on one copy.
const CHAIN: u64 = 8;
/// Of so many entries one is followed by a chain.
const EVERY: u64 = 3;
/// Entries that are remembered.
const SEEN_MAX: usize = 48;

/// Makes up entries.
#[derive(Debug)]
pub(in super::super) struct Probes {
    seen: VecDeque<Entry>,
    random: Random,
    sequence: u64,
}

impl Default for Probes {
    fn default() -> Self {
        Self { seen: VecDeque::new(), random: Random::root(0x1a77), sequence: 1 << 48 }
    }
}

impl Probes {
    /// An entry was applied for the first time; what might have come after it?
    pub(in super::super) fn follow(
        &mut self,
        index: LogIndex,
        entry: &Entry,
        (state, law): (&State, &Law),
        cx: &mut Cx<'_>,
    ) {
        if self.seen.len() >= SEEN_MAX {
            // Rare commands stay longer than frequent ones.
            let old = self.below(SEEN_MAX / 2);
            let frequent = |entry: &Entry| matches!(entry.command, Command::Report { .. });
            let at = self.seen.iter().position(frequent).unwrap_or(old);
            self.seen.remove(at);
        }
        self.seen.push_back(entry.clone());
        if !index.0.is_multiple_of(EVERY) {
            return;
        }
        let (mut state, mut law) = (state.clone(), law.clone());
        let exodus = self.one_in(4);
        let steps = if exodus { 3 * CHAIN } else { CHAIN };
        for step in 1..=steps {
            let made_up = if exodus { self.leave(&law) } else { self.make_up(&law) };
            let Some(made_up) = made_up else { continue };
            let at = LogIndex(index.0 + step);
            let Ok(outcome) = state.apply(at, &made_up) else { return };
            if !law.compare_supposed(at, &made_up, &outcome, &state, cx) {
                return;
            }
        }
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count.max(1) as u64)).unwrap_or_default()
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn make_up(&mut self, law: &Law) -> Option<Entry> {
        if self.one_in(3) && !self.seen.is_empty() {
            // A copy of what was seen: the very entry, or the command asked for once more.
            let at = self.below(self.seen.len());
            let mut copy = self.seen[at].clone();
            if self.one_in(2) {
                copy.proposal = self.proposal(copy.by);
            }
            if self.one_in(3) {
                copy.by = self.node(law)?;
            }
            return Some(copy);
        }
        let (by, command) = self.command(law)?;
        let by = if self.one_in(8) { self.node(law)? } else { by };
        Some(Entry { proposal: self.proposal(by), by, command })
    }

    /// Makes up what empties nodes and takes them out, one after the other, while others die.
    fn leave(&mut self, law: &Law) -> Option<Entry> {
        if let Some(topic) = law.topics.keys().next().copied() {
            let by = self.node(law)?;
            let command = Command::DeleteTopic { topic };
            return Some(Entry { proposal: self.proposal(by), by, command });
        }
        let node = self.node(law)?;
        let member = law.members.get(&node)?;
        let incarnation = member.incarnation;
        let command = if self.one_in(8) {
            Command::MarkDead { node, incarnation }
        } else if self.one_in(10) {
            let min_voters = u32::try_from(1 + self.random.below(3)).ok()?;
            Command::SetPolicy(narad_core::config::Policy { min_voters, ..law.policy.clone() })
        } else if !member.draining {
            Command::SetDraining { node, on: true }
        } else if !member.drained_out && member.status == Status::Alive {
            Command::DrainedOut { node, incarnation, drain: member.drains }
        } else {
            let receipt = (!self.one_in(3)).then(|| "it is gone".to_owned());
            Command::Retire { node, receipt }
        };
        Some(Entry { proposal: self.proposal(node), by: node, command })
    }

    fn proposal(&mut self, node: NodeId) -> ProposalId {
        self.sequence += 1;
        ProposalId { node, incarnation: Incarnation(1), sequence: self.sequence }
    }

    fn node(&mut self, law: &Law) -> Option<NodeId> {
        let at = self.below(law.members.len());
        law.members.keys().nth(at).copied()
    }

    fn row(&mut self, law: &Law) -> Option<(PartitionId, Assignment)> {
        let at = self.below(law.rows.len());
        let moving: Vec<_> = law.rows.iter().filter(|(_, row)| row.target.is_some()).collect();
        if !moving.is_empty() && self.one_in(2) {
            let (partition, row) = moving[at % moving.len()];
            return Some((*partition, row.clone()));
        }
        law.rows.iter().nth(at).map(|(partition, row)| (*partition, row.clone()))
    }

    /// A number, or one that is nearly it. Mostly the number: an entry in which much is wrong is
    /// refused for the first of that, and says nothing of the other guards.
    fn about(&mut self, number: u64) -> u64 {
        match self.random.below(16) {
            0 => number.saturating_sub(1),
            1 => number + 1,
            _ => number,
        }
    }

    /// The first number that a floor lets pass, or the floor itself.
    fn above(&mut self, floor: u64) -> u64 {
        floor + u64::from(!self.one_in(6))
    }

    fn expect(&mut self, row: &Assignment) -> Expect {
        let epoch = Epoch(self.about(row.epoch.0));
        Expect { owner: row.owner, epoch, move_id: MoveId(self.about(row.move_id.0)) }
    }

    fn attempt(&mut self, row: &Assignment, by: NodeId) -> Attempt {
        if self.one_in(5) {
            let at = self.below(row.lineage.len());
            return row.lineage[at].data;
        }
        let burned = row.burned.unwrap_or(AttemptNo { incarnation: Incarnation(1), n: 1 });
        // Well below the floor, too: what asks late must not lower it.
        let floor = if self.one_in(6) { burned.n.saturating_sub(2) } else { burned.n };
        let n = u32::try_from(self.above(u64::from(floor))).unwrap_or(1);
        let no = AttemptNo { incarnation: burned.incarnation, n };
        Attempt { move_id: MoveId(self.about(row.move_id.0)), destination: by, no }
    }

    fn token(&mut self, law: &Law, row: &Assignment) -> Token {
        let life = law.members.get(&row.owner).map(|owner| owner.incarnation).unwrap_or_default();
        let floor = row.revoked.unwrap_or(FreezeNo { incarnation: life, counter: 1 });
        let incarnation = if self.one_in(2) { life } else { floor.incarnation };
        let incarnation = Incarnation(self.about(incarnation.0));
        let counter = self.above(floor.counter);
        Token { epoch: Epoch(self.about(row.epoch.0)), no: FreezeNo { incarnation, counter } }
    }

    fn generation(&mut self, law: &Law, node: NodeId) -> Generation {
        let deaths = law.members.get(&node).map_or(0, |member| member.deaths.0);
        Generation(self.about(deaths))
    }

    fn end(&mut self, row: &Assignment) -> Offset {
        let reported = row.reported_hwm.unwrap_or_default();
        let least = row.min_end.max(reported);
        // Either bound has a guard of its own.
        match self.random.below(6) {
            0 => Offset(row.min_end.0.saturating_sub(1)),
            1 => Offset(reported.0.saturating_sub(1)),
            2 => Offset(least.0 + 5),
            _ => Offset(self.about(least.0)),
        }
    }

    /// Returns a command and who may ask for it.
    fn command(&mut self, law: &Law) -> Option<(NodeId, Command)> {
        let unborn: u32 = law.topics.values().map(|topic| topic.partitions).sum();
        let unborn = usize::try_from(unborn).unwrap_or_default() > law.rows.len();
        let which = if unborn && self.one_in(3) { 23 } else { self.random.below(26) };
        if which < 14 {
            return self.about_a_row(law, which);
        }
        let node = self.node(law)?;
        let life = law.members.get(&node)?.incarnation;
        let incarnation = Incarnation(self.about(life.0));
        let command = match which {
            14 => Command::MarkDead { node, incarnation },
            15 => {
                let member = law.members.get(&node)?;
                let (store_uuid, addrs) = (member.store_uuid, member.addrs.clone());
                let incarnation = Incarnation(life.0 + self.random.below(3));
                Command::Register { node, store_uuid, incarnation, addrs }
            }
            16 | 17 => Command::SetDraining { node, on: !self.one_in(3) },
            18 | 19 => {
                let drain = Drain(self.about(law.members.get(&node)?.drains.0));
                Command::DrainedOut { node, incarnation, drain }
            }
            20 | 21 => {
                let receipt = self.one_in(2).then(|| "it is gone".to_owned());
                Command::Retire { node, receipt }
            }
            22 => {
                let name = Name::new(format!("made-up-{}", self.random.below(3))).ok()?;
                let partitions = u32::try_from(self.random.below(3)).ok()?;
                Command::CreateTopic { name, partitions, parent: None }
            }
            23 => {
                let unborn = law.topics.values().find_map(|topic| {
                    let mut all = (0..topic.partitions).map(|index| (topic.id, index));
                    let (topic, index) = all.find(|(topic, index)| {
                        let partition = PartitionId { topic: *topic, index: *index };
                        !law.rows.contains_key(&partition)
                    })?;
                    Some(PartitionId { topic, index })
                });
                let partition = match unborn {
                    Some(partition) => partition,
                    None => self.row(law)?.0,
                };
                Command::AssignPartition { partition, node }
            }
            24 => {
                let at = self.below(law.topics.len());
                let topic = law.topics.keys().nth(at).copied().unwrap_or(TopicId(1));
                Command::DeleteTopic { topic }
            }
            _ => {
                let mut policy = law.policy.clone();
                policy.lease *= if self.one_in(2) { 2 } else { 1 };
                policy.force_promote_after *= if self.one_in(2) { 2 } else { 1 };
                policy.dead_timeout /= if self.one_in(3) { 2 } else { 1 };
                policy.min_voters = u32::try_from(1 + self.random.below(4)).ok()?;
                Command::SetPolicy(policy)
            }
        };
        Some((node, command))
    }

    /// Returns a command about one partition.
    fn about_a_row(&mut self, law: &Law, which: u64) -> Option<(NodeId, Command)> {
        let (partition, row) = self.row(law)?;
        let target = match row.target {
            Some(target) => target,
            None => self.node(law)?,
        };
        let (expect, attempt) = (self.expect(&row), self.attempt(&row, target));
        Some(match which {
            0 | 1 => {
                let to = self.node(law)?;
                (to, Command::SetTarget { partition, expect, to })
            }
            2 => (target, Command::ClearTarget { partition, move_id: expect.move_id }),
            3..=6 => {
                let dead = law.members.get(&row.owner).map(|owner| owner.status);
                let forced = matches!(dead, Some(Status::Dead(_))) || self.one_in(3);
                let fence = if forced {
                    Fence::Forced { generation: self.generation(law, row.owner) }
                } else {
                    Fence::Normal { token: self.token(law, &row) }
                };
                let end = self.end(&row);
                let hwm = Offset(if self.one_in(8) { end.0 + 1 } else { end.0 });
                let committed = self.one_in(2).then_some(Offset(self.about(hwm.0)));
                let digest = Digest(0);
                let flip = Command::CompleteMove {
                    partition,
                    expect,
                    attempt,
                    fence,
                    end,
                    hwm,
                    committed,
                    digest,
                };
                (target, flip)
            }
            7 => (attempt.destination, Command::Resolve { partition, attempt }),
            8 => (row.owner, Command::Revoke { partition, token: self.token(law, &row) }),
            9 => {
                let (node, epoch) = (row.owner, expect.epoch);
                let incarnation = law.members.get(&node)?.incarnation;
                let hwms = vec![(partition, epoch, self.end(&row))];
                (node, Command::Report { node, incarnation, hwms })
            }
            10 => {
                let at = self.below(row.lineage.len());
                let node = row.lineage[at.saturating_sub(1)].owner;
                let epoch = row.lineage[at].epoch;
                (node, Command::ReclaimReady { partition, node, epoch })
            }
            11 => (row.owner, Command::SetPin { partition, on: !self.one_in(3) }),
            _ => {
                let to = self.node(law)?;
                let birth = AttemptNo { incarnation: Incarnation(0), n: 0 };
                let no = if self.one_in(2) { birth } else { attempt.no };
                let data = Attempt { destination: to, no, ..attempt };
                let generation = self.generation(law, row.owner);
                let (end, receipt) = (self.end(&row), "it is gone".to_owned());
                let lost =
                    Command::DeclareLost { partition, expect, generation, to, data, end, receipt };
                (to, lost)
            }
        })
    }
}
