//! One log that all nodes share: the metastore without the consensus library.
//!
//! # Purpose
//!
//! Gives every node the same entries in the same order, as late and as unreliably as a replicated
//! log may, at a small part of what the real one costs. Nothing ticks: it costs nothing while
//! nothing happens. It owns no events of the world: it says [when](AbstractLog::next_due) it wants
//! to be polled, and [what](Output) is to be told to whom then.
//!
//! # States
//!
//! ```text
//!            append (the leader)      a majority is reached       a node hears the leader
//!  proposed ────────────────────▶ tail ──────────────────▶ committed ──────────▶ told to the node
//!     │                            │ leader change                    │ compacted
//!     │ deposed leader, or chance  ▼                                  ▼
//!     └────────────────────▶ lost, or back much later      told as a snapshot, which skips it
//! ```
//!
//! # Invariants
//!
//! 1. What is committed stays committed, at its index.
//! 2. In each life a node is told of each index after the one that it starts from, in order, once,
//!    or gets past it with a snapshot.
//! 3. A barrier passes only behind a leader that reaches a majority and has committed an entry of
//!    its own reign, at the last index committed then (raft's `Safe` ReadIndex).
//! 4. An entry that its leader said it took is lost only by [`Faults::lose`] or
//!    [`Faults::late`], if it was not the leader any more, if it reached no majority, or by
//!    [`Faults::forget`] in a leader change.
//!
//! # After a restart
//!
//! A process starts from the last image of the state that its node had applied
//! ([`AbstractLog::start`]), and is told again of what it knew to be committed, without a leader;
//! of anything later once it hears one.
//!
//! # Divergence from reality
//!
//! No votes, terms or log conflicts: whoever is elected has every committed entry. A voter whose
//! disk is set back does not endanger what is committed. A follower learns from the leader only.
//! Election timeouts run in true time. Uncommitted changes of the configuration do not count yet.

mod barrier;
mod commit;
mod elect;
mod faults;
mod follow;
mod output;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use narad_core::effects::OpId;
use narad_core::ids::{LogIndex, NodeId};
use narad_core::metastore::{Configuration, Entry, State};

use self::barrier::Wait;
use self::commit::Uncommitted;
pub use self::faults::{Faults, Pace};
pub use self::output::{Output, Why};
use super::Reach;
use crate::random::Random;
use crate::time::Time;

/// What a machine has of the log on its disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durable {
    /// The last image of the state that it applied.
    image: Arc<State>,
    /// Up to where it knows the log to be committed.
    known: LogIndex,
}

impl Default for Durable {
    /// A new disk.
    fn default() -> Self {
        Self { image: Arc::new(State::new()), known: LogIndex(0) }
    }
}

/// The log, and what it knows of each node.
#[derive(Clone, Debug)]
pub struct AbstractLog {
    pace: Pace,
    faults: Faults,
    /// How long things take.
    timing: Random,
    /// What becomes of entries.
    fate: Random,
    now: Time,
    /// What is committed, from `first` on, and since when.
    items: VecDeque<(Time, Item)>,
    first: LogIndex,
    /// What all that is committed comes to.
    state: State,
    /// Whether the state cannot take in what is committed; then every node stops there.
    is_halted: bool,
    /// States to start and to catch up from, oldest first.
    images: VecDeque<Arc<State>>,
    /// The last entry that anybody was told of.
    reached: LogIndex,
    /// What the leader has and has not committed.
    tail: VecDeque<Uncommitted>,
    leader: Option<NodeId>,
    /// Who led last, whose tail it is.
    last_leader: Option<NodeId>,
    /// Why nobody leads.
    deposed: Option<Why>,
    /// Whether the leader has committed an entry of its own reign.
    is_settled: bool,
    members: BTreeMap<NodeId, Member>,
    /// What is going to happen.
    plan: BTreeMap<(Time, u64), Due>,
    planned: u64,
    pending: Pending,
    /// What is to be said before anything else.
    ready: VecDeque<Output>,
    /// Nodes that may be told something.
    active: VecDeque<NodeId>,
}

/// Something that is committed.
#[derive(Clone, Debug)]
enum Item {
    Entry(Entry),
    Configuration(Configuration),
    Empty,
}

