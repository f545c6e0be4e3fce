//! Mistakes that can be put into the machines on purpose, to show that a test bed would notice.
//!
//! Every [`Bug`] is a switch at one rule: while it is planted, that rule is left out, and nothing
//! else is different. A simulator plants one, runs, and must find a broken invariant; a bug that it
//! does not find is a hole in the simulator.
//!
//! Only builds with the feature `planted-bugs` can plant anything. In all others [`is_planted`] is
//! the constant `false`, and the compiler leaves nothing of the switches.
//!
//! # Example
//!
//! One bug at a time, for the whole process:
//!
//! ```
//! # #[cfg(feature = "planted-bugs")] {
//! use narad_core::planted::{Bug, is_planted, plant};
//!
//! plant(Some(Bug::FreezeEndsByClock));
//! assert!(is_planted(Bug::FreezeEndsByClock) && !is_planted(Bug::EpochNotBumped));
//! plant(None);
//! assert!(Bug::ALL.iter().all(|bug| !is_planted(*bug)));
//! # }
//! ```

#[cfg(feature = "planted-bugs")]
use core::sync::atomic::{AtomicU8, Ordering};

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A mistake that can be planted.
        ///
        /// Named after what is wrong while it is there. Those of the first part each take out the
        /// rule that closes one hole of the protocol; the others are slips of a programmer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            /// All of them, in their order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

