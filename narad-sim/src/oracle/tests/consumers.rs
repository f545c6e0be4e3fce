//! What cursors hand out, and to whom.

use narad_core::cursor::{Reserved, Run};
use narad_core::freeze::gate::Authority;

use super::*;

const BIRTH: Attempt = Attempt::birth(N1);

/// A partition of ten records, and clocks.
fn ten() -> Bench {
    let mut bench = Bench::cluster(3);
    bench.sight.has_clocks = true;
    bench.write(1, BIRTH, 1, &[11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    bench
}

/// Hands records out for a second, `most` having been wanted; those from `back` on are given back.
fn reserve(bench: &mut Bench, runs: &[(u64, u64)], most: usize, back: Option<u64>) {
    let run = |&(first, end): &(u64, u64)| Run {
        first: Offset(first),
        end: Offset(end),
        delivery: Delivery(1),
    };
    let now = bench.sight.local(N1).expect("there are clocks");
    let until = now.after(Duration::from_secs(1));
    let runs = runs.iter().map(run).collect();
    let reserved = Reserved { epoch: Epoch(1), until, runs };
    let (node, partition, back) = (N1, bench.p(0), back.map(Offset));
    bench.tell(Fact::Consumers(ConsumerFact::Reserved {
        node,
        partition,
        reserved: &reserved,
        most,
        back,
        hwm: Offset(10),
    }));
}

/// Covers S4: nobody is handed what is not visible, read or not.
#[test]
fn a_cursor_hands_out_nothing_hidden() {
    let mut bench = ten();
    reserve(&mut bench, &[(0, 10)], 10, None);
    bench.holds();
    let mut bench = ten();
    reserve(&mut bench, &[(0, 11)], 11, Some(10));
    bench.breaks(&["S4"]);
}

/// Covers S7: what a cursor has never handed out follows what it has, but for what is acknowledged.
#[test]
fn a_cursor_skips_nothing() {
    let mut bench = ten();
    reserve(&mut bench, &[(0, 3)], 3, None);
    bench.consume(1, 1, 1, 4);
    reserve(&mut bench, &[(3, 4), (5, 6)], 2, None);
    bench.holds();
    reserve(&mut bench, &[(7, 8)], 1, None);
    bench.breaks(&["S7"]);

    // Another opening of the log begins where its position says.
    let mut bench = ten();
    reserve(&mut bench, &[(0, 10)], 10, None);
    bench.open(1, BIRTH, 0);
    reserve(&mut bench, &[(0, 2)], 2, None);
    bench.holds();

    // Of a past that nobody has told of it is not known what was acknowledged.
    let mut bench = ten();
    let state = bench.state().clone();
    bench.oracle = Oracle::new(Config::new(1));
    bench.tell(Fact::Restored { node: N1, state: &state });
    bench.open(1, BIRTH, 0);
    reserve(&mut bench, &[(0, 1), (4, 5)], 2, None);
    bench.holds();
}

/// Covers S11: what nobody acknowledges in time is handed out again, before anything behind it.
#[test]
fn what_runs_out_comes_again() {
    let mut bench = ten();
    reserve(&mut bench, &[(0, 4)], 4, None);
    bench.consume(1, 1, 1, 1);
    bench.pass(Duration::from_secs(2));
    reserve(&mut bench, &[(0, 1), (2, 3)], 2, None);
    bench.holds();
    reserve(&mut bench, &[(4, 5)], 1, None);
    bench.breaks(&["S11"]);
}

/// Covers S11: what was given back is free at once; what is kept for longer, or rests, is not.
#[test]
fn what_is_free_is_handed_out() {
    let mut bench = ten();
    reserve(&mut bench, &[(0, 4)], 4, Some(2));
    let (node, partition, offset) = (N1, bench.p(0), Offset(0));
    let until = Instant::from_origin(Duration::from_mins(9));
    bench.tell(Fact::Consumers(ConsumerFact::Kept { node, partition, offset, until }));
    bench.pass(Duration::from_secs(2));
    reserve(&mut bench, &[(1, 4)], 5, None);
    bench.holds();

    let mut bench = ten();
    reserve(&mut bench, &[(0, 4)], 4, Some(2));
    reserve(&mut bench, &[(2, 3)], 2, None);
    bench.breaks(&["S11"]);
}

/// Covers L5: a consumer is turned away because of a freeze, although the owner may serve.
#[test]
fn consumers_go_on_through_a_freeze() {
    for (frozen, leased) in [(true, true), (true, false), (false, true)] {
        let mut bench = ten();
        bench.stand_at(1, 1, 0, 10);
        let lease_until = Instant::from_origin(Duration::from_mins(u64::from(leased)));
        let authority = Authority { registered: Some(Incarnation(1)), lease_until };
        bench.tell(Fact::Authority { node: N1, authority });
        bench.plan(2);
        if frozen {
            let token = bench.token(1);
            bench.capture(1, BIRTH, token, at(0, &[]));
        }
        bench.tell(Fact::ReadRefused(N1, bench.p(0)));
        let broken = bench.broken().contains(&"L5");
        assert_eq!(broken, frozen && leased, "{:?}", bench.broken());
    }

    // A life that has only just begun takes its time, whatever the one before it had frozen.
    let mut bench = ten();
    bench.stand_at(1, 1, 0, 10);
    let lease_until = Instant::from_origin(Duration::from_mins(1));
    bench.plan(2);
    let token = bench.token(1);
    bench.capture(1, BIRTH, token, at(0, &[]));
    bench.tell(Fact::Started { node: N1, life: Incarnation(3) });
    let authority = Authority { registered: Some(Incarnation(3)), lease_until };
    bench.tell(Fact::Authority { node: N1, authority });
    bench.tell(Fact::ReadRefused(N1, bench.p(0)));
    assert!(!bench.broken().contains(&"L5"), "{:?}", bench.broken());
}
