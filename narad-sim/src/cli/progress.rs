//! Progress on standard error, for people only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::terminal::{Terminal, printable};

/// A bar, or a spinner where the end is not known; nothing where no terminal is.
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins to show progress towards `len`.
    pub(super) fn new(terminal: &Terminal, len: Option<u64>, what: &str) -> Self {
        let target = if terminal.err_is_terminal {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let (bar, template) = match len {
            Some(len) => (
                ProgressBar::with_draw_target(Some(len), target),
                "{prefix} [{bar:30}] {human_pos}/{human_len} {per_sec} {eta} {msg}",
            ),
            None => (
                ProgressBar::with_draw_target(None, target),
                "{spinner} {prefix} {human_pos} {elapsed} {msg}",
            ),
        };
        let style = ProgressStyle::with_template(template);
        let bar = match style {
            Ok(style) => bar.with_style(style.progress_chars("=> ")),
            // The usual style will do.
            Err(_) => bar,
        };
        bar.set_prefix(what.to_owned());
        if terminal.err_is_terminal {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar }
    }

    /// One more is done.
    pub(super) fn step(&self) {
        self.bar.inc(1);
    }

    /// Tells what the figures are.
    pub(super) fn message(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Tells people something above the bar, or on standard error if there is no bar.
    pub(super) fn note(&self, terminal: &mut Terminal, text: &str) {
        if terminal.err_is_terminal {
            self.bar.println(printable(text));
        } else {
            terminal.note(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
