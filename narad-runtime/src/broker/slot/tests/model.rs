//! A slot against a naive model of its consumers, on any history.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::cursor::{Handle, Reserved};
use narad_core::partition::Position;
use proptest::prelude::*;

use super::consumers::{FakeClock, lineage};
use super::*;

/// What happens.
#[derive(Clone, Debug)]
enum Act {
    Produce(usize),
    Reserve {
        max: usize,
        seconds: u64,
    },
    /// With the n-th of the handles that were ever given.
    Ack(usize),
    Nack {
        handle: usize,
        seconds: u64,
    },
    Extend {
        handle: usize,
        seconds: u64,
    },
    GiveBack,
    Pass(u64),
    Freeze,
    Thaw,
    Store,
    /// The process ends and comes again; what the disk has not, is gone.
    Restart,
}

fn any_act() -> impl Strategy<Value = Act> {
    let seconds = 0..6_u64;
    prop_oneof![
        2 => (1..4_usize).prop_map(Act::Produce),
        4 => (1..5_usize, seconds.clone())
            .prop_map(|(max, seconds)| Act::Reserve { max, seconds: seconds + 1 }),
        5 => any::<usize>().prop_map(Act::Ack),
        1 => (any::<usize>(), seconds.clone())
            .prop_map(|(handle, seconds)| Act::Nack { handle, seconds }),
        1 => (any::<usize>(), seconds.clone())
            .prop_map(|(handle, seconds)| Act::Extend { handle, seconds }),
        1 => Just(Act::GiveBack),
        2 => seconds.prop_map(Act::Pass),
        1 => Just(Act::Freeze),
        1 => Just(Act::Thaw),
        1 => Just(Act::Store),
        1 => Just(Act::Restart),
    ]
}

/// One history, and what every consumer may rely on.
struct History {
    clock: Arc<FakeClock>,
    disk: MemDisk,
    slot: Slot,
    hwm: u64,
    acked: BTreeSet<u64>,
    /// What was acknowledged when it was stored last.
    stored: BTreeSet<u64>,
    /// Who has what until when.
    held: BTreeMap<u64, (Handle, Instant)>,
    handles: Vec<Handle>,
    last: Option<Reserved>,
    frozen: Option<Token>,
    freezes: u64,
}

impl History {
    fn new() -> Self {
        let (clock, disk) = (FakeClock::new(), MemDisk::new());
        SegmentLog::create(&disk, Path::new("log"), Offset(0)).unwrap();
        let slot = open(&clock, &disk);
        Self {
            clock,
            disk,
            slot,
            hwm: 0,
            acked: BTreeSet::new(),
            stored: BTreeSet::new(),
            held: BTreeMap::new(),
            handles: Vec::new(),
            last: None,
            frozen: None,
            freezes: 0,
        }
    }

    fn handle(&self, n: usize) -> Option<Handle> {
        self.handles.get(n.checked_rem(self.handles.len())?).copied()
    }

