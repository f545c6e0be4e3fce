//! What goes in and out of a [`Dispatch`](super::Dispatch).

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use crate::effects::OpId;
use crate::ids::{Epoch, Incarnation, NodeId, PartitionId, Seq, TopicId};
use crate::metastore::Changed;

/// One accepted record, as far as its way is concerned. Its bytes stay in the ingress log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waybill {
    /// Where it is in the ingress log.
    pub seq: Seq,
    /// The topic, by id: a name that is created again is another topic (H26).
    pub topic: TopicId,
    /// Which partition it is for.
    pub route: Route,
    /// What it takes in the ingress log, in bytes; counted up to [`Waybill::BYTES_MAX`].
    pub bytes: u32,
}

impl Waybill {
    /// The most that one record counts for.
    pub const BYTES_MAX: u32 = (1 << 30) - 1;
}

/// Which partition of its topic a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Route {
    /// That one, whatever happens to it. A number that the topic does not have is taken as
    /// [`Route::Any`]: the record was accepted and must arrive.
    Partition(u32),
    /// The one that the hash of its key falls on, `hash % partitions`; a sibling while that one is
    /// shut (R45, R47).
    Key(u64),
    /// Wherever there is room.
    Any,
}

/// What a restarted node finds in its ingress log: everything that its last [`Checkpoint`] does not
/// name.
#[derive(Clone, Debug)]
pub struct Found<W> {
    /// The position that the next record will get.
    pub next: Seq,
    /// The records before it, ascending, without those that the checkpoint names: a position that is
    /// missing here is not needed. All of them are to be delivered (again): whether one was, nobody
    /// remembers.
    pub waybills: W,
    /// Whether an earlier life has closed accept and not opened it since: whatever it has said of
    /// that in the log may still be decided (H37).
    pub closed: bool,
}

/// What of the ingress log is not needed any more: each record in it has arrived, was dropped, is
/// damaged, or stands further behind once more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Checkpoint {
    /// Nothing below this is needed.
    pub below: Seq,
    /// Nor is anything in these ranges, at most [`RANGES_MAX`](Self::RANGES_MAX) of them: ascending,
    /// apart, none of them empty, all above `below` and before the end of the log. One stuck record
    /// holds `below` back, and everything accepted since would be sent once more without them.
    pub beyond: Vec<Range<Seq>>,
}

impl Checkpoint {
    /// Most ranges: the longest are kept, of two as long the newer one, and what is in the others is
    /// sent again. More remember more beside many stuck records, and take 8 bytes each on the disk.
    pub const RANGES_MAX: usize = 4_096;
}

impl From<Seq> for Checkpoint {
    /// Makes the checkpoint that names no range.
    fn from(below: Seq) -> Self {
        Self { below, beyond: Vec::new() }
    }
}

/// Names one batch of one ingress node for one partition, so that an owner that took it, and whose
/// answer was lost, answers again instead of appending it twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BatchNo {
    /// The node that accepted the records.
    pub ingress: NodeId,
    /// Its life when its dispatch began.
    pub life: Incarnation,
    /// Which batch for this partition in that life: ascending, from zero, and consecutive but where
    /// all records of one turned out to be damaged. A batch that is sent again keeps its number.
    pub n: u64,
}

impl fmt::Debug for BatchNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{:?}b{}", self.ingress, self.life, self.n)
    }
}

/// Returns how long a sender waits for the answer to a batch of so many bytes: the longer it is, the
/// longer. A slow link is no silent owner, and a batch that never fits the time would be sent for
/// ever (L1). The machine [cancels](Effect::Cancel) what has become pointless meanwhile.
///
/// # Examples
///
/// A batch of 1 MiB over the slowest link that is waited for:
///
/// ```
/// use core::time::Duration;
/// use narad_core::dispatch::send_limit;
///
/// assert_eq!(send_limit(Duration::from_secs(5), 1 << 20), Duration::from_secs(5 + 128));
/// ```
#[must_use]
pub const fn send_limit(request_timeout: Duration, bytes: u64) -> Duration {
    /// The slowest link on which an answer is waited for, in bytes a second.
    const RATE_MIN: u64 = 8 << 10;
    let micros = bytes.saturating_mul(1_000_000) / RATE_MIN;
    request_timeout.saturating_add(Duration::from_micros(micros))
}

