//! What is known of one partition: its reigns, its records, its freezes.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::ids::{
    Attempt, Epoch, Generation, Incarnation, LogIndex, MoveId, NodeId, Offset, PartitionId, Token,
};
use narad_core::metastore::{Assignment, Fence, Residue};
use narad_core::mover::Waiting;
use narad_core::partition::{Capture, Position};
use narad_core::time::Instant;

use super::Directory;
use super::l2_renewals::Renewed;
use super::s06_reports::Told;
use super::s08_lives::Lives;
use super::sets::Bits;
use crate::time::Time;

/// One partition, from its birth on.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) id: PartitionId,
    /// All reigns, oldest first; unlike the row's lineage never cut.
    pub(super) reigns: Vec<Reign>,
    /// Its topic was deleted.
    pub(super) gone: bool,
    /// Acknowledged records, in the order in which they were (S1, S11).
    pub(super) acked: Vec<Acked>,
    /// When a record was last acknowledged, and when one was last delivered (S11).
    pub(super) grew: Time,
    /// See `grew`.
    pub(super) delivered: Time,
    /// Directories that something other than the machines has changed.
    pub(super) damaged: BTreeSet<(NodeId, Directory)>,
    /// Nodes whose staging was changed so, and the lives in which it was: a life does not read again
    /// what it has staged itself, so that the copy that it makes of it is damaged, too.
    pub(super) rotten: BTreeMap<NodeId, Incarnation>,
    /// When each node last asked its disk to set something aside that has not come to it (S10).
    pub(super) asides: BTreeMap<NodeId, Time>,
    /// Gates that stand as serving (S2).
    pub(super) serving: Vec<Serving>,
    /// Directories that are open.
    pub(super) open: BTreeSet<(NodeId, Attempt)>,
    /// How often its log was opened, anywhere (S11).
    pub(super) openings: u64,
    /// Which of these is the present one of each node.
    pub(super) opening: BTreeMap<NodeId, u64>,
    /// Captures of the present reign (S8, S9).
    pub(super) holds: Vec<Hold>,
    /// Listings that the present owner has answered in its reign: for which move, to whom (S6).
    pub(super) sessions: BTreeSet<(MoveId, NodeId)>,
    /// Flips that were asked for, of the present move (S10).
    pub(super) tries: BTreeMap<Attempt, Vec<Try>>,
    /// Where its consumers stand (S7).
    pub(super) consumers: Consumers,
    /// Gates that are frozen, and freezes that are over (S14, L2).
    pub(super) freezes: Vec<Frozen>,
    /// How long those took that are over.
    pub(super) frozen_for: Vec<std::time::Duration>,
    /// Logs that were opened and are not served yet: their end, how far they can be seen, and how
    /// far they must be (S4).
    pub(super) opened: BTreeMap<NodeId, (Offset, Offset, Offset)>,
    /// The freeze that was last begun or renewed (L2).
    pub(super) renewed: Option<Renewed>,
    /// Whose bytes the destinations have staged (S8).
    pub(super) lives: Lives,
    /// What the log and the destinations were told (S6).
    pub(super) told: Told,
    /// The present move.
    pub(super) plan: Plan,
}

/// One owner's time.
#[derive(Clone, Debug)]
pub(super) struct Reign {
    pub(super) epoch: Epoch,
    pub(super) start: Offset,
    pub(super) owner: NodeId,
    pub(super) data: Attempt,
    pub(super) began: Began,
    /// When it was first applied.
    pub(super) at: Time,
    /// What consumers may see at most: raised by acknowledgements and by exposing (S4).
    pub(super) visible: Offset,
    /// An append was admitted in it.
    pub(super) wrote: bool,
    /// Retention has taken what is before, in this reign or an earlier one.
    pub(super) floor: Offset,
    /// The highest watermark of any report (S6).
    pub(super) reported: Offset,
    /// What its beginning left behind was said to be produced again (S10).
    pub(super) reclaimed: bool,
    /// Where consumers stood at its beginning, at least (S7).
    pub(super) committed: Option<Offset>,
    /// Content ids from `start` on that consumers could see; zero where nothing is known (S5).
    pub(super) content: Vec<u64>,
    /// Offsets from `start` on that a consumer has acknowledged (S7).
    pub(super) consumed: Bits,
}

/// How a reign began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    Born,
    Normal(Token),
    Forced(Generation),
    Declared,
    /// Before the first state that was seen; whether it left anything behind is known.
    Unseen {
        residue: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) id: u64,
    pub(super) offset: Offset,
    pub(super) epoch: Epoch,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Serving {
    pub(super) node: NodeId,
    pub(super) epoch: Epoch,
    /// It may be flipped away, so that it takes a lease to write.
    pub(super) in_play: bool,
    /// Since when it serves in that epoch.
    pub(super) since: Time,
}

