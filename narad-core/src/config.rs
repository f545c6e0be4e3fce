//! What can be tuned, within which bounds, and which combinations are unsafe.
//!
//! [`Policy`] is replicated: it is the same on every node and changes by a command. [`Config`] is
//! a node's own.

use core::time::Duration;

#[cfg(test)]
mod tests;

/// What the whole cluster agrees on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Policy {
    /// Moves that may be under way at once, cluster-wide (R75). Larger drains faster and loads
    /// disks and links more. Default 8; at least 1.
    pub max_in_flight: u32,
    /// Moves that may leave one node at once. Default 2; at least 1.
    pub moves_per_source: u32,
    /// Moves that may arrive at one node at once. Default 2; at least 1.
    pub moves_per_destination: u32,
    /// Whether the planner starts nothing new. Default false.
    pub paused: bool,
    /// Voters below which no node is ever removed (R87). Default 3; at least 1.
    pub min_voters: u32,
    /// Voters up to which joining nodes are given a vote. Default 5; at least `min_voters`.
    pub voters_max: u32,
    /// Bytes that one node copies per second; 0 is unlimited. Default 200 MiB: an unthrottled
    /// durable copy stalls a producer's fsync on the same disk for half a second.
    pub copy_rate_bytes_per_second: u64,
    /// Bytes that one node receives per second; 0, the default, is no limit of its own.
    #[cfg_attr(feature = "serde", serde(default))]
    pub copy_in_bytes_per_second: u64,
    /// Bytes that one node sends per second; 0, the default, is no limit of its own.
    #[cfg_attr(feature = "serde", serde(default))]
    pub copy_out_bytes_per_second: u64,
    /// Bytes that all nodes together copy per second; 0, the default, is unlimited. Every node that
    /// receives has a share of it, by the number of moves that arrive there.
    #[cfg_attr(feature = "serde", serde(default))]
    pub cluster_copy_rate_bytes_per_second: u64,
    /// How long a heartbeat lets an owner commit to a partition in play (H9). Default 10 s.
    pub lease: Duration,
    /// The rate error of any two clocks that is allowed for, in percent. Default 5; at most 50.
    pub clock_rate_error_percent: u32,
    /// What is added to the lease for everything that is not clock rate. Default 1 s.
    pub lease_margin: Duration,
    /// Silence after which the leader declares a node dead. Default 30 s.
    pub dead_timeout: Duration,
    /// How long a source stays Dead before its partitions may be force-promoted (R63).
    /// Default 2 min.
    pub force_promote_after: Duration,
}