/// Positions in the ingress log, in the order in which they are to be appended; kept as runs of
/// consecutive ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Seqs {
    runs: Vec<(Seq, u32)>,
}

impl FromIterator<Seq> for Seqs {
    fn from_iter<I: IntoIterator<Item = Seq>>(seqs: I) -> Self {
        let mut collected = Self::default();
        seqs.into_iter().for_each(|seq| collected.push(seq));
        collected
    }
}

impl Seqs {
    /// Appends one position.
    pub(super) fn push(&mut self, seq: Seq) {
        match self.runs.last_mut() {
            Some((first, count)) if first.0.checked_add(u64::from(*count)) == Some(seq.0) => {
                *count += 1;
            }
            Some(_) | None => self.runs.push((seq, 1)),
        }
    }

    /// Returns the positions.
    pub fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        self.runs
            .iter()
            .flat_map(|&(first, count)| (0..u64::from(count)).map(move |i| Seq(first.0 + i)))
    }

    /// Returns the runs of consecutive positions: the first of each, and how many.
    pub fn runs(&self) -> &[(Seq, u32)] {
        &self.runs
    }

    /// Returns how many positions there are.
    pub fn count(&self) -> usize {
        self.runs.iter().map(|&(_, count)| count as usize).sum()
    }
}

/// Something the driver tells the machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event {
    /// Time passed.
    Wake,
    /// An operation ended.
    Done(OpId, Outcome),
    /// These records are durable in the ingress log. Each is told once, in ascending order; what
    /// [`Operation::Carry`] appended is not told here.
    Accepted(Vec<Waybill>),
    /// The node's replica has applied an entry, which made this different.
    Applied(Changed),
    /// The node's replica has been replaced as a whole: any row may be different.
    Restored,
    /// The process is about to end: nothing more is sent, and what has arrived is noted. See
    /// [`Dispatch::has_stopped`](super::Dispatch::has_stopped).
    Stopping,
}

/// Something the machine asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect {
    /// Run an operation; exactly one [`Event::Done`] answers it, unless the process ends first.
    Run(OpId, Operation),
    /// End an operation early; its `Done` still follows.
    Cancel(OpId),
    /// An observation; nothing answers it.
    Note(Note),
}

/// Work with an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operation {
    /// Bring records to the owner of a partition and have them appended, all or none. The node
    /// itself may be the owner: its gate is asked like any other.
    ///
    /// The owner looks first whether it has taken this number, and then at anything else, such as
    /// the length: under one number the records may become fewer, never others.
    Send {
        /// The owner, as this node's replica has it.
        to: NodeId,
        /// The partition.
        partition: PartitionId,
        /// The reign in which it is asked; an owner in another refuses.
        epoch: Epoch,
        /// The batch.
        batch: BatchNo,
        /// Which records, in order.
        records: Seqs,
    },
    /// Note durably that nothing of this is needed any more, then delete the segments that lie below
    /// it as a whole.
    Checkpoint(Checkpoint),
    /// Append these records to the ingress log once more, in this order, one after the other and in
    /// consecutive positions, and make them durable. The old ones stay until a checkpoint.
    Carry(Seqs),
    /// A read barrier: answered once everything committed before it began is applied here.
    Barrier,
}

/// How an operation ended. Variants mirror [`Operation`], but for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// See [`Operation::Send`]: all of it is durable at the owner, in the reign that was asked, or
    /// why not.
    Send(Result<(), SendFault>),
    /// See [`Operation::Checkpoint`].
    Checkpoint(Result<(), LogFault>),
    /// See [`Operation::Carry`]: the position of the first record.
    Carry(Result<Seq, LogFault>),
    /// See [`Operation::Barrier`].
    Barrier(Result<(), NoBarrier>),
    /// Of [`Operation::Send`] and [`Operation::Carry`]: the bytes of these records are damaged and
    /// never come back. Nothing was sent or appended; the others are asked for again, under the same
    /// number.
    Damaged(Seqs),
}

