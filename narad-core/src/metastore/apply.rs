//! The fold: one entry of the log after another, each a guarded compare-and-swap.

mod index;
mod members;
mod moves;
mod parts;
mod policy;
mod read;
mod salvage;
mod topics;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use self::index::{Index, Placement};
use super::assignment::{Assignment, Expect};
use super::command::{Applied, Command, Entry, Reason, Reply};
use super::member::{Configuration, Member};
use super::topic::Topic;
use crate::config::Policy;
use crate::ids::{LogIndex, NodeId, PartitionId, ProposalId, TopicId};
use crate::planted::{Bug, is_planted};

pub use self::parts::{Parts, PartsError};
pub use self::salvage::Verdict;

/// The newest cluster version whose commands this build knows.
pub const SUPPORTED_VERSION: u32 = 1;

/// Everything that the nodes agree on, as of one position in the log.
///
/// See the [module](crate::metastore) for what it guarantees.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    applied: LogIndex,
    version: u32,
    /// The newest member, retired or not; ids grow from here and are never used again.
    newest_node: NodeId,
    policy: Policy,
    configuration: Configuration,
    members: BTreeMap<NodeId, Member>,
    topics: BTreeMap<TopicId, Topic>,
    assignments: BTreeMap<PartitionId, Assignment>,
    /// Operators' proposals that took effect, oldest first; at most [`State::REMEMBERED_MAX`].
    remembered: VecDeque<ProposalId>,
    /// Derived from the rest; never stored.
    index: Index,
}

/// What one entry did.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Outcome {
    /// The answer to the proposer.
    pub reply: Reply,
    /// What is different now; nothing if the command was rejected or found its work done.
    pub changed: Changed,
}

/// The parts of the state that an entry made different: all of them, and no other.
///
/// A node's machines look only there, so that an entry costs what it touches and not what exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Changed {
    /// Partitions whose row was made, altered or removed; ascending.
    pub partitions: Vec<PartitionId>,
    /// Members that were made or altered; ascending.
    pub members: Vec<NodeId>,
    /// Topics that were made, altered or removed; ascending.
    pub topics: Vec<TopicId>,
    /// Whether the policy was.
    pub policy: bool,
    /// Whether the Raft configuration was.
    pub configuration: bool,
    /// Whether the cluster version was.
    pub version: bool,
}

/// Why the log cannot be applied any further: going on would make this replica another state
/// than the others' (case 145). The state is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Halt {
    /// The entry's command cannot be read by this build.
    #[error(
        "log entry {index} holds {what}, which this build does not know: \
         upgrade this node, it goes on from there"
    )]
    UnknownCommand {
        /// Where.
        index: LogIndex,
        /// What the decoder found.
        what: String,
    },
    /// The entry's command is known, but was proposed before the cluster's version admitted it.
    #[error(
        "log entry {index} needs cluster version {needs}, but the cluster is at {version}: \
         the node that proposed it is broken, restore from a snapshot before that entry"
    )]
    NotAdmitted {
        /// Where.
        index: LogIndex,
        /// The version that admits it.
        needs: u32,
        /// The version in force.
        version: u32,
    },
    /// The cluster moves on to a version that this build does not have.
    #[error(
        "log entry {index} raises the cluster to version {to}, this build knows up to {max}: \
         upgrade this node, it goes on from there",
        max = SUPPORTED_VERSION
    )]
    VersionUnsupported {
        /// Where.
        index: LogIndex,
        /// The new version.
        to: u32,
    },
    /// The entry has been applied already: the driver's position in the log is behind its state.
    #[error(
        "log entry {index} comes after {applied} was applied: \
         start the log from State::applied, which is stored with the state"
    )]
    Passed {
        /// Where.
        index: LogIndex,
        /// The last entry that was applied.
        applied: LogIndex,
    },
}

/// One entry under way.
struct Turn<'t> {
    index: LogIndex,
    proposal: ProposalId,
    by: NodeId,
    changed: &'t mut Changed,
}

impl State {
    /// Most members, the retired ones included.
    pub const MEMBERS_MAX: usize = 10_000;

    /// Most partitions of all topics together.
    pub const PARTITIONS_MAX: usize = 1_000_000;

    /// Most operators' proposals that are remembered, so that a late duplicate of one does not
    /// undo what another has done since.
    pub const REMEMBERED_MAX: usize = 1024;

