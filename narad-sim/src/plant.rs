//! Mistakes that are planted into the machines, so that a sweep can show that it notices them.
//!
//! # Purpose
//!
//! Passing runs say little of a simulator that would pass a broken protocol, too. So each closing
//! rule of the protocol has a switch that leaves it out ([`narad_core::planted`]), and so have the
//! slips that a programmer makes. This catalogue says of each what is wrong, where, which invariant
//! should break, and which faults bring that about.
//!
//! Every build has the catalogue; only one with the feature `planted-bugs` can [`sow`] from it.
//!
//! # Who judges
//!
//! A switch is thrown for the whole process, and whatever judges runs in the same one. A state that
//! an oracle folds out of the log is folded by the planted code, too, and agrees with every replica.
//! So the oracle has the rules for entries written a second time (`oracle/law.rs`), by which it
//! judges each answer and each row, and asks on what entries that nobody proposed would come to.
//!
//! # Examples
//!
//! A rule is found by the number of its hole:
//!
//! ```
//! use narad_sim::plant::{self, Rule};
//!
//! let found = plant::find("h01").expect("each hole has a switch");
//! assert_eq!(found.rule, Rule::Hole(1));
//! assert!(found.noticed_by.contains(&"S9"));
//! assert_eq!(plant::find(found.name).map(|plant| plant.bug), Some(found.bug));
//! ```

mod catalog;

use std::fmt::Write as _;

use narad_core::planted::Bug;
use serde::{Serialize, Serializer};

/// One mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Plant {
    /// Its switch.
    #[serde(skip)]
    pub bug: Bug,
    /// Its name: `h` and the number of a hole, or `c` and a number, then what is wrong.
    pub name: &'static str,
    /// What it leaves out.
    pub rule: Rule,
    /// File and function of the switch; several are parted by a semicolon.
    pub place: &'static str,
    /// What is wrong while it is planted, in words.
    pub removes: &'static str,
    /// Invariants that can break by it, the likeliest first.
    pub noticed_by: &'static [&'static str],
    /// A schedule that breaks one, in words.
    pub hint: &'static str,
    /// What a drawn scenario should have more of, so that such a schedule is likely.
    pub bias: &'static [Bias],
    /// What else stands in the way of harm, if anything does: such a mistake takes a schedule that
    /// gets around that, too.
    pub net: Option<&'static str>,
}

/// What a planted mistake leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// The rule that closes a hole of the protocol, by the hole's number.
    Hole(u8),
    /// Nothing that the protocol names: a slip in the code.
    Slip,
}

/// Serialized as people write it: `H12`, or `slip`.
impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Hole(number) => serializer.collect_str(&format_args!("H{number}")),
            Self::Slip => serializer.serialize_str("slip"),
        }
    }
}

/// A part of a hole's rule that has no code yet, and therefore nothing to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NotYet {
    /// The hole's number.
    pub hole: u8,
    /// What it waits for.
    pub reason: &'static str,
}

/// What a scenario can have more of than one that is drawn evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// One-way and two-way cuts around the owner of a moving partition.
    CutSource,
    /// Owners of moving partitions that die for longer than a promotion waits.
    DeadSource,
    /// Targets of moves that die.
    DeadTarget,
    /// Partitions that an operator declares lost.
    DeclaredLost,
    /// Decommissions, cancelled ones among them.
    Decommission,
    /// Reads, writes and syncs that fail, and full disks.
    DiskErrors,
    /// Commands that reach the log twice, minutes apart.
    DuplicateCommands,
    /// Commands in the name of nodes that never proposed them.
    ForgedCommands,
    /// Copies whose bytes change on their way.
    GarbledCopies,
    /// Producers that write about as fast as a copy reads.
    HeavyLoad,
    /// Nodes that join.
    Joins,
    /// Consumers that acknowledge late, out of order, twice, or at an old owner.
    LateAcks,
    /// Flips that reach the log seconds to minutes late.
    LateFlip,
    /// Leaders that change.
    LeaderChanges,
    /// Answers to proposals and requests that are lost.
    LostAnswers,
    /// Requests that are delivered again, minutes later.
    OldMessages,
    /// Moves, aborts and pins by hand.
    OperatorMoves,
    /// Changes of the policy.
    PolicyChanges,
    /// Power that fails.
    PowerLoss,
    /// A load that ends well before the run does.
    QuietEnd,
    /// Processes that are killed and started again soon.
    Restarts,
    /// Retention that runs often over small segments.
    Retention,
    /// Replicas that apply late.
    SlowApply,
    /// Copies over little bandwidth.
    SlowCopy,
    /// Disks that are slow or stuck.
    SlowDisk,
    /// Messages that take seconds.
    SlowNetwork,
    /// Snapshots instead of entries, for replicas that fell behind.
    Snapshots,
    /// Old, empty or partly erased disks.
    StaleDisk,
    /// A policy whose dead timeout is shorter than its lease, with nothing to spare.
    TightTiming,
    /// Topics that are created and deleted.
    TopicChurn,
}

/// Returns the whole catalogue: holes by their number, then slips by theirs.
pub fn all() -> impl Iterator<Item = &'static Plant> {
    catalog::PARTS.into_iter().flatten()
}

/// Returns the parts of rules that have no code yet.
#[must_use]
pub const fn not_yet() -> &'static [NotYet] {
    catalog::NOT_YET
}

/// Finds a mistake by its name, or by the part before the first hyphen: `h01`, `c07`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Plant> {
    all().find(|plant| plant.name == name || plant.number() == name)
}

/// Returns the catalogue for people to read.
#[must_use]
pub fn text() -> String {
    let mut text = String::new();
    for plant in all() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{plant:#}");
    }
    for NotYet { hole, reason } in not_yet() {
        let _ = writeln!(text, "not yet (H{hole}): {reason}");
    }
    text
}

/// Returns whether this build can plant anything.
#[must_use]
pub const fn is_possible() -> bool {
    cfg!(feature = "planted-bugs")
}

/// Plants one mistake, or none, from now on and for the whole process.
#[cfg(feature = "planted-bugs")]
pub fn sow(plant: Option<&Plant>) {
    narad_core::planted::plant(plant.map(|plant| plant.bug));
}

impl Plant {
    /// Returns the part of its name that is its number.
    #[must_use]
    pub fn number(&self) -> &'static str {
        self.name.split_once('-').map_or(self.name, |(number, _)| number)
    }
}

/// Its name; in the alternate form everything that is known of it.
impl std::fmt::Display for Plant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, place, removes, noticed_by, hint, net, .. } = self;
        f.write_str(name)?;
        if f.alternate() {
            let noticed_by = noticed_by.join(" ");
            write!(f, "\n  {removes}\n  where: {place}\n  breaks: {noticed_by}\n  try: {hint}\n")?;
            if let Some(net) = net {
                writeln!(f, "  but: {net}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
