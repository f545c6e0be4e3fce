//! The gate that every append to one partition passes.
//!
//! # Purpose
//!
//! An append is admitted, made durable, and checked again before it is acknowledged. A freeze takes
//! hold between two appends, never inside one, so what is captured under it is all there will be
//! (H7, case T21, field fault 2). The gate is plain memory: the runtime keeps it with the log
//! writer under **one mutex** and calls it inline.
//!
//! # States
//!
//! ```text
//!              Stand(Reading)             Stand(Serving)
//!   Closed ───────────────────▶ Reading ─────────────────▶ Serving ── Stand(Closed) ──▶ Closed
//!                                  ◀──────────────────────
//!
//!   while Serving:
//!            Freeze, append under way              it ended
//!   Open ──────────────────────────▶ Freezing ──────────────▶ Frozen{token}
//!     ◀─────────────── GiveUp ───────────┘                       │
//!     ◀──────────────────── Thaw{token} ─────────────────────────┘
//! ```
//!
//! A stand in another epoch or life, or in none, ends any freeze: the token names what is over, so
//! no flip can rest on it (H6, case T30).
//!
//! # The driver's part
//!
//! - `admit`, `recheck` and `command` are called with the mutex held; the append and its fsync run
//!   without it.
//! - On `Ok` of `recheck` the high watermark is advanced, and only then are the signals of that
//!   call looked at, all before the mutex is released.
//! - On [`Signal::Frozen`] the driver captures **consumer position, then high watermark, then
//!   listing and digest**, with the mutex still held (R50, cases T24, T25, O65). A position that
//!   is read first can only be too low, which costs duplicates; the other order loses records.
//! - Retention, truncation and every other change of the log run with the mutex held from
//!   [`Gate::may_mutate`] to their end (field fault 6). Control frames are appends like any other.
//! - [`Appended::Failed`] is said once nothing of that append can reach the log any more.
//!
//! # Invariants
//!
//! 1. At most one append is in flight (asserted): an [`Admission`] is no copy, and the gate gives
//!    the next only when the last came back.
//! 2. From the arrival of a freeze on nothing is admitted; from [`Signal::Frozen`] on nothing is in
//!    flight either (S9, R18, R35).
//! 3. A token is issued once, under the mutex, and is larger than every earlier one of the same
//!    epoch (H33).
//! 4. An acknowledgement carries the epoch; the gate has stood in that epoch and life without a
//!    break since the admission, and is registered, and leased if in play (S2, H8, H9).
//!
//! # After a restart
//!
//! A new gate is closed and has no freeze; what the earlier process froze is void once the next
//! life is registered, and until then nothing is committed (H6). One gate serves a partition for
//! the whole life of a process, so that no token repeats.
//!
//! # Example
//!
//! An append under way holds a freeze up, and is still acknowledged:
//!
//! ```
//! use core::time::Duration;
//! use narad_core::effects::Effects;
//! use narad_core::freeze::gate::{Appended, Authority, Command, Gate, Refused, Signal, Standing};
//! use narad_core::ids::{Epoch, Incarnation, Offset, PartitionId, TopicId};
//! use narad_core::time::Instant;
//!
//! let (now, life, epoch) = (Instant::ORIGIN, Incarnation(3), Epoch(1));
//! let authority =
//!     Authority { registered: Some(life), lease_until: now.after(Duration::from_secs(10)) };
//! let mut gate = Gate::new(PartitionId { topic: TopicId(7), index: 2 });
//! let mut out = Effects::default();
//! let serving = Standing::Serving { epoch, life, in_play: true };
//! gate.command(now, authority, Command::<u32>::Stand(serving), &mut out);
//!
//! let admission = gate.admit(now, authority, Some(epoch)).expect("nothing is frozen");
//! gate.command(now, authority, Command::Freeze { ticket: 1, epoch, life }, &mut out);
//! assert!(out.is_empty(), "it waits for the append");
//! assert_eq!(gate.admit(now, authority, None), Err(Refused::Frozen));
//!
//! let end = Appended::Durable { end: Offset(5) };
//! let acknowledged = gate.recheck(now, authority, admission, end, &mut out);
//! assert_eq!(acknowledged.expect("in time").hwm, Offset(5));
//! assert!(matches!(out.as_slice(), [Signal::Frozen { ticket: 1, .. }]));
//! ```

use core::mem;

use crate::effects::Effects;
use crate::ids::{Epoch, FreezeNo, Incarnation, Offset, PartitionId, Token};
use crate::planted::{Bug, is_planted};
use crate::time::Instant;

pub use interface::{
    Acknowledged, Appended, Authority, Command, NotFrozen, Refused, Signal, Standing,
};

mod interface;
#[cfg(test)]
mod tests;