/// What one node decides for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Config {
    /// Between two heartbeats to the leader, and between two reports. Default 1 s.
    pub heartbeat_interval: Duration,
    /// How long a request to a peer or a proposal may take before its outcome is Unknown.
    /// Default 5 s.
    pub request_timeout: Duration,
    /// How long a target may be Dead before its moves are given up (case K100). Default 2 min.
    pub dead_target_after: Duration,
    /// How long a new leader watches before it judges anybody (H19, case M137).
    /// Default 30 s; at least the dead timeout.
    pub grace_after_election: Duration,
    /// Between two passes of the controller. Default 1 s.
    pub controller_interval: Duration,
    /// Tail at which a copy counts as caught up (R17). Default 1 MiB: freeze time is tail over
    /// bandwidth.
    pub lag_bytes: u64,
    /// Passes after which copying stops and the source is frozen anyway (R29). Default 20.
    pub passes_max: u32,
    /// Passes in a row without a smaller tail after which the same happens. Default 3.
    pub stall_passes: u32,
    /// How long the tail must not have become smaller for that, too; time under the throttle is left
    /// out. Longer waits for the pause of a writer that comes in bursts, shorter for nothing. Default
    /// 500 ms.
    pub stall_window: Duration,
    /// Least time between the starts of two passes. Default 50 ms.
    pub pass_interval: Duration,
    /// Longest range that one copy request may ask for. Default 32 MiB: at 8 MiB a fast copy spends a
    /// tenth of its time between requests. On a slow way less is asked for at once.
    pub chunk_bytes_max: u64,
    /// Copy requests of one move that may be under way at once. Default 4; 1 to 64.
    pub chunks_in_flight_max: u32,
    /// Longest tail that may come with the answer to a request to freeze, past the throttle; less where
    /// the way to the source is slow. Default 1 MiB; 0 turns it off, at most 1 MiB.
    pub tail_inline_max: u64,
    /// How long a freeze lasts without progress of the copy (H22). Default 30 s.
    pub freeze_ttl: Duration,
    /// How long one freeze may last at all. Default 5 min; at least the TTL.
    pub freeze_max: Duration,
    /// The freeze that pre-copying aims at: it goes on shrinking the tail while that helps.
    /// Default 50 ms.
    pub freeze_target: Duration,
    /// Share of time that one partition may be frozen, in percent, over [`Config::DUTY_WINDOW`]
    /// (H20, L2). Default 10; 1 to 100.
    pub freeze_duty_percent: u32,
    /// How long a Prepare waits for an append under way. Default 5 s.
    pub freeze_admission_max: Duration,
    /// First pause after a failed attempt; doubled up to the next. Default 0.2 s.
    pub retry_min: Duration,
    /// Longest pause after a failed attempt. Default 30 s.
    pub retry_max: Duration,
    /// Seeds the jitter of the pauses. No default: every node needs its own.
    pub jitter_seed: u64,
    /// How long a set-aside copy is kept. Default 24 h.
    pub quarantine: Duration,
    /// Bytes of the ingress log from its oldest undelivered record to its end, above which nothing
    /// more is accepted. Larger outlasts longer outages of owners and takes that much of the disk.
    /// Default 1 GiB; at least 1 MiB.
    pub backlog_bytes_max: u64,
    /// Records of the same range, above which nothing more is accepted. One that waits takes about
    /// 12 bytes of memory. Default 4 Mi (4,194,304); 1,024 to 1 Gi.
    pub backlog_records_max: u32,
    /// Most records that are sent to a partition at once. Default 1,024; 1 to 65,536.
    pub send_records_max: u32,
    /// Most bytes of records that are sent to a partition at once; a longer record goes alone.
    /// Larger makes fewer round trips and syncs, and holds more memory at both ends. Default 1 MiB;
    /// 4 KiB to 8 MiB.
    pub send_bytes_max: u64,
    /// Batches that may be under way from one node at once: their bytes are in memory. Default 64;
    /// 1 to 1,024.
    pub sends_in_flight_max: u32,
    /// How long a partition may take nothing before records that are keyed to it, and have not been
    /// sent there, go to a sibling, whatever holds it up; a frozen or dead-owned one is left at once
    /// (R45). Smaller delivers sooner, larger keeps the order of a key through a longer disturbance.
    /// Default 30 s.
    pub reroute_after: Duration,
    /// Between two durable notes of what has been delivered. Larger writes less, and delivers more
    /// records a second time after a restart. Default 1 s.
    pub checkpoint_interval: Duration,
}

/// Why a policy or a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value is outside its range.
    #[error("{key} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The key, as in the configuration file.
        key: &'static str,
        /// The value given, with its unit.
        value: alloc::string::String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A cut-off owner's lease could outlast the wait for force-promote, so that two owners write
    /// (H9).
    #[error(
        "lease * (1 + rho) + margin is {lease_ms} ms, which is not less than \
         (dead_timeout + force_promote_after) * (1 - rho), {death_ms} ms: \
         shorten the lease or lengthen force_promote_after"
    )]
    UnsafeTiming {
        /// The longest time that an owner may go on, in milliseconds.
        lease_ms: u128,
        /// The shortest time after which another may begin, in milliseconds.
        death_ms: u128,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_in_flight: 8,
            moves_per_source: 2,
            moves_per_destination: 2,
            paused: false,
            min_voters: 3,
            voters_max: 5,
            copy_rate_bytes_per_second: 200 << 20,
            copy_in_bytes_per_second: 0,
            copy_out_bytes_per_second: 0,
            cluster_copy_rate_bytes_per_second: 0,
            lease: Duration::from_secs(10),
            clock_rate_error_percent: 5,
            lease_margin: Duration::from_secs(1),
            dead_timeout: Duration::from_secs(30),
            force_promote_after: Duration::from_mins(2),
        }
    }
}

