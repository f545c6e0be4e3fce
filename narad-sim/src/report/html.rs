//! The frame of a page, and the parts that both pages have.

use super::text::{escape, put};

const PALETTE: &str = include_str!("assets/palette.css");
const CHART: &str = include_str!("assets/chart.css");
const STYLE: &str = include_str!("assets/page.css");

/// Returns a whole document. `body` and `script` are markup already; a page without a script
/// gives an empty one.
pub(super) fn document(title: &str, body: &str, script: &str) -> String {
    let script = if script.is_empty() {
        String::new()
    } else {
        format!("<script>\n(() => {{\n\"use strict\";\n{script}}})();\n</script>\n")
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{PALETTE}{CHART}{STYLE}</style>\n</head>\n\
         <body>\n{body}{script}</body>\n</html>\n",
        escape(title)
    )
}

/// Returns a picture of a page as a file of its own: with the colours, and a background.
pub(super) fn stand_alone(svg: &str) -> String {
    let Some(end) = svg.find('>') else { return svg.to_owned() };
    let (open, rest) = svg.split_at(end + 1);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{open}\n<style><![CDATA[\n{PALETTE}{CHART}]]></style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>{rest}"
    )
}

/// Begins a section with a heading.
pub(super) fn section(out: &mut String, id: &str, title: &str) {
    put!(out, "<section id=\"{id}\">\n<h2>{}</h2>\n", escape(title));
}

/// One figure: what it is, the figure, a word beside it, and whether it is bad news.
pub(super) struct Tile(
    pub(super) &'static str,
    pub(super) String,
    pub(super) String,
    pub(super) bool,
);

/// Writes figures side by side.
pub(super) fn tiles(out: &mut String, tiles: &[Tile]) {
    out.push_str("<dl class=\"tiles\">\n");
    for Tile(name, figure, word, is_bad) in tiles {
        let class = if *is_bad { "tile bad" } else { "tile" };
        put!(out, "<div class=\"{class}\"><dt>{}</dt><dd>{}", escape(name), escape(figure));
        if !word.is_empty() {
            put!(out, "<small>{}</small>", escape(word));
        }
        out.push_str("</dd></div>\n");
    }
    out.push_str("</dl>\n");
}

/// Writes a table; columns whose heading begins with `#` are numbers, and lose the sign. On a
/// narrow screen each row becomes a small card, where every cell has its heading beside it.
pub(super) fn table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let class = |column: usize| {
        let is_number = head.get(column).is_some_and(|head| head.starts_with('#'));
        if is_number { " class=\"number\"" } else { "" }
    };
    let words = |column: usize| head.get(column).map_or("", |head| head.trim_start_matches('#'));
    let cards = if head.len() > 2 { " class=\"cards\"" } else { "" };
    put!(out, "<div class=\"wide\" tabindex=\"0\"><table{cards}>\n<thead><tr>");
    for column in 0..head.len() {
        put!(out, "<th{} scope=\"col\">{}</th>", class(column), escape(words(column)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (column, markup) in row.iter().enumerate() {
            let label = escape(words(column));
            put!(out, "<td{} data-label=\"{label}\">{markup}</td>", class(column));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// Writes how often each of something was seen, the most frequent first.
pub(super) fn counts(
    out: &mut String,
    title: &str,
    counts: &std::collections::BTreeMap<String, u64>,
) {
    const MOST: usize = 40;
    if counts.is_empty() {
        return;
    }
    let mut sorted: Vec<_> = counts.iter().collect();
    sorted.sort_by_key(|(name, times)| (std::cmp::Reverse(**times), name.as_str()));
    let rows: Vec<_> = sorted
        .iter()
        .take(MOST)
        .map(|(name, times)| vec![escape(name), super::text::count(**times)])
        .collect();
    out.push_str("<div>\n");
    table(out, &[title, "#Times"], &rows);
    if sorted.len() > MOST {
        put!(out, "<p class=\"soft\">{} rarer ones are left out.</p>\n", sorted.len() - MOST);
    }
    out.push_str("</div>\n");
}
