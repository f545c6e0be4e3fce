//! Members, lives, voters, and who may say what.

use narad_core::controller::Change;

use super::*;
use crate::oracle::{DiskChange, End};

/// Covers S16: lives, applied indices and states that go back or differ.
#[test]
fn going_back_is_found() {
    let mut bench = Bench::cluster(3);
    bench.tell(Fact::Ended { node: N1, how: End::Killed });
    bench.tell(Fact::Started { node: N1, life: Incarnation(1) });
    bench.breaks(&["S16"]);

    // An older disk that was put back has counted less far.
    let mut bench = Bench::cluster(3);
    bench.tell(Fact::Ended { node: N1, how: End::Killed });
    bench.tell(Fact::Disk { node: N1, change: DiskChange::Replaced });
    bench.tell(Fact::Started { node: N1, life: Incarnation(1) });
    bench.holds();

    let mut bench = Bench::cluster(3);
    let entry = bench.commit(1, join(9));
    let index = LogIndex(bench.index);
    bench.holds();
    bench.tell(Fact::Applied { node: N1, index, entry: &entry });
    bench.breaks(&["S16"]);

    let mut bench = Bench::cluster(3);
    bench.tell(Fact::Restored { node: N1, state: &State::new() });
    bench.breaks(&["S16"]);
}

/// Covers S16: two replicas that apply different entries, or come to different states.
#[test]
fn replicas_that_differ_are_found() {
    let mut bench = Bench::cluster(3);
    let index = LogIndex(bench.index + 1);
    let proposal = ProposalId { node: N1, incarnation: Incarnation(1), sequence: 900 };
    let entry = |node| Entry { proposal, by: N1, command: join(node) };
    bench.tell(Fact::Applied { node: N1, index, entry: &entry(8) });
    bench.tell(Fact::Applied { node: N2, index, entry: &entry(8) });
    bench.holds();
    bench.tell(Fact::Applied { node: NodeId(3), index, entry: &entry(9) });
    bench.breaks(&["S16"]);

    let mut bench = Bench::cluster(3);
    let mut state = bench.state().clone();
    bench.tell(Fact::Restored { node: N1, state: &state });
    bench.holds();
    state.configure(state.applied(), Configuration::default()).unwrap();
    bench.tell(Fact::Restored { node: N1, state: &state });
    bench.breaks(&["S16"]);
}

/// Covers S16: a restart may apply again what it had applied before.
#[test]
fn a_restart_may_begin_behind() {
    let mut bench = Bench::cluster(3);
    let earlier = bench.state().clone();
    let entry = bench.commit(1, join(9));
    bench.tell(Fact::Ended { node: N1, how: End::PowerLost });
    bench.tell(Fact::Started { node: N1, life: Incarnation(2) });
    bench.tell(Fact::Restored { node: N1, state: &earlier });
    bench.tell(Fact::Applied { node: N1, index: LogIndex(bench.index), entry: &entry });
    bench.holds();
}

/// Covers S18: what a scenario forges passes only if a guard is missing; here the entry is given
/// the name of the node that it speaks for.
#[test]
fn a_forged_entry_that_passes_is_found() {
    let mut bench = Bench::cluster(3);
    let (node, incarnation, addrs) = (N2, Incarnation(2), Addresses::default());
    let store_uuid = StoreUuid(2);
    let command = Command::Register { node, store_uuid, incarnation, addrs };
    let proposal = ProposalId { node: N2, incarnation, sequence: 900 };
    let entry = Entry { proposal, by: N2, command };
    bench.tell(Fact::Proposed { node: N1, entry: &entry, origin: Origin::Forged });
    bench.apply(&entry);
    bench.breaks(&["S18"]);

    // Said by the node itself it is nobody's business.
    let mut bench = Bench::cluster(3);
    bench.register(2, 2);
    // Said by another, the fold refuses it.
    bench.commit_from(
        1,
        Command::DrainedOut { node, incarnation, drain: Drain(1) },
        Origin::Forged,
    );
    bench.holds();
}

