//! Decommission: followers, the leader, two at once, cancelled, and what stands in the way.

use narad_core::config::Policy;
use narad_core::controller::preflight::Blocker;
use narad_core::ids::*;
use narad_core::metastore::{Applied, Command, Reason};
use narad_core::mover;
use narad_core::node::{Ask, AskError, Note, Said};

use super::moving::{settle, topic};
use super::world::{World, ms, n, policy};

fn is_out(world: &World, id: u64) -> bool {
    let member = world.log.state.member(n(id)).expect("it is remembered");
    member.retired && !world.log.state.configuration().contains(n(id))
}

fn cluster(nodes: u64, seed: u64) -> World {
    let mut world = World::new(nodes, seed);
    topic(&mut world, "orders", 8);
    settle(&mut world);
    world.produce_every(ms(100));
    world
}

/// R82 to R84, R86, R93, L3: a follower is drained, serving to the last, then retired and taken out
/// of the voters.
#[test]
fn a_follower_is_decommissioned() {
    let mut world = cluster(4, 2);
    let ask = world.ask(n(2), Ask::Decommission(n(3)));
    world.until("it drains", World::SECOND, |world| world.log.state.member(n(3)).unwrap().draining);
    let owned: Vec<PartitionId> = world.log.state.owned_by(n(3)).collect();
    let taken = owned.iter().filter(|partition| world.begin_append(n(3), **partition)).count();
    assert!(taken > 0, "R83: a draining owner serves");
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
    assert_eq!(world.replies[&ask], Ok(Said::Done(Applied::Done)));
    assert!(world.notes.contains(&(n(3), Note::Retired)));
    settle(&mut world);
    world.run(World::SECOND);
    world.check_everything_is_visible();
    let disk = &world.machines[&n(3)].disk;
    assert!(disk.is_empty(), "nothing is left on its disk: {disk:?}");
}

/// R88, S15: the leader drains, hands the lead over, and is removed by the next.
#[test]
fn the_leader_is_decommissioned() {
    let mut world = cluster(4, 3);
    assert_eq!(world.log.leader, Some(n(1)));
    world.ask(n(2), Ask::Decommission(n(1)));
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 1));
    assert_ne!(world.log.leader, Some(n(1)));
    settle(&mut world);
    world.check_everything_is_visible();
}

/// R88: who was asked to take the lead over dies; another one is asked.
#[test]
fn the_heir_of_a_leaving_leader_may_die() {
    let mut world = cluster(5, 4);
    world.ask(n(2), Ask::Decommission(n(1)));
    world.until("it is retired", World::SECOND * 60, |world| {
        world.log.state.member(n(1)).is_some_and(|member| member.retired)
    });
    world.crash(n(2));
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 1));
    world.start(n(2));
    settle(&mut world);
    world.check_everything_is_visible();
}

/// Case D127, field fault 42, H38: two drains at once are planned together, and each partition
/// moves once.
#[test]
fn two_nodes_leave_at_once() {
    let mut world = cluster(5, 5);
    let leaving = world.log.state.owned_count(n(4)) + world.log.state.owned_count(n(5));
    world.ask(n(2), Ask::Decommission(n(4)));
    world.ask(n(3), Ask::Decommission(n(5)));
    world.until("both are out", World::SECOND * 60, |world| is_out(world, 4) && is_out(world, 5));
    settle(&mut world);
    let moved = world
        .notes
        .iter()
        .filter(|(_, note)| matches!(note, Note::Mover(_, mover::Note::Moved { .. })));
    assert_eq!(moved.count(), leaving);
    world.check_everything_is_visible();
}

