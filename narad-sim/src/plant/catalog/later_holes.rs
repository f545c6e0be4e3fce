//! The rules that close the holes H25 to H47.

use narad_core::planted::Bug;

use crate::plant::Bias::{
    CutSource, DeadSource, DeadTarget, DeclaredLost, Decommission, DiskErrors, DuplicateCommands,
    HeavyLoad, LateAcks, LateFlip, LeaderChanges, OldMessages, OperatorMoves, QuietEnd, Restarts,
    SlowApply, SlowDisk, StaleDisk, TightTiming, TopicChurn,
};
use crate::plant::{Plant, Rule};

/// The rules that close the holes H25 to H47.
pub(super) const LATER: &[Plant] = &[
    Plant {
        bug: Bug::ShortLogServed,
        name: "h25-short-log-served",
        rule: Rule::Hole(25),
        place: "narad-core/src/host.rs, Host::opened; narad-core/src/host.rs, Want::birth",
        removes: "An owner opens a log that ends before it should, or makes an empty one where \
         none is.",
        noticed_by: &["S3", "S5"],
        hint: "Put an old disk back, or erase a directory, of a node that got its partition \
         by a move.",
        bias: &[StaleDisk],
        net: None,
    },
    Plant {
        bug: Bug::TopicIdGivenAgain,
        name: "h26-topic-id-given-again",
        rule: Rule::Hole(26),
        place: "narad-core/src/metastore/apply/topics.rs, State::create_topic",
        removes: "A topic that is created after another was deleted gets its id.",
        noticed_by: &["S5", "S10", "S1"],
        hint: "Delete a topic in the middle of a move and create another.",
        bias: &[TopicChurn],
        net: None,
    },
    Plant {
        bug: Bug::AttemptsNotResolved,
        name: "h27-attempts-not-resolved",
        rule: Rule::Hole(27),
        place: "narad-core/src/mover/installed.rs, Installed::found",
        removes: "After a restart an installed directory is used again without asking what \
         became of its attempt.",
        noticed_by: &["S3", "S1"],
        hint: "Hold a flip, restart the destination, and let the flip go once its directory \
         is staging again.",
        bias: &[LateFlip, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::AckWithoutLease,
        name: "h28-ack-without-lease",
        rule: Rule::Hole(28),
        place: "narad-core/src/freeze/gate.rs, Gate::may_ack",
        removes: "A deposed owner takes acknowledgements for as long as it has not heard of it.",
        noticed_by: &["S7"],
        hint: "Cut the old owner off right after the capture and acknowledge there, long \
         after the flip.",
        bias: &[CutSource, LateAcks, SlowApply],
        net: None,
    },
    Plant {
        bug: Bug::StalePlanApplies,
        name: "h29-stale-plan-applies",
        rule: Rule::Hole(29),
        place: "narad-core/src/metastore/apply/moves.rs, State::set_target",
        removes: "A target is set whatever owner, epoch and move the planner had seen.",
        noticed_by: &["S12", "S13", "S14"],
        hint: "Change leaders while plans are on their way, together with operators' moves.",
        bias: &[LeaderChanges, OperatorMoves, DuplicateCommands],
        net: None,
    },
    Plant {
        bug: Bug::SessionOutlivesItsMove,
        name: "h30-session-outlives-its-move",
        rule: Rule::Hole(30),
        place: "narad-core/src/promote.rs, boundary_after_death",
        removes: "A session of an earlier move permits a promotion, although the owner is not in \
         play by it.",
        noticed_by: &["S2", "S1"],
        hint: "List under one move, cancel it, cut the source off, plan the same move again, \
         and let the source be declared dead.",
        bias: &[CutSource, DeadSource, OperatorMoves],
        net: None,
    },
    Plant {
        bug: Bug::LeaderTakenAtItsWord,
        name: "h31-leader-taken-at-its-word",
        rule: Rule::Hole(31),
        place: "narad-core/src/node/requests.rs, Node::heard",
        removes: "A leader answers a heartbeat without a barrier, so that a deposed one goes on \
         renewing leases.",
        noticed_by: &["S2"],
        hint: "Cut the leader and the source off together; a log whose old leader still \
         believes in itself.",
        bias: &[CutSource, DeadSource, TightTiming],
        net: Some(
            "With real Raft a leader that hears no quorum steps down within one election \
         timeout; the abstract log has one that does not.",
        ),
    },
    Plant {
        bug: Bug::DeadGoesOn,
        name: "h32-dead-goes-on",
        rule: Rule::Hole(32),
        place: "narad-core/src/node/requests.rs, Node::may_be_leased; narad-core/src/lease.rs, \
         Lease::look",
        removes: "A node that is dead keeps its life, and is given leases.",
        noticed_by: &["S2", "S6", "S1"],
        hint: "Cut the source for one dead timeout, heal it, and let the destination wait the \
         promotion out.",
        bias: &[CutSource, DeadSource],
        net: None,
    },
    Plant {
        bug: Bug::FloorOutlivesTheReign,
        name: "h33-floor-outlives-the-reign",
        rule: Rule::Hole(33),
        place: "narad-core/src/metastore/assignment.rs, Assignment::crown",
        removes: "The floor of revoked freezes is not reset by a flip, so that the next owner's \
         tokens are below it.",
        noticed_by: &["L1"],
        hint: "A node of many lives revokes a freeze and gives the partition to a young one, \
         which must give it on.",
        bias: &[Restarts, OperatorMoves, DiskErrors],
        net: None,
    },
    Plant {
        bug: Bug::EarlierLifePasses,
        name: "h34-earlier-life-passes",
        rule: Rule::Hole(34),
        place: "narad-core/src/lease.rs, Lease::look",
        removes: "A node takes the row of an earlier life for its own registration, and acts on \
         rows of then.",
        noticed_by: &["L5", "L1", "S2", "S1"],
        hint: "Restart a node that was promoted away from, with its log far behind.",
        bias: &[Restarts, DeadSource, SlowApply],
        net: None,
    },
    Plant {
        bug: Bug::EarlierWinnersForgotten,
        name: "h35-earlier-winners-forgotten",
        rule: Rule::Hole(35),
        place: "narad-core/src/metastore/assignment.rs, Assignment::reign_of",
        removes: "The lineage names only the present winner: a Resolve of an earlier one is told \
         Burned.",
        noticed_by: &["S1", "S10", "S16"],
        hint: "Let a node win, be promoted away from, come back, and be the target again.",
        bias: &[DeadSource, Restarts, OperatorMoves],
        net: None,
    },
    Plant {
        bug: Bug::ReportsEndWithTheLife,
        name: "h36-reports-end-with-the-life",
        rule: Rule::Hole(36),
        place: "narad-core/src/metastore/apply/members.rs, State::register",
        removes: "What an owner has reported is forgotten when it registers its next life.",
        noticed_by: &["S16", "S6", "S5"],
        hint: "Cut the source from the destination, let it report, restart, and die before \
         its next report.",
        bias: &[CutSource, DeadSource, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::DrainedOutUnseen,
        name: "h37-drained-out-unseen",
        rule: Rule::Hole(37),
        place: "narad-core/src/node/leaving.rs, Node::can_leave; \
         narad-core/src/node/leaving.rs, Node::accept_is_closed",
        removes: "A node says that it is drained whatever it has accepted, and whatever residue \
         is on its disk.",
        noticed_by: &["S15", "S1"],
        hint: "Decommission a node whose disk holds what a promotion did not capture, and \
         wipe it.",
        bias: &[Decommission, DeadSource],
        net: None,
    },
    Plant {
        bug: Bug::RetiredVotersCounted,
        name: "h38-retired-voters-counted",
        rule: Rule::Hole(38),
        place: "narad-core/src/metastore/apply/members.rs, State::voters_without",
        removes: "A retirement counts voters that are retired already and only not removed yet.",
        noticed_by: &["S15"],
        hint: "Decommission several voters at once and delay the change of the configuration.",
        bias: &[Decommission],
        net: None,
    },
    Plant {
        bug: Bug::LivingDeclaredLost,
        name: "h39-living-declared-lost",
        rule: Rule::Hole(39),
        place: "narad-core/src/metastore/apply/salvage.rs, State::declare_lost",
        removes: "A partition can be declared lost although its owner is alive.",
        noticed_by: &["S2", "S1"],
        hint: "Declare a partition lost with the number of a death that is over.",
        bias: &[DeclaredLost],
        net: None,
    },
    Plant {
        bug: Bug::BornAnywhere,
        name: "h40-born-anywhere",
        rule: Rule::Hole(40),
        place: "narad-core/src/metastore/apply/topics.rs, State::assign_partition",
        removes: "A partition is born on a node that is dead, draining or retired by now.",
        noticed_by: &["S15", "L3"],
        hint: "Create topics while nodes die and drain.",
        bias: &[TopicChurn, Decommission, DeadTarget],
        net: None,
    },
    Plant {
        bug: Bug::FreezeOfAnyMove,
        name: "h41-freeze-of-any-move",
        rule: Rule::Hole(41),
        place: "narad-core/src/freeze/handoff.rs, Handoff::judge_attempt; \
         narad-core/src/freeze/handoff/hold/held.rs, Held::prepare",
        removes: "A source freezes for a move that its row does not have, and each repeat of a \
         request prolongs the freeze.",
        noticed_by: &["L2", "S8"],
        hint: "Deliver a Prepare of a cancelled move again, minutes later.",
        bias: &[OldMessages, OperatorMoves],
        net: None,
    },
    Plant {
        bug: Bug::AckedStaysHidden,
        name: "h42-acked-stays-hidden",
        rule: Rule::Hole(42),
        place: "narad-core/src/host.rs, Host::opened",
        removes: "An owner that restarts exposes nothing, so that what it acknowledged last \
         stays hidden.",
        noticed_by: &["L5", "S11", "S1"],
        hint: "Kill an owner right after an acknowledgement, then write nothing more.",
        bias: &[Restarts, QuietEnd],
        net: None,
    },
    Plant {
        bug: Bug::CapturedStaysHidden,
        name: "h43-captured-stays-hidden",
        rule: Rule::Hole(43),
        place: "narad-core/src/host.rs, Host::opened",
        removes: "The first owner after a dead one does not expose the tail that it captured.",
        noticed_by: &["L5", "S11", "S1"],
        hint: "Promote a copy whose tail was acknowledged, then write nothing more.",
        bias: &[DeadSource, QuietEnd],
        net: None,
    },
    Plant {
        bug: Bug::AckOfAnyReign,
        name: "h44-ack-of-any-reign",
        rule: Rule::Hole(44),
        place: "narad-core/src/freeze/gate.rs, Gate::may_ack; narad-core/src/cursor/judge.rs, \
         Cursor::end_of",
        removes: "An acknowledgement is taken whichever reign its record was read in.",
        noticed_by: &["S5", "S7", "S11"],
        hint: "Acknowledge at the new owner, with the old epoch, an offset past the end of \
         the promoted log.",
        bias: &[DeadSource, LateAcks, HeavyLoad],
        net: None,
    },
    Plant {
        bug: Bug::ListedBeforeInPlay,
        name: "h45-listed-before-in-play",
        rule: Rule::Hole(45),
        place: "narad-core/src/freeze/handoff.rs, Handoff::settle",
        removes: "A listing is answered before the gate has noted that the partition is in play.",
        noticed_by: &["S2"],
        hint: "Delay the gate's standing at the source, list, and cut it off.",
        bias: &[CutSource, DeadSource, SlowDisk],
        net: Some(
            "That a passed move is not listed for is no switch: the move id in the flip \
         (h05) makes such a session harmless.",
        ),
    },
    Plant {
        bug: Bug::TargetOfDeadOwnerCleared,
        name: "h46-target-of-dead-owner-cleared",
        rule: Rule::Hole(46),
        place: "narad-core/src/controller/moves.rs, Controller::give_up_targets",
        removes: "A target that drains or is dead is given up although its copy is the only way \
         back.",
        noticed_by: &["L1", "S6"],
        hint: "Kill owner and target, let the target come back late; or drain the target of a \
         dead owner.",
        bias: &[DeadSource, DeadTarget, Decommission],
        net: None,
    },
    Plant {
        bug: Bug::MoveOutlivesItsTopic,
        name: "h47-move-outlives-its-topic",
        rule: Rule::Hole(47),
        place: "narad-core/src/mover/settle.rs, decide",
        removes: "A move whose topic was deleted is tried again for ever.",
        noticed_by: &["L1", "L3"],
        hint: "Delete a topic in the middle of a move, then decommission the destination.",
        bias: &[TopicChurn, Decommission],
        net: None,
    },
];
