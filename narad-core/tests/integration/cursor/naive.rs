//! The same queue with neither frontier nor sets: one entry for each record, looked at one by one.

use core::time::Duration;

use narad_core::cursor::{Answer, Handle, Limits, Refused};
use narad_core::ids::{Delivery, Epoch, Offset};
use narad_core::partition::Position;
use narad_core::time::Instant;

/// One record.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) is_acked: bool,
    /// How often it was handed out.
    pub(super) deliveries: u64,
    /// Until when it must not be handed out, and whether that is because somebody has it.
    pub(super) hidden: Option<(Instant, bool)>,
}

impl Entry {
    fn holder(&self, now: Instant) -> Option<u64> {
        let held = self.hidden.is_some_and(|(until, is_held)| is_held && until > now);
        held.then_some(self.deliveries)
    }
}

pub(super) struct Naive {
    pub(super) limits: Limits,
    pub(super) epoch: Epoch,
    pub(super) start: usize,
    /// Every record below the high watermark.
    pub(super) entries: Vec<Entry>,
}

impl Naive {
    pub(super) fn frontier(&self) -> usize {
        let open = |at: &usize| !self.entries[*at].is_acked;
        (self.start..self.entries.len()).find(open).unwrap_or(self.entries.len())
    }

    fn ahead(&self) -> usize {
        self.entries[self.frontier()..].iter().filter(|entry| entry.is_acked).count()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.entries[self.start..].iter().filter(|it| !it.is_acked && it.deliveries > 0).count()
    }

    pub(super) fn position(&self) -> (u64, Vec<Offset>) {
        let frontier = self.frontier();
        let acked = (frontier..self.entries.len()).filter(|at| self.entries[*at].is_acked);
        (frontier as u64, acked.map(|at| Offset(at as u64)).collect())
    }

    pub(super) fn reserve(
        &mut self,
        now: Instant,
        max: usize,
        visibility: Duration,
    ) -> Result<Vec<Handle>, Refused> {
        let hidden = Some((now.after(visibility.min(self.limits.visibility_max)), true));
        let mut out: Vec<Handle> = Vec::new();
        let is_free = |it: &Entry| it.hidden.is_none_or(|(until, _)| until <= now);
        for is_again in [true, false] {
            for at in self.start..self.entries.len() {
                let entry = self.entries[at];
                let wanted = !entry.is_acked && is_free(&entry);
                if out.len() == max || !wanted || (entry.deliveries > 0) != is_again {
                    continue;
                }
                let offset = Offset(at as u64);
                if !is_again && let Some(why) = self.held_back() {
                    return if out.is_empty() { Err(why) } else { Ok(out) };
                }
                let deliveries = entry.deliveries + 1;
                self.entries[at] = Entry { is_acked: false, deliveries, hidden };
                out.push(Handle { epoch: self.epoch, offset, delivery: Delivery(deliveries) });
            }
        }
        Ok(out)
    }

    fn held_back(&self) -> Option<Refused> {
        let frontier = Offset(self.frontier() as u64);
        let max = self.limits.in_flight_max;
        if self.in_flight() >= max {
            return Some(Refused::TooManyInFlight { max });
        }
        let is_full = self.in_flight() + self.ahead() > Position::ACKED_AHEAD_MAX;
        is_full.then_some(Refused::TooFarAhead { frontier })
    }

    pub(super) fn ack(&mut self, now: Instant, handle: Handle) -> Result<Answer, Refused> {
        let at = self.find(handle.offset)?;
        if let Some(at) = at
            && !self.entries[at].is_acked
            && let Some(by) = self.entries[at].holder(now).filter(|by| *by != handle.delivery.0)
        {
            return Err(Refused::Superseded { by: Delivery(by) });
        }
        self.acknowledge(handle.offset)
    }

    pub(super) fn acknowledge(&mut self, offset: Offset) -> Result<Answer, Refused> {
        let Some(at) = self.find(offset)?.filter(|at| !self.entries[*at].is_acked) else {
            return Ok(Answer::AlreadyAcked);
        };
        let frontier = self.frontier();
        let others = self.in_flight() - usize::from(self.entries[at].deliveries > 0);
        let ahead = self.ahead();
        let is_full =
            ahead >= Position::ACKED_AHEAD_MAX || ahead + others > Position::ACKED_AHEAD_MAX;
        if at != frontier && is_full {
            return Err(Refused::TooFarAhead { frontier: Offset(frontier as u64) });
        }
        self.entries[at].is_acked = true;
        Ok(Answer::Acked)
    }

    pub(super) fn acknowledge_up_to(&mut self, end: Offset) -> Result<(), Refused> {
        let visible = self.entries.len() as u64;
        if end.0 > visible {
            return Err(Refused::OutOfRange { hwm: Offset(visible) });
        }
        let end = usize::try_from(end.0).unwrap();
        self.entries[..end].iter_mut().for_each(|entry| entry.is_acked = true);
        Ok(())
    }

    /// A handle hides its record until another time: because it is still held, or because it was
    /// handed back.
    pub(super) fn hide(
        &mut self,
        now: Instant,
        handle: Handle,
        for_: Duration,
        is_held: bool,
    ) -> Result<(), Refused> {
        let Some(at) = self.find(handle.offset)?.filter(|at| !self.entries[*at].is_acked) else {
            return Err(Refused::AlreadyAcked);
        };
        match self.entries[at].holder(now) {
            Some(by) if by == handle.delivery.0 => {
                let until = now.after(for_.min(self.limits.visibility_max));
                self.entries[at].hidden = Some((until, is_held));
                Ok(())
            }
            Some(by) => Err(Refused::Superseded { by: Delivery(by) }),
            None => Err(Refused::Expired),
        }
    }

    /// `None`: it is gone.
    fn find(&self, offset: Offset) -> Result<Option<usize>, Refused> {
        let at = usize::try_from(offset.0).unwrap();
        if at >= self.entries.len() {
            return Err(Refused::OutOfRange { hwm: Offset(self.entries.len() as u64) });
        }
        Ok(Some(at).filter(|at| *at >= self.start))
    }
}
