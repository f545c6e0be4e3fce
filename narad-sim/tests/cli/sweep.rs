//! `sweep`: shards, order, files, totals.

use narad_sim::cli::ExitCode;
use serde_json::Value;

use crate::fake::Lab;
use crate::harness::{dir, file, path, sim, sim_in, tree};

#[test]
fn the_files_do_not_depend_on_the_number_of_threads() {
    let dir = dir();
    let [one, many] = [path(&dir, "one"), path(&dir, "many")];
    for (out, jobs) in [(&one, "1"), (&many, "5")] {
        let ran = sim(&["sweep", "--seeds", "0..200", "--jobs", jobs, "--out", out]);
        assert_eq!(ran.code, ExitCode::Panicked, "{}", ran.err);
    }
    let one = tree(&one);
    assert_eq!(one, tree(&many));
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"failures/drawn-49.toml"), "{names:?}");
    assert!(names.contains(&"failures/drawn-49.trace.jsonl"), "{names:?}");
}

#[test]
fn merged_shards_are_what_one_sweep_would_have_written() {
    let dir = dir();
    let scenarios = path(&dir, "scenarios");
    std::fs::create_dir_all(path(&dir, "scenarios/deep")).expect("a folder");
    file(&dir, "scenarios/b.toml", "steps = ['fail S1']");
    file(&dir, "scenarios/deep/a.toml", "steps = []");
    let common = ["sweep", &scenarios, "--seeds", "5..22", "--failures", "100", "--out"];
    let whole = path(&dir, "whole");
    sim(&[&common[..], &[&whole]].concat());
    let parts: Vec<String> = (1..=3).map(|n| path(&dir, &format!("part-{n}"))).collect();
    for (n, part) in (1..).zip(&parts) {
        let shard = format!("{n}/3");
        let ran = sim(&[&common[..], &[part, "--shard", &shard]].concat());
        assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
    }
    let merged = path(&dir, "merged");
    // In any order.
    let ran =
        sim(&["sweep", "--json", "--out", &merged, "--merge", &parts[2], &parts[0], &parts[1]]);
    assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
    assert_eq!(tree(&merged), tree(&whole));
    assert_eq!(
        (ran.last()["runs"].clone(), ran.last()["violations"].clone()),
        (34.into(), 17.into())
    );
    assert_eq!(ran.json().len(), 35);

    let ran = sim(&["sweep", "--merge", &parts[0], &parts[2]]);
    assert!(ran.err.contains("11 runs of 5..22 missing"), "{}", ran.err);
}

#[test]
fn what_does_not_belong_together_is_not_merged() {
    let dir = dir();
    let out = |name: &str, more: &[&str]| {
        let out = path(&dir, name);
        let ran = sim(&[&["sweep", "--out", &out], more].concat());
        assert!(ran.code != ExitCode::Usage, "{}", ran.err);
        out
    };
    let one = out("one", &["--seeds", "0..20", "--shard", "1/2"]);
    let twin = out("twin", &["--seeds", "0..20", "--shard", "1/2"]);
    let wide = out("wide", &["--seeds", "10..40"]);
    let other = out("other", &["--seeds", "0..20", "--shard", "2/2", "--metastore", "abstract"]);
    let later = out("later", &["--seeds", "20..40"]);
    for (a, b, says) in [
        (&one, &twin, "have runs in common"),
        (&one, &wide, "have runs in common"),
        (&one, &one, "have runs in common"),
        (&one, &other, "differ in their options:  and  --metastore abstract"),
    ] {
        let ran = sim(&["sweep", "--merge", a, b]);
        assert_eq!(ran.code, ExitCode::Usage);
        assert!(ran.err.contains(says), "{}", ran.err);
    }
    assert_eq!(sim(&["sweep", "--merge", &one, &later, "--json"]).last()["runs"], 30);

    let manifest = path(&dir, "later/sweep.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replace("\"version\": \"", "\"version\": \"9")).expect("a file");
    let ran = sim(&["sweep", "--merge", &one, &later]);
    assert!(ran.err.contains("differ in the version of narad-sim"), "{}", ran.err);

    let ran = sim(&["sweep", "--merge", &path(&dir, "nothing")]);
    assert!(ran.err.contains("holds no sweep"), "{}", ran.err);
}

