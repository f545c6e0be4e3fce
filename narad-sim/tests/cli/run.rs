//! `run`, `draw`, `schema` and what all commands share.

use narad_sim::cli::ExitCode;

use crate::fake::Lab;
use crate::harness::{dir, file, path, sim, sim_in, sim_into_a_closed_pipe};

#[test]
fn the_gravest_of_what_happened_decides_the_exit_code() {
    let dir = dir();
    for (steps, code, verdict) in [
        ("[]", ExitCode::Good, "good"),
        ("['fail expect owner']", ExitCode::Unexpected, "unexpected"),
        ("['fail expect owner', 'fail S5']", ExitCode::Unsafe, "unsafe"),
        ("['fail S5', 'fail L2']", ExitCode::Stuck, "stuck"),
        ("['fail L2', 'panic']", ExitCode::Panicked, "panicked"),
    ] {
        let scenario = file(&dir, "one.toml", &format!("steps = {steps}"));
        let ran = sim(&["run", &scenario, "--seed", "5", "--json"]);
        assert_eq!(ran.code, code, "{steps}: {}", ran.err);
        let row = ran.last();
        assert_eq!((&row["verdict"], &row["seed"]), (&verdict.into(), &5.into()));
        assert_eq!(row["scenario"], "one", "called after its file");
        assert_eq!(sim(&["run", &scenario]).code, code);
    }
}

#[test]
fn a_panic_is_told_with_its_place_and_nothing_else_is_printed() {
    let dir = dir();
    let scenario = file(&dir, "boom.toml", "steps = ['noise', 'panic']\nnodes = 3");
    let trace = path(&dir, "boom.jsonl");
    let ran = sim(&["run", &scenario, "--seed", "9", "--trace", &trace, "--json"]);
    let violation = &ran.last()["violations"][0];
    assert_eq!((&violation["invariant"], &violation["event"]), (&"panic".into(), &2.into()));
    let text = violation["text"].as_str().expect("a text");
    assert!(
        text.starts_with("an invariant of the code: 9 (") && text.contains("fake.rs:"),
        "{text}"
    );
    assert_eq!(ran.err, "");
    let trace = std::fs::read_to_string(&trace).expect("a trace");
    let last = trace.lines().last().expect("lines");
    assert!(last.contains(r#""invariant":"panic""#), "the summary ends the trace: {last}");
    assert_eq!(trace.lines().count(), 4, "header, two events, summary");
}

#[test]
fn people_are_told_how_to_run_the_same_again() {
    let ran = sim(&["run", "--seed", "3", "--metastore", "abstract", "--nodes", "5"]);
    assert_eq!(ran.code, ExitCode::Unsafe);
    assert!(ran.out.starts_with("drawn, seed 3: unsafe"), "{}", ran.out);
    assert!(ran.out.contains("metastore abstract"), "{}", ran.out);
    assert!(
        ran.out.contains("again: narad-sim run --seed 3 --metastore abstract --nodes 5"),
        "{}",
        ran.out
    );
}

#[test]
fn a_bad_file_is_told_with_its_line_and_what_to_do() {
    let dir = dir();
    let bad = file(&dir, "bad.toml", "seed = 1\nstepz = []\n");
    let ran = sim(&["run", &bad]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("bad.toml") && ran.err.contains("line 2"), "{}", ran.err);
    assert!(ran.err.contains("hint: narad-sim schema"), "{}", ran.err);

    let ran = sim(&["run", &path(&dir, "none.toml")]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("none.toml cannot be read"), "{}", ran.err);

    let no_text = path(&dir, "binary.toml");
    std::fs::write(&no_text, [b'a', 0xff, 0xfe]).expect("a file");
    assert!(sim(&["run", &no_text]).err.contains("byte 1 is not UTF-8"));

    let trace = path(&dir, "a.jsonl");
    assert_eq!(sim(&["run", "--seed", "1", "--trace", &trace]).code, ExitCode::Good);
    assert!(sim(&["run", &trace]).err.contains("is a trace, and no scenario"));

    let nowhere = path(&dir, "no/such/folder");
    let ran = sim(&["run", "--seed", "1", "--trace", &nowhere]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("cannot be written"), "{}", ran.err);
}

#[test]
fn what_is_drawn_runs_the_same_from_a_file() {
    let dir = dir();
    let drawn = sim(&["draw", "--seed", "13"]);
    let scenario = file(&dir, "thirteen.toml", &drawn.out);
    let [one, other] =
        [&["run", "--seed", "13", "--json"][..], &["run", &scenario, "--json"]].map(sim);
    assert_eq!((one.code, one.out), (other.code, other.out));
    let json = sim(&["draw", "--seed", "13", "--json"]).last();
    assert_eq!(json["toml"].as_str().map(str::trim), Some(drawn.out.trim()));
    assert!(sim(&["schema"]).out.contains("steps ="));
}

#[test]
fn an_interrupted_run_says_so() {
    let dir = dir();
    let scenario = file(&dir, "long.toml", "steps = ['fail S1', 'interrupt', 'panic']");
    let lab = Lab::default();
    let ran = sim_in(&lab, "", &["run", &scenario]);
    assert_eq!(ran.code, ExitCode::Unsafe, "what was found by then counts");
    assert!(ran.out.contains("interrupted before its end"), "{}", ran.out);
}

#[test]
fn a_bug_that_is_not_there_is_not_planted() {
    let ran = sim(&["run", "--seed", "1", "--planted", "h01-early"]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("--features planted-bugs"), "{}", ran.err);
    let lab = Lab { has_bugs: true, ..Lab::default() };
    let ran = sim_in(&lab, "", &["run", "--seed", "4", "--planted", "h01-earli"]);
    assert!(ran.err.contains("did you mean h01-early?"), "{}", ran.err);
    assert_eq!(
        sim_in(&lab, "", &["run", "--seed", "4", "--planted", "h01-early"]).code,
        ExitCode::Unsafe
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (code, err) = sim_into_a_closed_pipe(&["sweep", "--seeds", "0..10", "--json"]);
    assert_eq!((code, err.as_str()), (ExitCode::Good, ""));
}
