//! Members: joining, living, dying, leaving.

use narad_core::ids::{Drain, Generation, Incarnation, Name, NodeId, StoreUuid};
use narad_core::metastore::{Addresses, Applied, Member, Reason, Status, Timing};

use super::{Case, Law, timing};

/// Longest address and longest receipt, in bytes.
const ADDRESS_MAX: usize = 255;
const RECEIPT_MAX: usize = 4096;
const MEMBERS_MAX: usize = 10_000;

impl Law {
    pub(super) fn join(
        &mut self,
        case: &mut Case<'_>,
        name: &Name,
        store_uuid: StoreUuid,
        addrs: &Addresses,
    ) -> Result<Applied, Reason> {
        if !fits(addrs) {
            return Err(Reason::OutOfRange);
        }
        if let Some(known) = self.members.values().find(|member| member.store_uuid == store_uuid) {
            return if known.retired {
                Err(Reason::NodeRetired)
            } else {
                Ok(Applied::Joined(known.id))
            };
        }
        if self.members.values().any(|member| !member.retired && member.name == *name) {
            return Err(Reason::NameTaken);
        }
        if self.members.len() >= MEMBERS_MAX {
            return Err(Reason::OutOfRange);
        }
        let id = NodeId(self.newest.0 + 1);
        self.newest = id;
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
        self.members.insert(id, member);
        case.touched.members.insert(id);
        Ok(Applied::Joined(id))
    }

    pub(super) fn register(
        &mut self,
        case: &mut Case<'_>,
        node: NodeId,
        store_uuid: StoreUuid,
        incarnation: Incarnation,
        addrs: &Addresses,
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if case.entry.by != node {
            return Err(Reason::NotYours);
        }
        if member.store_uuid != store_uuid {
            return Err(Reason::WrongStore);
        }
        if !fits(addrs) || incarnation.0 == 0 {
            return Err(Reason::OutOfRange);
        }
        let alive = member.status == Status::Alive;
        if incarnation.0 < member.incarnation.0 || (incarnation == member.incarnation && !alive) {
            return Err(Reason::StaleIncarnation);
        }
        if incarnation == member.incarnation {
            return Ok(Applied::Done);
        }
        let reach = timing::reach(&self.policy);
        let silence = self.policy.dead_timeout;
        let member = self.touch(case, node);
        member.incarnation = incarnation;
        member.status = Status::Alive;
        member.drained_out = false;
        member.addrs = addrs.clone();
        (member.timing.reach, member.timing.silence) = (reach, silence);
        Ok(Applied::Done)
    }

    pub(super) fn mark_dead(
        &mut self,
        case: &mut Case<'_>,
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
        let wait = timing::wait(&self.policy, member.timing.reach, member.timing.silence);
        let member = self.touch(case, node);
        member.deaths = Generation(member.deaths.0 + 1);
        member.status = Status::Dead(member.deaths);
        member.timing.promote_after = wait;
        Ok(Applied::Done)
    }

    pub(super) fn set_draining(
        &mut self,
        case: &mut Case<'_>,
        node: NodeId,
        on: bool,
    ) -> Result<Applied, Reason> {
        let member = self.members.get(&node).ok_or(Reason::UnknownMember)?;
        if member.draining == on || self.is_remembered(case) {
            return Ok(Applied::Done);
        }
        if member.retired {
            return Err(Reason::NodeRetired);
        }
        self.remember(case.entry.proposal);
        let member = self.touch(case, node);
        (member.draining, member.drained_out) = (on, false);
        // Each has a number of its own, so that nothing said of one is a word about the next.
        member.drains.0 += u64::from(on);
        Ok(Applied::Done)
    }

    pub(super) fn drained_out(
        &mut self,
        case: &mut Case<'_>,
        node: NodeId,
        incarnation: Incarnation,
        drain: Drain,
    ) -> Result<Applied, Reason> {
        let member = self.staying(node)?;
        if case.entry.by != node {
            return Err(Reason::NotYours);
        }
        if member.incarnation != incarnation {
            return Err(Reason::StaleIncarnation);
        }
        if !member.draining || member.drains != drain {
            return Err(Reason::NotDraining);
        }
        if member.drained_out {
            return Ok(Applied::Done);
        }
        self.is_empty(node)?;
        self.touch(case, node).drained_out = true;
        Ok(Applied::Done)
    }

