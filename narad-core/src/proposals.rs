//! What became of a proposal, and which proposals of this node are still open.
//!
//! # Purpose
//!
//! A proposal has no answer of its own: the node that makes it learns the result when its own
//! replica applies the entry. [`Proposals`] remembers who asked, hands the result back,
//! and says [`Proposed::Unknown`] when it stops waiting.
//!
//! # States
//!
//! ```text
//! submit ──▶ open ──applied──▶ Replied(reply)
//!              ├──deadline──▶ Unknown      it may still be applied, or never
//!              ├──failed────▶ Unknown      not handed over, as far as one can tell
//!              └──restored──▶ Unknown      a snapshot may have jumped over it
//! ```
//!
//! # Invariants
//!
//! 1. Every submitted ticket is returned exactly once.
//! 2. Nothing but an applied entry makes a result known (H2, case F2): there is no `Failed`.
//! 3. A proposal id is never used twice, not even after a new life of the node.
//! 4. At most [`Proposals::OPEN_MAX`] are open.
//!
//! # After a restart
//!
//! Nothing is left: a restarted process proposes in a later incarnation, and whoever needs to know
//! what became of an earlier proposal reads the row or resolves it.
//!
//! # Example
//!
//! A result that comes after its deadline is nobody's: whoever asked was told Unknown.
//!
//! ```
//! use core::time::Duration;
//! use narad_core::ids::{Incarnation, NodeId};
//! use narad_core::metastore::{Applied, Command, Reply};
//! use narad_core::proposals::{Proposals, Proposed};
//! use narad_core::time::Instant;
//!
//! let mut open = Proposals::new(NodeId(1), Incarnation(1), Duration::from_secs(5));
//! let command = Command::RaiseVersion { to: 2 };
//! let entry = open.submit(Instant::ORIGIN, "ticket", command).expect("few are open");
//! let late = open.deadline().expect("one is open").at;
//! assert_eq!(open.wake(late), [("ticket", Proposed::Unknown)]);
//! assert_eq!(open.applied(entry.proposal, Reply::Applied(Applied::Done)), None);
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use crate::effects::Deadline;
use crate::ids::{Incarnation, NodeId, ProposalId};
use crate::metastore::{Command, Entry, Reply};
use crate::time::Instant;

/// What the proposer knows of a command.
///
/// There is no `Failed`: after `Unknown` only the byte-identical command, a barriered read or a
/// `Resolve` may follow (rule 5 of the [crate docs](crate); H2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Proposed {
    /// The node's own replica applied it, with this result.
    Replied(Reply),
    /// It may have been applied, may still be, or never.
    Unknown,
}

/// Why a proposal was not taken: it was never made, so trying again later is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max} proposals are open already: wait for one of them", max = Proposals::<()>::OPEN_MAX)]
pub struct TooManyOpen;

/// The proposals of one node whose results are still awaited.
///
/// `T` is the ticket that comes back with the result: an operation id, or whatever else names the
/// one who asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposals<T> {
    node: NodeId,
    incarnation: Incarnation,
    sequence: u64,
    patience: Duration,
    open: BTreeMap<ProposalId, Open<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open<T> {
    ticket: T,
    until: Instant,
}

impl<T: Clone> Proposals<T> {
    /// Most proposals that may be open at once. Larger lets more moves finish at the same time;
    /// each costs one entry of memory.
    pub const OPEN_MAX: usize = 4096;

    /// Starts with nothing open; `patience` is how long a result may take before it is Unknown
    /// (`Config::request_timeout`).
    pub const fn new(node: NodeId, incarnation: Incarnation, patience: Duration) -> Self {
        Self { node, incarnation, sequence: 0, patience, open: BTreeMap::new() }
    }

