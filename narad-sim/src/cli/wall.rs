//! Wall time: how long people waited. No run ever sees it.
#![expect(clippy::disallowed_types, reason = "measures a command, and is no input of a run")]

use std::time::{Duration, Instant};

/// Measures from when it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns whether a limit, if there is one, has been reached.
    pub(super) fn is_over(self, limit: Option<Duration>) -> bool {
        limit.is_some_and(|limit| self.elapsed() >= limit)
    }
}

/// Reads `500ms`, `60s`, `15min` or `2h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 4] = [("ms", 1), ("min", 60_000), ("s", 1_000), ("h", 3_600_000)];
    let read = |(unit, ms): (&str, u64)| {
        let number = text.trim().strip_suffix(unit)?.trim();
        number.parse::<u64>().ok()?.checked_mul(ms).map(Duration::from_millis)
    };
    UNITS.into_iter().find_map(read).ok_or_else(|| "write 500ms, 60s, 15min or 2h".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let read = |text| parse_duration(text).ok().map(|it| it.as_millis());
        assert_eq!(read("500ms"), Some(500));
        assert_eq!(read("60s"), Some(60_000));
        assert_eq!(read("15 min"), Some(900_000));
        assert_eq!(read("2h"), Some(7_200_000));
        for bad in ["", "60", "s", "1.5s", "-1s", "99999999999999999999s", "18446744073709551615h"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
