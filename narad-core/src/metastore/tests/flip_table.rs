//! Every way in which a flip can fail to match the row (R23, R55, R56).

use super::{Flip, World, next_try};
use crate::ids::{AttemptNo, Epoch, FreezeNo, Incarnation, MoveId, NodeId, Offset, Token};
use crate::metastore::{Applied, Expect, Fence, Reason, Reply, Residue};

/// A row in epoch 2 and move 4: owned by node 2 in its life 1, moving to node 3, with one try
/// burned, one freeze revoked, `min_end` 100.
fn world() -> World {
    let mut world = World::cluster(4);
    world.relocate(0, 2, 100);
    world.plan(0, 3);
    let burned = world.attempt(0);
    world.applies(3, super::resolve(world.p(0), burned));
    let token = world.token(0, 1);
    world.applies(2, super::Command::Revoke { partition: world.p(0), token });
    world
}

/// The flip that wins in [`world`].
fn winner(world: &World) -> Flip {
    let flip = world.flip(0, 150);
    let fence = Fence::Normal { token: world.token(0, 2) };
    Flip { attempt: next_try(flip.attempt), fence, committed: Some(Offset(150)), ..flip }
}

/// R12, R23, R55: a flip that matches in everything wins, and takes over.
#[test]
fn a_flip_that_matches_wins() {
    let mut world = world();
    let flip = winner(&world);
    assert_eq!(world.applies(3, flip.command()), Applied::Won(Epoch(3)));
    let row = world.row(0);
    assert_eq!((row.owner, row.epoch, row.data), (NodeId(3), Epoch(3), flip.attempt));
    assert_eq!((row.target, row.move_id, row.min_end), (None, MoveId(5), Offset(150)));
    assert_eq!((row.burned, row.revoked, row.reported_hwm), (None, None, None));
    let starts: super::Vec<_> = row.lineage.iter().map(|reign| reign.start.0).collect();
    assert_eq!(starts, [0, 100, 150]);
    assert!(row.lineage.iter().all(|reign| reign.residue == Residue::None));
}

/// R23, R55, R56: one mismatch after the other, each with its reason, and nothing changes.
#[test]
fn a_flip_that_differs_in_one_thing_is_refused_for_it() {
    type Alter = fn(&mut Flip, &mut u64);
    let table: &[(&str, Reason, Alter)] = &[
        ("another partition", Reason::Gone, |f, _| f.partition.index = 3),
        ("another topic", Reason::Gone, |f, _| f.partition.topic.0 += 1),
        ("asked by the owner", Reason::NotYours, |_, by| *by = 2),
        ("asked by a stranger", Reason::NotYours, |_, by| *by = 4),
        ("asked by nobody", Reason::NotYours, |_, by| *by = 0),
        ("another destination than the asker", Reason::NotYours, |f, _| {
            f.attempt.destination = NodeId(4);
        }),
        ("a destination that is not the target", Reason::NotTarget, |f, by| {
            f.attempt.destination = NodeId(4);
            *by = 4;
        }),
        ("the owner as destination", Reason::NotTarget, |f, by| {
            f.attempt.destination = NodeId(2);
            *by = 2;
        }),
        ("another owner", Reason::OwnerChanged, |f, _| f.expect.owner = NodeId(1)),
        ("an earlier epoch", Reason::EpochChanged, |f, _| f.expect.epoch = Epoch(1)),
        ("a later epoch", Reason::EpochChanged, |f, _| f.expect.epoch = Epoch(3)),
        ("an earlier move", Reason::MoveChanged, |f, _| f.expect.move_id = MoveId(3)),
        ("a later move", Reason::MoveChanged, |f, _| f.expect.move_id = MoveId(5)),
        ("an attempt of an earlier move", Reason::MoveChanged, |f, _| {
            f.attempt.move_id = MoveId(2);
        }),
        ("an attempt of a later move", Reason::MoveChanged, |f, _| f.attempt.move_id = MoveId(5)),
        ("the burned attempt", Reason::AttemptBurned, |f, _| f.attempt.no.n = 0),
        ("an attempt before the burned one", Reason::AttemptBurned, |f, _| {
            f.attempt.no = AttemptNo { incarnation: Incarnation(0), n: 9 };
        }),
        ("the revoked freeze", Reason::TokenRevoked, |f, _| f.set_counter(1)),
        ("a freeze before the revoked one", Reason::TokenRevoked, |f, _| f.set_counter(0)),
        ("a freeze of an earlier epoch", Reason::TokenStale, |f, _| f.token().epoch = Epoch(1)),
        ("a freeze of a later epoch", Reason::TokenStale, |f, _| f.token().epoch = Epoch(3)),
        ("a freeze of an earlier life", Reason::TokenStale, |f, _| {
            f.token().no.incarnation = Incarnation(0);
        }),
        ("a freeze of a later life", Reason::TokenStale, |f, _| {
            f.token().no.incarnation = Incarnation(2);
        }),
        ("no freeze, and the owner lives", Reason::NotDead, |f, _| {
            f.fence = Fence::Forced { generation: super::Generation(1) };
        }),
        ("a copy that ends before its watermark", Reason::OutOfRange, |f, _| {
            f.hwm = Offset(151);
        }),
        ("a position past the watermark", Reason::OutOfRange, |f, _| {
            f.committed = Some(Offset(151));
        }),
        ("a copy that ends before min_end", Reason::CopyBehind, |f, _| {
            (f.end, f.hwm, f.committed) = (Offset(99), Offset(99), None);
        }),
    ];
    let base = world();
    for &(what, reason, alter) in table {
        let mut world = World { state: base.state.clone(), ..base };
        let (mut flip, mut by) = (winner(&world), 3);
        alter(&mut flip, &mut by);
        assert_eq!(world.ask(by, flip.command()), Reply::Rejected(reason), "{what}");
        assert_eq!(world.row(0), base.row(0), "{what}");
        let again = winner(&world);
        assert_eq!(world.applies(3, again.command()), Applied::Won(Epoch(3)), "{what}");
    }
}

