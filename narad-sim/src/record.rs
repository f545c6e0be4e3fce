//! Trace files: writing one while a run goes on, and reading one back.

use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;

use crate::lab::{Describe, Watch};
use crate::outcome::Summary;
use crate::trace::{Header, Line};

/// The version of trace files that is written and read.
pub const VERSION: u32 = 1;

/// Writes the trace of a run.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// Begins a trace.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut recorder = Self { out, failed: None };
        recorder.write(header)?;
        Ok(recorder)
    }

    /// Ends a trace.
    ///
    /// # Errors
    ///
    /// If the disk refuses, or refused before.
    pub fn finish(mut self, summary: &Summary) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.write(summary)?;
        self.out.flush()
    }

    fn write(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }
}

impl<W: Write> Watch for Recorder<W> {
    fn line(&mut self, line: &Line, _: &dyn Describe) -> ControlFlow<()> {
        match self.write(line) {
            Ok(()) => ControlFlow::Continue(()),
            // A run whose trace cannot be kept is of no use.
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("line {line} cannot be read: {source}")]
    Io {
        /// The line, from one.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The first line is no header.
    #[error("the first line is no header of a trace: {0}; narad-sim run --trace writes one")]
    NoHeader(serde_json::Error),
    /// It is of another version.
    #[error("it is of version {0}, and this command reads version {VERSION}; record it again")]
    Version(u32),
    /// A line is no event.
    #[error("line {line} is no event of a trace: {source}")]
    Damaged {
        /// The line, from one.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
}

/// Reads a trace line by line.
#[derive(Debug)]
pub struct Recorded<R: BufRead> {
    /// What was run.
    pub header: Header,
    lines: io::Lines<R>,
    line: u64,
    summary: Option<Box<Summary>>,
}

impl<R: BufRead> Recorded<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// If there is none, or one of another version.
    pub fn open(input: R) -> Result<Self, TraceError> {
        let mut lines = input.lines();
        let first = lines.next().unwrap_or_else(|| Ok(String::new()));
        let first = first.map_err(|source| TraceError::Io { line: 1, source })?;
        let header: Header = serde_json::from_str(&first).map_err(TraceError::NoHeader)?;
        if header.narad_trace != VERSION {
            return Err(TraceError::Version(header.narad_trace));
        }
        Ok(Self { header, lines, line: 1, summary: None })
    }

    /// Returns the summary, once the last event has been read; a run that was interrupted has none.
    pub fn summary(&self) -> Option<&Summary> {
        self.summary.as_deref()
    }

    /// Reads the next event; nothing after the last one.
    ///
    /// # Errors
    ///
    /// If a line is no event.
    pub fn next_line(&mut self) -> Result<Option<Line>, TraceError> {
        let Some(text) = self.lines.next() else { return Ok(None) };
        self.line += 1;
        let line = self.line;
        let text = text.map_err(|source| TraceError::Io { line, source })?;
        match serde_json::from_str::<Line>(&text) {
            Ok(event) => Ok(Some(event)),
            Err(source) => match serde_json::from_str(&text) {
                Ok(summary) => {
                    self.summary = Some(summary);
                    Ok(None)
                }
                Err(_) => Err(TraceError::Damaged { line, source }),
            },
        }
    }
}
