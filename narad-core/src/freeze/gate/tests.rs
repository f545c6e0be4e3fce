use super::*;
use crate::ids::{Offset, TopicId};
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

const LIFE: Incarnation = Incarnation(4);
const EPOCH: Epoch = Epoch(2);
const PARTITION: PartitionId = PartitionId { topic: TopicId(7), index: 1 };

fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

/// Registered, and leased until the tenth second.
fn authority() -> Authority {
    Authority { registered: Some(LIFE), lease_until: at(10) }
}

fn serving(in_play: bool) -> Standing {
    Standing::Serving { epoch: EPOCH, life: LIFE, in_play }
}

/// A gate with the log that it guards: what is appended, what is acknowledged, what was captured.
struct Source {
    gate: Gate<u32>,
    end: u64,
    hwm: u64,
    captured: Vec<(Token, u64, u64)>,
    refused: Vec<NotFrozen>,
}

impl Source {
    fn new(standing: Standing) -> Self {
        let gate = Gate::new(PARTITION);
        let mut this = Self { gate, end: 0, hwm: 0, captured: Vec::new(), refused: Vec::new() };
        this.command(at(0), Command::Stand(standing));
        this
    }

    fn command(&mut self, now: Instant, command: Command<u32>) {
        let mut out = Effects::default();
        self.gate.command(now, authority(), command, &mut out);
        self.obey(out);
    }

    fn freeze(&mut self, now: Instant, ticket: u32) {
        self.command(now, Command::Freeze { ticket, epoch: EPOCH, life: LIFE });
    }

    fn end(&mut self, now: Instant, admission: Admission, durable: bool) -> Option<Acknowledged> {
        let outcome = if durable {
            self.end += 1;
            Appended::Durable { end: Offset(self.end) }
        } else {
            Appended::Failed
        };
        let mut out = Effects::default();
        let acknowledged = self.gate.recheck(now, authority(), admission, outcome, &mut out).ok();
        self.hwm = acknowledged.map_or(self.hwm, |acknowledged| acknowledged.hwm.0);
        self.obey(out);
        acknowledged
    }

    fn obey(&mut self, mut out: Effects<Signal<u32>>) {
        for signal in out.drain() {
            match signal {
                Signal::Frozen { token, .. } => self.captured.push((token, self.hwm, self.end)),
                Signal::NotFrozen { why, .. } => self.refused.push(why),
            }
        }
    }
}

fn token(counter: u64) -> Token {
    Token { epoch: EPOCH, no: FreezeNo { incarnation: LIFE, counter } }
}

/// Covers H7, S9, R18, R35, R38, `case_021` and field fault 2, by the very interleaving of H7: a
/// commit passes the check, the freeze arrives, and only then is the record appended. The freeze
/// waits, and the record is inside the capture, acknowledged.
#[test]
fn case_021_no_append_slips_between_the_check_and_the_capture() {
    let mut source = Source::new(serving(true));
    let admission = source.gate.admit(at(0), authority(), Some(EPOCH)).expect("open");
    source.freeze(at(1), 1);
    assert!(source.captured.is_empty(), "the append is under way");
    assert_eq!(source.gate.admit(at(1), authority(), Some(EPOCH)), Err(Refused::Frozen));

    let acknowledged = source.end(at(2), admission, true).expect("nothing forbids it");
    assert_eq!(acknowledged, Acknowledged { epoch: EPOCH, hwm: Offset(1) });
    assert_eq!(source.captured, [(token(1), 1, 1)], "captured behind it, at once");
    assert_eq!(source.gate.admit(at(3), authority(), Some(EPOCH)), Err(Refused::Frozen));
    assert_eq!(source.gate.admit(at(9), authority(), None), Err(Refused::Frozen));

    source.command(at(9), Command::Thaw { token: token(1) });
    assert!(source.gate.admit(at(9), authority(), Some(EPOCH)).is_ok());
}

/// Covers R41, S4 and case C43: a record that failed, or that is durable but may no longer be
/// acknowledged, moves no watermark; the capture shows it hidden or not at all.
#[test]
fn what_is_not_acknowledged_stays_behind_the_watermark() {
    let mut source = Source::new(serving(true));
    let failed = source.gate.admit(at(0), authority(), None).expect("open");
    assert_eq!(source.end(at(0), failed, false), None);
    let late = source.gate.admit(at(9), authority(), None).expect("leased");
    source.freeze(at(9), 1);
    assert_eq!(source.end(at(10), late, true), None, "the lease ended under the append (H9)");
    assert_eq!(source.captured, [(token(1), 0, 1)], "one hidden record");
}

