//! What the process exits with, and what it says before.

use std::fmt::Write as _;

use crate::outcome::Verdict;
use crate::sweep::{FolderError, MergeError};

/// What the process exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ExitCode {
    /// Every invariant held and every expectation was met.
    Good = 0,
    /// An expectation was not met, or a planted bug was not found.
    Unexpected = 1,
    /// The command line or a file is wrong, or a file cannot be written.
    Usage = 2,
    /// A safety invariant was violated.
    Unsafe = 10,
    /// Something did not finish and did not say why.
    Stuck = 11,
    /// The code under test panicked.
    Panicked = 12,
}

impl ExitCode {
    const ALL: [(Self, &str); 6] = [
        (Self::Good, "every invariant held, everything finished, every expectation was met"),
        (
            Self::Unexpected,
            "an expectation of the scenario was not met, a trace came out otherwise, or a planted \
             bug was not found",
        ),
        (Self::Usage, "the command line or a file is wrong, or a file cannot be written"),
        (Self::Unsafe, "a safety invariant (S1 to S18) was violated"),
        (Self::Stuck, "something did not finish and did not say why (L1 to L7)"),
        (Self::Panicked, "the code under test panicked"),
    ];
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Good => Self::Good,
            Verdict::Unexpected => Self::Unexpected,
            Verdict::Unsafe => Self::Unsafe,
            Verdict::Stuck => Self::Stuck,
            Verdict::Panicked => Self::Panicked,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// Returns all exit codes with what they mean.
pub(super) fn table() -> String {
    let mut text = String::from("What narad-sim exits with, the gravest if there are several:\n\n");
    for (code, meaning) in ExitCode::ALL {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{:>5}  {meaning}", code as u8);
    }
    text.push_str(
        "\nCtrl-C ends a command with what it has found by then; a second one at once (130).\n",
    );
    text
}

/// Why a command was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the process exits with.
    pub code: ExitCode,
    /// What went wrong; nothing if there is nothing to say.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// Says what is wrong with the command line or a file.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: ExitCode::Usage, message: message.into(), hint: None }
    }

    /// Says what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whoever read the output has seen enough: the end of the work, and no failure.
    pub(super) fn from_output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self { code: ExitCode::Good, message: String::new(), hint: None };
        }
        Self::usage(format!("the output cannot be written: {error}"))
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<MergeError> for Failure {
    fn from(error: MergeError) -> Self {
        Self::usage(error.to_string())
    }
}