    fn holds(&self, handle: Handle) -> bool {
        let held = self.held.get(&handle.offset.0);
        held.is_some_and(|(by, until)| *by == handle && *until > self.clock.now())
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Produce(count) => {
                let done = self.slot.commit(&records(count), None);
                assert_eq!(done.is_ok(), self.frozen.is_none(), "{done:?}");
                self.hwm = done.map_or(self.hwm, |done| done.end.0);
            }
            Act::Reserve { max, seconds } => self.reserve(max, Duration::from_secs(seconds)),
            Act::Ack(n) => {
                let Some(handle) = self.handle(n) else { return };
                let by_other = self
                    .held
                    .get(&handle.offset.0)
                    .is_some_and(|(by, until)| *by != handle && *until > self.clock.now());
                let taken = self.slot.ack(handle);
                let was_acked = self.acked.contains(&handle.offset.0);
                assert_eq!(taken.is_ok(), was_acked || !by_other, "{handle:?}: {taken:?}");
                if taken.is_ok() {
                    self.acked.insert(handle.offset.0);
                    self.held.remove(&handle.offset.0);
                }
            }
            Act::Nack { handle, seconds } => {
                let Some(handle) = self.handle(handle) else { return };
                let done = self.slot.nack(handle, Duration::from_secs(seconds));
                assert_eq!(done.is_ok(), self.holds(handle), "{done:?}");
                if done.is_ok() {
                    self.held.remove(&handle.offset.0);
                }
            }
            Act::Extend { handle, seconds } => {
                let Some(handle) = self.handle(handle) else { return };
                let time = Duration::from_secs(seconds);
                let done = self.slot.extend(handle, time);
                assert_eq!(done.is_ok(), self.holds(handle), "{done:?}");
                if done.is_ok() {
                    self.held.insert(handle.offset.0, (handle, self.clock.now().after(time)));
                }
            }
            Act::GiveBack => {
                let Some(reserved) = self.last.take() else { return };
                self.slot.give_back(&reserved, Offset(0));
                let given: BTreeSet<Handle> = reserved.handles().collect();
                self.held.retain(|_, (handle, _)| !given.contains(handle));
            }
            Act::Pass(seconds) => self.clock.pass(Duration::from_secs(seconds)),
            Act::Freeze => {
                self.freezes += 1;
                self.slot.begin_freeze(ticket(self.freezes), EPOCH, LIFE);
                let answer = self.slot.take_answer(ticket(self.freezes)).expect("at once");
                if let Ok(capture) = answer {
                    check_position(&capture.position, &self.acked);
                    self.frozen = Some(capture.token);
                }
            }
            Act::Thaw => {
                if let Some(token) = self.frozen.take() {
                    self.slot.thaw(token);
                }
            }
            Act::Store => {
                self.slot.store_position().unwrap();
                self.stored.clone_from(&self.acked);
            }
            Act::Restart => {
                self.disk.crash(crate::disk::mem::Keep::Nothing);
                self.slot = open(&self.clock, &self.disk);
                self.acked.clone_from(&self.stored);
                self.held.clear();
                // Deliveries are counted anew, so an old handle looks like a new one.
                self.handles.clear();
                (self.last, self.frozen) = (None, None);
            }
        }
    }

    fn reserve(&mut self, max: usize, visibility: Duration) {
        let now = self.clock.now();
        let (log, reserved) = self.slot.reserve(max, visibility).unwrap();
        for handle in reserved.handles() {
            let offset = handle.offset.0;
            assert!(offset < self.hwm && !self.acked.contains(&offset), "{handle:?}");
            assert!(self.held.get(&offset).is_none_or(|(_, until)| *until <= now), "{handle:?}");
            assert_eq!(log.read(handle.offset, 1).unwrap()[0].0, handle.offset);
            self.held.insert(offset, (handle, now.after(visibility)));
            self.handles.push(handle);
        }
        self.last = Some(reserved);
    }

    /// S11: once time has passed, everything that is not acknowledged is handed out, and nothing
    /// else is.
    fn finish(mut self) {
        check_position(&self.slot.position().unwrap(), &self.acked);
        let offsets = self.slot.offsets().unwrap();
        assert_eq!(offsets.backlog, self.hwm - self.acked.len() as u64);
        self.clock.pass(Duration::from_secs(10));
        self.held.clear();
        let (_, reserved) = self.slot.reserve(usize::MAX, Duration::from_secs(1)).unwrap();
        let left: BTreeSet<u64> = reserved.handles().map(|handle| handle.offset.0).collect();
        let expected: BTreeSet<u64> =
            (0..self.hwm).filter(|offset| !self.acked.contains(offset)).collect();
        assert_eq!(left, expected);
    }
}

fn check_position(position: &Position, acked: &BTreeSet<u64>) {
    let committed = position.committed.unwrap_or_default().0;
    let known: BTreeSet<u64> =
        (0..committed).chain(position.acked_ahead.iter().map(|one| one.0)).collect();
    assert_eq!(known, *acked);
}

fn open(clock: &Arc<FakeClock>, disk: &MemDisk) -> Slot {
    let log = SegmentLog::open(Arc::new(disk.clone()), Path::new("log"), LogLimits::default());
    let log = log.unwrap();
    log.expose_all(EPOCH).unwrap();
    let slot = Slot::new(PARTITION, Arc::clone(clock) as _);
    slot.attach(Arc::new(log));
    slot.resume(lineage(&[(1, 0)]));
    slot.stand(Standing::Serving { epoch: EPOCH, life: LIFE, in_play: true });
    slot
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// R48, R53, S7, S11.
    #[test]
    fn consumers_are_served_as_a_naive_model_says(
        acts in proptest::collection::vec(any_act(), 0..60),
    ) {
        let mut history = History::new();
        for act in acts {
            history.act(act);
        }
        history.finish();
    }
}