/// One node, as the log sees it.
#[derive(Clone, Debug, Default)]
struct Member {
    /// What outlives its processes.
    durable: Durable,
    is_up: bool,
    /// What its process has been told.
    applied: LogIndex,
    /// What its process may be told.
    granted: LogIndex,
    /// A snapshot that its process is given next.
    jump: Option<Arc<State>>,
    believes: Option<NodeId>,
    is_stubborn: bool,
    /// How much later than others it is told of entries.
    lag: Duration,
    is_held: bool,
    /// The last entry that it hears of, once it is no member any more.
    end: Option<LogIndex>,
    barriers: Vec<Wait>,
    awaits: Awaits,
}

/// What is planned already and need not be planned again.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    commit: bool,
    election: bool,
}

/// What is planned for one node already.
#[derive(Clone, Copy, Debug, Default)]
struct Awaits {
    entries: bool,
    news: bool,
    doubt: bool,
}

/// Something that is going to happen.
#[derive(Clone, Debug)]
enum Due {
    /// The leader hears that a majority has what it appended.
    Commit,
    /// An entry turns up at the leader.
    Late(Box<Entry>),
    /// A node hears what is committed.
    Apply(NodeId),
    /// A node hears who leads.
    News(NodeId),
    /// A node has not heard the leader for long.
    Doubt(NodeId),
    /// A barrier's majority answers.
    Confirm(NodeId, OpId),
    /// The leader is missed.
    Election(Why),
    /// A leader hands over.
    HandOver { from: NodeId, to: NodeId },
}

impl AbstractLog {
    /// How many images are kept for nodes that are behind.
    const IMAGES_MAX: usize = 4;

    /// Begins a log after `genesis`, which every voter of its configuration has; see
    /// [`founded`](super::founded).
    /// Nobody runs yet, and nobody leads.
    pub fn new(genesis: State, pace: Pace, faults: Faults, random: &Random) -> Self {
        let image = Arc::new(genesis.clone());
        let born = genesis.applied();
        let member = || Member {
            durable: Durable { image: Arc::clone(&image), known: born },
            ..Member::default()
        };
        let voters = genesis.configuration().voters.iter();
        Self {
            pace,
            faults,
            timing: random.branch("log-timing"),
            fate: random.branch("log-fate"),
            now: Time::ZERO,
            items: VecDeque::new(),
            first: LogIndex(born.0 + 1),
            members: voters.map(|voter| (*voter, member())).collect(),
            state: genesis,
            is_halted: false,
            images: [image].into(),
            reached: born,
            tail: VecDeque::new(),
            leader: None,
            last_leader: None,
            deposed: None,
            is_settled: false,
            plan: BTreeMap::new(),
            planned: 0,
            pending: Pending::default(),
            ready: VecDeque::new(),
            active: VecDeque::new(),
        }
    }

