//! How much may still happen on one path.

/// What may still go wrong, or be asked for, on this path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) faults: u8,
    pub(super) records: u8,
    pub(super) moves: u8,
    pub(super) cancels: u8,
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) delays: u8,
    pub(super) duplicates: u8,
    pub(super) expiries: u8,
    pub(super) kills: u8,
    pub(super) cuts: u8,
    pub(super) declares: u8,
    pub(super) deletes: u8,
    pub(super) pauses: u8,
}

impl Budget {
    /// Returns what of it can still make a difference.
    pub(super) fn effective(self, disturbed: bool) -> Self {
        let most = |left: u8| left.min(self.faults);
        let quiet = self.faults == 0 && !disturbed;
        Self {
            cancels: most(self.cancels),
            crashes: most(self.crashes),
            losses: most(self.losses),
            delays: most(self.delays),
            duplicates: most(self.duplicates),
            expiries: most(self.expiries),
            cuts: most(self.cuts),
            kills: most(self.kills),
            deletes: most(self.deletes),
            pauses: if quiet { 0 } else { self.pauses },
            ..self
        }
    }

    pub(super) const NONE: Self = Self {
        faults: 0,
        records: 0,
        moves: 0,
        cancels: 0,
        crashes: 0,
        losses: 0,
        delays: 0,
        duplicates: 0,
        expiries: 0,
        kills: 0,
        cuts: 0,
        declares: 0,
        deletes: 0,
        pauses: 0,
    };
}
