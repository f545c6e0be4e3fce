//! How something that takes time is doing: four answers, and never silence.

use narad_core::controller::verdict::Course;
use serde::{Deserialize, Serialize};

/// How a move, a decommission or the whole cluster is doing.
///
/// There are these four and no others. Whoever shows one shows all that it holds: a wait names who
/// can end it, what is blocked names its remedy, and what is done has a proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verdict {
    /// It goes on by itself.
    Progressing {
        /// Bytes that have been copied.
        bytes: u64,
        /// Bytes to copy in all, as far as they are known; writes add to them.
        bytes_total: u64,
        /// Bytes copied per second; 0 if that is not known yet.
        bytes_per_second: u64,
        /// How long the rest takes at that rate, in milliseconds; absent while that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        eta_ms: Option<u64>,
    },
    /// It does not go on at the moment, and will once something has happened.
    Waiting {
        /// What it waits for, for programs.
        code: Cause,
        /// What it waits for.
        reason: String,
        /// Who can help, and how; or that nobody needs to.
        who: String,
    },
    /// It does not go on until somebody does something.
    Blocked {
        /// What stands in the way, for programs.
        code: Cause,
        /// What stands in the way.
        reason: String,
        /// What has to be done.
        remedy: String,
    },
    /// It is over.
    Done {
        /// What shows that it is.
        proof: String,
    },
}

impl Verdict {
    /// Returns the verdict on what has come so far at such a rate.
    pub fn progressing(bytes: u64, bytes_total: u64, bytes_per_second: u64) -> Self {
        let left = u128::from(bytes_total.saturating_sub(bytes)) * 1000;
        let eta = left.div_ceil(u128::from(bytes_per_second.max(1)));
        let eta_ms = Some(u64::try_from(eta).unwrap_or(u64::MAX))
            .filter(|_| bytes_per_second > 0 || left == 0);
        Self::Progressing { bytes, bytes_total, bytes_per_second, eta_ms }
    }

    /// Returns the word for the state, as the JSON has it.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Progressing { .. } => "progressing",
            Self::Waiting { .. } => "waiting",
            Self::Blocked { .. } => "blocked",
            Self::Done { .. } => "done",
        }
    }

    /// Returns what it waits for, or what blocks it.
    pub const fn cause(&self) -> Option<Cause> {
        match self {
            Self::Waiting { code, .. } | Self::Blocked { code, .. } => Some(*code),
            Self::Progressing { .. } | Self::Done { .. } => None,
        }
    }

    /// Returns how it is doing, for whoever judges more than this.
    pub const fn course(&self) -> Course {
        match self {
            Self::Progressing { .. } => Course::GoesOn,
            Self::Waiting { .. } => Course::Waits,
            Self::Blocked { .. } => Course::Blocked,
            Self::Done { .. } => Course::Over,
        }
    }

    /// Whether somebody has to do something.
    pub const fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. })
    }

    /// Whether it is over.
    pub const fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

/// Gives every cause its name for programs, and lists them.
macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident => $code:literal,)+) => {
        /// What something waits for, or what stands in its way, for programs. The names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Cause {
            $($(#[$doc])* #[serde(rename = $code)] $variant,)+
            /// Something that a newer node says.
            #[serde(other, rename = "unknown")]
            Unknown,
        }

        impl Cause {
            /// Every cause that this version can name.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name of it.
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                    Self::Unknown => "unknown",
                }
            }
        }
    };
}

