//! `replay`.

use narad_core::config::Config;
use narad_core::effects::Effects;
use narad_core::ids::{Incarnation, NodeId, PartitionId, TopicId};
use narad_core::mover::journal::{Beginning, Entry, Input};
use narad_core::mover::{Event, Me, Mover};
use narad_core::partition::Recovered;
use narad_core::time::Instant;
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

/// A journal as `narad cluster trace` writes it, of a mover that was woken a few times.
fn journal(dir: &tempfile::TempDir, change: impl Fn(&mut Entry)) -> String {
    let beginning = Beginning {
        at: Instant::ORIGIN,
        me: Me { node: NodeId(2), incarnation: Incarnation(1) },
        partition: PartitionId { topic: TopicId(1), index: 3 },
        config: Config::new(7),
        found: Recovered::default(),
    };
    let Beginning { at, me, partition, config, found } = beginning.clone();
    let mut mover = Mover::new(at, me, partition, config, found, &mut Effects::default());
    let head = serde_json::json!({
        "narad_journal": 1, "partition": "orders/3", "node": "narad-2", "left_out": 0,
        "beginning": beginning,
    });
    let mut text = format!("{head}\n");
    for second in 1..4 {
        let at = at.after(std::time::Duration::from_secs(second));
        let (input, mut out) = (Input::Event(Event::Wake), Effects::default());
        mover.handle(at, Event::Wake, &mut out);
        let effects = u32::try_from(out.as_slice().len()).expect("few");
        let mut entry = Entry { at, input, effects, phase: mover.phase() };
        change(&mut entry);
        text.push_str(&serde_json::to_string(&entry).expect("JSON"));
        text.push('\n');
    }
    file(dir, "t.jsonl", &text)
}

/// The journal of a real node is stepped through like any other trace.
#[test]
fn the_journal_of_a_node_is_replayed() {
    let dir = dir();
    let journal_file = journal(&dir, |_| {});
    let ran = sim(&["replay", &journal_file]);
    assert_eq!(ran.code, ExitCode::Good, "{}", ran.out);
    assert!(ran.out.ends_with("3 inputs of orders/3 to narad-2 as recorded\n"), "{}", ran.out);
    assert!(ran.out.contains("1.000000 s  wake      deadline  narad-2  orders/3"), "{}", ran.out);
    assert!(ran.out.contains("phase     locate"), "{}", ran.out);
    let json = sim(&["replay", &journal_file, "--json"]).last();
    assert_eq!((&json["inputs"], &json["same"]), (&3.into(), &true.into()));
    let ran = sim(&["replay", &journal_file, "--break-on", "wake,nth=2"]);
    assert_eq!(ran.code, ExitCode::Good);
    assert!(ran.out.contains("orders/3 mover: Progress"), "{}", ran.out);

    let other = journal(&dir, |entry| entry.effects += 9);
    let ran = sim(&["replay", &other, "--quiet"]);
    assert_eq!(ran.code, ExitCode::Unexpected, "{}", ran.out);
    assert!(ran.out.contains("after 0 inputs that came out the same"), "{}", ran.out);
    let text = std::fs::read_to_string(&other).expect("written").replace("\"Wake\"", "\"Sleep\"");
    let ran = sim(&["replay", &file(&dir, "bad.jsonl", &text)]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("line 2 is no input of a mover"), "{}", ran.err);
}