/// Covers field fault 4: one stuck append keeps nobody waiting for a freeze; what was refused
/// meanwhile is admitted again, and the append itself may still be acknowledged.
#[test]
fn a_stuck_append_ends_the_freeze_and_not_the_other_way_round() {
    let mut source = Source::new(serving(false));
    let stuck = source.gate.admit(at(0), authority(), None).expect("open");
    source.freeze(at(0), 1);
    source.command(at(5), Command::GiveUp { ticket: 2 });
    assert!(source.gate.is_frozen(), "another freeze was meant");
    source.command(at(5), Command::GiveUp { ticket: 1 });
    assert_eq!(source.refused, [NotFrozen::AppendStuck]);
    assert!(!source.gate.is_frozen() && source.gate.may_mutate());
    assert_eq!(source.gate.admit(at(5), authority(), None), Err(Refused::AppendUnderWay));
    assert!(source.end(at(60), stuck, true).is_some());
    assert!(source.captured.is_empty(), "no token exists");

    source.freeze(at(61), 3);
    source.command(at(61), Command::GiveUp { ticket: 3 });
    assert!(source.gate.is_frozen(), "too late to give up: somebody may have been told");
}

/// Covers H6, H32, `case_027` and `case_030`: a freeze does not outlive its epoch or its life, and
/// a request of an earlier life freezes nothing.
#[test]
fn case_030_a_freeze_is_bound_to_its_epoch_and_life() {
    let later_life = Standing::Serving { epoch: EPOCH, life: LIFE.next(), in_play: true };
    let later_epoch = Standing::Serving { epoch: EPOCH.next(), life: LIFE, in_play: true };
    let none = Standing::Reading { epoch: EPOCH };
    for standing in [later_life, later_epoch, none, Standing::Closed] {
        let mut source = Source::new(serving(true));
        source.freeze(at(0), 1);
        assert!(source.gate.is_frozen());
        source.command(at(0), Command::Stand(serving(false)));
        assert!(source.gate.is_frozen(), "in play or not, it is the same reign");
        source.command(at(0), Command::Stand(standing));
        assert!(!source.gate.is_frozen());
        source.freeze(at(0), 2);
        assert_eq!(source.refused, [NotFrozen::NotServing], "{standing:?}");
    }
}

/// Covers case F15 and H21: a freeze that waits is answered when the gate stands anew, and so is
/// one that finds another.
#[test]
fn every_freeze_is_answered_once() {
    let mut source = Source::new(serving(true));
    let admission = source.gate.admit(at(0), authority(), None).expect("open");
    source.freeze(at(0), 1);
    source.freeze(at(0), 2);
    assert_eq!(source.refused, [NotFrozen::Frozen]);
    source.command(at(0), Command::Stand(Standing::Closed));
    assert_eq!(source.refused, [NotFrozen::Frozen, NotFrozen::NotServing]);
    assert_eq!(source.end(at(1), admission, true), None, "the reign ended under the append (H8)");
    assert!(source.captured.is_empty());
}

/// Covers H8 and S2: an append that began in a reign, or before an interruption of it, is not
/// acknowledged in the next.
#[test]
fn an_append_is_acknowledged_in_its_own_stand_only() {
    let again = serving(true);
    let next = Standing::Serving { epoch: EPOCH.next(), life: LIFE, in_play: true };
    for (then, why) in
        [(again, Refused::NotServing), (next, Refused::OtherEpoch { current: EPOCH.next() })]
    {
        let mut source = Source::new(serving(true));
        let admission = source.gate.admit(at(0), authority(), None).expect("open");
        source.command(at(0), Command::Stand(Standing::Closed));
        source.command(at(0), Command::Stand(then));
        let durable = Appended::Durable { end: Offset(1) };
        let mut out = Effects::default();
        let result = source.gate.recheck(at(1), authority(), admission, durable, &mut out);
        assert_eq!(result, Err(why));
    }
}

