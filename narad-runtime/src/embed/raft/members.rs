//! Who the replicas are, where they are reached, and how that changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use narad_core::ids::{Name, NodeId};
use prost::Message as _;

use super::letter::framed;
use crate::embed::Whom;
use crate::raft::{Configuration, ConfigureError, MemberChange, ProposeError, Role, Status};

/// The replicas of a [`RaftMetastore`](super::RaftMetastore), as one of them knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Those whose majority decides.
    pub voters: BTreeMap<NodeId, Whom>,
    /// Those that receive every record and do not count.
    pub learners: BTreeMap<NodeId, Whom>,
}

impl Replicas {
    /// Returns all of them: whom a replica that joins is given.
    pub fn all(&self) -> Vec<Whom> {
        self.voters.values().chain(self.learners.values()).cloned().collect()
    }
}

/// Why the replicas are not as they were asked to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembersError {
    /// It would make no sense, or do harm. Nothing has changed.
    #[error("the replicas stay as they are: {reason}")]
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// It was not done within ten seconds, and may be done yet: ask again, at any replica.
    #[error("the replicas are not known to have changed ({reason}): ask again")]
    NotNow {
        /// What it waits for, for people.
        reason: String,
    },
}

/// A change of one replica. Asked for twice, it is done once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(Whom),
    Promote(NodeId),
    Remove(NodeId),
}

/// What a leader says to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is so.
    Done,
    /// Another one leads, or nobody.
    NotLeader(Option<NodeId>),
    /// Not yet.
    Later(String),
    /// Never.
    Refused(String),
}

impl Change {
    pub(super) const fn step(&self) -> MemberChange {
        match self {
            Self::Add(whom) => MemberChange::AddLearner(whom.node),
            Self::Promote(node) => MemberChange::Promote(*node),
            Self::Remove(node) => MemberChange::Remove(*node),
        }
    }

    /// Encodes the change; `tag` tells its proposer that it was his.
    pub(super) fn encode(&self, tag: &[u8]) -> Bytes {
        let what = match self {
            Self::Add(whom) => What::Add(WhomMessage::new(whom)),
            Self::Promote(node) => What::Promote(node.0),
            Self::Remove(node) => What::Remove(node.0),
        };
        let tag = Bytes::copy_from_slice(tag);
        ChangeMessage { tag, what: Some(what) }.encode_to_vec().into()
    }

    /// Reads a change and its tag; `None` if it is none.
    pub(super) fn decode(bytes: Bytes) -> Option<(Self, Bytes)> {
        let message = ChangeMessage::decode(bytes).ok()?;
        let change = match message.what? {
            What::Add(whom) => Self::Add(whom.whom()?),
            What::Promote(node) => Self::Promote(NodeId(node)),
            What::Remove(node) => Self::Remove(NodeId(node)),
        };
        Some((change, message.tag))
    }
}

impl Verdict {
    pub(super) fn encode(&self) -> Bytes {
        let (kind, reason) = match self {
            Self::Done => (0, ""),
            Self::NotLeader(_) => (1, ""),
            Self::Later(reason) => (2, reason.as_str()),
            Self::Refused(reason) => (3, reason.as_str()),
        };
        framed(kind, reason.as_bytes())
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, reason) = bytes.split_first()?;
        let reason = String::from_utf8_lossy(reason).into_owned();
        Some(match kind {
            0 => Self::Done,
            1 => Self::NotLeader(None),
            2 => Self::Later(reason),
            3 => Self::Refused(reason),
            _ => return None,
        })
    }
}

impl From<ConfigureError> for Verdict {
    fn from(error: ConfigureError) -> Self {
        match error {
            ConfigureError::Propose(ProposeError::NotLeader { leader }) => Self::NotLeader(leader),
            ConfigureError::Propose(_) | ConfigureError::Pending | ConfigureError::Joint => {
                Self::Later(error.to_string())
            }
            ConfigureError::NotJoint | ConfigureError::Invalid(_) => {
                Self::Refused(error.to_string())
            }
        }
    }
}

/// Who the replicas are: by the log, and by what this one was started with.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// Whom this replica was started with. What they say of their addresses is newer than the log.
    given: BTreeMap<NodeId, Whom>,
    /// Whom the log names.
    recorded: BTreeMap<NodeId, Whom>,
    /// Whose ids never return.
    removed: BTreeSet<NodeId>,
    configuration: Configuration,
}

impl Roster {
    /// How far a learner may be behind when it is given a vote, in entries.
    const LAG_MAX: u64 = 256;

    pub(super) fn new(given: Vec<Whom>) -> Self {
        let given = given.into_iter().map(|whom| (whom.node, whom)).collect();
        Self { given, ..Self::default() }
    }

