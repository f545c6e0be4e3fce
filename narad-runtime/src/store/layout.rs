//! The names of directories, both ways.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use narad_core::ids::{Attempt, AttemptNo, Incarnation, MoveId, NodeId, PartitionId, TopicId};
use narad_core::planted::{Bug, is_planted};

use super::What;

/// Above all partitions.
pub(crate) const PARTITIONS: &str = "partitions";
/// Above everything that was set aside.
pub(crate) const TRASH: &str = ".trash";
/// The growing copy of a partition.
pub(crate) const STAGING: &str = "staging";
/// Before the name of a log that is being created; it is empty, so a left-over means nothing.
pub(crate) const CREATING: &str = "creating-";

/// A file that is written and removed again, to find out whether the disk takes a write.
pub(crate) const PROBE: &str = "creating-probe";

/// Returns the directory of a topic.
pub(crate) fn topic_dir(topic: TopicId) -> PathBuf {
    Path::new(PARTITIONS).join(topic.to_string())
}

/// Returns the directory of a partition, relative to the disk's root.
#[must_use]
pub fn partition_dir(p: PartitionId) -> PathBuf {
    topic_dir(p.topic).join(p.index.to_string())
}

/// Returns the directory of a log, relative to the disk's root.
#[must_use]
pub fn log_dir(p: PartitionId, attempt: Attempt) -> PathBuf {
    let shared = Attempt { no: Attempt::birth(attempt.destination).no, ..attempt };
    let named = if is_planted(Bug::DirectorySharedByAttempts) { shared } else { attempt };
    partition_dir(p).join(named.to_string())
}

/// Returns the directory of the growing copy, relative to the disk's root.
#[must_use]
pub fn staging_dir(p: PartitionId) -> PathBuf {
    partition_dir(p).join(STAGING)
}

/// Reads an attempt from the name of its directory; the inverse of its `Display`.
///
/// # Examples
///
/// Only the one canonical spelling is a name:
///
/// ```
/// use narad_runtime::store::parse_attempt;
///
/// assert_eq!(parse_attempt("m7-n3-i2-a1").map(|a| a.to_string()).as_deref(), Some("m7-n3-i2-a1"));
/// assert_eq!(parse_attempt("m07-n3-i2-a1"), None);
/// ```
#[must_use]
pub fn parse_attempt(name: &str) -> Option<Attempt> {
    let mut parts = name.split('-');
    let attempt = Attempt {
        move_id: MoveId(number(parts.next()?.strip_prefix('m')?)?),
        destination: NodeId(number(parts.next()?.strip_prefix('n')?)?),
        no: AttemptNo {
            incarnation: Incarnation(number(parts.next()?.strip_prefix('i')?)?),
            n: number(parts.next()?.strip_prefix('a')?)?,
        },
    };
    parts.next().is_none().then_some(attempt)
}

/// Reads a number without sign, blanks or leading zeros, so that no two names mean the same.
pub(crate) fn number<T: FromStr>(digits: &str) -> Option<T> {
    let canonical = digits == "0" || !digits.starts_with('0');
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && canonical).then(|| digits.parse().ok()).flatten()
}

/// Names something in the trash: when, a number against collisions, whose, what.
pub(crate) fn trash_name(set_aside_ms: i64, number: u64, p: PartitionId, what: What) -> String {
    let mut name = format!("{:020}-{number}-t{}-{}-", set_aside_ms.max(0), p.topic.0, p.index);
    match what {
        What::Staging => name.push_str(STAGING),
        What::Installed(attempt) => {
            write!(name, "{attempt}").expect("a string takes any text");
        }
    }
    name
}

/// Reads a name in the trash.
pub(crate) fn parse_trash_name(name: &str) -> Option<(i64, u64, PartitionId, What)> {
    let mut parts = name.splitn(5, '-');
    let ms = parts.next().filter(|ms| ms.len() == 20 && ms.bytes().all(|b| b.is_ascii_digit()))?;
    let sequence = number(parts.next()?)?;
    let topic = TopicId(number(parts.next()?.strip_prefix('t')?)?);
    let index = number(parts.next()?)?;
    let what = match parts.next()? {
        STAGING => What::Staging,
        attempt => What::Installed(parse_attempt(attempt)?),
    };
    Some((ms.parse().ok()?, sequence, PartitionId { topic, index }, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_attempt() -> impl Strategy<Value = Attempt> {
        any::<(u64, u64, u64, u32)>().prop_map(|(m, d, i, n)| Attempt {
            move_id: MoveId(m),
            destination: NodeId(d),
            no: AttemptNo { incarnation: Incarnation(i), n },
        })
    }

    proptest! {
        #[test]
        fn names_come_back_as_they_were(attempt in any_attempt(), ms in 0..i64::MAX, at in any::<u64>()) {
            prop_assert_eq!(parse_attempt(&attempt.to_string()), Some(attempt));
            let p = PartitionId { topic: TopicId(at), index: 7 };
            for what in [What::Staging, What::Installed(attempt)] {
                let name = trash_name(ms, at, p, what);
                prop_assert_eq!(parse_trash_name(&name), Some((ms, at, p, what)));
            }
        }

        /// A name that is understood is the one that its meaning is written as (`case_058`).
        #[test]
        fn garbage_is_no_attempt(name in "[mnia0-9 +/.-]{0,16}") {
            if let Some(attempt) = parse_attempt(&name) {
                prop_assert_eq!(attempt.to_string(), name);
            }
        }
    }

    #[test]
    fn near_misses_are_no_attempts() {
        for name in [
            "",
            "m1-n2-i3",
            "m1-n2-i3-a4-",
            "m1-n2-i3-a4-a5",
            "m01-n2-i3-a4",
            "m1-n2-i3-a+4",
            "m1-n2-i3-a4294967296",
            "m1-n2-i3-a4/",
            "M1-n2-i3-a4",
            "staging",
            "m-n-i-a",
            "m18446744073709551616-n2-i3-a4",
        ] {
            assert_eq!(parse_attempt(name), None, "{name}");
        }
    }
}