/// Leave for one append; comes back to [`Gate::recheck`] with its outcome.
///
/// It is not `Clone`, so that nobody appends twice under one check.
#[derive(Debug, PartialEq, Eq, Hash)]
#[cfg_attr(test, derive(Clone))]
#[must_use = "a gate whose admission is lost admits nothing more"]
pub struct Admission {
    partition: PartitionId,
    number: u64,
    epoch: Epoch,
    stand: u64,
}

impl Admission {
    /// Returns the reign in which the append happens, for its frames.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// The gate of one partition; see the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate<T> {
    partition: PartitionId,
    standing: Standing,
    stands: u64,
    appends: u64,
    in_flight: Option<u64>,
    freezes: u64,
    freeze: Freeze<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Freeze<T> {
    Open,
    /// Nothing more is admitted; the append under way is waited for.
    Freezing {
        ticket: T,
    },
    Frozen {
        token: Token,
    },
}

impl<T: Copy + PartialEq> Gate<T> {
    /// Makes a closed gate: it commits nothing and shows nothing.
    pub const fn new(partition: PartitionId) -> Self {
        Self {
            partition,
            standing: Standing::Closed,
            stands: 0,
            appends: 0,
            in_flight: None,
            freezes: 0,
            freeze: Freeze::Open,
        }
    }

    /// Asks to append. `claimed` is the reign in which the sender believes, if it says so.
    ///
    /// # Errors
    ///
    /// If a record must not be committed now. Nothing may be appended then.
    pub fn admit(
        &mut self,
        now: Instant,
        authority: Authority,
        claimed: Option<Epoch>,
    ) -> Result<Admission, Refused> {
        let epoch = self.serving_in(now, authority, claimed)?;
        match self.freeze {
            Freeze::Open => {}
            Freeze::Freezing { .. } | Freeze::Frozen { .. } => return Err(Refused::Frozen),
        }
        if self.in_flight.is_some() {
            return Err(Refused::AppendUnderWay);
        }
        self.appends += 1;
        self.in_flight = Some(self.appends);
        let Self { partition, stands: stand, appends: number, .. } = *self;
        Ok(Admission { partition, number, epoch, stand })
    }

    /// Takes the outcome of an append and decides whether it may be acknowledged.
    ///
    /// A freeze that has arrived meanwhile does not stand in the way: it takes hold now, behind
    /// this append, and is answered in `out`.
    ///
    /// # Errors
    ///
    /// If the append failed, or if what allowed it is over. The record stays hidden then, and its
    /// sender tries again (S11).
    ///
    /// # Panics
    ///
    /// If the admission is not this gate's last one.
    #[expect(clippy::needless_pass_by_value, reason = "an admission is used up by its outcome")]
    pub fn recheck(
        &mut self,
        now: Instant,
        authority: Authority,
        admission: Admission,
        outcome: Appended,
        out: &mut Effects<Signal<T>>,
    ) -> Result<Acknowledged, Refused> {
        let Admission { partition, number, .. } = admission;
        assert_eq!(partition, self.partition, "an admission comes back to the gate that gave it");
        assert_eq!(self.in_flight.take(), Some(number), "an admission comes back once");
        let acknowledged = self.judge(now, authority, &admission, outcome);
        if let Freeze::Freezing { ticket } = self.freeze {
            self.freeze(ticket, out);
        }
        acknowledged
    }

    /// Obeys the node. A freeze needs the same authority as an append: a node that may not commit
    /// has nothing to hand off.
    pub fn command(
        &mut self,
        now: Instant,
        authority: Authority,
        command: Command<T>,
        out: &mut Effects<Signal<T>>,
    ) {
        match command {
            Command::Stand(standing) => self.stand(standing, out),
            Command::Freeze { ticket, epoch, life } => {
                if self.serving(now, authority) != Ok((epoch, life)) {
                    out.push(Signal::NotFrozen { ticket, why: NotFrozen::NotServing });
                } else if self.freeze != Freeze::Open {
                    out.push(Signal::NotFrozen { ticket, why: NotFrozen::Frozen });
                } else if self.in_flight.is_some() && !is_planted(Bug::FreezeOverAppend) {
                    self.freeze = Freeze::Freezing { ticket };
                } else {
                    self.freeze(ticket, out);
                }
            }
            Command::GiveUp { ticket } => {
                if self.freeze == (Freeze::Freezing { ticket }) {
                    self.freeze = Freeze::Open;
                    out.push(Signal::NotFrozen { ticket, why: NotFrozen::AppendStuck });
                }
            }
            Command::Thaw { token } => {
                let frozen = matches!(self.freeze, Freeze::Frozen { .. });
                if self.freeze == (Freeze::Frozen { token })
                    || (frozen && is_planted(Bug::FreezeEndedByAnyToken))
                {
                    self.freeze = Freeze::Open;
                }
            }
        }
    }

