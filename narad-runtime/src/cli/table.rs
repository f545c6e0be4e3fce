//! Tables that fit the terminal.

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};

use super::terminal::printable;

/// Longest cell of a column that is kept on one line, in characters.
const SHORT: u16 = 22;
/// Narrowest that a longer one may become for it.
const LONG_MIN: u16 = 12;

/// Lays rows out under a header, no wider than `width` columns if that can be: the first column, which
/// other commands are given, is never broken.
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
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    // What is short is not broken as long as there is room for what is long.
    let short: Vec<u16> = table.column_max_content_widths();
    let is_short = |width: u16| width <= SHORT;
    let taken: u16 = short.iter().map(|&one| if is_short(one) { one + 2 } else { LONG_MIN }).sum();
    if taken <= width {
        for (column, _) in table.column_iter_mut().zip(&short).filter(|(_, one)| is_short(**one)) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        let shown = [0, 1023, 1024, 1536, 100 << 20, (1 << 30) - 1, u64::MAX].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "100 MiB", "1023 MiB", "16777215 TiB"]
        );
    }

    /// A long text gives way before a short word is broken.
    #[test]
    fn short_words_are_not_broken_for_a_long_text() {
        let row = vec!["orders/3".into(), "narad-1".into(), "waits for the source ".repeat(9)];
        let text = render(50, &["PARTITION", "FROM", "WAITING FOR"], vec![row]);
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.contains("PARTITION  FROM") && text.contains("orders/3   narad-1"), "{text}");
    }

    #[test]
    fn a_table_is_no_wider_than_the_terminal() {
        let rows = vec![vec!["orders/3".into(), "waits for the source to come back".repeat(3)]];
        let text = render(40, &["PARTITION", "WAITING"], rows);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn what_another_command_is_given_stands_on_one_line() {
        let id = "narad-1/00000000001700000000-0-t3-0-m2-n1-i1-a0";
        let cells = ["orders/0", "log", "4.0 KiB", "12345 records, 100000 to 112345"];
        let row = || [&[id][..], &cells].concat().into_iter().map(str::to_owned).collect();
        let header = ["IN QUARANTINE", "PARTITION", "KIND", "SIZE", "ACCEPTED AGAIN"];
        for width in [20, 80] {
            let text = render(width, &header, vec![row()]);
            assert!(text.lines().any(|line| line.starts_with(id)), "{text}");
        }
        let whole = render(u16::MAX, &header, vec![row()]);
        assert_eq!(whole.lines().count(), 2, "nobody looks at a column: {whole}");
    }
}
