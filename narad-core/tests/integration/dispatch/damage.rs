//! Records whose bytes in the ingress log are damaged.

use narad_core::dispatch::*;
use narad_core::ids::*;

use super::cases::{sends, to, wake_until_sent};
use super::world::{End, World};

impl World {
    /// The bytes of a record are damaged in the ingress log, for good.
    pub(super) fn damage(&mut self, seq: Seq) {
        if let Some(stored) = self.ingress.get(&seq) {
            self.damaged.insert(seq);
            // Nobody can ask for more of it.
            self.arrived.insert(stored.parcel.record);
        }
    }
}

/// `case_048`: a record whose bytes are damaged is given up by name, and the rest of its batch goes
/// under the same number: an owner that has taken that has all of it.
#[test]
fn a_damaged_record_does_not_hold_up_its_batch() {
    let mut world = World::new(&[1]);
    for _ in 0..4 {
        world.produce(Route::Any);
    }
    world.end(0, End::Well);
    assert_eq!(sends(&world), [(0, 1, vec![1, 2, 3])]);
    world.end(to(&world, 0), End::Fails(SendFault::TimedOut));
    world.damage(Seq(1));
    wake_until_sent(&mut world);
    world.end(to(&world, 0), End::Well);
    assert!(world.notes.contains(&Note::Damaged { records: 1, bytes: 100 }));
    assert_eq!(world.dispatch.progress().damaged, 1);
    wake_until_sent(&mut world);
    assert_eq!(sends(&world), [(0, 1, vec![2, 3])]);
    world.finish();
    assert_eq!(world.dispatch.checkpoint(), Seq(4));
}

/// `case_048`: if nothing of a batch can be read, the next one does not take its number: it would be
/// answered as the one that may have been taken.
#[test]
fn a_batch_of_damaged_records_leaves_no_number_behind() {
    let mut world = World::new(&[1]);
    world.produce(Route::Any);
    world.end(0, End::AnswerLost);
    world.damage(Seq(0));
    world.produce(Route::Any);
    wake_until_sent(&mut world);
    world.end(to(&world, 0), End::Well);
    wake_until_sent(&mut world);
    assert_eq!(sends(&world), [(0, 1, vec![1])]);
    world.finish();
    world.assert_done();
    assert_eq!(world.in_log(world.partition(0)).len(), 2);
}
