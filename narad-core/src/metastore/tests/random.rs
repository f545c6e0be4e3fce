//! Random logs: the invariants hold whatever is asked, by whom, in which order.

use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{World, addrs, invariants, name, store};
use crate::config::Policy;
use crate::ids::{
    Attempt, AttemptNo, Digest, Drain, Epoch, FreezeNo, Generation, Incarnation, LogIndex, MoveId,
    NodeId, Offset, PartitionId, ProposalId, Token, TopicId,
};
use crate::metastore::{
    Assignment, Command, Entry, Expect, Fence, Parts, Reply, Residue, State, Status,
};

/// What a step wants to do. Small numbers choose among what exists, so that most steps do
/// something; `skew` makes some of them miss.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    index: u32,
    node: u64,
    skew: u8,
    end: u64,
    flag: bool,
}

fn step() -> impl Strategy<Value = Step> {
    // One step in four is aimed a little off.
    let skew = prop_oneof![3 => Just(0_u8), 1 => 1_u8..8];
    (0_u8..24, 0_u32..4, 1_u64..7, skew, 0_u64..40, any::<bool>()).prop_map(
        |(kind, index, node, skew, end, flag)| Step { kind, index, node, skew, end, flag },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..80)
}

impl Step {
    /// Turns the wish into an entry that fits the state, or nearly so.
    fn entry(&self, world: &mut World) -> Entry {
        let proposal = world.proposal(self.node);
        let (by, command) = self.command(world);
        Entry { proposal, by: NodeId(by), command }
    }

    fn own_name(&self, choice: usize) -> &'static str {
        NAMES[usize::try_from(self.node).unwrap_or(0) % choice]
    }

    fn partition(&self, world: &World) -> PartitionId {
        let mut topics = world.state.topics();
        let topic = topics.next().map_or(TopicId(3), |topic| topic.id);
        PartitionId { topic, index: self.index }
    }

    fn row(&self, world: &World) -> Assignment {
        let row = world.state.assignment(self.partition(world));
        row.cloned().unwrap_or_else(|| Assignment::born(NodeId(self.node)))
    }

    fn life(world: &World, node: NodeId) -> Incarnation {
        world.state.member(node).map_or(Incarnation(1), |member| member.incarnation)
    }

    fn drain(world: &World, node: NodeId) -> Drain {
        world.state.member(node).map_or(Drain(0), |member| member.drains)
    }

    fn expect(&self, row: &Assignment) -> Expect {
        let mut expect = row.expect();
        match self.skew {
            1 => expect.owner = NodeId(self.node),
            2 => expect.epoch = Epoch(row.epoch.0.saturating_sub(1)),
            3 => expect.move_id = MoveId(row.move_id.0.saturating_sub(1)),
            _ => {}
        }
        expect
    }

    fn attempt(&self, world: &World, row: &Assignment) -> Attempt {
        let destination = row.target.unwrap_or(NodeId(self.node));
        let mut incarnation = Self::life(world, destination);
        let mut move_id = row.move_id;
        match self.skew {
            4 => incarnation = Incarnation(incarnation.0.saturating_sub(1)),
            5 => move_id = MoveId(move_id.0.saturating_sub(1)),
            6 => return row.data,
            _ => {}
        }
        let n = u32::try_from(self.end % 4).expect("it is less than four");
        Attempt { move_id, destination, no: AttemptNo { incarnation, n } }
    }

    fn token(&self, world: &World, row: &Assignment) -> Token {
        let incarnation = Self::life(world, row.owner);
        let epoch = if self.skew == 7 { Epoch(row.epoch.0 - 1) } else { row.epoch };
        Token { epoch, no: FreezeNo { incarnation, counter: self.end % 5 } }
    }

    fn command(&self, world: &World) -> (u64, Command) {
        let row = self.row(world);
        let partition = self.partition(world);
        let node = NodeId(self.node);
        let incarnation = Self::life(world, node);
        let by = if self.skew == 1 { self.node % 6 + 1 } else { self.node };
        let owner = row.owner.0;
        let attempt = self.attempt(world, &row);
        let target = attempt.destination.0;
        match self.kind {
            0 => (
                by,
                Command::Join {
                    name: name(if self.skew == 2 { "narad" } else { self.own_name(NAMES.len()) }),
                    store_uuid: store(self.node + u64::from(self.skew == 3) * 10),
                    addrs: addrs(),
                },
            ),
            1..=3 => (
                by,
                Command::Register {
                    node,
                    store_uuid: store(self.node + u64::from(self.skew == 3)),
                    incarnation: Incarnation(
                        incarnation.0.saturating_add(u64::from(self.skew != 2)),
                    ),
                    addrs: addrs(),
                },
            ),
            4 => (by, Command::MarkDead { node, incarnation }),
            5 => {
                let hwms = [(partition, row.epoch, Offset(self.end))].into();
                let incarnation = Self::life(world, row.owner);
                (owner, Command::Report { node: row.owner, incarnation, hwms })
            }
            6 => (by, Command::SetDraining { node, on: self.flag }),
            7 => (by, Command::DrainedOut { node, incarnation, drain: Self::drain(world, node) }),
            8 => (by, Command::Retire { node, receipt: self.flag.then(|| "gone".into()) }),
            9 => (
                by,
                Command::CreateTopic {
                    name: name(self.own_name(2)),
                    partitions: self.index + 1,
                    parent: self.flag.then_some(partition.topic),
                },
            ),
            10 if self.end == 0 => (by, Command::DeleteTopic { topic: partition.topic }),
            10 | 11 => (by, Command::AssignPartition { partition, node }),
            12..=14 => (by, Command::SetTarget { partition, expect: self.expect(&row), to: node }),
            15 => (by, Command::ClearTarget { partition, move_id: self.expect(&row).move_id }),
            16 | 17 => {
                let fence = Fence::Normal { token: self.token(world, &row) };
                (target, self.complete(partition, &row, attempt, fence))
            }
            18 => {
                let deaths = world.state.member(row.owner).map(|owner| owner.deaths);
                let fence = Fence::Forced { generation: deaths.unwrap_or_default() };
                (target, self.complete(partition, &row, attempt, fence))
            }
            19 => (target, Command::Resolve { partition, attempt }),
            20 => (owner, Command::Revoke { partition, token: self.token(world, &row) }),
            21 => (by, Command::ReclaimReady { partition, node, epoch: row.epoch }),
            22 => {
                let expect = self.expect(&row);
                let deaths = world.state.member(row.owner).map(|owner| owner.deaths);
                let no = AttemptNo { incarnation: Incarnation(0), n: 0 };
                (
                    by,
                    Command::DeclareLost {
                        partition,
                        expect,
                        generation: deaths.unwrap_or_default(),
                        to: node,
                        data: Attempt { move_id: row.move_id, destination: node, no },
                        end: Offset(row.min_end.0.saturating_add(self.end)),
                        receipt: "gone".into(),
                    },
                )
            }
            _ if self.flag => (by, Command::SetPin { partition, on: self.skew == 0 }),
            _ => (by, Command::SetPolicy(self.policy())),
        }
    }

    fn complete(
        &self,
        partition: PartitionId,
        row: &Assignment,
        attempt: Attempt,
        fence: Fence,
    ) -> Command {
        let end = Offset(row.min_end.0.saturating_add(self.end).saturating_sub(2));
        Command::CompleteMove {
            partition,
            expect: self.expect(row),
            attempt,
            fence,
            end,
            hwm: Offset(end.0.saturating_sub(u64::from(self.flag))),
            committed: None,
            digest: Digest(0),
        }
    }

    /// Timings of all sorts, some of them refused.
    fn policy(&self) -> Policy {
        Policy {
            min_voters: 1,
            lease: Duration::from_secs(1 + self.end),
            dead_timeout: Duration::from_secs(self.node * 10),
            force_promote_after: Duration::from_secs(u64::from(self.skew) * 8),
            clock_rate_error_percent: self.index * 3,
            ..Policy::default()
        }
    }
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// Nodes, voters and a topic, so that a random log has something to play with.
fn start() -> World {
    let mut world = World::cluster(5);
    world.assign(1, 2);
    world.plan(0, 2);
    world
}

