//! What waits for one topic and for each of its partitions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::interface::{SendFault, Seqs};
use super::ledger::Ledger;
use super::queue::{Item, Kind, Queue, Unplaced};
use crate::effects::OpId;
use crate::ids::{Epoch, FreezeNo, MoveId, NodeId, PartitionId, TopicId};
use crate::metastore::{Assignment, State, Status};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

/// What waits for the partitions of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Topic {
    pub(super) id: TopicId,
    /// How many it has; `None` while this node's replica does not have the topic.
    pub(super) partitions: Option<u32>,
    /// What came while that was not known.
    pub(super) unplaced: Queue<Unplaced>,
    /// The partitions for which something waits or is under way.
    pub(super) lanes: BTreeMap<u32, Lane>,
    /// What may go anywhere.
    pub(super) loose: Queue<Item>,
    /// Shut partitions with keyed records that may leave.
    pub(super) strays: BTreeSet<u32>,
    /// The number of the next batch for each partition that was ever sent one.
    pub(super) numbers: BTreeMap<u32, u64>,
    /// The partition at which the search for room goes on.
    pub(super) cursor: u32,
    /// Whether it has a turn among those with something that may go anywhere.
    pub(super) has_turn: bool,
    /// Whether some of it is being carried: what may go anywhere stays meanwhile.
    pub(super) carrying: bool,
    /// Whether the topic is gone, and only the last answers are waited for.
    pub(super) is_over: bool,
}

/// What waits for one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// Asked for by number: these always wait.
    pub(super) numbered: Queue<Item>,
    /// Asked for by key: these may leave while the partition is shut.
    pub(super) keyed: Queue<Item>,
    next_turn: u32,
    /// What was sent here, or is about to be: bound to this partition.
    pub(super) batch: Option<Batch>,
    /// At which node it has a turn.
    pub(super) turn_at: Option<NodeId>,
    /// Whether its records are being carried: nothing of them is sent meanwhile.
    pub(super) carrying: bool,
    /// Sends in a row that were not taken.
    pub(super) failures: u32,
    /// Nothing is sent before.
    pub(super) pause: Option<Instant>,
    /// Since when it takes nothing, by fault or for want of an owner.
    pub(super) held_since: Option<Instant>,
    /// Whether it has taken nothing for so long that keyed records leave.
    pub(super) is_late: bool,
    /// What was last noted.
    pub(super) noted: Option<SendFault>,
    /// The row when it was last looked at.
    pub(super) seen: Option<Seen>,
    /// When it is to be looked at again.
    pub(super) alarm: Option<Instant>,
}

/// The part of a row that makes another try worthwhile when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) owner: NodeId,
    pub(super) epoch: Epoch,
    move_id: MoveId,
    revoked: Option<FreezeNo>,
}

impl From<&Assignment> for Seen {
    fn from(row: &Assignment) -> Self {
        let &Assignment { owner, epoch, move_id, revoked, .. } = row;
        Self { owner, epoch, move_id, revoked }
    }
}

/// Records that go to one partition together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    pub(super) n: u64,
    pub(super) items: Vec<Item>,
    /// How many of them, from the first, go under this number; the others go under the next ones,
    /// since an owner found them too long together.
    pub(super) piece: usize,
    /// Whose the stray ones among them are.
    pub(super) strays_of: Option<u32>,
    pub(super) sending: Option<Sending>,
    /// Whether an owner may have it.
    pub(super) has_left: bool,
    /// In which reign it was found frozen, if that was the last answer.
    pub(super) frozen_in: Option<Epoch>,
}

/// A batch on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sending {
    pub(super) op: OpId,
    pub(super) to: NodeId,
    pub(super) epoch: Epoch,
    pub(super) at: Instant,
    pub(super) is_cancelled: bool,
}

/// How much goes into one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Limits {
    pub(super) records: usize,
    pub(super) bytes: u64,
}

impl Topic {
    pub(super) fn new(id: TopicId) -> Self {
        Self {
            id,
            partitions: None,
            unplaced: Queue::default(),
            lanes: BTreeMap::new(),
            loose: Queue::default(),
            strays: BTreeSet::new(),
            numbers: BTreeMap::new(),
            cursor: 0,
            has_turn: false,
            carrying: false,
            is_over: false,
        }
    }

    pub(super) const fn partition(&self, index: u32) -> PartitionId {
        PartitionId { topic: self.id, index }
    }

    /// Whether something waits that may go to more than one partition.
    pub(super) fn has_loose(&self) -> bool {
        !self.carrying && (!self.loose.is_empty() || !self.strays.is_empty())
    }

    /// Puts a record where it belongs. Returns the partition that it waits for, if it is one.
    pub(super) fn place(&mut self, low: u32, kind: Kind, route: u64, bytes: u32) -> Option<u32> {
        let Some(partitions) = self.partitions else {
            self.unplaced.push_back(Unplaced::new(low, kind, route, bytes));
            return None;
        };
        let (kind, index) = match kind {
            Kind::Numbered => match u32::try_from(route) {
                Ok(index) if index < partitions => (kind, index),
                Ok(_) | Err(_) => (Kind::Loose, 0),
            },
            Kind::Keyed => {
                let index = route % u64::from(partitions.max(1));
                (kind, u32::try_from(index).expect("less than the number of partitions"))
            }
            Kind::Loose | Kind::Stray => (Kind::Loose, 0),
        };
        if kind == Kind::Loose {
            self.loose.push_back(Item::new(low, 0, kind, bytes));
            return None;
        }
        let lane = self.lanes.entry(index).or_default();
        let item = Item::new(low, lane.next_turn, kind, bytes);
        lane.next_turn = lane.next_turn.wrapping_add(1);
        if kind == Kind::Keyed {
            lane.keyed.push_back(item);
        } else {
            lane.numbered.push_back(item);
        }
        Some(index)
    }

