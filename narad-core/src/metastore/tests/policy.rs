//! What the cluster goes by, and how a change of timing stays safe (H9); `case_145`.

use core::time::Duration;

use super::{Entry, World, create};
use crate::config::Policy;
use crate::ids::{LogIndex, NodeId};
use crate::metastore::{Applied, Command, Halt, Reason, SUPPORTED_VERSION, State};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lease 1 s, death after 2 s, promotion 3 s later.
fn hasty() -> Policy {
    Policy {
        lease: seconds(1),
        lease_margin: Duration::from_millis(100),
        dead_timeout: seconds(2),
        force_promote_after: seconds(3),
        ..Policy::default()
    }
}

fn set(policy: &Policy) -> Command {
    Command::SetPolicy(policy.clone())
}

/// R75: a policy is checked where it applies.
#[test]
fn an_unsafe_policy_is_refused() {
    let mut world = World::cluster(1);
    let none = Policy { max_in_flight: 0, ..Policy::default() };
    assert_eq!(world.refuses(9, set(&none)), Reason::OutOfRange);
    let two_owners = Policy { lease: seconds(200), ..Policy::default() };
    assert_eq!(world.refuses(9, set(&two_owners)), Reason::UnsafeTiming);
    let paused = Policy { paused: true, ..Policy::default() };
    assert_eq!(world.applies(9, set(&paused)), Applied::Done);
    assert_eq!(world.state.policy(), &paused);
}

/// A late copy of a policy does not undo the one that came after it.
#[test]
fn a_late_copy_of_a_policy_does_not_undo_the_next() {
    let mut world = World::cluster(1);
    let proposal = world.proposal(9);
    let paused = Policy { paused: true, ..Policy::default() };
    let entry = Entry { proposal, by: NodeId(9), command: set(&paused) };
    world.append(&entry);
    world.applies(9, set(&Policy::default()));
    world.append(&entry);
    assert!(!world.state.policy().paused);
}

/// R63: the wait is the policy's, and none while the member lives.
#[test]
fn a_death_waits_for_force_promote_after() {
    let mut world = World::cluster(2);
    assert_eq!(world.state.promote_after(NodeId(1)), None);
    world.kill(1);
    assert_eq!(world.state.promote_after(NodeId(1)), Some(seconds(120)));
    world.register(1, 2);
    assert_eq!(world.state.promote_after(NodeId(1)), None);
    assert_eq!(world.state.promote_after(NodeId(8)), None);
}

/// Section 4: a shorter wait counts for later deaths only, a longer one for all.
#[test]
fn a_shorter_wait_does_not_shorten_a_death_that_has_begun() {
    let mut world = World::cluster(3);
    world.kill(1);
    let shorter = Policy { force_promote_after: seconds(60), ..Policy::default() };
    world.applies(9, set(&shorter));
    assert_eq!(world.state.promote_after(NodeId(1)), Some(seconds(120)));
    world.kill(2);
    assert_eq!(world.state.promote_after(NodeId(2)), Some(seconds(60)));
    let longer = Policy { force_promote_after: seconds(300), ..Policy::default() };
    world.applies(9, set(&longer));
    assert_eq!(world.state.promote_after(NodeId(1)), Some(seconds(300)));
    assert_eq!(world.state.promote_after(NodeId(2)), Some(seconds(300)));
}

/// H9: a node that was cut off may still hold the long lease of an older policy, two changes ago;
/// its death waits for that lease. The next life holds no lease of the last one.
#[test]
fn a_lease_of_an_older_policy_is_waited_out() {
    let mut world = World::cluster(2);
    let long = Policy { lease: seconds(60), ..Policy::default() };
    world.applies(9, set(&long));
    let short = Policy { lease: seconds(1), ..Policy::default() };
    world.applies(9, set(&short));
    world.applies(9, set(&hasty()));
    world.kill(1);
    let wait = world.state.promote_after(NodeId(1)).expect("it is dead");
    // 60 s and 5 % and 1 s of margin, by a clock 5 % slow, less 2 s of silence.
    assert!((seconds(65)..seconds(66)).contains(&wait), "{wait:?}");
    world.register(1, 2);
    world.kill(1);
    assert_eq!(world.state.promote_after(NodeId(1)), Some(seconds(3)));
}

