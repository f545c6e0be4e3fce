//! Running one node.

use std::path::PathBuf;

use clap::Args;

use super::terminal::Terminal;
use super::{Failure, LogFormat};
use crate::server::Start;
use crate::settings::{Layers, LoggingSettings, Settings, address, commented_default};

/// Running one node.
///
/// Flags win over the environment (`NARAD_DATA_DIR`, `NARAD_POLICY_LEASE`, ..), which wins over the
/// file.
#[derive(Clone, Debug, Args)]
pub struct ServerArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", env = "NARAD_CONFIG")]
    pub config: Option<PathBuf>,
    /// Found a cluster, if the data directory belongs to none
    #[arg(long, conflicts_with = "join")]
    pub bootstrap: bool,
    /// Join the cluster of these peer addresses, if the data directory belongs to none
    #[arg(long, value_name = "ADDR,..", value_delimiter = ',', value_parser = address)]
    pub join: Vec<String>,
    /// The node's name
    #[arg(long)]
    pub name: Option<String>,
    /// Where the node keeps its data
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Where it listens for other nodes
    #[arg(long, value_name = "ADDR")]
    pub listen_peer: Option<String>,
    /// Where it listens for operators and clients
    #[arg(long, value_name = "ADDR")]
    pub listen_http: Option<String>,
    /// Where other nodes are told to find it
    #[arg(long, value_name = "ADDR")]
    pub advertise_peer: Option<String>,
    /// Where clients are told to find it
    #[arg(long, value_name = "ADDR")]
    pub advertise_http: Option<String>,
    /// A directory that `narad cert` has made, with this node's certificate
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<String>,
    /// The authorities that are trusted, instead of the directory's ca.crt
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<String>,
    /// The node's certificate, instead of the directory's NAME.crt
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<String>,
    /// Its private key, instead of the directory's NAME.key
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<String>,
    /// Serve other machines without TLS: whoever reaches the node can do anything to it
    #[arg(long)]
    pub insecure: bool,
    /// Any key of the configuration file, such as policy.lease=10s
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// Print a configuration file with every key, its meaning and its default, and exit
    #[arg(long)]
    pub print_config: bool,
}

pub(super) async fn run(
    args: ServerArgs,
    is_filter_given: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if args.print_config {
        return terminal.write(commented_default().as_bytes());
    }
    let start = args.start();
    let settings = args.settings()?;
    settings.required_name()?;
    // A variable cannot change while the process lives; the file can.
    let reread = move || {
        let mut settings = args.settings()?;
        if is_filter_given {
            // The command line has the last word on it.
            settings.logging = LoggingSettings::default();
        }
        Ok(settings)
    };
    let settings = if is_filter_given {
        Settings { logging: LoggingSettings::default(), ..settings }
    } else {
        settings
    };
    crate::server::run(settings, start, reread).await
}

impl ServerArgs {
    fn start(&self) -> Start {
        if self.bootstrap {
            Start::Bootstrap
        } else if self.join.is_empty() {
            Start::Resume
        } else {
            Start::Join(self.join.clone())
        }
    }

    /// Reads the configuration: the file, this process's environment, the flags.
    fn settings(&self) -> Result<Settings, Failure> {
        // A variable that is no text names no value of ours.
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Ok(self.clone().layers(environment)?.settings()?)
    }

    /// Returns what a node with these arguments logs.
    pub(super) fn logging(&self) -> Result<(String, LogFormat), Failure> {
        if self.print_config {
            return Ok(("warn".into(), LogFormat::Text));
        }
        let LoggingSettings { filter, format } = self.settings()?.logging;
        let format = if format == "json" { LogFormat::Json } else { LogFormat::Text };
        Ok((filter, format))
    }

    fn layers(
        self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Layers, Failure> {
        let mut layers =
            Layers::default().with_file(self.config.as_deref())?.with_environment(environment);
        let flags = [
            ("name", self.name),
            ("data_dir", self.data_dir),
            ("listen.peer", self.listen_peer),
            ("listen.http", self.listen_http),
            ("advertise.peer", self.advertise_peer),
            ("advertise.http", self.advertise_http),
            ("tls.dir", self.tls_dir),
            ("tls.ca", self.tls_ca),
            ("tls.cert", self.tls_cert),
            ("tls.key", self.tls_key),
            ("insecure", self.insecure.then(|| "true".to_owned())),
        ];
        for (key, value) in flags {
            if let Some(value) = value {
                layers = layers.with_flag(key, value);
            }
        }
        for (key, value) in self.set {
            layers = layers.with_flag(key, value);
        }
        Ok(layers)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().into(), value.trim().into())),
        None => Err("write KEY=VALUE, such as policy.lease=10s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: ServerArgs,
    }

    fn args(line: &[&str]) -> ServerArgs {
        Only::try_parse_from(["server"].iter().chain(line)).expect("a command line").args
    }

    #[test]
    fn a_flag_wins_over_the_environment() {
        let environment = [("NARAD_DATA_DIR", "from-env"), ("NARAD_POLICY_LEASE", "7s")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let args = args(&["--data-dir", "from-flag", "--set", "policy.max_in_flight=3"]);
        let layers = args.layers(environment.into_iter()).expect("no file");
        let settings = layers.settings().expect("settings");
        assert_eq!(settings.data_dir, PathBuf::from("from-flag"));
        assert_eq!(settings.policy.lease.as_secs(), 7);
        assert_eq!(settings.policy.max_in_flight, 3);
    }

    #[test]
    fn founding_and_joining_exclude_each_other() {
        assert_eq!(args(&[]).start(), Start::Resume);
        assert_eq!(args(&["--bootstrap"]).start(), Start::Bootstrap);
        let both = ["a:1", "b:1"].map(String::from).to_vec();
        assert_eq!(args(&["--join", "a:1,b:1"]).start(), Start::Join(both));
        assert!(Only::try_parse_from(["server", "--bootstrap", "--join", "a:1"]).is_err());
        assert!(Only::try_parse_from(["server", "--join", "a:1,b"]).is_err());
    }
}