    /// Gathers the oldest records for a partition: its own, and with `loose` also what may go
    /// anywhere. `None` if there is nothing.
    pub(super) fn gather(
        &mut self,
        index: u32,
        loose: bool,
        limits: Limits,
        ledger: &Ledger,
    ) -> Option<Batch> {
        let stray = self.strays.iter().copied().find(|&from| from != index).filter(|_| loose);
        let mut own = self.lanes.remove(&index).unwrap_or_default();
        let mut from = stray.and_then(|from| self.lanes.remove(&from)).unwrap_or_default();
        let (mut items, mut bytes, mut strays_of) = (Vec::new(), 0_u64, None);
        while items.len() < limits.records {
            let older = |one: Option<Item>, other: Option<Item>| match (one, other) {
                (Some(a), Some(b)) if ledger.age(b.low) < ledger.age(a.low) => Some(b),
                (None, only) | (only, _) => only,
            };
            let astray = from.keyed.front().map(|item| item.of_kind(Kind::Stray));
            let anywhere = self.loose.front().copied().filter(|_| loose);
            let Some(item) = older(older(own.first(), anywhere), astray) else { break };
            let size = u64::from(item.bytes());
            if !items.is_empty() && bytes + size > limits.bytes {
                break;
            }
            bytes += size;
            items.push(item);
            match item.kind() {
                Kind::Numbered => own.numbered.pop_front(),
                Kind::Keyed => own.keyed.pop_front(),
                Kind::Loose => self.loose.pop_front(),
                Kind::Stray => {
                    strays_of = stray;
                    from.keyed.pop_front()
                }
            };
        }
        self.lanes.insert(index, own);
        if let Some(stray) = stray {
            self.lanes.insert(stray, from);
        }
        let n = self.numbers.get(&index).copied().unwrap_or(0);
        let frozen_in = None;
        (!items.is_empty()).then_some(Batch {
            n,
            piece: items.len(),
            items,
            strays_of,
            sending: None,
            has_left: false,
            frozen_in,
        })
    }

    /// Puts the records of a batch that nobody has seen back to the front of where they were.
    pub(super) fn scatter(&mut self, index: u32, batch: Batch) {
        for item in batch.items.into_iter().rev() {
            match item.kind() {
                Kind::Numbered if is_planted(Bug::RefusedGoesLast) => {
                    self.lane_of(index, item).numbered.push_back(item);
                }
                Kind::Numbered => self.lane_of(index, item).numbered.push_front(item),
                Kind::Keyed => self.lane_of(index, item).keyed.push_front(item),
                Kind::Loose => self.loose.push_front(item),
                Kind::Stray => {
                    let home = batch.strays_of.expect("a stray has a home");
                    let item = item.of_kind(Kind::Keyed);
                    self.lane_of(home, item).keyed.push_front(item);
                }
            }
        }
    }

    /// Returns a lane; one that is made for the sake of an item goes on counting after it.
    fn lane_of(&mut self, index: u32, item: Item) -> &mut Lane {
        let next_turn = item.turn.wrapping_add(1);
        self.lanes.entry(index).or_insert_with(|| Lane { next_turn, ..Lane::default() })
    }

    /// Returns whether there is nothing left of it but numbers.
    pub(super) fn is_idle(&self) -> bool {
        self.unplaced.is_empty() && self.loose.is_empty() && self.lanes.is_empty()
    }
}

impl Lane {
    /// Returns the oldest record that has not been sent.
    fn first(&self) -> Option<Item> {
        match (self.numbered.front().copied(), self.keyed.front().copied()) {
            (Some(a), Some(b)) if b.before(a) => Some(b),
            (None, only) | (only, _) => only,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.batch.is_none() && self.numbered.is_empty() && self.keyed.is_empty()
    }

    /// Whether a batch of it is on its way.
    pub(super) fn is_sending(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.sending.is_some())
    }

    /// Whether something could be sent now.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        !self.is_empty()
            && !self.is_sending()
            && !self.carrying
            && self.pause.is_none_or(|until| until <= now)
    }

    /// Whether keyed records that have not been sent here go elsewhere (R45, H23).
    pub(super) fn is_shut(&self, row: Option<&Assignment>, state: &State) -> bool {
        let frozen_in = self.batch.as_ref().and_then(|batch| batch.frozen_in);
        self.is_late
            || row.is_some_and(|row| frozen_in == Some(row.epoch) || !is_live(state, row.owner))
    }

    /// Notes that it takes nothing.
    pub(super) fn hold(&mut self, now: Instant) {
        self.held_since.get_or_insert(now);
    }

    /// Forgets what held it up.
    pub(super) fn let_go(&mut self) {
        self.failures = 0;
        self.pause = None;
        self.held_since = None;
        self.is_late = false;
    }
}

impl Batch {
    /// Returns the positions of the records that are sent under its number.
    pub(super) fn seqs(&self, ledger: &Ledger) -> Seqs {
        let mut seqs = Seqs::default();
        for item in self.items.iter().take(self.piece) {
            seqs.push(ledger.seq(item.low));
        }
        seqs
    }
}

/// Whether a node is there to serve, as the log has it.
pub(super) fn is_live(state: &State, node: NodeId) -> bool {
    state.member(node).is_some_and(|member| member.status == Status::Alive && !member.retired)
}
