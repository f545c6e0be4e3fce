//! Shows how the demonstration comes on: bars on a terminal, plain lines elsewhere. Everything goes
//! to standard error; the result has standard output for itself.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::cli::folded_line;

/// Where progress is shown.
#[derive(Debug)]
pub(super) struct Screen {
    begun: Instant,
    records: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Lines; the traffic in one of them now and then.
    Plain {
        last: Mutex<Instant>,
    },
    Bars(Bars),
}

#[derive(Debug)]
struct Bars {
    all: MultiProgress,
    act: ProgressBar,
    produced: ProgressBar,
    consumed: ProgressBar,
    moves: ProgressBar,
}

impl Screen {
    /// Acts of the demonstration.
    pub(super) const ACTS: u32 = 6;
    /// Pause between two lines about the traffic.
    const TRAFFIC_PAUSE: Duration = Duration::from_secs(5);

    /// Shows progress on standard error, as fits it.
    pub(super) fn new(records: u64) -> Self {
        let begun = Instant::now();
        let kind = if std::io::stderr().is_terminal() {
            Kind::Bars(Bars::new(records))
        } else {
            Kind::Plain { last: Mutex::new(begun) }
        };
        Self { begun, records, kind }
    }

    /// An act begins.
    pub(super) fn act(&self, number: u32, what: &str) {
        let line = format!("{number}/{} {what}", Self::ACTS);
        match &self.kind {
            Kind::Plain { .. } => self.line(&line),
            Kind::Bars(bars) => {
                bars.act.set_message(line.clone());
                self.line(&line);
            }
        }
    }

    /// Something has happened within an act.
    pub(super) fn say(&self, what: &str) {
        self.line(&format!("    {what}"));
    }

    /// Shows the traffic and the moves under way.
    pub(super) fn traffic(&self, acked: u64, consumed: u64, moves: &[String]) {
        match &self.kind {
            Kind::Bars(bars) => {
                bars.produced.set_position(acked);
                bars.consumed.set_position(consumed);
                bars.moves.set_message(moves.join("  "));
            }
            Kind::Plain { last } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.elapsed() < Self::TRAFFIC_PAUSE {
                    return;
                }
                *last = Instant::now();
                drop(last);
                let moves = if moves.is_empty() { "none".to_owned() } else { moves.join(", ") };
                self.line(&format!(
                    "    {acked} of {} acknowledged, {consumed} consumed; moves: {moves}",
                    self.records
                ));
            }
        }
    }

    /// Takes the bars away.
    pub(super) fn end(&self) {
        match &self.kind {
            Kind::Plain { .. } => {}
            Kind::Bars(bars) => {
                for bar in [&bars.act, &bars.produced, &bars.consumed, &bars.moves] {
                    bar.finish_and_clear();
                }
                // A terminal that is gone needs no clearing.
                drop(bars.all.clear());
            }
        }
    }

    fn line(&self, line: &str) {
        let seconds = self.begun.elapsed();
        let line = format!("{:>6.1}s {line}", seconds.as_secs_f32());
        match &self.kind {
            // There is no one left to tell if this fails.
            Kind::Plain { .. } => drop(writeln!(anstream::stderr(), "{line}")),
            Kind::Bars(bars) => {
                /// Where what is said begins behind the time.
                const MARGIN: usize = 12;
                let width = terminal_size::terminal_size_of(std::io::stderr());
                let width = width.map_or(80, |(width, _)| width.0);
                drop(bars.all.println(folded_line(&line, width, MARGIN)));
            }
        }
    }
}

impl Bars {
    fn new(records: u64) -> Self {
        let all = MultiProgress::new();
        let style = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        let spinner = all.add(ProgressBar::new_spinner());
        spinner.set_style(style("{spinner} {wide_msg}"));
        spinner.enable_steady_tick(Duration::from_millis(100));
        let bar = |name: &'static str| {
            let bar = all.add(ProgressBar::new(records));
            bar.set_style(style("  {prefix:<13} {bar:30} {human_pos} of {human_len}"));
            bar.set_prefix(name);
            bar
        };
        let (produced, consumed) = (bar("acknowledged"), bar("consumed"));
        let moves = all.add(ProgressBar::new_spinner());
        moves.set_style(style("  moves         {wide_msg}"));
        Self { all, act: spinner, produced, consumed, moves }
    }
}
