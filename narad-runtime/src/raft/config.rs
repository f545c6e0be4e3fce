//! The numbers of one Raft node.

use narad_core::ids::NodeId;
use narad_core::planted::{Bug, is_planted};
use std::time::Duration;

/// How long one tick lasts by default: 100 ms.
///
/// The wrapper never looks at a clock; its driver calls [`Raft::tick`](super::Raft::tick) this often.
pub const TICK_DEFAULT: Duration = Duration::from_millis(100);

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What one node needs to know before it starts.
///
/// Every field has the default that [`RaftConfig::new`] gives. Pre-vote and quorum checks have no
/// field: they are always on, because without them a removed node that was cut off and comes back
/// deposes the leader again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaftConfig {
    /// This node; equal to the store's.
    pub id: NodeId,
    /// A number that no earlier start of this node used: its incarnation.
    ///
    /// It is part of every read request's name, so that an answer which the network kept since
    /// before a restart never answers a request made after it.
    pub life: u64,
    /// Ticks without a leader after which the most impatient follower stands for election.
    /// Default 10, at least more than [`heartbeat_ticks`](Self::heartbeat_ticks). Larger rides out
    /// longer pauses, smaller replaces a dead leader sooner. Also the interval of quorum checks.
    pub election_ticks_min: usize,
    /// The exclusive upper end of the randomized election timeout in ticks. Default 20; more than
    /// the minimum. A wider range means fewer split votes.
    pub election_ticks_max: usize,
    /// Ticks between a leader's heartbeats. Default 3.
    pub heartbeat_ticks: usize,
    /// If set, election timeouts are a function of it and of node, term and role, and a run can be
    /// repeated exactly. Default none: drawn at random, as production wants them.
    pub election_seed: Option<u64>,
    /// The largest message that [`Raft::step`](super::Raft::step) decodes. Default 64 MiB; a
    /// snapshot travels as one message, so this bounds snapshots too.
    pub message_bytes_max: u64,
    /// The largest entry (context and data) that a proposal may carry. Default 1 MiB.
    pub entry_bytes_max: u64,
    /// Entries per append message, in bytes. Default 1 MiB; a single larger entry still goes out,
    /// alone. Zero would mean one entry a message.
    pub append_bytes_max: u64,
    /// Uncommitted bytes at which a leader begins to refuse proposals. Default 16 MiB.
    pub uncommitted_bytes_max: u64,
    /// Committed bytes handed out in one batch. Default 1 MiB; a single larger entry still comes,
    /// alone.
    pub committed_bytes_max: u64,
    /// Append messages in flight to one peer. Default 256.
    pub inflight_max: usize,
    /// Entries since the last snapshot at which a new one is wanted. Default 10,000.
    ///
    /// Larger means fewer snapshots, a longer replay at start and more memory: the log since the
    /// last snapshot is kept in memory as well as on disk.
    pub snapshot_entries: u64,
    /// Bytes since the last snapshot at which a new one is wanted. Default 16 MiB.
    pub snapshot_bytes: u64,
    /// Entries kept before a snapshot, so that a peer which is slightly behind needs no snapshot.
    /// Default 1,000; never more bytes than [`snapshot_bytes`](Self::snapshot_bytes).
    pub keep_entries: u64,
    /// Ticks after which a snapshot that was sent and never reported counts as failed. Default
    /// 300. A net under the driver: without a report the peer would get nothing any more.
    pub snapshot_ticks_max: u64,
    /// Where the consensus library's own log lines go. Default [`RaftLogging::Tracing`].
    pub logging: RaftLogging,
}

/// Where the consensus library's own log lines go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RaftLogging {
    /// To `tracing`, under the target `raft`.
    #[default]
    Tracing,
    /// Nowhere. For simulations, which would drown in them.
    Silent,
}

impl RaftConfig {
    /// Returns the defaults for a node and one of its lives.
    ///
    /// # Examples
    ///
    /// An election takes one to two seconds at the default tick:
    ///
    /// ```
    /// use narad_core::ids::NodeId;
    /// use narad_runtime::raft::RaftConfig;
    ///
    /// let config = RaftConfig::new(NodeId(1), 7);
    /// assert_eq!((config.election_ticks_min, config.election_ticks_max), (10, 20));
    /// assert_eq!(config.heartbeat_ticks, 3);
    /// ```
    #[must_use]
    pub fn new(id: NodeId, life: u64) -> Self {
        Self {
            id,
            life,
            election_ticks_min: 10,
            election_ticks_max: 20,
            heartbeat_ticks: 3,
            election_seed: None,
            message_bytes_max: 64 * MIB,
            entry_bytes_max: MIB,
            append_bytes_max: MIB,
            uncommitted_bytes_max: 16 * MIB,
            committed_bytes_max: MIB,
            inflight_max: 256,
            snapshot_entries: 10_000,
            snapshot_bytes: 16 * MIB,
            keep_entries: 1_000,
            snapshot_ticks_max: 300,
            logging: RaftLogging::Tracing,
        }
    }

    /// Translates for the library, which is told where the state machine stands: at the snapshot.
    ///
    /// The library's own defaults for the three byte limits are "one entry a message" and "no
    /// limit", and it leaves pre-vote and quorum checks off.
    pub(super) fn for_library(&self, applied: u64) -> ::raft::Config {
        ::raft::Config {
            id: self.id.0,
            election_tick: self.election_ticks_min,
            min_election_tick: self.election_ticks_min,
            max_election_tick: self.election_ticks_max,
            heartbeat_tick: self.heartbeat_ticks,
            applied,
            max_size_per_msg: self.append_bytes_max,
            max_inflight_msgs: self.inflight_max,
            max_uncommitted_size: self.uncommitted_bytes_max,
            max_committed_size_per_ready: self.committed_bytes_max,
            check_quorum: true,
            pre_vote: true,
            // Not by lease: that one depends on clocks that run alike.
            read_only_option: if is_planted(Bug::BarrierByClock) {
                ::raft::ReadOnlyOption::LeaseBased
            } else {
                ::raft::ReadOnlyOption::Safe
            },
            ..::raft::Config::default()
        }
    }

    /// Returns the election timeout that the seed prescribes for a term and role, in ticks.
    pub(super) fn election_ticks(&self, seed: u64, term: u64, role: u64) -> usize {
        let spread = self.election_ticks_max.saturating_sub(self.election_ticks_min).max(1);
        let drawn = mix(seed ^ mix(self.id.0) ^ mix((term << 2) ^ role));
        let offset = drawn % u64::try_from(spread).unwrap_or(u64::MAX);
        self.election_ticks_min + usize::try_from(offset).unwrap_or(0)
    }
}

/// Spreads a number over all 64 bits (the finalizer of splitmix64).
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_timeouts_stay_in_the_configured_range() {
        let config = RaftConfig::new(NodeId(3), 1);
        let drawn: Vec<usize> = (0..400).map(|t| config.election_ticks(9, t, t % 4)).collect();
        assert!(drawn.iter().all(|ticks| (10..20).contains(ticks)));
        assert!((10..20).all(|ticks| drawn.contains(&ticks)), "each value occurs");
    }

    #[test]
    fn the_defaults_pass_the_librarys_own_check() {
        assert!(RaftConfig::new(NodeId(3), 1).for_library(5).validate().is_ok());
    }
}
