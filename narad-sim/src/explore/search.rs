//! Breadth first over names of states, with the path back to the first of them.

#![expect(clippy::disallowed_types, reason = "the names seen are only asked for, never iterated")]

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::action::Action;
use super::name::Pools;
use super::report;
use super::world::{Broken, World};
use super::{Breakage, CounterExample, Options, Outcome, Progress, Stop};

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
    /// States that are yet to be looked at, by their depth.
    frontier: BTreeMap<u32, VecDeque<(World, u32)>>,
    waiting: u64,
    pools: Pools,
    size: Progress,
    /// The shortest path so far that breaks an invariant.
    found: Option<(u32, Found)>,
}

/// How a path broke an invariant.
pub(super) struct Found {
    /// The choices; what had no alternative lies between them.
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
    let set_up = catch_unwind(AssertUnwindSafe(|| {
        World::new(options.nodes, options.budget(), breakage, options.order)
    }));
    let first = match set_up {
        Ok(first) if first.broken.is_none() => first,
        Ok(first) => return broken_from_the_start(options, first.broken),
        Err(panic) => return broken_from_the_start(options, Some(panicked(&*panic))),
    };
    let mut search = Search {
        options,
        first: first.clone(),
        seen: HashSet::default(),
        met: Vec::new(),
        frontier: BTreeMap::new(),
        waiting: 0,
        pools: Pools::default(),
        size: Progress::default(),
        found: None,
    };
    search.meet(first, u32::MAX, Action::Pause, 0);
    let stopped = search.walk(watch);
    search.size.frontier = search.waiting;
    let counter_example = search.found.take();
    let counter_example =
        counter_example.map(|(_, found)| report::retell(search.first.clone(), &found));
    Outcome {
        options: options.clone(),
        size: search.size,
        complete: stopped.is_none() && counter_example.is_none(),
        stopped,
        counter_example,
    }
}

/// Not even a move that nobody disturbs is reached.
fn broken_from_the_start(options: &Options, broken: Option<Broken>) -> Outcome {
    let counter_example = broken.map(|broken| CounterExample {
        invariant: broken.invariant.to_owned(),
        text: format!("{}, while the first record is produced", broken.text),
        steps: Vec::new(),
        aftermath: Vec::new(),
    });
    Outcome {
        options: options.clone(),
        size: Progress::default(),
        complete: false,
        stopped: None,
        counter_example,
    }
}

impl Search<'_> {
    /// Looks at every state, nearest first. Returns why it is not complete, if so.
    fn walk(&mut self, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Option<Stop> {
        let mut looked: u64 = 0;
        let mut too_deep = None;
        while let Some((world, number, depth)) = self.next() {
            self.size.depth = depth;
            if looked.is_multiple_of(WATCH_EVERY) {
                self.size.frontier = self.waiting;
                if watch(self.size).is_break() {
                    return Some(Stop::Interrupted);
                }
            }
            looked += 1;
            if self.found.as_ref().is_some_and(|(shortest, _)| *shortest <= depth + 1) {
                return None;
            }
            if depth >= self.options.depth_max {
                too_deep = Some(Stop::Depth);
                continue;
            }
            self.expand(&world, number, depth);
            if self.size.states >= self.options.states_max {
                return Some(Stop::States);
            }
        }
        too_deep
    }

    fn next(&mut self) -> Option<(World, u32, u32)> {
        let mut nearest = self.frontier.first_entry()?;
        let depth = *nearest.key();
        let (world, number) = nearest.get_mut().pop_front()?;
        if nearest.get().is_empty() {
            nearest.remove();
        }
        self.waiting -= 1;
        Some((world, number, depth))
    }

    fn expand(&mut self, world: &World, number: u32, depth: u32) {
        let actions = world.actions(&mut self.size.cut);
        let mut goes_on = !world.progress().is_empty();
        for action in actions {
            let mut next = world.clone();
            let taken = catch_unwind(AssertUnwindSafe(|| {
                next.take(action);
                let more = next.go_on();
                (next, more)
            }));
            self.size.transitions += 1;
            let (next, more) = match taken {
                Ok(taken) => taken,
                Err(panic) => {
                    self.found(number, Some(action), depth + 1, panicked(&*panic));
                    continue;
                }
            };
            self.size.transitions += u64::from(more);
            if let Some(broken) = &next.broken {
                self.found(number, Some(action), depth + 1 + more, broken.clone());
                continue;
            }
            if next.stalled {
                continue;
            }
            goes_on |= action == Action::Pause;
            self.meet(next, number, action, depth + 1 + more);
        }
        if !goes_on {
            self.size.ends += 1;
            if let Some(broken) = left_alone(world) {
                self.found(number, None, depth, broken);
            }
        }
    }

    fn meet(&mut self, mut world: World, from: u32, action: Action, depth: u32) {
        if self.seen.insert(world.kind()) {
            world.share(&mut self.pools);
            let number = u32::try_from(self.met.len()).expect("states_max is below four billion");
            self.met.push((from, action));
            self.frontier.entry(depth).or_default().push_back((world, number));
            self.waiting += 1;
            self.size.states += 1;
        }
    }

    /// Keeps a path that breaks an invariant, if none is shorter. Without a last event, it is only
    /// seen by leaving the world alone.
    fn found(&mut self, from: u32, last: Option<Action>, length: u32, broken: Broken) {
        if self.found.as_ref().is_none_or(|(shortest, _)| length < *shortest) {
            let mut path = self.path_to(from);
            path.extend(last);
            self.found = Some((length, Found { path, broken, left_alone: last.is_none() }));
        }
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
