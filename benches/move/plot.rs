//! Ratios beside their thresholds, as SVG.

use std::fmt::Write as _;

use super::bars::Threshold;
use super::report::Row;

const WIDTH: f64 = 960.0;
const LABELS: f64 = 400.0;
const ROW: f64 = 34.0;
const TOP: f64 = 48.0;

/// Draws one line for every row: the range of its ratios, their median, and what is enough.
pub(crate) fn draw(title: &str, rows: &[&Row]) -> String {
    let height = rows.iter().fold(TOP + 12.0, |height, _| height + ROW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"26\" font-size=\"17\">{}: Narad over the other, thresholds in red</text>\n",
        escaped(title),
    );
    let mut top = TOP;
    for row in rows {
        line(&mut svg, row, top);
        top += ROW;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Every row has a scale of its own, from zero: its ratio has no unit, and nothing in common with the
/// next one's.
fn line(svg: &mut String, row: &Row, top: f64) {
    let bounds = match row.threshold {
        Threshold::AtLeast(bound) | Threshold::AtMost(bound) => vec![bound],
        Threshold::Within(least, most) => vec![least, most],
        Threshold::None => Vec::new(),
    };
    let most = bounds.iter().copied().chain([row.range[1], row.ratio]).fold(0.0, f64::max);
    let x =
        |value: f64| LABELS + value / (most * 1.1).max(f64::MIN_POSITIVE) * (WIDTH - LABELS - 90.0);
    let middle = top + ROW / 2.0;
    let colour = if row.met { "#2a6f4e" } else { "#b8862b" };
    // Writing into a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"12\" y=\"{:.1}\">{:?} {}</text>\n\
         <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#ddd\"/>\n\
         <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"{colour}\" stroke-width=\"8\"/>\n\
         <circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"6\" fill=\"{colour}\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\">{:.3}</text>",
        middle + 4.0,
        row.bar,
        escaped(&row.beside),
        x(0.0),
        x(most),
        x(row.range[0]),
        x(row.range[1]),
        x(row.ratio),
        WIDTH - 70.0,
        middle + 4.0,
        row.ratio,
    );
    for bound in bounds {
        let at = x(bound);
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"red\"/>",
            top + 4.0,
            top + ROW - 4.0,
        );
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::bars::Bar;
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_every_row_and_nothing_that_ends_a_tag() {
        let row = |beside: &str| {
            Row::of_pairs(
                Bar::C1,
                beside,
                "MiB/s",
                &[(4.0, 1.0), (3.0, 1.0)],
                Threshold::AtLeast(2.8),
            )
        };
        let rows = [row("rsync <-a>"), row("another")];
        let svg = draw("copy", &rows.iter().collect::<Vec<_>>());
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("stroke=\"red\"").count(), 2);
        assert!(svg.contains("rsync &lt;-a&gt;") && svg.ends_with("</svg>\n"));
    }
}
