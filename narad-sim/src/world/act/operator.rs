//! What operators ask of the cluster, and commands that somebody makes by hand.

use std::time::Duration;

use narad_core::ids::{
    Attempt, Epoch, Generation, Incarnation, MoveId, Name, NodeId, Offset, PartitionId, ProposalId,
};
use narad_core::metastore::{Command, Entry, Expect, Fence, Reply, State};
use narad_core::node::{Ask, AskError, AskId, Event, Loss, Said};

use super::super::script::Place;
use super::super::{Due, World};
use crate::oracle::{Fact, Origin};
use crate::scenario::{Action, Forged, Label, ReplyIs, Who};

/// A question that an operator waits for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    label: Label,
    action: Action,
    /// What that came to when it was last asked: a name may stand for another topic later.
    wish: Option<Ask>,
    /// How often it was asked.
    tries: u32,
}

/// How a question was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) is: ReplyIs,
    pub(crate) reason: String,
}

impl World {
    /// How often an operator asks again when nobody answers for certain.
    const TRIES_MAX: u32 = 8;
    const PAUSE: Duration = Duration::from_millis(500);

    pub(super) fn act_as_operator(&mut self, label: &Label, action: &Action, place: Place) {
        match action {
            Action::Transfer { to } => {
                // By hand, behind the controller's back: leadership may change at any time.
                let (Some(from), Some(to)) = (self.leader(), self.who(to, place)) else { return };
                if let Some(node) = self.machines[to].node {
                    self.transfer(from, node);
                }
            }
            Action::Propose { by, .. } => {
                let Some(at) = self.who(by, place) else { return };
                if let Some(command) = self.forged(action, place) {
                    self.propose_raw(at, command, Origin::Forged, label);
                }
            }
            // No node has a question for these: an operator who gives no word, or names the heir.
            Action::Retire { receipt: None, .. } | Action::DeclareLost { to: Some(_), .. } => {
                let Some(at) = self.leader() else { return };
                match self.by_operator(at, action, place) {
                    Some(Ok(command)) => self.propose_raw(at, command, Origin::Operator, label),
                    Some(Err(error)) => {
                        let said = answered(&error);
                        self.replies.insert(label.clone(), said);
                    }
                    None => {}
                }
            }
            _ => {
                let (label, action) = (label.clone(), action.clone());
                let asked = Asked { label, action, wish: None, tries: 0 };
                self.ask(asked, place);
            }
        }
    }

    /// Asks again, if nobody has answered for certain.
    pub(crate) fn ask(&mut self, mut asked: Asked, place: Place) {
        asked.tries += 1;
        let through = match &asked.action {
            Action::Drain { through, .. }
            | Action::Cancel { through, .. }
            | Action::Move { through, .. }
            | Action::Abort { through, .. } => through.clone(),
            _ => None,
        };
        let through = through.and_then(|who| self.who(&who, place));
        let up = |world: &Self| world.up.iter().position(|up| *up);
        let machine =
            through.filter(|at| self.up[*at]).or_else(|| self.leader()).or_else(|| up(self));
        let wish = self.wish(&asked.action, place);
        let (Some(machine), Some(wish)) = (machine, wish) else {
            return self.ask_later(asked, place);
        };
        self.next_ask += 1;
        let id = AskId(self.next_ask);
        asked.wish = Some(wish.clone());
        self.asked.insert((machine, id), asked);
        self.tell(machine, Event::Ask { id, ask: wish });
    }

    fn ask_later(&mut self, asked: Asked, place: Place) {
        if asked.tries >= Self::TRIES_MAX {
            let answered = Answered { is: ReplyIs::Unknown, reason: "nobody answered".to_owned() };
            self.replies.insert(asked.label, answered);
            return;
        }
        let due = Due::Ask(Box::new(asked), place);
        self.schedule(self.now.after(Self::PAUSE), due);
    }

