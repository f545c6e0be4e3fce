//! One reign: every answer is the naive queue's, and everything is delivered in the end.

use narad_core::cursor::{Answer, Cursor, Limits, Lineage};
use narad_core::ids::Offset;
use narad_core::partition::Position;
use proptest::prelude::*;

use super::naive::{Entry, Naive};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve {
        max: usize,
        seconds: u64,
    },
    /// Of what was handed out, this one.
    Ack(usize),
    Nack(usize, u64),
    Extend(usize, u64),
    Acknowledge(u64),
    /// Every second record from here on.
    Scatter(u64, u64),
    UpTo(u64),
    Append(u64),
    Retain(u64),
    Pass(u64),
    /// The log is closed and opened again; the position was saved.
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let near = || prop_oneof![8 => 0..40u64, 1 => 0..1300u64];
    prop_oneof![
        6 => (0..40usize, 0..20u64).prop_map(|(max, seconds)| Step::Reserve { max, seconds }),
        1 => Just(Step::Reserve { max: 5000, seconds: 30 }),
        8 => any::<usize>().prop_map(Step::Ack),
        3 => (any::<usize>(), 0..20u64).prop_map(|(which, seconds)| Step::Nack(which, seconds)),
        3 => (any::<usize>(), 0..20u64).prop_map(|(which, seconds)| Step::Extend(which, seconds)),
        2 => near().prop_map(Step::Acknowledge),
        1 => (near(), 0..60u64).prop_map(|(from, count)| Step::Scatter(from, count)),
        1 => near().prop_map(Step::UpTo),
        3 => near().prop_map(Step::Append),
        1 => near().prop_map(Step::Retain),
        5 => (0..15u64).prop_map(Step::Pass),
        1 => Just(Step::Reopen),
    ]
}

struct Both {
    cursor: Cursor,
    naive: Naive,
    now: Instant,
    seen: Vec<Handle>,
}

impl Both {
    fn new(in_flight_max: usize) -> Self {
        let limits = Limits { in_flight_max, visibility_max: Duration::from_secs(15) };
        let naive = Naive { limits, epoch: EPOCH, start: 0, entries: Vec::new() };
        Self { cursor: fresh_with(limits), naive, now: at(0), seen: Vec::new() }
    }

    fn one(&self, which: usize) -> Option<Handle> {
        // Mostly one of the last.
        let reach = if which.is_multiple_of(3) { self.seen.len() } else { 30.min(self.seen.len()) };
        let back = (which / 3).checked_rem(reach)?;
        Some(self.seen[self.seen.len() - 1 - back])
    }

    fn frontier_plus(&self, ahead: u64) -> Offset {
        Offset(self.naive.frontier() as u64 + ahead)
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.now;
        let seconds = Duration::from_secs;
        match step {
            Step::Reserve { max, seconds } => {
                self.reserve(max, Duration::from_secs(seconds))?;
            }
            Step::Ack(which) => {
                let Some(handle) = self.one(which) else { return Ok(()) };
                prop_assert_eq!(self.cursor.ack(now, handle), self.naive.ack(now, handle));
            }
            Step::Nack(which, delay) => {
                let Some(handle) = self.one(which) else { return Ok(()) };
                let naive = self.naive.hide(now, handle, seconds(delay), false);
                prop_assert_eq!(self.cursor.nack(now, handle, seconds(delay)), naive);
            }
            Step::Extend(which, by) => {
                let Some(handle) = self.one(which) else { return Ok(()) };
                let naive = self.naive.hide(now, handle, seconds(by), true);
                let until = now.after(seconds(by.min(15)));
                let extended = self.cursor.extend(now, handle, seconds(by));
                prop_assert_eq!(extended, naive.map(|()| until));
            }
            Step::Acknowledge(ahead) => {
                let offset = self.frontier_plus(ahead);
                let naive = self.naive.acknowledge(offset);
                prop_assert_eq!(self.cursor.acknowledge(EPOCH, offset), naive);
            }
            Step::Scatter(ahead, count) => {
                let from = self.frontier_plus(ahead).0;
                for offset in (from..from + count).step_by(2).map(Offset) {
                    let naive = self.naive.acknowledge(offset);
                    prop_assert_eq!(self.cursor.acknowledge(EPOCH, offset), naive);
                }
            }
            Step::UpTo(ahead) => {
                let end = self.frontier_plus(ahead);
                let naive = self.naive.acknowledge_up_to(end);
                prop_assert_eq!(self.cursor.acknowledge_up_to(EPOCH, end).map(|_| ()), naive);
            }
            Step::Append(records) => {
                let hwm = self.naive.entries.len() as u64 + records;
                self.naive.entries.resize(usize::try_from(hwm).unwrap(), Entry::default());
                self.cursor.advance(Offset(hwm));
            }
            Step::Retain(more) => {
                let start = (self.naive.start as u64 + more).min(self.naive.entries.len() as u64);
                self.naive.start = usize::try_from(start).unwrap();
                self.cursor.trim(Offset(start));
            }
            Step::Pass(by) => {
                self.now = now.after(seconds(by));
                self.cursor.wake(self.now);
                prop_assert!(self.cursor.deadline().is_none_or(|next| next.at > self.now));
            }
            Step::Reopen => self.reopen(),
        }
        self.compare()
    }

