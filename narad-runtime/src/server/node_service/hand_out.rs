//! Handing records of a partition out: reserved, read, and given back where they cannot be delivered.

use std::ops::Range;
use std::sync::Arc;

use narad_core::cursor::{Reserved, Run};
use narad_core::ids::{Offset, PartitionId};

use super::Place;
use super::consume::own;
use super::damaged::{Aside, Damages};
use crate::broker::{Seat, Slot, SlotError};
use crate::log::LogError;
use crate::service::{Handed, HandedRecord, Record, Reserve, ServiceError, Ticket};
use crate::store::PartitionLog;

/// Records on their way to a consumer. Dropped before they are delivered, because whoever asked has
/// gone away meanwhile, they are given back.
pub(super) struct Taken {
    pub(super) handed: Handed,
    undelivered: Option<(Arc<Slot>, Reserved)>,
}

impl Taken {
    pub(super) fn deliver(mut self) -> Handed {
        self.undelivered = None;
        Handed {
            records: std::mem::take(&mut self.handed.records),
            partition: self.handed.partition,
            epoch: self.handed.epoch,
            visibility: self.handed.visibility,
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((slot, reserved)) = self.undelivered.take() {
            slot.give_back(&reserved, Offset(0));
        }
    }
}

/// Why there are no records.
pub(super) enum Held {
    Error(ServiceError),
    /// Only these are left, or others wait for them.
    Damaged(Range<Offset>),
}

impl From<SlotError> for Held {
    fn from(error: SlotError) -> Self {
        Self::Error(error.into())
    }
}

impl From<LogError> for Held {
    fn from(error: LogError) -> Self {
        Self::Error(error.into())
    }
}

impl Held {
    /// Says it of a partition, and tells of damage.
    pub(super) fn of(self, topic: &str, partition: PartitionId, damages: &Damages) -> ServiceError {
        match self {
            Self::Error(error) => error,
            Self::Damaged(range) => {
                damages.tell(partition, &range);
                let (topic, partition) = (topic.to_owned(), partition.index);
                ServiceError::Damaged { topic, partition, from: range.start, to: range.end }
            }
        }
    }
}

/// Hands records of the first partition out that has some. Where none has, one that is damaged is
/// named before it is said that there is nothing.
pub(super) fn hand_out_now(
    seats: &[(Place, Seat)],
    topic: &str,
    wanted: &Reserve,
    damages: &Damages,
) -> Result<Taken, ServiceError> {
    let (mut empty, mut refusal) = (None, None);
    for (place, seat) in seats {
        match hand_out_of(place.partition, &seat.slot, wanted, damages) {
            Ok(taken) if taken.handed.records.is_empty() => {
                empty.get_or_insert(taken);
            }
            Ok(taken) => return Ok(taken),
            Err(held) => {
                let error = own(held.of(topic, place.partition, damages));
                let is_damage = matches!(error, ServiceError::Damaged { .. });
                if is_damage && !matches!(refusal, Some(ServiceError::Damaged { .. })) {
                    refusal = Some(error);
                } else {
                    refusal.get_or_insert(error);
                }
            }
        }
    }
    match (empty, refusal) {
        (_, Some(damaged @ ServiceError::Damaged { .. })) => Err(damaged),
        (Some(empty), _) => Ok(empty),
        (None, Some(refusal)) => Err(refusal),
        (None, None) => Err(ServiceError::NotServing),
    }
}

/// Hands records of a partition out. Damaged ones are handed back, so that they keep nothing from
/// anybody, and are named if there is nothing else.
fn hand_out_of(
    partition: PartitionId,
    slot: &Arc<Slot>,
    wanted: &Reserve,
    damages: &Damages,
) -> Result<Taken, Held> {
    let visibility = wanted.visibility.min(slot.limits().visibility_max);
    let bytes_max = usize::try_from(wanted.bytes_max).unwrap_or(usize::MAX);
    let mut aside = Aside::new(slot);
    loop {
        let reserved = slot.reserve(wanted.records_max, visibility);
        let (log, reserved) = match (reserved, aside.first()) {
            (Ok((_, reserved)), Some(damaged)) if reserved.is_empty() => {
                return Err(Held::Damaged(damaged));
            }
            (Err(SlotError::Consumer(_)), Some(damaged)) => return Err(Held::Damaged(damaged)),
            (reserved, _) => reserved?,
        };
        if let Some(damaged) = aside.covers(&reserved) {
            aside.keep(&reserved, &damaged);
            continue;
        }
        let epoch = reserved.epoch;
        let handed = Handed { partition: partition.index, epoch, visibility, records: Vec::new() };
        let mut taken = Taken { handed, undelivered: Some((Arc::clone(slot), reserved)) };
        let Some((_, reserved)) = &taken.undelivered else { unreachable!("just put there") };
        let found = read_reserved(&*log, reserved, bytes_max)?;
        if let Some(from) = found.not_read_from {
            slot.give_back(reserved, from);
        }
        for damaged in &found.damaged {
            damages.tell(partition, damaged);
            aside.keep(reserved, damaged);
        }
        if found.records.is_empty() && !found.damaged.is_empty() {
            // They are handed back together, behind what is looked for now.
            taken.undelivered = None;
            continue;
        }
        let mut handles = reserved.handles();
        for (offset, record) in found.records {
            let handle = handles.find(|handle| handle.offset == offset).expect("it was reserved");
            let ticket = Ticket { topic: partition.topic, partition: partition.index, handle };
            let delivery = handle.delivery;
            taken.handed.records.push(HandedRecord { offset, record, delivery, ticket });
        }
        drop(handles);
        return Ok(taken);
    }
}

/// What was read of a reservation.
#[derive(Default)]
struct Found {
    records: Vec<(Offset, Record)>,
    /// Where reading ended because there was enough.
    not_read_from: Option<Offset>,
    /// What could not be read, ascending; the last one may reach beyond the reservation.
    damaged: Vec<Range<Offset>>,
}

/// Reads reserved records: at least one, and no more than fit into `bytes_max` otherwise. Damaged ones
/// are left out.
fn read_reserved(
    log: &dyn PartitionLog,
    reserved: &Reserved,
    bytes_max: usize,
) -> Result<Found, LogError> {
    /// Most that is read at once, in bytes: a few records may be wanted out of many.
    const READ_BYTES_MAX: usize = 256 << 10;
    let (mut found, mut bytes) = (Found::default(), 0);
    for Run { first, end, .. } in &reserved.runs {
        let mut at = *first;
        while at < *end {
            if bytes >= bytes_max && !found.records.is_empty() {
                found.not_read_from = Some(at);
                return Ok(found);
            }
            let left = usize::try_from(end.0 - at.0).unwrap_or(usize::MAX);
            let guess = left.saturating_mul(1 << 10).min(READ_BYTES_MAX);
            match log.read(at, guess.min(bytes_max.saturating_sub(bytes)).max(1)) {
                Ok(read) if read.is_empty() => {
                    found.not_read_from = Some(at);
                    return Ok(found);
                }
                Ok(read) => {
                    for (offset, record) in read.into_iter().take(left) {
                        let size = record.encoded_bytes();
                        if !found.records.is_empty() && bytes + size > bytes_max {
                            found.not_read_from = Some(offset);
                            return Ok(found);
                        }
                        bytes += size;
                        found.records.push((offset, record));
                        at = offset.next();
                    }
                }
                Err(LogError::Damaged { resume, .. }) => {
                    let resume = resume.max(at.next());
                    found.damaged.push(at..resume);
                    at = resume;
                }
                // Retention was faster.
                Err(LogError::BelowStart { start, .. }) => at = start.max(at.next()),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}