/// R23: of all (owner, epoch, move, target) that a flip may name, exactly one fits.
#[test]
fn exactly_one_combination_of_row_and_asker_wins() {
    let base = world();
    let mut won = 0;
    for (owner, epoch, move_id, by) in combinations() {
        let mut world = World { state: base.state.clone(), ..base };
        let mut flip = winner(&world);
        flip.expect =
            Expect { owner: NodeId(owner), epoch: Epoch(epoch), move_id: MoveId(move_id) };
        flip.attempt.move_id = MoveId(move_id);
        flip.attempt.destination = NodeId(by);
        // An asker that has won this very attempt before is told so; none has here.
        match world.ask(by, flip.command()) {
            Reply::Applied(Applied::Won(Epoch(3))) => won += 1,
            Reply::Applied(other) => panic!("{other:?}"),
            Reply::Rejected(_) => assert_eq!(world.row(0), base.row(0)),
        }
    }
    assert_eq!(won, 1);
}

fn combinations() -> impl Iterator<Item = (u64, u64, u64, u64)> {
    (1..=4).flat_map(|owner| {
        (1..=3).flat_map(move |epoch| {
            (0..=6).flat_map(move |move_id| (1..=4).map(move |by| (owner, epoch, move_id, by)))
        })
    })
}

/// Boundaries: the copy may end exactly at `min_end`, exactly at its watermark, and the watermark
/// may be exactly the committed position. Empty partitions move too.
#[test]
fn a_copy_may_end_exactly_at_its_boundaries() {
    let mut world = world();
    let mut flip = winner(&world);
    (flip.end, flip.hwm, flip.committed) = (Offset(100), Offset(100), Some(Offset(100)));
    assert_eq!(world.applies(3, flip.command()), Applied::Won(Epoch(3)));

    let mut world = World::cluster(2);
    world.relocate(0, 2, 0);
    assert_eq!(world.row(0).min_end, Offset(0));
}

impl Flip {
    fn token(&mut self) -> &mut Token {
        match &mut self.fence {
            Fence::Normal { token } => token,
            Fence::Forced { .. } => panic!("the flip rests on a freeze"),
        }
    }

    fn set_counter(&mut self, counter: u64) {
        let FreezeNo { incarnation, .. } = self.token().no;
        self.token().no = FreezeNo { incarnation, counter };
    }
}
