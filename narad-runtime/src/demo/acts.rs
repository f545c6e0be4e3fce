//! What happens to the cluster while records flow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use narad_core::config::Policy;
use narad_core::ids::Name;
use narad_core::node::Ask;

use super::DemoError;
use super::content::Content;
use super::ledger::Ledger;
use super::nodes::{MemberSeen, Nodes, View, policy};
use super::pace::Pace;
use super::screen::Screen;
use super::traffic::{Controls, TOPIC};
use crate::client::Client;
use crate::service::NewTopic;

/// Partitions of the topic.
pub(super) const PARTITIONS: u32 = 12;

/// How long each act is expected to take, from the second to the fifth: what the pace goes by.
const EXPECTED_SECONDS: [u64; 4] = [4, 6, 9, 5];

/// Longest time that one thing may take. Far more than it needs, as machines may be busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// Pause between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(20);

/// What came of the acts.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The node that was decommissioned.
    pub(super) decommissioned: String,
    /// The node that was killed.
    pub(super) killed: String,
    /// Partitions that were promoted without it.
    pub(super) promoted: Vec<u32>,
    /// Partitions that waited for it.
    pub(super) waited: Vec<u32>,
    /// Records that only its directory has.
    pub(super) left_behind: BTreeSet<u64>,
}

/// What the acts are played with.
pub(super) struct Stage<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) client: &'a Client,
    pub(super) controls: Controls,
    pub(super) screen: &'a Screen,
    pub(super) content: &'a Content,
    pub(super) seed: u64,
}

/// Returns how long all acts with records are expected to take.
pub(super) fn expected() -> Duration {
    left_from(0)
}

fn left_from(act: usize) -> Duration {
    Duration::from_secs(EXPECTED_SECONDS[act..].iter().sum())
}

/// Starts three nodes and returns where they serve HTTP.
pub(super) async fn found(nodes: &Arc<Nodes>, screen: &Screen) -> Result<Vec<String>, DemoError> {
    screen.act(1, "three nodes found a cluster");
    for number in 1..=3 {
        let name = format!("narad-{number}");
        within(nodes, &name, nodes.start(&name)).await?;
    }
    until(nodes, "three voters", |view| view.voters.len() == 3).await?;
    Ok(nodes.http().into_values().collect())
}

/// Creates the topic and waits until all of it is served.
pub(super) async fn create_topic(nodes: &Nodes, client: &Client) -> Result<(), DemoError> {
    let name = Name::new(TOPIC).map_err(|error| DemoError::Internal(error.to_string()))?;
    let topic = NewTopic { name, partitions: PARTITIONS, parent: None };
    client.create_topic(&topic).await?;
    until(nodes, "an owner for every partition", |view| view.rows.len() == PARTITIONS as usize)
        .await?;
    Ok(())
}

/// Waits until there is something to move, but not for long if records come slowly.
pub(super) async fn warm_up(ledger: &Ledger, records: u64, screen: &Screen) {
    const LONGEST: Duration = Duration::from_secs(10);
    let enough = async {
        while ledger.counts().0 < Pace::at_once(records) {
            tokio::time::sleep(PAUSE).await;
        }
    };
    // Little to move is no failure.
    drop(tokio::time::timeout(LONGEST, enough).await);
    screen.say(&format!("{} records are there to move", ledger.counts().0));
}