impl Policy {
    /// Checks ranges and the inequality that keeps two owners from writing at once.
    ///
    /// # Errors
    ///
    /// Names the first value that is outside its range, or [`ConfigError::UnsafeTiming`].
    ///
    /// # Examples
    ///
    /// A force-promote that comes before the lease has run out is refused:
    ///
    /// ```
    /// use core::time::Duration;
    /// use narad_core::config::{ConfigError, Policy};
    ///
    /// assert_eq!(Policy::default().check(), Ok(()));
    /// let hasty = Policy {
    ///     dead_timeout: Duration::from_secs(5),
    ///     force_promote_after: Duration::from_secs(5),
    ///     ..Policy::default()
    /// };
    /// assert!(matches!(hasty.check(), Err(ConfigError::UnsafeTiming { .. })));
    /// ```
    pub fn check(&self) -> Result<(), ConfigError> {
        at_least_one("max_in_flight", self.max_in_flight)?;
        at_least_one("moves_per_source", self.moves_per_source)?;
        at_least_one("moves_per_destination", self.moves_per_destination)?;
        at_least_one("min_voters", self.min_voters)?;
        if self.voters_max < self.min_voters {
            return Err(out_of_range("voters_max", self.voters_max, "at least min_voters"));
        }
        if self.clock_rate_error_percent > 50 {
            return Err(out_of_range(
                "clock_rate_error_percent",
                self.clock_rate_error_percent,
                "0 to 50",
            ));
        }
        not_zero("lease", self.lease)?;
        not_zero("dead_timeout", self.dead_timeout)?;
        let lease_ms = millis_up(self.lease_reach());
        let death = self.dead_timeout.saturating_add(self.force_promote_after);
        let death_ms = death.as_millis() * self.slow_clock_percent() / 100;
        if lease_ms < death_ms {
            Ok(())
        } else {
            Err(ConfigError::UnsafeTiming { lease_ms, death_ms })
        }
    }

    /// Returns how many bytes per second may arrive at a node to which so many of all moves go; 0 is
    /// unlimited. The shares of all nodes together are at most the cluster's rate, whatever moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use narad_core::config::Policy;
    ///
    /// let policy = Policy { cluster_copy_rate_bytes_per_second: 400 << 20, ..Policy::default() };
    /// assert_eq!(policy.copy_in_rate(3, 4), 300 << 20);
    /// assert_eq!(policy.copy_in_rate(1, 4), 100 << 20);
    /// ```
    #[must_use]
    pub fn copy_in_rate(&self, arriving: usize, moves: usize) -> u64 {
        let own = self.copy_in_bytes_per_second;
        let cluster = self.cluster_copy_rate_bytes_per_second;
        if cluster == 0 || moves == 0 {
            return own;
        }
        let share = u128::from(cluster) * arriving.min(moves) as u128 / moves as u128;
        // Nothing arrives, or less than one byte: as slow as can be, and not without a limit.
        let share = u64::try_from(share).unwrap_or(u64::MAX).max(1);
        if own == 0 { share } else { own.min(share) }
    }

    /// Returns how long an owner may go on committing after it sent the heartbeat that was
    /// answered last, as a true clock measures it: `lease * (1 + rho) + margin`.
    #[must_use]
    pub fn lease_reach(&self) -> Duration {
        let percent = 100 + u128::from(self.clock_rate_error_percent);
        let lease_ms = (millis_up(self.lease) * percent).div_ceil(100);
        from_millis(lease_ms).saturating_add(self.lease_margin)
    }

