//! Words that actions take.

use super::super::table::words;

words! {
    /// How a work fails.
    pub enum Failure {
        /// The disk failed.
        Disk = "disk",
        /// The disk is full.
        DiskFull = "disk-full",
        /// Nobody answers.
        Unreachable = "unreachable",
        /// No answer in time; it may have been done.
        TimedOut = "timed-out",
    }
}

words! {
    /// What survives a power loss of that which was not synced.
    pub enum Keep {
        /// Nothing of it.
        Nothing = "nothing",
        /// All of it.
        Everything = "everything",
        /// Any part of it, in any order, by the seed.
        Random = "random",
        /// Any part of it, and writes cut at any sector.
        Torn = "torn",
    }
}

words! {
    /// The disk that a process finds when it starts.
    pub enum Platter {
        /// Its own.
        Same = "same",
        /// A new one; the machine joins anew, under its old name.
        Empty = "empty",
        /// Its own as it was once, see `save-disk`.
        Saved = "saved",
        /// A copy of another machine's.
        Other = "other",
    }
}

words! {
    /// A step of a disk.
    pub enum DiskAction {
        /// Reading bytes.
        Read = "read",
        /// Writing bytes.
        Write = "write",
        /// Making a file durable.
        Sync = "sync",
        /// Renaming a file or directory.
        Rename = "rename",
        /// Making a file or directory.
        Create = "create",
        /// Removing a file or directory.
        Remove = "remove",
        /// Making a directory's entries durable.
        SyncDir = "sync-dir",
    }
}

words! {
    /// Files of one purpose.
    pub enum Files {
        /// The directory of a partition that its node serves.
        Live = "live",
        /// What is being copied to the node.
        Staging = "staging",
        /// Directories of attempts that are installed and not live.
        Installed = "installed",
        /// What was set aside.
        Trash = "trash",
        /// The replicated log and its snapshots.
        Raft = "raft",
        /// The node's identity and incarnation.
        Identity = "identity",
    }
}

words! {
    /// A command that can be proposed by hand.
    pub enum Forged {
        /// A node is declared dead.
        MarkDead = "mark-dead",
        /// A node registers a life.
        Register = "register",
        /// A decommission begins or is cancelled.
        SetDraining = "set-draining",
        /// An earlier life of a node has nothing left.
        DrainedOut = "drained-out",
        /// A node is taken out.
        Retire = "retire",
        /// A partition gets its first owner.
        Assign = "assign",
        /// A move is planned.
        SetTarget = "set-target",
        /// A move is given up.
        ClearTarget = "clear-target",
        /// Ownership goes to the proposer, on a freeze of an earlier life of the source.
        Flip = "flip",
        /// An attempt of the proposer's earlier life is burned, or found to have won.
        Resolve = "resolve",
        /// A freeze of the proposer's earlier life is ended.
        Revoke = "revoke",
        /// A partition is pinned, or is no more.
        SetPin = "set-pin",
        /// An owner's records are given up.
        DeclareLost = "declare-lost",
        /// The cluster's version is raised.
        RaiseVersion = "raise-version",
    }
}
