//! Reads TOML so that every complaint has a line, a key, a value and what is allowed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Problem, did_you_mean};
use super::table::Value;

/// A value with its place in the text.
pub(super) type Item<'t> = Spanned<DeValue<'t>>;

/// The text that is read, and what was found wrong with it.
pub(super) struct Cx<'t> {
    text: &'t str,
    problems: RefCell<Vec<Problem>>,
    /// On which line each key is.
    lines: RefCell<BTreeMap<String, usize>>,
}

impl<'t> Cx<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::new(Vec::new()), lines: RefCell::new(BTreeMap::new()) }
    }

    /// Notes that something is wrong on a line.
    pub(super) fn complain(&self, line: usize, key: &str, text: impl Into<String>) {
        let problem = Problem { line, key: key.to_owned(), text: text.into() };
        self.problems.borrow_mut().push(problem);
    }

    /// Notes that a value is wrong.
    pub(super) fn refuse(&self, item: &Item<'_>, key: &str, allowed: &str) {
        let found = self.text.get(item.span()).unwrap_or_default();
        let found = found.lines().next().unwrap_or_default();
        let text = format!("{found} is not allowed here: give {allowed}");
        self.complain(self.line(item.span().start), key, text);
    }

    /// Returns the text of a value that must be one.
    pub(super) fn text<'i>(&self, item: &'i Item<'_>, key: &str, allowed: &str) -> Option<&'i str> {
        let text = item.get_ref().as_str();
        if text.is_none() {
            self.refuse(item, key, allowed);
        }
        text
    }

    /// Returns which of some words a value is.
    pub(super) fn word<'w>(
        &self,
        item: &Item<'_>,
        key: &str,
        words: &[&'w str],
    ) -> Option<&'w str> {
        let allowed = || format!("one of {}", listed(words));
        let word = self.text(item, key, &allowed())?;
        let found = words.iter().find(|candidate| **candidate == word).copied();
        if found.is_none() {
            let hint = did_you_mean(word, words.iter().copied());
            let text = format!("\"{word}\" is not allowed here{hint} Give {}", allowed());
            let text = if hint.is_empty() { text.replacen(" Give", ": give", 1) } else { text };
            self.complain(self.line(item.span().start), key, text);
        }
        found
    }

    /// Returns the line of a place in the text, from one.
    pub(super) fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        1 + before.filter(|byte| **byte == b'\n').count()
    }

    /// Returns the line of a key, or of the nearest thing around it.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let lines = self.lines.borrow();
        let mut key = key;
        loop {
            if let Some(line) = lines.get(key) {
                return *line;
            }
            match key.rfind(['.', '[']) {
                Some(at) => key = &key[..at],
                None => return 1,
            }
        }
    }

    pub(super) fn saw(&self, key: &str, at: usize) {
        self.lines.borrow_mut().insert(key.to_owned(), self.line(at));
    }

    /// Returns what was found wrong, in the order of the lines.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| problem.line);
        problems
    }
}

/// Reads the keys of one table.
pub(super) struct Reader<'t> {
    pub(super) cx: &'t Cx<'t>,
    table: Keys<'t>,
    path: String,
    at: usize,
    known: RefCell<Vec<&'static str>>,
}

/// The keys of a table, or one value that stands for the table `{ is = value }`.
enum Keys<'t> {
    Table(&'t DeTable<'t>),
    Is(&'t Item<'t>),
}

impl<'t> Reader<'t> {
    /// Opens a value that must be a table.
    pub(super) fn open(cx: &'t Cx<'t>, item: &'t Item<'t>, path: &str) -> Option<Self> {
        let DeValue::Table(table) = item.get_ref() else {
            cx.refuse(item, path, "a table, such as { key = value }");
            return None;
        };
        Some(Self::over(cx, table, path, item.span().start))
    }

    /// Opens a table, or takes another value as that of its key `is`.
    pub(super) fn open_is(cx: &'t Cx<'t>, item: &'t Item<'t>, path: &str) -> Self {
        match item.get_ref() {
            DeValue::Table(table) => Self::over(cx, table, path, item.span().start),
            _ => Self {
                cx,
                table: Keys::Is(item),
                path: path.to_owned(),
                at: item.span().start,
                known: RefCell::default(),
            },
        }
    }

    pub(super) fn over(cx: &'t Cx<'t>, table: &'t DeTable<'t>, path: &str, at: usize) -> Self {
        let path = path.to_owned();
        Self { cx, table: Keys::Table(table), path, at, known: RefCell::default() }
    }

    /// Reads a key that must be there.
    pub(super) fn required<T: Value>(&self, key: &'static str) -> Option<T> {
        let given = self.optional::<T>(key)?;
        if given.is_none() {
            let text = format!("`{key}` is missing: give {}", T::kind());
            self.cx.complain(self.cx.line(self.at), &self.path, text);
        }
        given
    }

    /// Reads a key that may be there.
    #[expect(clippy::option_option, reason = "the outer one is none if the value is wrong")]
    pub(super) fn optional<T: Value>(&self, key: &'static str) -> Option<Option<T>> {
        match self.item(key) {
            None => Some(None),
            Some(item) => T::read(self.cx, item, &self.key(key)).map(Some),
        }
    }

    /// Returns the value of a key, which is known from now on.
    pub(super) fn item(&self, key: &'static str) -> Option<&'t Item<'t>> {
        self.knows(&[key]);
        let found = match self.table {
            Keys::Table(table) => table.get(key),
            Keys::Is(item) => (key == "is").then_some(item),
        };
        if let Some(item) = found {
            self.cx.saw(&self.key(key), item.span().start);
        }
        found
    }

    /// Takes keys as known.
    pub(super) fn knows(&self, keys: &[&'static str]) {
        let mut known = self.known.borrow_mut();
        for key in keys {
            if !known.contains(key) {
                known.push(key);
            }
        }
    }

    /// Returns the path of a key.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Returns the path of the table.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line on which the table begins.
    pub(super) fn line(&self) -> usize {
        self.cx.line(self.at)
    }

    /// Complains of every key that nobody asked for.
    pub(super) fn finish(&self) -> Option<()> {
        self.finish_as("here")
    }

    /// The same, with a word for what the keys are of.
    pub(super) fn finish_as(&self, of: &str) -> Option<()> {
        let known = self.known.borrow();
        let given: Vec<(&str, usize)> = match self.table {
            Keys::Table(table) => {
                table.iter().map(|(key, _)| (key.get_ref().as_ref(), key.span().start)).collect()
            }
            Keys::Is(item) => vec![("is", item.span().start)],
        };
        let mut fine = Some(());
        for (key, at) in given {
            if known.contains(&key) {
                continue;
            }
            let hint = did_you_mean(key, known.iter().copied());
            let end = if hint.is_empty() { "." } else { "" };
            let allowed = listed(&known);
            let text = format!("there is no key `{key}` {of}{hint}{end} Allowed: {allowed}");
            self.cx.complain(self.cx.line(at), &self.path, text);
            fine = None;
        }
        fine
    }
}

/// Lists words for people.
pub(super) fn listed(words: &[&str]) -> String {
    words.join(", ")
}
