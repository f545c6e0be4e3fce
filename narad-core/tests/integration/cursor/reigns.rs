//! Many reigns: flips, promotions that cut the log, restarts, owners that have not heard of it,
//! acknowledgements that come anywhere and late. Every record has an identity of its own, so that
//! an offset which means another one by now is noticed.

use std::collections::BTreeSet;

use narad_core::cursor::{Answer, Cursor, Limits, Lineage, Refused};
use narad_core::ids::{Epoch, Offset};
use narad_core::partition::Position;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Append(u64),
    Reserve(usize),
    /// One that was handed out, at the present owner or at one before it.
    Ack(usize, Option<usize>),
    Nack(usize),
    Pass(u64),
    Save,
    Restart,
    /// The destination takes a listing, or the position that goes with it, in any order (`case_065`):
    /// what a promotion would go on from.
    List,
    ListPosition,
    Freeze,
    Thaw,
    /// A flip under the freeze, or a promotion that leaves so many records out.
    Flip,
    Promote(u64),
    /// An owner before the present one hears that it is none; what it knows goes to the present
    /// one.
    Learn(usize),
    Forward(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let anywhere = || prop_oneof![2 => Just(None), 1 => any::<usize>().prop_map(Some)];
    prop_oneof![
        4 => (0..12u64).prop_map(Step::Append),
        6 => (0..12usize).prop_map(Step::Reserve),
        14 => (any::<usize>(), anywhere()).prop_map(|(which, place)| Step::Ack(which, place)),
        2 => any::<usize>().prop_map(Step::Nack),
        2 => (0..40u64).prop_map(Step::Pass),
        1 => Just(Step::Save),
        1 => Just(Step::Restart),
        2 => Just(Step::List),
        2 => Just(Step::ListPosition),
        2 => Just(Step::Freeze),
        1 => Just(Step::Thaw),
        3 => Just(Step::Flip),
        1 => (0..8u64).prop_map(Step::Promote),
        2 => any::<usize>().prop_map(Step::Learn),
        3 => any::<usize>().prop_map(Step::Forward),
    ]
}

/// One node with its log.
#[derive(Clone)]
struct Owner {
    cursor: Cursor,
    /// The record at each offset.
    log: Vec<u64>,
    saved: Position,
    captured: Option<Position>,
    listed: (Position, usize),
    /// Records whose acknowledgement it has answered.
    answered: BTreeSet<(Offset, u64)>,
    /// What the next reign knows of the freeze, if there is one.
    ended: Option<bool>,
}

struct World {
    now: Instant,
    starts: Vec<u64>,
    owner: Owner,
    past: Vec<Owner>,
    records: u64,
    seen: Vec<(Handle, u64)>,
    /// Records that some consumer has finished.
    finished: BTreeSet<u64>,
}