/// Why a batch was not taken, or may not have been.
///
/// It is tried again after each of them. If it cannot reach the owner and never did, its records are
/// free to go elsewhere; otherwise they stay with the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SendFault {
    /// There was no connection, and nothing was sent.
    #[error("the owner cannot be reached: check the node and the network")]
    Unreachable,
    /// The ingress log could not be read, and nothing was sent.
    #[error("the ingress log cannot be read: look at the disk of this node")]
    Unreadable,
    /// No answer came in time, or the connection broke: it may have been taken, or may still be.
    #[error("the owner has not answered in time: look at its load and its disk")]
    TimedOut,
    /// The partition is frozen for a move.
    #[error("the partition is frozen for a move: it is tried again in a moment")]
    Frozen,
    /// The node does not own the partition, or not in a registered life.
    #[error("that node does not serve the partition: its replica or this node's is behind")]
    NotServing,
    /// The owner is in another reign than was asked.
    #[error("the partition is in epoch {current} there: its replica or this node's is behind")]
    OtherEpoch {
        /// The reign there.
        current: Epoch,
    },
    /// The partition is in play and the owner has no lease.
    #[error("the owner has no lease: it needs to reach the leader")]
    NoLease,
    /// The owner's disk is full.
    #[error("the owner's disk is full: make room there, or move the partition")]
    DiskFull,
    /// The owner's log could not be written.
    #[error("the owner's log could not be written: look at its disk")]
    Disk,
    /// The owner has too much to do.
    #[error("the owner is busy")]
    Busy,
    /// The owner has taken a later batch of this node already. Nothing was appended.
    #[error("the owner has already taken batch {} of life {}", .newest.n, .newest.life)]
    Stale {
        /// The latest that it has taken.
        newest: BatchNo,
    },
    /// The owner knows of no such partition.
    #[error("the owner knows of no such partition: its replica or this node's is behind")]
    NoSuchPartition,
    /// The batch is longer than the owner takes.
    #[error("the batch is longer than the owner takes: give all nodes the same limits")]
    TooLarge,
}

impl SendFault {
    /// Whether anything of the batch may have reached the owner.
    #[must_use]
    pub const fn left(self) -> bool {
        !matches!(self, Self::Unreachable | Self::Unreadable)
    }

    /// Whether the owner itself said so, which shows that it is there.
    #[must_use]
    pub const fn is_answer(self) -> bool {
        !matches!(self, Self::Unreachable | Self::Unreadable | Self::TimedOut)
    }
}

/// The ingress log could not be written. What was asked for may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("the ingress log could not be written: look at the disk of this node")]
pub struct LogFault;

/// No read barrier could be had in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[error("no leader answered in time")]
pub struct NoBarrier;

/// Something worth knowing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Note {
    /// A partition takes nothing; noted when the reason changes.
    Held {
        /// Which.
        partition: PartitionId,
        /// Why.
        fault: SendFault,
    },
    /// A partition that took nothing takes records again.
    Resumed(PartitionId),
    /// A sibling took records that are keyed to a partition which is shut (R45, R47).
    Rerouted {
        /// The partition that they are keyed to.
        from: PartitionId,
        /// Who took them.
        to: PartitionId,
        /// How many.
        records: u32,
    },
    /// Records of a topic that is no more were dropped.
    Dropped {
        /// The topic.
        topic: TopicId,
        /// How many.
        records: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Records that were accepted, and whose bytes in the ingress log are damaged: they are lost.
    Damaged {
        /// How many.
        records: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Records that kept the log from being shortened were appended once more.
    Carried {
        /// How many.
        records: u32,
        /// Their bytes.
        bytes: u64,
    },
    /// The ingress log could not be written; it is tried again.
    LogFault,
    /// The answer of an operation that is not under way.
    Stale(OpId),
}
