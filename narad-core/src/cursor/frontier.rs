//! What is acknowledged: a frontier, and single records ahead of it.

use alloc::vec::Vec;

use super::interface::Span;
use crate::ids::Offset;
use crate::partition::Position;

/// The acknowledged records of a log that begins at `start`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frontier {
    start: Offset,
    position: Position,
}

/// What was acknowledged at some time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Base {
    at: Offset,
    ahead: Vec<Offset>,
}

impl Frontier {
    /// Takes a position up. What comes from a disk or a peer is put in order, and cut to `end`:
    /// from there on other records may get the same offsets (cases O65, O67).
    pub(super) fn new(position: Position, start: Offset, end: Offset) -> Self {
        let Position { committed, mut acked_ahead } = position;
        let committed = committed.map(|committed| committed.min(end));
        acked_ahead.retain(|&acked| acked >= committed.unwrap_or_default() && acked < end);
        acked_ahead.sort_unstable();
        acked_ahead.dedup();
        let mut this = Self { start: Offset(0), position: Position { committed, acked_ahead } };
        this.position.advance();
        this.trim(start);
        this.position.acked_ahead.truncate(Position::ACKED_AHEAD_MAX);
        this
    }

    /// Returns the lowest record that is not acknowledged.
    pub(super) fn at(&self) -> Offset {
        self.position.committed.unwrap_or(self.start).max(self.start)
    }

    pub(super) const fn start(&self) -> Offset {
        self.start
    }

    pub(super) const fn position(&self) -> &Position {
        &self.position
    }

    /// Returns how many records are acknowledged ahead of the frontier.
    pub(super) const fn ahead(&self) -> usize {
        self.position.acked_ahead.len()
    }

    pub(super) fn is_acked(&self, offset: Offset) -> bool {
        offset < self.at() || self.position.acked_ahead.binary_search(&offset).is_ok()
    }

    /// Acknowledges one record. The caller has seen to it that there is room.
    pub(super) fn ack(&mut self, offset: Offset) {
        if offset == self.at() {
            return self.ack_below(offset.next());
        }
        if let Err(place) = self.position.acked_ahead.binary_search(&offset)
            && offset > self.at()
        {
            self.position.acked_ahead.insert(place, offset);
            assert!(self.ahead() <= Position::ACKED_AHEAD_MAX, "there is room for what is acked");
            self.position.advance();
        }
    }

    /// Acknowledges everything below an offset. A position that nobody ever committed is none no
    /// longer (case O71).
    pub(super) fn ack_below(&mut self, end: Offset) {
        let end = end.max(self.at());
        self.position.committed = Some(end);
        self.position.acked_ahead.retain(|acked| *acked >= end);
        self.position.advance();
    }

    /// Lets retention remove what is below an offset: it needs no acknowledgement. A position that
    /// nobody ever committed stays none, unless the first record that is left is acknowledged.
    pub(super) fn trim(&mut self, start: Offset) {
        self.start = self.start.max(start);
        let Position { committed, acked_ahead } = &self.position;
        let is_behind = match committed {
            Some(committed) => *committed < self.start,
            None => acked_ahead.first().is_some_and(|acked| *acked <= self.start),
        };
        if is_behind {
            self.ack_below(self.start);
        }
    }

    /// Returns what is acknowledged, to be compared later.
    pub(super) fn base(&self) -> Base {
        Base { at: self.at(), ahead: self.position.acked_ahead.clone() }
    }

    /// Returns what is acknowledged and was not at some time; without one, all of it. What
    /// retention has removed was acknowledged by nobody, and is left out.
    pub(super) fn since(&self, base: Option<&Base>) -> Vec<Span> {
        let known = base.map_or(&[][..], |base| &base.ahead);
        let mut spans: Vec<Span> = Vec::new();
        let mut first = base.map_or(self.start, |base| base.at).max(self.start);
        let below = known.iter().copied().filter(|&acked| acked >= first && acked < self.at());
        for end in below.collect::<Vec<_>>().into_iter().chain([self.at()]) {
            if first < end {
                spans.push(Span { first, end });
            }
            first = end.next();
        }
        for &acked in &self.position.acked_ahead {
            if known.binary_search(&acked).is_ok() {
                continue;
            }
            match spans.last_mut() {
                Some(span) if span.end == acked => span.end = acked.next(),
                Some(_) | None => spans.push(Span { first: acked, end: acked.next() }),
            }
        }
        spans
    }
}