/// H9: a dead life is given no lease any more, so a longer one that comes later is none of its.
#[test]
fn a_longer_lease_says_nothing_of_those_who_are_dead() {
    let mut world = World::cluster(2);
    world.kill(1);
    let (dead, alive) = (world.member(1).timing, world.member(2).timing);
    world.applies(9, set(&Policy { lease: seconds(60), ..Policy::default() }));
    assert_eq!(world.member(1).timing, dead);
    assert!(world.member(2).timing.reach > alive.reach);
}

/// H9: the silence that counted was that of the hastiest policy since the node registered.
#[test]
fn a_death_that_was_judged_by_an_older_policy_waits_longer() {
    let mut world = World::cluster(2);
    world.applies(9, set(&hasty()));
    world.register(1, 2);
    let patient = Policy {
        lease: seconds(60),
        dead_timeout: seconds(90),
        force_promote_after: seconds(0),
        ..Policy::default()
    };
    assert_eq!(patient.check(), Ok(()));
    world.applies(9, set(&patient));
    world.kill(1);
    let wait = world.state.promote_after(NodeId(1)).expect("it is dead");
    assert!(wait > seconds(60), "{wait:?}");
}

/// A member that has never registered holds no lease: a cluster that is born with a hasty policy
/// is as hasty as that.
#[test]
fn a_policy_before_the_first_life_leaves_no_trace() {
    let mut world = World::new();
    world.join(1);
    world.applies(9, set(&hasty()));
    world.register(1, 1);
    world.kill(1);
    assert_eq!(world.state.promote_after(NodeId(1)), Some(seconds(3)));
}

/// The version only rises, and only to one that this build has.
#[test]
fn a_version_that_this_build_does_not_have_halts() {
    let mut world = World::cluster(1);
    let raise = |to| Command::RaiseVersion { to };
    assert_eq!(world.applies(9, raise(SUPPORTED_VERSION)), Applied::Done);
    assert_eq!(world.applies(9, raise(0)), Applied::Done);
    assert_eq!(world.state.version(), SUPPORTED_VERSION);
    assert!(world.state.admits(create("a", 1).version()));
    assert_eq!(create("a", 1).version(), 1, "the first build knew it");
    assert!(!world.state.admits(SUPPORTED_VERSION + 1));
    let proposal = world.proposal(9);
    let to = SUPPORTED_VERSION + 1;
    let entry = Entry { proposal, by: NodeId(9), command: raise(to) };
    let (before, index) = (world.state.clone(), world.next_index());
    let halt = world.state.apply(index, &entry);
    assert_eq!(halt, Err(Halt::VersionUnsupported { index, to }));
    assert_eq!(world.state, before);
}

/// `case_144`: an entry whose index has been applied is refused, so nothing happens twice.
#[test]
fn an_index_is_applied_once() {
    let mut state = State::new();
    let proposal =
        super::ProposalId { node: NodeId(1), incarnation: super::Incarnation(1), sequence: 1 };
    let entry = Entry { proposal, by: NodeId(1), command: create("a", 1) };
    let applied = LogIndex(5);
    state.apply(applied, &entry).expect("indices may begin anywhere");
    let before = state.clone();
    for index in [LogIndex(0), LogIndex(4), LogIndex(5)] {
        assert_eq!(state.apply(index, &entry), Err(Halt::Passed { index, applied }));
        assert_eq!(state.skip(index), Err(Halt::Passed { index, applied }));
    }
    let early = state.configure(LogIndex(4), super::Configuration::default());
    assert_eq!(early, Err(Halt::Passed { index: LogIndex(4), applied }));
    assert_eq!(state, before);
    state.skip(LogIndex(6)).expect("the index is later");
    assert_eq!(state.applied(), LogIndex(6));
}
