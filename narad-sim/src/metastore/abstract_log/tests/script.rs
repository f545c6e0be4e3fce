//! Anything may happen, in any order.

use narad_core::controller::Change;
use proptest::prelude::*;

use super::super::*;
use super::world::{NODES, World, n};

#[derive(Clone, Debug)]
enum Act {
    Append(u64),
    AppendAnywhere,
    Barrier(u64, bool),
    Cut(u64, u64),
    Heal,
    Stop(u64),
    Start(u64),
    Pause(u64),
    Resume(u64),
    Unseat(Option<u64>),
    Transfer(u64),
    Hold(u64),
    Release(u64),
    Lag(u64, u64),
    Jump(u64),
    Configure(Change),
    Save(u64),
    Restore(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let node = || 1..=NODES;
    let change = prop_oneof![
        node().prop_map(|node| Change::AddLearner(n(node))),
        node().prop_map(|node| Change::Promote(n(node))),
        node().prop_map(|node| Change::Remove(n(node))),
        (node(), node())
            .prop_map(|(add, remove)| Change::Replace { add: n(add), remove: n(remove) }),
        Just(Change::LeaveJoint),
    ];
    prop_oneof![
        4 => node().prop_map(Act::Append),
        8 => Just(Act::AppendAnywhere),
        4 => (node(), any::<bool>()).prop_map(|(node, survey)| Act::Barrier(node, survey)),
        2 => (node(), node()).prop_map(|(a, b)| Act::Cut(a, b)),
        1 => Just(Act::Heal),
        1 => node().prop_map(Act::Stop),
        2 => node().prop_map(Act::Start),
        1 => node().prop_map(Act::Pause),
        1 => node().prop_map(Act::Resume),
        1 => prop::option::of(node()).prop_map(Act::Unseat),
        1 => node().prop_map(Act::Transfer),
        1 => node().prop_map(Act::Hold),
        1 => node().prop_map(Act::Release),
        1 => (node(), 0..3_000_u64).prop_map(|(node, millis)| Act::Lag(node, millis)),
        1 => node().prop_map(Act::Jump),
        2 => change.prop_map(Act::Configure),
        1 => node().prop_map(Act::Save),
        1 => node().prop_map(Act::Restore),
    ]
}

fn perform(world: &mut World, act: &Act) {
    match act {
        Act::Append(node) => {
            world.append(n(*node));
        }
        Act::AppendAnywhere => {
            if let Some(leader) = world.log.leader() {
                world.append(leader);
            }
        }
        Act::Barrier(node, is_survey) => world.barrier(n(*node), *is_survey),
        Act::Cut(a, b) if a != b => {
            world.wires.cut.insert((n(*a.min(b)), n(*a.max(b))));
            world.changed();
        }
        Act::Cut(..) => {}
        Act::Heal => {
            world.wires.cut.clear();
            world.changed();
        }
        Act::Stop(node) => world.stop(n(*node)),
        Act::Start(node) => world.start(n(*node)),
        Act::Pause(node) => {
            world.wires.paused.insert(n(*node));
            world.changed();
        }
        Act::Resume(node) => {
            world.wires.paused.remove(&n(*node));
            world.changed();
        }
        Act::Unseat(to) => {
            world.log.unseat(world.now, to.map(n), Why::Chance, &world.wires);
        }
        Act::Transfer(to) => {
            if let Some(leader) = world.log.leader() {
                world.log.transfer(world.now, leader, n(*to));
            }
        }
        Act::Hold(node) => world.log.hold(n(*node)),
        Act::Release(node) => world.log.release(world.now, n(*node)),
        Act::Lag(node, millis) => {
            world.log.set_lag(world.now, n(*node), Duration::from_millis(*millis));
        }
        Act::Jump(node) => {
            world.log.jump(world.now, n(*node), &world.wires);
        }
        Act::Configure(change) => {
            if let Some(leader) = world.log.leader() {
                world.log.configure(world.now, leader, *change, &world.wires);
            }
        }
        Act::Save(node) => world.saved = Some(world.log.save(n(*node))),
        Act::Restore(node) => {
            world.stop(n(*node));
            let durable = world.saved.clone().unwrap_or_default();
            world.log.restore(n(*node), durable);
        }
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![2 => Just(0.0), 1 => Just(0.2), 1 => Just(0.8)];
    let entries = (chance(), chance(), chance(), chance());
    let nodes = (chance(), chance(), chance());
    (entries, nodes).prop_map(|((lose, late, twice, forget), (stubborn, skip, lag))| Faults {
        lose,
        late,
        twice,
        forget,
        stubborn,
        skip,
        lag,
        ..Faults::default()
    })
}

fn script() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let wait = prop_oneof![3 => 0..5_u64, 2 => 0..200_u64, 1 => 0..4_000_u64];
    prop::collection::vec((wait, act()), 0..80)
}

proptest! {
    /// S16, R41: all are told the same entries, in the same order, each once a life, or skip them
    /// with a snapshot that is what they come to; a barrier passes at no index below what was
    /// committed when it began; in the end everybody has everything.
    #[test]
    fn all_are_told_the_same(seed: u64, voters in 1..=NODES, faults in faults(), script in script()) {
        let mut world = World::new(voters, faults, seed);
        for (wait, act) in &script {
            perform(&mut world, act);
            world.run(*wait);
        }
        world.heal();
        world.check_at_rest();
    }

    /// H2, H24: an entry that a leader with a majority took is in the log once, whatever happens
    /// to nodes and links, as long as no fault of the log itself is on.
    #[test]
    fn what_a_leader_took_is_kept_unless_a_fault_is_on(seed: u64, stubborn: bool, script in script()) {
        let stubborn = f64::from(u8::from(stubborn));
        let mut world = World::new(3, Faults { stubborn, ..Faults::default() }, seed);
        for (wait, act) in &script {
            // What nobody is told one by one is not in the history either.
            if !matches!(act, Act::Jump(_)) {
                perform(&mut world, act);
                world.run(*wait);
            }
        }
        world.heal();
        world.check_at_rest();
        let skipped = world.history.len() as u64 + 5 < world.log.last().0;
        let committed = world.committed();
        for taken in &world.taken {
            prop_assert!(skipped || committed.get(taken) == Some(&1), "{taken}");
        }
    }

    /// S17: the same seed and script tell the same.
    #[test]
    fn a_seed_means_the_same_twice(seed: u64, faults in faults(), script in script()) {
        let run = || {
            let mut world = World::new(3, faults, seed);
            for (wait, act) in &script {
                perform(&mut world, act);
                world.run(*wait);
            }
            (world.history, world.log.next_due(), world.log.planned)
        };
        prop_assert_eq!(run(), run());
    }
}
