//! The protocol's rules for entries of the log, written a second time.
//!
//! What a replica makes of an entry is decided by the fold that all of them share, so that a mistake
//! in there is made by all of them alike, and by whoever folds with it. This one is written from the
//! rules and not from that code: it knows the metastore's types as plain data and calls none of their
//! methods. For every entry it says which answer and which rows are right; a replica's that differ
//! break the invariant that the command is there for.
//!
//! Reasons of refusals count, too: a destination that is told `TokenRevoked` tries again, one that
//! is told `MoveChanged` gives up.

mod members;
mod moves;
pub(super) mod probe;
#[cfg(test)]
mod tests;
mod timing;
mod topics;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use narad_core::config::Policy;
use narad_core::ids::{LogIndex, NodeId, PartitionId, ProposalId, TopicId};
use narad_core::metastore::{
    Applied, Assignment, Command, Configuration, Entry, Fence, Member, Outcome, Reason, Reply,
    State, Topic,
};

use super::sink::{Cx, Subject};

/// Proposals of operators that are remembered.
const REMEMBERED: usize = 1024;

/// What everybody should agree on.
#[derive(Clone, Debug)]
pub(super) struct Law {
    version: u32,
    newest: NodeId,
    policy: Policy,
    configuration: Configuration,
    members: BTreeMap<NodeId, Member>,
    topics: BTreeMap<TopicId, Topic>,
    rows: BTreeMap<PartitionId, Assignment>,
    remembered: VecDeque<ProposalId>,
}

/// What an entry touches that is right.
#[derive(Debug, Default)]
struct Touched {
    partitions: BTreeSet<PartitionId>,
    members: BTreeSet<NodeId>,
    topics: BTreeSet<TopicId>,
}

/// One entry being ruled.
struct Case<'a> {
    index: LogIndex,
    entry: &'a Entry,
    touched: Touched,
}

/// Before the first entry.
impl Default for Law {
    fn default() -> Self {
        Self::of(&State::new())
    }
}

impl Law {
    /// Takes over what a state says.
    pub(super) fn of(state: &State) -> Self {
        let parts = state.to_parts();
        Self {
            version: parts.version,
            newest: parts.newest_node,
            policy: parts.policy,
            configuration: parts.configuration,
            members: parts.members.into_iter().map(|member| (member.id, member)).collect(),
            topics: parts.topics.into_iter().map(|topic| (topic.id, topic)).collect(),
            rows: parts.assignments.into_iter().collect(),
            remembered: parts.remembered.into(),
        }
    }

    /// Takes over a Raft configuration.
    pub(super) fn configure(&mut self, configuration: &Configuration) {
        self.configuration = configuration.clone();
    }

    /// Rules an entry, and compares what the replicas made of it: the answer and what is different
    /// now in `after`.
    pub(super) fn compare(
        &mut self,
        index: LogIndex,
        entry: &Entry,
        outcome: &Outcome,
        after: &State,
        cx: &mut Cx<'_>,
    ) {
        if !self.judge("", index, entry, (outcome, after), cx) {
            // One mistake is told once: what follows is judged from what is there.
            *self = Self::of(after);
        }
    }

    /// Does so for an entry that nobody has proposed. Returns whether all was right.
    fn compare_supposed(
        &mut self,
        index: LogIndex,
        entry: &Entry,
        outcome: &Outcome,
        after: &State,
        cx: &mut Cx<'_>,
    ) -> bool {
        self.judge("were it to come next, ", index, entry, (outcome, after), cx)
    }

    fn judge(
        &mut self,
        supposing: &str,
        index: LogIndex,
        entry: &Entry,
        (outcome, after): (&Outcome, &State),
        cx: &mut Cx<'_>,
    ) -> bool {
        let mut case = Case { index, entry, touched: Touched::default() };
        let due = match self.rule(&mut case) {
            Ok(applied) => Reply::Applied(applied),
            Err(reason) => Reply::Rejected(reason),
        };
        let (by, command) = (entry.by, &entry.command);
        let subject = subject(command);
        if due != outcome.reply {
            cx.breach(guarded(command), subject, || {
                let got = &outcome.reply;
                format!(
                    "{supposing}entry {index} of {by:?} is answered {got:?} where {due:?} is \
                     right: {command:?}"
                )
            });
        }
        let mut touched = case.touched;
        touched.partitions.extend(&outcome.changed.partitions);
        touched.members.extend(&outcome.changed.members);
        touched.topics.extend(&outcome.changed.topics);
        let wrong = self.differs(&touched, after);
        let right = due == outcome.reply && wrong.is_none();
        if let Some(wrong) = wrong {
            cx.breach(guarded(command), subject, || {
                format!("{supposing}entry {index} of {by:?} leaves {wrong}: {command:?}")
            });
        }
        right
    }