/// R87, cases D120, D127 and D132, field fault 35: what cannot end is refused before anything
/// changes, with the reason; the second of two drains too.
#[test]
fn a_decommission_below_the_minimum_is_refused_at_once() {
    let mut world = cluster(3, 6);
    let ask = world.ask(n(1), Ask::Decommission(n(3)));
    world.run(World::SECOND);
    let too_few = Blocker::BelowMinVoters { left: 2, min_voters: 3 };
    assert_eq!(world.replies[&ask], Err(AskError::Blocked(vec![too_few])));
    assert!(!world.log.state.member(n(3)).unwrap().draining, "nothing has changed");

    let mut world = cluster(4, 7);
    world.ask(n(1), Ask::Decommission(n(4)));
    world.run(ms(100));
    let second = world.ask(n(1), Ask::Decommission(n(3)));
    world.run(World::SECOND);
    assert_eq!(world.replies[&second], Err(AskError::Blocked(vec![too_few])));
}

/// Field faults 34 and 45, case D124: an unknown node, a dead one with data, the only holder and a
/// pinned partition have different answers.
#[test]
fn each_obstacle_has_its_own_name() {
    let mut world = cluster(5, 8);
    let unknown = world.ask(n(1), Ask::Decommission(n(77)));
    let partition = world.log.state.owned_by(n(2)).next().unwrap();
    world.say(Command::SetPin { partition, on: true });
    let pinned = world.ask(n(1), Ask::Decommission(n(2)));
    let owned = u32::try_from(world.log.state.owned_count(n(5))).unwrap();
    world.crash(n(5));
    world.run(World::SECOND * 8);
    let dead = world.ask(n(1), Ask::Decommission(n(5)));
    world.run(World::SECOND);
    let blocked = |blocker| Err(AskError::Blocked(vec![blocker]));
    assert_eq!(world.replies[&unknown], blocked(Blocker::UnknownMember));
    assert_eq!(world.replies[&pinned], blocked(Blocker::Pinned { pinned: 1 }));
    assert_eq!(world.replies[&dead], blocked(Blocker::OwnerDead { owned }));

    let mut world = World::new(1, 9);
    world.say(Command::SetPolicy(Policy { min_voters: 1, ..policy() }));
    topic(&mut world, "orders", 2);
    settle(&mut world);
    let only = world.ask(n(1), Ask::Decommission(n(1)));
    world.run(World::SECOND);
    let Err(AskError::Blocked(found)) = &world.replies[&only] else { panic!() };
    assert!(found.contains(&Blocker::NoReceivers { owned: 2 }), "{found:?}");
}

/// A partition that is moved by hand is pinned to where it goes, and holds nobody back whom it leaves.
#[test]
fn what_moves_away_already_is_pinned_elsewhere() {
    let mut world = cluster(5, 12);
    let partition = world.log.state.owned_by(n(2)).next().unwrap();
    world.ask(n(1), Ask::Move { partition, to: n(1) });
    world.until("it moves", World::SECOND, |world| {
        world.log.state.assignment(partition).unwrap().target == Some(n(1))
    });
    world.say(Command::SetPin { partition, on: true });
    assert_eq!(world.log.state.assignment(partition).unwrap().target, Some(n(1)));
    let leave = world.ask(n(1), Ask::Decommission(n(2)));
    world.until("it is decided", World::SECOND, |world| world.replies.contains_key(&leave));
    assert_eq!(world.replies[&leave], Ok(Said::Done(Applied::Done)));
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 2));
    let row = world.log.state.assignment(partition).unwrap();
    assert_eq!((row.owner, row.pinned), (n(1), true));
}

/// R87: where a caught-up learner is at hand it takes the place of the voter that leaves, before
/// it leaves, and there are never more voters than may be once that is done.
#[test]
fn a_learner_takes_the_place_of_a_leaving_voter() {
    let mut world = World::new(3, 10);
    world.say(Command::SetPolicy(Policy { voters_max: 3, ..policy() }));
    topic(&mut world, "orders", 8);
    world.join(n(4));
    world.join(n(5));
    world.until("the newcomers have their part", World::SECOND * 60, |world| {
        world.is_settled() && world.log.state.owned_count(n(5)) > 0
    });
    assert_eq!(world.log.state.configuration().voters.len(), 3);
    assert_eq!(world.log.state.configuration().learners.len(), 2);
    world.ask(n(1), Ask::Decommission(n(2)));
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 2));
    settle(&mut world);
    let voters: Vec<NodeId> = world.log.state.configuration().voters.iter().copied().collect();
    assert_eq!(voters, [n(1), n(3), n(4)]);
}