    /// Returns how long a death must last before a promotion: `force_promote_after`, or longer if
    /// an owner that may go on for `reach` was declared dead after a `silence` that does not
    /// outlast it.
    ///
    /// For an owner that only ever knew this policy it is `force_promote_after`, because
    /// [`Policy::check`] holds.
    ///
    /// # Examples
    ///
    /// An owner that may still hold a minute's lease is waited out, however hasty the policy is:
    ///
    /// ```
    /// use core::time::Duration;
    /// use narad_core::config::Policy;
    ///
    /// let policy = Policy { force_promote_after: Duration::ZERO, ..Policy::default() };
    /// let own = policy.promotion_wait(policy.lease_reach(), policy.dead_timeout);
    /// assert_eq!(own, Duration::ZERO);
    /// let minute = policy.promotion_wait(Duration::from_secs(60), policy.dead_timeout);
    /// assert!(minute > Duration::from_secs(30));
    /// ```
    #[must_use]
    pub fn promotion_wait(&self, reach: Duration, silence: Duration) -> Duration {
        let total_ms = ((millis_up(reach) + 1) * 100).div_ceil(self.slow_clock_percent());
        let needed_ms = total_ms.saturating_sub(silence.as_millis());
        self.force_promote_after.max(from_millis(needed_ms))
    }

    /// What a clock that runs as slowly as allowed shows of a hundred units.
    fn slow_clock_percent(&self) -> u128 {
        100 - u128::from(self.clock_rate_error_percent.min(50))
    }
}

impl Config {
    /// The window over which the share of frozen time is measured.
    pub const DUTY_WINDOW: Duration = Duration::from_mins(10);

