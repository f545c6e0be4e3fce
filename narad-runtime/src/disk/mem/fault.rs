//! What a [`MemDisk`](super::MemDisk) can be told to forget or to fail.

/// One kind of step of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading a file; the only kind that changes nothing and is not counted.
    Read,
    /// Writing a file.
    Write,
    /// Changing a file's length.
    SetLen,
    /// Making a file durable.
    Sync,
    /// Creating a file or a directory.
    Create,
    /// Renaming.
    Rename,
    /// Making names durable.
    SyncDir,
    /// Removing a name.
    Remove,
}

/// One change that a crash may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// A sector, or the part of one, that was written.
    Sector {
        /// Position of its first byte in the file.
        position: u64,
    },
    /// A changed length.
    Length,
    /// A created, renamed or removed name.
    Name,
}

/// Which unsynced changes survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None: the harshest power loss.
    Nothing,
    /// All: the process was killed, the machine went on.
    Everything,
    /// A subset that the seed picks, sector by sector and name by name, in no order.
    Seeded(u64),
    /// The given number of changes, in the order in which they are looked at: files first, each
    /// from its first write on. The last write is torn.
    First(u64),
}

impl Keep {
    pub(super) fn chooser(self) -> impl FnMut(Unsynced) -> bool {
        let mut state = match self {
            Self::Nothing | Self::Everything => 0,
            Self::Seeded(seed) => seed,
            Self::First(count) => count,
        };
        move |_| match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Seeded(_) => {
                // SplitMix64: one multiplication chain per choice, the same on every machine.
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                (mixed ^ (mixed >> 31)) & 1 == 1
            }
            Self::First(_) => {
                let kept = state > 0;
                state = state.saturating_sub(1);
                kept
            }
        }
    }
}