    /// Begins a later life of the node (H32). What is open stays open: it may still be applied.
    pub const fn begin_life(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// Names a command and returns the entry to hand to the leader.
    ///
    /// # Errors
    ///
    /// If [`Proposals::OPEN_MAX`] are open. Nothing was proposed then.
    pub fn submit(
        &mut self,
        now: Instant,
        ticket: T,
        command: Command,
    ) -> Result<Entry, TooManyOpen> {
        if self.open.len() >= Self::OPEN_MAX {
            return Err(TooManyOpen);
        }
        let (node, incarnation, sequence) = (self.node, self.incarnation, self.sequence);
        self.sequence += 1;
        let proposal = ProposalId { node, incarnation, sequence };
        self.open.insert(proposal, Open { ticket, until: now.after(self.patience) });
        Ok(Entry { proposal, by: node, command })
    }

    /// Takes the result of an entry that this node's replica has applied, and returns whose it is.
    ///
    /// `None` for other nodes' entries, for a second copy in the log, and for one that was given
    /// up before.
    pub fn applied(&mut self, proposal: ProposalId, reply: Reply) -> Option<(T, Proposed)> {
        self.open.remove(&proposal).map(|open| (open.ticket, Proposed::Replied(reply)))
    }

    /// Gives up a proposal that could not be handed over. A lost connection does not tell whether
    /// the leader has it, so the outcome is Unknown (case F20).
    pub fn failed(&mut self, proposal: ProposalId) -> Option<(T, Proposed)> {
        self.open.remove(&proposal).map(|open| (open.ticket, Proposed::Unknown))
    }

    /// Gives up those whose time has come.
    pub fn wake(&mut self, now: Instant) -> Vec<(T, Proposed)> {
        let due = self.open.extract_if(.., |_, open| open.until <= now);
        due.map(|(_, open)| (open.ticket, Proposed::Unknown)).collect()
    }

    /// Gives up all of them, because a snapshot replaced the state: any of them may be in it.
    pub fn restored(&mut self) -> Vec<(T, Proposed)> {
        let all = mem::take(&mut self.open);
        all.into_values().map(|open| (open.ticket, Proposed::Unknown)).collect()
    }

    /// Returns when the next one is given up.
    pub fn deadline(&self) -> Option<Deadline> {
        let at = self.open.values().map(|open| open.until).min()?;
        Some(Deadline { at, why: "the result of a proposal is overdue" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metastore::{Applied, Reason};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(seconds))
    }

    fn proposals() -> Proposals<u32> {
        Proposals::new(NodeId(1), Incarnation(1), PATIENCE)
    }

    /// Covers H2 and cases F2, F20: no way of not hearing about a proposal makes it a failure.
    #[test]
    fn whatever_is_not_applied_is_unknown() {
        let command = Command::RaiseVersion { to: 2 };
        let mut open = proposals();
        let first = open.submit(at(0), 1, command.clone()).expect("room");
        let second = open.submit(at(1), 2, command.clone()).expect("room");
        let third = open.submit(at(2), 3, command.clone()).expect("room");
        assert_ne!(first.proposal, second.proposal);
        assert_eq!(open.deadline().map(|d| d.at), Some(at(5)));

        assert_eq!(open.failed(first.proposal), Some((1, Proposed::Unknown)));
        let reply = Reply::Rejected(Reason::MoveChanged);
        let known = Proposed::Replied(reply.clone());
        assert_eq!(open.applied(second.proposal, reply.clone()), Some((2, known)));
        assert_eq!(open.restored(), [(3, Proposed::Unknown)]);
        assert_eq!(open.applied(third.proposal, reply), None, "given up by the snapshot");
        assert_eq!(open.deadline(), None);
    }

    /// Covers H32: a life that ends leaves its proposals open, and the next one's ids differ.
    #[test]
    fn a_new_life_neither_forgets_nor_repeats_an_id() {
        let mut open = proposals();
        let old = open.submit(at(0), 1, Command::RaiseVersion { to: 2 }).expect("room");
        open.begin_life(Incarnation(2));
        let new = open.submit(at(0), 2, Command::RaiseVersion { to: 2 }).expect("room");
        assert!(new.proposal > old.proposal);
        assert_eq!(new.proposal.incarnation, Incarnation(2));
        let reply = Reply::Applied(Applied::Done);
        assert_eq!(open.applied(old.proposal, reply.clone()), Some((1, Proposed::Replied(reply))));
    }

    #[test]
    fn the_number_of_open_proposals_is_bounded() {
        let mut open = Proposals::new(NodeId(1), Incarnation(1), PATIENCE);
        let command = Command::RaiseVersion { to: 2 };
        for _ in 0..Proposals::<()>::OPEN_MAX {
            open.submit(at(0), (), command.clone()).expect("room");
        }
        assert_eq!(open.submit(at(0), (), command.clone()), Err(TooManyOpen));
        open.wake(at(5));
        assert!(open.submit(at(5), (), command).is_ok());
    }

    proptest! {
        /// Covers H2: in any order of results, deadlines, losses and snapshots, every ticket comes
        /// back exactly once.
        #[test]
        fn every_ticket_returns_exactly_once(steps in proptest::collection::vec(0_u8..6, 0..60)) {
            let mut open = proposals();
            let (mut given, mut returned) = (BTreeSet::new(), Vec::new());
            let mut ids = Vec::new();
            for (second, step) in steps.into_iter().enumerate() {
                let now = at(second as u64);
                match step {
                    0 | 1 => {
                        let ticket = u32::try_from(second).expect("short");
                        let command = Command::RaiseVersion { to: ticket };
                        ids.push(open.submit(now, ticket, command).expect("room").proposal);
                        given.insert(ticket);
                    }
                    2 => returned.extend(ids.pop().and_then(|id| open.failed(id))),
                    3 => returned.extend(ids.first().copied().and_then(|id| {
                        open.applied(id, Reply::Applied(Applied::Done))
                    })),
                    4 => returned.extend(open.wake(now)),
                    _ => returned.extend(open.restored()),
                }
            }
            returned.extend(open.restored());
            prop_assert_eq!(returned.len(), given.len());
            let tickets: BTreeSet<u32> = returned.into_iter().map(|(ticket, _)| ticket).collect();
            prop_assert_eq!(tickets, given);
        }
    }
}
