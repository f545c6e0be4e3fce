//! What a driver asks of a node: time, messages, proposals, reads, members, reports.

use super::Raft;
use super::admission::{self, Gate};
use super::error::{ConfigureError, OfferError, ProposeError, StepError, TransferError};
use super::membership::ConfigurationChange;
use super::output::{Leadership, PeerProgress, ReadId, Role, Status, Term};
use super::store::{Position, RaftStore, Snapshot};
use super::turn::Offered;
use ::raft::eraftpb::ConfChangeV2;
use ::raft::{ProgressState, SnapshotStatus, StateRole};
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use std::collections::BTreeMap;

/// What a snapshot's message has besides the state machine, at most.
const SNAPSHOT_OVERHEAD: u64 = 64 * 1024;

impl<S: RaftStore> Raft<S> {
    /// Lets one unit of time pass; see [`TICK_DEFAULT`](super::TICK_DEFAULT).
    pub fn tick(&mut self) {
        if self.stopped {
            return;
        }
        self.ticks += 1;
        // A follower that just got entries has heard from its leader, so it has no election to
        // begin; and a single voter would lead before they are durable.
        let leads = self.node.raft.state == StateRole::Leader;
        if leads || admission::is_saved(&self.node.raft) {
            self.node.tick();
        }
        self.give_snapshots_up(leads);
        self.pin_election();
    }

    /// Counts snapshots whose outcome nobody reported as failed, so that their receivers are tried
    /// again: until a report the library sends them nothing.
    fn give_snapshots_up(&mut self, leads: bool) {
        if !leads {
            self.snapshots_sent.clear();
        }
        let (now, max) = (self.ticks, self.config.snapshot_ticks_max);
        let late: Vec<NodeId> = self
            .snapshots_sent
            .iter()
            .filter(|(_, sent)| now - **sent >= max)
            .map(|(peer, _)| *peer)
            .collect();
        for peer in late {
            self.report_snapshot(peer, false);
        }
    }

    /// Takes a message that a peer sent.
    ///
    /// `from` is the node that the connection authenticated, as a member of this cluster under
    /// this id. Everything else about the message is checked here.
    ///
    /// # Errors
    ///
    /// If the message is refused. The node is as before and goes on; whether the peer deserves
    /// suspicion, [`StepError::is_expected`] tells.
    pub fn step(&mut self, from: NodeId, message: &[u8]) -> Result<(), StepError> {
        if self.stopped {
            return Err(StepError::Stopped);
        }
        let gate = Gate::new(&self.node.raft, from);
        let message = gate.admit(message, self.config.message_bytes_max)?;
        // All that is left to refuse is an answer from a node that is no member.
        let result = self.node.step(message).map_err(|_| StepError::UnknownPeer(from));
        self.pin_election();
        result
    }

    /// Proposes an entry. Its fate is what [`ready`](Self::ready) hands out: if it is committed it
    /// comes there, with its context, on every node.
    ///
    /// Only a leader takes proposals. The library would forward one to the leader without telling
    /// whether it arrived, so that is left to the caller, who can wait for an answer.
    ///
    /// # Errors
    ///
    /// If it was not taken. It is in no log then. A proposal that was taken may still be lost with
    /// its leader, and nobody is told: give it an id in its context, a timeout, and a meaning that
    /// bears repetition.
    pub fn propose(&mut self, context: Vec<u8>, data: Vec<u8>) -> Result<(), ProposeError> {
        self.check_proposing()?;
        if context.is_empty() && data.is_empty() {
            return Err(ProposeError::Empty);
        }
        let (bytes, max) = (context.len() as u64 + data.len() as u64, self.config.entry_bytes_max);
        if bytes > max {
            return Err(ProposeError::TooLarge { bytes, max });
        }
        let result = self.node.propose(context, data).map_err(|_| ProposeError::Busy);
        self.pin_election();
        result
    }