/// A capture, and whether the log has ended its freeze.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) node: NodeId,
    pub(super) life: Incarnation,
    pub(super) capture: Capture,
    /// Whether anybody may know of it.
    pub(super) told: bool,
    /// Whether its node has thawed it.
    pub(super) thawed: bool,
    pub(super) ended: bool,
}

/// A flip that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub(super) fence: Fence,
    pub(super) end: Offset,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Consumers {
    /// The life of the owner that the rest is of.
    pub(super) life: Option<(NodeId, Incarnation, Epoch)>,
    /// What it last said.
    pub(super) committed: Option<Offset>,
    /// Acknowledgements that it took and that are not below `committed`.
    pub(super) taken: BTreeSet<Offset>,
    /// Who has opened the log last, and the lowest record that this opening has not handed out.
    pub(super) opened_by: Option<NodeId>,
    /// When that was.
    pub(super) opened: Time,
    /// What that has handed out and is not acknowledged, by when it is free again (S11).
    pub(super) held: BTreeSet<(Instant, Offset)>,
    /// What of that is free.
    pub(super) free: BTreeSet<Offset>,
    /// See `opened_by`.
    pub(super) next: Offset,
    /// Everything below was found to be acknowledged.
    pub(super) proven: Offset,
    /// What the capture that the last flip rests on said, until it was found again.
    pub(super) moved: Option<Position>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Frozen {
    pub(super) node: NodeId,
    pub(super) life: Incarnation,
    pub(super) token: Token,
    pub(super) since: Time,
    pub(super) until: Option<Time>,
    /// Its node had applied the death of the destination when it froze (S14).
    pub(super) for_the_dead: bool,
}

/// The present move, as far as the log does not say it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// When its target was set.
    pub(super) since: Option<Time>,
    /// The entry that set it.
    pub(super) index: LogIndex,
    /// It is no planner's.
    pub(super) by_hand: bool,
    /// The mover waits.
    pub(super) waiting: bool,
    /// When it last stopped waiting.
    pub(super) resumed: Option<Time>,
    /// Most bytes that were ever staged, and when that last grew (L1).
    pub(super) staged: u64,
    pub(super) moved: Time,
    /// When its ends were last seen not to reach each other, or one of them not to be there.
    pub(super) apart: Time,
    /// When it last waited for something that was so, and for what.
    pub(super) told: Option<(Time, Waiting)>,
}

impl Part {
    pub(super) fn born(id: PartitionId, owner: NodeId, data: Attempt, at: Time) -> Self {
        let mut part = Self::empty(id);
        part.reigns.push(Reign::new(Epoch(1), Offset(0), owner, data, Began::Born, at));
        part
    }

    /// Takes over what a row says of the past; nothing is known of its records.
    pub(super) fn adopted(id: PartitionId, row: &Assignment, at: Time) -> Self {
        let mut part = Self::empty(id);
        for reign in &row.lineage {
            let residue = reign.residue != Residue::None;
            let began = Began::Unseen { residue };
            let mut known =
                Reign::new(reign.epoch, reign.start, reign.owner, reign.data, began, at);
            known.reclaimed = reign.residue == Residue::Reclaimed;
            // Whatever is there may be shown: who showed it before is not known.
            known.visible = Offset(u64::MAX);
            part.reigns.push(known);
        }
        part.consumers.proven = Offset(u64::MAX);
        part
    }

    fn empty(id: PartitionId) -> Self {
        Self {
            id,
            reigns: Vec::new(),
            gone: false,
            acked: Vec::new(),
            grew: Time::ZERO,
            delivered: Time::ZERO,
            damaged: BTreeSet::new(),
            rotten: BTreeMap::new(),
            asides: BTreeMap::new(),
            serving: Vec::new(),
            open: BTreeSet::new(),
            openings: 0,
            opening: BTreeMap::new(),
            holds: Vec::new(),
            sessions: BTreeSet::new(),
            tries: BTreeMap::new(),
            consumers: Consumers::default(),
            freezes: Vec::new(),
            frozen_for: Vec::new(),
            opened: BTreeMap::new(),
            renewed: None,
            lives: Lives::default(),
            told: Told::default(),
            plan: Plan::default(),
        }
    }

    pub(super) fn last(&self) -> Option<&Reign> {
        self.reigns.last()
    }

