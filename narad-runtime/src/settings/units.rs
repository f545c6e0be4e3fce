//! Sizes as people write them, and durations as they are shown.

use std::time::Duration;

pub(super) use crate::units::parse_duration;
use crate::units::{DURATIONS, split};

const SIZES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `512B`, `64KiB`, `64MiB`, `1GiB` or `1TiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

pub(super) fn show_duration(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if ms == 0 { "0s".into() } else { show(ms, &DURATIONS) }
}

pub(super) fn show_size(bytes: u64) -> String {
    if bytes == 0 { "0B".into() } else { show(bytes, &SIZES) }
}

/// The largest unit that leaves nothing over.
fn show(number: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| number.is_multiple_of(*factor));
    let (name, factor) = fitting.expect("the last unit is 1");
    format!("{}{name}", number / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_read_as_people_write_them() {
        assert_eq!(parse_duration("200ms"), Some(Duration::from_millis(200)));
        assert_eq!(parse_duration("2m"), parse_duration("120 s"));
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        assert_eq!(parse_size("1 KiB"), Some(1024));
        for text in ["", "10", "s", "1.5s", "-1s", "10 parsecs", "99999999999999999999s", "1s1s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
        for text in ["64M", "64MB", "18446744073709551615KiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(ms in 0..u64::MAX / 86_400_000, bytes in any::<u64>()) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
            prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
    }
}
