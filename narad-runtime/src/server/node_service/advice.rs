//! What every reason of the machines means to an operator, and who can do something about it.
//!
//! There is one exhaustive match for each enum of reasons, so that a new reason does not compile
//! before somebody has said what it asks of people.

use narad_core::controller::preflight::Blocker;
use narad_core::controller::verdict::Course;
use narad_core::ids::Name;
use narad_core::metastore::Reason;
use narad_core::mover::{Progress, Waiting};
use narad_core::{peer, promote};

use crate::service::{BlockerView, Cause, MoveView, StopReason, Verdict};
use crate::units::counted;

/// The names of a move's ends, as people know them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends<'a> {
    /// The partition, such as `orders/3`.
    pub(super) partition: &'a str,
    /// The owner.
    pub(super) from: &'a str,
    /// The destination.
    pub(super) to: &'a str,
}

/// What a reason means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) code: Cause,
    pub(super) reason: String,
    pub(super) help: Help,
}

/// Whether somebody has to do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Help {
    /// It passes; here is who can hasten it.
    Passes(String),
    /// It does not pass before this is done.
    Needed(String),
}

/// What is said where nobody has to do anything.
pub(super) const NOBODY: &str = "nobody needs to: it goes on by itself";

impl Advice {
    pub(super) fn passes(code: Cause, reason: impl Into<String>, who: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), help: Help::Passes(who.into()) }
    }

    pub(super) fn needed(
        code: Cause,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { code, reason: reason.into(), help: Help::Needed(remedy.into()) }
    }

    /// Returns it as a reason why a member cannot leave.
    pub(super) fn blocker(self, member: Name) -> BlockerView {
        let Self { code, reason, help: Help::Passes(remedy) | Help::Needed(remedy) } = self;
        BlockerView { member, code, reason, remedy }
    }

    /// Returns it as a reason why a member should not be stopped.
    pub(super) fn stop_reason(self) -> StopReason {
        let Self { code, reason, help: Help::Passes(remedy) | Help::Needed(remedy) } = self;
        StopReason { code, reason, remedy }
    }

    pub(super) fn verdict(self) -> Verdict {
        let Self { code, reason, help } = self;
        match help {
            Help::Passes(who) => Verdict::Waiting { code, reason, who },
            Help::Needed(remedy) => Verdict::Blocked { code, reason, remedy },
        }
    }
}

/// Says how a move is doing by what its destination reports: what [`Progress::course`] judges.
pub(super) fn of_progress(progress: &Progress, ends: Ends<'_>) -> Verdict {
    let Some(waiting) = progress.waiting else {
        let Progress { staged_bytes, listed_bytes, copy_rate, .. } = *progress;
        return Verdict::progressing(staged_bytes, listed_bytes.max(staged_bytes), copy_rate);
    };
    match (of_waiting(waiting, ends), progress.course()) {
        (Advice { code, reason, help: Help::Passes(who) }, Course::Blocked) => {
            let reason = format!("{reason}, again and again");
            Verdict::Blocked { code, reason, remedy: who }
        }
        (advice, Course::GoesOn | Course::Waits | Course::Blocked | Course::Over) => {
            advice.verdict()
        }
    }
}

/// Says that a destination has not begun yet.
pub(super) fn starting(to: &Name) -> Advice {
    Advice::passes(Cause::Starting, format!("{to} has not begun yet"), NOBODY)
}

/// Says that a destination does not tell how a move is coming on.
pub(super) fn silent(to: &Name) -> Advice {
    Advice::passes(
        Cause::DestinationSilent,
        format!("{to} does not say how the move is coming on"),
        format!("{to}: look whether it runs, and whether its HTTP address is reached from here"),
    )
}

/// Says what becomes of a move whose destination is dead.
pub(super) fn dead_target(moved: &MoveView, paused: bool) -> Advice {
    let MoveView { from, to, source_dead, .. } = moved;
    if *source_dead {
        return Advice::needed(
            Cause::DestinationDead,
            format!("both {from} and {to} are dead"),
            format!(
                "start {from} again, or {to}, whose copy may do; if neither comes back: narad \
                 cluster declare-lost {}",
                moved.place()
            ),
        );
    }
    Advice::passes(
        Cause::DestinationDead,
        format!("{to} is dead; {from} goes on serving the partition"),
        if paused {
            format!("{to}, if it is started again; else resume moves (narad cluster resume)")
        } else {
            format!("{to}, if it is started again; else the move is planned anew by itself")
        },
    )
}

