//! Retention, limits and watches.

use super::*;

/// The frontier passes what retention removes, and nobody is handed it.
#[test]
fn retention_takes_records_from_consumers() {
    let owner = Owner::of(3);
    let held = owner.reserve(1);
    let keep = Retention { bytes_max: None, age_ms_max: Some(0) };
    owner.slot.retain(&keep, 1_000).unwrap().expect("not frozen");
    owner.produce(1);
    assert_eq!(owner.slot.ack(held[0]).unwrap(), Answer::AlreadyAcked);
    assert_eq!(owner.offsets(9), [3]);
    assert_eq!(owner.slot.offsets().unwrap().backlog, 1);
}

fn polled(watch: &mut Watch) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    watch.poll_change(&mut context) == Poll::Ready(())
}

/// R49: those who wait are told of everything that may matter to them, once.
#[test]
fn whoever_watches_is_told_of_changes() {
    let owner = Owner::of(1);
    let mut watch = owner.slot.watch();
    let mut told = |what: &str, change: &dyn Fn(&Owner)| {
        assert!(!polled(&mut watch), "before: {what}");
        change(&owner);
        assert!(polled(&mut watch), "{what}");
    };
    told("a record is visible", &|owner| owner.produce(1));
    let (_, reserved) = owner.slot.reserve(1, SECOND).unwrap();
    let handle = |reserved: &Reserved| reserved.handles().next().unwrap();
    told("a record is handed back", &|owner| {
        owner.slot.nack(handle(&reserved), Duration::ZERO).unwrap();
    });
    let (_, reserved) = owner.slot.reserve(1, SECOND).unwrap();
    told("a record is kept for less long", &|owner| {
        owner.slot.extend(handle(&reserved), SECOND / 2).unwrap();
    });
    told("a record is handed back for sooner", &|owner| {
        owner.slot.nack(handle(&reserved), SECOND / 4).unwrap();
    });
    owner.clock.pass(SECOND / 4);
    let (_, reserved) = owner.slot.reserve(1, SECOND).unwrap();
    told("a record is given back", &|owner| owner.slot.give_back(&reserved, Offset(0)));
    let (_, _reserved) = owner.slot.reserve(1, SECOND).unwrap();
    told("a reservation has run out", &|owner| {
        owner.clock.pass(SECOND);
        assert_eq!(owner.slot.free_in(), Some(Duration::ZERO));
        owner.slot.wake_consumers();
    });
    told("the gate is shut", &|owner| owner.slot.stand(Standing::Closed));
    told("the partition is another's", &|owner| drop(owner.slot.hand_over(false)));
    told("it is served again", &|owner| owner.slot.resume(first_reign()));
}

/// Whoever was refused because of the limits is told when somebody makes room.
#[test]
fn the_limits_hold_back_and_let_go() {
    let limits = Limits { in_flight_max: 2, ..Limits::default() };
    let owner = Owner::with(4, limits);
    let held = owner.reserve(9);
    assert_eq!(held.len(), 2);
    let mut watch = owner.slot.watch();
    owner.slot.ack(held[0]).unwrap();
    assert!(!polled(&mut watch), "nobody was refused");
    assert_eq!(owner.offsets(9), [2]);
    let refused = owner.slot.reserve(9, SECOND).map(drop);
    assert_eq!(denied(refused), Denied::TooManyInFlight { max: 2 });
    assert!(!polled(&mut watch));
    owner.slot.ack(held[1]).unwrap();
    assert!(polled(&mut watch));
    assert_eq!(owner.offsets(9), [3]);
}

/// At most 1,024 records are acknowledged ahead; whoever is refused is told which record is waited
/// for.
#[test]
fn too_much_acknowledged_ahead_names_the_record_in_the_way() {
    let count = Position::ACKED_AHEAD_MAX + 2;
    let owner = Owner::of(count);
    let held = owner.reserve(count);
    assert_eq!(held.len(), 1024, "in flight");
    for handle in &held[1..] {
        owner.slot.ack(*handle).unwrap();
    }
    let more = owner.reserve(9);
    owner.slot.ack(more[0]).unwrap();
    let full = owner.slot.reserve(1, SECOND).map(drop);
    assert_eq!(denied(full), Denied::TooFarAhead { frontier: Offset(0) });
    let ahead = owner.slot.acknowledge(EPOCH, Offset(1025));
    assert_eq!(denied(ahead), Denied::TooFarAhead { frontier: Offset(0) });
    owner.slot.ack(held[0]).unwrap();
    assert_eq!(owner.slot.position().unwrap(), position(1025, &[]));
}

/// Those who have given up waiting take no room.
#[test]
fn a_dropped_watch_is_forgotten() {
    let owner = Owner::of(0);
    let mut watches: Vec<Watch> = (0..3).map(|_| owner.slot.watch()).collect();
    assert!(watches.iter_mut().all(|watch| !polled(watch)));
    assert_eq!(owner.slot.lock().watchers.len(), 3);
    watches.truncate(1);
    assert_eq!(owner.slot.lock().watchers.len(), 1);
}
