//! The `narad` command.
//!
//! Everything but the process itself is here: [`run`] takes a parsed command line and a
//! [`Terminal`], and returns the [`ExitCode`]. What a command answers goes to standard output, as a
//! table on a terminal and as the API's JSON elsewhere; progress and errors go to standard error.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::client::{Client, ClientOptions, Endpoint};
use crate::http::Secret;
use crate::tls::ClientTls;

mod cert;
mod cluster;
mod demo;
mod exit;
mod logging;
mod node;
mod output;
mod patience;
mod publish;
mod salvage;
mod subscribe;
mod table;
mod terminal;
mod token;
mod topic;

pub use demo::DemoOptions;
pub use exit::{ExitCode, Failure};
pub(crate) use logging::refilter;
pub use logging::{LogFormat, begin as begin_logging};
pub use output::{Format, Output, OutputParser};
pub use terminal::Terminal;
pub(crate) use terminal::folded_line;

/// Moves log partitions between nodes without losing an acknowledged record.
#[derive(Debug, Parser)]
#[command(name = "narad", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "`narad help exit-codes` lists what the command exits with.")]
pub struct Cli {
    /// What all commands share.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What all commands share.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// HTTP addresses of nodes, tried in turn
    #[arg(
        long,
        global = true,
        value_name = "ADDR,..",
        env = "NARAD_ADMIN",
        default_value = "http://127.0.0.1:7401",
        value_delimiter = ','
    )]
    pub admin: Vec<Endpoint>,
    /// The token that nodes are shown; better in the variable or a file, where others cannot see it
    #[arg(long, global = true, value_name = "TOKEN", env = "NARAD_TOKEN", hide_env_values = true)]
    pub token: Option<Secret>,
    /// A file that holds that token
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "NARAD_TOKEN_FILE",
        conflicts_with = "token"
    )]
    pub token_file: Option<PathBuf>,
    /// A directory that narad cert has made: nodes are asked over https, as its admin
    #[arg(long, global = true, value_name = "DIR", env = "NARAD_CERTS")]
    pub certs: Option<PathBuf>,
    /// The authority that signed the nodes' certificates: nodes are asked over https
    #[arg(long, global = true, value_name = "FILE", env = "NARAD_CA")]
    pub ca: Option<PathBuf>,
    /// The certificate that nodes are shown
    #[arg(long, global = true, value_name = "FILE", env = "NARAD_CERT", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Its private key
    #[arg(long, global = true, value_name = "FILE", env = "NARAD_KEY", requires = "cert")]
    pub key: Option<PathBuf>,
    /// How answers are shown; tables on a terminal and JSON elsewhere if not given. Of cluster trace
    /// the file to write
    #[arg(short, long, global = true, value_name = "FORMAT", value_parser = OutputParser)]
    pub output: Option<Output>,
    /// The same as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    pub json: bool,
    /// What is logged to standard error, such as info or raft=debug; of a node info,raft=warn if not
    /// given
    #[arg(long, global = true, value_name = "FILTER", env = "NARAD_LOG")]
    pub log: Option<String>,
    /// How it is written; text if not given
    #[arg(long, global = true, value_enum, env = "NARAD_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a cluster on this machine: write, move, drain, count
    Demo(DemoOptions),
    /// Run one node
    Server(node::ServerArgs),
    /// Watch and change the cluster
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Create, list and delete topics
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Publish lines, one record each
    Pub(publish::PubArgs),
    /// Receive records, one line each, and acknowledge them
    Sub(subscribe::SubArgs),
    /// Make tokens for whoever may use the API
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Make certificates, and look at them
    #[command(subcommand, after_help = cert::EXAMPLES)]
    Cert(cert::CertCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command
    Man {
        /// Where to; made if it is not there
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// List what the command exits with
    #[command(long_about = exit::table())]
    ExitCodes,
}

impl Command {
    /// Returns what is logged and how, unless the command line says otherwise.
    ///
    /// # Errors
    ///
    /// If the configuration of a node cannot be read.
    pub fn usual_log(&self) -> Result<(String, LogFormat), Failure> {
        match self {
            Self::Server(args) => args.logging(),
            // It kills nodes on purpose: what the others say about that is no warning to anybody.
            Self::Demo(_) => Ok(("error".into(), LogFormat::Text)),
            _ => Ok(("warn".into(), LogFormat::Text)),
        }
    }
}

impl Global {
    fn client(&self) -> Result<Client, Failure> {
        self.client_at(self.admin.clone())
    }

    /// The same for one node; `None` if that is no address.
    fn client_of(&self, addr: &str) -> Option<Result<Client, Failure>> {
        Some(self.client_at(vec![addr.parse().ok()?]))
    }

    fn client_at(&self, nodes: Vec<Endpoint>) -> Result<Client, Failure> {
        let token = match &self.token_file {
            Some(path) => Some(token::read(path)?),
            None => self.token.clone(),
        };
        let options = ClientOptions { token, tls: self.tls()?, ..ClientOptions::default() };
        Ok(Client::new(nodes, options))
    }

    /// What nodes are shown, and who is believed to be one.
    fn tls(&self) -> Result<Option<ClientTls>, Failure> {
        let in_certs = |file: &str| self.certs.as_deref().map(|dir| dir.join(file));
        let Some(ca) = self.ca.clone().or_else(|| in_certs("ca.crt")) else {
            return match &self.cert {
                Some(_) => Err(Failure::new(ExitCode::Usage, "--cert needs --ca as well")),
                None => Ok(None),
            };
        };
        let admin =
            || in_certs("admin.crt").filter(|cert| cert.exists()).zip(in_certs("admin.key"));
        let identity = self.cert.clone().zip(self.key.clone()).or_else(admin);
        let identity = identity.as_ref().map(|(cert, key)| (cert.as_path(), key.as_path()));
        let tls = ClientTls::open(&ca, identity);
        tls.map(Some).map_err(|error| Failure::new(ExitCode::Usage, error.to_string()))
    }

    /// What was asked for explicitly, if anything was.
    fn asked(&self) -> Option<Format> {
        match &self.output {
            _ if self.json => Some(Format::Json),
            Some(Output::Shown(format)) => Some(*format),
            Some(Output::File(_)) | None => None,
        }
    }

    fn format(&self, terminal: &Terminal) -> Format {
        let usual = if terminal.out_is_terminal { Format::Table } else { Format::Json };
        self.asked().unwrap_or(usual)
    }
}

/// Does what a command line asks and returns what the process exits with.
///
/// An error has been shown by then.
pub async fn run(cli: Cli, terminal: &mut Terminal) -> ExitCode {
    let interrupt = terminal.interrupt.clone();
    let global = cli.global;
    if let Some(failure) = misplaced(&global, &cli.command) {
        terminal.show(&failure);
        return failure.code;
    }
    let outcome = match cli.command {
        Command::Demo(options) => {
            let json = global.format(terminal) == Format::Json;
            crate::demo::run(DemoOptions { json, ..options }).await
        }
        Command::Server(args) => node::run(args, global.log.is_some(), terminal).await,
        Command::Pub(args) => publish::run(args, &global, terminal).await,
        Command::Sub(args) => subscribe::run(args, &global, terminal).await,
        Command::Token(command) => token::run(&command, &global, terminal),
        Command::Cert(command) => cert::run(&command, &global, terminal),
        Command::Completions { shell } => completions(shell, terminal),
        Command::Man { dir } => man(&dir, terminal),
        Command::ExitCodes => terminal.print(&exit::table()),
        Command::Cluster(command) => tokio::select! {
            outcome = cluster::run(&command, &global, terminal) => outcome,
            () = interrupt.cancelled() => command.interrupted(),
        },
        Command::Topic(command) => tokio::select! {
            outcome = topic::run(command, &global, terminal) => outcome,
            () = interrupt.cancelled() => Err(Failure::interrupted()),
        },
    };
    match outcome {
        Ok(()) => ExitCode::Success,
        Err(failure) => {
            terminal.show(&failure);
            failure.code
        }
    }
}

/// Refuses a file for what writes none.
fn misplaced(global: &Global, command: &Command) -> Option<Failure> {
    let Some(Output::File(file)) = &global.output else { return None };
    if matches!(command, Command::Cluster(cluster::ClusterCommand::Trace { .. })) {
        return None;
    }
    let message = format!("--output is {}, but must be table, wide or json", file.display());
    Some(Failure::new(ExitCode::Usage, message).with_hint("send the output there: > FILE"))
}

fn completions(shell: clap_complete::Shell, terminal: &mut Terminal) -> Result<(), Failure> {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "narad", &mut script);
    terminal.write(&script)
}

fn man(dir: &std::path::Path, terminal: &mut Terminal) -> Result<(), Failure> {
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Cli::command(), dir));
    written.map_err(|error| {
        let message = format!("{} cannot be written: {error}", dir.display());
        Failure::new(ExitCode::Usage, message)
    })?;
    terminal.note(&format!("man -l {}", dir.join("narad.1").display()));
    Ok(())
}

/// Says how many there are of something.
fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A file, or standard input.
fn open(
    path: Option<PathBuf>,
    terminal: &mut Terminal,
) -> Result<Box<dyn std::io::BufRead + Send>, Failure> {
    let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
        return Ok(std::mem::replace(&mut terminal.input, Box::new(std::io::empty())));
    };
    let opened = std::fs::File::open(&path);
    // A directory can be opened, and fails only when somebody reads it.
    if opened.as_ref().is_ok_and(|file| file.metadata().is_ok_and(|found| found.is_dir())) {
        let message = format!("{} is a directory", path.display());
        return Err(Failure::new(ExitCode::Usage, message));
    }
    match opened {
        Ok(file) => Ok(Box::new(std::io::BufReader::new(file))),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", path.display());
            Err(Failure::new(ExitCode::Usage, message))
        }
    }
}
