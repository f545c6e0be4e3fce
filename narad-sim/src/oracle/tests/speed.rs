//! Common facts cost little, however much has been seen before.

use super::*;

/// Nothing that is kept grows with facts that say nothing new, but for one number per entry.
#[test]
fn common_facts_leave_little_behind() {
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    // Who asked for a target is kept: its entry may be in the log twice.
    let asked = bench.oracle.book.asked.len();
    assert_eq!(asked, 1);
    let birth = Attempt::birth(N1);
    for round in 0..1_000_u64 {
        bench.write(1, birth, 1, &[1 + round]);
        bench.deliver(1, 1, round, &[1 + round], round + 1);
        bench.consume(1, 1, 1, round);
        bench.stand_at(1, 1, round + 1, round + 1);
        let hwms = vec![(bench.p(0), Epoch(1), Offset(round + 1))];
        let (node, incarnation) = (N1, Incarnation(1));
        bench.commit(1, Command::Report { node, incarnation, hwms });
    }
    bench.holds();
    let part = bench.oracle.book.parts.values().next().unwrap();
    assert_eq!(part.acked.len(), 1_000);
    assert!(part.consumers.taken.is_empty());
    assert_eq!(bench.oracle.book.asked.len(), asked);
}
