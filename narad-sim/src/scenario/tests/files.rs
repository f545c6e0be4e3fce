//! Files: what is read, what is refused and how that is said.

use super::super::schema::{EXAMPLES, about, example_of, sections};
use super::super::step::STAGES;
use super::super::table::{Choice, Key, Need, Section, Variant};
use super::super::vocabulary::names_of;
use super::*;

/// A cluster in which every example's names exist.
const SURROUNDINGS: &str = r#"
[cluster]
nodes = 3
spares = 1

[[topic]]
name = "orders"
partitions = 2

[[topic]]
name = "events"

[[step]]
on = { send = "prepare" }
label = "late-flip"
do = "hold"

[[step]]
on = { send = "prepare" }
label = "old-prepare"
do = "record"

[[step]]
label = "yesterday"
do = "save-disk"
node = "n1"

[[step]]
label = "first-drain"
do = "drain"
node = "n1"
"#;

#[track_caller]
fn assert_reads(text: &str) -> Scenario {
    match Scenario::parse(text, "example.toml") {
        Ok(scenario) => {
            assert_eq!(Scenario::parse(&scenario.to_toml(), "example").as_ref(), Ok(&scenario));
            scenario
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// What is wrong with a text.
fn complaints(text: &str) -> String {
    Scenario::parse(text, "x.toml").expect_err("something is wrong with it").to_string()
}

fn given(keys: &[Key], also: Option<&str>) -> String {
    let line = |key: &&Key| matches!(key.need, Need::Required) || Some(key.name) == also;
    let lines = keys.iter().filter(line).map(|key| format!("{} = {}\n", key.name, key.example));
    lines.collect()
}

/// What an action needs beside its required keys.
fn companions(action: &Variant, key: Option<&str>) -> String {
    let on = match action.name {
        "hold" | "record" | "drop" | "duplicate" | "delay" | "corrupt" => {
            "on = { deliver = \"prepare\" }\nlabel = \"kept\"\n"
        }
        "fail" | "crash-within" => "on = { effect = \"install\" }\n",
        "save-disk" => "label = \"kept\"\n",
        "slow" if key != Some("bandwidth") => "bandwidth = 1000\n",
        "rot" | "propose" if key != Some("partition") => "partition = \"orders/0\"\n",
        _ => "",
    };
    let more = match (action.name, key) {
        ("restart", Some("disk")) => "of = \"yesterday\"\n",
        ("restart", Some("of")) => "disk = \"saved\"\n",
        ("restart", Some("from")) => "disk = \"other\"\n",
        ("heal", Some("to")) => "from = \"n1\"\n",
        _ => "",
    };
    format!("{on}{more}")
}

#[test]
fn every_example_of_the_reference_is_read() {
    for (title, example) in EXAMPLES {
        let read = assert_reads(example);
        assert!(read.steps.len() + read.expects.len() > 0 || read.chance.kill.0 > 0.0, "{title}");
    }
    for action in Action::VARIANTS {
        let each = action.keys.iter().map(|key| Some(key.name));
        for key in each.chain([None]) {
            let step = format!("[[step]]\ndo = \"{}\"\n", action.name);
            let keys = given(action.keys, key) + &companions(action, key);
            let read = assert_reads(&format!("{SURROUNDINGS}\n{step}{keys}"));
            let step = read.steps.last().expect("it was written");
            assert_eq!(step.action.word(), action.name);
        }
    }
    for condition in Condition::VARIANTS {
        let expect = example_of(condition.name, condition.keys);
        assert_reads(&format!("{SURROUNDINGS}\n[[expect]]\n{expect}\n"));
        for key in condition.keys {
            let needed = condition.keys.iter().filter(|other| {
                matches!(other.need, Need::Required)
                    || other.name == key.name
                    || (other.name == "at_least" && key.name != "is" && key.name != "at_most")
            });
            let keys: Vec<String> =
                needed.map(|key| format!("{} = {}", key.name, key.example)).collect();
            let expect = format!("{} = {{ {} }}", condition.name, keys.join(", "));
            assert_reads(&format!("{SURROUNDINGS}\n[[expect]]\n{expect}\n"));
        }
    }
    for (example, _) in Expect::KEYS {
        assert_reads(&format!("{SURROUNDINGS}\n[[expect]]\n{example}\nsettled = true\n"));
    }
}

#[test]
fn every_example_of_a_section_is_read() {
    for key in Head::KEYS {
        assert_reads(&format!("{} = {}\n", key.name, key.example));
    }
    for (title, _, keys) in sections() {
        for key in keys {
            let line = format!("{} = {}", key.name, key.example);
            let text = match title.split_once(" = ") {
                // A table within a section.
                Some((outer, _)) => {
                    let (section, name) = outer.split_once(' ').expect("it names both");
                    format!("{section}\n{name} = {{ {line} }}\n")
                }
                None if title == "[[topic]]" => {
                    let name = if key.name == "name" { "" } else { "name = \"mine\"\n" };
                    format!("[[topic]]\nname = \"events\"\n\n[[topic]]\n{name}{line}\n")
                }
                None if title == "[abstract_log]" => {
                    format!("[cluster]\nmetastore = \"abstract\"\n{title}\n{line}\n")
                }
                None => format!("{title}\n{line}\n"),
            };
            assert_reads(&text);
        }
    }
    for key in When::KEYS.iter().filter(|key| key.name != "since") {
        assert_reads(&format!("[[step]]\n{} = {}\ndo = \"quiet\"\n", key.name, key.example));
    }
    for key in Filter::KEYS {
        let event = match key.name {
            "outcome" => "done = \"flip\"",
            "reason" => "note = \"mover-waiting\"",
            _ => "effect = \"flip\"",
        };
        let on = format!("on = {{ {event}, {} = {} }}", key.name, key.example);
        assert_reads(&format!("{SURROUNDINGS}\n[[step]]\n{on}\ndo = \"quiet\"\n"));
    }
    for key in STAGES {
        let on = format!("on = {{ {} = {} }}", key.name, key.example);
        assert_reads(&format!("[[step]]\n{on}\ndo = \"quiet\"\n"));
    }
}

/// The reference is made from the tables that read files: what it must not do is leave one out.
#[test]
fn the_reference_names_every_key() {
    let text = schema();
    let mut all: Vec<&Key> = Head::KEYS.iter().chain(When::KEYS).chain(Filter::KEYS).collect();
    all.extend(STAGES);
    all.extend(sections().iter().flat_map(|(_, _, keys)| keys.iter()));
    all.extend(Action::VARIANTS.iter().flat_map(|action| action.keys));
    all.extend(Condition::VARIANTS.iter().flat_map(|condition| condition.keys));
    let inner: Vec<&Key> = all.iter().flat_map(|key| (key.keys)()).collect();
    all.extend(inner);
    for key in all {
        assert!(text.contains(&format!("{} = ", key.name)), "{} is missing", key.name);
        assert!(!key.about.is_empty());
    }
    for stage in Stage::ALL {
        assert!(STAGES.iter().any(|key| key.name == stage.word()), "{stage:?}");
        for (_, names) in names_of(*stage) {
            for name in *names {
                let known = about(name).is_some()
                    || name.starts_with("raft-")
                    || name.strip_suffix("-answer").is_some_and(|of| about(of).is_some());
                assert!(known, "nothing says what {name} is");
                assert!(text.contains(name));
            }
        }
    }
    let long: Vec<&str> =
        text.lines().filter(|line| line.chars().count() > 110 && !line.contains(" = ")).collect();
    assert_eq!(long, Vec::<&str>::new());
}

/// An action's keys stand beside those of its step.
#[test]
fn no_key_of_an_action_is_a_key_of_every_step() {
    let step = ["at", "on", "since", "after", "repeat", "label", "do"];
    for action in Action::VARIANTS {
        for key in action.keys {
            assert!(!step.contains(&key.name), "{} of {}", key.name, action.name);
        }
    }
}

#[test]
fn a_file_without_anything_is_a_scenario() {
    assert_eq!(assert_reads(""), Scenario::empty("example"));
    let toml = Scenario::empty("example").to_toml();
    assert_eq!(toml, "name = \"example\"\n");
}

#[test]
fn the_name_of_a_file_is_that_of_its_scenario() {
    let read = Scenario::parse("", "scenarios/holes/h01-late-flip.toml");
    assert_eq!(read.expect("nothing is wrong").head.name, "h01-late-flip");
}

#[test]
fn a_complaint_has_a_line_a_key_and_what_is_allowed() {
    let text = "[cluster]\nnodes = 3\n\n[[step]]\nat = \"5 sec\"\ndo = \"kill\"\nnode = \"n1\"\n";
    assert_eq!(
        complaints(text),
        "x.toml:5: step 1.at: \"5 sec\" is not allowed here: give a time, such as \"250ms\", \
         \"1.5s\" or \"2min\" (ns, us, ms, s, min, h, d)"
    );
    let text = "[cluster]\nnodez = 3\n";
    let said = complaints(text);
    assert!(said.starts_with(
        "x.toml:2: cluster: there is no key `nodez` here; did you mean \"nodes\"? Allowed: nodes, "
    ));
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let text =
        "[[step]]\nat = 3\ndo = \"kill\"\n\n[[step]]\ndo = \"kil\"\n\n[[step]]\nat = \"1s\"\n";
    let said = complaints(text);
    let lines: Vec<&str> = said.lines().map(|line| &line[..10]).collect();
    assert_eq!(lines, ["x.toml:1: ", "x.toml:2: ", "x.toml:6: ", "x.toml:8: "], "{said}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let with = |more: &str| complaints(&format!("[[topic]]\nname = \"orders\"\n\n{more}"));
    let refused = [
        ("[[step]]\ndo = \"kill\"\nnode = \"n9\"\n", "there is no node n9"),
        ("[[step]]\ndo = \"pin\"\npartition = \"order/0\"\n", "did you mean \"orders\"?"),
        ("[[step]]\ndo = \"pin\"\npartition = \"orders/7\"\n", "the topic has 1"),
        ("[[step]]\ndo = \"release\"\nof = \"lat\"\n", "no step is labelled \"lat\""),
        ("[[step]]\ndo = \"hold\"\nlabel = \"x\"\n", "which is missing"),
        (
            "[[step]]\non = { applied = \"flip\" }\nlabel = \"x\"\ndo = \"hold\"\n",
            "`hold` cannot be done to this event",
        ),
        ("[[step]]\non = { effect = \"flip\" }\ndo = \"hold\"\n", "give it a `label`"),
        (
            "[[step]]\non = { effect = \"flip\", send = \"list\" }\ndo = \"quiet\"\n",
            "this is more than one event",
        ),
        ("[[step]]\non = { node = \"n1\" }\ndo = \"quiet\"\n", "what happens is missing"),
        ("[[step]]\non = { effect = \"flop\" }\ndo = \"quiet\"\n", "did you mean \"flip\"?"),
        (
            "[[step]]\non = { effect = \"heartbeat\", partition = \"orders/0\" }\ndo = \"quiet\"\n",
            "this event concerns no partition",
        ),
        ("[[step]]\ndo = \"kill\"\nnode = \"here\"\n", "there is no `on` beside it"),
        ("[[step]]\nat = \"90s\"\ndo = \"quiet\"\n", "this is after the end, 30s"),
        ("[[step]]\ndo = \"cut\"\nfrom = \"others\"\n", "only one side can be \"others\""),
        ("[[step]]\ndo = \"join\"\nnode = \"n1\"\n", "a founding node"),
        ("[[step]]\ndo = \"restart\"\nnode = \"n1\"\ndisk = \"saved\"\n", "go together"),
        ("[[expect]]\nwithin = \"2s\"\n", "nothing is expected"),
        ("[[expect]]\ncount = { of = \"acked\" }\n", "at least one of is, at_least, at_most"),
        ("[[expect]]\nnote = { name = \"moved\", is = 1 }\n", "did you mean \"mover-moved\"?"),
        ("[[expect]]\nreply = { of = \"x\", is = \"done\" }\n", "no step is labelled \"x\""),
        (
            "[[expect]]\nlog = { node = \"n1\", partition = \"orders/0\", what = \"trash\", \
             of = \"end\", is = 0 }\n",
            "give live, staging or installed",
        ),
        (
            "[[expect]]\ndirectories = { node = \"n1\", what = \"raft\", is = 1 }\n",
            "staging, installed or trash",
        ),
        ("[cluster]\npolicy = { lease = \"20s\" }\n", "shorten the lease"),
        ("[abstract_log]\nlost = 0.5\n", "metastore = \"abstract\""),
    ];
    for (text, because) in refused {
        let said = with(text);
        assert!(said.contains(because), "{text}\n{said}");
    }
}

/// Whoever writes files and no Rust is told in their words.
#[test]
fn what_is_expected_is_said_as_a_file_has_it() {
    let said = complaints(
        "[[expect]]\nnote = { name = \"leader\", is = 1 }\nnote = { name = \"retired\", is = 1 }\n",
    );
    assert!(said.starts_with("x.toml:3: `note` is given twice in one table"), "{said}");
    assert!(said.contains("an [[expect]] each"), "{said}");

    let text = "[[expect]]\ncount = { of = \"lost\", is = 0 }\nsettled = true\n";
    let read = Scenario::parse(text, "x.toml").expect("nothing is wrong");
    let conditions = read.expects[0].conditions.iter().map(ToString::to_string);
    let conditions: Vec<String> = conditions.collect();
    assert_eq!(conditions, ["count = { of = \"lost\", is = 0 }", "settled = true"]);
}

#[test]
fn what_is_no_toml_has_a_line() {
    let said = complaints("title = \"x\"\n[cluster\nnodes = 3\n");
    assert!(said.starts_with("x.toml:2: "), "{said}");
}

#[test]
fn numbers_are_read_as_people_write_them() {
    let text = "safety = \"1.5min\"\n[network]\ndelay = [\"0.2ms\", \"2ms\"]\nloss = 1\n\
                bandwidth = \"1.5MiB\"\n[workload]\nproduce = { per_second = 0.5 }\n";
    let read = assert_reads(text);
    assert_eq!(read.head.safety, Duration::from_secs(90));
    assert_eq!(read.network.delay, Between::micros(200, 2_000));
    assert_eq!(read.network.bandwidth, Bytes(3 << 19));
    let written = read.to_toml();
    assert!(written.contains("delay") == (read.network.delay != Network::good().delay));
    assert!(written.contains("bandwidth = \"1536KiB\"") && written.contains("safety = \"90s\""));
}

proptest! {
    /// A text of any kind is refused or read, and never a panic.
    #[test]
    fn no_text_is_too_strange(text in "[\\PC\n]{0,200}") {
        let _ = Scenario::parse(&text, "strange");
    }

    #[test]
    fn times_and_sizes_come_back(nanos in any::<u64>(), bytes in any::<u64>()) {
        use super::super::value::{parse_bytes, parse_time, show_bytes, show_time};
        let time = Duration::from_nanos(nanos);
        prop_assert_eq!(parse_time(&show_time(time)), Some(time), "{}", show_time(time));
        let round = Duration::from_millis(nanos % 1_000_000);
        prop_assert_eq!(parse_time(&show_time(round)), Some(round), "{}", show_time(round));
        prop_assert_eq!(parse_bytes(&show_bytes(bytes)), Some(bytes));
    }

    /// `[chance]` becomes steps, about as many as it says.
    #[test]
    fn rates_become_steps(seed in any::<u64>()) {
        let text = "safety = \"60s\"\n[cluster]\nspares = 2\n[[topic]]\nname = \"orders\"\n\
                    partitions = 3\n[chance]\nkill = 5\nmove = 10\ncut = 2.5\nstale_disk = 1\n\
                    delete_topic = 1\njoin = 3\nrolling_restart = 1\nbit_rot = 1\npolicy = 1\n\
                    clock_rate = 2\nlong_death = 1\nwall_jump = 1\nslow_link = 1\n";
        let scenario = assert_reads(text);
        let planned = scenario.planned(&mut Random::root(seed));
        prop_assert_eq!(&planned.chance, &Scenario::empty("").chance);
        assert_writable(&planned);
        let count = |word| planned.steps.iter().filter(|step| step.action.word() == word).count();
        prop_assert_eq!(count("kill"), 6);
        prop_assert_eq!(count("move"), 10);
        prop_assert!(matches!(count("cut"), 2 | 3));
        prop_assert_eq!(count("join"), 2);
    }
}
