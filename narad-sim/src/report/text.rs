//! Words and numbers for people, safe inside HTML and SVG.

/// Returns the text with everything escaped that HTML or SVG could take for markup, in content
/// and in quoted attributes. Control characters, which SVG forbids, become `�`.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            _ if letter.is_control() => safe.push('\u{fffd}'),
            _ => safe.push(letter),
        }
    }
    safe
}

/// Returns the number in groups of three digits.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the number in full, or to three digits if it is very large.
pub(super) fn short(number: u64) -> String {
    match number {
        0..1_000_000 => count(number),
        1_000_000..1_000_000_000 => format!("{} M", digits(number, 1_000_000)),
        _ => format!("{} G", digits(number, 1_000_000_000)),
    }
}

/// Returns `1 move`, `2 moves`, `1,000 moves`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns a length of time with three digits and the unit that suits it.
pub(super) fn duration(us: u64) -> String {
    match us {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{} ms", digits(us, 1_000)),
        1_000_000..120_000_000 => format!("{} s", digits(us, 1_000_000)),
        120_000_000..7_200_000_000 => format!("{} min", digits(us, 60_000_000)),
        7_200_000_000..172_800_000_000 => format!("{} h", digits(us, 3_600_000_000)),
        _ => format!("{} d", digits(us, 86_400_000_000)),
    }
}

/// Returns a point in time in seconds, to the microsecond.
pub(super) fn instant(us: u64) -> String {
    format!("{}.{:06} s", count(us / 1_000_000), us % 1_000_000)
}

/// Returns an amount of bytes with three digits and the unit that suits it.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [(u64, &str); 6] = [
        (1 << 60, "EiB"),
        (1 << 50, "PiB"),
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) => format!("{} {unit}", digits(number, *size)),
        None => format!("{number} B"),
    }
}

/// Returns `number / unit` to three digits, without zeroes that say nothing.
fn digits(number: u64, unit: u64) -> String {
    let whole = number / unit;
    let places = match whole {
        0..10 => 2,
        10..100 => 1,
        _ => return count(whole),
    };
    decimal(whole as f64 + (number % unit) as f64 / unit as f64, places)
}

/// Returns a number with at most so many places after the point.
pub(super) fn decimal(number: f64, places: usize) -> String {
    let text = format!("{number:.places$}");
    if !text.contains('.') {
        return text;
    }
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if matches!(short, "-0" | "") { "0".to_owned() } else { short.to_owned() }
}

/// Returns a share as a percentage, `–` of nothing.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    format!("{} %", decimal(part as f64 * 100.0 / whole as f64, 2))
}

/// Returns at most `letters` of the text, with a word of what was cut off.
pub(super) fn clipped(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        None => text.to_owned(),
        Some((at, _)) => {
            let left = text[at..].chars().count();
            format!("{}… ({} more letters)", &text[..at], count(left as u64))
        }
    }
}

/// Returns the text as one word of a shell command.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./,=+:@%".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Appends formatted text to a string.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        use std::fmt::Write as _;
        $out.write_fmt(format_args!($($text)*)).expect("a string takes everything");
    }};
}
pub(super) use put;