    /// A node has answered an operator.
    pub(crate) fn replied(&mut self, machine: usize, ask: AskId, said: &Result<Said, AskError>) {
        let Some(asked) = self.asked.remove(&(machine, ask)) else { return };
        let answered = match said {
            Ok(_) => Answered { is: ReplyIs::Done, reason: String::new() },
            Err(AskError::NoLeader | AskError::Unknown) => {
                return self.ask_later(asked, Place::default());
            }
            Err(error) => answered(error),
        };
        self.replies.insert(asked.label, answered);
    }

    /// What was proposed by hand is answered with what became of it in the log.
    pub(crate) fn decided(&mut self, proposal: ProposalId, reply: &Reply) {
        let Some(label) = self.proposed.remove(&proposal) else { return };
        let (is, reason) = match reply {
            Reply::Applied(_) => (ReplyIs::Done, String::new()),
            Reply::Rejected(reason) => (ReplyIs::Refused, kebab(&format!("{reason:?}"))),
        };
        self.replies.insert(label, Answered { is, reason });
    }

    /// Whether a node proposes a command because an operator asked it to.
    pub(crate) fn is_wished(&self, machine: usize, command: &Command) -> bool {
        let mut asked = self.asked.iter().filter(|((at, _), _)| *at == machine);
        asked.any(|(_, asked)| match (&asked.wish, command) {
            (
                Some(Ask::Move { partition: wished, .. }),
                Command::SetTarget { partition, .. } | Command::SetPin { partition, .. },
            )
            | (Some(Ask::Abort(wished)), Command::ClearTarget { partition, .. })
            | (
                Some(Ask::DeclareLost { partition: wished, .. }),
                Command::DeclareLost { partition, .. },
            ) => wished == partition,
            (Some(Ask::Retire { node: wished, .. }), Command::Retire { node, .. }) => {
                wished == node
            }
            _ => false,
        })
    }

    /// What the machine of a step is asked for is asked again elsewhere, if it ended meanwhile.
    pub(crate) fn forget_asks_of(&mut self, machine: usize) {
        let lost: Vec<_> = self.asked.extract_if(.., |(at, _), _| *at == machine).collect();
        for (_, asked) in lost {
            self.ask_later(asked, Place::default());
        }
    }

    fn wish(&self, action: &Action, place: Place) -> Option<Ask> {
        let node = |who: &Who| self.machines[self.who(who, place)?].node;
        Some(match action {
            Action::Drain { node: who, .. } => Ask::Decommission(node(who)?),
            Action::Cancel { node: who, .. } => Ask::CancelDecommission(node(who)?),
            Action::Move { partition, to, .. } => {
                Ask::Move { partition: self.partition(partition)?, to: node(to)? }
            }
            Action::Abort { partition, .. } => Ask::Abort(self.partition(partition)?),
            Action::Pin { partition } => {
                Ask::Pin { partition: self.partition(partition)?, on: true }
            }
            Action::Unpin { partition } => {
                Ask::Pin { partition: self.partition(partition)?, on: false }
            }
            Action::CreateTopic { topic, partitions, parent } => Ask::CreateTopic {
                name: Name::new(topic.0.clone()).ok()?,
                partitions: *partitions,
                parent: parent.as_ref().and_then(|parent| self.topic(&parent.0)),
            },
            Action::DeleteTopic { topic } => Ask::DeleteTopic(self.topic(&topic.0)?),
            Action::Retire { node: who, receipt: Some(receipt) } => {
                Ask::Retire { node: node(who)?, receipt: receipt.clone() }
            }
            Action::DeclareLost { partition, receipt, .. } => {
                Ask::DeclareLost { partition: self.partition(partition)?, receipt: receipt.clone() }
            }
            Action::Policy { set } => {
                let mut policy = self.newest()?.policy().clone();
                set.apply(&mut policy);
                Ask::SetPolicy(policy)
            }
            _ => return None,
        })
    }

