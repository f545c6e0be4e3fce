//! What protocol events are called: in scenarios, in traces, in reports.

use narad_core::freeze::handoff;
use narad_core::ids::PartitionId;
use narad_core::metastore::Command;
use narad_core::mover::{self, Phase};
use narad_core::node::{Gating, Note, Operation, Staging};
use narad_core::peer::{Answer, Request};
use narad_core::{controller, host, lease};

pub(crate) const fn command(command: &Command) -> &'static str {
    match command {
        Command::Join { .. } => "join",
        Command::Register { .. } => "register",
        Command::MarkDead { .. } => "mark-dead",
        Command::Report { .. } => "report",
        Command::SetDraining { .. } => "set-draining",
        Command::DrainedOut { .. } => "drained-out",
        Command::Retire { .. } => "retire",
        Command::CreateTopic { .. } => "create-topic",
        Command::DeleteTopic { .. } => "delete-topic",
        Command::AssignPartition { .. } => "assign",
        Command::SetTarget { .. } => "set-target",
        Command::ClearTarget { .. } => "clear-target",
        Command::CompleteMove { .. } => "flip",
        Command::Resolve { .. } => "resolve",
        Command::Revoke { .. } => "revoke",
        Command::ReclaimReady { .. } => "reclaim-ready",
        Command::SetPolicy(_) => "set-policy",
        Command::SetPin { .. } => "set-pin",
        Command::DeclareLost { .. } => "declare-lost",
        Command::RaiseVersion { .. } => "raise-version",
    }
}

pub(crate) const fn request(request: &Request) -> &'static str {
    match request {
        Request::Heartbeat { .. } => "heartbeat",
        Request::Propose(entry) => command(&entry.command),
        Request::Join { .. } => "join",
        Request::List { .. } => "list",
        Request::Prepare { .. } => "prepare",
        Request::Renew { .. } => "renew",
        Request::Release { .. } => "release",
    }
}

pub(crate) const fn answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Heartbeat { .. } => "heartbeat-answer",
        Answer::Accepted => "propose-answer",
        Answer::Joined { .. } => "join-answer",
        Answer::Listing(_) => "list-answer",
        Answer::Capture(_) => "prepare-answer",
        Answer::Noted => "noted-answer",
        Answer::Refused(_) => "refused-answer",
    }
}

pub(crate) const fn operation(operation: &Operation) -> &'static str {
    match operation {
        Operation::Append(entry) => command(&entry.command),
        Operation::Barrier => "barrier",
        Operation::Survey => "survey",
        Operation::Configure(_) => "configure",
        Operation::Transfer { .. } => "transfer",
        Operation::Call { request: asked, .. } => request(asked),
        Operation::NextIncarnation => "next-incarnation",
        Operation::Inspect(_) => "inspect",
        Operation::Host(_, host::Operation::Open { .. }) => "open",
        Operation::Host(_, host::Operation::Expose { .. }) => "expose",
        Operation::Host(_, host::Operation::Close) => "close",
        Operation::Stage(_, work) => staging(work),
        Operation::Gate(_, Gating::Stand(_)) => "stand",
        Operation::Gate(_, Gating::List { .. }) => "list-log",
        Operation::Gate(_, Gating::Freeze { .. }) => "freeze",
        Operation::Gate(_, Gating::Thaw(_)) => "thaw",
        Operation::Watermarks(_) => "watermarks",
        Operation::CloseAccept => "close-accept",
        Operation::OpenAccept => "open-accept",
    }
}

pub(crate) const fn staging(work: &Staging) -> &'static str {
    match work {
        Staging::Copy { .. } => "copy",
        Staging::Checkpoint(_) => "checkpoint",
        Staging::Trim(_) => "trim",
        Staging::Probe { .. } => "probe",
        Staging::Verify(_) => "verify",
        Staging::Install { .. } => "install",
        Staging::Restage(_) => "restage",
        Staging::SetAside(_) => "set-aside",
    }
}

pub(crate) const fn note(note: &Note) -> &'static str {
    match note {
        Note::Mover(_, note) => of_mover(note),
        Note::Handoff(_, note) => of_handoff(note),
        Note::Host(_, note) => match note {
            host::Note::Opened { .. } => "host-opened",
            host::Note::Closed => "host-closed",
            host::Note::Unavailable(_) => "host-unavailable",
        },
        Note::Controller(note) => of_controller(note),
        Note::Lease(note) => of_lease(note),
        Note::Leader(_) => "leader",
        Note::SetAside(..) => "set-aside",
        Note::Retired => "retired",
        Note::Stale(_) => "stale",
    }
}

