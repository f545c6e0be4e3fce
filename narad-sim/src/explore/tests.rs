//! The search finds nothing where nothing is wrong, and what is wrong where something is.

use std::ops::ControlFlow;

use super::{Breakage, CounterExample, Options, Order, Outcome, Stop, run, search};

fn walk(options: &Options) -> Outcome {
    run(options, &mut |_| ControlFlow::Continue(()))
}

/// Breaks a rule of the driver and returns the shortest schedule that shows it.
fn found(options: &Options, breakage: Breakage) -> CounterExample {
    let outcome = search::run(options, Some(breakage), &mut |_| ControlFlow::Continue(()));
    let size = outcome.size;
    outcome.counter_example.unwrap_or_else(|| panic!("{breakage:?}: {size:?}"))
}

/// Covers S1 to S18 and L1, L2 for every schedule of a move without faults.
#[test]
fn a_move_without_faults_is_walked_whole() {
    let outcome = walk(&Options { faults: 0, ..Options::default() });
    assert!(outcome.complete, "{outcome}");
    assert!(outcome.size.ends > 0 && outcome.size.transitions > 100, "{outcome}");
}

/// Covers the same with one lost, late or repeated message, crash or cancelled plan at any place.
#[test]
fn a_move_with_one_fault_is_walked_whole() {
    let options = Options { faults: 1, records: 0, cuts: 0, ..Options::default() };
    let outcome = walk(&options);
    assert!(outcome.complete, "{outcome}");
}

/// The same bounds give the same figures.
#[test]
fn a_search_is_deterministic() {
    let options = Options { faults: 1, records: 0, crashes: 0, cuts: 0, ..Options::default() };
    assert_eq!(walk(&options), walk(&options));
}

#[test]
fn a_search_says_why_it_ended_early() {
    let few = walk(&Options { states_max: 50, ..Options::default() });
    assert_eq!((few.complete, few.stopped), (false, Some(Stop::States)));
    let shallow = walk(&Options { faults: 0, depth_max: 3, ..Options::default() });
    assert_eq!((shallow.complete, shallow.stopped), (false, Some(Stop::Depth)));
    let left = run(&Options::default(), &mut |_| ControlFlow::Break(()));
    assert_eq!((left.complete, left.stopped), (false, Some(Stop::Interrupted)));
}

/// Any order finds nothing either, where nothing is wrong.
#[test]
fn any_order_of_a_short_move_is_walked_whole() {
    for order in [Order::Any, Order::Fine] {
        let outcome = walk(&Options { faults: 0, records: 0, order, ..Options::default() });
        assert!(outcome.complete, "{outcome}");
    }
}

/// Covers H2: a lost answer is enough, if Unknown is taken for a failure.
#[test]
fn a_rollback_of_what_is_unknown_is_found() {
    let options = Options { faults: 1, records: 0, crashes: 0, cuts: 0, ..Options::default() };
    let example = found(&options, Breakage::UnknownIsFailed);
    assert_eq!(example.invariant, "S3", "{example}");
}

/// Covers H1: a freeze that ends on a clock lets a record in behind the copy.
#[test]
fn a_resumption_without_the_log_is_found() {
    let options = Options {
        crashes: 0,
        losses: 0,
        duplicates: 0,
        kills: 0,
        cuts: 0,
        cancels: 0,
        ..Options::default()
    };
    let example = found(&options, Breakage::ResumeOnExpiry);
    assert_eq!(example.invariant, "S9", "{example}");
}

/// Covers H6: a source that crashes while frozen forgets the freeze.
#[test]
fn serving_before_the_registration_is_found() {
    let options = Options {
        losses: 0,
        duplicates: 0,
        expiries: 0,
        kills: 0,
        cuts: 0,
        cancels: 0,
        ..Options::default()
    };
    let example = found(&options, Breakage::ServeUnregistered);
    assert_eq!(example.invariant, "S9", "{example}");
}

/// Covers H7: a check outside the gate lets an append pass a freeze.
#[test]
fn an_append_that_the_gate_does_not_know_of_is_found() {
    let options = Options { faults: 0, order: Order::Fine, ..Options::default() };
    let example = found(&options, Breakage::CheckThenAppend);
    assert_eq!(example.invariant, "S9", "{example}");
}

/// Covers H9: an owner without a lease writes on behind a promotion.
#[test]
fn a_lease_that_never_ends_is_found() {
    let options = Options {
        records: 0,
        crashes: 0,
        losses: 0,
        delays: 0,
        duplicates: 0,
        expiries: 0,
        cancels: 0,
        ..Options::default()
    };
    let example = found(&options, Breakage::LeaseIgnored);
    assert_eq!(example.invariant, "S2", "{example}");
}

/// Covers H17: a copy that a power loss takes away after it has won.
#[test]
fn an_install_that_is_not_durable_is_found() {
    let options = Options { faults: 1, records: 0, cuts: 0, ..Options::default() };
    let example = found(&options, Breakage::InstallNotDurable);
    assert_eq!(example.invariant, "S3", "{example}");
}

/// A counter-example reads like a story, and is the same as JSON.
#[test]
fn a_counter_example_is_numbered_and_can_be_read_by_programs() {
    let options = Options { faults: 1, records: 0, crashes: 0, cuts: 0, ..Options::default() };
    let example = found(&options, Breakage::UnknownIsFailed);
    let text = example.to_string();
    assert!(text.starts_with("VIOLATION S3: "), "{text}");
    assert!(text.contains("    1. LOG: SetTarget"), "{text}");
    let json = serde_json::to_value(&example).expect("it is plain data");
    assert_eq!(json["steps"].as_array().map(Vec::len), Some(example.steps.len()));
}
