//! The page of one run.

use crate::outcome::{Summary, Verdict};

use super::html::{self, Tile, section};
use super::limits::{self, Told};
use super::margins::{self, Margin};
use super::moves::{self, End, Move};
use super::read::Trace;
use super::story::{self, Story};
use super::text::{self, escape, put};
use super::thin::{self, Kept};
use super::{Page, data, figures, legend, sweep_page, timeline};

const SCRIPT: [&str; 3] = [
    include_str!("assets/model.js"),
    include_str!("assets/draw.js"),
    include_str!("assets/control.js"),
];

/// Rows of the table of moves at most, and violations that are listed at most.
const ROWS_MAX: usize = 200;

/// Makes the page of a run.
pub(super) fn page(trace: &Trace) -> Page {
    let story = story::story(trace);
    let told = limits::told(trace);
    let kept = thin::thin(&trace.lines, thin::LINES_MAX);
    let picture = timeline::svg(&trace.lines, &story);
    let parts = Parts { trace, story: &story, told: &told, kept: &kept };

    let mut body = String::new();
    parts.header(&mut body);
    parts.violations(&mut body);
    parts.timeline(&mut body, &picture);
    parts.margins(&mut body, &margins::margins(trace, &story, &told));
    parts.moves(&mut body, &moves::moves(&trace.lines, &story));
    parts.counts(&mut body);
    parts.scenario(&mut body);
    body.push_str("<script type=\"application/json\" id=\"data\">");
    body.push_str(&data::json(&trace.lines, &kept, &story));
    body.push_str("</script>\n");

    let title = format!("{}, seed {}: Narad", parts.title(), trace.summary.seed);
    let html = html::document(&title, &body, &SCRIPT.concat());
    Page { html, svgs: vec![("timeline.svg".to_owned(), html::stand_alone(&picture))] }
}

struct Parts<'a> {
    trace: &'a Trace,
    story: &'a Story,
    told: &'a Told,
    kept: &'a Kept,
}

