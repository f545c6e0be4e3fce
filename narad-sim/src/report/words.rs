//! What the text of a line says beside its fields.
//!
//! A line may carry `key=value` words in its text; what they mean is said where they are used.
//! Where the world writes a value as it is printed for debugging, that is understood too.

use crate::trace::Line;

/// Returns the value of `key=value` in the text of a line.
pub(super) fn value<'a>(line: &'a Line, key: &str) -> Option<&'a str> {
    line.text
        .split([' ', ',', ';'])
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .filter(|value| !value.is_empty())
}

/// Returns the number in `key=number` in the text of a line.
pub(super) fn number(line: &Line, key: &str) -> Option<u64> {
    value(line, key)?.parse().ok()
}

/// Returns the value of a field that is printed as `key: value` or `key: Some(value)`.
pub(super) fn field<'a>(line: &'a Line, key: &str) -> Option<&'a str> {
    let (at, _) = line.text.match_indices(key).find(|(at, _)| {
        let before = line.text[..*at].chars().next_back();
        let is_whole = before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
        is_whole && line.text[at + key.len()..].starts_with(": ")
    })?;
    let rest = &line.text[at + key.len() + 2..];
    let rest = rest.strip_prefix("Some(").unwrap_or(rest);
    let end = rest.find([',', ' ', ')', '}']).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|value| !value.is_empty() && *value != "None")
}

/// Returns the number in such a field, whose type may be printed as a sign before it.
pub(super) fn field_number(line: &Line, key: &str) -> Option<u64> {
    field(line, key)?.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()
}

/// Returns the place in the log of an applied entry: `index=44`, or `entry 44 by …`.
pub(super) fn entry(line: &Line) -> Option<u64> {
    let told = || line.text.strip_prefix("entry ")?.split(' ').next()?.parse().ok();
    number(line, "index").or_else(told)
}

/// Returns who proposed an applied entry: `entry 44 by n2: …`.
pub(super) fn proposer(line: &Line) -> Option<String> {
    let (_, rest) = line.text.strip_prefix("entry ")?.split_once(" by ")?;
    let name = rest.split(':').next()?.trim();
    let is_number = !name.is_empty() && name.chars().all(|digit| digit.is_ascii_digit());
    Some(if is_number { format!("n{name}") } else { name.to_owned() })
}

/// Returns the owner and the epoch that an applied command expects: `expect: Expect { owner: n1,
/// epoch: e1, … }`.
pub(super) fn expected(line: &Line) -> Option<(&str, u64)> {
    line.text.contains("expect: Expect {").then_some(())?;
    Some((field(line, "owner")?, field_number(line, "epoch")?))
}

/// Says whether an applied command is the one that gives a partition its new owner.
pub(super) fn is_flip(line: &Line) -> bool {
    matches!(line.name.as_str(), "flip" | "CompleteMove")
}

/// Says whether an applied command changed nothing because it was refused.
pub(super) fn is_rejected(line: &Line) -> bool {
    value(line, "reply").is_some_and(|reply| reply.starts_with("rejected"))
}

/// Returns whom the note `leader` names: `Leader(Some(n3))`.
pub(super) fn leader(line: &Line) -> Option<&str> {
    line.text.strip_prefix("Leader(Some(")?.strip_suffix("))")
}