    fn check_proposing(&self) -> Result<(), ProposeError> {
        let Leadership { role, leader, .. } = self.leadership();
        if self.stopped {
            Err(ProposeError::Stopped)
        } else if role != Role::Leader {
            Err(ProposeError::NotLeader { leader })
        } else if self.node.raft.lead_transferee.is_some() {
            Err(ProposeError::Transferring)
        } else {
            Ok(())
        }
    }

    /// Asks for a read barrier: [`Output::reads`](super::Output::reads) returns the id once this
    /// node's state machine is at least as new as everything committed anywhere when this was
    /// called. Works on every member.
    ///
    /// The barrier is asked for again until it passes, through any change of leaders; without a
    /// quorum it waits. A caller that gives up [cancels](Self::cancel_read) it.
    pub fn read_index(&mut self) -> ReadId {
        self.reads.register()
    }

    /// Forgets a read barrier; it does not return any more.
    pub fn cancel_read(&mut self, id: ReadId) {
        self.reads.cancel(id);
    }

    /// Proposes a change of the members.
    ///
    /// It takes effect when its entry is handed out. A change that its leader took and then lost
    /// comes nowhere, so the caller waits for its context for a while and tries again.
    ///
    /// # Errors
    ///
    /// If it was not taken, or makes no sense. The library would answer "yes" to a change that
    /// comes too early and replace it by an empty entry, so its conditions are checked first.
    pub fn configure(&mut self, change: &ConfigurationChange) -> Result<(), ConfigureError> {
        self.check_proposing()?;
        if self.configuration().is_joint() {
            return Err(ConfigureError::Joint);
        }
        if let Some(defect) = change.defect(self.configuration()) {
            return Err(ConfigureError::Invalid(defect.into()));
        }
        let for_library = change.for_library();
        let mut changer = ::raft::Changer::new(self.node.raft.prs());
        let trial = match for_library.enter_joint() {
            Some(auto_leave) => changer.enter_joint(auto_leave, for_library.get_changes()),
            None => changer.simple(for_library.get_changes()),
        };
        trial.map_err(|error| ConfigureError::Invalid(error.to_string()))?;
        self.propose_change(for_library)
    }

    /// Proposes the end of a joint phase that its leader did not end by itself, which happens if
    /// leadership changes just then.
    ///
    /// # Errors
    ///
    /// If it was not taken, or the members are in no joint phase.
    pub fn leave_joint(&mut self, context: Vec<u8>) -> Result<(), ConfigureError> {
        self.check_proposing()?;
        if !self.configuration().is_joint() {
            return Err(ConfigureError::NotJoint);
        }
        let mut leave = ConfChangeV2::default();
        leave.set_context(context.into());
        self.propose_change(leave)
    }

    fn propose_change(&mut self, change: ConfChangeV2) -> Result<(), ConfigureError> {
        if self.node.raft.has_pending_conf() {
            return Err(ConfigureError::Pending);
        }
        let result = self.node.propose_conf_change(Vec::new(), change);
        self.pin_election();
        result.map_err(|_| ConfigureError::Propose(ProposeError::Busy))
    }

    /// Begins to hand leadership over to another voter.
    ///
    /// Nobody tells whether that succeeded, except [`Status`]; after one election timeout it is
    /// given up, and until then proposals are refused. A voter that is caught up takes over at once.
    ///
    /// # Errors
    ///
    /// If this node does not lead, or the other is no other voter.
    pub fn transfer_leadership(&mut self, to: NodeId) -> Result<(), TransferError> {
        let Leadership { role, leader, .. } = self.leadership();
        if self.stopped {
            return Err(TransferError::Stopped);
        }
        if role != Role::Leader {
            return Err(TransferError::NotLeader { leader });
        }
        if to == self.config.id || !self.configuration().voters.contains(&to) {
            return Err(TransferError::NotVoter(to));
        }
        self.node.transfer_leader(to.0);
        self.pin_election();
        Ok(())
    }

