//! What the process logs to standard error.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// The way to the process's filter, once it is there.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Begins to log, for as long as the process lives.
///
/// # Errors
///
/// What is wrong with the filter.
pub fn begin(filter: &str, format: LogFormat) -> Result<(), String> {
    let parsed = parse(filter)?;
    let (layer, handle) = reload::Layer::new(parsed);
    let registry = tracing_subscriber::registry().with(layer);
    let begun = match format {
        LogFormat::Json => {
            let lines = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr);
            registry.with(lines.with_current_span(true).with_span_list(true)).try_init()
        }
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let ansi = std::io::stderr().is_terminal() && !no_color;
            registry.with(fmt::layer().with_ansi(ansi).with_writer(std::io::stderr)).try_init()
        }
    };
    // Whoever embeds the command may log already; then that is how it is logged.
    if begun.is_ok() {
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// Takes another filter from now on; without a log of the process's own, nothing happens.
///
/// # Errors
///
/// What is wrong with it; the old one stays.
pub(crate) fn refilter(filter: &str) -> Result<(), String> {
    let parsed = parse(filter)?;
    match FILTER.get() {
        Some(handle) => handle.reload(parsed).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    filter.parse().map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())
}