proptest! {
    // A fixed seed: a red run is red again, on every machine.
    #![proptest_config(ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(4),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// S14, S15, S16, S18, R87: every entry of every log keeps the invariants, changes nothing when
    /// it is rejected, and changes nothing when it comes again (`case_144`, H3).
    #[test]
    fn every_entry_keeps_the_invariants_and_its_duplicate_changes_nothing(steps in steps()) {
        let mut world = start();
        for step in steps {
            let entry = step.entry(&mut world);
            let before = world.state.clone();
            let (reply, changed) = world.append(&entry);
            check_authority(&before, &world.state, &entry);
            if matches!(reply, Reply::Rejected(_)) {
                prop_assert!(changed.is_empty());
            }
            let once = world.state.to_parts();
            let (again, changed) = world.append(&entry);
            prop_assert!(changed.is_empty(), "{entry:?} changed {changed:?} again");
            let twice = Parts { applied: once.applied, ..world.state.to_parts() };
            prop_assert_eq!(once, twice);
            if let (Reply::Applied(first), Command::CompleteMove { .. }) = (&reply, &entry.command) {
                prop_assert_eq!(again, Reply::Applied(*first));
            }
        }
    }

    /// S17, R12: the same log makes the same state, also from a snapshot in the middle of it.
    #[test]
    fn a_log_makes_one_state(steps in steps(), cut in 0_usize..80) {
        let mut world = start();
        let (mut log, mut snapshot) = (Vec::new(), world.state.clone());
        for (number, step) in steps.iter().enumerate() {
            if number == cut {
                snapshot = world.state.clone();
            }
            let entry = step.entry(&mut world);
            log.push((world.next_index(), entry.clone()));
            world.append(&entry);
        }
        let parts = snapshot.to_parts();
        let mut replica = State::from_parts(parts).expect("a snapshot of a sound state");
        prop_assert_eq!(&replica, &snapshot);
        let rest = log.iter().filter(|(index, _)| *index > snapshot.applied());
        for (index, entry) in rest {
            replica.apply(*index, entry).expect("the entry was applied before");
        }
        prop_assert_eq!(replica, world.state);
    }

    /// Mangled parts are refused or are sound; neither they nor a log on top of them panic.
    #[test]
    fn mangled_parts_never_panic(steps in steps(), mangle in mangles(), more in steps()) {
        let mut world = start();
        for step in steps {
            let entry = step.entry(&mut world);
            world.append(&entry);
        }
        let mut parts = world.state.to_parts();
        for one in mangle {
            one.apply(&mut parts);
        }
        if let Ok(state) = State::from_parts(parts.clone()) {
            prop_assert_eq!(state.to_parts(), parts);
            let mut world = World { state, ..world };
            for step in more {
                let entry = step.entry(&mut world);
                let index = world.next_index();
                let before = world.state.clone();
                let outcome = world.state.apply(index, &entry).expect("the command is known");
                invariants::check_sets(&world.state);
                invariants::check_changed(&before, &world.state, &outcome.changed);
            }
        }
    }
}