    /// Returns the state before the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            applied: LogIndex(0),
            version: 1,
            newest_node: NodeId(0),
            policy: Policy::default(),
            configuration: Configuration::default(),
            members: BTreeMap::new(),
            topics: BTreeMap::new(),
            assignments: BTreeMap::new(),
            remembered: VecDeque::new(),
            index: Index::default(),
        }
    }

    /// Applies the next entry.
    ///
    /// The same entries make the same state on every node; an entry that is in the log twice
    /// changes nothing the second time.
    ///
    /// # Errors
    ///
    /// [`Halt`] if this build cannot apply the entry as every other one does, or if `index` is not
    /// past [`State::applied`]. An entry is never skipped and never applied at the same index
    /// twice; the state is unchanged.
    ///
    /// # Panics
    ///
    /// On no input: only if a rejected command has changed something, which is a fault in here.
    pub fn apply(&mut self, index: LogIndex, entry: &Entry) -> Result<Outcome, Halt> {
        if index <= self.applied {
            return Err(Halt::Passed { index, applied: self.applied });
        }
        self.admit(index, &entry.command)?;
        let mut changed = Changed::default();
        let (proposal, by) = (entry.proposal, entry.by);
        let mut turn = Turn { index, proposal, by, changed: &mut changed };
        let result = self.run(&mut turn, &entry.command);
        changed.put_in_order();
        self.applied = index;
        let reply = match result {
            Ok(applied) => Reply::Applied(applied),
            Err(reason) => {
                assert!(changed.is_empty(), "a rejected command changes nothing");
                Reply::Rejected(reason)
            }
        };
        Ok(Outcome { reply, changed })
    }

    /// Takes over the Raft configuration that the entry at `index` made, or the one that a node
    /// is born with (then `index` is [`State::applied`]).
    ///
    /// # Errors
    ///
    /// [`Halt::Passed`] if `index` is before [`State::applied`].
    pub fn configure(
        &mut self,
        index: LogIndex,
        configuration: Configuration,
    ) -> Result<Changed, Halt> {
        if index < self.applied {
            return Err(Halt::Passed { index, applied: self.applied });
        }
        self.applied = index;
        let differs = self.configuration != configuration;
        self.configuration = configuration;
        Ok(Changed { configuration: differs, ..Changed::default() })
    }

    /// Passes over an entry without a command, which a new leader begins its term with.
    ///
    /// # Errors
    ///
    /// [`Halt::Passed`] if `index` is not past [`State::applied`].
    pub fn skip(&mut self, index: LogIndex) -> Result<(), Halt> {
        if index <= self.applied {
            return Err(Halt::Passed { index, applied: self.applied });
        }
        self.applied = index;
        Ok(())
    }

    fn admit(&self, index: LogIndex, command: &Command) -> Result<(), Halt> {
        let needs = command.version();
        if !self.admits(needs) {
            return Err(Halt::NotAdmitted { index, needs, version: self.version });
        }
        match command {
            Command::RaiseVersion { to } if *to > SUPPORTED_VERSION => {
                Err(Halt::VersionUnsupported { index, to: *to })
            }
            _known => Ok(()),
        }
    }

    fn run(&mut self, turn: &mut Turn<'_>, command: &Command) -> Result<Applied, Reason> {
        match command {
            Command::Join { name, store_uuid, addrs } => self.join(turn, name, *store_uuid, addrs),
            Command::Register { node, store_uuid, incarnation, addrs } => {
                self.register(turn, *node, *store_uuid, *incarnation, addrs)
            }
            Command::MarkDead { node, incarnation } => self.mark_dead(turn, *node, *incarnation),
            Command::Report { node, incarnation, hwms } => {
                self.report(turn, *node, *incarnation, hwms)
            }
            Command::SetDraining { node, on } => self.set_draining(turn, *node, *on),
            Command::DrainedOut { node, incarnation, drain } => {
                self.drained_out(turn, *node, *incarnation, *drain)
            }
            Command::Retire { node, receipt } => self.retire(turn, *node, receipt.as_deref()),
            Command::CreateTopic { name, partitions, parent } => {
                self.create_topic(turn, name, *partitions, *parent)
            }
            Command::DeleteTopic { topic } => self.delete_topic(turn, *topic),
            Command::AssignPartition { partition, node } => {
                self.assign_partition(turn, *partition, *node)
            }
            Command::SetTarget { partition, expect, to } => {
                self.set_target(turn, *partition, *expect, *to)
            }
            Command::ClearTarget { partition, move_id } => {
                self.clear_target(turn, *partition, *move_id)
            }
            // The digest is for people who read the log; no later command looks at it.
            Command::CompleteMove {
                partition,
                expect,
                attempt,
                fence,
                end,
                hwm,
                committed,
                digest: _,
            } => {
                let copy = moves::Copied { end: *end, hwm: *hwm, committed: *committed };
                self.complete_move(turn, *partition, *expect, *attempt, *fence, copy)
            }
            Command::Resolve { partition, attempt } => self.resolve(turn, *partition, *attempt),
            Command::Revoke { partition, token } => self.revoke(turn, *partition, *token),
            Command::ReclaimReady { partition, node, epoch } => {
                self.reclaim_ready(turn, *partition, *node, *epoch)
            }
            Command::SetPolicy(policy) => self.set_policy(turn, policy),
            Command::SetPin { partition, on } => self.set_pin(turn, *partition, *on),
            Command::DeclareLost { partition, expect, generation, to, data, end, receipt } => {
                let heir = salvage::Heir { node: *to, data: *data, start: *end };
                self.declare_lost(turn, *partition, *expect, *generation, heir, receipt)
            }
            Command::RaiseVersion { to } => Ok(self.raise_version(turn, *to)),
        }
    }

    /// Whether the asker's proposal has taken effect before and must not do so again.
    fn is_remembered(&self, turn: &Turn<'_>) -> bool {
        self.remembered.contains(&turn.proposal) && !is_planted(Bug::DuplicateNotRecognized)
    }

    /// Remembers a proposal whose duplicate would be no compare-and-swap.
    fn remember(&mut self, proposal: ProposalId) {
        if self.remembered.len() >= Self::REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        self.remembered.push_back(proposal);
    }

    /// Returns the row that a command is about.
    fn row(&self, partition: PartitionId) -> Result<&Assignment, Reason> {
        self.assignments.get(&partition).ok_or(Reason::Gone)
    }

    /// Returns the row that a command is about, if it is still the one that the asker saw.
    fn expected_row(&self, partition: PartitionId, expect: Expect) -> Result<&Assignment, Reason> {
        let row = self.row(partition)?;
        if row.owner != expect.owner {
            Err(Reason::OwnerChanged)
        } else if row.epoch != expect.epoch {
            Err(Reason::EpochChanged)
        } else if row.move_id != expect.move_id {
            Err(Reason::MoveChanged)
        } else {
            Ok(row)
        }
    }

    /// Alters an existing row and keeps the index in step; the only way to do so.
    fn edit_row(
        &mut self,
        turn: &mut Turn<'_>,
        partition: PartitionId,
        edit: impl FnOnce(&mut Assignment),
    ) {
        let row = self.assignments.get_mut(&partition).expect("the guard has seen the row");
        let before = Placement::of(row);
        edit(row);
        let after = Placement::of(row);
        self.index.displace(partition, before);
        self.index.place(partition, after);
        turn.changed.partitions.push(partition);
    }

    /// Alters an existing member, except for its names and its retirement.
    fn edit_member(&mut self, turn: &mut Turn<'_>, node: NodeId, edit: impl FnOnce(&mut Member)) {
        edit(self.members.get_mut(&node).expect("the guard has seen the member"));
        turn.changed.members.push(node);
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

impl Changed {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
            && self.members.is_empty()
            && self.topics.is_empty()
            && !self.policy
            && !self.configuration
            && !self.version
    }

    /// A command may touch the same row more than once.
    fn put_in_order(&mut self) {
        self.partitions.sort_unstable();
        self.partitions.dedup();
        self.members.sort_unstable();
        self.members.dedup();
        self.topics.sort_unstable();
        self.topics.dedup();
    }
}

impl Halt {
    /// Returns the reason to stop at an entry that the decoder could not read.
    ///
    /// # Examples
    ///
    /// An old build stops, and does not skip what it cannot read:
    ///
    /// ```
    /// use narad_core::ids::LogIndex;
    /// use narad_core::metastore::Halt;
    ///
    /// let halt = Halt::unknown_command(LogIndex(812), "command 31");
    /// assert!(halt.to_string().contains("upgrade this node"));
    /// ```
    pub fn unknown_command(index: LogIndex, what: impl Into<String>) -> Self {
        Self::UnknownCommand { index, what: what.into() }
    }
}