    pub(super) fn retire(
        &mut self,
        case: &mut Case<'_>,
        node: NodeId,
        receipt: Option<&str>,
    ) -> Result<Applied, Reason> {
        let member = self.members.get(&node).ok_or(Reason::UnknownMember)?;
        if member.retired {
            return Ok(Applied::Done);
        }
        if receipt.is_some_and(|receipt| !is_receipt(receipt)) {
            return Err(Reason::OutOfRange);
        }
        if !member.draining {
            return Err(Reason::NotDraining);
        }
        let alive = member.status == Status::Alive;
        if alive && !member.drained_out && member.incarnation.0 > 0 {
            return Err(Reason::NotDrainedOut);
        }
        if !alive && receipt.is_none() {
            return Err(Reason::NeedsReceipt);
        }
        self.is_empty(node)?;
        self.can_spare(node)?;
        self.touch(case, node).retired = true;
        Ok(Applied::Done)
    }

    /// A node that owns nothing, and that nothing moves to.
    fn is_empty(&self, node: NodeId) -> Result<(), Reason> {
        if self.rows.values().any(|row| row.owner == node) {
            Err(Reason::OwnsPartitions)
        } else if self.rows.values().any(|row| row.target == Some(node)) {
            Err(Reason::IsTarget)
        } else {
            Ok(())
        }
    }

    /// The other voters are enough, most of them live, and enough of them live.
    fn can_spare(&self, node: NodeId) -> Result<(), Reason> {
        let sets = [&self.configuration.voters, &self.configuration.voters_outgoing];
        if !sets.iter().any(|voters| voters.contains(&node)) {
            return Ok(());
        }
        let rest = |voters: &std::collections::BTreeSet<NodeId>| {
            let stays = |voter: &&NodeId| {
                **voter != node && !self.members.get(*voter).is_some_and(|member| member.retired)
            };
            let lives = |voter: &&NodeId| {
                self.members.get(*voter).is_some_and(|member| {
                    member.status == Status::Alive && member.incarnation.0 > 0
                })
            };
            let all: Vec<&NodeId> = voters.iter().filter(stays).collect();
            (all.len(), all.into_iter().filter(lives).count())
        };
        let least = usize::try_from(self.policy.min_voters).unwrap_or(usize::MAX);
        let (all, alive) = rest(sets[0]);
        if all < least {
            return Err(Reason::BelowMinVoters);
        }
        let joint = !sets[1].is_empty();
        let (old, old_alive) = rest(sets[1]);
        if alive * 2 <= all || (joint && old_alive * 2 <= old) {
            return Err(Reason::NoHealthyMajority);
        }
        if alive < least { Err(Reason::BelowMinVoters) } else { Ok(()) }
    }

    /// A member that was not retired.
    pub(super) fn staying(&self, node: NodeId) -> Result<&Member, Reason> {
        let member = self.members.get(&node).ok_or(Reason::UnknownMember)?;
        if member.retired { Err(Reason::NodeRetired) } else { Ok(member) }
    }

    /// A member that may be given a partition.
    pub(super) fn receiver(&self, node: NodeId) -> Result<(), Reason> {
        let member = self.staying(node)?;
        if member.status != Status::Alive {
            Err(Reason::NodeDead)
        } else if member.draining {
            Err(Reason::NodeDraining)
        } else if member.incarnation.0 == 0 {
            Err(Reason::NodeUnregistered)
        } else {
            Ok(())
        }
    }

    pub(super) fn touch(&mut self, case: &mut Case<'_>, node: NodeId) -> &mut Member {
        case.touched.members.insert(node);
        self.members.get_mut(&node).expect("whoever touches it has found it")
    }
}

fn fits(addrs: &Addresses) -> bool {
    addrs.peer.len() <= ADDRESS_MAX && addrs.http.len() <= ADDRESS_MAX
}

pub(super) fn is_receipt(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= RECEIPT_MAX
}