#[test]
fn a_damaged_row_is_told_with_its_line() {
    let dir = dir();
    let out = path(&dir, "out");
    sim(&["sweep", "--seeds", "0..3", "--out", &out]);
    let rows = path(&dir, "out/rows.jsonl");
    let text = std::fs::read_to_string(&rows).expect("rows");
    let lines: Vec<&str> = text.lines().collect();
    for (damaged, says) in [
        (format!("{}\n{}\n", lines[0], &lines[1][..50]), "line 2: "),
        (format!("{}\n{}\n", lines[1], lines[0]), "line 2: a row out of order"),
        (lines[2].replace("\"seed\":2", "\"seed\":3"), "line 1: a row of no run of this sweep"),
    ] {
        std::fs::write(&rows, damaged).expect("a file");
        let ran = sim(&["sweep", "--merge", &out]);
        assert_eq!(ran.code, ExitCode::Usage);
        assert!(ran.err.contains("rows.jsonl") && ran.err.contains(says), "{}", ran.err);
    }
}

#[test]
fn the_last_line_of_json_is_the_totals() {
    let ran = sim(&["sweep", "--seeds", "0..50", "--jobs", "2", "--json"]);
    assert_eq!(ran.code, ExitCode::Panicked);
    let lines = ran.json();
    assert_eq!(lines.len(), 51);
    let seeds: Vec<_> = lines[..50].iter().map(|row| row["seed"].as_u64()).collect();
    assert_eq!(seeds, (0..50).map(Some).collect::<Vec<_>>());
    let totals = ran.last();
    for (key, value) in [("runs", 50), ("violations", 3), ("stuck", 1), ("panics", 1), ("exit", 12)]
    {
        assert_eq!(totals[key], value, "{key}");
    }
    for key in ["events", "simulated_s", "wall_s", "speedup"] {
        assert!(totals[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {totals}");
    }
    let commands = totals["failures"].as_array().expect("a list").iter();
    let commands: Vec<_> = commands.map(|it| it["command"].as_str().expect("text")).collect();
    assert_eq!(commands, [3, 7, 13, 49].map(|seed| format!("narad-sim run --seed {seed}")));
}

#[test]
fn people_get_a_table_of_failures_and_totals() {
    let ran = sim(&["sweep", "--seeds", "0..8"]);
    assert_eq!(ran.code, ExitCode::Stuck);
    for part in ["narad-sim run --seed 7", "two owners", "runs", "times real time", "longest"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(ran.err.contains("L1: L1  (narad-sim run --seed 7)"), "{}", ran.err);
    assert_eq!(sim(&["sweep", "--seeds", "0..2"]).code, ExitCode::Good);
}

#[test]
fn fail_fast_ends_with_the_first_failure_of_the_order() {
    for jobs in ["1", "4"] {
        let ran = sim(&["sweep", "--seeds", "0..1000", "--fail-fast", "--json", "--jobs", jobs]);
        assert_eq!(ran.code, ExitCode::Unsafe);
        assert_eq!((ran.json().len(), ran.last()["runs"].clone()), (5, 4.into()));
    }
}

#[test]
fn an_interrupt_keeps_what_was_found() {
    let dir = dir();
    let scenario = file(&dir, "a.toml", "steps = ['fail S1']");
    let other = file(&dir, "b.toml", "steps = ['noise', 'interrupt', 'panic']");
    let out = path(&dir, "out");
    let lab = Lab::default();
    let line =
        ["sweep", &scenario, &other, "--seeds", "0..", "--jobs", "1", "--json", "--out", &out];
    let ran = sim_in(&lab, "", &line);
    assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
    assert_eq!(
        (ran.last()["runs"].clone(), ran.last()["interrupted"].clone()),
        (1.into(), true.into())
    );
    let manifest = std::fs::read_to_string(path(&dir, "out/sweep.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!((manifest["runs"].clone(), manifest["complete"].clone()), (1.into(), false.into()));
}

#[test]
fn a_limit_of_time_begins_no_further_run() {
    let ran = sim(&["sweep", "--for", "0s", "--json"]);
    assert_eq!((ran.code, ran.last()["runs"].clone()), (ExitCode::Good, 0.into()));
    let ran = sim(&["sweep", "--for", "10ms", "--jobs", "2", "--json"]);
    let runs = ran.last()["runs"].as_u64().expect("a count");
    assert_eq!(ran.json().len() as u64, runs + 1, "all that began are there");
}

#[test]
fn csv_takes_any_text() {
    let dir = dir();
    let name = r#"a "b", c; ../../d"#;
    let text = format!("name = '{name}'\nsteps = ['fail S1 one, \"two\"\\nthree']");
    let text = text
        .replace("'fail", "\"fail")
        .replace("\\nthree'", "\\nthree\"")
        .replace("\"two\"", "\\\"two\\\"");
    let scenario = file(&dir, "odd.toml", &text);
    let out = path(&dir, "out");
    let ran = sim(&["sweep", &scenario, "--seeds", "4", "--out", &out]);
    assert_eq!(ran.code, ExitCode::Unsafe, "{}", ran.err);
    let mut csv = csv::Reader::from_path(path(&dir, "out/rows.csv")).expect("a file");
    let header = csv.headers().expect("a header").clone();
    let row = csv.records().next().expect("a row").expect("a row");
    let cell = |column: &str| {
        let at = header.iter().position(|it| it == column).expect("a column");
        row.get(at).expect("a cell").to_owned()
    };
    assert_eq!(cell("scenario"), name);
    assert_eq!(cell("violation"), "S1 one, \"two\"\nthree");
    assert_eq!(
        (cell("seed"), cell("freeze_us_max"), cell("classes")),
        ("4".into(), "4000".into(), "kill cut".into())
    );
    let names: Vec<_> = tree(&out).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"failures/a__b___c__.._.._d-4.toml".to_owned()), "{names:?}");
}

#[test]
fn an_older_sweep_is_not_written_over() {
    let dir = dir();
    let out = path(&dir, "out");
    assert_eq!(sim(&["sweep", "--seeds", "3", "--out", &out]).code, ExitCode::Unsafe);
    let ran = sim(&["sweep", "--seeds", "1", "--out", &out]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("--force"), "{}", ran.err);
    assert_eq!(sim(&["sweep", "--seeds", "1", "--out", &out, "--force"]).code, ExitCode::Good);
    assert!(!tree(&out).iter().any(|(name, _)| name.starts_with("failures")), "they are gone");
}

#[test]
fn two_scenarios_of_one_name_are_refused() {
    let dir = dir();
    let one = file(&dir, "one.toml", "name = 'same'");
    let other = file(&dir, "other.toml", "name = 'same'");
    let ran = sim(&["sweep", &one, &other]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("are both called same"), "{}", ran.err);
    let empty = tempfile::tempdir().expect("a folder");
    let ran = sim(&["sweep", empty.path().to_str().expect("a path")]);
    assert!(ran.err.contains("has no .toml file in it"), "{}", ran.err);
}

#[test]
fn the_failures_that_are_kept_replay() {
    let dir = dir();
    let out = path(&dir, "out");
    sim(&["sweep", "--seeds", "0..14", "--out", &out, "--failures", "2"]);
    let kept: Vec<_> =
        tree(&out).into_iter().filter(|(name, _)| name.ends_with("trace.jsonl")).collect();
    assert_eq!(kept.len(), 2);
    let trace = path(&dir, "out/failures/drawn-3.trace.jsonl");
    assert_eq!(sim(&["replay", &trace, "--quiet"]).code, ExitCode::Unsafe);
    let scenario = path(&dir, "out/failures/drawn-3.toml");
    assert_eq!(sim(&["run", &scenario]).code, ExitCode::Unsafe, "it knows its seed");
}