    /// Returns when [`poll`](Self::poll) has something to say: at once if that has passed.
    pub fn next_due(&self) -> Time {
        if !self.ready.is_empty() || !self.active.is_empty() {
            return self.now;
        }
        self.plan.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at)
    }

    /// Lets happen what is due, up to the next thing to be said. To be called until it returns
    /// nothing; what it returns is to be carried out before the next call.
    pub fn poll(&mut self, now: Time, reach: &dyn Reach) -> Option<Output> {
        self.now = self.now.max(now);
        loop {
            if let Some(output) = self.ready.pop_front() {
                return Some(output);
            }
            if let Some(output) = self.tell_next(reach) {
                return Some(output);
            }
            let next = self.plan.first_entry().filter(|next| next.key().0 <= self.now)?;
            let due = next.remove();
            self.happen(due, reach);
        }
    }

    /// A process of a node starts. Returns the state that it starts from. A node that the log has
    /// not seen before has an empty disk.
    pub fn start(&mut self, now: Time, node: NodeId, reach: &dyn Reach) -> State {
        self.now = self.now.max(now);
        let member = self.members.entry(node).or_default();
        member.is_up = true;
        member.applied = member.durable.image.applied();
        member.granted = member.applied;
        let state = State::clone(&member.durable.image);
        self.plan_apply(node, Duration::ZERO);
        self.reach_changed(now, reach);
        state
    }

    /// The process of a node has ended.
    pub fn stop(&mut self, now: Time, node: NodeId, reach: &dyn Reach) {
        self.now = self.now.max(now);
        let Some(member) = self.members.get_mut(&node) else { return };
        member.is_up = false;
        member.jump = None;
        member.believes = None;
        member.granted = member.applied;
        member.barriers.clear();
        let is_for =
            |output: &Output| matches!(output, Output::Tell { node: to, .. } if *to == node);
        self.ready.retain(|output| !is_for(output));
        if self.leader == Some(node) {
            self.depose(Why::Crash);
        }
        self.reach_changed(now, reach);
    }

    /// Links, pauses or processes are not as they were: to be called after each such change, and
    /// for nothing else, since without ticks nobody looks.
    pub fn reach_changed(&mut self, now: Time, reach: &dyn Reach) {
        self.now = self.now.max(now);
        self.watch_leader(reach);
        self.plan_commit();
        let all: Vec<NodeId> = self.members.keys().copied().collect();
        for node in all {
            self.follow(node, reach);
        }
    }

    /// Lets nothing take longer than that from one node to another from now on.
    pub fn hurry(&mut self, hop_max: Duration) {
        let hop = &self.pace.hop;
        self.pace.hop = (*hop.start()).min(hop_max)..=(*hop.end()).min(hop_max);
    }

    /// Changes what goes wrong by chance from now on.
    pub const fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Returns what goes wrong by chance.
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns what all committed entries come to.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Whether something is committed that no state can take in: every node stops there.
    pub const fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Returns the last index that is committed.
    pub fn last(&self) -> LogIndex {
        LogIndex(self.first.0 - 1 + self.items.len() as u64)
    }

    /// Returns who leads in truth, whatever anybody believes.
    pub const fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Returns whom a node believes to lead.
    pub fn believes(&self, node: NodeId) -> Option<NodeId> {
        self.members.get(&node)?.believes
    }

    /// Returns what a machine has on its disk, to be put back later.
    pub fn save(&self, node: NodeId) -> Durable {
        self.members.get(&node).map(|member| member.durable.clone()).unwrap_or_default()
    }

    /// Puts something else on the disk of a machine whose process has ended: an older image, that
    /// of another machine, or nothing.
    ///
    /// # Panics
    ///
    /// If its process runs.
    pub fn restore(&mut self, node: NodeId, durable: Durable) {
        let member = self.members.entry(node).or_default();
        assert!(!member.is_up, "{node:?} runs: a disk is changed between two processes");
        member.durable = durable;
    }

    fn happen(&mut self, due: Due, reach: &dyn Reach) {
        match due {
            Due::Commit => self.commit_due(reach),
            Due::Late(entry) => self.turn_up(*entry, reach),
            Due::Apply(node) => self.hear_entries(node, reach),
            Due::News(node) => self.hear_leader(node, reach),
            Due::Doubt(node) => self.doubt(node, reach),
            Due::Confirm(node, op) => self.confirm(node, op, reach),
            Due::Election(why) => self.election(why, reach),
            Due::HandOver { from, to } => self.hand_over(from, to, reach),
        }
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.planned += 1;
        self.plan.insert((self.now.after(after), self.planned), due);
    }

    fn hop(&mut self) -> Duration {
        self.timing.duration(self.pace.hop.clone())
    }

    fn is_up(&self, node: NodeId, reach: &dyn Reach) -> bool {
        self.members.get(&node).is_some_and(|member| member.is_up) && reach.is_up(node)
    }

    /// Whether a node reaches a majority of the voters, of both sides while a change is joint.
    fn has_quorum(&self, node: NodeId, reach: &dyn Reach) -> bool {
        let configuration = self.state.configuration();
        let heard = |voter: &&NodeId| {
            self.is_up(**voter, reach) && (**voter == node || reach.talks(node, **voter))
        };
        [&configuration.voters, &configuration.voters_outgoing]
            .iter()
            .all(|side| side.is_empty() || side.iter().filter(heard).count() > side.len() / 2)
    }

    /// Returns the leader, if it runs and reaches a majority.
    fn fit_leader(&self, reach: &dyn Reach) -> Option<NodeId> {
        self.leader.filter(|leader| self.is_up(*leader, reach) && self.has_quorum(*leader, reach))
    }

    /// Whether a running node hears a leader that is one.
    fn hears(&self, node: NodeId, reach: &dyn Reach) -> bool {
        let hears = |leader| node == leader || reach.talks(node, leader);
        self.is_up(node, reach) && self.fit_leader(reach).is_some_and(hears)
    }

    fn takes_part(&self, node: NodeId) -> bool {
        self.leader == Some(node) || self.state.configuration().contains(node)
    }
}