    pub(super) fn whom(&self, node: NodeId) -> Option<&Whom> {
        let whom = self.given.get(&node).or_else(|| self.recorded.get(&node));
        whom.filter(|_| !self.removed.contains(&node))
    }

    /// All that are known and were not taken out.
    pub(super) fn known(&self) -> impl Iterator<Item = &Whom> {
        let nodes: BTreeSet<&NodeId> = self.given.keys().chain(self.recorded.keys()).collect();
        nodes.into_iter().filter_map(|node| self.whom(*node))
    }

    pub(super) fn was_removed(&self, node: NodeId) -> bool {
        self.removed.contains(&node)
    }

    pub(super) fn replicas(&self) -> Replicas {
        let known = |nodes: &BTreeSet<NodeId>| {
            let known = nodes.iter().filter_map(|node| Some((*node, self.whom(*node)?.clone())));
            known.collect()
        };
        let Configuration { voters, learners, .. } = &self.configuration;
        Replicas { voters: known(voters), learners: known(learners) }
    }

    /// Says whether a change is so already, may be proposed (`None`), or has to wait, as its leader
    /// sees it.
    pub(super) fn judge(&self, change: &Change, status: &Status) -> Option<Verdict> {
        let Status { configuration, leadership, .. } = status;
        if leadership.role != Role::Leader {
            return Some(Verdict::NotLeader(leadership.leader));
        }
        match change {
            Change::Add(whom) if self.removed.contains(&whom.node) => {
                let id = whom.node;
                let reason = format!("node {id} was one once and has lost its log: take a new id");
                Some(Verdict::Refused(reason))
            }
            Change::Add(whom) if configuration.is_member(whom.node) => {
                let same = self.whom(whom.node).is_none_or(|known| known.name == whom.name);
                let other = || Verdict::Refused(format!("another one has the id {}", whom.node));
                Some(if same { Verdict::Done } else { other() })
            }
            Change::Promote(node) if configuration.is_voter(*node) => Some(Verdict::Done),
            Change::Promote(node) => {
                let progress = status.progress.get(node)?;
                let close = progress.matched.0.saturating_add(Self::LAG_MAX) >= status.commit.0;
                let later = || Verdict::Later(format!("node {node} has not caught up"));
                (!close || !progress.recent_active).then(later)
            }
            Change::Remove(node) if !configuration.is_member(*node) => Some(Verdict::Done),
            Change::Remove(node) => {
                let left = || configuration.voters.iter().filter(|voter| *voter != node);
                let lives = |voter: &&NodeId| {
                    status.progress.get(voter).is_some_and(|peer| peer.recent_active)
                };
                if left().count() == 0 {
                    return Some(Verdict::Refused("nobody would be left to vote".to_owned()));
                }
                let reason = "of the voters that would be left no majority answers";
                let alive = left().filter(lives).count();
                (2 * alive <= left().count()).then(|| Verdict::Later(reason.to_owned()))
            }
            Change::Add(_) => None,
        }
    }

    /// Takes over what the log has brought.
    pub(super) fn configured(&mut self, configuration: Configuration, change: Option<Change>) {
        self.configuration = configuration;
        match change {
            Some(Change::Add(whom)) => drop(self.recorded.insert(whom.node, whom)),
            Some(Change::Remove(node)) => {
                self.recorded.remove(&node);
                self.removed.insert(node);
            }
            Some(Change::Promote(_)) | None => {}
        }
    }

    /// Takes over what a snapshot holds.
    pub(super) fn restored(&mut self, configuration: Configuration, kept: KeptRoster) {
        self.configuration = configuration;
        let whoms = kept.members.iter().filter_map(WhomMessage::whom);
        self.recorded = whoms.map(|whom| (whom.node, whom)).collect();
        self.removed = kept.removed.into_iter().map(NodeId).collect();
    }

    /// Returns what a snapshot is to hold.
    pub(super) fn kept(&self) -> KeptRoster {
        KeptRoster {
            members: self.recorded.values().map(WhomMessage::new).collect(),
            removed: self.removed.iter().map(|node| node.0).collect(),
        }
    }
}

impl KeptRoster {
    /// What the first snapshot of a cluster holds.
    pub(super) fn of_founders(founders: &[Whom]) -> Self {
        Self { members: founders.iter().map(WhomMessage::new).collect(), removed: Vec::new() }
    }
}

