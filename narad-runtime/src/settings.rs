//! The configuration of one node: a TOML file, the environment and the command line.
//!
//! A value is taken from the first that has it: a flag, the environment, the file, the default. Every
//! key of the file has an environment variable (`policy.lease` is `NARAD_POLICY_LEASE`), and can be
//! given as `--set policy.lease=10s`. One table, [`keys`], names all keys with their meaning; reading,
//! checking and [`commented_default`] go by it, so that they cannot differ.
//!
//! Durations are written as `10s` or `200ms`, sizes as `64MiB`.

use std::path::PathBuf;
use std::time::Duration;

use narad_core::config::{Config, Policy};
use narad_core::cursor;
use narad_core::ids::Name;

use crate::http::{AuditLimits, Connections, HttpOptions, Token};

mod error;
mod keys;
mod read;
mod reload;
mod template;
mod tls;
mod tokens;
mod units;

pub use error::SettingsError;
pub(crate) use keys::Given;
pub(crate) use keys::address;
pub use keys::{Key, keys};
pub use read::Layers;
pub use reload::{Change, Effect, changes};
pub use template::commented_default;
pub use tls::{PeerSettings, TlsSettings};

/// Everything that a node is told when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The node's name, unique in its cluster. No default.
    pub name: Option<Name>,
    /// Where the node keeps its data. Default `narad-data`.
    pub data_dir: PathBuf,
    /// Where the node listens.
    pub listen: Listen,
    /// What others are told about where the node listens. Default: where it listens.
    pub advertise: Advertise,
    /// Whether a node without TLS may listen where other machines reach it. Default false.
    pub insecure: bool,
    /// The node's certificate.
    pub tls: TlsSettings,
    /// What other nodes may take of this one's attention.
    pub peers: PeerSettings,
    /// What the whole cluster agrees on: taken by the node that founds it, compared by all others.
    pub policy: Policy,
    /// What the node decides for itself.
    pub node: Config,
    /// How copies of partitions share this node's network and disk with everything else.
    pub transfer: TransferSettings,
    /// The pace of the replicated log.
    pub raft: RaftPace,
    /// The segment log.
    pub log: LogSettings,
    /// The ingress log.
    pub ingress: IngressSettings,
    /// What the consumers of one partition may take.
    pub consumers: ConsumerSettings,
    /// The API's limits.
    pub http: HttpOptions,
    /// The API's connections.
    pub connections: Connections,
    /// Who may use the API.
    pub auth: AuthSettings,
    /// What is kept of what admins have done.
    pub audit: AuditLimits,
    /// What is logged to standard error.
    pub logging: LoggingSettings,
}

/// What is logged to standard error, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingSettings {
    /// Which lines, such as `info,raft=warn`, which is the default.
    pub filter: String,
    /// How a line is written: `text`, the default, or `json`.
    pub format: String,
}

impl Default for LoggingSettings {
    fn default() -> Self {
        // Elections are told by who leads in the end; the steps to it are there on request.
        Self { filter: "info,raft=warn".into(), format: "text".into() }
    }
}

/// Who may use the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// The bearer tokens. Default none: then whoever reaches an unencrypted address is an admin.
    pub tokens: Vec<Token>,
}

/// Where a node listens, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For other nodes. Default `127.0.0.1:7400`.
    pub peer: String,
    /// For operators and clients. Default `127.0.0.1:7401`: whoever reaches it may take nodes out of
    /// the cluster, so that it is opened to others on purpose only.
    pub http: String,
}

/// What others are told about where a node listens, as `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertise {
    /// For other nodes.
    pub peer: Option<String>,
    /// For operators and clients.
    pub http: Option<String>,
}

/// How copies of partitions share a node's network and disk with everything else. Their rates are the
/// cluster's, in [`Policy`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSettings {
    /// The congestion control of the connections that other nodes make to this one, by the kernel's
    /// name; `system` leaves it as it is. Default `cubic`: BBR, which some systems have as theirs,
    /// halves the throughput of copies over short links. A kernel that lacks it is warned about, and
    /// its own is used.
    pub congestion_control: String,
    /// Whether copies give way while producers wait for the disk much longer than they usually do.
    /// Default true.
    pub yields_to_producers: bool,
}

impl TransferSettings {
    /// What the listener is to be set to, if anything.
    pub(crate) fn congestion(&self) -> Option<String> {
        Some(self.congestion_control.clone()).filter(|name| name != SYSTEM)
    }
}

