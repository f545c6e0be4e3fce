//! Tokens: made here, and read from files.

use std::path::Path;

use clap::Subcommand;
use serde::Serialize;

use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global};
use crate::http::{Role, Secret, Token};

/// Making tokens for whoever may use the API.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Draw a token and print it once, with the line for the nodes' configuration
    ///
    /// Nodes keep the hash alone. Add the line to auth.tokens in the file of each node and send it
    /// SIGHUP. As soon as there is one token, nobody gets anything but probes without one.
    New {
        /// What it allows: read looks at everything, write also produces and consumes, admin also
        /// changes the cluster
        #[arg(long, value_name = "read|write|admin")]
        role: Role,
        /// Whose it is, as the audit log says it; the role if not given
        #[arg(long)]
        name: Option<String>,
    },
}

/// What `token new` prints.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
    name: &'a str,
    role: Role,
    sha256: String,
}

pub(super) fn run(
    command: &TokenCommand,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let TokenCommand::New { role, name } = command;
    let name = name.as_deref().unwrap_or(role.name());
    let secret = Secret::draw();
    let token = Token { name: name.into(), role: *role, sha256: secret.sha256() };
    Token::check_all(std::slice::from_ref(&token)).map_err(|allowed| {
        Failure::new(ExitCode::Usage, format!("--name is {name:?}, but there must be {allowed}"))
    })?;
    let sha256 = token.sha256.to_string();
    if global.format(terminal) == Format::Json {
        let made = Made { token: secret.reveal(), name, role: *role, sha256 };
        let body = serde_json::to_vec(&made).expect("it has text keys only");
        return terminal.print_json(&body);
    }
    let quoted = toml::Value::String(name.into());
    terminal.print(&format!(
        "token     {}\nnode file [[auth.tokens]]\n          name = {quoted}\n          role = \
         \"{role}\"\n          sha256 = \"{sha256}\"\n",
        secret.reveal(),
    ))?;
    terminal.note("the token is not kept anywhere: put it into NARAD_TOKEN or a file now");
    Ok(())
}

/// Reads the token that a file holds.
pub(super) fn read(path: &Path) -> Result<Secret, Failure> {
    /// Longest file that can be one: a token and some space around it.
    const FILE_BYTES_MAX: u64 = 4096;
    let fail = |why: String| {
        let message = format!("the token file {} cannot be used: {why}", path.display());
        Failure::new(ExitCode::Usage, message)
    };
    let found = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if found.len() > FILE_BYTES_MAX {
        return Err(fail(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    text.trim().parse().map_err(|error: crate::http::SecretError| fail(error.to_string()))
}
