//! `report`: a page that shows a run or a sweep.

use std::path::{Path, PathBuf};

use clap::Args;

use super::terminal::Terminal;
use super::{ExitCode, Failure, Global, input};
use crate::report::{self, Page};
use crate::sweep::read_rows;

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  narad-sim run --seed 7 --trace seven.jsonl
  narad-sim report seven.jsonl -o seven.html           one run
  narad-sim sweep --seeds 0..1000 --out thousand
  narad-sim report thousand -o thousand.html --svg pictures")]
pub struct ReportArgs {
    /// A trace, or the directory that sweep --out wrote
    #[arg(value_name = "TRACE|DIR")]
    pub source: PathBuf,
    /// Where to write the page: one file that needs nothing else
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    pub output: PathBuf,
    /// Where to write its pictures as files of their own
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

pub(super) fn run(
    args: ReportArgs,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<ExitCode, Failure> {
    let page = page(&args.source, terminal)?;
    write(&args.output, page.html())?;
    let mut pictures = Vec::new();
    if let Some(dir) = &args.svg {
        make(dir)?;
        for (name, text) in page.svgs() {
            let path = dir.join(name);
            write(&path, text)?;
            pictures.push(path.display().to_string());
        }
    }
    let output = args.output.display().to_string();
    if global.is_json() {
        terminal.print_json(&serde_json::json!({ "output": output, "pictures": pictures }))?;
    } else {
        let lines: Vec<String> = [output].into_iter().chain(pictures).collect();
        terminal.print(&lines.join("\n"))?;
    }
    Ok(ExitCode::Good)
}

fn page(source: &Path, terminal: &mut Terminal) -> Result<Page, Failure> {
    if source.is_dir() {
        let rows = read_rows(source)?.map(|row| row.map(|row| row.summary));
        let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
        return Ok(report::of_rows(&rows));
    }
    let text = input::read_trace(source, terminal)?;
    report::of_trace(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", source.display())))
}

/// Makes a folder and those above it.
pub(super) fn make(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| cannot(dir, &error))
}

/// Writes a text file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| cannot(path, &error))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}", path.display()))
}
