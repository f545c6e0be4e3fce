//! Looking at an ingress log's directory without changing anything in it.

use std::path::Path;

use narad_core::ids::Seq;

use super::{IngressError, Parcel};
use crate::disk::Disk;
use crate::log::{self, Damage};

/// What a directory holds, as opening the log in it would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Everything before it is dispatched.
    pub checkpoint: Seq,
    /// The position that the next parcel would get.
    pub next: Seq,
    /// Every parcel from the checkpoint on that is needed and can be read, ascending.
    pub waiting: Vec<(Seq, Parcel)>,
    /// Places that are not what was once written there.
    pub damage: Vec<Damage>,
}

/// Looks at an ingress log and changes nothing. Every byte is read and checked; that is for tools,
/// tests and simulations rather than for a start.
///
/// Of a log that is open at the same time it shows what is written, durable or not.
///
/// # Errors
///
/// As [`log::scan`], and if a record is of a newer version.
pub fn scan(disk: &dyn Disk, dir: &Path) -> Result<Scan, IngressError> {
    let found = log::scan(disk, dir)?;
    let checkpoint = found.position.committed.unwrap_or(found.start);
    let is_spent = |offset| found.spent.iter().any(|range| range.contains(&offset));
    let is_needed = |offset| offset >= checkpoint && !is_spent(offset);
    let waiting = found.records.into_iter().filter(|(offset, _)| is_needed(*offset));
    let unseal = |(offset, record): (narad_core::ids::Offset, _)| {
        let seq = Seq(offset.0);
        let parcel = Parcel::unseal(record);
        parcel.map(|parcel| (seq, parcel)).map_err(|source| IngressError::Format { seq, source })
    };
    Ok(Scan {
        checkpoint: Seq(checkpoint.0),
        next: Seq(found.end.0),
        waiting: waiting.map(unseal).collect::<Result<_, _>>()?,
        damage: found.damage,
    })
}
