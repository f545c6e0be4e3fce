//! What a peer's message must satisfy before consensus sees it.
//!
//! The consensus library trusts its peers. An empty proposal, a heartbeat whose commit index lies
//! beyond the log, an append that starts beyond it, a term at the end of the range: each ends the
//! process. So every such message becomes an error here, and nothing has changed.
//!
//! What is *not* checked here: that the peer is who it says. The connection did that, and it
//! knows the cluster too. A leader that this node's members do not name is believed, because a
//! node that lags behind may not have applied the change that added it, and a new learner knows
//! nobody at all.

use super::error::StepError;
use super::log::Log;
use super::membership::Configuration;
use super::output::Term;
use super::reads;
use super::store::RaftStore;
use ::raft::StateRole;
use ::raft::eraftpb::{ConfChangeV2, Entry, EntryType, Message, MessageType};
use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use protobuf::{CodedInputStream, Message as _};

/// How far a message's term may be ahead: more than a century of one election a second.
const TERM_JUMP_MAX: u64 = 1 << 32;
/// The largest index and term taken from a peer, so that no sum of two of them overflows.
const NUMBER_MAX: u64 = 1 << 62;
/// The longest context of a message that is no entry: a read request's name is 24 bytes.
const CONTEXT_BYTES_MAX: usize = 64;
/// How many reads may wait for a leader's heartbeats.
const READS_WAITING_MAX: usize = 4096;

/// How the receiving node stands.
pub(super) struct Gate<'a, S: RaftStore> {
    raft: &'a ::raft::Raft<Log<S>>,
    me: NodeId,
    from: NodeId,
}

impl<'a, S: RaftStore> Gate<'a, S> {
    pub(super) fn new(raft: &'a ::raft::Raft<Log<S>>, from: NodeId) -> Self {
        Self { raft, me: NodeId(raft.id), from }
    }

    /// Decodes a message and checks all of it.
    pub(super) fn admit(&self, bytes: &[u8], bytes_max: u64) -> Result<Message, StepError> {
        if bytes.len() as u64 > bytes_max {
            return Err(StepError::TooLarge { bytes: bytes.len(), max: bytes_max });
        }
        // From a shared buffer, because then the decoder checks each length before it allocates.
        let shared = Bytes::copy_from_slice(bytes);
        // In place: a message is large, and a result would move it.
        let mut message = Message::default();
        let mut input = CodedInputStream::from_carllerche_bytes(&shared);
        let decoded = message.merge_from(&mut input).and_then(|()| input.check_eof());
        decoded.map_err(|error| StepError::Undecodable(error.to_string()))?;
        self.check(&message)?;
        Ok(message)
    }

