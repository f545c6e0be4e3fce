//! The consumers' side of one partition: in one reign against a naive queue, and across reigns
//! against what consumers have really seen.

mod calls;
mod naive;
mod queue;
mod reigns;

use core::time::Duration;

use narad_core::cursor::{Cursor, Found, Handle, Limits, Lineage, Reserved};
use narad_core::ids::{Attempt, Delivery, Epoch, MoveId, NodeId, Offset};
use narad_core::metastore::{Assignment, Reign, Residue};
use narad_core::partition::Position;
use narad_core::time::Instant;

/// The reign of most tests; it is the first.
const EPOCH: Epoch = Epoch(1);
const VISIBILITY: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(seconds))
}

/// The row of a partition whose reigns began at these offsets, numbered from one.
fn row(starts: &[u64]) -> Assignment {
    let (owner, data) = (NodeId(1), Attempt::birth(NodeId(1)));
    let reign = |(before, start): (usize, &u64)| Reign {
        epoch: Epoch(before as u64 + 1),
        start: Offset(*start),
        owner,
        data,
        residue: Residue::None,
    };
    Assignment {
        owner,
        epoch: Epoch(starts.len() as u64),
        data,
        min_end: Offset(*starts.last().unwrap()),
        lineage: starts.iter().enumerate().map(reign).collect(),
        lineage_cut: false,
        target: None,
        move_id: MoveId(1),
        burned: None,
        revoked: None,
        reported_hwm: None,
        pinned: false,
    }
}

fn position(committed: Option<u64>, ahead: &[u64]) -> Position {
    let acked_ahead = ahead.iter().copied().map(Offset).collect();
    Position { committed: committed.map(Offset), acked_ahead }
}

fn found(of: u64, position: Position, hwm: u64) -> Found {
    Found { position, of: Epoch(of), start: Offset(0), hwm: Offset(hwm) }
}

/// A cursor of the first reign that nobody has consumed from.
fn fresh(hwm: u64) -> Cursor {
    let found = found(1, Position::default(), hwm);
    Cursor::resume(Limits::default(), Lineage::of(&row(&[0])), found)
}

fn handles(reserved: &Reserved) -> Vec<Handle> {
    reserved.handles().collect()
}

fn handle(epoch: u64, offset: u64, delivery: u64) -> Handle {
    Handle { epoch: Epoch(epoch), offset: Offset(offset), delivery: Delivery(delivery) }
}

fn offsets(reserved: &Reserved) -> Vec<u64> {
    reserved.handles().map(|handle| handle.offset.0).collect()
}
