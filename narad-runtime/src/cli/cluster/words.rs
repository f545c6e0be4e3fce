//! Verdicts, times and sizes in words.

use std::fmt::Write as _;

use crate::cli::table::bytes;
use crate::service::Verdict;

/// Returns a verdict on one line.
pub(in crate::cli) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Progressing { bytes: done, bytes_total, bytes_per_second, eta_ms } => {
            let mut text = format!("progressing: {} of {}", bytes(*done), bytes(*bytes_total));
            if *bytes_per_second > 0 {
                // Writing into a string cannot fail.
                let _ = write!(text, ", {}/s", bytes(*bytes_per_second));
            }
            if let Some(ms) = eta_ms.filter(|_| *bytes_total > *done) {
                let _ = write!(text, ", {} left", lasts(ms));
            }
            text
        }
        Verdict::Waiting { reason, who, .. } => format!("waiting: {reason} ({who})"),
        Verdict::Blocked { reason, remedy, .. } => format!("BLOCKED: {reason}; {remedy}"),
        Verdict::Done { proof } => format!("done: {proof}"),
    }
}

/// Returns a time with about two digits.
pub(in crate::cli) fn lasts(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    match seconds {
        _ if ms < 1000 => format!("{ms} ms"),
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        7200..172_800 => format!("{} h", seconds.div_ceil(3600)),
        _ => format!("{} d", seconds.div_ceil(86_400)),
    }
}

/// Returns a signed number of bytes.
pub(in crate::cli) fn delta(delta: i64) -> String {
    match delta {
        0 => "-".to_owned(),
        1.. => format!("+{}", bytes(delta.unsigned_abs())),
        _ => format!("-{}", bytes(delta.unsigned_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Cause;

    #[test]
    fn times_are_short_and_never_too_short() {
        let shown = [0, 999, 1000, 1001, 119_000, 120_000, 7_199_000, 7_200_000, 200_000_000];
        assert_eq!(
            shown.map(lasts),
            ["0 ms", "999 ms", "1 s", "2 s", "119 s", "2 min", "120 min", "2 h", "3 d"]
        );
    }

    #[test]
    fn every_verdict_says_all_that_it_holds() {
        let progressing = verdict(&Verdict::progressing(1 << 20, 3 << 20, 1 << 20));
        assert_eq!(progressing, "progressing: 1.0 MiB of 3.0 MiB, 1.0 MiB/s, 2 s left");
        assert_eq!(verdict(&Verdict::progressing(0, 10, 0)), "progressing: 0 B of 10 B");
        let waiting = Verdict::Waiting {
            code: Cause::Paused,
            reason: "moves wait".into(),
            who: "you".into(),
        };
        assert_eq!(verdict(&waiting), "waiting: moves wait (you)");
        let blocked = Verdict::Blocked {
            code: Cause::DiskFull,
            reason: "full".into(),
            remedy: "free".into(),
        };
        assert_eq!(verdict(&blocked), "BLOCKED: full; free");
        assert_eq!(verdict(&Verdict::Done { proof: "empty".into() }), "done: empty");
    }

    #[test]
    fn what_is_given_and_taken_has_a_sign() {
        assert_eq!([0, 1024, -1024].map(delta), ["-", "+1.0 KiB", "-1.0 KiB"]);
    }
}
