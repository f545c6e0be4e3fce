//! Narad beside the tools that do the same work, and beside the limits of the machine: one run, one
//! table, ratios only.
//!
//! ```text
//! bench_move                       every bar
//! bench_move C1 C2 --pairs 7       these
//! bench_move --json                one object per bar and variant, then one of the machine
//! bench_move --svg DIR             and a plot per group
//! ```
//!
//! Every pair runs both sides one after the other, so that whatever else the machine does hits both
//! alike; the first pair is thrown away, and what counts is the median of the ratios of the others.

mod bars;
mod copy;
mod cpu;
mod machine;
mod peers;
mod plan;
mod plot;
mod producer;
mod replicated;
mod report;
mod rig;
mod stats;
mod volatile;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use self::bars::Bar;
use self::report::Report;

/// Measures how Narad moves partitions, in ratios to other tools on the same machine
#[derive(Debug, Parser)]
#[command(name = "bench_move")]
struct Arguments {
    /// Bars to measure, by their names (C1, F1, ...) [default: all]
    #[arg(value_enum)]
    bars: Vec<Bar>,
    /// Pairs of runs that count, after one that does not
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Bytes of a partition that is copied, in MiB
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(64..=16_384))]
    mib: u64,
    /// Directory on the disk that is to be measured [default: the temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
    /// Write plots as SVG to this directory
    #[arg(long)]
    svg: Option<PathBuf>,
}

/// What every group of bars is told.
#[derive(Debug)]
struct Options {
    /// Pairs of runs that count.
    pairs: u32,
    /// Bytes of a partition that is copied.
    bytes: u64,
    /// An empty directory on the disk that is measured.
    dir: tempfile::TempDir,
}

fn main() -> ExitCode {
    let Arguments { bars, pairs, mib, dir, json, svg } = Arguments::parse();
    let bars = if bars.is_empty() { Bar::all() } else { bars };
    let parent = dir.unwrap_or_else(std::env::temp_dir);
    let dir = match tempfile::Builder::new().prefix("bench-move-").tempdir_in(&parent) {
        Ok(dir) => dir,
        Err(error) => {
            report::complain(&format!("cannot work in {}: {error}", parent.display()));
            return ExitCode::FAILURE;
        }
    };
    let options = Options { pairs, bytes: mib << 20, dir };
    let mut report = Report::new(json);
    for group in bars::groups(&bars) {
        group.measure(&options, &bars, &mut report);
    }
    match report.finish(&options, svg.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}
