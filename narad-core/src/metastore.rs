//! The replicated state: a pure fold over guarded commands.
//!
//! # Purpose
//!
//! Says for every partition who serves it, where it should end up, and what may still change
//! that. Every node applies the same entries in the same order, so every node's [`State`] is the
//! same as of the same [`State::applied`]. Nothing else is agreed on, and no clock takes part: of
//! two commands that exclude each other, the first in the log wins.
//!
//! # States
//!
//! One row, [`Assignment`]; `e` is its epoch, `m` its move id:
//!
//! ```text
//!                       SetTarget  m+1
//!   AssignPartition   ┌───────────────▶┌──────────────────┐──┐ SetTarget  m+1
//! ──────────────────▶ │ stable         │ moving to target │  │ Report, Resolve, Revoke
//!   e=1, m=1          │◀───────────────└──────────────────┘◀─┘
//!                     │  ClearTarget  m+1        │
//!                     │◀─────────────────────────┘
//!                     │  CompleteMove  e+1, m+1: the target is the owner
//!                     │◀── DeclareLost e+1, m+1, from either
//! ```
//!
//! One member, [`Member`]:
//!
//! ```text
//!   Join        Register        MarkDead
//! ──────▶ new ──────────▶ alive ─────────▶ dead      Retire, from alive or dead, draining and
//!                           ◀─────────────           empty ──▶ retired, for ever
//!                             Register, next life
//! ```
//!
//! # Invariants
//!
//! 1. Epoch, move id, incarnation, generation, `burned` within a move, `revoked` and
//!    `reported_hwm` within an epoch never decrease (S16).
//! 2. An owner and a target are members that are not retired, and never the same (S15).
//! 3. The lineage ends with the present reign; its epochs and its starts ascend, and `min_end` is
//!    the start of the present reign (H15, H25).
//! 4. What speaks for a node comes from that node: a flip and a `Resolve` from the destination, a
//!    `Revoke` from the owner, a `Register`, `Report`, `DrainedOut` or `ReclaimReady` from the
//!    node itself (S18).
//! 5. A rejected command changes nothing, and an entry that is in the log twice changes nothing
//!    the second time (case 144).
//! 6. The sets that readers ask for equal what a scan of all rows would find.
//! 7. Before a partition of a Dead node may be promoted, every lease that its dead life may hold
//!    has run out, whatever policies were in force meanwhile (H9; [`member::Timing`]).
//!
//! # After a restart
//!
//! [`State::from_parts`] of the stored snapshot, then the entries after [`State::applied`]. The
//! snapshot and its index are stored together; an entry at or before that index is refused.
//!
//! # Example
//!
//! One partition moves; the same flip, sent again, is told that it has won:
//!
//! ```
//! use narad_core::ids::*;
//! use narad_core::metastore::*;
//!
//! let mut state = State::new();
//! let mut log = 0;
//! let mut propose = |by: u64, command: Command| {
//!     log += 1;
//!     let proposal =
//!         ProposalId { node: NodeId(by), incarnation: Incarnation(1), sequence: log };
//!     let entry = Entry { proposal, by: NodeId(by), command };
//!     state.apply(LogIndex(log), &entry).expect("this build knows every command").reply
//! };
//!
//! for node in [1, 2] {
//!     let name = Name::new(format!("narad-{node}"))?;
//!     let (store_uuid, addrs) = (StoreUuid(node.into()), Addresses::default());
//!     let incarnation = Incarnation(1);
//!     propose(node, Command::Join { name, store_uuid, addrs: addrs.clone() });
//!     propose(
//!         node,
//!         Command::Register { node: NodeId(node), store_uuid, incarnation, addrs },
//!     );
//! }
//! propose(1, Command::CreateTopic { name: Name::new("orders")?, partitions: 1, parent: None });
//! let partition = PartitionId { topic: TopicId(5), index: 0 };
//! propose(1, Command::AssignPartition { partition, node: NodeId(1) });
//!
//! let expect = Expect { owner: NodeId(1), epoch: Epoch(1), move_id: MoveId(1) };
//! propose(1, Command::SetTarget { partition, expect, to: NodeId(2) });
//!
//! let incarnation = Incarnation(1);
//! let attempt = Attempt {
//!     move_id: MoveId(2),
//!     destination: NodeId(2),
//!     no: AttemptNo { incarnation, n: 0 },
//! };
//! let token = Token { epoch: Epoch(1), no: FreezeNo { incarnation, counter: 1 } };
//! let flip = Command::CompleteMove {
//!     partition,
//!     expect: Expect { move_id: MoveId(2), ..expect },
//!     attempt,
//!     fence: Fence::Normal { token },
//!     end: Offset(120),
//!     hwm: Offset(100),
//!     committed: None,
//!     digest: Digest(7),
//! };
//! let won = Reply::Applied(Applied::Won(Epoch(2)));
//! assert_eq!(propose(2, flip.clone()), won);
//! assert_eq!(propose(2, flip), won);
//! assert_eq!(state.assignment(partition).map(|row| row.owner), Some(NodeId(2)));
//! # Ok::<(), NameError>(())
//! ```

mod apply;
pub mod assignment;
pub mod command;
pub mod member;
#[cfg(test)]
mod tests;
pub mod topic;

pub use apply::{Changed, Halt, Outcome, Parts, PartsError, SUPPORTED_VERSION, State, Verdict};
pub use assignment::{Assignment, Expect, Reign, Residue};
pub use command::{Applied, Command, Entry, Fence, Reason, Reply};
pub use member::{Addresses, Configuration, Member, Status, Timing};
pub use topic::Topic;
