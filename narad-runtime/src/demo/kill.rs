//! The fourth act: a node dies while some of its partitions are moving away from it.

use std::collections::BTreeSet;
use std::time::Duration;

use narad_core::ids::{NodeId, PartitionId};
use narad_core::metastore::Residue;
use narad_core::mover::{Phase, Progress, Waiting};
use narad_core::node::{Ask, Node};

use super::DemoError;
use super::acts::{Outcome, Stage, until, within};
use super::nodes::{MemberSeen, View};
use super::residue::{Promoted, left_behind};

/// Who dies, and what is on its way from there.
struct Scene {
    victim: MemberSeen,
    /// Partitions whose copies are to be complete when it dies, and where they go.
    early: Vec<(PartitionId, NodeId)>,
    /// One that has only just begun to move.
    late: Option<(PartitionId, NodeId)>,
}

impl Stage<'_> {
    /// A node dies in the middle of moves that the demonstration has asked for; what can be promoted
    /// is, the rest waits.
    pub(super) async fn kill(&self, outcome: &mut Outcome) -> Result<(), DemoError> {
        /// Moves that were too fast to be caught are begun again, with other partitions.
        const TRIES: u32 = 3;
        self.set_paused(true).await?;
        let view = self.nodes.view().await?;
        let victim = self.victim(&view)?;
        let leads = if view.leader == Some(victim.id) { "the leader" } else { "not the leader" };
        let name = victim.name.clone();
        self.screen.act(4, &format!("{name} ({leads}) dies while partitions move away from it"));
        self.screen.say(&format!(
            "records to the partitions of {name} that move are held back, so that a copy can be \
             caught complete"
        ));
        let mut scene = Self::scene(&view, victim);
        for _ in 1..TRIES {
            if self.caught(&scene).await? {
                break;
            }
            let view = self.nodes.view().await?;
            scene = Self::scene(&view, scene.victim);
        }
        if let Some((partition, to)) = scene.late {
            self.nodes.ask("move a partition", Ask::Move { partition, to }).await?;
        }
        self.nodes.kill(&name);
        outcome.killed.clone_from(&name);
        self.screen.say(&format!("{name} is killed"));
        self.aftermath(&scene, outcome).await
    }

    /// Picks who dies: any node with enough partitions.
    fn victim(&self, view: &View) -> Result<MemberSeen, DemoError> {
        let able: Vec<&MemberSeen> =
            view.present().filter(|node| view.owned(node.id) >= 2).collect();
        let place = self.seed % (able.len().max(1) as u64);
        let place = usize::try_from(place).unwrap_or(0);
        able.get(place).copied().cloned().ok_or(DemoError::NobodyLeft)
    }

    /// Spreads the partitions of who dies over the others, the last one at the last moment.
    fn scene(view: &View, victim: MemberSeen) -> Scene {
        let others: Vec<NodeId> =
            view.present().map(|node| node.id).filter(|id| *id != victim.id).collect();
        let owned = view.rows.iter().filter(|(_, row)| row.owner == victim.id);
        let mut early: Vec<(PartitionId, NodeId)> =
            owned.map(|(partition, _)| *partition).zip(others.into_iter().cycle()).collect();
        let late = if early.len() > 1 { early.pop() } else { None };
        Scene { victim, early, late }
    }

    /// Begins the early moves and waits until a copy is complete, but not yet promoted; says no if
    /// all of them were too fast.
    async fn caught(&self, scene: &Scene) -> Result<bool, DemoError> {
        let all = scene.early.iter().chain(&scene.late);
        let indices: Vec<u32> = all.map(|(partition, _)| partition.index).collect();
        within(self.nodes, "records on their way to arrive", async {
            self.controls.hold(&indices).await;
            Ok(())
        })
        .await?;
        for (partition, to) in &scene.early {
            let ask = Ask::Move { partition: *partition, to: *to };
            self.nodes.ask("move a partition", ask).await?;
        }
        let moving: BTreeSet<PartitionId> =
            scene.early.iter().map(|(partition, _)| *partition).collect();
        let caught = async {
            loop {
                let complete = self.complete(&scene.victim, &moving).await;
                let view = self.nodes.view().await?;
                let owned = |id: &&PartitionId| {
                    view.row(**id).is_some_and(|row| row.owner == scene.victim.id)
                };
                let left = moving.iter().filter(owned).count();
                if left == 0 {
                    self.controls.release(&indices);
                    return Ok(false);
                }
                if complete >= left.min(2) {
                    return Ok(true);
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        };
        within(self.nodes, "a copy that is complete", caught).await
    }

    /// Counts the copies that have all that their source has, and wait for their next pass.
    async fn complete(&self, victim: &MemberSeen, moving: &BTreeSet<PartitionId>) -> usize {
        let mut complete = 0;
        for (name, handle) in self.nodes.handles() {
            if name == victim.name {
                continue;
            }
            let look = |node: &Node| node.moves().collect::<Vec<_>>();
            let Ok(moves) = handle.query(look).await else { continue };
            let whole = |progress: &Progress| {
                progress.phase == Phase::CatchUp
                    && progress.passes > 0
                    && progress.staged_bytes > 0
                    && progress.staged_bytes == progress.listed_bytes
            };
            let ours = moves.iter().filter(|(partition, _)| moving.contains(partition));
            complete += ours.filter(|(_, progress)| whole(progress)).count();
        }
        complete
    }

    /// Waits until everything that can be promoted is, and looks at what was left behind.
    async fn aftermath(&self, scene: &Scene, outcome: &mut Outcome) -> Result<(), DemoError> {
        let name = &scene.victim.name;
        until(self.nodes, "the death is noticed", |view| {
            view.named(name).is_some_and(|node| !node.alive)
        })
        .await?;
        self.screen.say(&format!("{name} is declared dead"));
        let all = scene.early.iter().chain(&scene.late);
        let moving: Vec<PartitionId> = all.map(|(partition, _)| *partition).collect();
        let settled = async {
            loop {
                let refused = self.refused().await;
                let view = self.nodes.view().await?;
                let done = moving.iter().all(|partition| {
                    let row = view.row(*partition);
                    let gone = row.is_none_or(|row| row.owner != scene.victim.id);
                    gone || refused.iter().any(|(waits, _)| waits == partition)
                });
                if done {
                    return Ok((view, refused));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let (view, refused) = within(self.nodes, "promotions", settled).await?;
        let promoted = promoted(&view, &scene.victim, &moving);
        let indices: Vec<u32> = promoted.iter().map(|one| one.partition.index).collect();
        self.controls.release(&indices);
        for one in &promoted {
            let owner =
                view.row(one.partition).map_or_else(String::new, |row| view.name_of(row.owner));
            self.screen.say(&format!("partition {} was promoted on {owner}", one.partition.index));
        }
        for (partition, why) in &refused {
            self.screen.say(&format!("partition {} waits: {why}", partition.index));
        }
        let waits = view.rows.iter().filter(|(_, row)| row.owner == scene.victim.id);
        outcome.waited = waits.map(|(partition, _)| partition.index).collect();
        outcome.promoted.extend(indices);
        let (settings, content) = (self.nodes.settings_of(name)?, self.content.clone());
        let look = move || left_behind(&settings, &promoted, &content);
        let looked = tokio::task::spawn_blocking(look).await;
        let found = looked.map_err(|error| DemoError::Internal(error.to_string()))??;
        outcome.left_behind.extend(found);
        Ok(())
    }

    /// Returns the moves that wait for the dead source to return, and why.
    async fn refused(&self) -> Vec<(PartitionId, String)> {
        let mut refused = Vec::new();
        for (_, handle) in self.nodes.handles() {
            let look = |node: &Node| node.moves().collect::<Vec<_>>();
            let Ok(moves) = handle.query(look).await else { continue };
            refused.extend(moves.into_iter().filter_map(|(partition, progress)| {
                match progress.waiting {
                    Some(waiting @ Waiting::PromoteRefused(_)) => {
                        Some((partition, waiting.to_string()))
                    }
                    _ => None,
                }
            }));
        }
        refused
    }
}

/// Returns the partitions that were promoted without the node that owned them.
fn promoted(view: &View, victim: &MemberSeen, moving: &[PartitionId]) -> Vec<Promoted> {
    let forced = |partition: &PartitionId| {
        let lineage = &view.row(*partition)?.lineage;
        let [.., old, new] = lineage.as_slice() else { return None };
        let forced = old.owner == victim.id && new.residue == Residue::Pending;
        forced.then_some(Promoted { partition: *partition, data: old.data, start: new.start })
    };
    moving.iter().filter_map(forced).collect()
}