    /// Tells that a message to a peer was lost, so that the next ones probe instead of hoping.
    pub fn report_unreachable(&mut self, peer: NodeId) {
        if !self.stopped {
            self.node.report_unreachable(peer.0);
            self.pin_election();
        }
    }

    /// Tells whether a snapshot reached its peer. Until then the peer is sent nothing else.
    pub fn report_snapshot(&mut self, peer: NodeId, ok: bool) {
        self.snapshots_sent.remove(&peer);
        if !self.stopped {
            let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
            self.node.report_snapshot(peer.0, status);
            self.pin_election();
        }
    }

    /// Takes over the encoded state machine as of an entry that was handed out, and with it the
    /// members as of that entry. Durable with the next [`ready`](Self::ready), which cuts the log
    /// for it.
    ///
    /// The entry need not be the last one, so the state may be encoded in the background.
    ///
    /// # Errors
    ///
    /// If it is newer than what was handed out, not newer than the last one, or too large to be
    /// sent.
    pub fn offer_snapshot(
        &mut self,
        index: LogIndex,
        data: impl Into<Bytes>,
    ) -> Result<(), OfferError> {
        let data: Bytes = data.into();
        let (bytes, max) = (data.len() as u64, self.config.message_bytes_max);
        if self.stopped {
            return Err(OfferError::Stopped);
        }
        if bytes.saturating_add(SNAPSHOT_OVERHEAD) > max {
            return Err(OfferError::TooLarge { bytes, max });
        }
        if index > self.applied {
            return Err(OfferError::NotApplied { index, applied: self.applied });
        }
        let log = self.node.store();
        let have = self.offered.as_ref().map(|offered| offered.snapshot.position);
        let have = have.unwrap_or_else(|| log.snapshot_position());
        if index <= have.index {
            return Err(OfferError::Outdated { index, have });
        }
        let position = Position { index, term: Term(log.term_at(index.0)) };
        let configuration = self.members_at(index).clone();
        let (entries_max, bytes_max) = (self.config.keep_entries, self.config.snapshot_bytes);
        let cut = log.cut_for(position, entries_max, bytes_max);
        let snapshot = Snapshot { position, configuration, data };
        self.offered = Some(Offered { snapshot, cut });
        Ok(())
    }

    /// Returns how this node stands. Changes nothing.
    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let progress = |(id, progress): (&u64, &::raft::Progress)| {
            let in_snapshot = progress.state == ProgressState::Snapshot;
            let peer = PeerProgress {
                matched: LogIndex(progress.matched),
                recent_active: progress.recent_active || *id == raft.id,
                pending_snapshot: in_snapshot.then_some(LogIndex(progress.pending_snapshot)),
            };
            (NodeId(*id), peer)
        };
        let leads = raft.state == StateRole::Leader;
        Status {
            id: self.config.id,
            leadership: self.leadership(),
            commit: LogIndex(raft.raft_log.committed),
            applied: self.applied,
            last: LogIndex(raft.raft_log.last_index()),
            snapshot: self.node.store().snapshot_position().index,
            configuration: self.configuration().clone(),
            transferring_to: raft.lead_transferee.map(NodeId),
            progress: if leads {
                raft.prs().iter().map(progress).collect()
            } else {
                BTreeMap::new()
            },
        }
    }

    /// Returns the node's term, role and leader: the cheap part of [`status`](Self::status).
    pub fn leadership(&self) -> Leadership {
        let raft = &self.node.raft;
        Leadership {
            term: Term(raft.term),
            role: Role::of_library(raft.state),
            leader: (raft.leader_id != 0).then_some(NodeId(raft.leader_id)),
        }
    }

    /// Returns the last entry, and the last one that is known to be committed.
    pub fn reach(&self) -> (LogIndex, LogIndex) {
        let log = &self.node.raft.raft_log;
        (LogIndex(log.last_index()), LogIndex(log.committed))
    }

    /// Returns the last snapshot, shared; for a driver that sends it by a way of its own.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.node.store().latest_snapshot()
    }
}
