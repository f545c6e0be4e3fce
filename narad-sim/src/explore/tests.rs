//! The search finds nothing where nothing is wrong, and what is wrong where something is.

use std::ops::ControlFlow;

use super::{Breakage, Options, Outcome, run, search};

fn broken(options: &Options, breakage: Breakage) -> Outcome {
    search::run(options, Some(breakage), &mut |_| ControlFlow::Continue(()))
}

#[test]
fn a_move_without_faults_is_walked_whole() {
    let options = Options { faults: 0, ..Options::default() };
    let outcome = run(&options, &mut |_| ControlFlow::Continue(()));
    assert!(outcome.complete, "{outcome}");
    panic!("{outcome}");
}
