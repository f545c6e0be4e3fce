//! A laboratory for Narad: whole nodes under simulated time, network, disks and processes.
//!
//! A cluster here is a function of a scenario and a seed. Every step of every disk, every message and
//! every tick can fail, be late, come twice or be the last one, and the same seed does the same again.
//! While it goes on, an [oracle] checks the invariants S1 to S18 and L1 to L7 against what is on the
//! disks and in the log, not against what nodes say of themselves.
//!
//! Most people want the command: `narad-sim help`, and README.md, "Run an experiment". This crate is for
//! driving the same from Rust.
//!
//! # What is real
//!
//! | part of a node | in the world |
//! |---|---|
//! | decisions: mover, freeze, promotion, planner, controller, lease | real, `narad_core::node::Node` |
//! | replica: from Raft's log to the node, proposals, barriers | real, `narad_runtime::replica` |
//! | Raft | real, `raft-rs` with its election timeouts drawn from the seed; or an [abstract log](metastore::AbstractLog) |
//! | segment log, recovery, staging, quarantine, salvage's directories | real, `narad_runtime::{log, store}` |
//! | gate and acknowledgement of records | real, `narad_runtime::broker` |
//! | the disk below them | simulated, `narad_runtime::disk::MemDisk`: what is synced, what is pending |
//! | sockets, HTTP, threads, tokio | not there: a message is a value on a simulated [wire](net) |
//! | clocks | simulated, one for each machine, with errors of rate, jumps and suspends ([`clock`]) |
//! | producers, consumers, operators | simulated, by a [scenario](mod@scenario) |
//!
//! # A tour
//!
//! ```text
//!            Scenario ── drawn from a seed, or read from a file
//!               │ run
//!               ▼
//!   script ──▶ World ──▶ machines: Node + replica + store over a disk of their own
//!   (steps)     │  ▲         │
//!               │  └─ queue ─┘ every effect and message is an event of its own: a crash fits between any two
//!               │ facts
//!               ▼
//!            Oracle ──▶ Violations ─┐
//!               recorder ──▶ Lines ─┴▶ Summary ──▶ sweep, shrink, replay, report
//! ```
//!
//! - [`mod@scenario`] is the experiment as plain data: [`parse`](scenario::Scenario::parse) reads it,
//!   [`draw`](scenario::Scenario::draw) invents one from a seed or from a fuzzer's bytes.
//! - [`run::run`] carries one out: first a *safety* phase, in which anything may happen, then a
//!   *liveness* phase, in which a core is healed and everything must finish or say why not.
//! - [`outcome::Summary`] is what it came to; [`trace::Line`]s are what happened.
//! - [`sweep`] runs many, [`mod@shrink`] makes a failure small, [`replay`] steps through one,
//!   [`report`] draws pages, [`plant`] breaks a rule on purpose, and [`mod@explore`] walks *every*
//!   schedule of a small world instead of some schedules of a large one.
//!
//! # Examples
//!
//! Flips are kept back until their freeze has been revoked. They must lose, and the move must end all
//! the same:
//!
//! ```
//! use narad_sim::run::{RunOptions, run};
//! use narad_sim::scenario::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     safety = "20s"
//!
//!     [[topic]]
//!     name = "orders"
//!     owners = ["n1"]
//!     preload = 50
//!
//!     [[step]]
//!     at = "2s"
//!     do = "move"
//!     partition = "orders/0"
//!     to = "n2"
//!
//!     [[step]]
//!     on = { effect = "flip", node = "n2", times = 0 }
//!     label = "late-flip"
//!     do = "hold"
//!
//!     [[step]]
//!     on = { committed = "revoke", partition = "orders/0" }
//!     since = "late-flip"
//!     after = "500ms"
//!     do = "release"
//!     of = "late-flip"
//!
//!     [[expect]]
//!     count = { of = "flips-rejected", at_least = 1 }
//!     owner = { partition = "orders/0", is = "n2" }
//!     "#,
//!     "late-flip.toml",
//! )?;
//! let summary = run(&scenario, RunOptions::default()).summary;
//! assert_eq!(summary.violations, []);
//! # Ok::<(), narad_sim::scenario::ScenarioError>(())
//! ```
//!
//! A seed is a whole experiment, and gives the same trace wherever it runs:
//!
//! ```
//! use std::time::Duration;
//!
//! use narad_sim::random::Random;
//! use narad_sim::run::{RunOptions, run};
//! use narad_sim::scenario::{DrawOptions, Scenario};
//!
//! let short = DrawOptions { safety: Some(Duration::from_secs(3)), ..DrawOptions::default() };
//! let scenario = Scenario::draw(&mut Random::root(7), &short);
//! let hash = || run(&scenario, RunOptions::default()).summary.trace_hash;
//! assert_eq!(hash(), hash());
//! ```
//!
//! # How determinism is kept
//!
//! - One thread runs one world, and reads no clock but [`time::Time`], which is the queue's. Events are
//!   ordered by instant, and of one instant by when they were scheduled.
//! - All chance is one tree ([`random::Random`]): every subsystem draws from a branch of its own name,
//!   so that a draw that is added here moves nothing there. Raft's own random timeouts are set from it.
//! - Nothing iterates in an order of its own: no `HashMap` with a random state, no addresses, no floats
//!   in decisions. The crate's clippy configuration bans the types that would.
//! - Watching changes nothing: lines are made for whoever asks, after the event.
//! - Every event, effect, message and line goes into [`trace_hash`](outcome::Summary::trace_hash). Tests
//!   and the gate compare it between two runs, between threads, and between debug and release (S17).
//!
//! # Divergence from reality
//!
//! What a run cannot show, in one place; the modules have the details.
//!
//! - *Threads.* A node never does two things at once. Races inside of one process belong to the tests
//!   of `narad-runtime`, which run its threads.
//! - *Connections.* There are none to make, lose or mix up: a message arrives or does not, and who sent
//!   it is known ([`net`]). A copied range is one message that takes as long as its bytes.
//! - *Disks.* A step is all or nothing while the power is on; unsynced names survive a power loss in any
//!   order, as without a journal. Raft's own store commits at once and loses only what was not synced.
//! - *Time.* Computing takes none. Work on a disk takes what the scenario draws.
//! - *The abstract log* has no votes, terms or log conflicts; that is what `metastore = "raft"` is for.
//! - *Clients* speak to a node directly, not by HTTP, and know each record by its number.

#[doc(hidden)]
pub mod cli;
pub mod clock;
pub mod crash_points;
pub mod explore;
#[doc(hidden)]
pub mod guard;
#[doc(hidden)]
pub mod hunt;
pub mod lab;
pub mod metastore;
pub mod narad;
pub mod net;
pub mod oracle;
pub mod outcome;
pub mod placement;
pub mod plant;
pub mod random;
pub mod record;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod world;