impl Parts<'_> {
    fn title(&self) -> String {
        let name = || self.told.name.clone().unwrap_or_else(|| self.trace.summary.scenario.clone());
        self.told.title.clone().unwrap_or_else(name)
    }

    fn header(&self, out: &mut String) {
        let summary = &self.trace.summary;
        put!(
            out,
            "<header>\n<p class=\"kicker\">Narad simulator · one run of {}</p>\n<h1>{}</h1>\n",
            escape(&summary.scenario),
            escape(&self.title())
        );
        let (class, words) = verdict(summary.verdict());
        put!(out, "<div class=\"facts\"><span class=\"pill {class}\">{words}</span>");
        put!(out, "<span>seed {}</span>", self.trace.header.seed);
        put!(out, "<span class=\"soft\">metastore: {}</span>", escape(&summary.metastore));
        if let Some(bug) = &self.trace.header.planted {
            put!(out, "<span class=\"pill warn\">planted: {}</span>", escape(bug));
        }
        if !self.told.covers.is_empty() {
            put!(
                out,
                "<span class=\"soft\">covers {}</span>",
                escape(&self.told.covers.join(", "))
            );
        }
        put!(out, "<span class=\"soft\">trace hash {:016x}</span></div>\n", summary.trace_hash);
        let mut again = sweep_page::reproduce(summary);
        if let Some(bug) = &self.trace.header.planted {
            put!(again, " --planted {}", text::shell_word(bug));
        }
        put!(
            out,
            "<p><span class=\"soft\">Again:</span> <code class=\"command\">{}</code></p>\n",
            escape(&again)
        );
        html::tiles(out, &tiles(summary));
        out.push_str("</header>\n<main>\n");
    }

    fn violations(&self, out: &mut String) {
        let found = &self.trace.summary.violations;
        if found.is_empty() {
            return;
        }
        put!(
            out,
            "<section class=\"violations\" id=\"violations\">\n<h2>{}</h2>\n<ol>\n",
            text::counted(found.len() as u64, "violation")
        );
        for violation in found.iter().take(ROWS_MAX) {
            put!(
                out,
                "<li><strong>{}</strong> at {}: {} ",
                escape(&violation.invariant),
                text::instant(violation.at_us),
                escape(&violation.text)
            );
            let lines = &self.trace.lines;
            let is_same = |place: &&usize| {
                let line = &lines[**place];
                line.at_us == violation.at_us && line.name == violation.invariant
            };
            let marks = &self.story.violations;
            let mark = marks.iter().position(|place| is_same(&place));
            let line = mark.map_or_else(
                || lines.partition_point(|line| line.at_us < violation.at_us),
                |mark| marks[mark],
            );
            self.link(
                out,
                Some(line),
                mark.map_or("timeline".to_owned(), |mark| format!("mark-{}", mark + 1)),
            );
            out.push_str("</li>\n");
        }
        out.push_str("</ol>\n");
        if found.len() > ROWS_MAX {
            put!(out, "<p class=\"soft\">{} more are left out.</p>\n", found.len() - ROWS_MAX);
        }
        out.push_str("</section>\n");
    }

    /// Writes a link to a line of the trace, if the page keeps it.
    fn link(&self, out: &mut String, line: Option<usize>, anchor: String) {
        let shown = line.and_then(|line| self.kept.lines.binary_search(&line).ok());
        if let Some(shown) = shown {
            put!(out, "<a href=\"#{anchor}\" data-line=\"{}\">show</a>", shown + 1);
        }
    }

    fn timeline(&self, out: &mut String, picture: &str) {
        section(out, "timeline", "Timeline");
        if self.trace.lines.is_empty() {
            out.push_str("<p>Nothing happened: the trace has no lines between its header and its summary.</p>\n");
        }
        out.push_str(
            &include_str!("assets/toolbar.html").replace("@FAULTS@", &legend::of_faults()),
        );
        put!(out, "<div class=\"still wide\">\n{picture}</div>\n");
        let left_out: Vec<String> = self
            .kept
            .left_out
            .iter()
            .map(|(some, all, what)| {
                format!("{} of {} {what}", text::count(*some as u64), text::count(*all as u64))
            })
            .collect();
        if !left_out.is_empty() {
            put!(
                out,
                "<p class=\"soft\"><b>The trace is long.</b> Left out of this page: {}.</p>\n",
                left_out.join("; ")
            );
        }
        out.push_str("</section>\n");
        out.push_str(include_str!("assets/around.html"));
    }

    fn margins(&self, out: &mut String, margins: &[Margin]) {
        if margins.is_empty() {
            return;
        }
        section(out, "margins", "Invariant margins");
        out.push_str(
            "<p class=\"soft\">Of each rule, the moment of this run at which least was left.</p>\n\
             <div class=\"margins\">\n",
        );
        for margin in margins {
            let class = match margin.used {
                _ if margin.is_broken => "margin bad",
                Some(used) if used > 0.8 && !margin.is_count => "margin near",
                _ => "margin",
            };
            put!(
                out,
                "<div class=\"{class}\"><h3>{}<span>{}</span></h3>\n<b>{}</b>",
                escape(margin.title),
                margin.rule,
                escape(&margin.seen)
            );
            if let Some(used) = margin.used {
                put!(
                    out,
                    "<div class=\"meter\"><i style=\"width:{:.1}%\"></i></div>",
                    (used * 100.0).clamp(0.5, 100.0)
                );
            }
            put!(out, "\n<div class=\"soft\">{} ", escape(&margin.allowed));
            self.link(out, margin.line, "timeline".to_owned());
            out.push_str("</div></div>\n");
        }
        out.push_str("</div></section>\n");
    }

    fn moves(&self, out: &mut String, moves: &[Move]) {
        if moves.is_empty() {
            return;
        }
        section(out, "moves", "Moves");
        let rows: Vec<_> = moves.iter().take(ROWS_MAX).map(|moved| self.move_row(moved)).collect();
        let head = ["Partition", "From", "To", "#Began", "#Took", "#Frozen", "Course", "End", ""];
        html::table(out, &head, &rows);
        if moves.len() > ROWS_MAX {
            put!(
                out,
                "<p class=\"soft\">{} later moves are left out.</p>\n",
                moves.len() - ROWS_MAX
            );
        }
        out.push_str("</section>\n");
    }

    fn move_row(&self, moved: &Move) -> Vec<String> {
        let node = |node: usize| escape(&self.story.nodes[node]);
        let whole = moved.when.length_us().max(1) as f64;
        let mut course = String::from("<div class=\"course\">");
        for phase in moved.phases.iter().map(|place| &self.story.phases[*place]) {
            let length = phase.when.length_us();
            put!(
                course,
                "<i class=\"{}\" style=\"width:{:.2}%\" title=\"{} {}\"></i>",
                figures::phase_class(&phase.what),
                length as f64 * 100.0 / whole,
                escape(&phase.what),
                text::duration(length)
            );
        }
        course.push_str("</div>");
        let mut link = String::new();
        let first = moved.phases.first().map(|place| self.story.phases[*place].line);
        self.link(&mut link, first, "timeline".to_owned());
        let end = match moved.end {
            End::Done => moved.end.name().to_owned(),
            End::Forced | End::GivenUp | End::Open => format!("<b>{}</b>", moved.end.name()),
        };
        vec![
            escape(&self.story.partitions[moved.partition]),
            moved.from.map_or("–".to_owned(), node),
            node(moved.to),
            text::instant(moved.when.from_us),
            text::duration(moved.when.length_us()),
            text::duration(moved.frozen_us),
            course,
            end,
            link,
        ]
    }

    fn counts(&self, out: &mut String) {
        let summary = &self.trace.summary;
        if summary.notes.is_empty() && summary.faults.is_empty() && summary.waiting.is_empty() {
            return;
        }
        section(out, "counts", "What was seen");
        out.push_str("<div class=\"columns\">\n");
        html::counts(out, "Fault", &summary.faults);
        html::counts(out, "Note", &summary.notes);
        if !summary.waiting.is_empty() {
            let rows: Vec<_> = summary.waiting.iter().map(|reason| vec![escape(reason)]).collect();
            out.push_str("<div>\n");
            html::table(out, &["Not finished at the end"], &rows);
            out.push_str("</div>\n");
        }
        out.push_str("</div></section>\n");
    }

    fn scenario(&self, out: &mut String) {
        section(out, "scenario", "Scenario");
        put!(
            out,
            "<details><summary>The whole file</summary>\n<pre tabindex=\"0\">{}</pre></details>\n</section>\n</main>\n",
            escape(&self.trace.header.scenario)
        );
    }
}