const fn of_mover(note: &mover::Note) -> &'static str {
    match note {
        mover::Note::Stale(_) => "mover-stale",
        mover::Note::Waiting(_) => "mover-waiting",
        mover::Note::Resumed => "mover-resumed",
        mover::Note::PassEnded { .. } => "mover-pass-ended",
        mover::Note::NotConverged { .. } => "mover-not-converged",
        mover::Note::Dropped { .. } => "mover-dropped",
        mover::Note::ChecksumMismatch { .. } => "mover-checksum-mismatch",
        mover::Note::Frozen { .. } => "mover-frozen",
        mover::Note::Released { .. } => "mover-released",
        mover::Note::CopyUnverifiable(_) => "mover-copy-unverifiable",
        mover::Note::FlipUnknown { .. } => "mover-flip-unknown",
        mover::Note::FlipRejected { .. } => "mover-flip-rejected",
        mover::Note::Resolved { .. } => "mover-resolved",
        mover::Note::Moved { .. } => "mover-moved",
        mover::Note::AlreadyOwner { .. } => "mover-already-owner",
        mover::Note::Cancelled { .. } => "mover-cancelled",
        mover::Note::Gone => "mover-gone",
    }
}

const fn of_handoff(note: &handoff::Note) -> &'static str {
    match note {
        handoff::Note::Frozen { .. } => "handoff-frozen",
        handoff::Note::NotFrozen { .. } => "handoff-not-frozen",
        handoff::Note::Revoking { .. } => "handoff-revoking",
        handoff::Note::RevokeRejected { .. } => "handoff-revoke-rejected",
        handoff::Note::Thawed { .. } => "handoff-thawed",
        handoff::Note::Stale(_) => "handoff-stale",
    }
}

const fn of_controller(note: &controller::Note) -> &'static str {
    match note {
        controller::Note::Silent { .. } => "controller-silent",
        controller::Note::Deaf => "controller-deaf",
        controller::Note::Planned { .. } => "controller-planned",
        controller::Note::TargetGivenUp { .. } => "controller-target-given-up",
        controller::Note::RetireBlocked { .. } => "controller-retire-blocked",
        controller::Note::Configuring(_) => "controller-configuring",
        controller::Note::HandingOver { .. } => "controller-handing-over",
        controller::Note::Outrun(_) => "controller-outrun",
    }
}

const fn of_lease(note: &lease::Note) -> &'static str {
    match note {
        lease::Note::Registered(_) => "lease-registered",
        lease::Note::RegisterRejected(_) => "lease-register-rejected",
        lease::Note::DeclaredDead => "lease-declared-dead",
        lease::Note::NewLife(_) => "lease-new-life",
        lease::Note::DiskFault => "lease-disk-fault",
        lease::Note::Superseded { .. } => "lease-superseded",
        lease::Note::Leased => "lease-leased",
        lease::Note::Stale(_) => "lease-stale",
    }
}

pub(crate) const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Locate => "locate",
        Phase::Resolve => "resolve",
        Phase::CatchUp => "catch-up",
        Phase::Prepare => "prepare",
        Phase::Drain => "drain",
        Phase::Verify => "verify",
        Phase::Install => "install",
        Phase::Flip => "flip",
        Phase::Promote => "promote",
        Phase::Waiting => "waiting",
        Phase::Closing => "closing",
        Phase::Over => "over",
    }
}

/// Returns the partition that a command is about, if it is about one.
pub(crate) const fn partition_of(command: &Command) -> Option<PartitionId> {
    match command {
        Command::AssignPartition { partition, .. }
        | Command::SetTarget { partition, .. }
        | Command::ClearTarget { partition, .. }
        | Command::CompleteMove { partition, .. }
        | Command::Resolve { partition, .. }
        | Command::Revoke { partition, .. }
        | Command::ReclaimReady { partition, .. }
        | Command::SetPin { partition, .. }
        | Command::DeclareLost { partition, .. } => Some(*partition),
        Command::Join { .. }
        | Command::Register { .. }
        | Command::MarkDead { .. }
        | Command::Report { .. }
        | Command::SetDraining { .. }
        | Command::DrainedOut { .. }
        | Command::Retire { .. }
        | Command::CreateTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::SetPolicy(_)
        | Command::RaiseVersion { .. } => None,
    }
}

/// Returns the partition that an operation is about, if it is about one.
pub(crate) fn partition_at(operation: &Operation) -> Option<PartitionId> {
    match operation {
        Operation::Append(entry) => partition_of(&entry.command),
        Operation::Inspect(partition)
        | Operation::Host(partition, _)
        | Operation::Stage(partition, _)
        | Operation::Gate(partition, _) => Some(*partition),
        Operation::Call { request, .. } => match request {
            Request::List { partition, .. }
            | Request::Prepare { partition, .. }
            | Request::Renew { partition, .. }
            | Request::Release { partition, .. } => Some(*partition),
            Request::Propose(entry) => partition_of(&entry.command),
            Request::Heartbeat { .. } | Request::Join { .. } => None,
        },
        Operation::Barrier
        | Operation::Survey
        | Operation::Configure(_)
        | Operation::Transfer { .. }
        | Operation::NextIncarnation
        | Operation::Watermarks(_)
        | Operation::CloseAccept
        | Operation::OpenAccept => None,
    }
}

/// Returns the partition that a note is about, if it is about one.
pub(crate) const fn partition_noted(note: &Note) -> Option<PartitionId> {
    match note {
        Note::Mover(partition, _)
        | Note::Handoff(partition, _)
        | Note::Host(partition, _)
        | Note::SetAside(partition, _) => Some(*partition),
        Note::Controller(_) | Note::Lease(_) | Note::Leader(_) | Note::Retired | Note::Stale(_) => {
            None
        }
    }
}