/// Covers H9, H30, H34, R8 and field faults 9 and 10: who may commit, reserve and acknowledge. The
/// lease counts in play only and ends on the instant; an authority of another life is none.
#[test]
fn only_a_registered_and_where_needed_leased_owner_commits() {
    let none = Authority::NONE;
    let unleased = Authority { registered: Some(LIFE), ..none };
    let other_life = Authority { registered: Some(Incarnation(3)), lease_until: at(10) };
    let reading = Standing::Reading { epoch: EPOCH };
    for (standing, authority, now, commits) in [
        (serving(true), authority(), at(9), Ok(())),
        (serving(true), authority(), at(10), Err(Refused::NoLease)),
        (serving(true), unleased, at(0), Err(Refused::NoLease)),
        (serving(false), unleased, at(99), Ok(())),
        (serving(false), none, at(0), Err(Refused::NotServing)),
        (serving(true), other_life, at(0), Err(Refused::NotServing)),
        (reading, authority(), at(0), Err(Refused::NotServing)),
        (Standing::Closed, authority(), at(0), Err(Refused::NotServing)),
    ] {
        let mut gate = Source::new(standing).gate;
        assert_eq!(gate.may_reserve(now, authority), commits.is_ok());
        assert_eq!(gate.may_ack(now, authority, None), commits);
        let freeze = Command::Freeze { ticket: 1, epoch: EPOCH, life: LIFE };
        let mut out = Effects::default();
        gate.clone().command(now, authority, freeze, &mut out);
        let frozen = matches!(out.as_slice(), [Signal::Frozen { .. }]);
        assert_eq!(frozen, commits.is_ok(), "a node that may not commit must not freeze");
        let admitted = gate.admit(now, authority, None).map(|_| ());
        assert_eq!(admitted, commits, "{standing:?} {authority:?}");
    }
}

/// Covers case R156, H8 and H44: a sender or a consumer that believes in another epoch is told, whichever it is.
#[test]
fn a_claimed_epoch_must_be_the_logs() {
    let mut gate = Source::new(serving(false)).gate;
    for claimed in [Epoch(1), Epoch(3)] {
        let refused = gate.admit(at(0), authority(), Some(claimed));
        assert_eq!(refused, Err(Refused::OtherEpoch { current: EPOCH }));
        let refused = gate.may_ack(at(0), authority(), Some(claimed));
        assert_eq!(refused, Err(Refused::OtherEpoch { current: EPOCH }));
    }
    assert_eq!(gate.may_ack(at(0), authority(), Some(EPOCH)), Ok(()));
    assert!(gate.admit(at(0), authority(), Some(EPOCH)).is_ok());
}

/// Covers R48, `case_031` and field fault 6: reads, reservations and acknowledgements go on through
/// the freeze; retention and truncation do not.
#[test]
fn a_freeze_stops_every_change_and_no_reader() {
    let mut source = Source::new(serving(true));
    assert!(source.gate.may_mutate());
    source.freeze(at(0), 1);
    let gate = &source.gate;
    assert!(gate.may_read() && gate.may_reserve(at(0), authority()));
    assert_eq!(gate.may_ack(at(0), authority(), None), Ok(()));
    assert!(!gate.may_mutate());
    assert!(gate.may_read(), "plain reads need no lease");
    assert!(!gate.may_reserve(at(10), authority()), "reservations in play do");
}

/// Covers invariant 1: a second use of an admission is a defect of the driver and stops it.
#[test]
#[should_panic(expected = "an admission comes back once")]
fn an_admission_is_used_once() {
    let mut source = Source::new(serving(true));
    let admission = source.gate.admit(at(0), authority(), None).expect("open");
    let copy = admission.clone();
    source.end(at(0), admission, true);
    source.end(at(0), copy, true);
}

proptest! {
    /// Covers S9, S16, H33 and R18 over random schedules: from a capture to its end nothing is
    /// appended and no watermark moves; tokens only grow; every freeze gets one answer.
    #[test]
    fn nothing_changes_between_a_capture_and_its_end(
        steps in proptest::collection::vec((0_u8..8, 0_u64..3), 0..80),
    ) {
        let mut source = Source::new(serving(true));
        let (mut now, mut asked, mut flight) = (0, 0_u32, None);
        let (mut captures, mut held) = (0, None);
        for (step, pass) in steps {
            now = (now + pass).min(11);
            match step {
                0..=2 => flight = source.gate.admit(at(now), authority(), None).ok().or(flight),
                3 | 4 => {
                    if let Some(admission) = flight.take() {
                        source.end(at(now), admission, step == 3);
                    }
                }
                5 => {
                    asked += 1;
                    source.freeze(at(now), asked);
                }
                6 => source.command(at(now), Command::GiveUp { ticket: asked }),
                _ => if let Some((token, _, _)) = held.take() {
                    source.command(at(now), Command::Thaw { token });
                },
            }
            if source.captured.len() > captures {
                captures += 1;
                held = source.captured.last().copied();
            }
            if let Some((_, hwm, end)) = held {
                prop_assert_eq!((hwm, end), (source.hwm, source.end));
                prop_assert!(flight.is_none() && source.gate.is_frozen());
            }
            prop_assert!(source.captured.is_sorted_by(|one, next| one.0.no < next.0.no));
        }
        if let Some(admission) = flight {
            source.end(at(now), admission, true);
        }
        prop_assert_eq!(source.captured.len() + source.refused.len(), asked as usize);
    }
}
