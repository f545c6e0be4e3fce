//! What owners tell the log of their watermarks.

use super::*;

/// A cluster whose oracle comes late: node 1 owned the first partition before it looked, moves it to
/// node 2, and acknowledges records or does not.
fn seen_late(acknowledges: bool) -> Bench {
    let mut bench = Bench::cluster(3);
    bench.plan(2);
    bench.run_node(1);
    let state = bench.state().clone();
    let life = state.member(N1).unwrap().incarnation;
    bench.oracle = Oracle::new(Config::new(1));
    for node in 1..=3 {
        bench.tell(Fact::Started { node: NodeId(node), life });
        bench.tell(Fact::Restored { node: NodeId(node), state: &state });
    }
    let birth = Attempt::birth(N1);
    bench.open(1, birth, 0);
    bench.serve(1, 1, life.0);
    if acknowledges {
        bench.write(1, birth, 1, &[11, 12]);
    }
    bench
}

/// Covers S6 and H12: an owner that is heard tells the log how far consumers see, also if it owned the
/// partition before anybody looked; but not what it had acknowledged until then.
#[test]
fn an_owner_that_is_heard_reports_what_it_acknowledged() {
    for acknowledges in [false, true] {
        let mut bench = seen_late(acknowledges);
        let life = bench.state().member(N1).unwrap().incarnation;
        for _ in 0..25 {
            bench.pass(Duration::from_secs(1));
            let received = bench.sight.now;
            bench.tell(Fact::Grants { leader: N2, node: N1, life, received });
        }
        assert_eq!(bench.broken().contains(&"S6"), acknowledges, "{:?}", bench.broken());
    }
}