impl World {
    fn new() -> Self {
        let listed = (Position::default(), 0);
        let owner = Owner {
            cursor: fresh(0),
            log: Vec::new(),
            saved: Position::default(),
            captured: None,
            listed,
            answered: BTreeSet::new(),
            ended: None,
        };
        Self {
            now: at(0),
            starts: vec![0],
            owner,
            past: Vec::new(),
            records: 0,
            seen: Vec::new(),
            finished: BTreeSet::new(),
        }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            // Nothing is appended under a freeze.
            Step::Append(records) if self.owner.captured.is_none() => {
                self.owner.log.extend(self.records..self.records + records);
                self.records += records;
                self.owner.cursor.advance(Offset(self.owner.log.len() as u64));
            }
            Step::Reserve(max) => {
                self.reserve(max)?;
            }
            Step::Ack(which, place) => self.ack(which, place)?,
            Step::Nack(which) => {
                if let Some((handle, _)) = self.one(which) {
                    let _ = self.owner.cursor.nack(self.now, handle, Duration::ZERO);
                }
            }
            Step::Pass(seconds) => self.now = self.now.after(Duration::from_secs(seconds)),
            Step::Save => {
                if let Some(position) = self.owner.cursor.to_save() {
                    self.owner.saved = position;
                }
            }
            Step::Restart => self.restart(),
            Step::List => self.owner.listed.1 = self.owner.log.len(),
            Step::ListPosition => self.owner.listed.0 = self.owner.cursor.position().clone(),
            Step::Freeze => self.owner.captured = Some(self.owner.cursor.capture()),
            Step::Thaw => {
                self.owner.captured = None;
                self.owner.cursor.thaw();
            }
            Step::Flip => {
                if let Some(position) = self.owner.captured.clone() {
                    let end = self.owner.log.len();
                    self.crown(position, end, end, false);
                }
            }
            Step::Promote(less) => {
                let (position, hwm) = self.owner.listed.clone();
                let less = usize::try_from(less).unwrap();
                let end = self.owner.log.len().saturating_sub(less).max(hwm);
                self.crown(position, end, hwm, true);
            }
            Step::Learn(which) => {
                if let Some(past) = pick(&mut self.past, which) {
                    past.cursor.moved(past.ended.unwrap());
                }
            }
            Step::Forward(which) => self.forward(which)?,
            Step::Append(_) => {}
        }
        self.check()
    }

    fn reserve(&mut self, max: usize) -> Result<bool, TestCaseError> {
        let Ok(reserved) = self.owner.cursor.reserve(self.now, max, VISIBILITY) else {
            return Ok(false);
        };
        for handle in reserved.handles() {
            let id = self.owner.log[usize::try_from(handle.offset.0).unwrap()];
            let was_answered = self.owner.answered.contains(&(handle.offset, id));
            prop_assert!(!was_answered, "{handle:?} is acknowledged");
            self.seen.push((handle, id));
        }
        Ok(!reserved.is_empty())
    }

    fn one(&self, which: usize) -> Option<(Handle, u64)> {
        let back = which.checked_rem(self.seen.len().min(60))?;
        Some(self.seen[self.seen.len() - 1 - back])
    }

    /// A consumer has finished, and says so, somewhere.
    fn ack(&mut self, which: usize, place: Option<usize>) -> Result<(), TestCaseError> {
        let Some((handle, id)) = self.one(which) else { return Ok(()) };
        self.finished.insert(id);
        let past = place.and_then(|place| pick(&mut self.past, place));
        let at = past.unwrap_or(&mut self.owner);
        let place = usize::try_from(handle.offset.0).unwrap();
        let is_same = at.log.get(place) == Some(&id);
        match at.cursor.ack(self.now, handle) {
            Ok(Answer::Acked | Answer::AlreadyAcked) => {
                prop_assert!(is_same, "{handle:?} was another record");
                at.answered.insert((handle.offset, id));
            }
            Err(Refused::OtherEpoch { .. }) => prop_assert!(!is_same, "{handle:?} is the record"),
            // What a promotion has copied beyond the watermark is not exposed yet.
            Err(Refused::OutOfRange { .. } | Refused::Moved | Refused::Superseded { .. }) => {}
            Err(refused) => prop_assert!(false, "{handle:?}: {refused}"),
        }
        Ok(())
    }

    fn restart(&mut self) {
        let lineage = Lineage::of(&row(&self.starts));
        let of = lineage.epoch();
        let hwm = Offset(self.owner.log.len() as u64);
        let found = Found { position: self.owner.saved.clone(), of, start: Offset(0), hwm };
        self.owner.cursor = Cursor::resume(Limits::default(), lineage, found);
        self.owner.captured = None;
        self.owner.answered.clear();
    }

    /// Another node reigns from `end` on; what it has visible ends at `hwm`.
    fn crown(&mut self, position: Position, end: usize, hwm: usize, forced: bool) {
        let of = Epoch(self.starts.len() as u64);
        self.starts.push(end as u64);
        let lineage = Lineage::of(&row(&self.starts));
        let hwm = Offset(hwm as u64);
        // Nobody has cut it before: the cursor must.
        let found = Found { position, of, start: Offset(0), hwm };
        let cursor = Cursor::resume(Limits::default(), lineage, found);
        let position = cursor.position().clone();
        let next = Owner {
            cursor,
            log: self.owner.log[..end].to_vec(),
            saved: position.clone(),
            captured: None,
            listed: (position, end),
            answered: BTreeSet::new(),
            ended: None,
        };
        let mut old = std::mem::replace(&mut self.owner, next);
        old.ended = Some(forced);
        self.past.push(old);
    }

    fn forward(&mut self, which: usize) -> Result<(), TestCaseError> {
        let owner = &mut self.owner;
        let Some(past) = pick(&mut self.past, which) else { return Ok(()) };
        past.cursor.moved(past.ended.unwrap());
        let acks = past.cursor.forwardable();
        let taken = owner.cursor.take(&acks).unwrap();
        let again = owner.cursor.take(&acks).unwrap();
        prop_assert_eq!(again.counted, 0);
        if !taken.dropped {
            let position = owner.cursor.position();
            for (offset, id) in &past.answered {
                let place = usize::try_from(offset.0).unwrap();
                let is_acked = position.committed.is_some_and(|committed| *offset < committed)
                    || position.acked_ahead.contains(offset);
                prop_assert!(owner.log.get(place) == Some(id) && is_acked, "{offset:?} is lost");
                owner.answered.insert((*offset, *id));
            }
        }
        Ok(())
    }

    /// S7: whatever counts as acknowledged, some consumer has finished.
    fn check(&self) -> Result<(), TestCaseError> {
        for it in self.past.iter().chain([&self.owner]) {
            let Position { committed, acked_ahead } = it.cursor.position();
            let below = (0..committed.unwrap_or_default().0).map(Offset);
            for offset in below.chain(acked_ahead.iter().copied()) {
                let id = it.log[usize::try_from(offset.0).unwrap()];
                prop_assert!(self.finished.contains(&id), "nobody finished {offset:?}");
            }
        }
        Ok(())
    }

    /// The owner exposes all it has, and one consumer goes on acknowledging.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        self.take(Step::Thaw)?;
        self.owner.cursor.advance(Offset(self.owner.log.len() as u64));
        while self.owner.cursor.backlog() > 0 {
            let before = self.seen.len();
            if !self.reserve(7)? {
                let next = self.owner.cursor.deadline();
                prop_assert!(next.is_some(), "nothing is free and nothing will be");
                self.now = self.now.max(next.unwrap().at);
                prop_assert!(self.owner.cursor.wake(self.now));
            }
            for (handle, id) in self.seen[before..].iter().copied() {
                self.finished.insert(id);
                prop_assert_eq!(self.owner.cursor.ack(self.now, handle), Ok(Answer::Acked));
            }
        }
        self.check()?;
        prop_assert!(self.owner.log.iter().all(|id| self.finished.contains(id)));
        Ok(())
    }
}

fn pick(owners: &mut [Owner], which: usize) -> Option<&mut Owner> {
    let at = which.checked_rem(owners.len())?;
    owners.get_mut(at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// S7, S11, R39, R50 to R53, H15, H28, H44, `case_068`, `case_069`: along any lineage, what counts
    /// as acknowledged was finished by somebody, an acknowledgement hits the record that was
    /// meant or none, what is forwarded is not lost, and every record is delivered in the end.
    #[test]
    fn positions_follow_the_lineage(steps in proptest::collection::vec(step(), 1..150)) {
        let mut world = World::new();
        for step in steps {
            world.take(step)?;
        }
        world.finish()?;
    }
}
