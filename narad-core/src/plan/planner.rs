//! A planner that keeps what it knows from one change to the next.

use alloc::vec;
use alloc::vec::Vec;

use super::choose::TUNED_PARTITIONS_MAX;
use super::limits::{self, Limits, Planned, Running, Step};
use super::placement::{NONE, Node, Partition, Placement, PlacementError};
use super::{Draft, Move, Plan};

/// Plans like [`plan`](super::plan()), over a placement that is changed row by row.
///
/// [`plan`](super::plan()) looks at everything each time; this looks at what has changed. It keeps
/// the placement, and the plan that it made of it:
///
/// 1. Whatever changes who should move where (a node's role, an owner, a target that it did not
///    plan, a pin, a priority) makes it plan anew, and then what starts is exactly what
///    [`plan`](super::plan()) would start.
/// 2. The start and the end of a move that it planned do not: the plan *stands*, and the next moves
///    of it start. As every plan ends with the fewest moves in whatever order they are done (R74),
///    a plan that stands takes as few as one that was made anew, though another node of those that
///    give may keep a ceil share.
/// 3. On a placement of at most 32,768 partitions, where planning is cheap and a fresh plan may be a
///    better one, no plan stands.
///
/// Takes about eighty bytes for each partition, and twelve more for each planned move.
///
/// # Examples
///
/// A move ends, and the next one starts:
///
/// ```
/// use narad_core::ids::{NodeId, PartitionId, TopicId};
/// use narad_core::plan::{Limits, Node, Partition, Placement, Planner, Role, Topic};
///
/// let nodes = [(1, Role::Leaving), (2, Role::Receiver)];
/// let nodes = nodes.map(|(id, role)| Node { id: NodeId(id), role });
/// let topic = Topic { id: TopicId(1), parent: None };
/// let ids = (0..4).map(|index| PartitionId { topic: topic.id, index });
/// let partitions = ids.map(|id| Partition::settled(id, NodeId(1))).collect();
/// let mut planner = Planner::new(Placement::new(nodes.into(), vec![topic], partitions)?);
///
/// let one = Limits { max_in_flight: 1, ..Limits::default() };
/// let first = planner.top_up(&one)[0];
/// let row = Partition::settled(first.partition, first.from);
/// planner.set(Partition { target: Some(first.to), ..row })?;
/// assert!(planner.top_up(&one).is_empty());
/// planner.set(Partition::settled(first.partition, first.to))?;
/// assert_eq!(planner.top_up(&one).len(), 1);
/// # Ok::<(), narad_core::plan::PlacementError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planner {
    placement: Placement,
    running: Running,
    standing: Option<Standing>,
    /// No plan of as many partitions or fewer stands.
    fresh_max: usize,
}

/// A plan of which some may have started.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Standing {
    /// What has not started, and who has and may have how many.
    draft: Draft,
    /// By partition: where it is yet to start to, or [`NONE`].
    to: Vec<u32>,
    /// In the order in which moves start; what has started is still in it.
    queue: Vec<Step>,
    /// Everything before it has started.
    at: usize,
    /// How many have not started, in all and from and to each node.
    left: usize,
    left_from: Vec<u32>,
    left_to: Vec<u32>,
}

impl Planner {
    /// Begins with a placement.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        Self::standing_above(TUNED_PARTITIONS_MAX, placement)
    }

    /// Begins with a placement, and lets plans of more than `partitions` stand. For studies of the
    /// planner itself.
    #[must_use]
    pub fn standing_above(partitions: usize, placement: Placement) -> Self {
        let running = Running::new(&placement);
        Self { placement, running, standing: None, fresh_max: partitions }
    }

    /// Returns the placement as it is by now.
    pub const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Replaces a listed row by another of the same id.
    ///
    /// # Errors
    ///
    /// If the partition or a node of the row is not listed, or the row moves to its own owner.
    /// Nothing has changed then.
    pub fn set(&mut self, row: Partition) -> Result<(), PlacementError> {
        let at = self.placement.index_of(row.id).ok_or(PlacementError::Unlisted(row.id))?;
        let before = self.placement.partitions()[at];
        if before == row {
            return Ok(());
        }
        let partition = u32::try_from(at).unwrap_or(NONE);
        self.running.count(&self.placement, partition, false);
        let replaced = self.placement.replace(row);
        self.running.count(&self.placement, partition, true);
        replaced?;
        let stands = |standing: &mut Standing| {
            standing.follow(&self.placement, partition, &before, &row, self.fresh_max)
        };
        if !self.standing.as_mut().is_some_and(stands) {
            self.standing = None;
        }
        Ok(())
    }

    /// Gives a listed node another role, or lists a node whose id is greater than all that are.
    ///
    /// Returns false, and changes nothing, for any other node: that takes another planner.
    pub fn set_node(&mut self, node: Node) -> bool {
        if self.placement.node(node.id) == Some(&node) {
            return true;
        }
        let known = self.placement.set_node(node);
        if known {
            self.running = Running::new(&self.placement);
            self.standing = None;
        }
        known
    }

    /// Returns the moves that start now, in that order. The same ones come again until
    /// [`set`](Self::set) tells that they have started.
    ///
    /// Takes time for what starts and for what has to wait before it, unless the plan does not
    /// stand: then for every partition.
    pub fn top_up(&mut self, limits: &Limits) -> Vec<Move> {
        let Self { placement, running, standing, .. } = self;
        standing.get_or_insert_with(|| Standing::new(placement)).top_up(placement, running, limits)
    }

    /// Returns how many moves are planned and have not started.
    pub fn planned(&mut self) -> usize {
        self.standing.get_or_insert_with(|| Standing::new(&self.placement)).left
    }

    /// Returns the plan in the form that can be explained.
    pub fn plan(&mut self, limits: &Limits) -> Plan {
        let Self { placement, running, standing, .. } = self;
        let standing = standing.get_or_insert_with(|| Standing::new(placement));
        let moves = standing.top_up(placement, running, limits);
        let left = |step: &Step| standing.to[step.partition as usize] == step.to;
        let steps = standing.draft.steps.iter().copied().filter(left).collect();
        let draft = Draft { shares: standing.draft.shares.clone(), steps };
        Plan { moves, limits: *limits, draft }
    }
}

