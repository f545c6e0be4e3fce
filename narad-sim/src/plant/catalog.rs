//! Every mistake that can be planted, and what of the protocol has nothing to plant yet.

mod data_slips;
mod first_holes;
mod later_holes;
mod other_slips;
mod protocol_slips;

use super::{NotYet, Plant};

/// The catalogue's parts, in its order: holes by their number, then slips by theirs.
pub(super) const PARTS: [&[Plant]; 5] = [
    first_holes::FIRST,
    later_holes::LATER,
    protocol_slips::PROTOCOL,
    other_slips::OTHER,
    data_slips::DATA,
];

/// Rules of holes that wait for code: none at present.
pub(super) const NOT_YET: &[NotYet] = &[];