/// S18: whatever changed, it was the one concerned who asked.
fn check_authority(before: &State, after: &State, entry: &Entry) {
    for (partition, old) in before.assignments() {
        let Some(new) = after.assignment(partition) else { continue };
        if old.revoked < new.revoked || old.reported_hwm < new.reported_hwm {
            assert_eq!(entry.by, old.owner);
        }
        if old.burned < new.burned {
            assert_eq!(Some(entry.by), old.target);
        }
        let lost = matches!(entry.command, Command::DeclareLost { .. });
        if old.epoch < new.epoch && !lost {
            assert_eq!((Some(entry.by), entry.by), (old.target, new.owner));
        }
    }
    for old in before.members() {
        let new = after.member(old.id).expect("no member is forgotten");
        if old.incarnation < new.incarnation || (new.drained_out && !old.drained_out) {
            assert_eq!(entry.by, old.id);
        }
        let begun = new.draining && !old.draining;
        assert_eq!(new.drains.0, old.drains.0 + u64::from(begun), "each has a number of its own");
    }
}

/// One piece of damage.
#[derive(Clone, Debug)]
struct Mangle {
    what: u8,
    at: usize,
    number: u64,
}

fn mangles() -> impl Strategy<Value = Vec<Mangle>> {
    let number = prop_oneof![4 => 0_u64..8, 1 => Just(u64::MAX), 1 => Just(u64::MAX >> 1)];
    let one = (0_u8..26, 0_usize..6, number);
    prop::collection::vec(one.prop_map(|(what, at, number)| Mangle { what, at, number }), 1..4)
}

impl Mangle {
    fn apply(&self, parts: &mut Parts) {
        let Self { what, at, number } = *self;
        let small = u32::try_from(number).unwrap_or(u32::MAX);
        match what {
            0 => parts.applied = LogIndex(number.min(u64::MAX >> 1)),
            1 => parts.version = small,
            2 => parts.newest_node = NodeId(number),
            3 => parts.policy = Policy { voters_max: small, ..Policy::default() },
            4 => _ = parts.configuration.voters.insert(NodeId(number)),
            5 => parts.members.reverse(),
            6 => parts.assignments.reverse(),
            7 => parts.topics.truncate(at),
            8 => parts.members.truncate(at),
            9 => parts.remembered.push(ProposalId {
                node: NodeId(number),
                incarnation: Incarnation(0),
                sequence: 0,
            }),
            10..=15 => {
                if let Some(member) = parts.members.get_mut(at) {
                    match what {
                        10 => member.incarnation = Incarnation(number),
                        11 => member.status = Status::Dead(Generation(number)),
                        12 => member.deaths = Generation(number),
                        13 => member.retired = true,
                        14 => member.draining = !member.draining,
                        _ => member.timing.reach = Duration::from_secs(number),
                    }
                }
            }
            _ => {
                if let Some((_, row)) = parts.assignments.get_mut(at) {
                    Self::mangle_row(what, number, row);
                }
            }
        }
    }

    fn mangle_row(what: u8, number: u64, row: &mut Assignment) {
        let position = usize::try_from(number).unwrap_or(0) % row.lineage.len().max(1);
        match what {
            16 => row.owner = NodeId(number),
            17 => row.target = Some(NodeId(number)),
            18 => row.epoch = Epoch(number),
            19 => row.move_id = MoveId(number),
            20 => row.lineage.truncate(position),
            21 => row.lineage_cut = !row.lineage_cut,
            22 => row.min_end = Offset(number),
            23 => row.revoked = None,
            24 => row.reported_hwm = Some(Offset(number)),
            _ => {
                if let Some(reign) = row.lineage.get_mut(position) {
                    reign.epoch = Epoch(number);
                    reign.residue = Residue::Pending;
                }
            }
        }
    }
}
