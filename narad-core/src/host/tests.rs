use alloc::vec::Vec;

use super::*;
use crate::ids::{AttemptNo, MoveId};

const PAUSE: Duration = Duration::from_secs(30);

fn want(epoch: u64, move_id: u64, min_end: u64, forced: bool) -> Want {
    let no = AttemptNo { incarnation: Incarnation(move_id.min(1)), n: 0 };
    Want {
        data: Attempt { move_id: MoveId(move_id), destination: NodeId(1), no },
        epoch: Epoch(epoch),
        min_end: Offset(min_end),
        forced,
    }
}

/// A host whose operations are answered by the test, one at a time.
struct Bench {
    host: Host,
    out: Effects<Effect>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let host = Host::new(Incarnation(1), PAUSE);
        Self { host, out: Effects::default(), now: Instant::ORIGIN }
    }

    fn tell(&mut self, event: Event) -> Vec<Operation> {
        self.host.handle(self.now, event, &mut self.out);
        self.pending().into_iter().map(|(_, operation)| operation).collect()
    }

    fn pending(&mut self) -> Vec<(OpId, Operation)> {
        self.out
            .as_slice()
            .iter()
            .filter_map(|effect| match effect {
                Effect::Run(op, operation) => Some((*op, *operation)),
                Effect::Note(_) => None,
            })
            .collect()
    }

    /// Answers the one operation that is under way.
    fn answer(&mut self, outcome: Outcome) -> Vec<Operation> {
        let pending = self.pending();
        assert_eq!(pending.len(), 1, "one operation at a time: {pending:?}");
        self.out = Effects::default();
        self.tell(Event::Done(pending[0].0, outcome))
    }
}

fn opened(end: u64, served: Option<u64>) -> Outcome {
    Outcome::Open(Ok(Opened { end: Offset(end), served: served.map(Epoch) }))
}

/// R41, S4: a copy that was just flipped to is opened with the watermark it was installed with.
#[test]
fn a_fresh_copy_is_opened_without_exposing_its_hidden_tail() {
    let mut bench = Bench::new();
    let want = want(2, 7, 100, false);
    let open = Operation::Open { data: want.data, birth: None };
    assert_eq!(bench.tell(Event::Want(Some(want))), [open]);
    assert_eq!(bench.answer(opened(100, Some(1))), []);
    assert_eq!(bench.host.open(), Some(Epoch(2)));
}

/// H42, H43: a restarted owner, and one that took over from a dead owner, expose what is
/// durable first.
#[test]
fn a_restarted_or_forced_owner_exposes_what_is_durable() {
    for (want, served) in [(want(2, 7, 100, false), 2), (want(2, 7, 100, true), 1)] {
        let mut bench = Bench::new();
        bench.tell(Event::Want(Some(want)));
        let expose = Operation::Expose { epoch: Epoch(2) };
        assert_eq!(bench.answer(opened(120, Some(served))), [expose]);
        assert_eq!(bench.host.open(), None, "not before it is exposed");
        assert_eq!(bench.answer(Outcome::Expose(Ok(()))), []);
        assert_eq!(bench.host.open(), Some(Epoch(2)));
    }
}

/// H25, S3: a log that ends before the row's `min_end` is closed and looked at again later.
#[test]
fn a_log_that_is_too_short_is_never_open_for_service() {
    let mut bench = Bench::new();
    bench.tell(Event::Want(Some(want(2, 7, 100, false))));
    assert_eq!(bench.answer(opened(99, None)), [Operation::Close]);
    assert_eq!(bench.answer(Outcome::Close), []);
    let short = Fault::Short { end: Offset(99), min_end: Offset(100) };
    assert_eq!(bench.host.fault(), Some(short));
    assert_eq!(bench.tell(Event::Wake), [], "not before the pause has passed");
    bench.now = bench.now.after(PAUSE);
    assert_eq!(bench.tell(Event::Wake).len(), 1, "then it looks again");
}

/// S3: only a directory that no move has made may be absent.
#[test]
fn only_a_directory_of_life_zero_is_created() {
    let cases = [(want(1, 0, 0, false), Some(Offset(0))), (want(2, 3, 0, false), None)];
    for (want, birth) in cases {
        let mut bench = Bench::new();
        let open = Operation::Open { data: want.data, birth };
        assert_eq!(bench.tell(Event::Want(Some(want))), [open]);
    }
}

/// Case T30, R49: a row that moves on closes the log, whatever the machine was doing.
#[test]
fn a_row_that_moves_on_closes_the_log_at_every_step() {
    let answers = [opened(1, None), Outcome::Expose(Ok(()))];
    for steps in 0..=answers.len() {
        let mut bench = Bench::new();
        bench.tell(Event::Want(Some(want(2, 7, 0, true))));
        for answer in answers.iter().take(steps) {
            bench.answer(*answer);
        }
        bench.tell(Event::Want(None));
        if let Some(answer) = answers.get(steps) {
            bench.answer(*answer);
        }
        let under_way: Vec<_> = bench.pending().into_iter().map(|(_, work)| work).collect();
        assert_eq!(under_way, [Operation::Close], "after {steps} steps");
        bench.answer(Outcome::Close);
        assert!(bench.host.is_over());
    }
}

/// An fsync error is never retried on the same file: the log is opened again and says what is
/// durable.
#[test]
fn a_poisoned_log_is_opened_again() {
    let mut bench = Bench::new();
    let want = want(2, 7, 0, false);
    bench.tell(Event::Want(Some(want)));
    bench.answer(opened(1, None));
    assert_eq!(bench.tell(Event::Poisoned), [Operation::Close]);
    let open = Operation::Open { data: want.data, birth: None };
    assert_eq!(bench.answer(Outcome::Close), [open]);
}