    /// Commands of an operator for which a node has no question. What a loss would come to is the
    /// node's own word all the same; only the heir is another.
    fn by_operator(
        &self,
        at: usize,
        action: &Action,
        place: Place,
    ) -> Option<Result<Command, AskError>> {
        match action {
            Action::Retire { node, receipt } => {
                let node = self.machines[self.who(node, place)?].node?;
                Some(Ok(Command::Retire { node, receipt: receipt.clone() }))
            }
            Action::DeclareLost { partition, to, receipt } => {
                let partition = self.partition(partition)?;
                let to = self.machines[self.who(to.as_ref()?, place)?].node?;
                let asked = &self.machines[at].process.as_ref()?.replica.node();
                let row = asked.state().assignment(partition)?;
                let Loss { generation, end, .. } = match asked.loss(partition) {
                    Ok(loss) => loss,
                    Err(error) => return Some(Err(error)),
                };
                let data = Attempt { move_id: row.move_id, ..Attempt::birth(to) };
                let (expect, receipt) = (row.expect(), receipt.clone());
                Some(Ok(Command::DeclareLost {
                    partition,
                    expect,
                    generation,
                    to,
                    data,
                    end,
                    receipt,
                }))
            }
            _ => None,
        }
    }

    /// A command that somebody makes by hand: stale, forged, or from the museum.
    fn forged(&self, action: &Action, place: Place) -> Option<Command> {
        let Action::Propose {
            command,
            partition,
            about,
            to,
            epoch,
            move_id,
            incarnation,
            generation,
            end,
            enabled,
            by,
        } = action
        else {
            return None;
        };
        let state = self.newest()?;
        let node = |who: &Option<Who>| -> Option<NodeId> {
            self.machines[self.who(who.as_ref()?, place)?].node
        };
        let by = self.machines[self.who(by, place)?].node?;
        let about = node(about).unwrap_or(by);
        let life = |node: NodeId| state.member(node).map(|member| member.incarnation);
        let named = incarnation.map(Incarnation);
        let incarnation = named.or_else(|| life(about)).unwrap_or_default();
        // A node says these of itself alone, and no node lies: what it never said in this life may
        // only come from an earlier one.
        let before = |node: NodeId| {
            let life = life(node).unwrap_or_default();
            named.unwrap_or(Incarnation(life.0.saturating_sub(1)))
        };
        let on = enabled.unwrap_or(true);
        let partition = partition.as_ref().and_then(|name| self.partition(name));
        let row = || Forgery::of(state, partition?, *epoch, *move_id);
        Some(match command {
            Forged::MarkDead => Command::MarkDead { node: about, incarnation },
            Forged::Register => Command::Register {
                node: about,
                store_uuid: state.member(about)?.store_uuid,
                incarnation,
                addrs: state.member(about)?.addrs.clone(),
            },
            Forged::SetDraining => Command::SetDraining { node: about, on },
            Forged::DrainedOut => Command::DrainedOut {
                node: about,
                incarnation: before(about),
                drain: state.member(about)?.drains,
            },
            Forged::Retire => Command::Retire { node: about, receipt: None },
            Forged::Assign => Command::AssignPartition { partition: partition?, node: node(to)? },
            Forged::SetTarget => {
                let row = row()?;
                Command::SetTarget { partition: row.partition, expect: row.expect, to: node(to)? }
            }
            Forged::ClearTarget => {
                let row = row()?;
                Command::ClearTarget { partition: row.partition, move_id: row.expect.move_id }
            }
            Forged::Flip => {
                let row = row()?;
                let frozen = before(row.expect.owner);
                row.flip((by, before(by)), frozen, *generation, *end)
            }
            Forged::Resolve => {
                let row = row()?;
                Command::Resolve { partition: row.partition, attempt: row.attempt(by, before(by)) }
            }
            Forged::Revoke => {
                let row = row()?;
                let no = narad_core::ids::FreezeNo { incarnation: before(by), counter: 1 };
                let token = narad_core::ids::Token { epoch: row.expect.epoch, no };
                Command::Revoke { partition: row.partition, token }
            }
            Forged::SetPin => Command::SetPin { partition: partition?, on },
            Forged::DeclareLost => {
                let row = row()?;
                let to = node(to).unwrap_or(by);
                Command::DeclareLost {
                    partition: row.partition,
                    expect: row.expect,
                    generation: Generation(generation.unwrap_or(1)),
                    to,
                    data: row.attempt(to, Incarnation(0)),
                    end: Offset(end.unwrap_or(0)),
                    receipt: "forged".to_owned(),
                }
            }
            Forged::RaiseVersion => Command::RaiseVersion { to: state.version() + 1 },
        })
    }

