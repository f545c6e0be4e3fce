//! The source side of a move: no record lands behind the copy, and no freeze outlasts its use.
//!
//! Two machines and a measure:
//!
//! - [`Gate`] stands beside one partition's log writer, under the same mutex. Every append passes
//!   it before and after. It is where a freeze takes hold.
//! - [`Handoff`] is the node's side of one reign over one partition: it answers destinations,
//!   decides when to freeze and proposes the `Revoke` that ends a freeze. It reaches its gate by
//!   operations only.
//! - the duty measure bounds the share of time for which a partition may be frozen.
//!
//! **One log decides.** A freeze that a destination has been told of ends when a `Revoke` of its
//! token, or a later row, is *applied*; whichever of the flip and the revoke is first in the
//! replicated log wins, and no clock takes part in it (H1). Clocks only decide when to propose.
//!
//! Consumers are never frozen (R48), other partitions know nothing of it (R44), and accept never
//! looks at it (L4).

pub(crate) mod duty;
pub mod gate;
pub mod handoff;

#[cfg(test)]
mod model;

pub use gate::{Authority, Gate};
pub use handoff::Handoff;
