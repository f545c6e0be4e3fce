//! The machines, and how they are set up.

use std::time::Duration;

use narad_core::config::{Config, ConfigError, Policy};

use super::table::{section, words};
use super::value::{Between, Bytes, Chance, Rate};

section! {
    /// The machines, and how they are set up.
    pub struct Cluster {
        /// Founding nodes `n1`, `n2` …, all voters. 1 to 64.
        "nodes" nodes: def u32 = 3 => "3";
        /// Further machines, numbered on from there, which take part once a step says `join`.
        "spares" spares: def u32 = 0 => "1";
        /// What replicates the log.
        "metastore" metastore: def MetastoreKind = MetastoreKind::Raft => "\"abstract\"";
        /// The timings that hold where `policy`, `config` and `raft` say nothing else.
        "pace" pace: def Pace = Pace::Fast => "\"real\"";
        /// What all nodes agree on.
        "policy" policy: def PolicyChange = PolicyChange::none() => "{ max_in_flight = 8, lease = \"2s\" }";
        /// What each node decides for itself.
        "config" config: def ConfigChange = ConfigChange::none() => "{ lag_bytes = \"64KiB\" }";
        /// Raft's own numbers.
        "raft" raft: def Raft = Raft::standard() => "{ snapshot_entries = 50, keep_entries = 10 }";
        /// How large a segment of a partition's log grows. 4 KiB or more.
        "segment_bytes" segment_bytes: def Bytes = Bytes(16 << 10) => "\"16KiB\"";
        /// The longest time between a Raft tick's due time and the tick.
        "tick_jitter" tick_jitter: def Duration = Duration::ZERO => "\"20ms\"";
    }
}

words! {
    /// What replicates the log.
    pub enum MetastoreKind {
        /// Raft, as in production.
        Raft = "raft",
        /// A log that is simply agreed on, with the faults of `[abstract_log]`; ten times as fast.
        Abstract = "abstract",
    }
}

words! {
    /// The timings that hold where nothing else is said.
    pub enum Pace {
        /// About a tenth of the defaults, so that a death is a matter of seconds: heartbeat 500 ms,
        /// lease 2 s, dead after 3 s, force-promote after 4 s more, dead target after 6 s,
        /// `freeze_ttl` 2 s, `freeze_max` 8 s, requests and patience 1 s.
        Fast = "fast",
        /// The defaults: lease 10 s, dead after 30 s, force-promote after 2 min more, `freeze_ttl`
        /// 30 s.
        Real = "real",
    }
}