    /// Hands a command to the log as if a node had asked for it.
    fn propose_raw(&mut self, at: usize, command: Command, origin: Origin, label: &Label) {
        let Some(by) = self.machines[at].node else { return };
        self.next_ask += 1;
        // No life of a node is numbered so: its own proposals are told apart from these.
        let incarnation = Incarnation(u64::MAX);
        let proposal = ProposalId { node: by, incarnation, sequence: self.next_ask };
        let entry = Entry { proposal, by, command };
        self.proposed.insert(proposal, label.clone());
        let answered = Answered { is: ReplyIs::Unknown, reason: "nobody answered".to_owned() };
        self.replies.insert(label.clone(), answered);
        self.observe(Fact::Proposed { node: by, entry: &entry, origin });
        let Some(leader) = self.leader() else { return };
        self.feed_append(leader, self.nobody, &entry);
    }
}

/// Puts an answer that grants nothing in the words of scenarios.
fn answered(error: &AskError) -> Answered {
    let (is, reason) = match error {
        AskError::NoLeader | AskError::Unknown => (ReplyIs::Unknown, "nobody answered".to_owned()),
        AskError::Rejected(reason) => (ReplyIs::Refused, kebab(&format!("{reason:?}"))),
        AskError::Blocked(blockers) => {
            let named = blockers.iter().map(|blocker| kebab(&format!("{blocker:?}")));
            (ReplyIs::Blocked, named.collect::<Vec<_>>().join(" "))
        }
    };
    Answered { is, reason }
}

/// What a made-up command says of a row.
struct Forgery {
    partition: PartitionId,
    expect: Expect,
}

impl Forgery {
    fn of(
        state: &State,
        partition: PartitionId,
        epoch: Option<u64>,
        move_id: Option<u64>,
    ) -> Option<Self> {
        let mut expect = state.assignment(partition)?.expect();
        expect.epoch = epoch.map_or(expect.epoch, Epoch);
        expect.move_id = move_id.map_or(expect.move_id, MoveId);
        Some(Self { partition, expect })
    }

    const fn attempt(&self, destination: NodeId, incarnation: Incarnation) -> Attempt {
        let no = narad_core::ids::AttemptNo { incarnation, n: 0 };
        Attempt { move_id: self.expect.move_id, destination, no }
    }

    fn flip(
        &self,
        (by, life): (NodeId, Incarnation),
        frozen: Incarnation,
        generation: Option<u64>,
        end: Option<u64>,
    ) -> Command {
        let fence = if let Some(generation) = generation {
            Fence::Forced { generation: Generation(generation) }
        } else {
            let no = narad_core::ids::FreezeNo { incarnation: frozen, counter: 1 };
            Fence::Normal { token: narad_core::ids::Token { epoch: self.expect.epoch, no } }
        };
        Command::CompleteMove {
            partition: self.partition,
            expect: self.expect,
            attempt: self.attempt(by, life),
            fence,
            end: Offset(end.unwrap_or(0)),
            hwm: Offset(end.unwrap_or(0)),
            committed: None,
            digest: narad_core::ids::Digest::default(),
        }
    }
}

/// Writes the name of a variant as scenarios do: `BelowMinVoters { .. }` is `below-min-voters`.
pub(crate) fn kebab(debug: &str) -> String {
    let name: String = debug.chars().take_while(char::is_ascii_alphanumeric).collect();
    let mut out = String::new();
    for (at, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && at > 0 {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
