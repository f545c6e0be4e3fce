//! The guards of the replicated state that a move meets, in miniature.

use narad_core::ids::*;
use narad_core::metastore::*;

pub(super) const A: NodeId = NodeId(1);
pub(super) const B: NodeId = NodeId(2);
pub(super) const C: NodeId = NodeId(3);

pub(super) const PARTITION: PartitionId = PartitionId { topic: TopicId(7), index: 2 };

#[derive(Clone, Debug)]
pub(super) struct Replicated {
    pub(super) row: Option<Assignment>,
    /// The life in which A is registered.
    pub(super) source_incarnation: u64,
    pub(super) dead: Option<Generation>,
    pub(super) deaths: u64,
    /// Flips that were applied and changed the owner.
    pub(super) flips: u32,
    /// Whether the last one was forced.
    pub(super) forced: bool,
}

impl Replicated {
    pub(super) fn new() -> Self {
        let birth = Attempt::birth(A);
        let row = Assignment {
            owner: A,
            epoch: Epoch(1),
            data: birth,
            min_end: Offset(0),
            lineage: vec![Reign {
                epoch: Epoch(1),
                start: Offset(0),
                owner: A,
                data: birth,
                residue: Residue::None,
            }],
            lineage_cut: false,
            target: Some(B),
            move_id: MoveId(1),
            burned: None,
            revoked: None,
            reported_hwm: None,
            pinned: false,
        };
        Self {
            row: Some(row),
            source_incarnation: 1,
            dead: None,
            deaths: 0,
            flips: 0,
            forced: false,
        }
    }

    pub(super) fn set_target(&mut self, target: Option<NodeId>) {
        if let Some(row) = &mut self.row
            && Some(row.owner) != target
        {
            row.target = target;
            row.move_id = row.move_id.next();
            row.burned = None;
        }
    }

    pub(super) fn mark_dead(&mut self) {
        if self.dead.is_none() {
            self.deaths += 1;
            self.dead = Some(Generation(self.deaths));
        }
    }

    pub(super) fn register(&mut self, incarnation: u64) {
        self.source_incarnation = incarnation;
        self.dead = None;
    }

    pub(super) fn apply(&mut self, command: &Command) -> Reply {
        match command {
            Command::CompleteMove { .. } => self.complete(command),
            Command::Resolve { attempt, .. } => self.resolve(*attempt),
            Command::Revoke { token, .. } => self.revoke(*token),
            other => panic!("a move proposes no {other:?}"),
        }
    }

    fn complete(&mut self, command: &Command) -> Reply {
        let Command::CompleteMove { expect, attempt, fence, end, hwm, .. } = command else {
            unreachable!()
        };
        let Some(row) = &mut self.row else { return Reply::Rejected(Reason::Gone) };
        if let Some(reign) = row.lineage.iter().find(|reign| reign.data == *attempt) {
            return Reply::Applied(Applied::Won(reign.epoch));
        }
        let rejected = if row.owner != expect.owner {
            Some(Reason::OwnerChanged)
        } else if row.epoch != expect.epoch {
            Some(Reason::EpochChanged)
        } else if row.move_id != expect.move_id || attempt.move_id != row.move_id {
            Some(Reason::MoveChanged)
        } else if row.target != Some(attempt.destination) {
            Some(Reason::NotTarget)
        } else if row.burned.is_some_and(|burned| attempt.no <= burned) {
            Some(Reason::AttemptBurned)
        } else if end < hwm || *end < row.min_end {
            Some(Reason::CopyBehind)
        } else {
            match *fence {
                Fence::Normal { token } if token.epoch != row.epoch => Some(Reason::TokenStale),
                Fence::Normal { token } if row.revoked.is_some_and(|no| token.no <= no) => {
                    Some(Reason::TokenRevoked)
                }
                Fence::Normal { token } => (token.no.incarnation
                    != Incarnation(self.source_incarnation))
                .then_some(Reason::TokenStale),
                Fence::Forced { generation } if self.dead != Some(generation) => {
                    Some(Reason::NotDead)
                }
                Fence::Forced { .. } => row
                    .reported_hwm
                    .is_some_and(|reported| *end < reported)
                    .then_some(Reason::CopyBehind),
            }
        };
        if let Some(reason) = rejected {
            return Reply::Rejected(reason);
        }
        row.owner = attempt.destination;
        row.epoch = row.epoch.next();
        row.data = *attempt;
        row.min_end = row.min_end.max(*hwm);
        let (epoch, owner) = (row.epoch, row.owner);
        let residue = match fence {
            Fence::Normal { .. } => Residue::None,
            Fence::Forced { .. } => Residue::Pending,
        };
        row.lineage.push(Reign { epoch, start: *end, owner, data: *attempt, residue });
        row.target = None;
        row.move_id = row.move_id.next();
        row.burned = None;
        row.revoked = None;
        row.reported_hwm = None;
        self.flips += 1;
        self.forced = matches!(fence, Fence::Forced { .. });
        Reply::Applied(Applied::Won(epoch))
    }

    fn resolve(&mut self, attempt: Attempt) -> Reply {
        let Some(row) = &mut self.row else { return Reply::Rejected(Reason::Gone) };
        if let Some(reign) = row.lineage.iter().find(|reign| reign.data == attempt) {
            return Reply::Applied(Applied::Won(reign.epoch));
        }
        if row.move_id == attempt.move_id {
            row.burned = row.burned.max(Some(attempt.no));
        }
        Reply::Applied(Applied::Burned)
    }

    fn revoke(&mut self, token: Token) -> Reply {
        let Some(row) = &mut self.row else { return Reply::Rejected(Reason::Gone) };
        if row.owner != A {
            return Reply::Rejected(Reason::NotOwner);
        }
        if token.epoch == row.epoch {
            row.revoked = row.revoked.max(Some(token.no));
        }
        Reply::Applied(Applied::Resumed)
    }
}
