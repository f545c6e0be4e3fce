//! Scenarios as files.

use toml::de::{DeTable, DeValue};

use super::error::{Problem, ScenarioError};
use super::expect::Expect;
use super::load::Topic;
use super::read::{Cx, Item, Reader};
use super::step::Step;
use super::table::{Section, Value};
use super::value::Out;
use super::{AbstractLog, Chances, Cluster, Disk, Head, Network, Scenario, Workload};

/// The longest line on which a nested table is written in braces.
const LINE_MAX: usize = 100;

impl Scenario {
    /// Reads a scenario from TOML. The name is used where the text gives none, and in messages.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, each with its line: what is no TOML, keys and values that
    /// do not exist, and what cannot be meant, such as a node that there is not.
    ///
    /// # Examples
    ///
    /// A slip of the pen is found, and corrected:
    ///
    /// ```
    /// use narad_sim::scenario::Scenario;
    ///
    /// let text = "[[step]]\nat = \"3s\"\ndo = \"kil\"\nnode = \"n1\"\n";
    /// let error = Scenario::parse(text, "slip.toml").unwrap_err();
    /// assert!(error.to_string().starts_with("slip.toml:3: step 1.do: \"kil\" is not allowed here"));
    /// assert!(error.to_string().contains("did you mean \"kill\"?"));
    /// ```
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        let failed = |problems| ScenarioError { name: name.to_owned(), problems };
        let cx = Cx::new(text);
        let table = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            let problem = syntax(error.message(), text.get(span.clone()).unwrap_or_default());
            failed(vec![Problem { line: cx.line(span.start), key: String::new(), text: problem }])
        })?;
        let reader = Reader::over(&cx, table.get_ref(), "", 0);
        let read = read(&reader);
        let read = reader.finish_as("at the top").and(read);
        let Some(mut scenario) = read else {
            return Err(failed(cx.into_problems()));
        };
        if scenario.head.name.is_empty() {
            stem(name).clone_into(&mut scenario.head.name);
        }
        let mut problems = scenario.check();
        for problem in &mut problems {
            problem.line = cx.line_of(&problem.key);
        }
        problems.sort();
        if problems.is_empty() { Ok(scenario) } else { Err(failed(problems)) }
    }

    /// Writes the scenario as TOML, without what has its default value.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        write_keys(&mut text, "", self.head.write());
        write_section(&mut text, "cluster", self.cluster.write());
        for topic in &self.topics {
            write_item(&mut text, "topic", topic.write());
        }
        write_section(&mut text, "workload", self.workload.write());
        write_section(&mut text, "network", self.network.write());
        write_section(&mut text, "disk", self.disk.write());
        write_section(&mut text, "abstract_log", self.abstract_log.write());
        write_section(&mut text, "chance", self.chance.write());
        for step in &self.steps {
            write_item(&mut text, "step", Out::Table(step.write()));
        }
        for expect in &self.expects {
            write_item(&mut text, "expect", Out::Table(expect.write()));
        }
        text.trim_start().to_owned()
    }

    /// Returns the scenario that a text without a single key is.
    #[must_use]
    pub fn empty(name: &str) -> Self {
        Self {
            head: Head { name: name.to_owned(), ..unset() },
            cluster: unset(),
            topics: Vec::new(),
            workload: unset(),
            network: unset(),
            disk: unset(),
            abstract_log: unset(),
            chance: unset(),
            steps: Vec::new(),
            expects: Vec::new(),
        }
    }
}

/// Returns a section that has no key.
pub(super) fn unset<T: Section>() -> T {
    let (cx, table) = (Cx::new(""), DeTable::new());
    let reader = Reader::over(&cx, &table, "", 0);
    T::read_from(&reader).expect("no key of these sections is required")
}

/// The name of a file without its folder and its ending.
fn stem(name: &str) -> &str {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    name.strip_suffix(".toml").unwrap_or(name)
}