/// Returns what a move waits for, for programs.
pub(super) fn cause_of(waiting: Waiting) -> Cause {
    of_waiting(waiting, Ends { partition: "", from: "", to: "" }).code
}

/// Says what a move waits for.
pub(super) fn of_waiting(waiting: Waiting, ends: Ends<'_>) -> Advice {
    let Ends { partition, from, to } = ends;
    match waiting {
        Waiting::SourceUnreachable => Advice::passes(
            Cause::SourceUnreachable,
            format!("{from} does not answer {to}"),
            format!("{from}: look whether it runs, and whether {to} reaches its peer address"),
        ),
        Waiting::SourceRefuses(refusal) => of_refusal(refusal, ends),
        Waiting::SourceMalformed => Advice::needed(
            Cause::SourceMalformed,
            format!("the answers of {from} contradict themselves"),
            format!("check the version and the disk of {from}, then restart it"),
        ),
        Waiting::SourceRestarted => Advice::passes(
            Cause::SourceRestarted,
            format!("{from} has restarted, and the copy is compared with it"),
            NOBODY,
        ),
        Waiting::SourceDead => Advice::passes(
            Cause::SourceDead,
            format!("{from} is dead, and has not been for as long as a promotion takes"),
            format!(
                "{from}, if it is started again; else {to} takes the partition over after \
                 force_promote_after"
            ),
        ),
        Waiting::PromoteRefused(refusal) => of_promotion(refusal, ends),
        Waiting::Damaged { base, position } => Advice::needed(
            Cause::Damaged,
            format!("segment {base} of {partition} is damaged on {from}, at byte {position}"),
            format!(
                "put that segment back from a backup of {from}, or give up what is damaged: narad topic \
                 skip, and the segment moves as it is; {from} goes on serving the rest, and other moves \
                 go on"
            ),
        ),
        Waiting::FreezeDuty => Advice::passes(
            Cause::FreezeDuty,
            format!("{partition} has been frozen too much lately"),
            format!("{NOBODY} within ten minutes; a lower write rate shortens it"),
        ),
        Waiting::FreezeMax => Advice::needed(
            Cause::FreezeMax,
            format!("{partition} could not be drained within the longest freeze"),
            format!(
                "lower the write rate of {partition}, or raise the copy rate: narad cluster \
                 throttle"
            ),
        ),
        Waiting::LeaderUnreachable => Advice::passes(
            Cause::NoLeader,
            format!("{to} can reach no leader"),
            "the voters: more than half of them have to run and reach one another",
        ),
        Waiting::DiskFull => Advice::needed(
            Cause::DiskFull,
            format!("the disk of {to} is full"),
            format!("free space on {to}, or send {partition} elsewhere: narad cluster move"),
        ),
        Waiting::Disk => Advice::needed(
            Cause::DiskFails,
            format!("the disk of {to} fails"),
            format!("look at the log of {to} and replace its disk, or send {partition} elsewhere"),
        ),
        Waiting::CopyUnverifiable => Advice::passes(
            Cause::CopyDiffers,
            format!("the copy on {to} is not what {from} has, and is made again"),
            NOBODY,
        ),
        Waiting::FlipRejected(reason) => of_rejection(reason, Cause::FlipRejected, "the flip"),
    }
}

