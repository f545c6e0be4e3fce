//! The process's surroundings, so that commands can be run without a process.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

use super::exit::Failure;

/// Where a command reads, writes and is interrupted.
pub struct Terminal {
    /// Standard input.
    pub input: Box<dyn BufRead + Send>,
    /// Standard output.
    pub out: Box<dyn Write + Send>,
    /// Standard error; takes colours and drops them where they are not wanted.
    pub err: Box<dyn Write + Send>,
    /// Whether people type the input.
    pub in_is_terminal: bool,
    /// Whether people look at the output.
    pub out_is_terminal: bool,
    /// Whether people look at the errors, so that progress is of use.
    pub err_is_terminal: bool,
    /// How many columns a table may take.
    pub width: u16,
    /// Set when the user wants an end.
    pub interrupt: Arc<AtomicBool>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("out_is_terminal", &self.out_is_terminal)
            .field("err_is_terminal", &self.err_is_terminal)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

impl Terminal {
    /// The surroundings of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let width = terminal_size::terminal_size().map_or(100, |(width, _)| width.0);
        Self {
            input: Box::new(std::io::BufReader::new(std::io::stdin())),
            out: Box::new(std::io::BufWriter::new(std::io::stdout())),
            err: Box::new(anstream::stderr()),
            in_is_terminal: std::io::stdin().is_terminal(),
            out_is_terminal: std::io::stdout().is_terminal(),
            err_is_terminal: std::io::stderr().is_terminal(),
            width,
            interrupt: Arc::default(),
        }
    }

    /// Returns whether the user wants an end.
    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Writes to standard output and flushes it.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.out
            .write_all(bytes)
            .and_then(|()| self.out.flush())
            .map_err(|error| Failure::from_output(&error))
    }

    /// Writes lines for people.
    pub(super) fn print(&mut self, text: &str) -> Result<(), Failure> {
        self.write(format!("{}\n", printable(text.trim_end())).as_bytes())
    }

    /// Writes one JSON document: on a terminal with line breaks, elsewhere on one line.
    pub(super) fn print_json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = if self.out_is_terminal {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        let text = text.map_err(|error| Failure::from_output(&error.into()))?;
        self.write(format!("{text}\n").as_bytes())
    }

    /// Writes one line of JSON.
    pub(super) fn print_json_line(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            serde_json::to_string(value).map_err(|error| Failure::from_output(&error.into()))?;
        self.write(format!("{text}\n").as_bytes())
    }

    /// Tells people something on the side.
    pub(super) fn note(&mut self, text: &str) {
        // There is no one left to tell if this fails.
        let _ = writeln!(self.err, "{}", printable(text));
    }

    /// Shows a failure: what went wrong, and what to do next.
    pub(super) fn show(&mut self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        let (red, cyan) = (bold(AnsiColor::Red), bold(AnsiColor::Cyan));
        let _ = writeln!(self.err, "{red}error:{red:#} {}", printable(failure.message.trim_end()));
        if let Some(hint) = &failure.hint {
            let _ = writeln!(self.err, "{cyan}hint:{cyan:#} {}", printable(hint));
        }
        let _ = self.err.flush();
    }
}

fn bold(color: AnsiColor) -> Style {
    color.on_default().bold()
}

/// Keeps what a file or a panic says from steering the terminal.
pub(super) fn printable(text: &str) -> String {
    let safe = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(safe).collect()
}
