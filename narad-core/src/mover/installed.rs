//! The directories that bear an attempt's name, and what is known of their fate.

use alloc::vec::Vec;

use super::flip::{Verdict, verdict};
use super::operation::Proposed;
use crate::ids::{Attempt, NodeId};
use crate::metastore::{Applied, Assignment, Reason, Reply};
use crate::partition::Manifest;
use crate::planted::{Bug, is_planted};

/// What may still become of an installed copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fate {
    /// It cannot become live: it was never proposed, or the log has said so.
    Free,
    /// It is being set aside, and may be gone: it is good for nothing else any more.
    Condemned,
    /// It may be live already, or become so; it must not be touched (H2, H27).
    Open,
    /// The log has said that it won; it is live, or was.
    Won,
}

/// One directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Directory {
    attempt: Attempt,
    manifest: Manifest,
    /// Whether this life has compared its bytes with the source.
    vouched: bool,
    fate: Fate,
}

/// The directories that this machine may have to deal with, oldest first.
///
/// Logs that were born here, live ones and those of past reigns belong to others: they are dropped
/// from here as soon as the row shows what they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Installed {
    directories: Vec<Directory>,
    /// Every directory of this node, whoever it belongs to.
    names: Vec<Attempt>,
}

impl Installed {
    /// Takes what a restart found; nothing is known of any fate.
    pub(super) fn found(me: NodeId, found: Vec<(Attempt, Option<Manifest>)>) -> Self {
        let names = found.iter().map(|&(attempt, _)| attempt).collect();
        let mut directories: Vec<Directory> = found
            .into_iter()
            .filter(|(attempt, _)| attempt.destination == me)
            .filter_map(|(attempt, manifest)| {
                let manifest = manifest?;
                let unasked = is_planted(Bug::AttemptsNotResolved);
                let fate = if unasked { Fate::Free } else { Fate::Open };
                Some(Directory { attempt, manifest, vouched: false, fate })
            })
            .collect();
        directories.sort_by_key(|directory| (directory.attempt.move_id, directory.attempt.no));
        Self { directories, names }
    }

    /// Adds the directory of an attempt that has not been proposed.
    pub(super) fn add(&mut self, attempt: Attempt, manifest: Manifest) {
        self.names.push(attempt);
        self.directories.push(Directory { attempt, manifest, vouched: true, fate: Fate::Free });
    }

    /// Removes a directory, and returns what it was installed from.
    pub(super) fn remove(&mut self, attempt: Attempt) -> Option<(Manifest, bool)> {
        self.names.retain(|&name| name != attempt);
        let at = self.directories.iter().position(|directory| directory.attempt == attempt)?;
        let directory = self.directories.remove(at);
        Some((directory.manifest, directory.vouched))
    }

    /// Leaves a directory to others: it stays where it is.
    pub(super) fn leave(&mut self, attempt: Attempt) {
        self.directories.retain(|directory| directory.attempt != attempt);
    }

    /// Leaves those that won earlier reigns to salvage (H35).
    pub(super) fn leave_past_reigns(&mut self, row: &Assignment) {
        self.directories.retain(|directory| {
            let attempt = directory.attempt;
            attempt == row.data || row.reign_of(attempt).is_none()
        });
    }

    /// Whether a directory of this name is on this node's disk.
    pub(super) fn has(&self, attempt: Attempt) -> bool {
        self.names.contains(&attempt)
    }

    pub(super) fn fate(&self, attempt: Attempt) -> Option<Fate> {
        let directory = self.directories.iter().find(|directory| directory.attempt == attempt)?;
        Some(directory.fate)
    }

    /// Returns the oldest directory with this fate.
    pub(super) fn oldest(&self, fate: Fate) -> Option<Attempt> {
        let directory = self.directories.iter().find(|directory| directory.fate == fate)?;
        Some(directory.attempt)
    }

    /// Returns the newest directory with this fate.
    pub(super) fn newest(&self, fate: Fate) -> Option<Attempt> {
        let directory = self.directories.iter().rfind(|directory| directory.fate == fate)?;
        Some(directory.attempt)
    }

    /// Notes that the fate of an attempt is in the hands of the log.
    ///
    /// # Panics
    ///
    /// If the attempt was not installed: a flip must never name a directory that is not durable.
    pub(super) fn proposed(&mut self, attempt: Attempt) {
        self.set(attempt, Fate::Open).expect("a copy is durable before its flip is proposed");
    }

    /// Learns the fate of an attempt from the answer to its flip.
    pub(super) fn flipped(&mut self, attempt: Attempt, proposed: &Proposed) {
        let fate = match proposed {
            Proposed::Unknown if is_planted(Bug::UnknownCountsAsFailed) => Fate::Free,
            Proposed::Unknown => return,
            Proposed::Replied(Reply::Applied(_)) => Fate::Won,
            Proposed::Replied(Reply::Rejected(reason)) => match verdict(*reason) {
                Verdict::AttemptLost | Verdict::MoveOver => Fate::Free,
                Verdict::Unclear => return,
            },
        };
        let _ = self.set(attempt, fate);
    }

    /// Learns the fate of an attempt from the answer to its `Resolve`.
    pub(super) fn resolved(&mut self, attempt: Attempt, proposed: &Proposed) {
        match proposed {
            Proposed::Unknown => {}
            Proposed::Replied(Reply::Applied(applied)) => match applied {
                Applied::Won(_) => {
                    let _ = self.set(attempt, Fate::Won);
                }
                Applied::Burned => {
                    let _ = self.set(attempt, Fate::Free);
                }
                Applied::Done
                | Applied::Joined(_)
                | Applied::Created(_)
                | Applied::Planned(_)
                | Applied::Resumed => self.leave(attempt),
            },
            Proposed::Replied(Reply::Rejected(Reason::Gone)) => {
                let _ = self.set(attempt, Fate::Free);
            }
            // Nothing can be said of it, so nothing is done to it.
            Proposed::Replied(Reply::Rejected(_)) => self.leave(attempt),
        }
    }

    /// Notes that setting a directory aside has failed, and may have happened.
    pub(super) fn condemn(&mut self, attempt: Attempt) {
        let _ = self.set(attempt, Fate::Condemned);
    }

    fn set(&mut self, attempt: Attempt, fate: Fate) -> Option<()> {
        let directory =
            self.directories.iter_mut().find(|directory| directory.attempt == attempt)?;
        directory.fate = fate;
        Some(())
    }
}
