//! Who belongs to the cluster: joining, living, dying, leaving.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{State, Turn};
use crate::ids::{Drain, Generation, Incarnation, Name, NodeId, PartitionId, StoreUuid};
use crate::metastore::command::{Applied, Command, Reason};
use crate::metastore::member::{Addresses, Member, Status, Timing};
use crate::planted::{Bug, is_planted};

impl State {
    /// A directory is asked for by its identity only: what it is called and where it listens
    /// changes nothing once it is a member.
    pub(super) fn join(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Name,
        store_uuid: StoreUuid,
        addrs: &Addresses,
    ) -> Result<Applied, Reason> {
        if !addrs.fit() {
            return Err(Reason::OutOfRange);
        }
        if let Some(known) = self.member_of_store(store_uuid) {
            return if known.retired {
                Err(Reason::NodeRetired)
            } else {
                Ok(Applied::Joined(known.id))
            };
        }
        if self.index.member_names.contains_key(name) {
            return Err(Reason::NameTaken);
        }
        if self.members.len() >= Self::MEMBERS_MAX {
            return Err(Reason::OutOfRange);
        }
        let id = self.newest_node.next();
        let member = Member {
            id,
            name: name.clone(),
            addrs: addrs.clone(),
            store_uuid,
            incarnation: Incarnation(0),
            status: Status::Alive,
            deaths: Generation(0),
            draining: false,
            drains: Drain(0),
            drained_out: false,
            retired: false,
            timing: Timing::default(),
        };
        self.newest_node = id;
        self.index.add_member(&member);
        self.members.insert(id, member);
        turn.changed.members.push(id);
        Ok(Applied::Joined(id))
    }

    pub(super) fn register(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        store_uuid: StoreUuid,
        incarnation: Incarnation,
        addrs: &Addresses,
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if turn.by != node {
            return Err(Reason::NotYours);
        }
        if member.store_uuid != store_uuid {
            return Err(Reason::WrongStore);
        }
        // Zero is the life of a member that has never registered: it would pass for a replay.
        if !addrs.fit() || incarnation == Incarnation(0) {
            return Err(Reason::OutOfRange);
        }
        if incarnation < member.incarnation {
            return Err(Reason::StaleIncarnation);
        }
        if incarnation == member.incarnation {
            // A life that was declared dead is over: the node must begin its next one (H32).
            return match member.status {
                Status::Alive => Ok(Applied::Done),
                Status::Dead(_) => Err(Reason::StaleIncarnation),
            };
        }
        let timing = Timing {
            reach: self.policy.lease_reach(),
            silence: self.policy.dead_timeout,
            ..member.timing
        };
        self.edit_member(turn, node, |member| {
            member.incarnation = incarnation;
            member.status = Status::Alive;
            member.drained_out = false;
            member.addrs = addrs.clone();
            member.timing = timing;
        });
        if is_planted(Bug::ReportsEndWithTheLife) {
            let owned: Vec<PartitionId> = self.owned_by(node).collect();
            for partition in owned {
                self.edit_row(turn, partition, |row| row.reported_hwm = None);
            }
        }
        Ok(Applied::Done)
    }

    pub(super) fn mark_dead(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if member.incarnation != incarnation {
            return Err(Reason::StaleIncarnation);
        }
        if member.status != Status::Alive {
            return Ok(Applied::Done);
        }
        let Timing { reach, silence, .. } = member.timing;
        let promote_after = self.policy.promotion_wait(reach, silence);
        self.edit_member(turn, node, |member| {
            if member.deaths == Generation(0) || !is_planted(Bug::DeathNumberRepeats) {
                member.deaths = member.deaths.next();
            }
            member.status = Status::Dead(member.deaths);
            member.timing.promote_after = promote_after;
        });
        Ok(Applied::Done)
    }

    pub(super) fn set_draining(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        on: bool,
    ) -> Result<Applied, Reason> {
        let member = self.known(node)?;
        // A cancelled decommission must not come back with a late copy of its command (H24d).
        if member.draining == on || self.is_remembered(turn) {
            return Ok(Applied::Done);
        }
        if member.retired && !is_planted(Bug::CancelledAfterRetired) {
            return Err(Reason::NodeRetired);
        }
        self.remember(turn.proposal);
        self.edit_member(turn, node, |member| {
            member.draining = on;
            member.drained_out = false;
            if on {
                member.drains = member.drains.next();
            }
        });
        Ok(Applied::Done)
    }

    /// Holds until the drain is cancelled or the node registers again: a draining node that owns
    /// nothing and awaits nothing is given nothing, so that no ack and no record comes back to it.
    /// What it said before a cancel may be decided long after it, when it drains again and its life
    /// is still the same: it is no word about what it has accepted in between.
    pub(super) fn drained_out(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        incarnation: Incarnation,
        drain: Drain,
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if turn.by != node {
            return Err(Reason::NotYours);
        }
        if member.incarnation != incarnation {
            return Err(Reason::StaleIncarnation);
        }
        let is_over = member.drains != drain && !is_planted(Bug::DrainedOutOfAnyDrain);
        if !member.draining || is_over {
            return Err(Reason::NotDraining);
        }
        if member.drained_out {
            return Ok(Applied::Done);
        }
        self.holds_nothing(node)?;
        self.edit_member(turn, node, |member| member.drained_out = true);
        Ok(Applied::Done)
    }

