//! Slips on the way of records from producers to consumers.

use narad_core::planted::Bug;

use crate::plant::Bias::{
    CutSource, DeadSource, Decommission, DiskErrors, LateAcks, LeaderChanges, LostAnswers,
    OldMessages, PowerLoss, Restarts, SlowDisk, SlowNetwork,
};
use crate::plant::{Plant, Rule};

/// Slips on the way of records from producers to consumers.
pub(super) const DATA: &[Plant] = &[
    Plant {
        bug: Bug::CheckpointPassesOne,
        name: "c45-checkpoint-passes-one",
        rule: Rule::Slip,
        place: "narad-core/src/dispatch/ledger.rs, Ledger::checkpoint",
        removes: "The checkpoint of an ingress log passes the oldest record that has not arrived.",
        noticed_by: &["S1", "S11"],
        hint: "Any node that accepts records.",
        bias: &[],
        net: None,
    },
    Plant {
        bug: Bug::BoundGoesElsewhere,
        name: "c46-bound-goes-elsewhere",
        rule: Rule::Slip,
        place: "narad-core/src/dispatch/answers.rs, Dispatch::refused",
        removes: "A batch whose answer is lost counts as not sent: its records go wherever there \
         is room, and its number to others.",
        noticed_by: &["S11", "S1"],
        hint: "Lose the answer to a batch of records that may go anywhere.",
        bias: &[LostAnswers, CutSource, SlowDisk],
        net: None,
    },
    Plant {
        bug: Bug::ReceiverForgets,
        name: "c47-receiver-forgets",
        rule: Rule::Slip,
        place: "narad-core/src/dispatch/receiver.rs, Receiver::begin",
        removes: "An owner appends a batch again whose answer was lost.",
        noticed_by: &["S11"],
        hint: "Lose the answer to a batch, or deliver it twice.",
        bias: &[LostAnswers, OldMessages, SlowDisk, SlowNetwork],
        net: None,
    },
    Plant {
        bug: Bug::SalvageSkipped,
        name: "c48-salvage-skipped",
        rule: Rule::Slip,
        place: "narad-core/src/node/salvage.rs, Node::salvage",
        removes: "An old owner says that it has accepted once more what a flip did not capture, \
         and has not.",
        noticed_by: &["S1", "L6"],
        hint: "Let the owner of a moving partition die with records that are not copied, and \
         come back after the promotion.",
        bias: &[DeadSource, PowerLoss],
        net: None,
    },
    Plant {
        bug: Bug::ExpiredForgotten,
        name: "c49-expired-forgotten",
        rule: Rule::Slip,
        place: "narad-core/src/cursor/reservations.rs, Reservations::expire",
        removes: "A record that a consumer has not acknowledged in time is never handed out again.",
        noticed_by: &["S11"],
        hint: "Consumers that die over a record.",
        bias: &[LateAcks],
        net: None,
    },
    Plant {
        bug: Bug::AckedAheadHandedOut,
        name: "c50-acked-ahead-handed-out",
        rule: Rule::Slip,
        place: "narad-core/src/cursor/judge.rs, Cursor::next_new",
        removes: "A record that is acknowledged ahead of others is handed out all the same.",
        noticed_by: &["S11"],
        hint: "Move a partition while consumers have acknowledged records ahead of others.",
        bias: &[LateAcks, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::RefusedGoesLast,
        name: "c51-refused-goes-last",
        rule: Rule::Slip,
        place: "narad-core/src/dispatch/lane.rs, Topic::scatter",
        removes: "Records that could not be sent go behind those that were accepted later.",
        noticed_by: &["S11"],
        hint: "Kill the owner of a partition for which records are accepted all the time.",
        bias: &[DeadSource, DiskErrors, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::DrainedOutOfAnyDrain,
        name: "c52-drained-out-of-any-drain",
        rule: Rule::Slip,
        place: "narad-core/src/metastore/apply/members.rs, State::drained_out",
        removes: "What a node said of a decommission that was cancelled since passes for the next \
         one.",
        noticed_by: &["S15"],
        hint: "Hold up the word of a node that has drained, cancel, let it accept, and decommission \
         it again.",
        bias: &[Decommission],
        net: None,
    },
    Plant {
        bug: Bug::AcceptOpensWithTheLife,
        name: "c53-accept-opens-with-the-life",
        rule: Rule::Slip,
        place: "narad-core/src/node/leaving.rs, Node::was_closed",
        removes: "A node that has closed accept and restarts opens it before it is registered.",
        noticed_by: &["S15"],
        hint: "Restart a node while its word that it has drained is on its way into the log.",
        bias: &[Decommission, Restarts],
        net: None,
    },
    Plant {
        bug: Bug::OwnHeartbeatUnasked,
        name: "c54-own-heartbeat-unasked",
        rule: Rule::Slip,
        place: "narad-core/src/node/requests.rs, Node::beat; narad-core/src/lease.rs, Lease::beaten",
        removes: "A node that is told that it leads takes that word over its own, and renews its \
         lease by a barrier of whoever leads, which hears nothing of it.",
        noticed_by: &["S2"],
        hint: "Delay a heartbeat until its sender leads, and the answer until it does no longer.",
        bias: &[LeaderChanges],
        net: None,
    },
];