bugs! {
    /// H1: a freeze ends when its time is up, without a word to the log.
    FreezeEndsByClock,
    /// H2: a flip of unknown outcome counts as failed.
    UnknownCountsAsFailed,
    /// H3: the second copy of a flip that won is refused.
    WinnerRefusedTwice,
    /// H4: an attempt that was burned may still win.
    BurnedAttemptWins,
    /// H5: a flip is not asked which move it belongs to.
    FlipOfAnyMove,
    /// H6: a freeze of an earlier life of the source still carries a flip.
    FreezeOutlivesItsLife,
    /// H7: a freeze does not wait for the append under way.
    FreezeOverAppend,
    /// H8: a lease counts before its barrier is applied.
    LeaseBeforeBarrier,
    /// H9: an owner in play commits without a lease.
    CommitsWithoutLease,
    /// H10: a forced flip is not asked whether the source is dead.
    ForcedOffTheLiving,
    /// H11: any death of the source carries a forced flip.
    AnyDeathCounts,
    /// H12: an owner does not report how far consumers see.
    NothingReported,
    /// H13: the manifest takes the newest listing's watermark, also a lower one.
    LowerListingTaken,
    /// H14: the residue of a forced flip counts as dead.
    ResidueCountsAsDead,
    /// H15: a position is not cut to what the promoted log has.
    PositionNotClamped,
    /// H16: a copy that reaches the watermark counts as verified, whatever its bytes are.
    VerifiedByReachAlone,
    /// H17: the bytes of a copy are not synced.
    CopyNotSynced,
    /// H18: all attempts of one move share a directory.
    DirectorySharedByAttempts,
    /// H19: how long a source has been dead is counted from an earlier death.
    DeathCountedFromTheFirst,
    /// H20: a source freezes however often it is asked to.
    FreezesWithoutDuty,
    /// H21: a freeze is ended by the thaw or release of any other.
    FreezeEndedByAnyToken,
    /// H22: progress of the copy does not prolong a freeze.
    ProgressNotCounted,
    /// H23: every partition of a topic may freeze at once.
    WholeTopicFreezes,
    /// H24: a node retires while partitions are on their way to it.
    TargetRetires,
    /// H25: an owner makes do with a log that is missing or too short.
    ShortLogServed,
    /// H26: the id of a deleted topic is given again.
    TopicIdGivenAgain,
    /// H27: after a restart nothing is asked about the attempts on the disk.
    AttemptsNotResolved,
    /// H28: a deposed owner takes acknowledgements for as long as it does not know.
    AckWithoutLease,
    /// H29: a plan is carried out whatever its row looks like by now.
    StalePlanApplies,
    /// H30: a session of an earlier move permits a promotion.
    SessionOutlivesItsMove,
    /// H31: a leader answers heartbeats without asking whether it still leads.
    LeaderTakenAtItsWord,
    /// H32: a node that is dead keeps its life and its lease.
    DeadGoesOn,
    /// H33: the floor of revoked freezes outlives the reign.
    FloorOutlivesTheReign,
    /// H34: a row of an earlier life passes for the own registration.
    EarlierLifePasses,
    /// H35: the lineage is not asked for winners of earlier reigns.
    EarlierWinnersForgotten,
    /// H36: what was reported is forgotten when the owner restarts.
    ReportsEndWithTheLife,
    /// H37: a node says that it is drained whatever is left on it.
    DrainedOutUnseen,
    /// H37: what a node said of a decommission that was cancelled passes for the next one.
    DrainedOutOfAnyDrain,
    /// H38: a retirement counts voters that are retired already.
    RetiredVotersCounted,
    /// H39: a living owner's partition can be declared lost.
    LivingDeclaredLost,
    /// H40: a partition is born on a node that cannot take it.
    BornAnywhere,
    /// H41: a request to freeze is not held against the applied row, and a repeated one prolongs.
    FreezeOfAnyMove,
    /// H42: an owner that restarts exposes nothing.
    AckedStaysHidden,
    /// H43: the first owner after a dead one exposes nothing.
    CapturedStaysHidden,
    /// H44: an acknowledgement of another reign is taken.
    AckOfAnyReign,
    /// H45: a listing is answered before the gate knows that the partition is in play.
    ListedBeforeInPlay,
    /// H46: targets are given up although the owner is dead.
    TargetOfDeadOwnerCleared,
    /// H47: a move goes on although its topic is gone.
    MoveOutlivesItsTopic,

    /// The very token that was revoked still carries a flip: `<` for `<=`.
    RevokedTokenFlips,
    /// A flip leaves the epoch as it was.
    EpochNotBumped,
    /// A target that is cleared or reached leaves the move id as it was.
    MoveIdNotBumped,
    /// A second death has the number of the first.
    DeathNumberRepeats,
    /// A longer lease in the policy does not lengthen the wait of those that may hold one.
    LongerLeaseForgotten,
    /// A decommission can be cancelled after the node was retired.
    CancelledAfterRetired,
    /// A retirement does not ask for the least number of voters.
    MinVotersNotAsked,
    /// A retirement does not ask whether the rest can decide.
    MajorityNotAsked,
    /// A late copy of an operator's command takes effect again.
    DuplicateNotRecognized,
    /// A freeze is revoked by anybody.
    RevokedByAnybody,
    /// A lease counts from the answer's receipt, not from the heartbeat's sending.
    LeaseFromReceipt,
    /// After an append nothing is checked again.
    NoRecheck,
    /// What is exposed ends one record before what was acknowledged.
    HwmOneShort,
    /// All freezes of a life have the same token.
    TokenRepeats,
    /// A freeze whose reign is over is never taken to be over.
    VoidedFreezeStays,
    /// A freeze that makes progress has no longest time.
    FreezeWithoutCap,
    /// The log changes under a freeze.
    MutatesUnderFreeze,
    /// A leader answers the heartbeat of a node whose death it has just proposed.
    CondemnedLeased,
    /// A promotion does not wait at all.
    PromotedAtOnce,
    /// A promotion forgets what the listings showed, and goes by reports alone.
    ListedHwmForgotten,
    /// An installed copy exposes its hidden tail.
    TailInstalledVisible,
    /// An installed copy knows nothing of where consumers stood.
    PositionLeftBehind,
    /// An owner exposes everything at every opening.
    TailExposedAtOpening,
    /// Staging is set aside although its source is dead.
    StagingOfDeadSwept,
    /// Bytes that were staged from another life of the source are not compared.
    OtherLifeNotCompared,
    /// All attempts of a life have the same number.
    AttemptNumberRepeats,
    /// A stuck move holds its slot.
    StuckHoldsSlot,
    /// The planner does not count what is in flight.
    InFlightNotCounted,
    /// Half of a topic is rounded up.
    HalfRoundedUp,
    /// The shares that are one larger go to those that hold the least.
    CeilToTheLeastLoaded,
    /// A draining node counts as one that receives.
    DrainingReceives,
    /// A partition is given to a node that drains or is retired.
    GivenToLeavers,
    /// A leader that was retired removes itself.
    LeaderRemovesItself,
    /// After a snapshot nothing is looked at again.
    RestoredUnseen,
    /// An append is not synced.
    AppendNotSynced,
    /// A failed sync is taken for a success.
    SyncErrorIgnored,
    /// What a failed sync left is taken as it looks when the log is opened again.
    TailNotRewritten,
    /// The name of an installed copy is not synced.
    InstalledNameNotSynced,
    /// The name of a new log is not synced.
    BornNameNotSynced,
    /// The counter of lives is not durable when it is used.
    LifeNotDurable,
    /// What Raft has decided is not durable when it is spoken of.
    RaftNotDurable,
    /// Barriers rely on the leader's clock.
    BarrierByClock,
    /// Consumers read to the end.
    ReadsPastHwm,
    /// The frontier of acknowledgements skips a gap of one.
    AckSkipsOne,
    /// The checkpoint of an ingress log passes a record that is under way.
    CheckpointPassesOne,
    /// A batch of which nobody knows whether it was taken goes wherever there is room.
    BoundGoesElsewhere,
    /// An owner does not remember which batches it has taken.
    ReceiverForgets,
    /// What a past reign has left is said to be accepted once more, and is not.
    SalvageSkipped,
    /// A cursor forgets the lowest record that a consumer did not acknowledge in time.
    ExpiredForgotten,
    /// A record is handed out again although it is acknowledged ahead of others.
    AckedAheadHandedOut,
    /// Records are sent in the order in which they were last refused.
    RefusedGoesLast,
    /// What an earlier life has closed is open in the next one.
    AcceptOpensWithTheLife,
    /// A node renews its own lease by any barrier, whether it leads or not.
    OwnHeartbeatUnasked,
}

/// Whether a mistake is planted.
#[cfg(not(feature = "planted-bugs"))]
#[inline]
#[must_use]
pub const fn is_planted(_: Bug) -> bool {
    false
}

/// Whether a mistake is planted.
#[cfg(feature = "planted-bugs")]
#[inline]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == number(bug)
}

/// Plants one mistake, or none, from now on and for the whole process.
///
/// What runs meanwhile in other threads is affected, too.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(NONE, number), Ordering::Relaxed);
}

#[cfg(feature = "planted-bugs")]
static PLANTED: AtomicU8 = AtomicU8::new(NONE);

#[cfg(feature = "planted-bugs")]
const NONE: u8 = u8::MAX;

#[cfg(feature = "planted-bugs")]
const fn number(bug: Bug) -> u8 {
    bug as u8
}
