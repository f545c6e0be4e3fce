//! What the marks of the pictures mean.

use super::figures;
use super::text::{escape, put};

const ROW: f64 = 19.0;
const PHASES: [&str; 9] =
    ["locate", "catch-up", "prepare", "drain", "verify", "install", "flip", "promote", "waiting"];
const MARKS: [(&str, &str); 6] = [
    ("<rect class=\"freeze\" fill=\"url(#ice)\" y=\"-4\" width=\"18\" height=\"8\"/>", "frozen"),
    ("<rect class=\"lead\" y=\"-2\" width=\"18\" height=\"3\"/>", "leader"),
    ("<path class=\"life paused\" d=\"M0 0h18\"/>", "paused"),
    ("<path class=\"life down\" d=\"M0 0h18\"/>", "down"),
    ("<rect class=\"strip-key acks\" y=\"-4\" width=\"18\" height=\"8\"/>", "acknowledged"),
    ("<rect class=\"strip-key reads\" y=\"-4\" width=\"18\" height=\"8\"/>", "delivered"),
];
const WIRES: [(&str, &str); 5] = [
    ("ms-move", "move"),
    ("ms-raft", "Raft"),
    ("ms-call", "call"),
    ("ms-data", "records"),
    ("ms-lost", "lost"),
];

/// Explains the marks of the timeline in rows that begin at `y`, then says the notes. Returns the
/// height of the picture that ends below them.
pub(super) fn below(out: &mut String, width: f64, y: f64, notes: &[String]) -> f64 {
    let mut rows = Rows { out, width, x: 4.0, y };
    for class in PHASES {
        let mark = "<rect class=\"phase ph-@\" y=\"-5\" width=\"18\" height=\"10\"/>";
        rows.entry(&mark.replace('@', class), class);
    }
    for (mark, words) in MARKS {
        rows.entry(mark, words);
    }
    for (class, words) in WIRES {
        let mark = format!("<path class=\"ms key-line {class}\" d=\"M0 5L18-5\"/>");
        rows.entry(&mark, words);
    }
    for ((class, shape), words) in figures::ICONS.iter().zip(figures::ICON_WORDS) {
        let mark = format!(
            "<path class=\"fault ic-{class}\" transform=\"translate(9 0)\" d=\"{shape}\"/>"
        );
        rows.entry(&mark, words);
    }
    for note in notes {
        rows.entry("", note);
    }
    rows.y + ROW
}

struct Rows<'a> {
    out: &'a mut String,
    width: f64,
    x: f64,
    y: f64,
}

impl Rows<'_> {
    fn entry(&mut self, mark: &str, words: &str) {
        let width = 38.0 + words.chars().count() as f64 * 6.4;
        if self.x > 4.0 && self.x + width > self.width {
            self.x = 4.0;
            self.y += ROW;
        }
        put!(
            self.out,
            "<g transform=\"translate({:.1} {:.1})\">{mark}<text class=\"key\" x=\"24\" y=\"4\">{}</text></g>\n",
            self.x,
            self.y,
            escape(words),
        );
        self.x += width;
    }
}

/// Explains the marks of faults, as parts of a page.
pub(super) fn of_faults() -> String {
    let mut out = String::new();
    for ((class, shape), words) in figures::ICONS.iter().zip(figures::ICON_WORDS) {
        put!(
            out,
            "<span><svg viewBox=\"-7 -7 14 14\" aria-hidden=\"true\"><path class=\"fault ic-{class}\" \
             d=\"{shape}\"/></svg>{words}</span>\n"
        );
    }
    out
}
