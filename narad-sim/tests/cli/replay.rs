//! `replay`.

use narad_sim::cli::ExitCode;

use crate::fake::Lab;
use crate::harness::{Ran, dir, file, path, sim, sim_in};

const STEPS: &str = "steps = ['noise', 'kill n2', 'noise', 'kill n3', 'noise']";

fn recorded(dir: &tempfile::TempDir) -> String {
    let scenario = file(dir, "five.toml", STEPS);
    let trace = path(dir, "five.jsonl");
    assert_eq!(sim(&["run", &scenario, "--seed", "2", "--trace", &trace]).code, ExitCode::Good);
    trace
}

#[test]
fn the_same_run_comes_out_the_same() {
    let dir = dir();
    let trace = recorded(&dir);
    let ran = sim(&["replay", &trace]);
    assert_eq!(ran.code, ExitCode::Good);
    assert!(ran.out.ends_with("5 events as recorded; good\n"), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 6);
    assert_eq!(sim(&["replay", &trace, "--quiet"]).out, "5 events as recorded; good\n");
    let json = sim(&["replay", &trace, "--json"]).last();
    assert_eq!((json["events"].clone(), json["same"].clone()), (5.into(), true.into()));
}

#[test]
fn the_first_difference_is_told() {
    let dir = dir();
    let trace = recorded(&dir);
    let lab = Lab { drift: 1, ..Lab::default() };
    let ran = sim_in(&lab, "", &["replay", &trace, "--quiet"]);
    assert_eq!(ran.code, ExitCode::Unexpected);
    assert!(ran.out.contains("after 0 events that are the same"), "{}", ran.out);
    assert!(ran.out.contains("noise again"), "{}", ran.out);

    let text = std::fs::read_to_string(&trace).expect("a trace");
    let lines: Vec<&str> = text.lines().collect();
    // One event more than happens, and one less.
    let more = [&lines[..6], &[lines[5]], &lines[6..]].concat().join("\n");
    let ran = sim(&["replay", &file(&dir, "more.jsonl", &more), "--quiet"]);
    assert!(ran.out.contains("replayed  nothing: it ends here"), "{}", ran.out);
    let less = [&lines[..5], &lines[6..]].concat().join("\n");
    let ran = sim(&["replay", &file(&dir, "less.jsonl", &less), "--json"]);
    assert_eq!(
        (ran.code, ran.last()["difference"]["recorded"].clone()),
        (ExitCode::Unexpected, serde_json::Value::Null)
    );
    // An interrupted one ends early, which is no difference.
    let ran = sim(&["replay", &file(&dir, "cut.jsonl", &lines[..4].join("\n")), "--quiet"]);
    assert_eq!(ran.code, ExitCode::Good, "{}", ran.out);
}

#[test]
fn it_ends_where_it_is_told() {
    let dir = dir();
    let trace = recorded(&dir);
    let ran = sim(&["replay", &trace, "--from", "2", "--until", "3"]);
    assert!(
        ran.out.contains("kill") && ran.out.ends_with("3 events as recorded; ended early\n"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("last: noise"), "the world is shown at the end: {}", ran.out);
    let ran = sim(&["replay", &trace, "--break-on", "fault:kill,nth=2", "--json"]);
    let halted = &ran.last()["halted"];
    assert_eq!(
        (halted["line"]["n"].clone(), halted["world"][0][1].clone()),
        (4.into(), "kill n3".into())
    );
}

#[test]
fn changes_of_the_world_are_shown() {
    let dir = dir();
    let trace = recorded(&dir);
    let ran = sim(&["replay", &trace, "--diff"]);
    let expected =
        "fault     kill  n1  kill n2\n          last\n            - noise\n            + kill n2\n";
    assert!(ran.out.contains(expected), "{}", ran.out);
    assert!(!ran.out.contains("\n          seed\n"), "what stays is not: {}", ran.out);
}

#[test]
fn somebody_steps_through_it() {
    let dir = dir();
    let trace = recorded(&dir);
    let shown = |ran: &Ran| ran.out.lines().filter(|line| line.contains(" s  ")).count();
    let ran = sim_in(&Lab::default(), "\n\nq\n", &["replay", &trace, "--step"]);
    assert_eq!((ran.code, shown(&ran)), (ExitCode::Good, 3), "{}", ran.out);
    let ran =
        sim_in(&Lab::default(), "\nc\n", &["replay", &trace, "--quiet", "--break-on", "fault"]);
    assert!(ran.err.contains("Enter: next event"), "{}", ran.err);
    assert!(ran.out.ends_with("good\n"), "{}", ran.out);
    let ran = sim(&["replay", &trace, "--step"]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("nobody types here"), "{}", ran.err);
}

#[test]
fn what_is_no_trace_is_told() {
    let dir = dir();
    let trace = recorded(&dir);
    let text = std::fs::read_to_string(&trace).expect("a trace");
    for (bad, says) in [
        (String::new(), "the first line is no header"),
        (STEPS.to_owned(), "the first line is no header"),
        (text.replace("\"narad_trace\":1", "\"narad_trace\":2"), "it is of version 2"),
        (text.replace("\"n\":3", "\"n\":\"three\""), "line 4 is no event"),
    ] {
        let ran = sim(&["replay", &file(&dir, "bad.jsonl", &bad), "--quiet"]);
        assert_eq!(ran.code, ExitCode::Usage);
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
    }
}
