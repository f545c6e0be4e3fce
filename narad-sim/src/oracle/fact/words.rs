//! Words that facts are told in.

use narad_core::ids::{Attempt, PartitionId};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed; the machine goes on.
    Killed,
    /// The machine lost power: what was not synced may be gone.
    PowerLost,
    /// It was asked to stop.
    Stopped,
    /// It stopped by itself: [`Stop`](narad_core::node::Stop), or an error of its Raft store.
    Gave,
}

/// What happens to a disk behind its node's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// It is destroyed, or replaced by an empty one.
    Lost,
    /// An older image of it, or another node's, is put in its place.
    Replaced,
    /// Bits of one partition's directory change.
    Rotted(PartitionId, Directory),
    /// A directory of one partition is removed, or a file of it.
    Erased(PartitionId, Directory),
}

/// One directory of one partition on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directory {
    /// Named by its attempt: live, past, or not yet flipped to.
    Installed(Attempt),
    /// The staging area.
    Staging,
}

/// On whose behalf a node asks for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its own: the controller, a mover, a hand-off, the lease.
    Node,
    /// An operator's, through that node.
    Operator,
    /// A scenario made it by hand, under the name of another node. Its proposal id is used by
    /// nobody else.
    Forged,
}

/// How records were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// From an offset of the reader's choice.
    Plain,
    /// Reserved for a consumer that will acknowledge each; told when they are handed out.
    Reserved,
}

/// Why a node does not accept records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// It says that it is being decommissioned.
    Closed,
    /// It says that its log is full.
    Full,
    /// It says that they can never fit.
    TooLarge,
    /// Too much waits to be written.
    Busy,
    /// Its disk has failed, or is full.
    Disk,
}