    /// Returns the defaults, with the given seed for jitter.
    #[must_use]
    pub const fn new(jitter_seed: u64) -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(1),
            request_timeout: Duration::from_secs(5),
            dead_target_after: Duration::from_mins(2),
            grace_after_election: Duration::from_secs(30),
            controller_interval: Duration::from_secs(1),
            lag_bytes: 1 << 20,
            passes_max: 20,
            stall_passes: 3,
            stall_window: Duration::from_millis(500),
            pass_interval: Duration::from_millis(50),
            chunk_bytes_max: 32 << 20,
            chunks_in_flight_max: 4,
            tail_inline_max: 1 << 20,
            freeze_ttl: Duration::from_secs(30),
            freeze_max: Duration::from_mins(5),
            freeze_target: Duration::from_millis(50),
            freeze_duty_percent: 10,
            freeze_admission_max: Duration::from_secs(5),
            retry_min: Duration::from_millis(200),
            retry_max: Duration::from_secs(30),
            jitter_seed,
            quarantine: Duration::from_hours(24),
            backlog_bytes_max: 1 << 30,
            backlog_records_max: 4 << 20,
            send_records_max: 1024,
            send_bytes_max: 1 << 20,
            sends_in_flight_max: 64,
            reroute_after: Duration::from_secs(30),
            checkpoint_interval: Duration::from_secs(1),
        }
    }

    /// Checks ranges, and what only holds together with the policy.
    ///
    /// # Errors
    ///
    /// Names the first value that is outside its range, in this configuration or in the policy.
    pub fn check(&self, policy: &Policy) -> Result<(), ConfigError> {
        policy.check()?;
        not_zero("heartbeat_interval", self.heartbeat_interval)?;
        not_zero("request_timeout", self.request_timeout)?;
        not_zero("controller_interval", self.controller_interval)?;
        not_zero("freeze_ttl", self.freeze_ttl)?;
        not_zero("freeze_admission_max", self.freeze_admission_max)?;
        not_zero("retry_min", self.retry_min)?;
        at_least_one("passes_max", self.passes_max)?;
        at_least_one("stall_passes", self.stall_passes)?;
        if self.heartbeat_interval.saturating_mul(3) > policy.lease {
            return Err(out_of_range_ms(
                "heartbeat_interval",
                self.heartbeat_interval,
                "at most a third of the lease",
            ));
        }
        if self.grace_after_election < policy.dead_timeout {
            return Err(out_of_range_ms(
                "grace_after_election",
                self.grace_after_election,
                "at least dead_timeout",
            ));
        }
        if self.freeze_max < self.freeze_ttl {
            return Err(out_of_range_ms("freeze_max", self.freeze_max, "at least freeze_ttl"));
        }
        if self.retry_max < self.retry_min {
            return Err(out_of_range_ms("retry_max", self.retry_max, "at least retry_min"));
        }
        if !(1..=100).contains(&self.freeze_duty_percent) {
            return Err(out_of_range("freeze_duty_percent", self.freeze_duty_percent, "1 to 100"));
        }
        if !(1..=64).contains(&self.chunks_in_flight_max) {
            return Err(out_of_range("chunks_in_flight_max", self.chunks_in_flight_max, "1 to 64"));
        }
        if self.tail_inline_max > 1 << 20 {
            return Err(out_of_range("tail_inline_max", self.tail_inline_max, "0 to 1 MiB"));
        }
        if !(4096..=64 << 20).contains(&self.chunk_bytes_max) {
            return Err(out_of_range("chunk_bytes_max", self.chunk_bytes_max, "4 KiB to 64 MiB"));
        }
        self.check_dispatch()
    }

    /// Checks what the way of accepted records to their owners is tuned by.
    fn check_dispatch(&self) -> Result<(), ConfigError> {
        not_zero("reroute_after", self.reroute_after)?;
        not_zero("checkpoint_interval", self.checkpoint_interval)?;
        if self.backlog_bytes_max < 1 << 20 {
            return Err(out_of_range(
                "backlog_bytes_max",
                self.backlog_bytes_max,
                "at least 1 MiB",
            ));
        }
        if !(1024..=1 << 30).contains(&self.backlog_records_max) {
            return Err(out_of_range(
                "backlog_records_max",
                self.backlog_records_max,
                "1,024 to 1,073,741,824",
            ));
        }
        if !(1..=65_536).contains(&self.send_records_max) {
            return Err(out_of_range("send_records_max", self.send_records_max, "1 to 65,536"));
        }
        if !(4096..=8 << 20).contains(&self.send_bytes_max) {
            return Err(out_of_range("send_bytes_max", self.send_bytes_max, "4 KiB to 8 MiB"));
        }
        if !(1..=1024).contains(&self.sends_in_flight_max) {
            return Err(out_of_range(
                "sends_in_flight_max",
                self.sends_in_flight_max,
                "1 to 1,024",
            ));
        }
        Ok(())
    }
}

fn out_of_range(
    key: &'static str,
    value: impl core::fmt::Display,
    allowed: &'static str,
) -> ConfigError {
    ConfigError::OutOfRange { key, value: alloc::format!("{value}"), allowed }
}

fn out_of_range_ms(key: &'static str, value: Duration, allowed: &'static str) -> ConfigError {
    out_of_range(key, alloc::format!("{} ms", value.as_millis()), allowed)
}

fn at_least_one(key: &'static str, value: u32) -> Result<(), ConfigError> {
    if value == 0 { Err(out_of_range(key, value, "at least 1")) } else { Ok(()) }
}

fn not_zero(key: &'static str, value: Duration) -> Result<(), ConfigError> {
    if value.is_zero() { Err(out_of_range_ms(key, value, "more than 0")) } else { Ok(()) }
}

/// Whole milliseconds, rounded up: what is waited for is never cut short.
fn millis_up(time: Duration) -> u128 {
    time.as_nanos().div_ceil(1_000_000)
}

fn from_millis(millis: u128) -> Duration {
    u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis)
}