    fn reserve(&mut self, max: usize, visibility: Duration) -> Result<usize, TestCaseError> {
        let naive = self.naive.reserve(self.now, max, visibility);
        let reserved = self.cursor.reserve(self.now, max, visibility);
        let given = naive.as_ref().map_or(0, Vec::len);
        self.seen.extend(naive.iter().flatten());
        prop_assert_eq!(reserved.map(|reserved| handles(&reserved)), naive);
        Ok(given)
    }

    fn reopen(&mut self) {
        let position = self.cursor.position().clone();
        let start = Offset(self.naive.start as u64);
        let hwm = Offset(self.naive.entries.len() as u64);
        let found = Found { position, of: EPOCH, start, hwm };
        let limits = self.naive.limits;
        self.cursor = Cursor::resume(limits, Lineage::of(&row(&[0])), found);
        for entry in &mut self.naive.entries {
            *entry = Entry { is_acked: entry.is_acked, ..Entry::default() };
        }
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let (frontier, ahead) = self.naive.position();
        let position = self.cursor.position();
        let committed = position.committed.map_or(self.naive.start as u64, |at| at.0);
        prop_assert_eq!((committed, &position.acked_ahead), (frontier, &ahead));
        prop_assert!(ahead.len() <= Position::ACKED_AHEAD_MAX);
        prop_assert_eq!(self.cursor.in_flight(), self.naive.in_flight());
        prop_assert!(self.cursor.in_flight() <= self.naive.limits.in_flight_max);
        let backlog = self.naive.entries.len() as u64 - frontier - ahead.len() as u64;
        prop_assert_eq!(self.cursor.backlog(), backlog);
        Ok(())
    }

    /// A consumer that acknowledges what it gets, and waits for as long as the cursor says.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        while self.cursor.backlog() > 0 {
            let before = self.seen.len();
            if self.reserve(100, VISIBILITY)? == 0 {
                let next = self.cursor.deadline();
                prop_assert!(next.is_some(), "nothing is free and nothing will be");
                self.now = self.now.max(next.unwrap().at);
                prop_assert!(self.cursor.wake(self.now));
            }
            for handle in self.seen[before..].iter().copied() {
                prop_assert_eq!(self.cursor.ack(self.now, handle), Ok(Answer::Acked));
                prop_assert_eq!(self.naive.ack(self.now, handle), Ok(Answer::Acked));
            }
            self.compare()?;
        }
        Ok(())
    }
}

fn fresh_with(limits: Limits) -> Cursor {
    Cursor::resume(limits, Lineage::of(&row(&[0])), found(1, Position::default(), 0))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// S11, R53: whatever consumers do, each answer is the naive queue's: nothing that is
    /// acknowledged comes again, limits hold, and who goes on acknowledging gets everything.
    #[test]
    fn every_answer_is_that_of_a_naive_queue(
        in_flight_max in prop_oneof![1..50usize, Just(1024)],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut both = Both::new(in_flight_max);
        both.take(Step::Append(20))?;
        for step in steps {
            both.take(step)?;
        }
        both.finish()?;
    }
}