/// Says what a source's refusal means.
fn of_refusal(refusal: peer::Refusal, ends: Ends<'_>) -> Advice {
    use peer::Refusal;

    let Ends { partition, from, to } = ends;
    let code = Cause::SourceRefuses;
    match refusal {
        Refusal::NotLeader { .. } => {
            Advice::passes(Cause::NoLeader, format!("{from} does not lead"), NOBODY)
        }
        Refusal::AskerDead => Advice::passes(
            code,
            format!("{to} was declared dead, and registers again"),
            format!("{to}: look whether it reaches the leader"),
        ),
        Refusal::NotOwner => {
            Advice::passes(code, format!("{from} no longer owns {partition}"), NOBODY)
        }
        Refusal::NoSuchMove => {
            Advice::passes(code, format!("{from} knows of a later plan for {partition}"), NOBODY)
        }
        Refusal::NotYet => {
            Advice::passes(code, format!("{from} has not heard of this move yet"), NOBODY)
        }
        Refusal::NotServing => Advice::passes(
            code,
            format!("{from} may not serve {partition} now: it has no lease"),
            format!("{from}: look whether it reaches the leader"),
        ),
        Refusal::FrozenElsewhere => {
            Advice::passes(code, format!("{partition} is frozen for an earlier try"), NOBODY)
        }
        Refusal::FrozenTooOften { retry_after_ms } => Advice::passes(
            Cause::FreezeDuty,
            format!("{partition} has been frozen too much lately"),
            format!("{NOBODY} in {} s; a lower write rate shortens it", retry_after_ms / 1000 + 1),
        ),
        Refusal::AppendStuck => Advice::passes(
            code,
            format!("a write to {partition} hangs on {from}, so that it cannot be frozen"),
            format!("{from}: look at its disk, a sync takes too long there"),
        ),
        Refusal::NoSuchFreeze => {
            Advice::passes(code, format!("the freeze on {from} is over"), NOBODY)
        }
        Refusal::Disk => Advice::needed(
            Cause::DiskFails,
            format!("the disk of {from} fails"),
            format!("look at the log of {from}; what can be read of its disk is still served"),
        ),
        Refusal::NotAdmitted(reason) => of_rejection(reason, code, "the admission"),
        Refusal::Unknown => Advice::passes(
            Cause::NoLeader,
            "no leader answered in time",
            "the voters: more than half of them have to run and reach one another",
        ),
    }
}

/// Says why the copy of a dead source is not promoted.
fn of_promotion(refusal: promote::Refusal, ends: Ends<'_>) -> Advice {
    use promote::Refusal;

    let Ends { partition, from, to } = ends;
    let needed = |reason: String| {
        let remedy = format!(
            "start {from} again; if it never comes back, give up what only it holds: narad cluster \
             declare-lost {partition}"
        );
        Advice::needed(Cause::PromoteRefused, reason, remedy)
    };
    match refusal {
        Refusal::NeverReached => {
            needed(format!("{from} is dead, and {to} had not reached it before"))
        }
        Refusal::NotCompared => needed(format!(
            "{from} is dead, and had restarted without the copy on {to} being compared with it"
        )),
        Refusal::TooEarly { remaining } => Advice::passes(
            Cause::SourceDead,
            format!("{from} is dead, and has not been for as long as a promotion takes"),
            format!(
                "{from}, if it is started again; else {to} takes the partition over in {} s",
                remaining.as_secs() + 1
            ),
        ),
        Refusal::Behind { end, visible } => needed(format!(
            "{from} is dead, and the copy on {to} ends at {end} where consumers could see up to \
             {visible}"
        )),
        Refusal::BelowMinEnd { end, min_end } => needed(format!(
            "{from} is dead, and the copy on {to} ends at {end} where {min_end} was durable"
        )),
        Refusal::WrongStart { start, expected } => needed(format!(
            "{from} is dead, and the copy on {to} begins at {start} instead of {expected}"
        )),
        Refusal::WrongEnd { end, expected } => needed(format!(
            "{from} is dead, and the copy on {to} ends at {end} instead of {expected}"
        )),
        Refusal::WrongDigest => {
            needed(format!("{from} is dead, and the copy on {to} has other bytes than it had"))
        }
        Refusal::WrongEpoch => needed(format!(
            "{from} is dead, and the copy on {to} was frozen in another epoch than the move's"
        )),
        Refusal::Unreadable => Advice::needed(
            Cause::DiskFails,
            format!("{from} is dead, and the copy on {to} cannot be read back"),
            format!("look at the disk of {to}; start {from} again"),
        ),
    }
}