/// Declares the keys that change a struct of the core, and how.
macro_rules! changes {
    ($(#[doc = $about:literal])+ pub struct $name:ident of $of:ident {
        $($(#[doc = $doc:literal])+ $key:literal $field:ident : $ty:ty as $how:ident => $example:literal;)*
    }) => {
        section! {
            $(#[doc = $about])+
            pub struct $name {
                $($(#[doc = $doc])+ $key $field: opt $ty => $example;)*
            }
        }

        impl $name {
            /// Returns the change that changes nothing.
            #[must_use]
            pub const fn none() -> Self {
                Self { $($field: None),* }
            }

            /// Returns the change that makes everything as it is there.
            #[must_use]
            pub const fn of(from: &$of) -> Self {
                Self { $($field: Some(changes!(@from $how from.$field))),* }
            }

            /// Changes what is given.
            pub fn apply(&self, to: &mut $of) {
                $(if let Some(value) = &self.$field {
                    to.$field = changes!(@$how value);
                })*
            }
        }
    };
    (@same $value:ident) => { *$value };
    (@from same $value:expr) => { $value };
    (@from bytes $value:expr) => { Bytes($value) };
    (@bytes $value:ident) => { $value.0 };
}

changes! {
    /// What all nodes agree on; a key that is not given stays as it is.
    pub struct PolicyChange of Policy {
        /// Moves that may be under way at once.
        "max_in_flight" max_in_flight: u32 as same => "8";
        /// Moves that may leave one node at once.
        "moves_per_source" moves_per_source: u32 as same => "2";
        /// Moves that may arrive at one node at once.
        "moves_per_destination" moves_per_destination: u32 as same => "2";
        /// Whether the planner starts nothing new.
        "paused" paused: bool as same => "true";
        /// Voters below which no node is ever removed.
        "min_voters" min_voters: u32 as same => "3";
        /// Voters up to which joining nodes are given a vote.
        "voters_max" voters_max: u32 as same => "5";
        /// Bytes that one node copies per second; 0 is unlimited.
        "copy_rate_bytes_per_second" copy_rate_bytes_per_second: Bytes as bytes => "\"1MiB\"";
        /// How long a heartbeat lets an owner commit to a partition in play.
        "lease" lease: Duration as same => "\"2s\"";
        /// The rate error of any two clocks that is allowed for, in percent.
        "clock_rate_error_percent" clock_rate_error_percent: u32 as same => "5";
        /// What is added to the lease for everything that is not clock rate.
        "lease_margin" lease_margin: Duration as same => "\"100ms\"";
        /// Silence after which the leader declares a node dead.
        "dead_timeout" dead_timeout: Duration as same => "\"3s\"";
        /// How long a source stays dead before its partitions may be force-promoted.
        "force_promote_after" force_promote_after: Duration as same => "\"4s\"";
    }
}

changes! {
    /// What each node decides for itself; a key that is not given has the pace's value.
    pub struct ConfigChange of Config {
        /// Between two heartbeats to the leader, and between two reports.
        "heartbeat_interval" heartbeat_interval: Duration as same => "\"500ms\"";
        /// How long a request to a peer or a proposal may take before its outcome is unknown.
        "request_timeout" request_timeout: Duration as same => "\"1s\"";
        /// How long a target may be dead before its moves are given up.
        "dead_target_after" dead_target_after: Duration as same => "\"6s\"";
        /// How long a new leader watches before it judges anybody; at least the dead timeout.
        "grace_after_election" grace_after_election: Duration as same => "\"3s\"";
        /// Between two passes of the controller.
        "controller_interval" controller_interval: Duration as same => "\"500ms\"";
        /// Tail at which a copy counts as caught up.
        "lag_bytes" lag_bytes: Bytes as bytes => "\"4KiB\"";
        /// Passes after which copying stops and the source is frozen anyway.
        "passes_max" passes_max: u32 as same => "20";
        /// Passes in a row without a smaller tail after which the same happens.
        "stall_passes" stall_passes: u32 as same => "3";
        /// How long the tail must not have become smaller for that, too.
        "stall_window" stall_window: Duration as same => "\"500ms\"";
        /// Least time between the starts of two passes.
        "pass_interval" pass_interval: Duration as same => "\"20ms\"";
        /// Longest range that one copy request may ask for; 4 KiB to 64 MiB.
        "chunk_bytes_max" chunk_bytes_max: Bytes as bytes => "\"4KiB\"";
        /// Copy requests of one move that may be under way at once.
        "chunks_in_flight_max" chunks_in_flight_max: u32 as same => "2";
        /// Longest tail that may come with the answer to a request to freeze; at most 1 MiB.
        "tail_inline_max" tail_inline_max: Bytes as bytes => "\"4KiB\"";
        /// How long a freeze lasts without progress of the copy.
        "freeze_ttl" freeze_ttl: Duration as same => "\"2s\"";
        /// How long one freeze may last at all.
        "freeze_max" freeze_max: Duration as same => "\"8s\"";
        /// The freeze that copying aims at.
        "freeze_target" freeze_target: Duration as same => "\"50ms\"";
        /// Share of time that one partition may be frozen, in percent.
        "freeze_duty_percent" freeze_duty_percent: u32 as same => "10";
        /// How long a Prepare waits for an append under way.
        "freeze_admission_max" freeze_admission_max: Duration as same => "\"500ms\"";
        /// First pause after a failed attempt.
        "retry_min" retry_min: Duration as same => "\"50ms\"";
        /// Longest pause after a failed attempt.
        "retry_max" retry_max: Duration as same => "\"1s\"";
        /// How long a set-aside copy is kept.
        "quarantine" quarantine: Duration as same => "\"1h\"";
        /// Bytes of an ingress log above which nothing more is accepted; 1 MiB or more.
        "backlog_bytes_max" backlog_bytes_max: Bytes as bytes => "\"1MiB\"";
        /// Records of an ingress log above which nothing more is accepted; 1,024 or more.
        "backlog_records_max" backlog_records_max: u32 as same => "1024";
        /// Most accepted records that are sent to a partition at once.
        "send_records_max" send_records_max: u32 as same => "16";
        /// Most bytes of accepted records that are sent to a partition at once; 4 KiB to 8 MiB.
        "send_bytes_max" send_bytes_max: Bytes as bytes => "\"4KiB\"";
        /// Batches of accepted records that may be under way from one node at once.
        "sends_in_flight_max" sends_in_flight_max: u32 as same => "4";
        /// How long a partition may take nothing before records that are keyed to it go to a sibling.
        "reroute_after" reroute_after: Duration as same => "\"3s\"";
        /// Between two durable notes of what has arrived.
        "checkpoint_interval" checkpoint_interval: Duration as same => "\"200ms\"";
    }
}

section! {
    /// Raft's own numbers.
    pub struct Raft {
        /// The length of a tick; 100 ms at either pace.
        "tick" tick: def Duration = Duration::from_millis(100) => "\"100ms\"";
        /// Ticks without a leader after which the most impatient follower stands for election.
        "election_ticks_min" election_ticks_min: def u32 = 10 => "10";
        /// The end, exclusive, of the range in which that is drawn.
        "election_ticks_max" election_ticks_max: def u32 = 20 => "20";
        /// Ticks between the leader's heartbeats.
        "heartbeat_ticks" heartbeat_ticks: def u32 = 3 => "3";
        /// Entries since the last snapshot at which a new one is made.
        "snapshot_entries" snapshot_entries: def u64 = 500 => "50";
        /// Entries that are kept before a snapshot.
        "keep_entries" keep_entries: def u64 = 100 => "10";
    }
}

impl Raft {
    /// Returns the numbers that hold where nothing is said.
    #[must_use]
    pub const fn standard() -> Self {
        Self {
            tick: Duration::from_millis(100),
            election_ticks_min: 10,
            election_ticks_max: 20,
            heartbeat_ticks: 3,
            snapshot_entries: 500,
            keep_entries: 100,
        }
    }
}

section! {
    /// How the abstract log misbehaves; with `metastore = "abstract"`.
    pub struct AbstractLog {
        /// From a proposal's arrival at the leader to its commit.
        "commit" commit: def Between = Between::micros(1_000, 8_000) => "[\"1ms\", \"8ms\"]";
        /// From a commit to its application, for each node.
        "apply" apply: def Between = Between::micros(500, 20_000) => "[\"500us\", \"20ms\"]";
        /// Entries that the leader took and that are lost, their proposers left in doubt.
        "lost" lost: def Chance = Chance(0.0) => "0.01";
        /// Entries that are committed much later.
        "late" late: def Chance = Chance(0.0) => "0.01";
        /// How much later.
        "late_by" late_by: def Between = Between::micros(1_000_000, 10_000_000) => "[\"1s\", \"10s\"]";
        /// Entries that are committed twice.
        "twice" twice: def Chance = Chance(0.0) => "0.02";
        /// Changes of the leader, per minute.
        "elections_per_minute" elections_per_minute: def Rate = Rate(0.0) => "2";
        /// For how long a deposed leader still believes that it leads.
        "deposed_believes" deposed_believes: def Between = Between::micros(0, 1_500_000) => "[\"0s\", \"1.5s\"]";
        /// The chance that a leader, once it is cut off, believes that it leads until it hears of
        /// another, which no leader of Raft does that checks its quorum.
        "stubborn" stubborn: def Chance = Chance(0.0) => "1";
        /// How many entries a snapshot lets a node skip that lags by more than that.
        "snapshot_entries" snapshot_entries: def u64 = 100 => "100";
    }
}

impl Cluster {
    /// Returns how many machines there are, spares included.
    #[must_use]
    pub const fn machines(&self) -> u32 {
        self.nodes.saturating_add(self.spares)
    }

    /// Returns the policy that the cluster begins with.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let mut policy = self.pace.policy();
        self.policy.apply(&mut policy);
        policy
    }

    /// Returns the configuration of a node.
    #[must_use]
    pub fn config(&self, jitter_seed: u64) -> Config {
        let mut config = self.pace.config(jitter_seed);
        self.config.apply(&mut config);
        config
    }

    /// Says whether policy and configuration hold together.
    ///
    /// # Errors
    ///
    /// Names the first value that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.config(1).check(&self.policy())
    }
}

impl Pace {
    /// Returns the policy of the pace.
    #[must_use]
    pub fn policy(self) -> Policy {
        match self {
            Self::Real => Policy::default(),
            Self::Fast => Policy {
                lease: Duration::from_secs(2),
                lease_margin: Duration::from_millis(100),
                dead_timeout: Duration::from_secs(3),
                force_promote_after: Duration::from_secs(4),
                ..Policy::default()
            },
        }
    }

    /// Returns the configuration of the pace.
    #[must_use]
    pub fn config(self, jitter_seed: u64) -> Config {
        let real = Config::new(jitter_seed);
        match self {
            Self::Real => real,
            Self::Fast => Config {
                heartbeat_interval: Duration::from_millis(500),
                request_timeout: Duration::from_secs(1),
                dead_target_after: Duration::from_secs(6),
                grace_after_election: Duration::from_secs(3),
                controller_interval: Duration::from_millis(500),
                pass_interval: Duration::from_millis(20),
                lag_bytes: 4 << 10,
                chunk_bytes_max: 4 << 10,
                chunks_in_flight_max: 2,
                // So that some tails come with the capture, and others are copied under the freeze.
                tail_inline_max: 4 << 10,
                freeze_ttl: Duration::from_secs(2),
                freeze_max: Duration::from_secs(8),
                freeze_admission_max: Duration::from_millis(500),
                retry_min: Duration::from_millis(50),
                retry_max: Duration::from_secs(1),
                reroute_after: Duration::from_secs(3),
                checkpoint_interval: Duration::from_millis(200),
                ..real
            },
        }
    }
}
