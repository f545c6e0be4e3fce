//! The phases of a slot, one by one on one thread.

mod consumers;
mod model;

use std::path::Path;
use std::time::Duration;

use narad_core::host::{self, Host};
use narad_core::ids::{Attempt, NodeId, TopicId};

use super::*;
use crate::disk::MemDisk;
use crate::disk::mem::Step;
use crate::log::{LogLimits, SegmentLog};

pub(super) const LIFE: Incarnation = Incarnation(1);
pub(super) const EPOCH: Epoch = Epoch(1);
const PARTITION: PartitionId = PartitionId { topic: TopicId(7), index: 0 };

struct Leased;

impl Standpoint for Leased {
    fn now(&self) -> Instant {
        Instant::ORIGIN
    }

    fn authority(&self) -> Authority {
        let lease_until = Instant::ORIGIN.after(Duration::from_secs(9));
        Authority { registered: Some(LIFE), lease_until }
    }
}

pub(super) struct World {
    disk: MemDisk,
    pub(super) slot: Slot,
}

/// A slot that serves an empty log.
pub(super) fn serving() -> World {
    let disk = MemDisk::new();
    let dir = Path::new("log");
    SegmentLog::create(&disk, dir, Offset(0)).unwrap();
    let log = SegmentLog::open(Arc::new(disk.clone()), dir, LogLimits::default()).unwrap();
    let slot = Slot::new(PARTITION, Arc::new(Leased));
    slot.attach(Arc::new(log));
    slot.stand(Standing::Serving { epoch: EPOCH, life: LIFE, in_play: true });
    World { disk, slot }
}

pub(super) fn records(count: usize) -> Vec<Record> {
    vec![Record { value: "v".into(), ..Record::default() }; count]
}

/// Mints an operation id; those of two lives differ.
pub(super) fn ticket(life: u64) -> OpId {
    let mut host = Host::new(Incarnation(life), Duration::from_secs(1));
    let mut out = Effects::default();
    let data = Attempt::birth(NodeId(1));
    let want = host::Want { data, epoch: EPOCH, min_end: Offset(0), forced: false };
    host.handle(Instant::ORIGIN, host::Event::Want(Some(want)), &mut out);
    out.drain()
        .find_map(|effect| match effect {
            host::Effect::Run(op, _) => Some(op),
            host::Effect::Note(_) => None,
        })
        .expect("a log that is wanted is opened")
}

/// H7, T21: a freeze that arrives within an append takes hold behind it, and that append counts.
#[test]
fn a_freeze_waits_for_the_pending_append_without_blocking() {
    let World { slot, .. } = serving();
    let pending = slot.begin(Some(EPOCH)).unwrap();
    slot.begin_freeze(ticket(1), EPOCH, LIFE);
    assert!(slot.take_answer(ticket(1)).is_none());
    assert!(matches!(slot.begin(None), Err(SlotError::Refused(Refused::Frozen))));

    let appended = pending.append(&records(2));
    let committed = slot.finish(pending, appended).unwrap();
    assert_eq!((committed.first, committed.end), (Offset(0), Offset(2)));
    let capture = slot.take_answer(ticket(1)).expect("the append has ended").unwrap();
    assert_eq!((capture.listing.end, capture.listing.hwm), (Offset(2), Offset(2)));
    assert!(slot.take_answer(ticket(1)).is_none(), "an answer is given once");
}

/// Field fault 4: a freeze that is given up is answered, and the append goes on.
#[test]
fn a_freeze_that_is_given_up_is_answered() {
    let World { slot, .. } = serving();
    let pending = slot.begin(None).unwrap();
    slot.begin_freeze(ticket(1), EPOCH, LIFE);
    slot.give_up(ticket(1));
    assert!(slot.take_answer(ticket(1)).expect("it was given up").is_err());
    let appended = pending.append(&records(1));
    assert!(slot.finish(pending, appended).is_ok());
}

/// The answer of one freeze does not displace that of another which nobody has taken yet.
#[test]
fn answers_of_two_freezes_are_kept_apart() {
    let World { slot, .. } = serving();
    slot.begin_freeze(ticket(1), EPOCH, LIFE);
    slot.begin_freeze(ticket(2), EPOCH, LIFE);
    assert!(slot.take_answer(ticket(2)).expect("refused at once").is_err());
    assert!(slot.take_answer(ticket(1)).expect("it was first").is_ok());
}

#[test]
fn a_log_is_not_let_go_within_an_append() {
    let World { slot, .. } = serving();
    let pending = slot.begin(None).unwrap();
    assert_eq!(slot.try_detach().err(), Some(AppendUnderWay));
    let appended = pending.append(&records(1));
    slot.finish(pending, appended).unwrap();
    assert!(slot.try_detach().unwrap().is_some());
    assert!(matches!(slot.begin(None), Err(SlotError::NotOpen)));
}

/// H17: an append that failed is not acknowledged, and says so with its own error.
#[test]
fn a_failed_append_is_finished_with_its_error() {
    let World { disk, slot } = serving();
    disk.fail(Step::Sync, 0);
    let pending = slot.begin(None).unwrap();
    let appended = pending.append(&records(1));
    assert!(matches!(slot.finish(pending, appended), Err(SlotError::Log(LogError::Disk(_)))));
    assert_eq!(slot.log().unwrap().bounds().hwm, Offset(0));
}

/// Field fault 6: nothing is removed from under a freeze.
#[test]
fn retention_waits_for_the_end_of_a_freeze() {
    let World { slot, .. } = serving();
    slot.commit(&records(3), None).unwrap();
    let keep = Retention { bytes_max: None, age_ms_max: Some(0) };
    slot.begin_freeze(ticket(1), EPOCH, LIFE);
    let capture = slot.take_answer(ticket(1)).expect("nothing is under way").unwrap();
    assert_eq!(slot.retain(&keep, 1_000).unwrap(), None);
    assert_eq!((slot.serving(), slot.standing().1), (Some(EPOCH), true));
    slot.thaw(capture.token);
    let retained = slot.retain(&keep, 1_000).unwrap().expect("the freeze is over");
    assert_eq!(retained.start, Offset(3));
    slot.stand(Standing::Closed);
    assert_eq!(slot.retain(&keep, 1_000).unwrap(), None);
    assert_eq!(slot.serving(), None);
}