/// H37, R86: a node closes accept, lets go what it has accepted, and only then says so.
#[test]
fn a_node_says_it_is_drained_out_only_when_its_backlog_is_gone() {
    let mut world = cluster(4, 11);
    world.machines.get_mut(&n(3)).unwrap().backlog = 8;
    world.ask(n(1), Ask::Decommission(n(3)));
    world.until("it says so", World::SECOND * 60, |world| {
        world.log.state.member(n(3)).unwrap().drained_out
    });
    let machine = &world.machines[&n(3)];
    assert_eq!((machine.backlog, machine.accepts), (0, false));
}

/// Without a leader a draining node waits; it does not propose again and again within one event.
#[test]
fn a_drained_node_waits_for_a_leader() {
    let mut world = cluster(4, 12);
    world.ask(n(1), Ask::Decommission(n(3)));
    world.until("it owns nothing", World::SECOND * 60, |world| {
        world.log.state.owned_count(n(3)) == 0
    });
    world.separate(&[3], &[1, 2, 4]);
    world.run(World::SECOND * 2);
    world.cut.clear();
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
}

/// R94, H24d, L3: a decommission that is cancelled at any step leaves no target, no freeze and no
/// closed door behind, and may begin again; or it was too late, and the answer says so.
#[test]
fn a_decommission_can_be_cancelled_at_every_step() {
    let (mut cancelled, mut late) = (0, 0);
    for step in (0..1_400).step_by(35) {
        let mut world = cluster(4, 13);
        world.ask(n(2), Ask::Decommission(n(3)));
        for _ in 0..step {
            world.step();
        }
        let ask = world.ask(n(2), Ask::CancelDecommission(n(3)));
        world.run(World::SECOND * 2);
        let member = world.log.state.member(n(3)).unwrap().clone();
        match &world.replies[&ask] {
            Ok(_) => {
                cancelled += 1;
                assert!(!member.draining && !member.retired, "after {step} steps");
                world.until("peace", World::SECOND * 60, World::is_settled);
                assert!(world.machines[&n(3)].accepts, "after {step} steps");
                world.ask(n(2), Ask::Decommission(n(3)));
            }
            Err(AskError::Rejected(Reason::NodeRetired)) => {
                late += 1;
                assert!(member.retired, "after {step} steps");
            }
            other => panic!("{other:?} after {step} steps"),
        }
        world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
        world.check_everything_is_visible();
    }
    assert!(cancelled > 0 && late > 0, "{cancelled} in time, {late} too late");
}

/// R86, field faults 43 and 45: a dead node never says that it is empty; an operator who gives up what
/// it had accepted takes it out all the same, and only once it drains.
#[test]
fn a_dead_node_is_taken_out_by_the_word_of_an_operator() {
    let mut world = cluster(4, 16);
    let ask = world.ask(n(2), Ask::Decommission(n(3)));
    world.until("it is drained", World::SECOND * 60, |world| {
        world.replies.contains_key(&ask) && world.log.state.owned_count(n(3)) == 0
    });
    world.crash(n(3));
    let retire = |world: &mut World| {
        let receipt = "the rack burned down".to_owned();
        let ask = world.ask(n(2), Ask::Retire { node: n(3), receipt });
        world.run(World::SECOND * 2);
        world.replies[&ask].clone()
    };
    assert_eq!(retire(&mut world), Err(AskError::Rejected(Reason::NotDrainedOut)), "not dead yet");
    world.run(World::SECOND * 10);
    assert!(!world.log.state.member(n(3)).unwrap().retired, "nobody takes it out unasked");
    assert!(retire(&mut world).is_ok());
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
}