    fn check(&self, message: &Message) -> Result<(), StepError> {
        let kind = kind(message.get_msg_type());
        self.check_addresses(message)?;
        self.check_numbers(message)?;
        let no_term = message.get_term() == 0;
        if no_term != (message.get_msg_type() == MessageType::MsgReadIndex) {
            // Without a term the library takes a message for one of this node's own.
            let reason = "the term must be there, except in a read request";
            return Err(StepError::Malformed { kind, reason });
        }
        if !no_term && message.get_term() < self.raft.term {
            // Answered or ignored by its term alone.
            return Self::check_kind(message.get_msg_type());
        }
        match message.get_msg_type() {
            MessageType::MsgAppend => self.check_append(message),
            MessageType::MsgHeartbeat => self.check_heartbeat(message),
            MessageType::MsgSnapshot => self.check_snapshot(message),
            MessageType::MsgAppendResponse => self.check_append_response(message),
            MessageType::MsgHeartbeatResponse => self.check_known(),
            MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
                self.check_known()?;
                self.check_saved()
            }
            MessageType::MsgTimeoutNow => {
                self.check_from_leader(message)?;
                self.check_saved()
            }
            MessageType::MsgReadIndex => self.check_read(message),
            MessageType::MsgReadIndexResp => self.check_read_response(message),
            MessageType::MsgRequestVote
            | MessageType::MsgRequestPreVote
            | MessageType::MsgHup
            | MessageType::MsgBeat
            | MessageType::MsgPropose
            | MessageType::MsgUnreachable
            | MessageType::MsgSnapStatus
            | MessageType::MsgCheckQuorum
            | MessageType::MsgTransferLeader => Self::check_kind(message.get_msg_type()),
        }
    }

    fn check_addresses(&self, message: &Message) -> Result<(), StepError> {
        let (to, says) = (NodeId(message.get_to()), NodeId(message.get_from()));
        if to != self.me {
            return Err(StepError::NotForMe { to, me: self.me });
        }
        if says != self.from || says == self.me || says.0 == 0 {
            return Err(StepError::Impersonation { says, from: self.from });
        }
        Ok(())
    }

    fn check_numbers(&self, message: &Message) -> Result<(), StepError> {
        let kind = kind(message.get_msg_type());
        let malformed = |reason| Err(StepError::Malformed { kind, reason });
        let (term, mine) = (message.get_term(), self.raft.term);
        if term > NUMBER_MAX || term.saturating_sub(mine) > TERM_JUMP_MAX {
            return Err(StepError::TermJump { term: Term(term), mine: Term(mine) });
        }
        let numbers = [
            message.get_index(),
            message.get_log_term(),
            message.get_commit(),
            message.get_commit_term(),
            message.get_reject_hint(),
        ];
        if numbers.iter().any(|number| *number > NUMBER_MAX) {
            return malformed("a number is out of range");
        }
        if message.get_context().len() > CONTEXT_BYTES_MAX {
            return malformed("the context is too long");
        }
        // Nobody here sets these; a negative priority ends a node that knows no term yet, and a
        // requested snapshot holds its peer up until one is made.
        if message.get_priority() != 0 || message.get_deprecated_priority() != 0 {
            return malformed("it has a priority");
        }
        if message.get_request_snapshot() != 0 {
            return malformed("it requests a snapshot");
        }
        Ok(())
    }

    /// Refuses what only a node itself may say, and what is not forwarded here: a proposal goes to
    /// its leader by the caller, who wants to know its fate.
    fn check_kind(kind_of_message: MessageType) -> Result<(), StepError> {
        match kind_of_message {
            MessageType::MsgHup
            | MessageType::MsgBeat
            | MessageType::MsgUnreachable
            | MessageType::MsgSnapStatus
            | MessageType::MsgCheckQuorum
            | MessageType::MsgPropose
            | MessageType::MsgTransferLeader => Err(StepError::Forbidden(kind(kind_of_message))),
            MessageType::MsgAppend
            | MessageType::MsgAppendResponse
            | MessageType::MsgRequestVote
            | MessageType::MsgRequestVoteResponse
            | MessageType::MsgSnapshot
            | MessageType::MsgHeartbeat
            | MessageType::MsgHeartbeatResponse
            | MessageType::MsgTimeoutNow
            | MessageType::MsgReadIndex
            | MessageType::MsgReadIndexResp
            | MessageType::MsgRequestPreVote
            | MessageType::MsgRequestPreVoteResponse => Ok(()),
        }
    }

    fn check_append(&self, message: &Message) -> Result<(), StepError> {
        let malformed = |reason| Err(StepError::Malformed { kind: "append", reason });
        self.check_only_leader(message)?;
        // A term of zero matches any place outside of the log, as far as the library can tell.
        if (message.get_index() == 0) != (message.get_log_term() == 0) {
            return malformed("an index without a term, or a term without an index");
        }
        let mut last = (message.get_index(), message.get_log_term());
        for entry in message.get_entries() {
            if entry.get_index() != last.0 + 1 || last.0 >= NUMBER_MAX {
                return malformed("entries out of sequence");
            }
            if entry.get_term() < last.1 || entry.get_term() == 0 {
                return malformed("entries whose terms go back");
            }
            if !is_understood(entry) {
                return malformed("a change of the members that cannot be decoded");
            }
            last = (entry.get_index(), entry.get_term());
        }
        if last.1 > message.get_term() {
            return malformed("an entry from a later term than the message");
        }
        Ok(())
    }

    /// A leader tells a follower to commit at most what the follower acknowledged as durable.
    fn check_heartbeat(&self, message: &Message) -> Result<(), StepError> {
        self.check_only_leader(message)?;
        let last = self.raft.raft_log.last_index();
        if message.get_commit() > last {
            let index = LogIndex(message.get_commit());
            return Err(StepError::BeyondLog { index, last: LogIndex(last) });
        }
        Ok(())
    }

    fn check_snapshot(&self, message: &Message) -> Result<(), StepError> {
        let malformed = |reason| Err(StepError::Malformed { kind: "snapshot", reason });
        self.check_only_leader(message)?;
        let metadata = message.get_snapshot().get_metadata();
        if metadata.get_index() == 0 || metadata.get_index() > NUMBER_MAX {
            return malformed("its index is out of range");
        }
        if metadata.get_term() == 0 || metadata.get_term() > message.get_term() {
            return malformed("its term is out of range");
        }
        let members = metadata.get_conf_state();
        let configuration = Configuration::of_library(members);
        if let Some(reason) = configuration.defect() {
            return malformed(reason);
        }
        if configuration.count() != Configuration::names_in(members) {
            return malformed("its members are named twice");
        }
        if !configuration.is_member(self.me) {
            return malformed("its members lack this node");
        }
        Ok(())
    }

    /// A follower acknowledges what this leader sent it, or says what to try instead of that.
    fn check_append_response(&self, message: &Message) -> Result<(), StepError> {
        self.check_known()?;
        if self.raft.state != StateRole::Leader || message.get_term() != self.raft.term {
            return Ok(());
        }
        let last = self.raft.raft_log.last_index();
        if message.get_index() > last {
            let index = LogIndex(message.get_index());
            return Err(StepError::BeyondLog { index, last: LogIndex(last) });
        }
        if message.get_reject() && message.get_reject_hint() > message.get_index() {
            let reason = "a hint beyond what it refuses";
            return Err(StepError::Malformed { kind: "append response", reason });
        }
        Ok(())
    }

    fn check_read(&self, message: &Message) -> Result<(), StepError> {
        let malformed = |reason| Err(StepError::Malformed { kind: "read request", reason });
        let [entry] = message.get_entries() else {
            return malformed("it must have one entry");
        };
        if !reads::is_name_of(self.from, entry.get_data()) {
            return malformed("its name is not its sender's");
        }
        self.check_known()?;
        if self.raft.state != StateRole::Leader {
            // It would be forwarded, to a node that does not take it from here.
            return Err(StepError::NotLeader);
        }
        let waiting = self.raft.pending_read_count();
        if waiting >= READS_WAITING_MAX { Err(StepError::Busy(waiting)) } else { Ok(()) }
    }

    fn check_read_response(&self, message: &Message) -> Result<(), StepError> {
        if message.get_entries().len() != 1 {
            let reason = "it must have one entry";
            return Err(StepError::Malformed { kind: "read response", reason });
        }
        self.check_from_leader(message)
    }

    /// Refuses a second leader of one term, which no honest cluster has.
    fn check_only_leader(&self, message: &Message) -> Result<(), StepError> {
        let leader = self.raft.leader_id;
        if message.get_term() == self.raft.term && leader != 0 && leader != self.from.0 {
            let (from, term) = (self.from, Term(message.get_term()));
            return Err(StepError::SecondLeader { from, leader: NodeId(leader), term });
        }
        Ok(())
    }

    fn check_from_leader(&self, message: &Message) -> Result<(), StepError> {
        let is_leader = message.get_term() == self.raft.term && self.raft.leader_id == self.from.0;
        if is_leader { Ok(()) } else { Err(StepError::NotLeader) }
    }

    fn check_known(&self) -> Result<(), StepError> {
        match self.raft.prs().get(self.from.0) {
            Some(_) => Ok(()),
            None => Err(StepError::UnknownPeer(self.from)),
        }
    }

    /// Keeps a node from leading before its log is durable, which the library does not survive.
    ///
    /// Such a message cannot be an answer to anything: what it would answer is handed out only
    /// after the log is durable.
    fn check_saved(&self) -> Result<(), StepError> {
        if is_saved(self.raft) { Ok(()) } else { Err(StepError::Early) }
    }
}

