//! Every schedule of a small world: an exhaustive search over the real machines.
//!
//! # Purpose
//!
//! A sweep draws schedules; this walks *all* of them, within stated bounds, and so finds what a
//! sweep only meets by luck, with the shortest schedule that leads there. Its world is a few whole
//! [`Node`](narad_core::node::Node)s with their gates and disks, one partition, the replicated
//! state as a log that is a value, and what is on the wire. All of them are `Clone + Hash`, so a
//! state of the world is a value and has a name of 128 bits; the search is breadth first over
//! names that it has not seen.
//!
//! ```text
//!            apply, carry out, deliver, append, acknowledge, plan      (goes on by itself)
//!   state ──▶ crash, restart, cut, heal, lose, delay, duplicate,       (faults, by budget)
//!            cancel, declare dead or lost, delete, let time pass
//!        ──▶ next states, each judged: S1 S2 S3 S4 S6 S8 S9 S10 S16 S18, and L1 L2 where a path ends
//! ```
//!
//! # What bounds it
//!
//! By itself the world goes on *promptly*: whatever can go on does so at once, in one order. Every
//! deviation is a fault: a crash, a loss, and also a mere delay of one message, entry or append
//! (delay-bounded scheduling, as in Emmi, Qadeer and Rakamarić, POPL 2011). Each kind of fault has a
//! budget, and all of them together have one, [`Options::faults`]: the default walks every schedule
//! with at most two faults, at every place. What is free, at any time: records, restarts, the end of
//! a delay or of a cut, the next plan. Time stands still until somebody would have to wait for it
//! (`explore/clock.rs`).
//!
//! # What makes it small enough
//!
//! - States that differ by a shift of all instants, or by how operations are numbered, go on alike
//!   and have one name (`explore/hash.rs`, `explore/name.rs`): `OpId` and `Instant` hash as numbers
//!   of a width of their own, which the hasher knows and counts anew. So do states that differ only
//!   in a budget which can make no difference any more.
//! - Once all faults are spent, a state with one choice is passed through without a name, in place.
//! - A node's disk work is done before the next event there, but for a crash (not if order is fine).
//! - What is tried in vain at somebody who is down is passed over.
//!
//! # Divergence from reality
//!
//! The log leads itself: no election, no deposed leader (sweeps and crash points have those); a proposal is committed at most once,
//! unless it is duplicated, and at any later time. Operations that touch no disk are carried out at
//! once (see `explore/driver.rs`; [`Order::Fine`] makes each an event of its own). An append is
//! durable at once or not at all. All clocks are one.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//! use narad_sim::explore::{Options, run};
//!
//! let options = Options { faults: 0, records: 1, ..Options::default() };
//! let outcome = run(&options, &mut |_| ControlFlow::Continue(()));
//! assert!(outcome.complete && outcome.counter_example.is_none(), "{outcome}");
//! ```

mod action;
mod budget;
mod check;
mod clock;
mod disk;
mod driver;
mod hash;
mod log;
mod name;
mod perform;
mod process;
mod report;
mod search;
mod take;
mod tell;
#[cfg(test)]
mod tests;
mod world;

use std::ops::ControlFlow;

use serde::Serialize;

pub use report::{CounterExample, Step};

use budget::Budget;

/// How freely the events of a search are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// What can go on does so at once and in one order; whatever is late counts as a fault, and
    /// comes at any time then. Records, restarts, plans and faults come at any time.
    #[default]
    Prompt,
    /// In any order, but a node's work on its disk, which is done before the next event there.
    Any,
    /// In any order, and every operation is an event of its own.
    Fine,
}

