//! Breadth first over names of states, with the path back to the first of them.

#![expect(clippy::disallowed_types, reason = "the names seen are only asked for, never iterated")]

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::action::Action;
use super::report;
use super::world::{Broken, Pools, World};
use super::{Breakage, Options, Outcome, Progress, Stop};

/// Most events that a path which is left alone may still take.
pub(super) const FAIR_STEPS_MAX: usize = 600;

/// Between two calls of the watcher, in states looked at.
const WATCH_EVERY: u64 = 1 << 12;

/// A name is as good as its own hash.
#[derive(Clone, Copy, Debug, Default)]
struct OwnHash(u64);

impl Hasher for OwnHash {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, name: u128) {
        self.0 = u64::try_from(name & u128::from(u64::MAX)).unwrap_or_default();
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Search<'s> {
    options: &'s Options,
    first: World,
    seen: HashSet<u128, BuildHasherDefault<OwnHash>>,
    /// How each state was first met: from which, by what.
    met: Vec<(u32, Action)>,
    frontier: VecDeque<(World, u32, u32)>,
    pools: Pools,
    size: Progress,
}

/// How a path broke an invariant.
pub(super) struct Found {
    pub(super) path: Vec<Action>,
    pub(super) broken: Broken,
    /// Whether it was only seen by leaving the world alone.
    pub(super) left_alone: bool,
}

/// Runs a search, over a driver that is broken on purpose if one says so.
pub(super) fn run(
    options: &Options,
    breakage: Option<Breakage>,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Outcome {
    let first = World::new(options.nodes, options.budget(), breakage, options.order);
    let mut search = Search {
        options,
        first: first.clone(),
        seen: HashSet::default(),
        met: Vec::new(),
        frontier: VecDeque::new(),
        pools: Pools::default(),
        size: Progress::default(),
    };
    search.meet(first, u32::MAX, Action::Pause, 0);
    let (found, stopped) = match search.walk(watch) {
        ControlFlow::Break(End::Found(found)) => (Some(*found), None),
        ControlFlow::Break(End::Stopped(stop)) => (None, Some(stop)),
        ControlFlow::Continue(deepest) => (None, deepest),
    };
    search.size.frontier = search.frontier.len() as u64;
    let counter_example = found.map(|found| report::retell(search.first.clone(), &found));
    Outcome {
        options: options.clone(),
        size: search.size,
        complete: stopped.is_none() && counter_example.is_none(),
        stopped,
        counter_example,
    }
}

enum End {
    Found(Box<Found>),
    Stopped(Stop),
}

impl Search<'_> {
    /// Looks at every state, nearest first. Comes to an end with why it is not complete, if so.
    fn walk(
        &mut self,
        watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> ControlFlow<End, Option<Stop>> {
        let mut looked: u64 = 0;
        let mut too_deep = None;
        while let Some((world, number, depth)) = self.frontier.pop_front() {
            self.size.depth = depth;
            if looked.is_multiple_of(WATCH_EVERY) {
                self.size.frontier = self.frontier.len() as u64;
                if watch(self.size).is_break() {
                    return ControlFlow::Break(End::Stopped(Stop::Interrupted));
                }
            }
            looked += 1;
            if depth >= self.options.depth_max {
                too_deep = Some(Stop::Depth);
                continue;
            }
            self.expand(&world, number, depth)?;
            if self.size.states >= self.options.states_max {
                return ControlFlow::Break(End::Stopped(Stop::States));
            }
        }
        ControlFlow::Continue(too_deep)
    }

    fn expand(&mut self, world: &World, number: u32, depth: u32) -> ControlFlow<End> {
        let actions = world.actions(&mut self.size.cut);
        let mut goes_on = !world.progress().is_empty();
        for action in actions {
            let mut next = world.clone();
            let taken = catch_unwind(AssertUnwindSafe(|| {
                next.take(action);
                next
            }));
            self.size.transitions += 1;
            let next = match taken {
                Ok(next) => next,
                Err(panic) => return self.found(number, action, panicked(&*panic), false),
            };
            if let Some(broken) = &next.broken {
                return self.found(number, action, broken.clone(), false);
            }
            if next.stalled {
                continue;
            }
            goes_on |= action == Action::Pause;
            self.meet(next, number, action, depth + 1);
        }
        if !goes_on {
            self.size.ends += 1;
            if let Some(broken) = left_alone(world) {
                let path = self.path_to(number);
                let found = Found { path, broken, left_alone: true };
                return ControlFlow::Break(End::Found(Box::new(found)));
            }
        }
        ControlFlow::Continue(())
    }

    fn meet(&mut self, mut world: World, from: u32, action: Action, depth: u32) {
        let name = world.seal(&mut self.pools);
        if self.seen.insert(name) {
            let number = u32::try_from(self.met.len()).expect("states_max is below four billion");
            self.met.push((from, action));
            self.frontier.push_back((world, number, depth));
            self.size.states += 1;
        }
    }

    fn found(&self, from: u32, last: Action, broken: Broken, left_alone: bool) -> ControlFlow<End> {
        let mut path = self.path_to(from);
        path.push(last);
        ControlFlow::Break(End::Found(Box::new(Found { path, broken, left_alone })))
    }

    fn path_to(&self, number: u32) -> Vec<Action> {
        let mut path = Vec::new();
        let mut at = number;
        while let Some((from, action)) = self.met.get(at as usize).filter(|met| met.0 != u32::MAX) {
            path.push(*action);
            at = *from;
        }
        path.reverse();
        path
    }
}

/// Lets a world in which nothing happens go on with everybody up, and returns what is wrong with
/// what it comes to (L1, L2).
fn left_alone(world: &World) -> Option<Broken> {
    let mut alone = world.clone();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let came_to_rest = alone.run_fairly(FAIR_STEPS_MAX);
        alone.check_end(came_to_rest);
        alone.broken
    }));
    ran.unwrap_or_else(|panic| Some(panicked(&*panic)))
}

/// What a machine said when it gave up.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Broken {
    let text = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a machine panicked".to_owned());
    Broken { invariant: "panic", text }
}