    /// Compares everything with a state that was folded as far.
    pub(super) fn compare_all(&self, state: &State, cx: &mut Cx<'_>) {
        let mut all = Touched::default();
        all.partitions.extend(self.rows.keys());
        all.partitions.extend(state.assignments().map(|(partition, _)| partition));
        all.members.extend(self.members.keys());
        all.members.extend(state.members().map(|member| member.id));
        all.topics.extend(self.topics.keys());
        all.topics.extend(state.topics().map(|topic| topic.id));
        if let Some(wrong) = self.differs(&all, state).or_else(|| self.misfiled(state)) {
            cx.breach("S16", Subject::Cluster, || format!("the log comes to {wrong}"));
        }
    }

    /// Says what a state's look-ups find that a look at all rows does not, or the other way round.
    fn misfiled(&self, state: &State) -> Option<String> {
        let rows = |pick: &dyn Fn(&Assignment) -> bool| -> BTreeSet<PartitionId> {
            self.rows.iter().filter(|(_, row)| pick(row)).map(|(partition, _)| *partition).collect()
        };
        let born = |topic: &Topic| {
            let topic_id = topic.id;
            (0..topic.partitions).map(move |index| PartitionId { topic: topic_id, index })
        };
        let unassigned: BTreeSet<PartitionId> = self
            .topics
            .values()
            .flat_map(born)
            .filter(|partition| !self.rows.contains_key(partition))
            .collect();
        if rows(&|row| row.target.is_some()) != state.targeted().collect() {
            return Some("other moves than its rows say".into());
        }
        if unassigned != state.unassigned().collect() {
            return Some("other partitions without an owner than its rows say".into());
        }
        let wrong = self.members.keys().copied().find(|node| {
            let outbound = |row: &Assignment| row.owner == *node && row.target.is_some();
            rows(&|row| row.owner == *node) != state.owned_by(*node).collect()
                || rows(&|row| row.target == Some(*node)) != state.targets_of(*node).collect()
                || rows(&outbound) != state.outbound_of(*node).collect()
        });
        wrong.map(|node| format!("other partitions of {node:?} than its rows say"))
    }

    /// Says what of the touched things is not in a state as it should be.
    fn differs(&self, touched: &Touched, state: &State) -> Option<String> {
        for partition in &touched.partitions {
            let (due, found) = (self.rows.get(partition), state.assignment(*partition));
            if due != found {
                return Some(format!("{partition:?} as {found:?} where {due:?} is right"));
            }
        }
        for node in &touched.members {
            let (due, found) = (self.members.get(node), state.member(*node));
            if due != found {
                return Some(format!("{node:?} as {found:?} where {due:?} is right"));
            }
        }
        for topic in &touched.topics {
            let (due, found) = (self.topics.get(topic), state.topic(*topic));
            if due != found {
                return Some(format!("{topic:?} as {found:?} where {due:?} is right"));
            }
        }
        if self.policy != *state.policy() {
            return Some(format!("the policy {:?}", state.policy()));
        }
        (self.version != state.version()).then(|| format!("version {}", state.version()))
    }

