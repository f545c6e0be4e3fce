//! What the process exits with, and what it says before.

use std::fmt::Write as _;

use crate::client::{ClientError, SendError};
use crate::settings::SettingsError;

/// What the process exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything was done.
    Success = 0,
    /// Something failed that no other code names.
    Failure = 1,
    /// The command line, the configuration or a value in it is wrong; nothing was done.
    Usage = 2,
    /// There is no such member, topic or partition.
    NotFound = 3,
    /// The cluster refused; nothing was changed.
    Refused = 4,
    /// No node, no leader or no owner could be reached, or an answer was lost. Try again.
    Unavailable = 5,
    /// A promise was not kept (demo).
    PromiseBroken = 6,
    /// The data directory is in use, belongs to another node, or cannot be read and written.
    DataDirectory = 7,
    /// A disk is full.
    DiskFull = 8,
    /// What was waited for cannot go on before somebody does something.
    Blocked = 9,
    /// The node must not be stopped now (safe-to-stop).
    NotSafe = 10,
    /// Whoever asks is not known, or may not do that; nothing was done.
    Denied = 11,
    /// It was interrupted before it was done.
    Interrupted = 130,
}

impl ExitCode {
    const ALL: [(Self, &str); 13] = [
        (Self::Success, "everything was done; for pub: every line is acknowledged"),
        (Self::Failure, "something failed that no other code names"),
        (Self::Usage, "the command line, the configuration or a value is wrong; nothing was done"),
        (Self::NotFound, "there is no such member, topic or partition"),
        (Self::Refused, "the cluster refused, with reasons; nothing was changed"),
        (Self::Unavailable, "no node, leader or owner could be reached, or an answer was lost"),
        (Self::PromiseBroken, "a promise was not kept (demo)"),
        (
            Self::DataDirectory,
            "the data directory is in use, another node's, or cannot be read and written",
        ),
        (Self::DiskFull, "a disk is full"),
        (Self::Blocked, "what was waited for is blocked: somebody has to do something"),
        (Self::NotSafe, "the node must not be stopped now (safe-to-stop)"),
        (Self::Denied, "the token is missing, not known, or of too small a role; nothing was done"),
        (Self::Interrupted, "it was interrupted before it was done"),
    ];
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// Returns all exit codes with what they mean.
pub(super) fn table() -> String {
    let mut text = String::from("What narad exits with:\n\n");
    for (code, meaning) in ExitCode::ALL {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{:>5}  {meaning}", code as u8);
    }
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
    /// Says what went wrong.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Says the same of something that was done in part: no longer that nothing was.
    pub(super) fn in_part(self) -> Self {
        let code = match self.code {
            ExitCode::Usage | ExitCode::Refused => ExitCode::Failure,
            code => code,
        };
        Self { code, ..self }
    }

    /// Says what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "interrupted")
    }

    /// Whoever read the output has seen enough: the end of the work, and no failure.
    pub(super) fn from_output(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(ExitCode::Success, ""),
            std::io::ErrorKind::StorageFull => {
                Self::new(ExitCode::DiskFull, format!("the output cannot be written: {error}"))
            }
            _ => Self::new(ExitCode::Failure, format!("the output cannot be written: {error}")),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = error.to_string();
        match error {
            ClientError::Unreachable { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint("start a node, or name one that runs with --admin http://HOST:PORT"),
            ClientError::OutcomeUnknown { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint("look whether it was done before you ask again"),
            ClientError::OwnerUnreachable { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint(
                    "start that node again; or narad cluster moves shows whether its partitions wait \
                     to be taken over",
                ),
            ClientError::NoOwner { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint("a new topic gets its owners in a moment: try again"),
            ClientError::OwnerNotFound { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint("narad topic show TOPIC tells who serves its partitions; try again"),
            ClientError::NoSuchPartition { .. } => Self::new(ExitCode::NotFound, message)
                .with_hint("narad topic list shows how many partitions a topic has"),
            ClientError::BadAnswer { .. } => Self::new(ExitCode::Failure, message)
                .with_hint("is --admin the HTTP address of a node? The other address is for peers"),
            ClientError::Refused { status, body, .. } => refusal(status, &body.code, message),
        }
    }
}

fn refusal(status: u16, code: &str, message: String) -> Failure {
    let exit = match (status, code) {
        (404, _) => ExitCode::NotFound,
        (401 | 403, _) => ExitCode::Denied,
        (409, _) => ExitCode::Refused,
        (400 | 413, _) => ExitCode::Usage,
        (_, "disk_full") => ExitCode::DiskFull,
        (421 | 503, _) => ExitCode::Unavailable,
        _ => ExitCode::Failure,
    };
    let hint = match code {
        "unknown_member" => "narad cluster members lists the members",
        "unknown_topic" | "unknown_partition" => "narad topic list lists the topics",
        "no_such_route" => "the node may be older than this command, or --admin is no node",
        "blocked" => "nothing was changed; remove what stands in the way, then ask again",
        "no_leader" => {
            "more than half of the voters have to run; members --stale shows what a node knows"
        }
        "outcome_unknown" => "look whether it was done before you ask again",
        "disk_full" => {
            "what was deleted or has moved lies in quarantine for a while, and takes its space until \
             then: narad cluster salvage drop frees it"
        }
        "removed" | "stopped" => "name a node that runs with --admin http://HOST:PORT",
        "unauthenticated" => "set NARAD_TOKEN or --token-file; narad token new makes a token",
        "too_large" => "send less at once, or raise the limit under [http] in the node's file",
        _ => return Failure::new(exit, message),
    };
    Failure::new(exit, message).with_hint(hint)
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Refused(error) => error.into(),
            SendError::GaveUp { .. } => Self::new(ExitCode::Unavailable, error.to_string())
                .with_hint("narad cluster members and narad cluster moves show what stands still"),
        }
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self::new(ExitCode::Usage, error.to_string())
            .with_hint("narad server --print-config shows every key with its meaning and default")
    }
}
