//! What a [`MemDisk`](super::MemDisk) can be told to forget, to fail or to get wrong.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::DiskError;

/// One kind of step of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Reading a file; the only kind that changes nothing.
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

impl Step {
    /// All kinds, in order.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Sync,
        Self::Create,
        Self::Rename,
        Self::SyncDir,
        Self::Remove,
    ];
}

/// One change that a crash may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// A sector, or the part of one, that was written.
    Sector {
        /// Position of its first byte in the file.
        position: u64,
        /// How many bytes of it were written.
        bytes: usize,
    },
    /// A changed length.
    Length,
    /// A created, renamed or removed name.
    Name,
}

/// What becomes of one unsynced change in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// It is gone.
    Lost,
    /// It is there.
    Kept,
    /// The first bytes of a sector are new, the rest is what was there before. Anything but a sector
    /// is lost.
    Torn {
        /// How many are new.
        bytes: usize,
    },
}

impl From<bool> for Survival {
    fn from(kept: bool) -> Self {
        if kept { Self::Kept } else { Self::Lost }
    }
}

/// Which unsynced changes survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None: the harshest power loss.
    Nothing,
    /// All: the power failed just after everything had reached the medium.
    Everything,
    /// A subset that the seed picks, sector by sector and name by name, in no order.
    Seeded(u64),
    /// Like `Seeded`, and a sector may be torn within.
    Torn(u64),
    /// The given number of changes, in the order in which they are looked at: files first, each
    /// from its first write on. The last write is torn.
    First(u64),
}

impl Keep {
    pub(super) fn chooser(self) -> impl FnMut(Unsynced) -> Survival {
        let mut state = match self {
            Self::Nothing | Self::Everything => 0,
            Self::Seeded(seed) | Self::Torn(seed) => seed,
            Self::First(count) => count,
        };
        move |what| match self {
            Self::Nothing => Survival::Lost,
            Self::Everything => Survival::Kept,
            Self::Seeded(_) => Survival::from(draw(&mut state) & 1 == 1),
            Self::Torn(_) => {
                let drawn = draw(&mut state);
                match what {
                    Unsynced::Sector { bytes, .. } if drawn & 3 == 3 => {
                        let cut = (drawn >> 2) % (bytes as u64);
                        Survival::Torn { bytes: usize::try_from(cut).unwrap_or(0) }
                    }
                    Unsynced::Sector { .. } | Unsynced::Length | Unsynced::Name => {
                        Survival::from(drawn & 1 == 1)
                    }
                }
            }
            Self::First(_) => {
                let kept = state > 0;
                state = state.saturating_sub(1);
                Survival::from(kept)
            }
        }
    }
}

/// `SplitMix64`: one multiplication chain per choice, the same on every machine.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What goes wrong in a step. One that does not apply to the step at hand changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// The step fails with an I/O error. A sync that fails loses what was unsynced.
    Io,
    /// The step fails since no space is left.
    Full,
    /// The step is said to have succeeded, and the next crash loses it: a write, a changed length, or
    /// with a sync all of the file that is unsynced. Names just stay unsynced.
    Lost,
    /// A read returns what is durable, not what was written since.
    Stale,
    /// A read or a write goes to another place of the same file, so many bytes further or less far;
    /// before the file's beginning is its beginning.
    Misdirected {
        /// How many bytes.
        by: i64,
    },
}

/// Something that goes wrong with a disk: which steps, how often, and how.
///
/// # Examples
///
/// Every sync below a directory fails until the fault is cleared:
///
/// ```
/// use narad_runtime::disk::mem::{Fault, Step};
/// use narad_runtime::disk::{Disk, MemDisk, Open};
/// use std::path::Path;
///
/// let disk = MemDisk::new();
/// disk.create_dir_all(Path::new("a"))?;
/// let file = disk.open(Path::new("a/b"), Open::Create)?;
/// let fault = disk.inject(Fault::new(Step::Sync).below("a").lasting());
/// assert!(file.sync().is_err() && file.sync().is_err());
/// disk.clear(fault);
/// file.sync()?;
/// # Ok::<(), narad_runtime::disk::DiskError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a fault does nothing until it is injected"]
pub struct Fault {
    step: Step,
    below: PathBuf,
    skip: u64,
    /// `None` for no end.
    times: Option<u64>,
    mishap: Mishap,
}

impl Fault {
    /// Describes an I/O error in the next step of a kind, once, anywhere.
    pub fn new(step: Step) -> Self {
        Self { step, below: PathBuf::new(), skip: 0, times: Some(1), mishap: Mishap::Io }
    }

    /// Restricts it to a path and what is below it. A file counts by the path under which it was
    /// opened, a rename by the old name.
    pub fn below(mut self, path: impl Into<PathBuf>) -> Self {
        self.below = path.into();
        self
    }

    /// Lets so many steps succeed first.
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Makes it happen so many times.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Makes it happen until it is cleared, through crashes too.
    pub fn lasting(mut self) -> Self {
        self.times = None;
        self
    }

    /// Makes something else go wrong than an I/O error.
    pub fn with(mut self, mishap: Mishap) -> Self {
        self.mishap = mishap;
        self
    }
}

/// Names an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

/// The faults of one disk, in the order of their injection.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: Vec<(FaultId, Fault)>,
    injected: u64,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) -> FaultId {
        self.injected += 1;
        let id = FaultId(self.injected);
        self.planned.push((id, fault));
        id
    }

    pub(super) fn clear(&mut self, id: FaultId) {
        self.planned.retain(|(planned, _)| *planned != id);
    }

    pub(super) fn clear_all(&mut self) {
        self.planned.clear();
    }

    pub(super) fn crash(&mut self) {
        self.planned.retain(|(_, fault)| fault.times.is_none());
    }

    /// Says what goes wrong in a step, errors apart.
    pub(super) fn meet(
        &mut self,
        step: Step,
        action: &'static str,
        path: &Path,
    ) -> Result<Option<Mishap>, DiskError> {
        if self.planned.is_empty() {
            return Ok(None);
        }
        let meets = |fault: &Fault| fault.step == step && path.starts_with(&fault.below);
        let Some(at) = self.planned.iter().position(|(_, fault)| meets(fault)) else {
            return Ok(None);
        };
        let fault = &mut self.planned[at].1;
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(None);
        }
        let mishap = fault.mishap;
        fault.times = fault.times.map(|times| times.saturating_sub(1));
        if fault.times == Some(0) {
            drop(self.planned.remove(at));
        }
        match mishap {
            Mishap::Io => Err(DiskError::new(action, path, io::Error::from_raw_os_error(5))),
            Mishap::Full => Err(DiskError::Full { action, path: path.to_path_buf() }),
            Mishap::Lost | Mishap::Stale | Mishap::Misdirected { .. } => Ok(Some(mishap)),
        }
    }
}