    /// Carries out an entry as the rules say.
    fn rule(&mut self, case: &mut Case<'_>) -> Result<Applied, Reason> {
        match &case.entry.command {
            Command::Join { name, store_uuid, addrs } => self.join(case, name, *store_uuid, addrs),
            Command::Register { node, store_uuid, incarnation, addrs } => {
                self.register(case, *node, *store_uuid, *incarnation, addrs)
            }
            Command::MarkDead { node, incarnation } => self.mark_dead(case, *node, *incarnation),
            Command::Report { node, incarnation, hwms } => {
                self.report(case, *node, *incarnation, hwms)
            }
            Command::SetDraining { node, on } => self.set_draining(case, *node, *on),
            Command::DrainedOut { node, incarnation, drain } => {
                self.drained_out(case, *node, *incarnation, *drain)
            }
            Command::Retire { node, receipt } => self.retire(case, *node, receipt.as_deref()),
            Command::CreateTopic { name, partitions, parent } => {
                self.create_topic(case, name, *partitions, *parent)
            }
            Command::DeleteTopic { topic } => self.delete_topic(case, *topic),
            Command::AssignPartition { partition, node } => self.assign(case, *partition, *node),
            Command::SetTarget { partition, expect, to } => {
                self.set_target(case, *partition, *expect, *to)
            }
            Command::ClearTarget { partition, move_id } => {
                self.clear_target(case, *partition, *move_id)
            }
            Command::CompleteMove {
                partition,
                expect,
                attempt,
                fence,
                end,
                hwm,
                committed,
                ..
            } => {
                let copy = moves::Copy { end: *end, hwm: *hwm, committed: *committed };
                self.complete_move(case, *partition, (*expect, *attempt, *fence), copy)
            }
            Command::Resolve { partition, attempt } => self.resolve(case, *partition, *attempt),
            Command::Revoke { partition, token } => self.revoke(case, *partition, *token),
            Command::ReclaimReady { partition, node, epoch } => {
                self.reclaim_ready(case, *partition, *node, *epoch)
            }
            Command::SetPolicy(policy) => self.set_policy(case, policy),
            Command::SetPin { partition, on } => self.set_pin(case, *partition, *on),
            Command::DeclareLost { partition, expect, generation, to, data, end, receipt } => {
                let heir = (*to, *data, *end);
                self.declare_lost(case, *partition, (*expect, *generation), heir, receipt)
            }
            Command::RaiseVersion { to } => {
                self.version = self.version.max(*to);
                Ok(Applied::Done)
            }
        }
    }

    /// Whether an operator's proposal has taken effect before.
    fn is_remembered(&self, case: &Case<'_>) -> bool {
        self.remembered.contains(&case.entry.proposal)
    }

    fn remember(&mut self, proposal: ProposalId) {
        self.remembered.push_back(proposal);
        if self.remembered.len() > REMEMBERED {
            self.remembered.pop_front();
        }
    }
}

/// What a command is about.
fn subject(command: &Command) -> Subject {
    match command {
        Command::Register { node, .. }
        | Command::MarkDead { node, .. }
        | Command::Report { node, .. }
        | Command::SetDraining { node, .. }
        | Command::DrainedOut { node, .. }
        | Command::Retire { node, .. } => Subject::Node(*node),
        Command::AssignPartition { partition, .. }
        | Command::SetTarget { partition, .. }
        | Command::ClearTarget { partition, .. }
        | Command::CompleteMove { partition, .. }
        | Command::Resolve { partition, .. }
        | Command::Revoke { partition, .. }
        | Command::ReclaimReady { partition, .. }
        | Command::SetPin { partition, .. }
        | Command::DeclareLost { partition, .. } => Subject::Partition(*partition),
        Command::Join { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::SetPolicy(_)
        | Command::RaiseVersion { .. } => Subject::Cluster,
    }
}

/// The invariant that a command's guard is there for.
const fn guarded(command: &Command) -> &'static str {
    match command {
        Command::CompleteMove { fence: Fence::Normal { .. }, .. } => "S8",
        Command::CompleteMove { fence: Fence::Forced { .. }, .. }
        | Command::MarkDead { .. }
        | Command::Report { .. }
        | Command::SetPolicy(_) => "S6",
        Command::Resolve { .. } | Command::ReclaimReady { .. } => "S10",
        Command::Revoke { .. } => "S9",
        Command::SetTarget { .. } | Command::ClearTarget { .. } | Command::SetPin { .. } => "S12",
        Command::SetDraining { .. }
        | Command::DrainedOut { .. }
        | Command::Retire { .. }
        | Command::AssignPartition { .. } => "S15",
        Command::Join { .. } | Command::Register { .. } | Command::RaiseVersion { .. } => "S16",
        Command::CreateTopic { .. } | Command::DeleteTopic { .. } => "S5",
        Command::DeclareLost { .. } => "S1",
    }
}
