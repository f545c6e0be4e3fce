//! How answers are shown, or where they go.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// How answers are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For people with room for more columns.
    Wide,
    /// The API's JSON.
    Json,
}

/// What `--output` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// How an answer is shown.
    Shown(Format),
    /// Where it goes; of a trace only.
    File(PathBuf),
}

/// Reads an [`Output`]: a format, or what has a dot or a slash and so can only be a file.
#[derive(Clone, Copy, Debug)]
pub struct OutputParser;

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Output, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if let Ok(format) = Format::from_str(text, false) {
            return Ok(Output::Shown(format));
        }
        if value.as_encoded_bytes().iter().any(|byte| b"./".contains(byte)) {
            return Ok(Output::File(value.into()));
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        if let Some(arg) = arg {
            error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
        }
        error.insert(ContextKind::InvalidValue, ContextValue::String(text.to_owned()));
        let names = ["table", "wide", "json"].map(str::to_owned).to_vec();
        error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Format::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}