    pub(super) fn reign(&self, epoch: Epoch) -> Option<&Reign> {
        self.reigns.iter().rev().find(|reign| reign.epoch == epoch)
    }

    pub(super) fn reign_mut(&mut self, epoch: Epoch) -> Option<&mut Reign> {
        self.reigns.iter_mut().rev().find(|reign| reign.epoch == epoch)
    }

    /// Returns the reign in which the record was appended that stands at `offset` in the log of the
    /// reign `epoch`: offsets before a reign's start are those of the one before it.
    pub(super) fn lineage(&self, epoch: Epoch, offset: Offset) -> Option<&Reign> {
        self.reigns.iter().rev().find(|reign| reign.epoch <= epoch && reign.start <= offset)
    }

    pub(super) fn lineage_mut(&mut self, epoch: Epoch, offset: Offset) -> Option<&mut Reign> {
        self.reigns.iter_mut().rev().find(|reign| reign.epoch <= epoch && reign.start <= offset)
    }

    pub(super) fn is_damaged(&self, node: NodeId, data: Attempt) -> bool {
        !self.damaged.is_empty() && self.damaged.contains(&(node, Directory::Installed(data)))
    }

    /// Something other than the machines changes a directory of a node's in one of its lives.
    pub(super) fn damage(&mut self, node: NodeId, life: Incarnation, directory: Directory) {
        match directory {
            Directory::Installed(_) => drop(self.damaged.insert((node, directory))),
            Directory::Staging => drop(self.rotten.insert(node, life)),
        }
    }

    /// Staging becomes a directory of its own.
    pub(super) fn installed(&mut self, node: NodeId, life: Incarnation, data: Attempt) {
        if self.rotten.remove(&node) == Some(life) {
            self.damaged.insert((node, Directory::Installed(data)));
        }
    }

    /// A directory becomes staging again.
    pub(super) fn restaged(&mut self, node: NodeId, life: Incarnation, data: Attempt) {
        if self.is_damaged(node, data) {
            self.rotten.insert(node, life);
        }
    }

    /// Whether a log that was ever live has lost bytes, so that its copies have holes, too.
    pub(super) fn has_holes(&self) -> bool {
        self.reigns.iter().any(|reign| self.is_damaged(reign.owner, reign.data))
    }

    /// Whether the log has ended a freeze.
    pub(super) fn is_over(&self, token: Token) -> bool {
        self.holds.iter().any(|hold| hold.ended && hold.capture.token == token)
    }

    /// Ends every freeze at a gate that the predicate picks.
    pub(super) fn thaw(&mut self, now: Time, mut is: impl FnMut(&Frozen) -> bool) {
        for frozen in self.freezes.iter_mut().filter(|frozen| frozen.until.is_none()) {
            if is(frozen) {
                frozen.until = Some(now);
                self.frozen_for.push(now.since(frozen.since));
            }
        }
    }

    /// The move that was planned is over, or another one takes its place.
    pub(super) fn replanned(&mut self, target: bool, now: Time) {
        self.tries.clear();
        for hold in &mut self.holds {
            hold.ended = true;
        }
        let since = target.then_some(now);
        self.plan = Plan { since, moved: now, ..Plan::default() };
    }

    pub(super) fn crowned(&mut self, mut reign: Reign, now: Time) {
        reign.floor = match reign.began {
            // An empty log begins there.
            Began::Declared => reign.start,
            Began::Born | Began::Normal(_) | Began::Forced(_) | Began::Unseen { .. } => {
                self.last().map_or(Offset(0), |last| last.floor)
            }
        };
        // Positions past the beginning of a reign are of other records.
        self.consumers.proven = self.consumers.proven.min(reign.start);
        self.reigns.push(reign);
        self.replanned(false, now);
        self.holds.clear();
        self.sessions.clear();
    }
}

impl Reign {
    pub(super) fn new(
        epoch: Epoch,
        start: Offset,
        owner: NodeId,
        data: Attempt,
        began: Began,
        at: Time,
    ) -> Self {
        Self {
            epoch,
            start,
            owner,
            data,
            began,
            at,
            visible: Offset(0),
            wrote: false,
            floor: Offset(0),
            reported: Offset(0),
            reclaimed: false,
            committed: None,
            content: Vec::new(),
            consumed: Bits::default(),
        }
    }

    /// Whether it began without the old owner's freeze, so that records may have been left behind.
    pub(super) const fn left_records(&self) -> bool {
        match self.began {
            Began::Born | Began::Normal(_) => false,
            Began::Forced(_) | Began::Declared => true,
            Began::Unseen { residue } => residue,
        }
    }
}