    /// Judged here and not by the planner, whose view may be old by now (H24b, H24c).
    pub(super) fn retire(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        receipt: Option<&str>,
    ) -> Result<Applied, Reason> {
        let member = self.known(node)?;
        if member.retired {
            return Ok(Applied::Done);
        }
        if !receipt.is_none_or(is_receipt) {
            return Err(Reason::OutOfRange);
        }
        if !member.draining {
            return Err(Reason::NotDraining);
        }
        match member.status {
            // Who has never registered has nothing that could be drained.
            Status::Alive if !member.drained_out && member.has_lived() => {
                return Err(Reason::NotDrainedOut);
            }
            Status::Dead(_) if receipt.is_none() => return Err(Reason::NeedsReceipt),
            Status::Alive | Status::Dead(_) => {}
        }
        self.holds_nothing(node)?;
        self.can_spare_voter(node)?;
        let name = member.name.clone();
        self.index.member_names.remove(&name);
        self.edit_member(turn, node, |member| member.retired = true);
        Ok(Applied::Done)
    }

    fn holds_nothing(&self, node: NodeId) -> Result<(), Reason> {
        if self.owned_count(node) > 0 {
            Err(Reason::OwnsPartitions)
        } else if self.inbound_count(node) > 0 && !is_planted(Bug::TargetRetires) {
            Err(Reason::IsTarget)
        } else {
            Ok(())
        }
    }

    /// Whether the cluster can decide, and has its minimum, without the node and without those
    /// that were retired before it (H24f, H38). Who has no vote is always spared.
    fn can_spare_voter(&self, node: NodeId) -> Result<(), Reason> {
        let configuration = &self.configuration;
        let (incoming, outgoing) = (&configuration.voters, &configuration.voters_outgoing);
        if !incoming.contains(&node) && !outgoing.contains(&node) {
            return Ok(());
        }
        let rest = self.voters_without(incoming, node);
        let unasked = is_planted(Bug::MinVotersNotAsked);
        let min_voters = if unasked { 0 } else { self.policy.min_voters };
        let minimum = usize::try_from(min_voters).unwrap_or(usize::MAX);
        if rest.all < minimum {
            return Err(Reason::BelowMinVoters);
        }
        if !rest.has_healthy_majority()
            || (!outgoing.is_empty() && !self.voters_without(outgoing, node).has_healthy_majority())
        {
            return Err(Reason::NoHealthyMajority);
        }
        if rest.healthy < minimum {
            return Err(Reason::BelowMinVoters);
        }
        Ok(())
    }

    fn voters_without(&self, voters: &BTreeSet<NodeId>, leaving: NodeId) -> Voters {
        let mut rest = Voters { all: 0, healthy: 0 };
        for &voter in voters.iter().filter(|&&voter| voter != leaving) {
            let member = self.members.get(&voter);
            if member.is_some_and(|member| member.retired) && !is_planted(Bug::RetiredVotersCounted)
            {
                continue;
            }
            rest.all += 1;
            // A voter without a record, or without a life yet, has shown no sign of health.
            let alive = member.is_some_and(|member| {
                member.status == Status::Alive && member.incarnation > Incarnation(0)
            });
            rest.healthy += usize::from(alive);
        }
        rest
    }

    /// Returns a member, retired or not.
    fn known(&self, node: NodeId) -> Result<&Member, Reason> {
        self.members.get(&node).ok_or(Reason::UnknownMember)
    }

    /// Returns a member that is not retired.
    pub(super) fn staying(&self, node: NodeId) -> Result<&Member, Reason> {
        let member = self.known(node)?;
        if member.retired { Err(Reason::NodeRetired) } else { Ok(member) }
    }

    /// Checks that a node may be given a partition (H24e, H40).
    pub(super) fn receiver(&self, node: NodeId) -> Result<(), Reason> {
        let leavers = is_planted(Bug::GivenToLeavers);
        let member = if leavers { self.known(node) } else { self.staying(node) }?;
        if member.status != Status::Alive {
            Err(Reason::NodeDead)
        } else if member.draining && !leavers {
            Err(Reason::NodeDraining)
        } else if member.incarnation == Incarnation(0) {
            Err(Reason::NodeUnregistered)
        } else {
            assert!(
                leavers || member.is_receiver(),
                "every way of not being a receiver has a reason"
            );
            Ok(())
        }
    }
}

/// Some voters, and how many of them are up.
struct Voters {
    all: usize,
    healthy: usize,
}

impl Voters {
    fn has_healthy_majority(&self) -> bool {
        self.healthy > self.all / 2 || is_planted(Bug::MajorityNotAsked)
    }
}

/// Whether a text can be an operator's word: something, and not too much.
pub(super) fn is_receipt(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= Command::RECEIPT_MAX
}
