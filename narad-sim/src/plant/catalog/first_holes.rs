//! The rules that close the holes H1 to H24.

use narad_core::planted::Bug;

use crate::plant::Bias::{
    CutSource, DeadSource, DeadTarget, Decommission, DiskErrors, DuplicateCommands, GarbledCopies,
    HeavyLoad, LateAcks, LateFlip, LostAnswers, OperatorMoves, PowerLoss, Restarts, SlowApply,
    SlowCopy, SlowDisk, TightTiming,
};
use crate::plant::{Plant, Rule};

/// The rules that close the holes H1 to H24.
pub(super) const FIRST: &[Plant] = &[
    Plant {
        bug: Bug::FreezeEndsByClock,
        name: "h01-freeze-ends-by-clock",
        rule: Rule::Hole(1),
        place: "narad-core/src/freeze/handoff/hold.rs, Hold::wake",
        removes: "A freeze whose time is up is thawed at once; it must wait for its Revoke in \
         the log.",
        noticed_by: &["S8", "S9", "S2", "S1"],
        hint: "Hold the first flip for longer than the freeze may last without progress, then \
         let it go while producers write to the source.",
        bias: &[LateFlip],
        net: None,
    },
    Plant {
        bug: Bug::UnknownCountsAsFailed,
        name: "h02-unknown-counts-as-failed",
        rule: Rule::Hole(2),
        place: "narad-core/src/mover/installed.rs, Installed::flipped; \
         narad-core/src/mover/flip.rs, Flipping::unknown",
        removes: "A flip whose outcome is unknown is taken for one that lost: its directory \
         becomes staging again.",
        noticed_by: &["S3", "S1"],
        hint: "Lose the answer of a flip, or hold the flip past the request timeout, and let \
         it commit afterwards.",
        bias: &[LateFlip, LostAnswers],
        net: None,
    },
    Plant {
        bug: Bug::WinnerRefusedTwice,
        name: "h03-winner-refused-twice",
        rule: Rule::Hole(3),
        place: "narad-core/src/metastore/apply/moves.rs, State::complete_move",
        removes: "The second copy of a flip that won is refused; it must be told that it won.",
        noticed_by: &["S8"],
        hint: "Propose a flip again, byte for byte, after it was applied: every reply to a \
         known winner must be Won.",
        bias: &[LostAnswers, DuplicateCommands],
        net: Some(
            "The destination sees its win in its own row before any refusal arrives, and \
         directories bear the attempt's name; only a look at the reply itself tells.",
        ),
    },
    Plant {
        bug: Bug::BurnedAttemptWins,
        name: "h04-burned-attempt-wins",
        rule: Rule::Hole(4),
        place: "narad-core/src/metastore/apply/moves.rs, State::complete_move",
        removes: "A flip of an attempt that a Resolve has burned is still accepted.",
        noticed_by: &["S3", "S1", "S10"],
        hint: "Hold the flip of one life of the destination, restart it, let its Resolve \
         commit, then let the flip go before the source's Revoke is applied.",
        bias: &[LateFlip, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::FlipOfAnyMove,
        name: "h05-flip-of-any-move",
        rule: Rule::Hole(5),
        place: "narad-core/src/metastore/apply/moves.rs, State::complete_move",
        removes: "A flip is compared with owner, epoch and target only, no longer with the move \
         id.",
        noticed_by: &["S8", "S9", "S1", "S2"],
        hint: "Hold a flip, abort the move, plan it again to the same node, let producers \
         write, then let the old flip go.",
        bias: &[LateFlip, OperatorMoves],
        net: None,
    },
    Plant {
        bug: Bug::FreezeOutlivesItsLife,
        name: "h06-freeze-outlives-its-life",
        rule: Rule::Hole(6),
        place: "narad-core/src/metastore/apply/moves.rs, State::check_fence",
        removes: "A token of an earlier life of the source fences a flip, although the freeze \
         ended with that life.",
        noticed_by: &["S8", "S9", "S1", "S2"],
        hint: "Hold a flip, restart the frozen source, let it commit records, then let the \
         flip go.",
        bias: &[LateFlip, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::FreezeOverAppend,
        name: "h07-freeze-over-append",
        rule: Rule::Hole(7),
        place: "narad-core/src/freeze/gate.rs, Gate::command",
        removes: "A freeze takes hold although an append is under way, which is then \
         acknowledged behind the capture.",
        noticed_by: &["S8", "S9", "S1"],
        hint: "Slow syncs at the source while a move prepares under load.",
        bias: &[SlowDisk, HeavyLoad],
        net: None,
    },
    Plant {
        bug: Bug::LeaseBeforeBarrier,
        name: "h08-lease-before-barrier",
        rule: Rule::Hole(8),
        place: "narad-core/src/lease.rs, Lease::count",
        removes: "A heartbeat's answer renews the lease before the index that came with it is \
         applied here.",
        noticed_by: &["S7", "S2"],
        hint: "Let the old owner apply nothing after the capture while its heartbeats are \
         answered, and acknowledge there long after the flip.",
        bias: &[SlowApply, LateAcks],
        net: Some(
            "A normal flip needs this source's freeze and a dead node is given no lease, so \
         that it writes nothing: what breaks is the bound on acknowledgements at the \
         old owner.",
        ),
    },
    Plant {
        bug: Bug::CommitsWithoutLease,
        name: "h09-commits-without-lease",
        rule: Rule::Hole(9),
        place: "narad-core/src/freeze/gate.rs, Gate::serving",
        removes: "An owner whose lease has run out goes on committing in what is in play.",
        noticed_by: &["S2", "S1"],
        hint: "Cut the source from all voters but not from its producers, until its partition \
         is promoted.",
        bias: &[CutSource, DeadSource],
        net: None,
    },
    Plant {
        bug: Bug::ForcedOffTheLiving,
        name: "h10-forced-off-the-living",
        rule: Rule::Hole(10),
        place: "narad-core/src/metastore/apply/moves.rs, State::check_fence",
        removes: "A forced flip is accepted although its source is alive by now.",
        noticed_by: &["S6", "S2"],
        hint: "Hold a forced flip, let the source register again, then let the flip go.",
        bias: &[DeadSource, LateFlip],
        net: None,
    },
    Plant {
        bug: Bug::AnyDeathCounts,
        name: "h11-any-death-counts",
        rule: Rule::Hole(11),
        place: "narad-core/src/metastore/apply/moves.rs, State::check_fence",
        removes: "A forced flip is accepted under any death of its source, not only the one that \
         it names.",
        noticed_by: &["S6", "S2"],
        hint: "Hold a forced flip of the first death; let the source live, commit and report; \
         let it die again; then let the flip go.",
        bias: &[DeadSource, LateFlip, Restarts],
        net: Some(
            "What was reported in between refuses a copy that is behind; the number of the \
         death is asked by nobody else.",
        ),
    },
    Plant {
        bug: Bug::NothingReported,
        name: "h12-nothing-reported",
        rule: Rule::Hole(12),
        place: "narad-core/src/node/reports.rs, Node::plan_reports",
        removes: "An owner never tells the log how far consumers see in what moves away.",
        noticed_by: &["S6", "S5"],
        hint: "Cut only the link between source and destination while producers go on; then \
         kill the source for good.",
        bias: &[CutSource, DeadSource, HeavyLoad],
        net: None,
    },
    Plant {
        bug: Bug::LowerListingTaken,
        name: "h13-lower-listing-taken",
        rule: Rule::Hole(13),
        place: "narad-core/src/mover/stage.rs, Stage::adopt; \
                narad-core/src/mover/stage.rs, Stage::begin",
        removes: "The manifest remembers the newest listing's watermark, also where an earlier \
         one was higher.",
        noticed_by: &["S6", "S5"],
        hint: "Let a checkpoint fail after a listing, so that the manifest goes back to an earlier one, \
               then kill the source for good.",
        bias: &[DiskErrors, DeadSource],
        net: None,
    },
    Plant {
        bug: Bug::ResidueCountsAsDead,
        name: "h14-residue-counts-as-dead",
        rule: Rule::Hole(14),
        place: "narad-core/src/metastore/apply/salvage.rs, State::verdict",
        removes: "What a forced flip left on the old owner's disk may be set aside like any lost \
         attempt.",
        noticed_by: &["S1", "S10"],
        hint: "Kill an owner with records that nobody copied, promote its partition, then \
         bring the disk back.",
        bias: &[DeadSource, HeavyLoad],
        net: None,
    },
    Plant {
        bug: Bug::PositionNotClamped,
        name: "h15-position-not-clamped",
        rule: Rule::Hole(15),
        place: "narad-core/src/promote.rs, clamped; narad-core/src/cursor.rs, Cursor::resume; \
         narad-core/src/cursor/lineage.rs, Lineage::clamped",
        removes: "A position of an earlier reign is kept, also past the beginning of the next \
         one.",
        noticed_by: &["S7", "S11"],
        hint: "Promote a copy that ends before what a consumer has read, then write on: the \
         consumer must read the new records at the old offsets.",
        bias: &[DeadSource, HeavyLoad, LateAcks],
        net: Some(
            "The fold refuses a flip whose position is past its watermark, so only a reader \
         that comes back with its old place shows it, or a position that a disk has kept.",
        ),
    },
    Plant {
        bug: Bug::VerifiedByReachAlone,
        name: "h16-verified-by-reach-alone",
        rule: Rule::Hole(16),
        place: "narad-core/src/promote.rs, after_freeze; narad-core/src/mover/copy.rs, \
         CopyRun::copied; narad-core/src/mover/stage.rs, Stage::adopt",
        removes: "Neither an extent nor the whole of a drained copy is compared with what the \
         source has: reaching the watermark will do.",
        noticed_by: &["S8", "S5", "S1"],
        hint: "Garble the bytes of a copy on their way.",
        bias: &[GarbledCopies],
        net: None,
    },
    Plant {
        bug: Bug::CopyNotSynced,
        name: "h17-copy-not-synced",
        rule: Rule::Hole(17),
        place: "narad-runtime/src/store/staging.rs, Unsynced::sync",
        removes: "Neither a checkpoint nor an installation syncs the bytes of a copy.",
        noticed_by: &["S1", "S3", "S8"],
        hint: "Power loss at the destination shortly after its flip.",
        bias: &[PowerLoss],
        net: None,
    },
    Plant {
        bug: Bug::DirectorySharedByAttempts,
        name: "h18-directory-shared-by-attempts",
        rule: Rule::Hole(18),
        place: "narad-runtime/src/store/layout.rs, log_dir",
        removes: "The directory of an attempt is named by its move alone, so that one attempt's \
         may be another's.",
        noticed_by: &["S3", "S10", "S1"],
        hint: "Any move; at the latest one whose destination restarts between installing and \
         the flip.",
        bias: &[Restarts, LateFlip],
        net: None,
    },
    Plant {
        bug: Bug::DeathCountedFromTheFirst,
        name: "h19-death-counted-from-the-first",
        rule: Rule::Hole(19),
        place: "narad-core/src/node/sources.rs, Node::member_changed",
        removes: "A destination counts how long its source has been dead from an earlier death \
         on.",
        noticed_by: &["S6", "S2"],
        hint: "Let the source die twice, the second time soon after it came back, with a \
         policy whose dead timeout is shorter than its lease.",
        bias: &[DeadSource, TightTiming, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::FreezesWithoutDuty,
        name: "h20-freezes-without-duty",
        rule: Rule::Hole(20),
        place: "narad-core/src/freeze/duty.rs, Duty::allows",
        removes: "A source freezes again at once, however much of the time it has been frozen.",
        noticed_by: &["L2"],
        hint: "A destination whose disk fails at every installation.",
        bias: &[SlowCopy, DiskErrors],
        net: None,
    },
    Plant {
        bug: Bug::FreezeEndedByAnyToken,
        name: "h21-freeze-ended-by-any-token",
        rule: Rule::Hole(21),
        place: "narad-core/src/freeze/gate.rs, Gate::command; \
         narad-core/src/freeze/handoff/hold/held.rs, Held::is",
        removes: "A thaw, a renewal or a release of one freeze acts upon whichever is held.",
        noticed_by: &["S9", "S8", "L2"],
        hint: "Delay the thaw and the release of a given-up attempt until the next one is \
         frozen.",
        bias: &[SlowCopy, OperatorMoves],
        net: Some(
            "A release only leads to a Revoke, which the log puts in order: what breaks is \
         a late thaw, or the liveness of the next freeze.",
        ),
    },
    Plant {
        bug: Bug::ProgressNotCounted,
        name: "h22-progress-not-counted",
        rule: Rule::Hole(22),
        place: "narad-core/src/freeze/handoff/hold/held.rs, Held::renew",
        removes: "A freeze ends after its first time to live, however much of the tail has been \
         copied.",
        noticed_by: &["L1", "L2"],
        hint: "Write faster than the copy, over a slow link, so that the tail takes longer \
         than one time to live.",
        bias: &[SlowCopy, HeavyLoad],
        net: None,
    },
    Plant {
        bug: Bug::WholeTopicFreezes,
        name: "h23-whole-topic-freezes",
        rule: Rule::Hole(23),
        place: "narad-core/src/metastore/apply/moves.rs, State::is_topic_busy; \
         narad-core/src/node/requests.rs, Node::too_many_frozen",
        removes: "Any number of partitions of one topic may move, and freeze, at once.",
        noticed_by: &["S14"],
        hint: "Operators move all partitions of one topic off one node at the same time.",
        bias: &[OperatorMoves, SlowCopy],
        net: Some(
            "The planner keeps at most half of a topic in flight: only an operator's moves \
         go past it.",
        ),
    },
    Plant {
        bug: Bug::TargetRetires,
        name: "h24-target-retires",
        rule: Rule::Hole(24),
        place: "narad-core/src/metastore/apply/members.rs, State::holds_nothing",
        removes: "A node may say that it is drained, and retire, while it is the target of a \
         move.",
        noticed_by: &["S15"],
        hint: "A draining node that is a target dies and is retired by an operator's receipt.",
        bias: &[Decommission, DeadTarget],
        net: Some(
            "Node and controller ask the same before they propose, and a flip of a retired \
         node is refused: an operator's retirement shows it.",
        ),
    },
];