/// The bounds of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, clap::Args)]
pub struct Options {
    /// Nodes; the first owns the partition. 2 to 4.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=4))]
    pub nodes: u8,
    /// Records that are produced, at any time, at whoever takes them; one more is there already.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=8))]
    pub records: u8,
    /// Moves that are planned. With two, the second may lead back.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub moves: u8,
    /// Faults of all kinds together on one path; the larger, the longer it takes.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=16))]
    pub faults: u8,
    /// Crashes; a node may start again at any later time.
    #[arg(long, default_value_t = 2)]
    pub crashes: u8,
    /// Messages, answers and proposals that are lost, or arrive after they were given up.
    #[arg(long, default_value_t = 2)]
    pub losses: u8,
    /// Messages, entries to be applied and appends that take their time, while the rest goes on;
    /// only where order is prompt, since any order has them anyway.
    #[arg(long, default_value_t = 2)]
    pub delays: u8,
    /// Messages and proposals that arrive twice.
    #[arg(long, default_value_t = 1)]
    pub duplicates: u8,
    /// Times at which the clock goes on although something else could happen: a freeze runs out, a
    /// pause ends, a lease lapses while messages are under way.
    #[arg(long, default_value_t = 2)]
    pub expiries: u8,
    /// Death certificates. A node must have been silent for long enough, so it must have crashed
    /// or be cut off.
    #[arg(long, default_value_t = 1)]
    pub kills: u8,
    /// Times at which a node is cut off from the log, or from everybody; it may be reached again at
    /// any later time.
    #[arg(long, default_value_t = 1)]
    pub cuts: u8,
    /// Moves that are cancelled; what is planned next counts as a move of its own.
    #[arg(long, default_value_t = 1)]
    pub cancels: u8,
    /// Times at which an operator gives up what a dead owner has (H39).
    #[arg(long, default_value_t = 1)]
    pub declares: u8,
    /// Times at which an operator deletes the topic (H26, H47); a move of it is over then.
    #[arg(long, default_value_t = 1)]
    pub deletes: u8,
    /// Pauses that are waited for on one path when nothing else can happen.
    #[arg(long, default_value_t = 4)]
    pub pauses: u8,
    /// How freely events are ordered.
    #[arg(long, value_enum, default_value_t = Order::Prompt)]
    pub order: Order,
    /// Most states; the search says so if it ends there.
    #[arg(long, default_value_t = 20_000_000)]
    pub states_max: u64,
    /// Longest path, in events.
    #[arg(long, default_value_t = 1_000)]
    pub depth_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 2,
            records: 1,
            moves: 1,
            faults: 2,
            crashes: 2,
            losses: 2,
            delays: 2,
            duplicates: 1,
            expiries: 2,
            kills: 1,
            cuts: 1,
            cancels: 1,
            declares: 1,
            deletes: 1,
            pauses: 4,
            order: Order::Prompt,
            states_max: 20_000_000,
            depth_max: 1_000,
        }
    }
}

impl Options {
    const fn budget(&self) -> Budget {
        Budget {
            faults: self.faults,
            records: self.records,
            moves: self.moves,
            cancels: self.cancels,
            crashes: self.crashes,
            losses: self.losses,
            delays: self.delays,
            duplicates: self.duplicates,
            expiries: self.expiries,
            kills: self.kills,
            cuts: self.cuts,
            declares: self.declares,
            deletes: self.deletes,
            pauses: self.pauses,
        }
    }
}

/// How far a search has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Different states met.
    pub states: u64,
    /// Events taken, the ones that led to a known state included.
    pub transitions: u64,
    /// Events from the beginning to the states that are looked at now.
    pub depth: u32,
    /// States that are yet to be looked at.
    pub frontier: u64,
    /// Events that only the budget forbade.
    pub cut: u64,
    /// Paths that came to an end.
    pub ends: u64,
}

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// [`Options::states_max`] was reached.
    States,
    /// [`Options::depth_max`] was reached.
    Depth,
    /// Whoever watched said so.
    Interrupted,
}

/// What a search has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its bounds.
    pub options: Options,
    /// Its size.
    pub size: Progress,
    /// Whether every schedule within the bounds was walked.
    pub complete: bool,
    /// Why not, unless an invariant was broken.
    pub stopped: Option<Stop>,
    /// The shortest schedule that breaks an invariant.
    pub counter_example: Option<CounterExample>,
}

/// A rule of the driver that is broken on purpose, to show that the search would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breakage {
    /// A flip whose answer is lost is taken to have failed: the copy is removed (H2).
    UnknownIsFailed,
    /// A freeze that runs out ends at once, without the log (H1).
    ResumeOnExpiry,
    /// A node that starts serves before its life is registered (H6).
    ServeUnregistered,
    /// The check before an append leaves no trace at the gate (H7).
    CheckThenAppend,
    /// A lease never ends (H9).
    LeaseIgnored,
    /// A copy is not durable when it is installed (H17).
    InstallNotDurable,
}

/// Walks every schedule within the bounds, until one breaks an invariant.
///
/// `watch` is called now and then; it may end the search. The same options give the same outcome,
/// on every machine.
///
/// A panic of a machine is a counter-example like any other.
pub fn run(options: &Options, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Outcome {
    search::run(options, None, watch)
}
