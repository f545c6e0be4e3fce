//! `shrink`.

use narad_sim::cli::ExitCode;

use crate::fake::Lab;
use crate::harness::{dir, file, path, sim, sim_in};

const BIG: &str = "nodes = 4\nsteps = ['noise', 'kill n2', 'fail L1', 'noise', 'fail S2 two owners', 'noise', 'cut']";

#[test]
fn only_what_the_failure_needs_is_left() {
    let dir = dir();
    let big = file(&dir, "big.toml", &BIG.replace("'fail L1', ", ""));
    let small = path(&dir, "small.toml");
    let mut outs = Vec::new();
    for jobs in ["1", "4"] {
        let ran = sim(&["shrink", &big, "--seed", "17", "-o", &small, "--json", "--jobs", jobs]);
        assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
        outs.push(ran.last());
    }
    let json = &outs[0];
    assert_eq!((json["steps"].clone(), json["nodes"].clone()), (1.into(), 1.into()));
    assert_eq!(json["minimal"], true);
    assert_eq!(outs[0]["steps"], outs[1]["steps"]);
    let text = std::fs::read_to_string(&small).expect("a scenario");
    assert!(text.contains("fail S2 two owners") && !text.contains("noise"), "{text}");
    assert!(text.contains("seed = 17"), "it runs without --seed: {text}");
    assert_eq!(sim(&["run", &small]).code, ExitCode::Unsafe);
}

#[test]
fn the_gravest_violation_is_kept_and_a_trace_will_do() {
    let dir = dir();
    let big = file(&dir, "big.toml", BIG);
    let (trace, small) = (path(&dir, "big.jsonl"), path(&dir, "small.toml"));
    sim(&["run", &big, "--seed", "8", "--trace", &trace]);
    let ran = sim(&["shrink", &trace, "-o", &small]);
    assert_eq!(ran.code, ExitCode::Stuck, "{}", ran.err);
    assert!(ran.out.contains("1 step, 0 random faults, 1 node are left of 7 steps"), "{}", ran.out);
    assert!(ran.out.contains("nothing simpler fails"), "{}", ran.out);
    assert!(ran.out.contains(&format!("again: narad-sim run {small} --seed 8")), "{}", ran.out);
}

#[test]
fn a_budget_or_an_interrupt_ends_it_with_the_best_so_far() {
    let dir = dir();
    let big = file(&dir, "big.toml", BIG);
    let small = path(&dir, "small.toml");
    let ran = sim(&["shrink", &big, "-o", &small, "--budget", "3", "--jobs", "1"]);
    assert!(ran.out.contains("3 runs made, ended before all was tried"), "{}", ran.out);
    let steps = "steps = ['noise', 'fail S2', 'interrupt']";
    let big = file(&dir, "interrupted.toml", steps);
    let ran = sim_in(&Lab::default(), "", &["shrink", &big, "-o", &small]);
    assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
}

#[test]
fn what_does_not_fail_is_not_shrunk() {
    let dir = dir();
    let good = file(&dir, "good.toml", "steps = ['noise']");
    let ran = sim(&["shrink", &good]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("does not fail with seed 0"), "{}", ran.err);
}

#[test]
fn chance_becomes_steps_first() {
    let dir = dir();
    let big = file(&dir, "chance.toml", "steps = ['noise', 'chance', 'noise']");
    let small = path(&dir, "small.toml");
    let ran = sim(&["shrink", &big, "-o", &small, "--json"]);
    assert_eq!((ran.code, ran.last()["steps"].clone()), (ExitCode::Unsafe, 1.into()));
    let text = std::fs::read_to_string(&small).expect("a scenario");
    assert!(text.contains("fail S7 by chance"), "{text}");
}