/// Says what a refusal of the replicated log means for whoever waits for it.
fn of_rejection(reason: Reason, code: Cause, what: &str) -> Advice {
    let refused = format!("{what} was refused: {reason}");
    match reason {
        // The plan has moved on, and the next look at the row finds out how.
        Reason::Gone
        | Reason::UnknownTopic
        | Reason::NotYours
        | Reason::OwnerChanged
        | Reason::EpochChanged
        | Reason::MoveChanged
        | Reason::NotTarget
        | Reason::AttemptBurned
        | Reason::TokenRevoked
        | Reason::TokenStale
        | Reason::NotDead
        | Reason::NotOwner
        | Reason::AlreadyThere
        | Reason::AlreadyAssigned
        | Reason::NodeUnregistered
        | Reason::StaleIncarnation
        | Reason::NotDraining
        | Reason::NotDrainedOut
        | Reason::OwnsPartitions
        | Reason::IsTarget
        | Reason::TopicBusy => Advice::passes(code, refused, NOBODY),
        Reason::CopyBehind => {
            Advice::passes(code, refused, format!("{NOBODY}: the copy is made again"))
        }
        Reason::NodeDead => Advice::passes(
            code,
            refused,
            "the member that is dead: start it again; narad cluster members shows which",
        ),
        Reason::NodeDraining => Advice::passes(
            code,
            refused,
            format!("{NOBODY}, to another member; or cancel the decommission"),
        ),
        Reason::NoHealthyMajority | Reason::BelowMinVoters => {
            Advice::needed(code, refused, "start the voters that are dead, or let a node join")
        }
        Reason::UnknownMember | Reason::NodeRetired => Advice::needed(
            code,
            refused,
            "the node was taken out: wipe its disk, and let it join again under a new name",
        ),
        Reason::WrongStore | Reason::NameTaken => Advice::needed(
            code,
            refused,
            "give the node a name and a data directory of its own, then let it join",
        ),
        Reason::Forgotten => Advice::needed(
            code,
            refused,
            "nothing is deleted; look at it with narad cluster salvage before you drop it",
        ),
        Reason::NeedsReceipt => {
            Advice::needed(code, refused, "say what is given up: narad cluster declare-lost")
        }
        Reason::OutOfRange | Reason::UnsafeTiming => {
            Advice::needed(code, refused, "compare it with narad cluster policy show")
        }
    }
}

/// Says what stands in the way of a decommission. `member` is the one that is to leave.
pub(super) fn of_blocker(blocker: Blocker, member: &str) -> Advice {
    match blocker {
        Blocker::UnknownMember => Advice::needed(
            Cause::UnknownMember,
            format!("there is no member {member:?}"),
            "narad cluster members lists the members",
        ),
        Blocker::Retired => Advice::needed(
            Cause::Retired,
            format!("{member} has been taken out already"),
            "nothing is to be done: its process can be stopped and its disk wiped",
        ),
        Blocker::BelowMinVoters { left, min_voters } => Advice::needed(
            Cause::BelowMinVoters,
            format!("{} would be left, but min_voters is {min_voters}", counted(left, "voter")),
            "let another node join first, or lower it: narad cluster policy set min_voters=N",
        ),
        Blocker::NoHealthyMajority { healthy, left } => Advice::needed(
            Cause::NoHealthyMajority,
            format!("only {healthy} of the {left} remaining voters are alive"),
            "start the dead ones again first",
        ),
        Blocker::NoReceivers { owned } => Advice::needed(
            Cause::NoReceivers,
            format!("no other member can take what {member} has: {}", counted(owned, "partition")),
            "let a node join first, or cancel another decommission",
        ),
        Blocker::OwnerDead { owned } => Advice::needed(
            Cause::OwnerDead,
            format!("{member} is dead, and its disk alone holds {}", counted(owned, "partition")),
            format!(
                "start {member} again; if it never comes back, give them up one by one: narad \
                 cluster declare-lost"
            ),
        ),
        Blocker::Pinned { pinned } => Advice::needed(
            Cause::Pinned,
            format!("{} pinned to {member}", counted(pinned, "partition")),
            "unpin them, or move them to another member: narad cluster unpin, narad cluster move",
        ),
    }
}

#[cfg(test)]
mod tests;
