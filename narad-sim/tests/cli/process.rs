//! The command as a process.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

fn sim(line: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad-sim"));
    command.args(line).output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn every_command_explains_itself() {
    let help = text(&sim(&["--help"]).stdout);
    for command in [
        "run",
        "sweep",
        "replay",
        "shrink",
        "explore",
        "report",
        "plant",
        "plan",
        "draw",
        "schema",
        "completions",
        "exit-codes",
    ] {
        assert!(help.contains(&format!("  {command} ")), "{command} is listed: {help}");
        let output = sim(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(text(&output.stdout).contains("Usage: narad-sim"), "{command}");
        assert_eq!(text(&output.stderr), "", "{command}");
    }
    let codes = text(&sim(&["help", "exit-codes"]).stdout);
    assert!(codes.contains("   12  the code under test panicked"), "{codes}");
}

#[test]
fn bad_usage_is_two() {
    for line in [
        &[][..],
        &["runn"],
        &["run"],
        &["run", "--sed", "1"],
        &["sweep", "--seeds", "5..5"],
        &["sweep", "--shard", "3/2"],
        &["sweep", "--jobs", "0"],
        &["sweep", "--for", "60"],
        &["sweep", "--merge", "a", "--seeds", "1"],
        &["sweep", "--force"],
        &["replay"],
        &["replay", "trace", "--break-on", "flip"],
        &["shrink"],
        &["plant"],
        &["plan"],
        &["completions", "cmd"],
        &["run", "--seed", "1", "--json", "--format", "text"],
    ] {
        let output = sim(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(!output.stderr.is_empty(), "{line:?} says why");
        assert_eq!(text(&output.stdout), "", "{line:?}");
    }
    assert!(text(&sim(&["swep"]).stderr).contains("'sweep'"), "a near miss is told");
}

#[test]
fn a_bad_file_is_two() {
    for line in [
        &["run", "no-such-file.toml"][..],
        &["sweep", "no-such-file.toml"],
        &["replay", "no-such-file.jsonl"],
        &["shrink", "no-such-file.jsonl"],
        &["plan", "no-such-file.toml"],
        &["sweep", "--merge", "no-such-folder"],
    ] {
        let output = sim(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        let err = text(&output.stderr);
        assert!(err.starts_with("error: no-such-f"), "{line:?}: {err}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = sim(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("sweep"), "{shell}");
    }
}

#[test]
fn an_interrupt_ends_a_sweep_with_what_was_found() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_narad-sim"))
        .args(["sweep", "--seeds", "0..", "--jobs", "1", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a row").expect("text");
    assert!(first.contains("\"seed\":0"), "{first}");
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().is_ok_and(|status| status.success()));
    let last = lines.last().expect("totals").expect("text");
    let totals: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(totals["interrupted"], true);
    let exit = child.wait().expect("it has ended").code();
    assert_eq!(exit.map(Into::into), Some(totals["exit"].clone()));
}