fn voters(ids: &[u64]) -> Configuration {
    let voters = ids.iter().copied().map(NodeId).collect();
    Configuration { voters, ..Configuration::default() }
}

fn retire(bench: &mut Bench, node: u64) {
    let id = NodeId(node);
    bench.commit_from(1, Command::SetDraining { node: id, on: true }, Origin::Operator);
    let (incarnation, drain) = (Incarnation(1), Drain(1));
    bench.commit(node, Command::DrainedOut { node: id, incarnation, drain });
    bench.commit(1, Command::Retire { node: id, receipt: None });
}

fn configure(bench: &mut Bench, next: &Configuration) {
    bench.index += 1;
    let index = LogIndex(bench.index);
    for node in 1..=bench.nodes {
        bench.tell(Fact::Configured { node: NodeId(node), index, configuration: next });
    }
}

/// Covers S15: a drained node goes, one that is not retired, leads, or is needed does not.
#[test]
fn a_voter_is_removed_only_once_it_may_go() {
    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    configure(&mut bench, &voters(&[1, 2, 3]));
    bench.holds();
    assert!(bench.state().member(NodeId(4)).unwrap().retired);

    let mut bench = Bench::cluster(4);
    configure(&mut bench, &voters(&[1, 2, 3]));
    bench.breaks(&["S15"]);

    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    bench.sight.leader = Some(NodeId(4));
    configure(&mut bench, &voters(&[1, 2, 3]));
    bench.breaks(&["S15"]);

    // Who has died by the time of the commit is nobody's fault, by the time of asking it is.
    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    bench.run_node(1);
    let (node, change) = (N1, Change::Remove(NodeId(4)));
    bench.tell(Fact::Configuring { node, change });
    bench.kill(2);
    bench.kill(3);
    configure(&mut bench, &voters(&[1, 2, 3]));
    bench.holds();

    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    bench.kill(2);
    bench.kill(3);
    bench.run_node(1);
    bench.tell(Fact::Configuring { node, change });
    bench.breaks(&["S15"]);

    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    configure(&mut bench, &voters(&[1, 2]));
    bench.breaks(&["S15"]);
}

/// Covers S15: what a retirement must not be applied to, judged without the fold's guard.
#[test]
fn a_retirement_without_its_conditions_is_found() {
    let judge =
        |bench: &mut Bench, node: u64, change: &dyn Fn(&mut narad_core::metastore::Member)| {
            let mut member = bench.state().member(NodeId(node)).unwrap().clone();
            (member.draining, member.drained_out) = (true, true);
            change(&mut member);
            let state = bench.state().clone();
            let mut sink = crate::oracle::sink::Sink::default();
            let look = &bench.sight;
            let mut cx = crate::oracle::sink::Cx { event: 0, now: look.now, look, sink: &mut sink };
            crate::oracle::s15_leaving::retired(&member, &state, false, &mut cx);
            sink.violations.len()
        };
    let mut bench = Bench::cluster(5);
    assert_eq!(judge(&mut bench, 5, &|_| {}), 0);
    assert_eq!(judge(&mut bench, 1, &|_| {}), 1, "it owns a partition");
    assert_eq!(judge(&mut bench, 5, &|member| member.draining = false), 1);
    assert_eq!(judge(&mut bench, 5, &|member| member.drained_out = false), 1);
    bench.plan(5);
    assert_eq!(judge(&mut bench, 5, &|_| {}), 1, "it is a target");
}

/// Covers S15: a retired node is given nothing.
#[test]
fn what_a_retired_node_is_given_is_found() {
    let mut bench = Bench::cluster(4);
    retire(&mut bench, 4);
    let state = bench.state().clone();
    let mut sink = crate::oracle::sink::Sink::default();
    let look = &bench.sight;
    let mut cx = crate::oracle::sink::Cx { event: 0, now: look.now, look, sink: &mut sink };
    crate::oracle::s15_leaving::given(&state, NodeId(3), "a target", &mut cx);
    assert!(cx.sink.violations.is_empty());
    crate::oracle::s15_leaving::given(&state, NodeId(4), "a target", &mut cx);
    assert_eq!(sink.violations.len(), 1);
}
