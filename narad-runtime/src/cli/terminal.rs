//! The process's surroundings, so that commands can be run without a process.

use std::io::{BufRead, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};
use tokio_util::sync::CancellationToken;

use super::exit::{ExitCode, Failure};

/// Where a command reads, writes and is interrupted.
pub struct Terminal {
    /// Standard input.
    pub input: Box<dyn BufRead + Send>,
    /// Standard output.
    pub out: Box<dyn Write + Send>,
    /// Standard error; takes colours and drops them where they are not wanted.
    pub err: Box<dyn Write + Send>,
    /// Whether people are there to be asked.
    pub in_is_terminal: bool,
    /// Whether people look at the output.
    pub out_is_terminal: bool,
    /// Whether people look at the errors, so that progress is of use.
    pub err_is_terminal: bool,
    /// How many columns a table may take; [`u16::MAX`] if no people look at it.
    pub width: u16,
    /// Cancelled when the user wants an end.
    pub interrupt: CancellationToken,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("in_is_terminal", &self.in_is_terminal)
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
        let out_is_terminal = std::io::stdout().is_terminal();
        // What is read by another program is cut by lines, not by columns.
        let width = if out_is_terminal {
            terminal_size::terminal_size_of(std::io::stdout()).map_or(80, |(width, _)| width.0)
        } else {
            u16::MAX
        };
        Self {
            input: Box::new(std::io::BufReader::new(std::io::stdin())),
            out: Box::new(std::io::BufWriter::new(std::io::stdout())),
            err: Box::new(anstream::stderr()),
            in_is_terminal: std::io::stdin().is_terminal(),
            out_is_terminal,
            err_is_terminal: std::io::stderr().is_terminal(),
            width,
            interrupt: CancellationToken::new(),
        }
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
        let width = if self.out_is_terminal { self.width } else { u16::MAX };
        self.write(format!("{}\n", folded(&printable(text.trim_end()), width)).as_bytes())
    }

    /// Writes the API's JSON as it came: on a terminal with line breaks, elsewhere on one line.
    pub(super) fn print_json(&mut self, json: &[u8]) -> Result<(), Failure> {
        let pretty = || serde_json::from_slice::<serde_json::Value>(json).ok();
        let mut text = match pretty().filter(|_| self.out_is_terminal) {
            Some(value) => format!("{value:#}").into_bytes(),
            None => json.to_vec(),
        };
        text.push(b'\n');
        self.write(&text)
    }

    /// Tells people something on the side.
    pub(super) fn note(&mut self, text: &str) {
        // There is no one left to tell if this fails.
        let _ = writeln!(self.err, "{}", folded(&printable(text), self.err_width()));
    }

    /// How many columns what is said on the side may take: those of the output, if both are shown.
    fn err_width(&self) -> u16 {
        if self.out_is_terminal && self.err_is_terminal { self.width } else { u16::MAX }
    }

    /// Asks whether to do something that cannot simply be undone, unless `yes` was said. Where nobody
    /// can be asked, it is refused.
    pub(super) async fn confirm(&mut self, yes: bool, what: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.in_is_terminal {
            return Err(Failure::new(ExitCode::Usage, what).with_hint("add --yes to do it"));
        }
        self.note(what);
        // There is no one to ask if this fails, and then no answer comes.
        let _ = write!(self.err, "go on? [y/N] ").and_then(|()| self.err.flush());
        let mut input = std::mem::replace(&mut self.input, Box::new(std::io::empty()));
        let (told, answer) = tokio::sync::oneshot::channel();
        // A thread of its own: an interrupt ends the command although nobody answers.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = input.read_line(&mut line);
            drop(told.send((read.map(|_| line), input)));
        });
        let Ok((line, input)) = answer.await else { return Err(Failure::interrupted()) };
        self.input = input;
        match line.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(ExitCode::Interrupted, "not confirmed: nothing was changed")),
        }
    }

    /// Shows a failure: what went wrong, and what to do next.
    pub fn show(&mut self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        let (red, cyan) = (bold(AnsiColor::Red), bold(AnsiColor::Cyan));
        let message = printable(&failure.message).replace('\n', " ");
        // The word before it takes some room as well.
        let width = self.err_width();
        let message = folded(&format!("error: {message}"), width).replacen("error: ", "", 1);
        let _ = writeln!(self.err, "{red}error:{red:#} {message}");
        if let Some(hint) = &failure.hint {
            let hint = printable(hint);
            let hint = folded(&format!("hint: {hint}"), width).replacen("hint: ", "", 1);
            let _ = writeln!(self.err, "{cyan}hint:{cyan:#} {hint}");
        }
        let _ = self.err.flush();
    }
}

fn bold(color: AnsiColor) -> Style {
    color.on_default().bold()
}

/// Breaks lines that are longer than the terminal is wide, between words: behind a colon or a comma
/// rather than elsewhere, so that commands stay in one piece.
pub(super) fn folded(text: &str, width: u16) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines = text.split('\n').map(|line| folded_line(line, width, indent(line) + 2));
    lines.collect::<Vec<_>>().join("\n")
}

/// The same of one line, whose further lines begin at a margin.
pub(crate) fn folded_line(line: &str, width: u16, margin: usize) -> String {
    let width = usize::from(width);
    if width < 20 {
        return line.to_owned();
    }
    let margin = " ".repeat(margin.min(width / 2));
    let (mut out, mut rest, mut room) = (String::new(), line, width);
    while rest.chars().count() > room {
        // Where the line that fits ends, in bytes: one column further for the space behind a word.
        let fits = rest.char_indices().nth(room + 1).map_or(rest.len(), |(at, _)| at);
        let head = &rest[..fits];
        let behind = |separator: &str| head.rfind(separator).map(|at| at + separator.len());
        let good = [": ", "; ", ", "].iter().filter_map(|one| behind(one)).max();
        let good = good.filter(|at| head[..*at].chars().count() * 5 > room * 2);
        let is_word = |at: &usize| !head[..*at].trim().is_empty();
        // What has no space in it is left to the terminal.
        let Some(at) = good.or_else(|| behind(" ")).filter(is_word) else { break };
        out = out + rest[..at].trim_end() + "\n" + &margin;
        rest = &rest[at..];
        room = width - margin.len();
    }
    out + rest
}

/// Keeps what a node says from steering the terminal.
pub(super) fn printable(text: &str) -> String {
    let safe = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_commands_are_not() {
        let text = "n3 is dead, and its disk alone holds 1 partition; start n3 again; if it never \
                    comes back, give them up one by one: narad cluster declare-lost";
        let shown = folded(text, 80);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "n3 is dead, and its disk alone holds 1 partition; start n3 again;",
                "  if it never comes back, give them up one by one: narad cluster declare-lost",
            ]
        );
        assert_eq!(folded("short\n  next: too", 80), "short\n  next: too");
        assert_eq!(folded(text, u16::MAX), text);
        let words = "word ".repeat(40);
        assert!(folded(&words, 30).lines().all(|line| line.len() <= 30));
        // What cannot be broken is whole, and so is whatever else there is.
        let long = "x".repeat(100);
        assert_eq!(folded(&long, 30), long);
        let umlauts = "ü ".repeat(60);
        assert_eq!(folded(&umlauts, 21).matches('ü').count(), 60);
    }
}
