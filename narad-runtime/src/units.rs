//! Durations and numbers as people write them.

use std::time::Duration;

/// Units with their lengths in milliseconds, the longest first.
pub(crate) const DURATIONS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `200ms`, `10s`, `2min`, `24h` or `7d`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let unit = if unit == "m" { "min" } else { unit };
    let (_, factor) = DURATIONS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor).map(Duration::from_millis)
}

/// Takes a number and its unit apart.
pub(crate) fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Returns `noun` for one, and with an s for any other number.
#[cfg(feature = "cli")]
pub(crate) fn counted(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    }
}