causes! {
    /// The destination has not begun with the move yet.
    Starting => "starting",
    /// The destination does not say how the move is coming on.
    DestinationSilent => "destination_silent",
    /// The destination was declared dead.
    DestinationDead => "destination_dead",
    /// The source does not answer.
    SourceUnreachable => "source_unreachable",
    /// The source answers, and does not grant what is asked.
    SourceRefuses => "source_refuses",
    /// The source contradicts itself.
    SourceMalformed => "source_malformed",
    /// The source has restarted, and the copy is compared with it.
    SourceRestarted => "source_restarted",
    /// The source is dead, for less time than a promotion needs.
    SourceDead => "source_dead",
    /// The source is dead, and the copy must not be promoted.
    PromoteRefused => "promote_refused",
    /// The source has damaged bytes.
    Damaged => "damaged",
    /// The partition has been frozen too much lately.
    FreezeDuty => "freeze_duty",
    /// The tail could not be drained within the longest freeze.
    FreezeMax => "freeze_max",
    /// There is no leader.
    NoLeader => "no_leader",
    /// A disk is full.
    DiskFull => "disk_full",
    /// A disk fails.
    DiskFails => "disk_fails",
    /// The copy is not what the source has, and is made again.
    CopyDiffers => "copy_differs",
    /// The flip was refused.
    FlipRejected => "flip_rejected",
    /// A dead member's disk alone holds partitions.
    OwnerDead => "owner_dead",
    /// A member is dead.
    MemberDead => "member_dead",
    /// Moves are paused.
    Paused => "paused",
    /// As many moves are under way as may be at once.
    Slots => "slots",
    /// Partitions are pinned.
    Pinned => "pinned",
    /// Partitions have no owner yet.
    Unassigned => "unassigned",
    /// There is no such member.
    UnknownMember => "unknown_member",
    /// The member has been taken out for good.
    Retired => "retired",
    /// Too few voters would be left.
    BelowMinVoters => "below_min_voters",
    /// The rest would have no healthy majority.
    NoHealthyMajority => "no_healthy_majority",
    /// No other member can take partitions.
    NoReceivers => "no_receivers",
    /// The copies would not fit onto the disks that have to take them.
    NoHeadroom => "no_headroom",
    /// Partitions are still moving to a member that leaves.
    Inbound => "inbound",
    /// A member has accepted records that have not reached their owners.
    Backlog => "backlog",
    /// A member is about to be taken out.
    Retiring => "retiring",
    /// A member's vote is being taken away.
    Voting => "voting",
    /// The member is one of those without whom nothing can be decided.
    LastMajority => "last_majority",
    /// A partition is being handed over to or from the member.
    CutOver => "cut_over",
    /// The member has not been taken out for good.
    NotRetired => "not_retired",
    /// The member leads.
    Leads => "leads",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_takes_as_long_as_the_rate_says() {
        let eta = |verdict| match verdict {
            Verdict::Progressing { eta_ms, .. } => eta_ms,
            other => panic!("{other:?}"),
        };
        assert_eq!(eta(Verdict::progressing(10, 110, 50)), Some(2000));
        assert_eq!(eta(Verdict::progressing(10, 11, 3)), Some(334));
        assert_eq!(eta(Verdict::progressing(10, 110, 0)), None);
        assert_eq!(eta(Verdict::progressing(110, 110, 0)), Some(0));
        assert_eq!(eta(Verdict::progressing(0, u64::MAX, 1)), Some(u64::MAX));
    }

    /// The names are what scripts rely on: they are the same in JSON and in code, each once.
    #[test]
    fn every_cause_has_one_name() {
        let mut names: Vec<&str> = Cause::ALL.iter().map(|cause| cause.code()).collect();
        for cause in Cause::ALL {
            let json = serde_json::to_value(cause).expect("a text");
            assert_eq!(json, cause.code());
            assert_eq!(serde_json::from_value::<Cause>(json).expect("a cause"), *cause);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
        let newer: Cause = serde_json::from_str("\"moon_phase\"").expect("a newer cause");
        assert_eq!(newer, Cause::Unknown);
    }

    /// The API's description lists every cause there is and no other, each with who can help.
    #[cfg(feature = "http")]
    #[test]
    fn every_cause_is_documented() {
        let api = include_str!("../http/openapi.json");
        let api: serde_json::Value = serde_json::from_str(api).expect("json");
        let documented = &api["components"]["schemas"]["Cause"];
        let mut listed = serde_json::from_value::<Vec<String>>(documented["enum"].clone())
            .expect("a list of names");
        let mut named: Vec<String> = Cause::ALL.iter().map(|cause| cause.code().into()).collect();
        named.push(Cause::Unknown.code().into());
        listed.sort_unstable();
        named.sort_unstable();
        assert_eq!(listed, named);
        let text = documented["description"].as_str().expect("a text");
        for name in named {
            let start = format!("- `{name}`: ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            // What it means, and then who can help.
            let sentences = line.map_or(0, |line| line.split(". ").count());
            assert!(sentences >= 2, "{name} is not explained: {line:?}");
        }
    }

    #[test]
    fn a_verdict_is_read_back() {
        let all = [
            Verdict::progressing(1, 2, 3),
            Verdict::Waiting { code: Cause::Paused, reason: "r".into(), who: "w".into() },
            Verdict::Blocked { code: Cause::Damaged, reason: "r".into(), remedy: "m".into() },
            Verdict::Done { proof: "p".into() },
        ];
        for verdict in all {
            let json = serde_json::to_value(&verdict).expect("json");
            assert_eq!(json["state"], verdict.state());
            assert_eq!(serde_json::from_value::<Verdict>(json).expect("a verdict"), verdict);
        }
    }
}
