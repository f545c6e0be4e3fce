//! An experiment as a text: a cluster, a load, what goes wrong, and what must come true.
//!
//! A scenario is plain data. [`Scenario::parse`] reads it from TOML and says what is wrong with a
//! file and where; [`Scenario::to_toml`] writes it so that a person likes to read it;
//! [`schema`] describes every key. [`Scenario::draw`] invents one, and [`Scenario::shrinks`] gives
//! smaller ones that may fail like it.

mod action;
mod check;
mod cluster;
mod draw;
mod error;
mod expect;
mod faults;
mod file;
mod load;
mod name;
mod plan;
mod read;
mod schema;
mod shrink;
mod step;
mod table;
#[cfg(test)]
mod tests;
mod value;
pub mod vocabulary;

use std::time::Duration;

pub use self::action::{Action, DiskAction, Failure, Files, Forged, Keep, Platter};
pub use self::cluster::{
    AbstractLog, Cluster, ConfigChange, MetastoreKind, Pace, PolicyChange, Raft,
};
pub use self::draw::{Bias, Choices, DrawOptions, Tape};
pub use self::error::{Problem, ScenarioError};
pub use self::expect::{
    Condition, Counter, Expect, Extent, MemberIs, ProcessIs, ReplyIs, is_within,
};
pub use self::faults::{Chances, Disk, HeavyTail, Museum, Network};
pub use self::load::{Address, Burst, Consume, Produce, Retention, Route, Topic, Via, Workload};
pub use self::name::{Label, Machine, PartitionName, Side, TopicName, Who};
pub use self::schema::schema;
pub use self::step::{Ending, Filter, On, Repeat, Stage, Step, When};
use self::table::{section, words};
pub use self::value::{Between, Bytes, Chance, Rate, Shift};

words! {
    /// What is made whole when the safety phase ends. Chances of messages and disks, and what is
    /// held, end in either case.
    pub enum Heals {
        /// Every machine, link, clock and disk.
        All = "all",
        /// A core: a majority of the voters and the owner of every partition, and the links between
        /// them. Whatever else is down, cut off, paused or broken then stays so.
        Core = "core",
    }
}

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What it is called and how long it goes.
    pub head: Head,
    /// The machines.
    pub cluster: Cluster,
    /// The topics that are there from the start.
    pub topics: Vec<Topic>,
    /// What clients do all the time.
    pub workload: Workload,
    /// What may happen to every message.
    pub network: Network,
    /// What may happen at every step of a disk.
    pub disk: Disk,
    /// How the abstract log misbehaves.
    pub abstract_log: AbstractLog,
    /// What happens every now and then; see [`Scenario::planned`].
    pub chance: Chances,
    /// What is done to the world.
    pub steps: Vec<Step>,
    /// What must come true.
    pub expects: Vec<Expect>,
}

section! {
    /// What a scenario is called and how long it goes.
    pub struct Head {
        /// Its name; the file's name without its ending where it is not given.
        "name" name: def String = String::new() => "\"h01-late-flip\"";
        /// What it shows, in one line.
        "title" title: def String = String::new() => "\"A flip that commits after the freeze has run out\"";
        /// Numbers of the holes (H1), invariants (S2, L1), cases (C45) and field faults (FF9) that
        /// it is about.
        "covers" covers: def Vec<String> = Vec::new() => "[\"H1\", \"S2\"]";
        /// The seed, where the command gives none.
        "seed" seed: def u64 = 1 => "1";
        /// How long the first phase takes, in which anything may go wrong.
        "safety" safety: def Duration = Duration::from_secs(30) => "\"30s\"";
        /// How long the second phase takes at most: what `heals` says is made whole, and everything
        /// must finish or say why not. 0 leaves it out.
        "liveness" liveness: def Duration = Duration::from_mins(1) => "\"60s\"";
        /// What is made whole for the second phase.
        "heals" heals: def Heals = Heals::All => "\"core\"";
        /// Invariants of which it violates one or more once the bug of the hole that it is named
        /// after is planted; none where another rule stands in the way of harm, and `expect` where
        /// nothing but an expectation of the file can tell. A run does not look at it: the tests
        /// of the files under `scenarios/` do.
        "violates" violates: def Vec<String> = Vec::new() => "[\"S2\"]";
    }
}
