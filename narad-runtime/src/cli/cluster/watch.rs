//! Showing how something comes on: bars on a terminal, a line for each change elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::Desk;
use super::moving::{Watched, ending};
use super::show::{copied, of, waits_for};
use super::words::{lasts, verdict};
use crate::cli::table::bytes;
use crate::cli::terminal::printable;
use crate::cli::{ExitCode, Failure};
use crate::client::ClientError;
use crate::service::{MoveView, Read, Verdict};

/// Pause between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(500);
/// After which a line is repeated although nothing but its numbers has changed.
const REPEAT: Duration = Duration::from_secs(5);

/// One thing that comes on.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What it is, such as a partition.
    pub(super) name: String,
    /// How far it is.
    pub(super) verdict: Verdict,
    /// What is shown beside it.
    pub(super) detail: String,
    /// What is shown behind that where it can be drawn anew, since it changes all the time.
    pub(super) live: String,
}

/// Where lines are shown.
pub(super) enum Board {
    Bars(Bars),
    /// What was said last of each, and when.
    Plain(BTreeMap<String, (String, Instant)>),
}

/// Bars on standard error, taken away when they are dropped.
pub(super) struct Bars {
    width: u16,
    all: MultiProgress,
    by_name: BTreeMap<String, ProgressBar>,
}

impl Drop for Bars {
    fn drop(&mut self) {
        for bar in self.by_name.values() {
            bar.finish_and_clear();
        }
        // A terminal that is gone needs no clearing.
        drop(self.all.clear());
    }
}

impl Board {
    pub(super) fn new(desk: &Desk<'_>) -> Self {
        let people = desk.terminal.out_is_terminal && desk.terminal.err_is_terminal;
        if people && !desk.json() {
            let width = desk.terminal.width;
            return Self::Bars(Bars { width, all: MultiProgress::new(), by_name: BTreeMap::new() });
        }
        Self::Plain(BTreeMap::new())
    }

    /// Shows these, and no others any more.
    pub(super) fn show(&mut self, desk: &mut Desk<'_>, lines: &[Line]) -> Result<(), Failure> {
        self.show_with(desk, lines, &BTreeMap::new())
    }

    /// Shows these, and says how others ended, by their names.
    pub(super) fn show_with(
        &mut self,
        desk: &mut Desk<'_>,
        lines: &[Line],
        endings: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        match self {
            Self::Bars(bars) => {
                bars.show(lines);
                for (name, ending) in endings {
                    drop(bars.all.println(printable(&format!("{name}: {ending}"))));
                }
                Ok(())
            }
            Self::Plain(said) => plain(desk, said, lines, endings),
        }
    }

    /// Tells people something on the side, without tearing the bars.
    pub(super) fn note(&self, desk: &mut Desk<'_>, text: &str) {
        match self {
            Self::Bars(bars) => drop(bars.all.println(printable(text))),
            Self::Plain(_) => desk.terminal.note(text),
        }
    }
}

/// Says what has changed in kind at once, and what has changed in number now and then.
fn plain(
    desk: &mut Desk<'_>,
    said: &mut BTreeMap<String, (String, Instant)>,
    lines: &[Line],
    endings: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    for line in lines {
        let kind = match &line.verdict {
            Verdict::Progressing { .. } => format!("progressing {}", line.detail),
            other => verdict(other),
        };
        let known = said.get(&line.name);
        if known.is_some_and(|(before, at)| *before == kind && at.elapsed() < REPEAT) {
            continue;
        }
        said.insert(line.name.clone(), (kind, Instant::now()));
        let detail =
            if line.detail.is_empty() { String::new() } else { format!(" [{}]", line.detail) };
        desk.terminal.print(&format!("{}{detail}: {}", line.name, verdict(&line.verdict)))?;
    }
    let gone: Vec<String> =
        said.keys().filter(|name| lines.iter().all(|line| line.name != **name)).cloned().collect();
    for name in gone {
        said.remove(&name);
        if !endings.contains_key(&name) {
            desk.terminal.print(&format!("{name}: over"))?;
        }
    }
    for (name, ending) in endings {
        desk.terminal.print(&format!("{name}: {ending}"))?;
    }
    Ok(())
}

