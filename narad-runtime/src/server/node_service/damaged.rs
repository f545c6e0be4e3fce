//! Records that cannot be read: found while consumers are served, named, and given up by command.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use narad_core::cursor::{Answer, Refused, Reserved, Run};
use narad_core::ids::{Offset, PartitionId};

use super::consume::own;
use super::{NodeService, blocking};
use crate::broker::{Slot, SlotError};
use crate::log::{LogError, lock};
use crate::service::{ServiceError, Skip, Skipped};
use crate::store::PartitionLog;

/// What was told of damage already: each is told once in the life of a node, and not to every consumer
/// that comes upon it.
#[derive(Clone, Debug)]
pub(super) struct Damages(Arc<Mutex<BTreeSet<(PartitionId, Offset)>>>);

impl Damages {
    /// Most that are remembered; what is forgotten is told again.
    const MAX: usize = 1_024;

    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Tells of damage that ends at an offset.
    pub(super) fn tell(&self, partition: PartitionId, damaged: &Range<Offset>) {
        let mut told = lock(&self.0);
        if !told.insert((partition, damaged.end)) {
            return;
        }
        if told.len() > Self::MAX {
            told.pop_first();
        }
        drop(told);
        tracing::error!(
            %partition, from = %damaged.start, to = %damaged.end,
            "records are damaged and cannot be handed out; narad topic skip gives them up"
        );
    }
}

/// Damaged records that are kept out of the way while others are looked for, and then handed back.
pub(super) struct Aside<'a> {
    slot: &'a Slot,
    reserved: Vec<Reserved>,
    first: Option<Range<Offset>>,
    last: Option<Range<Offset>>,
}

impl<'a> Aside<'a> {
    pub(super) const fn new(slot: &'a Slot) -> Self {
        Self { slot, reserved: Vec::new(), first: None, last: None }
    }

    /// Keeps what of a reservation lies in damage that was found further on.
    pub(super) fn keep(&mut self, reserved: &Reserved, damaged: &Range<Offset>) {
        self.reserved.push(reserved.within(damaged));
        match &mut self.first {
            Some(first) if damaged.start <= first.end => first.end = first.end.max(damaged.end),
            Some(_) => {}
            None => self.first = Some(damaged.clone()),
        }
        self.last = Some(damaged.clone());
    }

    /// Returns the damage that was found last, if all of a reservation lies in it and need not be read.
    pub(super) fn covers(&self, reserved: &Reserved) -> Option<Range<Offset>> {
        let last = self.last.clone().filter(|_| !reserved.is_empty())?;
        let is_in = |run: &Run| last.start <= run.first && run.end <= last.end;
        reserved.runs.iter().all(is_in).then_some(last)
    }

    /// Returns the first damage without a gap, if there is any.
    pub(super) fn first(&self) -> Option<Range<Offset>> {
        self.first.clone()
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        for reserved in &self.reserved {
            self.slot.give_back(reserved, Offset(0));
        }
    }
}

impl NodeService {
    pub(super) async fn give_up_damaged(
        &self,
        topic: &str,
        partition: u32,
        skip: Skip,
    ) -> Result<Skipped, ServiceError> {
        let place = self.place(topic, partition).await?;
        let seat = self.seat(&place)?;
        let Skip { from, to, .. } = skip;
        // A segment that was put back can be read, so that nothing is given up, and is settled too.
        let give_up =
            move || (skip_now(&seat.slot, skip), seat.slot.settle_damage(&(from..to.max(from))));
        let (skipped, settled) = blocking(give_up).await?;
        tell_settled(place.partition, &settled);
        let skipped = skipped.map_err(own)?;
        let records = skipped.records;
        tracing::warn!(partition = %place.partition, %from, %to, records, "records were given up");
        Ok(skipped)
    }
}

/// Tells what became of damaged segments; of none there is nothing to tell.
fn tell_settled(partition: PartitionId, settled: &Result<Option<usize>, SlotError>) {
    match settled {
        Ok(Some(0)) => {}
        Ok(Some(segments)) => {
            tracing::warn!(%partition, segments, "segments are moved as they are from now on");
        }
        Ok(None) => tracing::warn!(
            %partition,
            "the partition is frozen, so that its damaged segments are not moved as they are yet: \
             narad topic skip once more"
        ),
        Err(error) => tracing::error!(
            %partition, %error,
            "damaged segments are not moved as they are yet: narad topic skip once more"
        ),
    }
}

/// Acknowledges records of which none can be read. Those behind the acknowledged prefix go at once,
/// however many they are; of those ahead of it no more than may be.
fn skip_now(slot: &Slot, skip: Skip) -> Result<Skipped, ServiceError> {
    let Skip { epoch, from, to } = skip;
    if from >= to {
        return Err(ServiceError::Invalid(format!("from {from} on nothing is before {to}")));
    }
    let (log, _) = slot.readable()?;
    check_unreadable(&*log, from, to)?;
    let position = slot.position()?;
    let start = log.bounds().start;
    let frontier = position.committed.unwrap_or(start).max(start);
    if from <= frontier {
        let open = to.0.saturating_sub(frontier.0);
        let ahead = position.acked_ahead.iter().filter(|&&offset| offset < to).count() as u64;
        let records = match slot.acknowledge_up_to(epoch, to)? {
            Answer::Acked => open.saturating_sub(ahead),
            Answer::AlreadyAcked => 0,
        };
        return Ok(Skipped { records, next: to });
    }
    let mut records = 0;
    for offset in (from.0..to.0).map(Offset) {
        match slot.acknowledge(epoch, offset) {
            Ok(Answer::Acked) => records += 1,
            Ok(Answer::AlreadyAcked) => {}
            Err(SlotError::Consumer(Refused::TooFarAhead { .. })) if offset > from => {
                return Ok(Skipped { records, next: offset });
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Skipped { records, next: to })
}

/// Checks that no record of a range can be read: nothing that can is given up by mistake.
fn check_unreadable(log: &dyn PartitionLog, from: Offset, to: Offset) -> Result<(), ServiceError> {
    let mut at = from;
    while at < to {
        match log.read(at, 1) {
            Ok(records) => {
                let Some((first, _)) = records.first() else {
                    let error = format!("there is no record at offset {at} yet");
                    return Err(ServiceError::Invalid(error));
                };
                if *first == at {
                    return Err(ServiceError::Invalid(format!(
                        "the record at offset {at} can be read: nothing was given up; give the range \
                         that a consumer is told of"
                    )));
                }
                at = *first;
            }
            Err(LogError::Damaged { resume, .. }) => at = resume.max(at.next()),
            // Retention has removed them.
            Err(LogError::BelowStart { start, .. }) => at = start.max(at.next()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