/// Returns whether all that a node has in its log is durable.
pub(super) fn is_saved<S: RaftStore>(raft: &::raft::Raft<Log<S>>) -> bool {
    raft.raft_log.unstable_entries().is_empty() && raft.raft_log.unstable_snapshot().is_none()
}

fn is_understood(entry: &Entry) -> bool {
    match entry.get_entry_type() {
        EntryType::EntryNormal => true,
        // The library's older form, which nothing here proposes.
        EntryType::EntryConfChange => false,
        EntryType::EntryConfChangeV2 => {
            ConfChangeV2::default().merge_from_bytes(entry.get_data()).is_ok()
        }
    }
}

fn kind(kind: MessageType) -> &'static str {
    match kind {
        MessageType::MsgHup => "a call to stand for election",
        MessageType::MsgBeat => "a call to send heartbeats",
        MessageType::MsgPropose => "a proposal",
        MessageType::MsgAppend => "append",
        MessageType::MsgAppendResponse => "append response",
        MessageType::MsgRequestVote => "vote request",
        MessageType::MsgRequestVoteResponse => "vote",
        MessageType::MsgSnapshot => "snapshot",
        MessageType::MsgHeartbeat => "heartbeat",
        MessageType::MsgHeartbeatResponse => "heartbeat response",
        MessageType::MsgUnreachable => "a report of an unreachable peer",
        MessageType::MsgSnapStatus => "a report on a snapshot",
        MessageType::MsgCheckQuorum => "a call to check the quorum",
        MessageType::MsgTransferLeader => "a call to hand leadership over",
        MessageType::MsgTimeoutNow => "a call to take leadership over",
        MessageType::MsgReadIndex => "read request",
        MessageType::MsgReadIndexResp => "read response",
        MessageType::MsgRequestPreVote => "pre-vote request",
        MessageType::MsgRequestPreVoteResponse => "pre-vote",
    }
}
