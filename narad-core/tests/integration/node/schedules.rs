//! Random schedules: faults for a while, then peace, in which everything must come right.

use narad_core::ids::*;
use narad_core::metastore::Command;
use narad_core::node::{Ask, Event};
use proptest::prelude::*;

use super::moving::topic;
use super::world::{Faults, World, ms, n};

#[derive(Clone, Debug)]
enum Action {
    Crash(u64),
    Start(u64),
    Cut(u64, u64),
    CutOneWay(u64, u64),
    Mend,
    Elect(u64),
    Lag(u64, u64),
    Jump(u64),
    Poison(u64),
    Decommission(u64),
    Cancel(u64),
    Move(u32, u64),
    Abort(u32),
    Delete,
    Weather(u64, u64, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let id = 1_u64..=4;
    prop_oneof![
        3 => id.clone().prop_map(Action::Crash),
        4 => id.clone().prop_map(Action::Start),
        2 => (id.clone(), id.clone()).prop_map(|(a, b)| Action::Cut(a, b)),
        1 => (id.clone(), id.clone()).prop_map(|(a, b)| Action::CutOneWay(a, b)),
        3 => Just(Action::Mend),
        2 => id.clone().prop_map(Action::Elect),
        1 => (id.clone(), 0_u64..3_000).prop_map(|(node, lag)| Action::Lag(node, lag)),
        1 => id.clone().prop_map(Action::Jump),
        1 => id.clone().prop_map(Action::Poison),
        1 => id.clone().prop_map(Action::Decommission),
        1 => id.clone().prop_map(Action::Cancel),
        4 => (0_u32..4, id).prop_map(|(index, to)| Action::Move(index, to)),
        1 => (0_u32..4).prop_map(Action::Abort),
        1 => Just(Action::Delete),
        2 => (0_u64..20, 0_u64..30, 0_u64..40).prop_map(|(a, b, c)| Action::Weather(a, b, c)),
    ]
}

fn partition(world: &World, index: u32) -> Option<PartitionId> {
    let rows: Vec<PartitionId> = world.log.state.assignments().map(|(id, _)| id).collect();
    rows.get(index as usize % rows.len().max(1)).copied()
}

/// Asks whoever is up.
fn ask(world: &mut World, ask: Ask) {
    let up = world.machines.keys().copied().find(|id| world.is_up(*id));
    if let Some(id) = up {
        world.ask(id, ask);
    }
}

fn act(world: &mut World, action: &Action, deletable: TopicId) {
    match *action {
        Action::Crash(id) if world.is_up(n(id)) => world.crash(n(id)),
        Action::Start(id) if !world.is_up(n(id)) => world.start(n(id)),
        Action::Cut(a, b) if a != b => world.separate(&[a], &[b]),
        Action::CutOneWay(a, b) if a != b => {
            world.cut.insert((n(a), n(b)));
        }
        Action::Mend => world.cut.clear(),
        Action::Elect(id) if world.has_quorum(n(id)) => world.elect(n(id)),
        Action::Lag(id, lag) => world.machines.get_mut(&n(id)).unwrap().lag = ms(lag),
        Action::Jump(id) if world.is_up(n(id)) && world.takes_part(n(id)) => world.jump(n(id)),
        Action::Poison(id) if world.is_up(n(id)) => {
            let life = world.machines[&n(id)].processes;
            for index in 0..4 {
                if let Some(partition) = partition(world, index) {
                    world.tell(n(id), life, Event::Poisoned(partition));
                }
            }
        }
        Action::Decommission(id) => ask(world, Ask::Decommission(n(id))),
        Action::Cancel(id) => ask(world, Ask::CancelDecommission(n(id))),
        Action::Move(index, to) => {
            if let Some(partition) = partition(world, index) {
                ask(world, Ask::Move { partition, to: n(to) });
            }
        }
        Action::Abort(index) => {
            if let Some(partition) = partition(world, index) {
                ask(world, Ask::Abort(partition));
            }
        }
        Action::Delete => ask(world, Ask::DeleteTopic(deletable)),
        Action::Weather(lost, twice, delay) => {
            world.faults = Faults {
                drop_percent: lost,
                twice_percent: twice,
                lose_append_percent: lost,
                museum_percent: twice,
                delay_ms_max: delay,
            };
        }
        Action::Crash(_)
        | Action::Start(_)
        | Action::Cut(..)
        | Action::CutOneWay(..)
        | Action::Elect(_)
        | Action::Jump(_)
        | Action::Poison(_) => {}
    }
}

/// Unpins and cancels everything, so that only balance is asked for.
fn make_peace(world: &mut World) {
    world.heal();
    let pinned: Vec<PartitionId> = world.log.state.assignments().map(|(id, _)| id).collect();
    for partition in pinned {
        world.say(Command::SetPin { partition, on: false });
    }
}

/// S1, S2, S3, S8, S9, S10, S15, S16, L1, L3, L7: whatever happens, nothing acknowledged is lost;
/// and once it stops, everything comes to rest and can be read.
fn peace_follows(seed: u64, actions: &[(Action, u64)]) {
    let mut world = World::new(4, seed);
    topic(&mut world, "orders", 3);
    let deletable = topic(&mut world, "audit", 1);
    world.produce_every(ms(150));
    world.run(ms(1_500));
    for (action, pause) in actions {
        act(&mut world, action, deletable);
        world.run(ms(*pause));
        world.check_nothing_is_lost();
    }
    make_peace(&mut world);
    world.until("peace", World::SECOND * 120, World::is_settled);
    world.run(World::SECOND * 2);
    world.check_everything_is_visible();
    let old = world.steps;
    world.run(World::SECOND);
    assert!(world.steps - old < 2_000, "a quiet cluster is quiet: {} steps", world.steps - old);
    world.check_everybody_was_answered();
}

/// How many schedules; `NARAD_SCHEDULES` asks for more, on a quiet evening.
fn cases() -> u32 {
    std::env::var("NARAD_SCHEDULES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn peace_follows_any_schedule(
        seed in any::<u64>(),
        actions in proptest::collection::vec((action(), 1_u64..4_000), 1..14),
    ) {
        peace_follows(seed, &actions);
    }
}