/// Shortest file of the audit log: rotating is for a file that is full, not for every line.
const AUDIT_BYTES_MIN: u64 = 64 << 10;

/// The congestion control that is left as the system has it.
const SYSTEM: &str = "system";

impl Default for TransferSettings {
    fn default() -> Self {
        Self { congestion_control: "cubic".into(), yields_to_producers: true }
    }
}

/// The pace of the replicated log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftPace {
    /// One tick. Default 100 ms.
    pub tick: Duration,
    /// Fewest ticks without a leader until an election. Default 10.
    pub election_ticks_min: u32,
    /// Ticks by which an election comes at the latest. Default 20; more than the fewest.
    pub election_ticks_max: u32,
    /// Ticks between a leader's heartbeats. Default 3; fewer than `election_ticks_min`.
    pub heartbeat_ticks: u32,
}

/// The segment log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Length at which a segment is sealed. Default 64 MiB.
    pub segment_bytes: u64,
}

/// The ingress log. How much may wait in it is in [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressSettings {
    /// Length at which a segment is sealed. Default 64 MiB. Segments are given up as a whole, so larger
    /// ones keep more that has arrived.
    pub segment_bytes: u64,
    /// Most bytes that one append takes, unless a single request is larger. Default 4 MiB.
    pub append_bytes_max: u64,
    /// Most bytes that may wait for an append. Default 64 MiB; more lets more producers in while the
    /// disk is slow, and costs as much memory.
    pub waiting_bytes_max: u64,
    /// Most bytes that are kept in memory after they were appended or read. Default 64 MiB; less has
    /// what is dispatched read from the disk.
    pub cache_bytes_max: u64,
}

impl Default for IngressSettings {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            append_bytes_max: 4 << 20,
            waiting_bytes_max: 64 << 20,
            cache_bytes_max: 64 << 20,
        }
    }
}

/// What the consumers of one partition may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// Records that may be handed out and not acknowledged. Default 1,024, which is about the most that
    /// has an effect; larger lets more consumers work at once.
    pub in_flight_max: u32,
    /// Longest time for which a record can be kept from others by one request. Default 12 h.
    pub visibility_max: Duration,
}

impl ConsumerSettings {
    /// The same for the cursors.
    pub(crate) fn limits(&self) -> cursor::Limits {
        let in_flight_max = usize::try_from(self.in_flight_max).unwrap_or(usize::MAX);
        cursor::Limits { in_flight_max, visibility_max: self.visibility_max }
    }
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self { in_flight_max: 1024, visibility_max: Duration::from_hours(12) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: None,
            data_dir: "narad-data".into(),
            listen: Listen { peer: "127.0.0.1:7400".into(), http: "127.0.0.1:7401".into() },
            advertise: Advertise::default(),
            insecure: false,
            tls: TlsSettings::default(),
            peers: PeerSettings::default(),
            policy: Policy::default(),
            node: Config::new(0),
            transfer: TransferSettings::default(),
            raft: RaftPace {
                tick: Duration::from_millis(100),
                election_ticks_min: 10,
                election_ticks_max: 20,
                heartbeat_ticks: 3,
            },
            log: LogSettings { segment_bytes: 64 << 20 },
            ingress: IngressSettings::default(),
            consumers: ConsumerSettings::default(),
            http: HttpOptions::default(),
            connections: Connections::default(),
            auth: AuthSettings::default(),
            audit: AuditLimits::default(),
            logging: LoggingSettings::default(),
        }
    }
}

impl Settings {
    /// Returns the node's name.
    ///
    /// # Errors
    ///
    /// If none was given.
    pub fn required_name(&self) -> Result<&Name, SettingsError> {
        self.name.as_ref().ok_or(SettingsError::Missing { key: "name" })
    }

    /// Returns where other nodes are told to find this one.
    pub fn peer_addr(&self) -> &str {
        self.advertise.peer.as_deref().unwrap_or(&self.listen.peer)
    }

    /// Returns where clients are told to find this node.
    pub fn http_addr(&self) -> &str {
        self.advertise.http.as_deref().unwrap_or(&self.listen.http)
    }