impl Bars {
    fn show(&mut self, lines: &[Line]) {
        let gone: Vec<String> = self
            .by_name
            .keys()
            .filter(|name| lines.iter().all(|line| line.name != **name))
            .cloned()
            .collect();
        for name in gone {
            if let Some(bar) = self.by_name.remove(&name) {
                bar.finish_and_clear();
                self.all.remove(&bar);
            }
        }
        let style = style(self.width, lines);
        for line in lines {
            let bar = self.by_name.entry(line.name.clone()).or_insert_with(|| {
                // Nothing is drawn before it looks as it should.
                let bar = ProgressBar::new(0).with_style(style.clone());
                self.all.add(bar.with_prefix(printable(&line.name)))
            });
            bar.set_style(style.clone());
            // What is wanted most comes first: a narrow terminal cuts off the rest.
            let message = match &line.verdict {
                Verdict::Progressing { bytes: done, bytes_total, bytes_per_second, eta_ms } => {
                    bar.set_length((*bytes_total).max(1));
                    bar.set_position(*done);
                    let eta = eta_ms.map_or_else(String::new, |ms| format!(", {} left", lasts(ms)));
                    let rate = bytes(*bytes_per_second);
                    let of = of(*done, *bytes_total);
                    format!("{of}, {rate}/s{eta}; {}{}", line.detail, line.live)
                }
                other => format!("{}; {}", verdict(other), line.detail),
            };
            bar.set_message(printable(message.trim_end_matches("; ")));
        }
    }
}

/// Returns how a line looks: names under one another, and a bar that leaves room for the numbers.
fn style(width: u16, lines: &[Line]) -> ProgressStyle {
    /// Longest name that others are put in line with.
    const NAME_MAX: usize = 24;
    let name = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(NAME_MAX);
    let bar = if width < 100 { 10 } else { 24 };
    let template = format!("{{prefix:<{name}}} {{bar:{bar}}} {{wide_msg}}");
    ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Shows the moves until somebody has seen enough.
pub(super) async fn moves(desk: &mut Desk<'_>) -> Result<(), Failure> {
    let mut board = Board::new(desk);
    let (mut idle, mut watched) = (false, Watched::default());
    loop {
        match desk.client.moves(Read::Barrier).await {
            Ok(moves) if desk.json() => {
                let ended = watched.ended(&desk.client, &moves).await;
                desk.print_line(&serde_json::json!({ "moves": moves, "ended": ended }))?;
            }
            Ok(moves) => {
                if moves.is_empty() && !idle {
                    board.note(desk, "nothing is moving");
                }
                idle = moves.is_empty();
                let ended = watched.ended(&desk.client, &moves).await;
                let endings = ended.iter().map(|past| (past.place(), ending(past))).collect();
                let lines: Vec<Line> = moves.iter().map(line_of).collect();
                board.show_with(desk, &lines, &endings)?;
            }
            Err(error) => passing(desk, &board, error)?,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Passes over what may be better in a moment, and says so.
pub(super) fn passing(
    desk: &mut Desk<'_>,
    board: &Board,
    error: ClientError,
) -> Result<(), Failure> {
    let failure = Failure::from(error);
    if failure.code != ExitCode::Unavailable {
        return Err(failure);
    }
    board.note(desk, &format!("{}; still trying", failure.message));
    Ok(())
}

fn line_of(moved: &MoveView) -> Line {
    let MoveView { from, to, phase, .. } = moved;
    let phase = phase.as_deref().unwrap_or("planned");
    let verdict = moved.verdict.clone().unwrap_or_else(|| Verdict::Waiting {
        code: crate::service::Cause::Unknown,
        reason: format!("{} copied; {}", copied(moved), waits_for(moved)),
        who: "-".to_owned(),
    });
    let live = moved.predicted_freeze_ms.map(|ms| format!(", a freeze of ~{ms} ms"));
    let detail = format!("{from} to {to}, {phase}");
    Line { name: moved.place(), verdict, detail, live: live.unwrap_or_default() }
}