impl Standing {
    fn new(placement: &Placement) -> Self {
        let draft = Draft::new(placement);
        let nodes = placement.nodes().len();
        let mut standing = Self {
            queue: limits::in_order(placement, &draft.shares, &draft.steps),
            to: vec![NONE; placement.partitions().len()],
            at: 0,
            left: draft.steps.len(),
            left_from: vec![0; nodes],
            left_to: vec![0; nodes],
            draft,
        };
        for step in &standing.draft.steps {
            standing.to[step.partition as usize] = step.to;
            standing.left_from[placement.owner_of(step.partition) as usize] += 1;
            standing.left_to[step.to as usize] += 1;
        }
        standing
    }

    /// Takes note of a changed row. Returns whether the plan stands.
    fn follow(
        &mut self,
        placement: &Placement,
        partition: u32,
        before: &Partition,
        after: &Partition,
        fresh_max: usize,
    ) -> bool {
        // A size decides nothing that is planned already.
        let unmoved = Partition { stuck: after.stuck, bytes: after.bytes, ..*before };
        if unmoved == *after {
            return before.bytes == after.bytes || placement.partitions().len() > fresh_max;
        }
        if placement.partitions().len() <= fresh_max {
            return false;
        }
        let place = placement.place_of(partition);
        let Partition { stuck, bytes, .. } = *after;
        let (owner, target) = (before.owner, before.target);
        let started = target.is_none() && place == self.to[partition as usize] && {
            *after == Partition { target: after.target, stuck, bytes, ..*before }
        };
        let ended = target == Some(after.owner)
            && *after == Partition { owner: after.owner, target: None, stuck, bytes, ..*before };
        let shares = &mut self.draft.shares.of;
        if started {
            let from = placement.owner_of(partition);
            debug_assert!(owner == after.owner, "a start changes no owner");
            self.to[partition as usize] = NONE;
            self.left -= 1;
            self.left_from[from as usize] -= 1;
            self.left_to[place as usize] -= 1;
            let (from, to) = (from as usize, place as usize);
            shares[from].load -= 1;
            shares[from].movable -= 1;
            shares[to].load += 1;
        } else if ended {
            // What waited for an arrival can be planned now.
            let share = &mut shares[place as usize];
            let waited = share.waits() > 0;
            share.movable += 1;
            return !waited && share.surplus() == 0 && !after.pinned;
        }
        started
    }

    /// Returns what starts now.
    fn top_up(
        &mut self,
        placement: &Placement,
        running: &mut Running,
        limits: &Limits,
    ) -> Vec<Move> {
        let has_started = |step: &Step| self.to[step.partition as usize] != step.to;
        while self.queue.get(self.at).is_some_and(has_started) {
            self.at += 1;
        }
        // What could start if only one end counted: none of it, and the search is over.
        let mut open = running.open(limits, &self.left_from, &self.left_to);
        let mut admitted: Vec<Planned> = Vec::new();
        for step in self.queue[self.at..].iter().filter(|step| !has_started(step)) {
            if open.is_over() || running.is_full(limits) {
                break;
            }
            let mover = Planned::of(placement, *step);
            if running.refuses(limits, placement, &mover).is_none() {
                running.add(&mover);
                running.close(limits, &mover, &self.left_from, &self.left_to, &mut open);
                admitted.push(mover);
            }
        }
        for mover in &admitted {
            running.remove(mover);
        }
        admitted.iter().map(|mover| mover.describe(placement)).collect()
    }
}
