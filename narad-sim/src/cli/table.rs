//! Tables that fit the terminal.

use comfy_table::{ContentArrangement, Table, presets};

use super::terminal::printable;

/// Lays rows out under a header, no wider than `width` columns.
pub(super) fn render(width: u16, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(20))
        .set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    trimmed(table)
}

/// Lays pairs out in two columns.
pub(super) fn pairs(width: u16, rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width.max(20));
    for (name, value) in rows {
        table.add_row([name.to_owned(), printable(&value)]);
    }
    trimmed(table)
}

fn trimmed(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Shows bytes with about three digits.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    while unit + 1 < UNITS.len() && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    let whole = bytes >> (10 * unit);
    if unit == 0 || whole >= 100 {
        return format!("{whole} {}", UNITS[unit]);
    }
    // The remainder is below 2^40 here, so ten times it fits.
    let tenth = ((bytes - (whole << (10 * unit))) * 10) >> (10 * unit);
    format!("{whole}.{tenth} {}", UNITS[unit])
}

/// Shows a count with its digits in groups.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Shows a time of so many microseconds.
pub(super) fn time(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} us"),
        1_000..1_000_000 => format!("{}.{:03} ms", us / 1_000, us % 1_000),
        _ => format!("{}.{:03} s", us / 1_000_000, us / 1_000 % 1_000),
    }
}

/// `1 run`, `2 runs`.
pub(super) fn plural(n: u64, what: &str) -> String {
    format!("{} {what}{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([7, 1_500, 61_002_000].map(time), ["7 us", "1.500 ms", "61.002 s"]);
        assert_eq!([0, 1024, 1536, 1 << 30].map(bytes), ["0 B", "1.0 KiB", "1.5 KiB", "1.0 GiB"]);
        assert_eq!(plural(1, "run"), "1 run");
        assert_eq!(plural(2000, "run"), "2,000 runs");
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let rows = vec![vec!["orders/3".into(), "waits for the source to come back".repeat(3)]];
        let text = render(40, &["PARTITION", "WAITING"], rows);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}