    /// Checks what no single value can break.
    ///
    /// # Errors
    ///
    /// Names the key, its value and what is allowed; or the timing that would let two owners write
    /// (H9).
    pub fn check(&self) -> Result<(), SettingsError> {
        self.node.check(&self.policy).map_err(SettingsError::from_core)?;
        let advertised = [
            ("advertise.peer", &self.listen.peer, &self.advertise.peer),
            ("advertise.http", &self.listen.http, &self.advertise.http),
        ];
        for (key, listen, advertise) in advertised {
            let everywhere = listen.starts_with("0.0.0.0:") || listen.starts_with("[::]:");
            if everywhere && advertise.is_none() {
                return Err(SettingsError::NotAdvertised { key, listen: listen.clone() });
            }
        }
        self.check_listeners()?;
        if let Some(name) = &self.name {
            self.tls.files(name.as_str())?;
        }
        if self.peers.handshakes_max == 0 {
            return Err(refused("peers.handshakes_max", 0, "at least 1"));
        }
        let durations = [
            ("peers.handshake_timeout", self.peers.handshake_timeout),
            ("peers.idle_timeout", self.peers.idle_timeout),
            ("tls.poll_interval", self.tls.poll_interval),
        ];
        if let Some((key, _)) = durations.into_iter().find(|(_, duration)| duration.is_zero()) {
            return Err(refused(key, "0s", "more than 0"));
        }
        let RaftPace { tick, election_ticks_min, election_ticks_max, heartbeat_ticks } = self.raft;
        if tick.is_zero() {
            return Err(refused("raft.tick", "0s", "more than 0"));
        }
        if heartbeat_ticks == 0 || heartbeat_ticks >= election_ticks_min {
            let allowed = "at least 1 and fewer than raft.election_ticks_min";
            return Err(refused("raft.heartbeat_ticks", heartbeat_ticks, allowed));
        }
        if election_ticks_max <= election_ticks_min {
            let allowed = "more than raft.election_ticks_min";
            return Err(refused("raft.election_ticks_max", election_ticks_max, allowed));
        }
        if let Err(error) = self.logging.filter.parse::<tracing_subscriber::EnvFilter>() {
            let allowed = format!("levels such as \"info,raft=warn\": {error}");
            return Err(refused("logging.filter", &self.logging.filter, &allowed));
        }
        if !["text", "json"].contains(&self.logging.format.as_str()) {
            return Err(refused("logging.format", &self.logging.format, "text or json"));
        }
        if self.audit.files_max == 0 {
            return Err(refused("audit.files_max", 0, "at least 1"));
        }
        if self.audit.bytes_max < AUDIT_BYTES_MIN {
            let value = units::show_size(self.audit.bytes_max);
            return Err(refused("audit.bytes_max", value, "at least 64KiB"));
        }
        if self.connections.connections_max == 0 {
            return Err(refused("http.connections_max", 0, "at least 1"));
        }
        if self.connections.connections_per_address_max == 0 {
            return Err(refused("http.connections_per_address_max", 0, "at least 1"));
        }
        if self.log.segment_bytes < self.http.record_bytes_max {
            let value = units::show_size(self.log.segment_bytes);
            return Err(refused("log.segment_bytes", value, "at least http.record_bytes_max"));
        }
        if self.ingress.segment_bytes < self.http.record_bytes_max {
            let value = units::show_size(self.ingress.segment_bytes);
            return Err(refused("ingress.segment_bytes", value, "at least http.record_bytes_max"));
        }
        if self.consumers.in_flight_max == 0 {
            return Err(refused("consumers.in_flight_max", 0, "at least 1"));
        }
        if self.consumers.visibility_max.is_zero() {
            return Err(refused("consumers.visibility_max", "0s", "more than 0"));
        }
        if self.node.backlog_bytes_max < self.http.body_bytes_max {
            let value = units::show_size(self.node.backlog_bytes_max);
            return Err(refused(
                "dispatch.backlog_bytes_max",
                value,
                "at least http.body_bytes_max",
            ));
        }
        if self.http.body_bytes_max < self.http.record_bytes_max {
            let value = units::show_size(self.http.body_bytes_max);
            return Err(refused("http.body_bytes_max", value, "at least http.record_bytes_max"));
        }
        if self.http.bodies_bytes_max < self.http.body_bytes_max {
            let value = units::show_size(self.http.bodies_bytes_max);
            return Err(refused("http.bodies_bytes_max", value, "at least http.body_bytes_max"));
        }
        Ok(())
    }
}

fn refused(key: &str, value: impl std::fmt::Display, allowed: &str) -> SettingsError {
    SettingsError::OutOfRange {
        key: key.into(),
        value: format!("{value}"),
        allowed: allowed.into(),
    }
}
