//! Plots by hand: a frame with round ticks, dots, lines and columns.

use super::scale::Scale;
use super::text::{escape, put};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 320.0;
/// Height of a plot without any points: its title, and why there are none.
const EMPTY_HEIGHT: f64 = 64.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
/// Height of one row of the legend, below the frame.
const LEGEND_ROW: f64 = 18.0;

/// One axis: what it measures, its ends, and how its ticks are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) low: f64,
    pub(super) high: f64,
    /// By powers of ten.
    pub(super) log: bool,
    pub(super) tick: fn(f64) -> String,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Dots,
    Line,
    Dashed,
    /// A line that keeps its height until the next point.
    Steps,
    /// Columns that reach from each point to the x of the next; the last point only ends them.
    Columns,
}

/// Numbers of one kind.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) look: Look,
    /// Which of the six colours.
    pub(super) colour: usize,
    pub(super) points: Vec<(f64, f64)>,
}

/// Draws a plot. Without any points it says `nothing` instead.
pub(super) fn plot(title: &str, x: Axis, y: Axis, series: &[Series], nothing: &str) -> String {
    let is_empty = series.iter().all(|series| series.points.is_empty());
    let height = HEIGHT + legend_rows(series) as f64 * LEGEND_ROW;
    let mut out = String::new();
    put!(
        out,
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         aria-label=\"{}\">\n<text class=\"title\" x=\"4\" y=\"18\">{}</text>\n",
        if is_empty { EMPTY_HEIGHT } else { height },
        escape(title),
        escape(title)
    );
    if is_empty {
        put!(
            out,
            "<text class=\"empty\" x=\"4\" y=\"{}\">{}</text>\n</svg>\n",
            EMPTY_HEIGHT - 18.0,
            escape(nothing)
        );
        return out;
    }
    let across = scale(x, LEFT, WIDTH - RIGHT);
    let up = scale(y, HEIGHT - BOTTOM, TOP);
    frame(&mut out, x, &across, y, &up);
    for series in series {
        draw(&mut out, series, &across, &up);
    }
    legend(&mut out, series);
    out.push_str("</svg>\n");
    out
}

fn scale(axis: Axis, from: f64, to: f64) -> Scale {
    let make = if axis.log { Scale::log } else { Scale::linear };
    make(axis.low, axis.high, from, to)
}

fn frame(out: &mut String, x: Axis, across: &Scale, y: Axis, up: &Scale) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for at in up.fine_ticks().into_iter().map(|tick| up.at(tick)) {
        put!(out, "<path class=\"grid fine\" d=\"M{LEFT} {at:.1}H{right}\"/>");
    }
    for tick in up.ticks(if y.log { 9 } else { 6 }) {
        let at = up.at(tick);
        put!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            at + 4.0,
            escape(&(y.tick)(tick))
        );
    }
    for tick in across.ticks(6) {
        let at = across.at(tick);
        put!(
            out,
            "<path class=\"axis\" d=\"M{at:.1} {bottom}v4\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            bottom + 17.0,
            escape(&(x.tick)(tick))
        );
    }
    put!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>\
         <text class=\"label\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
         <text class=\"label\" transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
        f64::midpoint(LEFT, right),
        bottom + 36.0,
        escape(x.label),
        f64::midpoint(TOP, bottom),
        escape(y.label)
    );
}

fn draw(out: &mut String, series: &Series, across: &Scale, up: &Scale) {
    let at = |(x, y): (f64, f64)| (across.at(x), up.at(y));
    let colour = series.colour % 6;
    let bottom = HEIGHT - BOTTOM;
    let mut path = String::new();
    for (number, point) in series.points.iter().enumerate() {
        let (x, y) = at(*point);
        match series.look {
            Look::Dots => {
                put!(
                    out,
                    "<circle class=\"dot s{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\"/>"
                );
            }
            Look::Line | Look::Dashed => {
                put!(path, "{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
            }
            Look::Steps if number == 0 => put!(path, "M{x:.1} {y:.1}"),
            Look::Steps => put!(path, "H{x:.1}V{y:.1}"),
            Look::Columns => {
                let Some((next, _)) = series.points.get(number + 1) else { continue };
                let width = (across.at(*next) - x - 1.0).max(0.5);
                put!(
                    out,
                    "<rect class=\"column\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>",
                    (bottom - y).max(0.0)
                );
            }
        }
    }
    if !path.is_empty() {
        let upper = if series.look == Look::Dashed { " upper" } else { "" };
        put!(out, "<path class=\"curve{upper} s{colour}\" d=\"{path}\"/>");
    }
    // A line of one point is not to be seen without a mark.
    if matches!(series.look, Look::Line | Look::Dashed) && series.points.len() <= 24 {
        for point in &series.points {
            let (x, y) = at(*point);
            put!(out, "<circle class=\"mark s{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
    }
    out.push('\n');
}

fn width_of(name: &str) -> f64 {
    40.0 + name.chars().count() as f64 * 6.3
}

/// Returns the place of each entry: row and x.
fn legend_places(series: &[Series]) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, LEFT);
    let mut places = Vec::new();
    for series in series {
        let width = width_of(&series.name);
        if x > LEFT && x + width > WIDTH {
            row += 1;
            x = LEFT;
        }
        places.push((row, x));
        x += width;
    }
    places
}

fn legend_rows(series: &[Series]) -> usize {
    let named = series.len() > 1;
    legend_places(series).last().filter(|_| named).map_or(0, |(row, _)| row + 1)
}

/// Names the series below the frame; one alone is named by the title.
fn legend(out: &mut String, series: &[Series]) {
    if series.len() < 2 {
        return;
    }
    for (series, (row, x)) in series.iter().zip(legend_places(series)) {
        let y = HEIGHT + row as f64 * LEGEND_ROW + 6.0;
        let colour = series.colour % 6;
        let mark = match series.look {
            Look::Dots => format!("<circle class=\"mark s{colour}\" cx=\"9\" r=\"3.2\"/>"),
            Look::Columns => {
                "<rect class=\"column\" y=\"-5\" width=\"18\" height=\"9\"/>".to_owned()
            }
            Look::Line | Look::Steps => format!("<path class=\"curve s{colour}\" d=\"M0 0h18\"/>"),
            Look::Dashed => format!("<path class=\"curve upper s{colour}\" d=\"M0 0h18\"/>"),
        };
        put!(
            out,
            "<g transform=\"translate({x:.1} {y:.1})\">{mark}<text class=\"key\" x=\"24\" y=\"4\">{}</text></g>\n",
            escape(&series.name)
        );
    }
}
