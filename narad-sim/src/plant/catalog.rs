//! Every mistake that can be planted, and what of the protocol has nothing to plant yet.

mod first_holes;
mod later_holes;
mod other_slips;
mod protocol_slips;

use super::{NotYet, Plant};

/// The catalogue's parts, in its order: holes by their number, then slips by theirs.
pub(super) const PARTS: [&[Plant]; 4] =
    [first_holes::FIRST, later_holes::LATER, protocol_slips::PROTOCOL, other_slips::OTHER];

/// Rules of holes that wait for code.
pub(super) const NOT_YET: &[NotYet] = &[
    NotYet {
        hole: 14,
        reason: "that an old owner produces its residue again waits for salvage; that nothing of \
                 it is removed before is h14",
    },
    NotYet {
        hole: 23,
        reason: "that accept never waits for a partition waits for ingress; that half of a topic \
                 stays writable is h23",
    },
    NotYet {
        hole: 28,
        reason: "that late acknowledgements are forwarded to the new owner waits for cursors; \
                 that a deposed owner stops to take them is h28",
    },
    NotYet {
        hole: 37,
        reason: "what a leaving node has accepted waits for ingress, so that today only residue \
                 is left unseen by h37",
    },
    NotYet {
        hole: 47,
        reason: "that records of a deleted topic are dropped waits for ingress; that its moves \
                 end is h47",
    },
];
