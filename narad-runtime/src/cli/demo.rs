//! What the demonstration is told.

use std::path::PathBuf;

use clap::Args;

/// What the demonstration is told.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct DemoOptions {
    /// How many records to write
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub records: u64,
    /// How long each value is
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub value_bytes: u32,
    /// How many records to write per second; as many as go if not given
    #[arg(long, value_name = "N/s", value_parser = rate)]
    pub rate: Option<u64>,
    /// Publish the lines of a file, or of all files of a directory, instead
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["records", "value_bytes"])]
    pub input: Option<PathBuf>,
    /// Where the nodes keep their data; a temporary directory if not given
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Leave the data there afterwards
    #[arg(long)]
    pub keep: bool,
    /// Make the same choices as another run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Whether to report for programs; set by --json.
    #[arg(skip)]
    pub json: bool,
}

/// Reads `500` or `500/s`.
fn rate(text: &str) -> Result<u64, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse() {
        Ok(rate @ 1..) => Ok(rate),
        Ok(0) | Err(_) => Err("a rate is a number of records per second, such as 500/s".into()),
    }
}
