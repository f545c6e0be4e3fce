//! The reference of the format, made from the tables that read it.

mod examples;

pub(super) use self::examples::EXAMPLES;
use super::action::Action;
use super::expect::{Condition, Expect};
use super::file::{add, inline};
use super::step::{Repeat, STAGES, Stage, When};
use super::table::{Choice, Key, Need, Section, Value};
use super::vocabulary::{ABOUT, BLOCKERS, RAFT, REASONS, WAITING, names_of};
use super::{
    AbstractLog, Between, Bytes, Chance, Chances, Cluster, ConfigChange, Consume, Disk, Filter,
    Head, Label, Machine, Network, Pace, PartitionName, PolicyChange, Produce, Raft, Rate, Shift,
    Side, Topic, TopicName, Who, Workload,
};
use std::time::Duration;

/// The widest line.
const WIDTH: usize = 100;

/// Returns the reference of the format of scenarios, for people.
///
/// It is made from the same tables that read the files, so that it names every key, every action,
/// every condition and every event, each with an example.
#[must_use]
pub fn schema() -> String {
    let mut text = String::new();
    intro(&mut text);
    values(&mut text);
    keys(&mut text, "Top of the file", "", &[], Head::KEYS);
    for (name, says, of) in sections() {
        keys(&mut text, name, says, &[], of);
    }
    steps(&mut text);
    events(&mut text);
    actions(&mut text);
    expectations(&mut text);
    text
}

/// Every section with its keys.
pub(super) fn sections() -> Vec<(&'static str, &'static str, &'static [Key])> {
    vec![
        ("[cluster]", "The machines.", Cluster::KEYS),
        (
            "[cluster] policy = { .. }, and the step `policy`",
            "What all nodes agree on.",
            PolicyChange::KEYS,
        ),
        ("[cluster] config = { .. }", "What each node decides for itself.", ConfigChange::KEYS),
        ("[cluster] raft = { .. }", "Raft's own numbers.", Raft::KEYS),
        ("[[topic]]", "One table for each topic that is there from the start.", Topic::KEYS),
        ("[workload]", "What clients do all the time.", Workload::KEYS),
        ("[workload] produce = { .. }", "Producers.", Produce::KEYS),
        ("[workload] consume = { .. }", "Consumers.", Consume::KEYS),
        ("[network]", "What may happen to every message.", Network::KEYS),
        ("[disk]", "What may happen at every step of a disk.", Disk::KEYS),
        (
            "[abstract_log]",
            "How the abstract log misbehaves; with metastore = \"abstract\".",
            AbstractLog::KEYS,
        ),
        (
            "[chance]",
            "What happens every now and then, at times and places that the seed picks. Each number \
             is how often, per minute of the safety phase.",
            Chances::KEYS,
        ),
    ]
}

fn intro(text: &mut String) {
    text.push_str("NARAD SCENARIOS\n\n");
    paragraph(
        text,
        0,
        "A scenario is a TOML file: a cluster, a load, what goes wrong, and what must come true. \
         Everything has a default, so a file says only what matters. Unknown keys are errors. The \
         invariants S1 to S18 and L1 to L7 are always checked; expectations come on top.",
    );
    text.push('\n');
    paragraph(
        text,
        0,
        "A run has two phases. In the safety phase anything may go wrong. Then a core is healed (a \
         quorum, and the source disk of every move), the rest stays as it is, and in the liveness \
         phase everything must finish or say why it cannot.",
    );
    text.push('\n');
    paragraph(
        text,
        0,
        "Nodes are called n1, n2, …: first the founding ones, then the spares. Partitions are \
         called by topic and number, such as orders/0. Times are texts such as \"250ms\", \"1.5s\", \
         \"2min\" and count true time, which no node's clock need agree with. Sizes are numbers of \
         bytes or texts such as \"64KiB\". Probabilities go from 0 to 1.",
    );
    for (title, example) in EXAMPLES {
        heading(text, &format!("Example: {title}"));
        for line in example.lines() {
            text.push_str(if line.is_empty() { "" } else { "    " });
            text.push_str(line);
            text.push('\n');
        }
    }
}

fn heading(text: &mut String, title: &str) {
    add(text, format!("\n\n{title}\n{}\n\n", "-".repeat(title.chars().count())));
}

