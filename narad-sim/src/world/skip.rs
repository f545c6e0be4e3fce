//! Giving up records that their owner cannot read, as an operator does it with `narad topic skip`.

use narad_core::cursor::Answer;
use narad_core::ids::{Epoch, Offset, PartitionId};
use narad_runtime::broker::Slot;
use narad_runtime::log::LogError;
use narad_runtime::store::PartitionLog;

use super::World;

impl World {
    /// Gives up the first records of a partition from where its consumers stand on that a machine
    /// cannot read. Nothing happens if it serves nothing, or can read everything.
    pub(super) fn skip_damaged(&mut self, machine: usize, partition: PartitionId) {
        let now = self.now;
        let it = &self.machines[machine];
        let Some(process) = it.process.as_ref().filter(|_| it.paused.is_none()) else { return };
        process.ground.set_now(it.clock.local(now));
        let Some(slot) = process.broker.find(partition).map(|seat| seat.slot) else { return };
        let Some((epoch, from, to)) = first_damage(&slot) else { return };
        let Some(end) = give_up(&slot, epoch, from, to) else { return };
        // What cannot be settled now, is when the next damage is given up.
        drop(slot.settle_damage(&(from..end)));
        self.recorder.count_many("skipped", end.0 - from.0);
        self.all_acked(machine, &slot, partition, epoch, from..end);
        self.news(partition);
    }
}

/// Returns the first offsets that consumers would come to and that cannot be read, and the reign.
fn first_damage(slot: &Slot) -> Option<(Epoch, Offset, Offset)> {
    const BYTES_MAX: usize = 64 << 10;
    let (log, epoch) = slot.readable().ok()?;
    let bounds = log.bounds();
    let mut at = slot.position().ok()?.committed.unwrap_or_default().max(bounds.start);
    let mut begin = None;
    while at < bounds.hwm {
        match read_at(&*log, at, BYTES_MAX) {
            Readable::Until(next) if begin.is_none() => at = next,
            Readable::Until(_) | Readable::Nothing => break,
            Readable::Not(next) => {
                begin = begin.or(Some(at));
                at = next;
            }
        }
    }
    begin.map(|from| (epoch, from, at.min(bounds.hwm)))
}

/// What reading at an offset brings.
enum Readable {
    /// Records, up to there.
    Until(Offset),
    /// Damage, up to there.
    Not(Offset),
    /// Neither; something else is wrong.
    Nothing,
}

fn read_at(log: &dyn PartitionLog, at: Offset, bytes_max: usize) -> Readable {
    match log.read(at, bytes_max) {
        Ok(records) => match (records.first(), records.last()) {
            // A hole that damage has left.
            (Some((first, _)), _) if *first > at => Readable::Not(*first),
            (Some(_), Some((last, _))) => Readable::Until(last.next()),
            (None, _) | (_, None) => Readable::Nothing,
        },
        Err(LogError::Damaged { resume, .. }) => Readable::Not(resume.max(at.next())),
        Err(_) => Readable::Nothing,
    }
}

/// Acknowledges records that nobody can read: all that stand first at once, one by one of those that
/// others come before. Returns the end of what was given up.
fn give_up(slot: &Slot, epoch: Epoch, from: Offset, to: Offset) -> Option<Offset> {
    let position = slot.position().ok()?;
    let (log, _) = slot.readable().ok()?;
    if from <= position.committed.unwrap_or_default().max(log.bounds().start) {
        let answer = slot.acknowledge_up_to(epoch, to).ok()?;
        return (answer == Answer::Acked).then_some(to);
    }
    let mut end = from;
    while end < to && slot.acknowledge(epoch, end).is_ok() {
        end = end.next();
    }
    (end > from).then_some(end)
}