    /// Returns whether plain reads may be served: through the freeze, and without a lease (R48).
    pub const fn may_read(&self) -> bool {
        match self.standing {
            Standing::Closed => false,
            Standing::Reading { .. } | Standing::Serving { .. } => true,
        }
    }

    /// Returns whether records may be reserved for a consumer: through the freeze, but in play only
    /// with a lease, so that an owner that was flipped away stops in time (H8, S7).
    pub fn may_reserve(&self, now: Instant, authority: Authority) -> bool {
        self.serving(now, authority).is_ok()
    }

    /// Asks whether a consumer's acknowledgement may be taken; the rule of [`Gate::may_reserve`].
    /// `claimed` is the reign that the record was fetched in, if the consumer says so (H44). What
    /// arrives after the capture is kept for the new owner (H28, R52).
    ///
    /// # Errors
    ///
    /// If it must not be taken now, or is of another reign.
    pub fn may_ack(
        &self,
        now: Instant,
        authority: Authority,
        claimed: Option<Epoch>,
    ) -> Result<(), Refused> {
        if is_planted(Bug::AckWithoutLease) {
            return Ok(());
        }
        let claimed = claimed.filter(|_| !is_planted(Bug::AckOfAnyReign));
        self.serving_in(now, authority, claimed).map(|_| ())
    }

    /// Returns whether retention, truncation or anything else may change the log now (field
    /// fault 6). Holds until the mutex is released.
    pub fn may_mutate(&self) -> bool {
        match self.standing {
            Standing::Closed | Standing::Reading { .. } => false,
            Standing::Serving { .. } => {
                self.freeze == Freeze::Open || is_planted(Bug::MutatesUnderFreeze)
            }
        }
    }

    /// Returns whether nothing more is admitted because of a freeze, held or waiting.
    pub fn is_frozen(&self) -> bool {
        self.freeze != Freeze::Open
    }

    /// Returns how the gate stands.
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the reign and life in which a record may be committed now, freeze apart.
    fn serving(&self, now: Instant, authority: Authority) -> Result<(Epoch, Incarnation), Refused> {
        let Standing::Serving { epoch, life, in_play } = self.standing else {
            return Err(Refused::NotServing);
        };
        if authority.registered != Some(life) {
            return Err(Refused::NotServing);
        }
        if in_play && now >= authority.lease_until && !is_planted(Bug::CommitsWithoutLease) {
            return Err(Refused::NoLease);
        }
        Ok((epoch, life))
    }

    fn serving_in(
        &self,
        now: Instant,
        authority: Authority,
        claimed: Option<Epoch>,
    ) -> Result<Epoch, Refused> {
        let (epoch, _) = self.serving(now, authority)?;
        if claimed.is_some_and(|claimed| claimed != epoch) {
            return Err(Refused::OtherEpoch { current: epoch });
        }
        Ok(epoch)
    }

    fn judge(
        &self,
        now: Instant,
        authority: Authority,
        admission: &Admission,
        outcome: Appended,
    ) -> Result<Acknowledged, Refused> {
        let Appended::Durable { end: hwm } = outcome else { return Err(Refused::AppendFailed) };
        if is_planted(Bug::NoRecheck) {
            return Ok(Acknowledged { epoch: admission.epoch, hwm });
        }
        let (epoch, _) = self.serving(now, authority)?;
        if epoch != admission.epoch {
            return Err(Refused::OtherEpoch { current: epoch });
        }
        if self.stands != admission.stand {
            return Err(Refused::NotServing);
        }
        let short = u64::from(is_planted(Bug::HwmOneShort));
        Ok(Acknowledged { epoch, hwm: Offset(hwm.0.saturating_sub(short)) })
    }

    fn stand(&mut self, standing: Standing, out: &mut Effects<Signal<T>>) {
        let before = mem::replace(&mut self.standing, standing).reign();
        if before == standing.reign() {
            return;
        }
        self.stands += 1;
        if let Freeze::Freezing { ticket } = self.freeze {
            out.push(Signal::NotFrozen { ticket, why: NotFrozen::NotServing });
        }
        self.freeze = Freeze::Open;
    }

    /// Takes hold: issues the token under which the driver captures.
    fn freeze(&mut self, ticket: T, out: &mut Effects<Signal<T>>) {
        let (epoch, incarnation) =
            self.standing.reign().expect("a freeze ends with the stand that it was begun in");
        assert!(
            self.in_flight.is_none() || is_planted(Bug::FreezeOverAppend),
            "nothing is under way when a freeze takes hold"
        );
        if self.freezes == 0 || !is_planted(Bug::TokenRepeats) {
            self.freezes += 1;
        }
        let token = Token { epoch, no: FreezeNo { incarnation, counter: self.freezes } };
        self.freeze = Freeze::Frozen { token };
        out.push(Signal::Frozen { ticket, token });
    }
}