fn keys(text: &mut String, title: &str, says: &str, skip: &[&str], keys: &[Key]) {
    heading(text, title);
    if !says.is_empty() {
        paragraph(text, 0, says);
        text.push('\n');
    }
    for key in keys.iter().filter(|key| !skip.contains(&key.name)) {
        describe(text, 2, key);
    }
}

/// Writes a key as its example, what it takes, what holds without it, and what it is.
fn describe(text: &mut String, indent: usize, key: &Key) {
    let need = match key.need {
        Need::Required => ", required".to_owned(),
        Need::Optional => String::new(),
        Need::Default(value) => match inline(&value()).as_str() {
            "{}" | "\"\"" | "[]" => String::new(),
            value => format!(", default {value}"),
        },
    };
    let need = paces(key.name).filter(|_| indent == 2).map_or(need, |paces| format!(", {paces}"));
    let example = format!("{:indent$}{} = {}", "", key.name, key.example);
    add(text, format!("{example:<48} # {}{need}\n", key.short));
    let words =
        if key.short == "word" { format!("One of {}.", (key.kind)()) } else { String::new() };
    paragraph(text, indent + 4, &format!("{} {words}", joined(key.about)));
    // Tables that are described elsewhere are not repeated.
    let inner = (key.keys)();
    let same = |keys: &[Key]| keys.len() == inner.len() && keys[0].name == inner[0].name;
    let elsewhere = sections().iter().any(|(_, _, keys)| !inner.is_empty() && same(keys));
    if !elsewhere && key.short != "event" {
        for key in inner {
            describe(text, indent + 4, key);
        }
    }
}

/// The value of a key of the policy or the configuration at each pace.
fn paces(name: &str) -> Option<String> {
    let at = |pace: Pace| {
        let mut all = Vec::new();
        PolicyChange::of(&pace.policy()).write_to(&mut all);
        ConfigChange::of(&pace.config(1)).write_to(&mut all);
        let found = all.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| inline(value))
    };
    let (fast, real) = (at(Pace::Fast)?, at(Pace::Real)?);
    Some(if fast == real { format!("default {real}") } else { format!("fast {fast}, real {real}") })
}

/// Values that many keys take.
fn values(text: &mut String) {
    heading(text, "Values");
    let all: [(&str, String); 14] = [
        (Duration::SHORT, Duration::kind()),
        (Between::SHORT, Between::kind()),
        (Shift::SHORT, Shift::kind()),
        (Bytes::SHORT, Bytes::kind()),
        (Chance::SHORT, Chance::kind()),
        (Rate::SHORT, Rate::kind()),
        (u32::SHORT, u32::kind()),
        (Machine::SHORT, Machine::kind()),
        (Who::SHORT, Who::kind()),
        (Side::SHORT, Side::kind()),
        (PartitionName::SHORT, PartitionName::kind()),
        (TopicName::SHORT, TopicName::kind()),
        (Label::SHORT, Label::kind()),
        ("word", "one of those that the key lists".to_owned()),
    ];
    for (short, kind) in all {
        add(text, format!("  {short}\n"));
        paragraph(text, 6, &format!("{kind}."));
    }
    text.push('\n');
    paragraph(
        text,
        0,
        "\"leader\", \"follower\", \"owner of ..\" and \"target of ..\" are looked up when the step is \
         taken, or the event happens. Where there is none, the step does nothing, and the trace \
         says so.",
    );
}

fn steps(text: &mut String) {
    keys(
        text,
        "[[step]]",
        "One table for each thing that is done to the world. All steps are armed from the start, \
         whatever their order; of several that are due at the same moment, the first in the file \
         comes first. With `at` alone a step is taken at that time; with `on`, when the event \
         happens; with `on` and `at`, when it happens from that time on; with `since`, once the \
         step of that label was taken, or at the first event of `on` after that; with none of them, \
         at the start. When the safety phase ends, no further step is taken, and what is still held \
         is let go.",
        &[],
        When::KEYS,
    );
    text.push_str("  repeat = { every = \"5s\", times = 3 }\n");
    paragraph(text, 6, "Takes the step several times; not with `on`.");
    for key in Repeat::KEYS {
        describe(text, 6, key);
    }
    text.push_str("  label = \"late-flip\"\n");
    paragraph(
        text,
        6,
        "Its name, for `since` and `of` of other steps and of expectations. To name a moment, label \
         a step that does a `note` then.",
    );
    text.push_str("  do = \"hold\"\n");
    paragraph(
        text,
        6,
        "What is done: one of the actions below, whose keys stand beside it. Required.",
    );
    keys(
        text,
        "on = { .. }: events of the protocol",
        "Exactly one key says what happens, by its name; the others say which of those are meant. \
         Events are counted one by one for every step: `nth` and `times` count those that the \
         other keys let through.",
        &[],
        STAGES,
    );
    text.push('\n');
    for key in Filter::KEYS {
        describe(text, 2, key);
    }
}

