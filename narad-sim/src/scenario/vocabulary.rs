//! What events of the protocol are called: in scenarios, in traces and in reports.

mod about;

use narad_core::controller::preflight::Blocker;
use narad_core::metastore::{Command, Reason};
use narad_core::node::{Gating, Note, Operation, Shipping, Staging};
use narad_core::{controller, dispatch, freeze, host, lease, mover, peer};

pub(super) use self::about::ABOUT;
use super::step::Stage;

/// Makes a list of names, and a function that gives one of them to each variant.
macro_rules! names {
    ($(#[doc = $list_doc:literal])+ $list:ident;
     $(#[doc = $doc:literal])+ $function:ident($of:ident: &$ty:ty);
     $($pattern:pat => $name:literal,)+
     $(; $($other:pat => $elsewhere:expr,)+)?) => {
        $(#[doc = $list_doc])+
        pub const $list: &[&str] = &[$($name),+];

        $(#[doc = $doc])+
        #[must_use]
        pub const fn $function($of: &$ty) -> &'static str {
            match $of {
                $($pattern => $name,)+
                $($($other => $elsewhere,)+)?
            }
        }
    };
}

names! {
    /// Proposals: commands of the replicated log.
    PROPOSALS;
    /// Returns what a command is called.
    command_name(command: &Command);
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

names! {
    /// Questions of one node to another.
    CALLS;
    /// Returns what a question is called.
    call_name(request: &peer::Request);
    peer::Request::Heartbeat { .. } => "heartbeat",
    peer::Request::Propose(_) => "propose",
    peer::Request::Join { .. } => "join",
    peer::Request::List { .. } => "list",
    peer::Request::Prepare { .. } => "prepare",
    peer::Request::Renew { .. } => "renew",
    peer::Request::Release { .. } => "release",
    peer::Request::TakeAcks { .. } => "take-acks",
}

names! {
    /// Works of one node, on its log or its disk.
    OPERATIONS;
    /// Returns what a work is called: a proposal by its command, whether it is appended here or
    /// sent to the leader, and a question to another node by the question.
    operation_name(operation: &Operation);
    Operation::Barrier => "barrier",
    Operation::Survey => "survey",
    Operation::Configure(_) => "configure",
    Operation::Transfer { .. } => "transfer",
    Operation::NextIncarnation => "next-incarnation",
    Operation::Inspect(_) => "inspect",
    Operation::Host(_, host::Operation::Open { .. }) => "open",
    Operation::Host(_, host::Operation::Expose { .. }) => "expose",
    Operation::Host(_, host::Operation::Close) => "close",
    Operation::Stage(_, Staging::Copy { .. }) => "copy",
    Operation::Stage(_, Staging::Checkpoint(_)) => "checkpoint",
    Operation::Stage(_, Staging::Trim(_)) => "trim",
    Operation::Stage(_, Staging::Probe { .. }) => "probe",
    Operation::Stage(_, Staging::Verify(_)) => "verify",
    Operation::Stage(_, Staging::Install { .. }) => "install",
    Operation::Stage(_, Staging::Restage(_)) => "restage",
    Operation::Stage(_, Staging::SetAside(_)) => "set-aside",
    Operation::Gate(_, Gating::Stand(_)) => "stand",
    Operation::Gate(_, Gating::List { .. }) => "list-own",
    Operation::Gate(_, Gating::Freeze { .. }) => "freeze",
    Operation::Gate(_, Gating::Thaw(_)) => "thaw",
    Operation::Gate(_, Gating::Resume(_)) => "resume-consumers",
    Operation::Gate(_, Gating::HandOver { .. }) => "hand-over",
    Operation::Gate(_, Gating::Take(_)) => "count-acks",
    Operation::Watermarks(_) => "watermarks",
    Operation::Ship(Shipping::Send { .. }) => "deliver",
    Operation::Ship(Shipping::Checkpoint(_)) => "ingress-checkpoint",
    Operation::Ship(Shipping::Carry(_)) => "carry",
    Operation::Ship(Shipping::Salvage { .. }) => "salvage",
    Operation::CloseAccept => "close-accept",
    Operation::OpenAccept => "open-accept",
    ;
    Operation::Append(entry) => command_name(&entry.command),
    Operation::Call { request: peer::Request::Propose(entry), .. } => {
        command_name(&entry.command)
    },
    Operation::Call { request, .. } => call_name(request),
}

names! {
    /// Notes of a node.
    NOTES;
    /// Returns what a note is called.
    note_name(note: &Note);
    Note::Mover(_, mover::Note::Stale(_)) => "mover-stale",
    Note::Mover(_, mover::Note::Waiting(_)) => "mover-waiting",
    Note::Mover(_, mover::Note::Resumed) => "mover-resumed",
    Note::Mover(_, mover::Note::PassEnded { .. }) => "mover-pass-ended",
    Note::Mover(_, mover::Note::NotConverged { .. }) => "mover-not-converged",
    Note::Mover(_, mover::Note::Dropped { .. }) => "mover-dropped",
    Note::Mover(_, mover::Note::ChecksumMismatch { .. }) => "mover-checksum-mismatch",
    Note::Mover(_, mover::Note::Cutover { .. }) => "mover-cutover",
    Note::Mover(_, mover::Note::Frozen { .. }) => "mover-frozen",
    Note::Mover(_, mover::Note::Released { .. }) => "mover-released",
    Note::Mover(_, mover::Note::CopyUnverifiable(_)) => "mover-copy-unverifiable",
    Note::Mover(_, mover::Note::FlipUnknown { .. }) => "mover-flip-unknown",
    Note::Mover(_, mover::Note::FlipRejected { .. }) => "mover-flip-rejected",
    Note::Mover(_, mover::Note::Resolved { .. }) => "mover-resolved",
    Note::Mover(_, mover::Note::Moved { .. }) => "mover-moved",
    Note::Mover(_, mover::Note::AlreadyOwner { .. }) => "mover-already-owner",
    Note::Mover(_, mover::Note::Cancelled { .. }) => "mover-cancelled",
    Note::Mover(_, mover::Note::Gone) => "mover-gone",
    Note::Handoff(_, freeze::handoff::Note::Frozen { .. }) => "handoff-frozen",
    Note::Handoff(_, freeze::handoff::Note::NotFrozen { .. }) => "handoff-not-frozen",
    Note::Handoff(_, freeze::handoff::Note::Revoking { .. }) => "handoff-revoking",
    Note::Handoff(_, freeze::handoff::Note::RevokeRejected { .. }) => "handoff-revoke-rejected",
    Note::Handoff(_, freeze::handoff::Note::Thawed { .. }) => "handoff-thawed",
    Note::Handoff(_, freeze::handoff::Note::Stale(_)) => "handoff-stale",
    Note::Host(_, host::Note::Opened { .. }) => "host-opened",
    Note::Host(_, host::Note::Closed) => "host-closed",
    Note::Host(_, host::Note::Unavailable(_)) => "host-unavailable",
    Note::Controller(controller::Note::Silent { .. }) => "controller-silent",
    Note::Controller(controller::Note::Deaf) => "controller-deaf",
    Note::Controller(controller::Note::Planned { .. }) => "controller-planned",
    Note::Controller(controller::Note::TargetGivenUp { .. }) => "controller-target-given-up",
    Note::Controller(controller::Note::RetireBlocked { .. }) => "controller-retire-blocked",
    Note::Controller(controller::Note::Configuring(_)) => "controller-configuring",
    Note::Controller(controller::Note::HandingOver { .. }) => "controller-handing-over",
    Note::Controller(controller::Note::Outrun(_)) => "controller-outrun",
    Note::Lease(lease::Note::Registered(_)) => "lease-registered",
    Note::Lease(lease::Note::RegisterRejected(_)) => "lease-register-rejected",
    Note::Lease(lease::Note::DeclaredDead) => "lease-declared-dead",
    Note::Lease(lease::Note::NewLife(_)) => "lease-new-life",
    Note::Lease(lease::Note::DiskFault) => "lease-disk-fault",
    Note::Lease(lease::Note::Superseded { .. }) => "lease-superseded",
    Note::Lease(lease::Note::Leased) => "lease-leased",
    Note::Lease(lease::Note::Stale(_)) => "lease-stale",
    Note::Dispatch(dispatch::Note::Held { .. }) => "dispatch-held",
    Note::Dispatch(dispatch::Note::Resumed(_)) => "dispatch-resumed",
    Note::Dispatch(dispatch::Note::Rerouted { .. }) => "dispatch-rerouted",
    Note::Dispatch(dispatch::Note::Dropped { .. }) => "dispatch-dropped",
    Note::Dispatch(dispatch::Note::Carried { .. }) => "dispatch-carried",
    Note::Dispatch(dispatch::Note::Damaged { .. }) => "dispatch-damaged",
    Note::Dispatch(dispatch::Note::LogFault) => "dispatch-log-fault",
    Note::Dispatch(dispatch::Note::Stale(_)) => "dispatch-stale",
    Note::Salvaged { .. } => "salvaged",
    Note::AcksForwarded { .. } => "acks-forwarded",
    Note::Leader(_) => "leader",
    Note::SetAside(..) => "set-aside",
    Note::Retired => "retired",
    Note::Stale(_) => "stale",
}

names! {
    /// Phases of a move.
    PHASES;
    /// Returns what a phase is called.
    phase_name(phase: &mover::Phase);
    mover::Phase::Locate => "locate",
    mover::Phase::Resolve => "resolve",
    mover::Phase::CatchUp => "catch-up",
    mover::Phase::Prepare => "prepare",
    mover::Phase::Drain => "drain",
    mover::Phase::Verify => "verify",
    mover::Phase::Install => "install",
    mover::Phase::Flip => "flip",
    mover::Phase::Promote => "promote",
    mover::Phase::Waiting => "waiting",
    mover::Phase::Closing => "closing",
    mover::Phase::Over => "over",
}

names! {
    /// Reasons for which a move waits.
    WAITING;
    /// Returns what a reason to wait is called.
    waiting_name(waiting: &mover::Waiting);
    mover::Waiting::SourceUnreachable => "source-unreachable",
    mover::Waiting::SourceRefuses(_) => "source-refuses",
    mover::Waiting::SourceMalformed => "source-malformed",
    mover::Waiting::SourceRestarted => "source-restarted",
    mover::Waiting::SourceDead => "source-dead",
    mover::Waiting::PromoteRefused(_) => "promote-refused",
    mover::Waiting::Damaged { .. } => "damaged",
    mover::Waiting::FreezeDuty => "freeze-duty",
    mover::Waiting::FreezeMax => "freeze-max",
    mover::Waiting::LeaderUnreachable => "leader-unreachable",
    mover::Waiting::DiskFull => "disk-full",
    mover::Waiting::Disk => "disk",
    mover::Waiting::CopyUnverifiable => "copy-unverifiable",
    mover::Waiting::FlipRejected(_) => "flip-rejected",
}

names! {
    /// Reasons for which the state machine refuses a command.
    REASONS;
    /// Returns what a reason is called.
    reason_name(reason: &Reason);
    Reason::Gone => "gone",
    Reason::UnknownMember => "unknown-member",
    Reason::UnknownTopic => "unknown-topic",
    Reason::NotYours => "not-yours",
    Reason::OwnerChanged => "owner-changed",
    Reason::EpochChanged => "epoch-changed",
    Reason::MoveChanged => "move-changed",
    Reason::NotTarget => "not-target",
    Reason::AttemptBurned => "attempt-burned",
    Reason::TokenRevoked => "token-revoked",
    Reason::TokenStale => "token-stale",
    Reason::NotDead => "not-dead",
    Reason::CopyBehind => "copy-behind",
    Reason::Forgotten => "forgotten",
    Reason::NotOwner => "not-owner",
    Reason::NodeDead => "node-dead",
    Reason::NodeDraining => "node-draining",
    Reason::NodeRetired => "node-retired",
    Reason::NodeUnregistered => "node-unregistered",
    Reason::AlreadyThere => "already-there",
    Reason::TopicBusy => "topic-busy",
    Reason::AlreadyAssigned => "already-assigned",
    Reason::NameTaken => "name-taken",
    Reason::WrongStore => "wrong-store",
    Reason::StaleIncarnation => "stale-incarnation",
    Reason::NotDraining => "not-draining",
    Reason::NotDrainedOut => "not-drained-out",
    Reason::OwnsPartitions => "owns-partitions",
    Reason::IsTarget => "is-target",
    Reason::BelowMinVoters => "below-min-voters",
    Reason::NoHealthyMajority => "no-healthy-majority",
    Reason::NeedsReceipt => "needs-receipt",
    Reason::OutOfRange => "out-of-range",
    Reason::UnsafeTiming => "unsafe-timing",
}

names! {
    /// Reasons for which a decommission is refused before it begins.
    BLOCKERS;
    /// Returns what such a reason is called.
    blocker_name(blocker: &Blocker);
    Blocker::UnknownMember => "unknown-member",
    Blocker::Retired => "retired",
    Blocker::BelowMinVoters { .. } => "below-min-voters",
    Blocker::NoHealthyMajority { .. } => "no-healthy-majority",
    Blocker::NoReceivers { .. } => "no-receivers",
    Blocker::OwnerDead { .. } => "owner-dead",
    Blocker::Pinned { .. } => "pinned",
}

/// An append of records by the owner: its effect is the admission at the gate, it is performed when
/// the records are durable, and done when it has been checked again and acknowledged.
pub const COMMIT: &str = "commit";

/// An acceptance of records by any node: its effect is that records are to be written to the ingress
/// log, it is performed when they are durable, and done when the node knows and its producers were
/// answered.
pub const ACCEPT: &str = "accept";

/// The answers to questions of one node to another.
pub const ANSWERS: &[&str] = &[
    "heartbeat-answer",
    "propose-answer",
    "join-answer",
    "list-answer",
    "prepare-answer",
    "renew-answer",
    "release-answer",
    "take-acks-answer",
];

/// Accepted records on their way to the owner of their partition, as messages.
pub const DELIVERIES: &[&str] = &["deliver", "deliver-answer"];

/// The bulk copy, as messages.
pub const COPIES: &[&str] = &["copy", "copy-answer"];

/// Messages of Raft.
pub const RAFT: &[&str] = &[
    "raft-append",
    "raft-append-answer",
    "raft-heartbeat",
    "raft-heartbeat-answer",
    "raft-vote",
    "raft-vote-answer",
    "raft-prevote",
    "raft-prevote-answer",
    "raft-snapshot",
    "raft-read-index",
    "raft-read-index-answer",
    "raft-transfer",
    "raft-other",
];

/// Messages between clients and nodes.
pub const CLIENTS: &[&str] = &[
    "accept",
    "accept-answer",
    "produce",
    "produce-answer",
    "fetch",
    "fetch-answer",
    "ack",
    "ack-answer",
    "nack",
    "nack-answer",
    "extend",
    "extend-answer",
];

/// The two ends of a freeze.
pub const FREEZES: &[&str] = &["begin", "end"];

/// Returns the lists of names that a stage knows, each with a word for it.
#[must_use]
pub const fn names_of(stage: Stage) -> &'static [(&'static str, &'static [&'static str])] {
    match stage {
        Stage::Effect | Stage::Performed | Stage::Done => &[
            ("proposals", PROPOSALS),
            ("questions to another node", CALLS),
            ("works of a node", OPERATIONS),
            ("an append of records", &[COMMIT]),
            ("an acceptance of records", &[ACCEPT]),
        ],
        Stage::Send | Stage::Deliver => &[
            ("questions to another node", CALLS),
            ("their answers", ANSWERS),
            ("the proposal that a `propose` carries", PROPOSALS),
            ("the bulk copy", COPIES),
            ("Raft", RAFT),
            ("accepted records", DELIVERIES),
            ("clients", CLIENTS),
        ],
        Stage::Applied | Stage::Committed => &[("proposals", PROPOSALS)],
        Stage::Note => &[("notes", NOTES)],
        Stage::Phase => &[("phases of a move", PHASES)],
        Stage::Freeze => &[("ends of a freeze", FREEZES)],
    }
}
