//! Making and looking at certificates.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use narad_core::ids::Name;
use serde_json::json;

use super::table::render;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global};
use crate::http::Role;
use crate::tls::authority::{Authority, AuthorityError, DAYS_MAX, Issued, Validity, check_host};
use crate::tls::{Certificate, Who};

mod files;

use files::{Pair, write_all};

/// What `narad cert --help` ends with.
pub(super) const EXAMPLES: &str = "\
One authority for a cluster, one certificate for each node, and some for people and programs:

  narad cert init --cluster prod
  narad cert issue narad-1 narad-2 narad-3
  narad server --tls-dir narad-certs --name narad-1 --bootstrap
  narad --certs narad-certs --admin https://127.0.0.1:7401 cluster status";

/// Certificates.
#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// Make the authority of a cluster, and a certificate for its admin
    ///
    /// Whoever has ca.key can make himself a node: keep it where no node runs.
    Init {
        /// The cluster's name, which stands in every certificate; the nodes of another are refused
        #[arg(long, value_name = "NAME", default_value = "narad", value_parser = name)]
        cluster: Name,
        #[command(flatten)]
        place: Place,
        /// For how long the authority can sign and be trusted
        #[arg(long, value_name = "N", default_value_t = 3650, value_parser = days())]
        days: u32,
    },
    /// Make certificates for nodes
    ///
    /// A node can be found as localhost, on the loopback addresses and by its name; --host adds others.
    Issue {
        /// The nodes, by their names
        #[arg(required = true, value_name = "NODE", value_parser = name)]
        nodes: Vec<Name>,
        /// Host names and addresses under which clients find these nodes
        #[arg(long, value_name = "HOST", value_delimiter = ',')]
        host: Vec<String>,
        #[command(flatten)]
        place: Place,
        /// For how long they are valid
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = days())]
        days: u32,
    },
    /// Make a certificate for a person or a program
    Client {
        /// What the holder is called; the audit log says it
        #[arg(value_parser = name)]
        name: Name,
        /// What the holder may do: read, write or admin
        #[arg(long, value_name = "ROLE")]
        role: Role,
        #[command(flatten)]
        place: Place,
        /// For how long it is valid
        #[arg(long, value_name = "N", default_value_t = 365, value_parser = days())]
        days: u32,
    },
    /// Show what a certificate says
    Show {
        /// The certificate
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Where certificates are kept.
#[derive(Debug, Args)]
pub struct Place {
    /// The directory with the authority, where certificates go as well
    #[arg(long, value_name = "DIR", default_value = "narad-certs")]
    pub dir: PathBuf,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
}

pub(super) fn run(
    command: &CertCommand,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match command {
        CertCommand::Init { cluster, place, days } => init(cluster, place, *days, terminal),
        CertCommand::Issue { nodes, host, place, days } => {
            issue(nodes, host, place, *days, terminal)
        }
        CertCommand::Client { name, role, place, days } => {
            client(name, *role, place, *days, terminal)
        }
        CertCommand::Show { file } => show(file, global, terminal),
    }
}

/// What the admin's certificate is called.
const ADMIN: &str = "admin";

/// What the authority's certificate is called.
const AUTHORITY: &str = "ca";

fn init(cluster: &Name, place: &Place, days: u32, terminal: &mut Terminal) -> Result<(), Failure> {
    let authority = Authority::create(cluster, Validity::days(days)).map_err(failed)?;
    let admin = role(Role::Admin);
    // Long enough for people to learn that there is a date, and not for them to forget it.
    let issued = authority.issue(&admin, ADMIN, &[], Validity::days(days.min(365)));
    let pairs = [
        Pair { called: AUTHORITY, issued: authority.own().clone() },
        Pair { called: ADMIN, issued: issued.map_err(failed)? },
    ];
    write_all(&place.dir, &pairs, place.force)?;
    let dir = place.dir.display();
    terminal.note(&format!(
        "{dir}/ca.crt and ca.key: the authority of cluster {cluster}; keep the key away from the \
         nodes\n{dir}/admin.crt and admin.key: for narad --certs {dir} cluster status\nnext: \
         narad cert issue narad-1 narad-2 narad-3 --dir {dir}"
    ));
    Ok(())
}

fn issue(
    nodes: &[Name],
    hosts: &[String],
    place: &Place,
    days: u32,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let authority = open(&place.dir)?;
    for host in hosts {
        check_host(host).map_err(failed)?;
    }
    let mut pairs = Vec::new();
    for node in nodes {
        check_called(node)?;
        let mut found = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        // Not every name of a node can be one of a host.
        found.extend(Some(node.to_string()).filter(|name| check_host(name).is_ok()));
        found
            .extend(hosts.iter().filter(|host| !found.contains(host)).cloned().collect::<Vec<_>>());
        let who = Who::Node(node.clone());
        let issued = authority.issue(&who, node.as_str(), &found, Validity::days(days));
        pairs.push(Pair { called: node.as_str(), issued: issued.map_err(failed)? });
    }
    write_all(&place.dir, &pairs, place.force)?;
    for node in nodes {
        let at = place.dir.join(node.as_str());
        terminal.note(&format!("{at}.crt and {at}.key", at = at.display()));
    }
    let (dir, first) = (place.dir.display(), &nodes[0]);
    terminal.note(&format!(
        "next: each node gets its own two files and ca.crt; narad server --name {first} --tls-dir {dir}"
    ));
    Ok(())
}

fn client(
    name: &Name,
    of: Role,
    place: &Place,
    days: u32,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let authority = open(&place.dir)?;
    check_called(name)?;
    let issued = authority.issue(&role(of), name.as_str(), &[], Validity::days(days));
    let pair = Pair { called: name.as_str(), issued: issued.map_err(failed)? };
    write_all(&place.dir, &[pair], place.force)?;
    let (dir, at) = (place.dir.display(), place.dir.join(name.as_str()));
    terminal.note(&format!(
        "{at}.crt and {at}.key\nnext: narad --ca {dir}/ca.crt --cert {at}.crt --key {at}.key ..",
        at = at.display()
    ));
    Ok(())
}

fn show(file: &Path, global: &Global, terminal: &mut Terminal) -> Result<(), Failure> {
    let pem = files::read(file)?;
    let certificate = Certificate::of_pem(&pem).map_err(|why| {
        let message = format!("{} is no certificate of Narad's: {why}", file.display());
        Failure::new(ExitCode::Usage, message)
            .with_hint("ca.crt names nobody; show NODE.crt or admin.crt")
    })?;
    let days = certificate.left().as_secs() / 86_400;
    let valid = certificate.not_before <= SystemTime::now() && !certificate.left().is_zero();
    if global.format(terminal) == Format::Json {
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
        };
        let json = json!({
            "subject": certificate.subject.to_string(),
            "name": certificate.called,
            "hosts": certificate.hosts,
            "not_before": seconds(certificate.not_before),
            "not_after": seconds(certificate.not_after),
            "valid": valid,
        });
        return terminal.print_json(json.to_string().as_bytes());
    }
    let until = match (valid, days) {
        (true, days) => format!("for {}", super::count(days, "day", "days")),
        (false, _) if certificate.left() > Duration::ZERO => "not yet".to_owned(),
        (false, _) => "no more".to_owned(),
    };
    let rows = vec![
        vec!["subject".to_owned(), certificate.subject.to_string()],
        vec!["name".to_owned(), certificate.called.unwrap_or_default()],
        vec!["hosts".to_owned(), certificate.hosts.join(", ")],
        vec!["valid".to_owned(), until],
    ];
    terminal.print(&render(terminal.width, &["", ""], rows))
}

/// Reads the authority of a directory.
fn open(dir: &Path) -> Result<Authority, Failure> {
    let read = |ending: &str| -> Result<String, Failure> {
        let bytes = files::read(&dir.join(format!("{AUTHORITY}.{ending}")))
            .map_err(|failure| failure.with_hint("narad cert init makes an authority"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Authority::of_pem(Issued { cert: read("crt")?, key: read("key")? }).map_err(failed)
}

/// Keeps the names of files apart.
fn check_called(name: &Name) -> Result<(), Failure> {
    if name.as_str() == AUTHORITY {
        let message = "ca is what the authority's files are called: choose another name";
        return Err(Failure::new(ExitCode::Usage, message));
    }
    Ok(())
}

fn role(role: Role) -> Who {
    Who::Role(Name::new(role.name()).expect("roles have plain names"))
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX))
}

fn failed(error: AuthorityError) -> Failure {
    Failure::new(ExitCode::Usage, error.to_string())
}
