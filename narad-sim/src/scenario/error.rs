//! What is wrong with a scenario, and where.

use std::fmt;

/// Why a text is no scenario: everything that was found wrong, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The name of the scenario, or of its file.
    pub name: String,
    /// What is wrong; never empty.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from one; zero if the scenario was not read from a text.
    pub line: usize,
    /// The key, such as `step[2].on.node`; empty if the text as a whole is meant.
    pub key: String,
    /// What is wrong with it, and what is allowed.
    pub text: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{problem}", self.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "{}: ", self.line)?;
        } else {
            write!(f, " ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.text)
    }
}

/// Returns `; did you mean "…"?` for the candidate that looks most like a word, or nothing.
pub(super) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    // `moved` means `mover-moved`, whatever else it looks like.
    let likeness = |candidate: &str| {
        let part = candidate.strip_suffix(word).is_some_and(|before| before.ends_with('-'));
        if part { 1.0 } else { strsim::jaro_winkler(word, candidate) }
    };
    candidates
        .into_iter()
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map_or_else(String::new, |(_, candidate)| format!("; did you mean \"{candidate}\"?"))
}
