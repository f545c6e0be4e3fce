//! The operator's word that a disk is off for good (H39, section 7).

use alloc::string::String;

use super::{World, register};
use crate::ids::{Attempt, AttemptNo, Epoch, Generation, Incarnation, MoveId, NodeId, Offset};
use crate::metastore::{Applied, Command, Expect, Reason, Residue, Status, Verdict};

/// A `DeclareLost` whose parts can be altered one by one.
#[derive(Clone)]
struct Lost {
    index: u32,
    expect: Expect,
    generation: Generation,
    to: NodeId,
    data: Attempt,
    end: Offset,
    receipt: String,
}

impl Lost {
    /// An empty log on node 2 that begins at 500.
    fn new(world: &World) -> Self {
        let expect = world.row(0).expect();
        let no = AttemptNo { incarnation: Incarnation(0), n: 0 };
        Self {
            index: 0,
            expect,
            generation: Generation(1),
            to: NodeId(2),
            data: Attempt { move_id: expect.move_id, destination: NodeId(2), no },
            end: Offset(500),
            receipt: String::from("disk shredded, ticket 71"),
        }
    }

    fn command(&self, world: &World) -> Command {
        let Self { index, expect, generation, to, data, end, ref receipt } = *self;
        let (partition, receipt) = (world.p(index), receipt.clone());
        Command::DeclareLost { partition, expect, generation, to, data, end, receipt }
    }
}

/// Node 1 is dead and has reported 500; `min_end` is 0.
fn world() -> World {
    let mut world = World::moving(4);
    world.report(0, 500);
    world.kill(1);
    world
}

/// H39, field faults 45 and 46: the partition lives on, in a new epoch, past all that was visible.
#[test]
fn a_lost_partition_begins_anew_past_what_was_visible() {
    let mut world = world();
    let lost = Lost::new(&world);
    let command = lost.command(&world);
    assert_eq!(world.applies(3, command.clone()), Applied::Won(Epoch(2)));
    let row = world.row(0);
    assert_eq!((row.owner, row.data, row.target), (NodeId(2), lost.data, None));
    assert_eq!((row.move_id, row.min_end, row.reported_hwm), (MoveId(3), Offset(500), None));
    assert_eq!(row.lineage[1].residue, Residue::Pending);
    assert_eq!(world.applies(3, command), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).epoch, Epoch(2));
}

/// H39: it is fenced like a flip; each mismatch has its reason.
#[test]
fn a_declaration_that_differs_in_one_thing_is_refused_for_it() {
    type Alter = fn(&mut Lost);
    let table: &[(Reason, Alter)] = &[
        (Reason::Gone, |lost| lost.index = 3),
        (Reason::OwnerChanged, |lost| lost.expect.owner = NodeId(3)),
        (Reason::EpochChanged, |lost| lost.expect.epoch = Epoch(2)),
        (Reason::MoveChanged, |lost| lost.expect.move_id = MoveId(1)),
        (Reason::NotDead, |lost| lost.generation = Generation(2)),
        (Reason::CopyBehind, |lost| lost.end = Offset(499)),
        (Reason::OutOfRange, |lost| lost.receipt.clear()),
        (Reason::OutOfRange, |lost| lost.receipt = "x".repeat(Command::RECEIPT_MAX + 1)),
        (Reason::NotTarget, |lost| lost.to = NodeId(3)),
        (Reason::MoveChanged, |lost| lost.data.move_id = MoveId(1)),
        (Reason::UnknownMember, |lost| {
            lost.to = NodeId(9);
            lost.data.destination = NodeId(9);
        }),
        (Reason::NodeDead, |lost| {
            lost.to = NodeId(1);
            lost.data.destination = NodeId(1);
        }),
    ];
    let base = world();
    for (number, (reason, alter)) in table.iter().enumerate() {
        let mut world = World { state: base.state.clone(), ..base };
        let mut lost = Lost::new(&world);
        alter(&mut lost);
        let command = lost.command(&world);
        assert_eq!(world.refuses(3, command), *reason, "row {number}");
    }
}

/// H39: the owner that was cut off came back, so nothing is lost.
#[test]
fn a_declaration_is_refused_once_the_owner_is_back() {
    let mut world = world();
    let command = Lost::new(&world).command(&world);
    world.applies(1, register(1, 2));
    assert_eq!(world.refuses(3, command), Reason::NotDead);
    assert_eq!(world.member(1).status, Status::Alive);
}

/// The copy of a target becomes live under its attempt, unless that was burned.
#[test]
fn a_copy_that_was_burned_does_not_become_live() {
    let mut world = world();
    let attempt = world.attempt(0);
    let lost = Lost { data: attempt, ..Lost::new(&world) };
    world.applies(2, super::resolve(world.p(0), attempt));
    let command = lost.command(&world);
    assert_eq!(world.refuses(3, command), Reason::AttemptBurned);
    let lost = Lost { data: super::next_try(attempt), ..lost };
    let command = lost.command(&world);
    assert_eq!(world.applies(3, command), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).data, lost.data);
}

/// What was burned are tries; an empty log is none of them.
#[test]
fn an_empty_log_may_begin_after_a_copy_was_burned() {
    let mut world = world();
    let attempt = world.attempt(0);
    world.applies(2, super::resolve(world.p(0), attempt));
    let empty = Lost::new(&world);
    let command = empty.command(&world);
    assert_eq!(world.applies(3, command), Applied::Won(Epoch(2)));
    assert_eq!(world.row(0).data, empty.data);
}

/// An empty log never takes the name of a directory that may still lie on that disk.
#[test]
fn a_declaration_names_a_directory_of_the_present_move() {
    let mut world = World::cluster(3);
    world.relocate(0, 2, 10);
    world.kill(2);
    let mut lost = Lost::new(&world);
    (lost.to, lost.data) = (NodeId(1), Attempt::birth(NodeId(1)));
    let reborn = lost.command(&world);
    // The birth directory of node 1 won epoch 1; that it exists does not make it live again.
    assert_eq!(world.applies(3, reborn), Applied::Won(Epoch(1)));
    assert_eq!(world.row(0).owner, NodeId(2));
    lost.data.move_id = world.row(0).move_id;
    let command = lost.command(&world);
    assert_eq!(world.applies(3, command), Applied::Won(Epoch(3)));
}

/// H14, H39: the owner that returns after all finds that it holds a residue.
#[test]
fn the_lost_owner_salvages_when_it_returns() {
    let mut world = world();
    let command = Lost::new(&world).command(&world);
    world.applies(3, command);
    world.register(1, 2);
    let verdict = world.state.verdict(world.p(0), Attempt::birth(NodeId(1)));
    assert_eq!(verdict, Verdict::Residue { epoch: Epoch(2), start: Offset(500) });
}