impl Stage<'_> {
    /// Plays everything that happens while records flow.
    pub(super) async fn play(&self) -> Result<Outcome, DemoError> {
        /// Copies are caught in the middle of a move at the first try unless the machine is very
        /// slow.
        const ROUNDS: u32 = 3;
        let mut outcome = Outcome::default();
        self.expect(0);
        self.join().await?;
        self.expect(1);
        outcome.decommissioned = self.decommission().await?;
        for round in 1..=ROUNDS {
            self.expect(2);
            self.kill(&mut outcome).await?;
            self.expect(3);
            self.come_back(&outcome).await?;
            if !outcome.promoted.is_empty() || round == ROUNDS {
                break;
            }
            self.screen.say("no copy was caught in the middle of its move: once more");
        }
        Ok(outcome)
    }

    fn expect(&self, act: usize) {
        self.controls.pace.expect(left_from(act));
    }

    /// A node joins and gets its share.
    async fn join(&self) -> Result<(), DemoError> {
        const NAME: &str = "narad-4";
        self.screen.act(2, &format!("{NAME} joins, and its share of the partitions moves to it"));
        within(self.nodes, NAME, self.nodes.start(NAME)).await?;
        let share = PARTITIONS as usize / 4;
        let view = until(self.nodes, "the newcomer has its share and a vote", |view| {
            let newcomer = view.named(NAME);
            newcomer.is_some_and(|newcomer| {
                view.owned(newcomer.id) >= share && view.voters.contains(&newcomer.id)
            }) && view.moving() == 0
        })
        .await?;
        self.screen.say(&format!("the partitions are spread: {}", spread(&view)));
        Ok(())
    }

    /// A node is drained and taken out, the leader if it is one of the first three.
    async fn decommission(&self) -> Result<String, DemoError> {
        let view = self.nodes.view().await?;
        let leader = view.leader.map(|leader| view.name_of(leader));
        let leads = leader.filter(|leader| leader != "narad-4");
        let which = if leads.is_some() { "the leader" } else { "not the leader" };
        let name = leads.unwrap_or_else(|| "narad-1".to_owned());
        self.screen.act(3, &format!("{name} ({which}) is decommissioned"));
        self.client.decommission(&name, true).await?;
        let view = until(self.nodes, "the node is out", |view| {
            view.named(&name).is_some_and(|node| {
                node.retired && !view.voters.contains(&node.id) && view.owned(node.id) == 0
            }) && view.moving() == 0
        })
        .await?;
        self.nodes.stop(&name).await;
        let voters = view.voter_names().join(", ");
        self.screen.say(&format!("{name} is out; voters: {voters}; {}", spread(&view)));
        Ok(name)
    }

    /// The killed node returns and finds its place.
    async fn come_back(&self, outcome: &Outcome) -> Result<(), DemoError> {
        let name = &outcome.killed;
        self.screen.act(5, &format!("{name} returns, on the same directory"));
        self.set_paused(false).await?;
        within(self.nodes, name, self.nodes.resume(name)).await?;
        let view = until(self.nodes, "the node has its place and nothing moves", |view| {
            let share = PARTITIONS as usize / view.present().count().max(1);
            view.named(name).is_some_and(|node| node.alive && view.owned(node.id) >= share)
                && view.moving() == 0
        })
        .await?;
        let all: Vec<u32> = (0..PARTITIONS).collect();
        self.controls.release(&all);
        self.screen.say(&format!("{name} has found its place: {}", spread(&view)));
        Ok(())
    }

    /// Has the planner rest, or go on.
    pub(super) async fn set_paused(&self, paused: bool) -> Result<(), DemoError> {
        self.nodes.ask("pause the planner", Ask::SetPolicy(Policy { paused, ..policy() })).await
    }
}

/// Says who owns how much.
fn spread(view: &View) -> String {
    let owns = |member: &MemberSeen| format!("{} has {}", member.name, view.owned(member.id));
    view.present().map(owns).collect::<Vec<_>>().join(", ")
}

/// Waits until the cluster is so, and returns how it is then.
pub(super) async fn until(
    nodes: &Nodes,
    what: &str,
    mut holds: impl FnMut(&View) -> bool,
) -> Result<View, DemoError> {
    let seen = async {
        loop {
            let view = nodes.view().await?;
            if holds(&view) {
                return Ok(view);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    within(nodes, what, seen).await
}

/// Does something that must not take for ever.
pub(super) async fn within<T>(
    nodes: &Nodes,
    what: &str,
    work: impl Future<Output = Result<T, DemoError>>,
) -> Result<T, DemoError> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    if let Ok(done) = done {
        return done;
    }
    let evidence = nodes.waiting().await;
    Err(DemoError::Stalled { what: what.to_owned(), waited: PATIENCE, evidence })
}