/// R85: a drain survives the restart of the node that drains.
#[test]
fn a_drain_survives_a_restart() {
    let mut world = cluster(4, 14);
    world.ask(n(2), Ask::Decommission(n(3)));
    world.run(ms(120));
    world.crash(n(3));
    world.run(World::SECOND);
    world.start(n(3));
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
    world.check_everything_is_visible();
}

/// Field fault 37: what was to move to a node that begins to drain goes elsewhere.
#[test]
fn moves_to_a_node_that_begins_to_drain_go_elsewhere() {
    let mut world = cluster(4, 15);
    let partition = world.log.state.owned_by(n(1)).next().unwrap();
    world.separate(&[1], &[3]);
    world.ask(n(2), Ask::Move { partition, to: n(3) });
    world.run(World::SECOND);
    assert_eq!(world.log.state.assignment(partition).unwrap().target, Some(n(3)));
    world.ask(n(2), Ask::Decommission(n(3)));
    world.run(World::SECOND * 2);
    assert_eq!(world.log.state.inbound_count(n(3)), 0);
    world.cut.clear();
    world.until("it is out", World::SECOND * 60, |world| is_out(world, 3));
}

/// Field fault 42: each of two nodes could leave, and both together could not; one that stays takes
/// nothing from the check, and none is said twice.
#[test]
fn nodes_that_leave_together_are_judged_together() {
    use narad_core::controller::preflight::{decommission, together};

    let world = cluster(4, 11);
    let state = &world.log.state;
    assert_eq!((decommission(state, n(3)), decommission(state, n(4))), (vec![], vec![]));
    let min_voters = policy().min_voters;
    let below = |left| Blocker::BelowMinVoters { left, min_voters };
    assert_eq!(together(state, &[n(3), n(4)].into()), [(n(3), below(2))]);
    // Nobody is left who takes anything.
    let all = together(state, &(1..=4).map(n).collect());
    let receivers = all.iter().filter(|(_, one)| matches!(one, Blocker::NoReceivers { .. }));
    assert_eq!((all[0], receivers.count()), ((n(1), below(0)), 4));
    assert_eq!(together(state, &[n(9)].into()), [(n(9), Blocker::UnknownMember)]);
    assert_eq!(together(state, &[].into()), []);
}

/// Field faults 45 and 50: a dead node is taken out with an operator's word, once nothing is served
/// from it any more; a living one says itself that nothing is left on it.
#[test]
fn a_dead_node_is_taken_out_with_a_word() {
    let mut world = cluster(4, 12);
    let word = || "the machine burned".to_owned();
    let asked = |world: &mut World, ask| {
        let id = world.ask(n(2), ask);
        world.run(World::SECOND);
        world.replies[&id].clone()
    };
    let forget = |receipt| Ask::Retire { node: n(4), receipt };
    let rejected = |reason| Err(AskError::Rejected(reason));
    assert_eq!(asked(&mut world, forget(word())), rejected(Reason::NotDraining));
    world.crash(n(4));
    world.until("it is declared dead", World::SECOND * 20, |world| {
        world.log.state.member(n(4)).unwrap().status != narad_core::metastore::Status::Alive
    });
    let mine: Vec<PartitionId> = world.log.state.owned_by(n(4)).collect();
    for partition in mine {
        let lost = Ask::DeclareLost { partition, receipt: word() };
        assert!(asked(&mut world, lost).is_ok());
    }
    assert!(asked(&mut world, Ask::Decommission(n(4))).is_ok());
    assert_eq!(asked(&mut world, forget(String::new())), rejected(Reason::OutOfRange));
    assert!(asked(&mut world, forget(word())).is_ok());
    world.until("it has no vote", World::SECOND * 20, |world| is_out(world, 4));
}
