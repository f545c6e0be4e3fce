//! All keys of the configuration: where they stand, what they mean, and where their value goes.

use std::path::PathBuf;
use std::time::Duration;

use narad_core::ids::Name;

use super::units::{parse_duration, parse_size, show_duration, show_size};
use super::{Settings, tokens};
use crate::http::Token;

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Where it stands in the file, such as `policy.lease`.
    pub path: &'static str,
    /// What it means.
    pub doc: &'static str,
    slot: fn(&mut Settings) -> Slot<'_>,
}

/// Where a key's value goes; by its type, how it is written.
pub(super) enum Slot<'a> {
    Duration(&'a mut Duration),
    Size(&'a mut u64),
    Count(&'a mut u32),
    Switch(&'a mut bool),
    Word(&'a mut String),
    Text(&'a mut String),
    Address(&'a mut String),
    OptionalAddress(&'a mut Option<String>),
    Name(&'a mut Option<Name>),
    Path(&'a mut PathBuf),
    Tokens(&'a mut Vec<Token>),
    OptionalPath(&'a mut Option<PathBuf>),
}

/// A value as it was given.
pub(crate) enum Given<'a> {
    /// In the file, with a type.
    Toml(&'a toml::Value),
    /// Elsewhere, as text.
    Text(&'a str),
}

impl Key {
    /// Puts a value in its place; says what is allowed if it cannot.
    pub(crate) fn set(&self, settings: &mut Settings, given: &Given<'_>) -> Result<(), String> {
        let text = given.text();
        let refuse = |allowed: &str| Err(allowed.to_owned());
        match (self.slot)(settings) {
            Slot::Duration(slot) => match text.and_then(parse_duration) {
                Some(duration) => *slot = duration,
                None => return refuse("a duration such as \"10s\" or \"200ms\""),
            },
            Slot::Size(slot) => match given.number().or_else(|| text.and_then(parse_size)) {
                Some(bytes) => *slot = bytes,
                None => return refuse("a size such as \"64MiB\", or a number of bytes"),
            },
            Slot::Count(slot) => match given.number().and_then(|n| u32::try_from(n).ok()) {
                Some(count) => *slot = count,
                None => return refuse("a whole number from 0 to 4294967295"),
            },
            Slot::Switch(slot) => match given.switch() {
                Some(on) => *slot = on,
                None => return refuse("true or false"),
            },
            Slot::Address(slot) => *slot = address_as(self.port(), text.unwrap_or_default())?,
            Slot::OptionalAddress(slot) => {
                *slot = Some(address_as(self.port(), text.unwrap_or_default())?);
            }
            Slot::Word(slot) => match text {
                Some(text) if is_word(text) => *slot = text.into(),
                Some(_) | None => return refuse("a name of letters, digits, _ and -, in quotes"),
            },
            Slot::Text(slot) => match text.map(str::trim) {
                Some(text) if !text.is_empty() && text.len() <= TEXT_LENGTH_MAX => {
                    *slot = text.into();
                }
                Some(_) | None => return refuse("a text in quotes"),
            },
            Slot::Name(slot) => match text.map(Name::new) {
                Some(Ok(name)) => *slot = Some(name),
                Some(Err(error)) => return Err(format!("such as narad-1: {error}")),
                None => return refuse("a name in quotes"),
            },
            Slot::Path(slot) => match text {
                Some(path) if !path.is_empty() => *slot = path.into(),
                Some(_) | None => return refuse("a path in quotes"),
            },
            Slot::Tokens(slot) => {
                *slot = match given {
                    Given::Toml(value) => tokens::read(value)?,
                    Given::Text(text) => tokens::read_text(text)?,
                }
            }
            Slot::OptionalPath(slot) => match text {
                Some(path) if !path.is_empty() => *slot = Some(path.into()),
                Some(_) | None => return refuse("a path in quotes"),
            },
        }
        Ok(())
    }

    /// Returns the usual port of an address.
    pub(super) fn port(&self) -> u16 {
        if self.path.rsplit('.').next() == Some("http") { HTTP_PORT } else { PEER_PORT }
    }

    /// Shows the value as it is written in the file; `None` if there is none.
    pub(crate) fn show(&self, settings: &mut Settings) -> Option<String> {
        Some(match (self.slot)(settings) {
            Slot::Duration(slot) => format!("{:?}", show_duration(*slot)),
            Slot::Size(slot) => format!("{:?}", show_size(*slot)),
            Slot::Count(slot) => slot.to_string(),
            Slot::Switch(slot) => slot.to_string(),
            Slot::Word(slot) | Slot::Text(slot) | Slot::Address(slot) => format!("{slot:?}"),
            Slot::OptionalAddress(slot) => format!("{:?}", slot.as_ref()?),
            Slot::Name(slot) => format!("{:?}", slot.as_ref()?.as_str()),
            Slot::Tokens(slot) => tokens::show(slot),
            Slot::Path(slot) => quoted(slot),
            Slot::OptionalPath(slot) => quoted(slot.as_ref()?),
        })
    }
}

fn quoted(path: &std::path::Path) -> String {
    toml::Value::String(path.to_string_lossy().into()).to_string()
}

impl Given<'_> {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Text(text) => Some(text),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Toml(value) => value.as_integer().and_then(|number| u64::try_from(number).ok()),
            Self::Text(text) => text.trim().parse().ok(),
        }
    }

    fn switch(&self) -> Option<bool> {
        match self {
            Self::Toml(value) => value.as_bool(),
            Self::Text(text) => text.trim().parse().ok(),
        }
    }
}

/// Whether a text is a name as the kernel has them, of at most 15 bytes.
fn is_word(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..16).contains(&text.len()) && text.bytes().all(allowed)
}

/// Longest text.
const TEXT_LENGTH_MAX: usize = 1024;

/// Where nodes listen for each other unless told otherwise.
const PEER_PORT: u16 = 7400;
/// Where they listen for operators and clients.
const HTTP_PORT: u16 = 7401;

/// Reads a peer's `host:port`; says what is allowed otherwise.
pub(crate) fn address(text: &str) -> Result<String, String> {
    address_as(PEER_PORT, text)
}

fn address_as(usual_port: u16, text: &str) -> Result<String, String> {
    let text = text.trim();
    let length_max = narad_core::metastore::Addresses::LENGTH_MAX;
    let parts = text.rsplit_once(':').filter(|(host, port)| {
        !host.is_empty() && !host.contains(['/', '@', ' ']) && port.parse::<u16>().is_ok()
    });
    match parts {
        Some(_) if text.len() <= length_max => Ok(text.into()),
        Some(_) | None => Err(format!("an address such as \"127.0.0.1:{usual_port}\"")),
    }
}

/// Returns all keys, those of one section together, in the order of [`super::commented_default`].
pub fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter()
}

macro_rules! keys {
    ($($path:literal $kind:ident $($field:ident).+ : $doc:literal)*) => {
        &[$(Key { path: $path, doc: $doc, slot: |all| Slot::$kind(&mut all.$($field).+) }),*]
    };
}

static KEYS: &[Key] = keys! {
    "name" Name name:
        "The node's name, unique in its cluster."
    "data_dir" Path data_dir:
        "Where the node keeps its data; one node per directory."

    "insecure" Switch insecure:
        "Whether a node without TLS may listen where other machines reach it."

    "listen.peer" Address listen.peer:
        "For other nodes."
    "listen.http" Address listen.http:
        "For operators and clients. Whoever reaches it may take nodes out of the cluster."
    "advertise.peer" OptionalAddress advertise.peer:
        "Where other nodes are told to find it; needed when it listens on 0.0.0.0."
    "advertise.http" OptionalAddress advertise.http:
        "Where clients are told to find it; needed when it listens on 0.0.0.0."

    "tls.dir" OptionalPath tls.dir:
        "A directory that narad cert has made; has ca.crt, NAME.crt and NAME.key unless named below."
    "tls.ca" OptionalPath tls.ca:
        "The authorities that are trusted, PEM."
    "tls.cert" OptionalPath tls.cert:
        "The node's certificate, PEM; its URI narad://CLUSTER/node/NAME says whose it is."
    "tls.key" OptionalPath tls.key:
        "Its private key, PEM."
    "tls.require_client_certificate" Switch tls.require_client_certificate:
        "Whether clients of the API must show a certificate, too."
    "tls.poll_interval" Duration tls.poll_interval:
        "How often these files are looked at; new ones serve for new connections. SIGHUP does it, too."

    "peers.handshakes_max" Count peers.handshakes_max:
        "Connections of other nodes whose handshake is under way; the oldest makes room for a further one."
    "peers.handshake_timeout" Duration peers.handshake_timeout:
        "How long such a handshake may take, TLS included."
    "peers.idle_timeout" Duration peers.idle_timeout:
        "How long a connection of another node is kept on which nothing is said."

    "policy.max_in_flight" Count policy.max_in_flight:
        "Moves that may be under way at once, cluster-wide."
    "policy.moves_per_source" Count policy.moves_per_source:
        "Moves that may leave one node at once."
    "policy.moves_per_destination" Count policy.moves_per_destination:
        "Moves that may arrive at one node at once."
    "policy.paused" Switch policy.paused:
        "Whether the planner starts nothing new."
    "policy.min_voters" Count policy.min_voters:
        "Voters below which no node is ever removed."
    "policy.voters_max" Count policy.voters_max:
        "Voters up to which joining nodes are given a vote."
    "policy.copy_rate_bytes_per_second" Size policy.copy_rate_bytes_per_second:
        "What one node copies per second, in and out together; 0 is unlimited."
    "policy.copy_in_bytes_per_second" Size policy.copy_in_bytes_per_second:
        "What one node receives per second; 0 is no limit of its own."
    "policy.copy_out_bytes_per_second" Size policy.copy_out_bytes_per_second:
        "What one node sends per second; 0 is no limit of its own."
    "policy.cluster_copy_rate_bytes_per_second" Size policy.cluster_copy_rate_bytes_per_second:
        "What all nodes together copy per second; 0 is unlimited."
    "policy.lease" Duration policy.lease:
        "How long a heartbeat lets an owner commit to a partition that is moving."
    "policy.clock_rate_error_percent" Count policy.clock_rate_error_percent:
        "The rate error of any two clocks that is allowed for."
    "policy.lease_margin" Duration policy.lease_margin:
        "What is added to the lease for everything that is not clock rate."
    "policy.dead_timeout" Duration policy.dead_timeout:
        "Silence after which a node is declared dead."
    "policy.force_promote_after" Duration policy.force_promote_after:
        "How long a source stays dead before its partitions may be promoted without it."

    "timing.heartbeat_interval" Duration node.heartbeat_interval:
        "Between two heartbeats to the leader; at most a third of the lease."
    "timing.request_timeout" Duration node.request_timeout:
        "After which the outcome of a request to another node is taken as unknown."
    "timing.dead_target_after" Duration node.dead_target_after:
        "How long a destination may be dead before its moves are given up."
    "timing.grace_after_election" Duration node.grace_after_election:
        "How long a new leader watches before it judges anybody; at least dead_timeout."
    "timing.controller_interval" Duration node.controller_interval:
        "Between two passes of the controller."
    "timing.retry_min" Duration node.retry_min:
        "First pause after a failed attempt; doubled up to retry_max."
    "timing.retry_max" Duration node.retry_max:
        "Longest pause after a failed attempt."
    "timing.quarantine" Duration node.quarantine:
        "How long a copy that was set aside is kept."

    "copy.lag_bytes" Size node.lag_bytes:
        "Tail at which a copy counts as caught up; the freeze is tail over bandwidth."
    "copy.passes_max" Count node.passes_max:
        "Passes after which the source is frozen anyway."
    "copy.stall_passes" Count node.stall_passes:
        "Passes in a row without a smaller tail after which the same happens."
    "copy.stall_window" Duration node.stall_window:
        "How long the tail must not have become smaller for that, too; longer waits for a burst to end."
    "copy.pass_interval" Duration node.pass_interval:
        "Least time between the starts of two passes."
    "copy.chunk_bytes_max" Size node.chunk_bytes_max:
        "Longest range that one request may ask for."
    "copy.chunks_in_flight_max" Count node.chunks_in_flight_max:
        "Requests of one move that may be under way at once."

    "freeze.tail_inline_max" Size node.tail_inline_max:
        "Longest tail that comes with the answer to a request to freeze, past the throttle; 0 turns it off."
    "freeze.ttl" Duration node.freeze_ttl:
        "How long a freeze lasts without progress of the copy."
    "freeze.max" Duration node.freeze_max:
        "How long one freeze may last at all."
    "freeze.target" Duration node.freeze_target:
        "The freeze that copying ahead aims at."
    "freeze.duty_percent" Count node.freeze_duty_percent:
        "Share of time that one partition may be frozen."
    "freeze.admission_max" Duration node.freeze_admission_max:
        "How long a freeze waits for an append under way."

    "transfer.congestion_control" Word transfer.congestion_control:
        "Congestion control of the connections to this node, or system: BBR halves copies over short links."
    "transfer.yields_to_producers" Switch transfer.yields_to_producers:
        "Whether copies give way while producers wait for the disk much longer than usual."

    "raft.tick" Duration raft.tick:
        "One tick of the replicated log."
    "raft.election_ticks_min" Count raft.election_ticks_min:
        "Fewest ticks without a leader until an election."
    "raft.election_ticks_max" Count raft.election_ticks_max:
        "Ticks by which an election comes at the latest."
    "raft.heartbeat_ticks" Count raft.heartbeat_ticks:
        "Ticks between a leader's heartbeats."

    "log.segment_bytes" Size log.segment_bytes:
        "Length at which a segment is sealed."

    "ingress.segment_bytes" Size ingress.segment_bytes:
        "Length at which a segment of the ingress log is sealed; it is given up as a whole."
    "ingress.append_bytes_max" Size ingress.append_bytes_max:
        "Most bytes that producers who come together write at once."
    "ingress.waiting_bytes_max" Size ingress.waiting_bytes_max:
        "Bytes that may wait to be written; more is answered with 503."
    "ingress.cache_bytes_max" Size ingress.cache_bytes_max:
        "Accepted bytes that are kept in memory until they are dispatched."

    "consumers.in_flight_max" Count consumers.in_flight_max:
        "Records of one partition that may be handed out and not acknowledged."
    "consumers.visibility_max" Duration consumers.visibility_max:
        "Longest time for which one request can keep a record from other consumers."

    "http.body_bytes_max" Size http.body_bytes_max:
        "Longest request body."
    "http.record_bytes_max" Size http.record_bytes_max:
        "Longest record: key, value and headers."
    "http.batch_records_max" Count http.batch_records_max:
        "Most records in one request."
    "http.fetch_bytes_max" Size http.fetch_bytes_max:
        "Most bytes that one fetch returns."
    "http.wait_max" Duration http.wait_max:
        "Longest time that a fetch waits for a record."
    "http.request_timeout" Duration http.request_timeout:
        "How long a request may take, on top of what it waits."
    "http.bodies_bytes_max" Size http.bodies_bytes_max:
        "Request bodies held at once; more is answered with 503."
    "http.connections_max" Count connections.connections_max:
        "Most connections at once; a further one takes the place of one that is idle."
    "http.connections_per_address_max" Count connections.connections_per_address_max:
        "Most of them that one address may have."
    "http.head_timeout" Duration connections.head_timeout:
        "How long a client may take to send a request's head."
    "http.shutdown_timeout" Duration connections.shutdown_timeout:
        "How long requests under way may take when the node stops."

    "auth.tokens" Tokens auth.tokens:
        "Who may do what, as narad token new prints it. Without any, whoever reaches listen.http is an admin."

    "audit.bytes_max" Size audit.bytes_max:
        "Length at which a file of the audit log, audit.jsonl in the data directory, is put aside."
    "audit.files_max" Count audit.files_max:
        "Files of the audit log that are kept."

    "logging.filter" Text logging.filter:
        "Which lines are logged to standard error; --log wins."
    "logging.format" Word logging.format:
        "How a line is written: text or json; --log-format wins."
};
