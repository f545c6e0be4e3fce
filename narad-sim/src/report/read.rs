//! A trace file, read into memory.

use crate::outcome::Summary;
use crate::trace::{Header, Line};

use super::ReportError;

/// A whole trace.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) header: Header,
    pub(super) lines: Vec<Line>,
    pub(super) summary: Summary,
}

/// Reads the text of a trace file. Empty lines are passed over.
pub(super) fn trace(text: &str) -> Result<Trace, ReportError> {
    let mut rows = text
        .lines()
        .enumerate()
        .map(|(index, row)| (index + 1, row.trim()))
        .filter(|(_, row)| !row.is_empty());
    let (mut last, first) = rows.next().ok_or(ReportError::Empty)?;
    let header = header(first)?;

    let mut lines = Vec::new();
    while let Some((number, row)) = rows.next() {
        last = number;
        let broken = match serde_json::from_str::<Line>(row) {
            Ok(mut line) => {
                // Time only moves forward; a hand-edited trace shall not break the page.
                line.at_us = lines.last().map_or(0, |last: &Line| last.at_us).max(line.at_us);
                lines.push(line);
                continue;
            }
            Err(source) => source,
        };
        let is_last = rows.next().is_none();
        return match serde_json::from_str::<Summary>(row) {
            Ok(summary) if is_last => Ok(Trace { header, lines, summary }),
            Err(_) if is_last && broken.is_eof() => Err(ReportError::Truncated { line: number }),
            _ => Err(ReportError::Damaged { line: number, source: broken }),
        };
    }
    Err(ReportError::Truncated { line: last })
}

fn header(row: &str) -> Result<Header, ReportError> {
    #[derive(serde::Deserialize)]
    struct Version {
        narad_trace: u32,
    }
    let version: Version =
        serde_json::from_str(row).map_err(|source| ReportError::NotATrace { source })?;
    if version.narad_trace != 1 {
        return Err(ReportError::Version { found: version.narad_trace });
    }
    serde_json::from_str(row).map_err(|source| ReportError::NotATrace { source })
}
