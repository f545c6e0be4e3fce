//! Pages that show what happened: one for a run, one for a sweep.
//!
//! *Purpose.* A researcher opens one file in a browser and sees who was up, who led, who moved
//! what, how long it was frozen, what broke and how near everything else came to breaking. A
//! [`Page`] needs nothing from the network: styles, pictures and the small script are inside. Its
//! plots and its timeline are also there as SVG files of their own, for papers.
//!
//! # Invariants
//!
//! 1. The same input gives the same bytes.
//! 2. Every word of a trace is escaped where it is shown: `text::escape` for HTML and SVG,
//!    `data::json` for the script.
//! 3. What is left out of a big trace is said on the page, with its number.
//! 4. Without a script, and on paper, the page shows the timeline as a still picture.
//!
//! # Examples
//!
//! An interrupted trace is refused, and the error names its last line:
//!
//! ```
//! use narad_sim::report::{self, ReportError};
//!
//! let header = r#"{"narad_trace":1,"scenario":"name = \"late-flip\"","seed":7,"planted":null}"#;
//! let refused = report::of_trace(header).unwrap_err();
//! assert!(matches!(refused, ReportError::Truncated { line: 1 }));
//! ```

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a place on a picture needs fewer digits than either type has"
)]

mod chart;
mod data;
mod figures;
mod html;
mod legend;
mod limits;
mod margins;
mod moves;
mod read;
mod run_page;
mod scale;
mod story;
mod sweep_page;
mod sweep_plots;
mod text;
mod thin;
mod timeline;
mod words;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use crate::outcome::Summary;

pub use self::sweep_page::reproduce;

/// One self-contained HTML document, and its pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    html: String,
    svgs: Vec<(String, String)>,
}

impl Page {
    /// Returns the document.
    #[must_use]
    pub fn html(&self) -> &str {
        &self.html
    }

    /// Returns the pictures as files of their own: a name such as `freeze-over-load.svg`, and the
    /// text. They follow the light or dark preference of whoever looks at them.
    #[must_use]
    pub fn svgs(&self) -> &[(String, String)] {
        &self.svgs
    }
}

/// Why a trace cannot be shown. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is not even a header.
    #[error("the trace is empty: write one with `narad-sim run SCENARIO --trace FILE`")]
    Empty,
    /// The first line is not the header of a trace.
    #[error(
        "line 1 is not the header of a trace ({source}): give a file that `narad-sim run --trace` \
         wrote, or the folder of a sweep"
    )]
    NotATrace {
        /// What is wrong with the line.
        source: serde_json::Error,
    },
    /// The trace was written by another version.
    #[error("line 1: this is format {found} and this program reads format 1: record the run again")]
    Version {
        /// The format that the header names.
        found: u32,
    },
    /// A line in the middle cannot be read.
    #[error("line {line} cannot be read ({source}): the file is damaged, record the run again")]
    Damaged {
        /// Which line.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The file ends before the summary, which is its last line.
    #[error(
        "the trace breaks off at line {line}, before its summary: let the run end and record it again"
    )]
    Truncated {
        /// The last line that is there, whole or in part.
        line: usize,
    },
}

/// Shows one run.
///
/// `trace` is the text of a trace file: a header, the lines, the summary (see
/// [`trace`](crate::trace)). Very long traces are thinned out, least important lines first, and
/// the page says what was left out.
///
/// # Errors
///
/// If the text is not a whole trace; the error names the line.
pub fn of_trace(trace: &str) -> Result<Page, ReportError> {
    let trace = read::trace(trace)?;
    Ok(run_page::page(&trace))
}

/// Shows a sweep: one row a run, in any order.
#[must_use]
pub fn of_rows(rows: &[Summary]) -> Page {
    sweep_page::page(rows)
}
