//! Why the demonstration ends early, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::{ExitCode, Failure};
use crate::client::{ClientError, SendError};
use crate::log::LogError;
use crate::node_loop::AskFault;
use crate::server::ServerError;
use crate::store::StoreError;

/// Why the demonstration ends early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The input cannot be read.
    #[error("{}: {source}", path.display())]
    Input {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The input has no line.
    #[error("there is not one line in {}", .0.display())]
    NoLines(PathBuf),
    /// The input is not what it was when the demonstration began.
    #[error("{} was changed while the demonstration ran, so that nothing can be compared with it", .0.display())]
    InputChanged(PathBuf),
    /// More records than can be kept account of.
    #[error("{records} records are too many to keep account of: at most {most}")]
    TooMany {
        /// How many.
        records: u64,
        /// How many there may be.
        most: u64,
    },
    /// The data directory holds something.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The data directory cannot be used.
    #[error("{}: {source}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk has too little room for the records and their copies.
    #[error("{} has {free_mib} MiB of room, but the records and their copies may take {needed_mib} MiB", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Room, in MiB.
        free_mib: u64,
        /// Need, in MiB.
        needed_mib: u64,
    },
    /// A node does not start, or does not go on.
    #[error("{node}: {source}")]
    Server {
        /// Its name.
        node: String,
        /// Why.
        source: Box<ServerError>,
    },
    /// A request has no result.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Records were refused.
    #[error("records were refused: {0}")]
    Send(#[from] SendError),
    /// The cluster does not do what it is asked for.
    #[error("{what}: {source}")]
    Ask {
        /// What it was asked for.
        what: &'static str,
        /// What it said.
        source: AskFault,
    },
    /// No node is left that could be asked.
    #[error("no node is left that could be asked")]
    NobodyLeft,
    /// The directory of the killed node cannot be read.
    #[error("the directory of the killed node: {0}")]
    OldDisk(#[from] StoreError),
    /// A log of the killed node cannot be read.
    #[error("a log of the killed node: {0}")]
    OldLog(#[from] LogError),
    /// Something never came to its end.
    #[error("waited {} s in vain: {what}; moves: {}", waited.as_secs(), evidence.join(", "))]
    Stalled {
        /// What.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// The moves at that time, each with what it waits for.
        evidence: Vec<String>,
    },
    /// Work was given up because of a panic or the end of the process.
    #[error("a part of the demonstration failed: {0}")]
    Internal(String),
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        let message = error.to_string();
        let usage = |hint: &str| Self::new(ExitCode::Usage, message.clone()).with_hint(hint);
        match error {
            DemoError::Input { .. } => usage("--input takes a file, or a directory of files"),
            DemoError::NoLines(_) => usage("name a file or a directory with lines in it"),
            DemoError::InputChanged(_) => usage("use a copy of the files"),
            DemoError::TooMany { .. } => usage("use fewer records, or a smaller input"),
            DemoError::NotEmpty(_) => usage("name a new or an empty directory with --data-dir"),
            DemoError::Directory { .. } => Self::new(ExitCode::DataDirectory, message)
                .with_hint("name another directory with --data-dir"),
            DemoError::NoRoom { .. } => Self::new(ExitCode::DiskFull, message)
                .with_hint("name a directory on another disk with --data-dir, or use less input"),
            DemoError::Server { source, .. } => Self { message, ..Self::from(*source) },
            DemoError::Client(error) => error.into(),
            DemoError::Send(error) => error.into(),
            DemoError::Stalled { .. } => Self::new(ExitCode::Failure, message).with_hint(
                "a busy machine may need more time than the shortened times allow: try again; \
                 --log info shows what the nodes do",
            ),
            DemoError::Ask { .. }
            | DemoError::NobodyLeft
            | DemoError::OldDisk(_)
            | DemoError::OldLog(_)
            | DemoError::Internal(_) => Self::new(ExitCode::Failure, message)
                .with_hint("--log info shows what the nodes do"),
            DemoError::Interrupted => Self::new(ExitCode::Interrupted, message),
        }
    }
}
