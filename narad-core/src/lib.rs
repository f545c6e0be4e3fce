//! Sans-IO state machines that move partitions of a log between nodes without losing an
//! acknowledged record.
//!
//! A partition lives on exactly one node's disk; nothing is replicated but the [table of who serves
//! what](metastore). This crate decides: when to copy, when to freeze, what proves that a copy is
//! whole, who may flip the ownership, what to do about a node that died, and what to do when nobody
//! knows whether something happened. It has no clock, file, socket, thread, random number, async or
//! log line in it: a *driver* turns the outside into events and effects into the outside. The same
//! machines therefore run in a broker, in an embedder's service and under a simulator.
//!
//! # How every machine is used
//!
//! A machine is a value. It is made with `new`, told things with `handle`, and says in `deadline`
//! when it wants to be told that time has passed. Starting and starting again are the same call.
//!
//! 1. **Every call is complete.** Whatever a call leads to is in its [`Effects`](effects::Effects)
//!    when it returns; nothing is kept back for a later one.
//! 2. **One answer for each operation.** `Run(id, operation)` is answered by one `Done(id, outcome)`,
//!    unless the process ends first. `Cancel` is a wish: the answer still follows. A machine is over
//!    only once its last operation has been answered, so nothing writes behind its back.
//! 3. **No order within a batch.** The effects of one call may be run in any order, or at once. Where
//!    order matters, the second step is asked for by the answer to the first. Each such point is a
//!    place where a process may die, and the tests of this crate kill it there.
//! 4. **Failures are events.** `handle` returns nothing. A full disk, a lost answer or a peer that
//!    talks nonsense comes in as an outcome; only a broken invariant panics.
//! 5. **Unknown is not failed.** What changes shared state may end in
//!    [`Proposed::Unknown`](proposals::Proposed::Unknown). After it only the very same command, a
//!    read behind a barrier, or a [`Resolve`](metastore::Command::Resolve) may follow.
//! 6. **Time is an argument.** An [`Instant`](time::Instant) is one node's own and never crosses the
//!    wire. Jitter comes from a seed in the [`Config`](config::Config).
//! 7. **The payload stays outside.** Records go from the peer to a staging file within the driver.
//!    The machines see offsets, lengths and checksums, and make every decision.
//! 8. **Everything has a limit** with a name: operations under way, effects of one event, attempts
//!    remembered.
//! 9. **States are values** that can be cloned, compared and hashed, so that they can be explored.
//!    A proof is a type that cannot: a [`FlipPermit`](promote::FlipPermit) comes from
//!    [`promote`] and from nowhere else.
//! 10. **Notes are the telemetry.** A driver makes log lines and metrics of them; tests compare them.
//!
//! # A tour
//!
//! Begin with the nouns in [`ids`] and the row in [`metastore::assignment`]: owner, epoch, target,
//! move id, attempt. Then read along a move:
//!
//! | question | read |
//! |---|---|
//! | What do all nodes agree on, and what rejects a late command? | [`metastore`] |
//! | Who decides what moves where, and who is dead? | [`plan`], then [`controller`] |
//! | How does a copy get from one node to another? | [`mover`] |
//! | What keeps a record from landing behind the copy? | [`freeze`]: the [gate](freeze::gate) that every append passes, and the [hand-off](freeze::handoff) that freezes it |
//! | What proves that a copy may take over? | [`promote`] |
//! | Why can a node that is cut off not go on writing? | [`lease`] |
//! | Who opens the log, and who may not? | [`host`] |
//! | Which record does a consumer get next, and which acknowledgement counts? | [`cursor`] |
//! | How does a record that any node accepted get to its owner? | [`dispatch`] |
//! | What became of a proposal? | [`proposals`] |
//! | How do all of these make one node? | [`node`], the only machine that a driver binds, gates aside; `cursor` is bound by none yet |
//! | What do nodes say to one another? | [`peer`], [`partition`] |
//! | What can be tuned, and what must not be? | [`config`] |
//!
//! **What happens when the flip's answer is lost?** Nothing is undone. The destination keeps the
//! directory as it is, since it may be live already, and proposes the byte-identical command again
//! (module `mover::flip`): if the first had won, the second is told so (the lineage in
//! [`metastore::Assignment`] remembers the attempt). If nobody can be reached for as long as a freeze
//! may last, or after a restart, it asks the log instead:
//! [`Command::Resolve`](metastore::Command::Resolve) answers
//! [`Won`](metastore::Applied::Won), or burns the attempt, after which it can never win; only then is
//! the directory touched. The proposal itself is followed by [`proposals`], on behalf of [`node`].
//! Meanwhile the source stays frozen until the log has spoken: a flip or a
//! [`Revoke`](metastore::Command::Revoke), whichever comes first.
//!
//! # The machines and their states
//!
//! ```text
//!                          node ── one of them for each node; a driver binds this
//!        ┌──────────┬────────┼──────────┬───────────┬──────────┐
//!      lease    proposals  metastore  controller   dispatch    one of each, for the node
//!                                     │ plan
//!                                     │ promote
//!        ┌──────────┬────────┐
//!      mover       host   handoff ··· gate                     one of each for a partition in play
//! ```
//!
//! A state is drawn where its machine is; these lead there.
//!
//! | machine | states | where |
//! |---|---|---|
//! | takes a copy, and the ownership with it | locate, settle, catch up, preflight, prepare, drain, verify, install, flip | [`mover`](mover#states) |
//! | serves, freezes and gives away, as the source | open, freezing, held, revoking, thawing, voided | [`freeze::handoff`](freeze::handoff#states) |
//! | lets an append pass, or not | closed, reading, serving; and open, freezing, frozen | [`freeze::gate`](freeze::gate#states) |
//! | opens the log that is live, and no other | absent, opening, exposing, open, closing, resting | [`host`](host#states) |
//! | may commit, in this life and for so long | registering, registered, reviving, superseded | [`lease`](lease#states) |
//! | follows a proposal to its fate | open, replied, unknown | [`proposals`](proposals#states) |
//! | leads: deaths, promotions, targets, members | following, idle, surveying, proposing | [`controller`](controller#states) |
//! | keeps what was accepted until its owner has it | of a record: unplaced, waiting, bound, arrived | [`dispatch`](dispatch#states) |
//! | hands records to consumers | of a record: new, held, resting, free, acknowledged; of itself: serving, captured, moved | [`cursor`](cursor#states) |
//! | agrees with all others on rows and members | of a row: stable, moving; of a member: new, alive, dead, retired | [`metastore`](metastore#states) |
//! | owns all of them | starting, registered, retired | [`node`](node#states) |
//!
//! The planner ([`plan`](plan#states)) and [`promote`] are functions, and keep nothing.
//!
//! # One move, driven to its end by hand
//!
//! Node 2 takes partition `t1/0` from node 1. The test plays the driver: it is the network, the disk
//! and the log, and it loses the answer to the flip.
//!
//! ```
//! use narad_core::config::Config;
//! use narad_core::effects::{Effects, OpId};
//! use narad_core::ids::*;
//! use narad_core::metastore::{Applied, Assignment, Command, Reply};
//! use narad_core::mover::{Copied, Effect, Event, Me, Mover, Note, Operation, Outcome};
//! use narad_core::partition::*;
//! use narad_core::proposals::Proposed;
//! use narad_core::time::Instant;
//!
//! let partition = PartitionId { topic: TopicId(1), index: 0 };
//! let me = Me { node: NodeId(2), incarnation: Incarnation(1) };
//! let mut now = Instant::ORIGIN;
//! let mut out = Effects::default();
//! let mut driver = Driver::default();
//!
//! /// What is wanted and not done yet, and what was noted.
//! #[derive(Default)]
//! struct Driver {
//!     wanted: Vec<(OpId, Operation)>,
//!     notes: Vec<Note>,
//! }
//!
//! impl Driver {
//!     /// Takes the next thing to do. Where there are several, any of them may be next.
//!     fn next(&mut self, out: &mut Effects<Effect>) -> (OpId, Operation) {
//!         for effect in out.drain() {
//!             match effect {
//!                 Effect::Run(op, operation) => self.wanted.push((op, operation)),
//!                 Effect::Note(note) => self.notes.push(note),
//!                 Effect::Cancel(op) => panic!("nothing is given up here: {op:?}"),
//!             }
//!         }
//!         self.wanted.pop().expect("something is wanted")
//!     }
//! }
//!
//! // The disk has nothing of the partition, so the move begins at its beginning.
//! let mut mover = Mover::new(now, me, partition, Config::new(7), Recovered::default(), &mut out);
//!
//! // 1. The row is read behind a barrier: a plan on a stale row is no plan.
//! let (op, operation) = driver.next(&mut out);
//! assert_eq!(operation, Operation::ReadRow);
//! let row = Assignment {
//!     owner: NodeId(1), epoch: Epoch(1), data: Attempt::birth(NodeId(1)), min_end: Offset(0),
//!     lineage: vec![], lineage_cut: false, target: Some(NodeId(2)), move_id: MoveId(4),
//!     burned: None, revoked: None, reported_hwm: None, pinned: false,
//! };
//! mover.handle(now, Event::Done(op, Outcome::ReadRow(Ok(Some(row)))), &mut out);
//!
//! // 2. The source says what is durable there. It notes that the partition is in play before it
//! //    answers: from now on it commits only while it holds a lease.
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::List { source: NodeId(1), move_id: MoveId(4), .. }));
//! let checksum = Checksum(0xfeed);
//! let extent = Extent {
//!     base: Offset(0), end: Offset(10), bytes: ByteCount(400), checksum, sealed: false,
//! };
//! let listing = Listing {
//!     incarnation: Incarnation(3), generation: LogGeneration(1), epoch: Epoch(1),
//!     start: Offset(0), end: Offset(10), hwm: Offset(9), extents: vec![extent], agreed: vec![],
//! };
//! mover.handle(now, Event::Done(op, Outcome::List(Ok(listing.clone()))), &mut out);
//!
//! // 3. A manifest is made durable before the first byte is fetched: it remembers, also after a
//! //    restart, that a session of this very move has reached the source.
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::Checkpoint(_)));
//! mover.handle(now, Event::Done(op, Outcome::Checkpoint(Ok(()))), &mut out);
//!
//! // 4. Bytes are copied while the source goes on serving. The machine names ranges; it never sees
//! //    a byte.
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::Copy { position: 0, bytes: 400, .. }));
//! let staged = Staged { base: Offset(0), bytes: ByteCount(400), checksum };
//! let copied = Copied { staged, throttled: Default::default() };
//! mover.handle(now, Event::Done(op, Outcome::Copy(Ok(copied))), &mut out);
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::Checkpoint(_)));
//! mover.handle(now, Event::Done(op, Outcome::Checkpoint(Ok(()))), &mut out);
//!
//! // 5. A little later the source is asked again; it has nothing new, so the rest is small enough to
//! //    freeze for.
//! now = mover.deadline().expect("the next pass").at;
//! mover.handle(now, Event::Wake, &mut out);
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::List { .. }));
//! mover.handle(now, Event::Done(op, Outcome::List(Ok(listing.clone()))), &mut out);
//!
//! // 6. Before anybody freezes anything, two questions at once: does this disk take a write, and is
//! //    there a leader who could apply the flip?
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::Probe { .. }));
//! mover.handle(now, Event::Done(op, Outcome::Probe(Ok(()))), &mut out);
//! let (op, operation) = driver.next(&mut out);
//! assert_eq!(operation, Operation::ReachLeader);
//! mover.handle(now, Event::Done(op, Outcome::ReachLeader(Ok(()))), &mut out);
//!
//! // 7. The source freezes and says, under its gate's mutex, what the copy must reproduce.
//! let (op, operation) = driver.next(&mut out);
//! let Operation::Prepare { attempt, .. } = operation else { panic!("{operation:?}") };
//! let no = FreezeNo { incarnation: Incarnation(3), counter: 1 };
//! let capture = Capture {
//!     token: Token { epoch: Epoch(1), no },
//!     listing,
//!     position: Position { committed: Some(Offset(5)), acked_ahead: vec![] },
//!     digest: Digest(0xd1),
//! };
//! mover.handle(now, Event::Done(op, Outcome::Prepare(Ok(capture))), &mut out);
//!
//! // 8. Nothing was written since, so nothing is left to drain. The copy is read back: it must be
//! //    the source's, byte for byte. Without this there is no permit to flip.
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(operation, Operation::Verify(Boundary { end: Offset(10), .. })));
//! let verified = Verified { start: Offset(0), end: Offset(10), digest: Digest(0xd1) };
//! mover.handle(now, Event::Done(op, Outcome::Verify(Ok(verified))), &mut out);
//!
//! // 9. It becomes a durable directory with a name of its own; no other is removed or replaced.
//! let (op, operation) = driver.next(&mut out);
//! assert!(matches!(&operation, Operation::Install { sidecar, .. } if sidecar.hwm == Offset(9)));
//! mover.handle(now, Event::Done(op, Outcome::Install(Ok(()))), &mut out);
//!
//! // 10. One guarded entry makes this node the owner. Its answer is lost.
//! let (op, Operation::Propose(flip)) = driver.next(&mut out) else { panic!() };
//! assert!(matches!(flip, Command::CompleteMove { .. }));
//! mover.handle(now, Event::Done(op, Outcome::Propose(Proposed::Unknown)), &mut out);
//!
//! // 11. Unknown is not failed: after a pause the very same command is proposed again, and the log,
//! //     which had applied the first, says so.
//! now = mover.deadline().expect("it tries again").at;
//! mover.handle(now, Event::Wake, &mut out);
//! let (op, again) = driver.next(&mut out);
//! assert_eq!(again, Operation::Propose(flip));
//! assert!(!mover.is_over());
//! let won = Proposed::Replied(Reply::Applied(Applied::Won(Epoch(2))));
//! mover.handle(now, Event::Done(op, Outcome::Propose(won)), &mut out);
//!
//! assert!(mover.is_over());
//! assert!(driver.notes.contains(&Note::FlipUnknown { attempt }));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod config;
pub mod controller;
pub mod cursor;
pub mod dispatch;
pub mod effects;
pub mod freeze;
pub mod host;
pub mod ids;
pub mod lease;
pub mod metastore;
pub mod mover;
pub mod node;
pub mod partition;
mod pause;
pub mod peer;
pub mod plan;
#[cfg_attr(not(feature = "planted-bugs"), doc(hidden))]
pub mod planted;
pub mod promote;
pub mod proposals;
mod rate;
pub mod time;