fn read(reader: &Reader<'_>) -> Option<Scenario> {
    let head = Head::read_from(reader);
    let cluster = reader.optional::<Cluster>("cluster");
    let topics = items(reader, "topic", Topic::read);
    let workload = reader.optional::<Workload>("workload");
    let network = reader.optional::<Network>("network");
    let disk = reader.optional::<Disk>("disk");
    let abstract_log = reader.optional::<AbstractLog>("abstract_log");
    let chance = reader.optional::<Chances>("chance");
    let steps = items(reader, "step", |cx, item, path| Step::read(&Reader::open(cx, item, path)?));
    let expects =
        items(reader, "expect", |cx, item, path| Expect::read(&Reader::open(cx, item, path)?));
    Some(Scenario {
        head: head?,
        cluster: cluster?.unwrap_or_else(unset),
        topics: topics?,
        workload: workload?.unwrap_or_else(unset),
        network: network?.unwrap_or_else(unset),
        disk: disk?.unwrap_or_else(unset),
        abstract_log: abstract_log?.unwrap_or_else(unset),
        chance: chance?.unwrap_or_else(unset),
        steps: steps?,
        expects: expects?,
    })
}

/// Reads the tables `[[key]]`.
fn items<T>(
    reader: &Reader<'_>,
    key: &'static str,
    read: impl Fn(&Cx<'_>, &Item<'_>, &str) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(item) = reader.item(key) else {
        return Some(Vec::new());
    };
    let DeValue::Array(list) = item.get_ref() else {
        reader.cx.refuse(item, key, &format!("tables that begin with [[{key}]]"));
        return None;
    };
    let read_all: Vec<Option<T>> = list
        .iter()
        .enumerate()
        .map(|(at, item)| {
            let path = format!("{key} {}", at + 1);
            reader.cx.saw(&path, item.span().start);
            read(reader.cx, item, &path)
        })
        .collect();
    // All are read before the first failure ends it, so that each complains for itself.
    read_all.into_iter().collect()
}

/// Says what keeps a text from being TOML, with what to do about it where that is known.
fn syntax(message: &str, at: &str) -> String {
    if message != "duplicate key" || at.is_empty() {
        return message.to_owned();
    }
    format!(
        "`{at}` is given twice in one table: keep one of them; two conditions of the same kind need \
         an [[expect]] each"
    )
}

fn write_section(text: &mut String, name: &str, out: Out) {
    match out {
        Out::Table(keys) if keys.is_empty() => {}
        _ => {
            add(text, format!("\n[{name}]\n"));
            write_keys(text, name, out);
        }
    }
}

fn write_item(text: &mut String, name: &str, out: Out) {
    add(text, format!("\n[[{name}]]\n"));
    write_keys(text, "", out);
}

/// Writes the keys of a table; those whose values are long tables become sections of their own,
/// after the others, if the table is a section.
fn write_keys(text: &mut String, section: &str, out: Out) {
    let Out::Table(keys) = out else { return };
    let mut later = Vec::new();
    for (key, value) in keys {
        let line = format!("{key} = {}", inline(&value));
        match value {
            Out::Table(_) if line.len() > LINE_MAX && !section.is_empty() => {
                later.push((key, value));
            }
            _ => {
                text.push_str(&line);
                text.push('\n');
            }
        }
    }
    for (key, value) in later {
        write_section(text, &format!("{section}.{key}"), value);
    }
}

/// Writes a value on one line.
pub(super) fn inline(out: &Out) -> String {
    match out {
        Out::Text(text) => toml::Value::String(text.clone()).to_string(),
        Out::Integer(number) => number.to_string(),
        Out::Float(number) => number.to_string(),
        Out::Boolean(on) => on.to_string(),
        Out::List(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Out::Table(keys) if keys.is_empty() => "{}".to_owned(),
        Out::Table(keys) => {
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key} = {}", inline(value))).collect();
            format!("{{ {} }}", keys.join(", "))
        }
    }
}

/// Appends what was formatted.
pub(super) fn add(text: &mut String, more: String) {
    text.push_str(&more);
}