fn events(text: &mut String) {
    heading(text, "Names of events");
    for (of, stages) in [
        (Stage::Effect, "effect, performed, done"),
        (Stage::Send, "send, deliver"),
        (Stage::Applied, "applied, committed"),
        (Stage::Note, "note"),
        (Stage::Phase, "phase"),
        (Stage::Freeze, "freeze"),
    ] {
        for (what, names) in names_of(of) {
            paragraph(text, 0, &format!("{stages} = {what}:"));
            // What was described before is only named.
            let mut said = Vec::new();
            for name in *names {
                let line = named(name);
                if *names == RAFT || name.ends_with("-answer") || text.contains(&line) {
                    said.push(*name);
                } else {
                    text.push_str(&line);
                }
            }
            if !said.is_empty() {
                paragraph(text, 4, &said.join(", "));
            }
            text.push('\n');
        }
    }
    paragraph(text, 0, "reason (of note = \"mover-waiting\", and of the condition `waiting`):");
    for name in WAITING {
        text.push_str(&named(name));
    }
    for (of, names) in [
        ("reason of a `reply` that is \"refused\"", REASONS),
        ("reason of a `reply` that is \"blocked\"", BLOCKERS),
    ] {
        text.push('\n');
        paragraph(text, 0, &format!("{of}:"));
        paragraph(text, 4, &names.join(", "));
    }
}

fn named(name: &str) -> String {
    let about = about(name).map_or_else(|| "its answer".to_owned(), str::to_owned);
    format!("    {name:<26} {about}\n")
}

/// What a name means; nothing if it is the answer to a question.
pub(super) fn about(name: &str) -> Option<&'static str> {
    ABOUT.iter().find(|(known, _)| *known == name).map(|(_, about)| *about)
}

fn actions(text: &mut String) {
    heading(text, "do = \"..\": actions");
    paragraph(
        text,
        0,
        "What lasts ends after `for`; without it, when another step ends it, or `heal-all`, or the \
         liveness phase for the core that it heals. Operators ask again until they are answered.",
    );
    for action in Action::VARIANTS {
        add(text, format!("\n  do = \"{}\"\n", action.name));
        paragraph(text, 6, &joined(action.about));
        for key in action.keys {
            describe(text, 6, key);
        }
    }
}

fn expectations(text: &mut String) {
    heading(text, "[[expect]]");
    paragraph(
        text,
        0,
        "One table for each thing that must be true at the end, or when `at`, `on` and `since` say, \
         which are those of steps. Several conditions in one table must be true together. A \
         condition whose only key is `is` may be written without braces.",
    );
    text.push('\n');
    for (example, says) in Expect::KEYS {
        add(text, format!("  {example}\n"));
        paragraph(text, 6, says);
    }
    for condition in Condition::VARIANTS {
        add(text, format!("\n  {}\n", example_of(condition.name, condition.keys)));
        paragraph(text, 6, &joined(condition.about));
        for key in condition.keys {
            describe(text, 6, key);
        }
    }
}

/// A condition with its required keys, and the first of the others if there are none.
pub(super) fn example_of(name: &str, keys: &[Key]) -> String {
    let given: Vec<String> = keys
        .iter()
        .filter(|key| matches!(key.need, Need::Required) || key.name == "at_least")
        .map(|key| format!("{} = {}", key.name, key.example))
        .collect();
    if given.is_empty() {
        return format!("{name} = true");
    }
    format!("{name} = {{ {} }}", given.join(", "))
}

fn joined(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Writes a text with lines of a bearable length.
fn paragraph(text: &mut String, indent: usize, says: &str) {
    let mut column = 0;
    for word in says.split_whitespace() {
        if column > 0 && column + 1 + word.chars().count() > WIDTH {
            text.push('\n');
            column = 0;
        }
        if column == 0 {
            text.push_str(&" ".repeat(indent));
            column = indent;
        } else {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.chars().count();
    }
    text.push('\n');
}