/// The part of a snapshot that is about replicas.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeptRoster {
    #[prost(message, repeated, tag = "1")]
    members: Vec<WhomMessage>,
    #[prost(uint64, repeated, tag = "2")]
    removed: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ChangeMessage {
    #[prost(bytes = "bytes", tag = "1")]
    tag: Bytes,
    #[prost(oneof = "What", tags = "2, 3, 4")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(message, tag = "2")]
    Add(WhomMessage),
    #[prost(uint64, tag = "3")]
    Promote(u64),
    #[prost(uint64, tag = "4")]
    Remove(u64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct WhomMessage {
    #[prost(uint64, tag = "1")]
    node: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    address: String,
}

impl WhomMessage {
    fn new(whom: &Whom) -> Self {
        let Whom { node, name, address } = whom;
        Self { node: node.0, name: name.to_string(), address: address.clone() }
    }

    fn whom(&self) -> Option<Whom> {
        let name = Name::new(self.name.clone()).ok()?;
        Some(Whom { node: NodeId(self.node), name, address: self.address.clone() })
    }
}

#[cfg(test)]
mod tests {
    use narad_core::ids::LogIndex;

    use super::*;
    use crate::raft::{Leadership, PeerProgress, Term};

    #[test]
    fn changes_and_verdicts_come_back_as_they_were() {
        let name = Name::new("d").expect("it is a good name");
        let whom = Whom { node: NodeId(4), name, address: "d:1".to_owned() };
        for change in [Change::Add(whom), Change::Promote(NodeId(4)), Change::Remove(NodeId(1))] {
            let decoded = Change::decode(change.encode(b"tag"));
            assert_eq!(decoded, Some((change, Bytes::from_static(b"tag"))));
        }
        let (later, refused) = ("it waits".to_owned(), "never".to_owned());
        let verdicts = [
            Verdict::Done,
            Verdict::NotLeader(None),
            Verdict::Later(later),
            Verdict::Refused(refused),
        ];
        for verdict in verdicts {
            assert_eq!(Verdict::decode(&verdict.encode()), Some(verdict));
        }
        assert_eq!((Change::decode(Bytes::new()), Verdict::decode(&[])), (None, None));
    }

    /// R87: what would leave nobody to decide waits, and an id whose log is lost does not return.
    #[test]
    fn a_change_that_would_do_harm_is_not_proposed() {
        let name = Name::new("d").expect("it is a good name");
        let whom = |n| Whom { node: NodeId(n), name: name.clone(), address: String::new() };
        let peer = |matched, recent_active| PeerProgress {
            matched: LogIndex(matched),
            recent_active,
            pending_snapshot: None,
        };
        let (term, leader) = (Term(2), Some(NodeId(1)));
        let commit = LogIndex(1000);
        let mut status = Status {
            id: NodeId(1),
            leadership: Leadership { term, role: Role::Leader, leader },
            commit,
            applied: commit,
            last: commit,
            snapshot: LogIndex(1),
            configuration: Configuration {
                learners: [NodeId(4), NodeId(5)].into(),
                ..Configuration::of_voters((1..=3).map(NodeId))
            },
            transferring_to: None,
            progress: [
                (1, 1000, true),
                (2, 900, true),
                (3, 9, false),
                (4, 990, true),
                (5, 9, true),
            ]
            .map(|(node, matched, active)| (NodeId(node), peer(matched, active)))
            .into(),
        };
        let mut roster = Roster::new(vec![whom(4)]);
        roster.configured(Configuration::default(), Some(Change::Remove(NodeId(9))));
        let judged = |change, status: &Status| roster.judge(&change, status);
        let later = |verdict: &Option<Verdict>| matches!(verdict, Some(Verdict::Later(_)));
        let refused = |verdict: &Option<Verdict>| matches!(verdict, Some(Verdict::Refused(_)));

        assert_eq!(judged(Change::Add(whom(6)), &status), None);
        assert_eq!(judged(Change::Add(whom(4)), &status), Some(Verdict::Done));
        assert!(refused(&judged(Change::Add(whom(9)), &status)));
        assert_eq!(judged(Change::Promote(NodeId(2)), &status), Some(Verdict::Done));
        assert_eq!(judged(Change::Promote(NodeId(4)), &status), None);
        assert!(later(&judged(Change::Promote(NodeId(5)), &status)), "it is far behind");
        // Of 1, 2 and 3 the last does not answer: it may go, and neither of the others.
        assert_eq!(judged(Change::Remove(NodeId(3)), &status), None);
        assert!(later(&judged(Change::Remove(NodeId(2)), &status)));
        assert_eq!(judged(Change::Remove(NodeId(5)), &status), None);
        assert_eq!(judged(Change::Remove(NodeId(7)), &status), Some(Verdict::Done));
        status.configuration = Configuration::of_voters([NodeId(1)]);
        assert!(refused(&judged(Change::Remove(NodeId(1)), &status)), "nobody would be left");
        status.leadership.role = Role::Follower;
        let passed_on = Some(Verdict::NotLeader(leader));
        assert_eq!(judged(Change::Remove(NodeId(1)), &status), passed_on);
    }
}