fn tiles(summary: &Summary) -> Vec<Tile> {
    let none = String::new;
    let longest = summary.freezes_us.iter().copied().max().unwrap_or(0);
    vec![
        Tile("Simulated time", text::duration(summary.simulated_us), none(), false),
        Tile("Events", text::short(summary.events), none(), false),
        Tile(
            "Nodes",
            summary.nodes.to_string(),
            text::counted(summary.partitions.into(), "partition"),
            false,
        ),
        Tile(
            "Moves",
            format!(
                "{} of {}",
                text::short(summary.moves_done),
                text::short(summary.moves_planned)
            ),
            format!("{} forced, {} given up", summary.moves_forced, summary.moves_given_up),
            false,
        ),
        Tile(
            "Longest freeze",
            text::duration(longest),
            text::counted(summary.freezes_us.len() as u64, "freeze"),
            false,
        ),
        Tile("Acknowledged", text::short(summary.acked), "records".to_owned(), false),
        Tile(
            "Delivered",
            text::short(summary.delivered),
            format!("{} again", text::short(summary.duplicates)),
            false,
        ),
        Tile("Copied", text::bytes(summary.copied_bytes), none(), false),
        Tile(
            "Violations",
            summary.violations.len().to_string(),
            none(),
            !summary.violations.is_empty(),
        ),
    ]
}

fn verdict(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Good => ("good", "✓ good: every invariant held"),
        Verdict::Unexpected => ("warn", "✗ an expectation was not met"),
        Verdict::Unsafe => ("bad", "✗ safety violated"),
        Verdict::Stuck => ("bad", "✗ stuck: liveness violated"),
        Verdict::Panicked => ("bad", "✗ panicked"),
    }
}
