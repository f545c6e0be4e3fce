//! A file's bytes, and the way back to what is durable of them.
//!
//! Only what is read now is kept whole. A change remembers what it has replaced, which for an append
//! is nothing; so a sync costs nothing, and a crash undoes the changes and makes those again that
//! survive.

use std::mem;
use std::sync::Arc;

use super::fault::{Survival, Unsynced};

/// One file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Shared with images of the disk until it changes.
    now: Arc<Vec<u8>>,
    /// What was changed since everything was durable, oldest first.
    changes: Vec<Change>,
    /// Whether a change is lost, so that its successors must be kept track of too.
    has_lost: bool,
    pub(super) modified_ms: i64,
}

#[derive(Clone, Debug)]
struct Change {
    what: What,
    length_before: usize,
    /// The bytes that were overwritten or cut off.
    before: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Write { position: usize, bytes: usize },
    Length(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// A crash may lose it.
    Unsynced,
    /// The next crash loses it, whatever is synced until then.
    Lost,
    /// It was synced, behind a lost one.
    Durable,
}

impl Content {
    pub(super) fn new(modified_ms: i64) -> Self {
        Self { modified_ms, ..Self::default() }
    }

    pub(super) fn now(&self) -> &[u8] {
        &self.now
    }

    pub(super) fn length(&self) -> u64 {
        self.now.len() as u64
    }

    /// Writes bytes; `lost` ones are seen until the next crash.
    pub(super) fn write(&mut self, position: u64, bytes: &[u8], lost: bool) {
        let position = index(position);
        let now = Arc::make_mut(&mut self.now);
        let length_before = now.len();
        let from = position.min(length_before);
        let to = (position + bytes.len()).min(length_before);
        let before = now[from..to].to_vec();
        put(now, position, bytes);
        let what = What::Write { position, bytes: bytes.len() };
        self.note(what, length_before, before, lost);
    }

    /// Changes the length; a `lost` change is seen until the next crash.
    pub(super) fn set_length(&mut self, length: u64, lost: bool) {
        let length = index(length);
        let now = Arc::make_mut(&mut self.now);
        let length_before = now.len();
        let before = now.get(length..).map(<[u8]>::to_vec).unwrap_or_default();
        now.resize(length, 0);
        self.note(What::Length(length), length_before, before, lost);
    }

    fn note(&mut self, what: What, length_before: usize, before: Vec<u8>, lost: bool) {
        self.has_lost |= lost;
        let fate = if lost { Fate::Lost } else { Fate::Unsynced };
        self.changes.push(Change { what, length_before, before, fate });
    }

    pub(super) fn sync(&mut self) {
        if !self.has_lost {
            self.changes.clear();
        }
        self.settle(Fate::Durable);
    }

    /// Lets everything unsynced be gone with the next crash.
    pub(super) fn lose_unsynced(&mut self) {
        self.settle(Fate::Lost);
        self.has_lost = !self.changes.is_empty();
    }

    fn settle(&mut self, fate: Fate) {
        let unsynced = self.changes.iter_mut().filter(|change| change.fate == Fate::Unsynced);
        unsynced.for_each(|change| change.fate = fate);
    }

    /// Goes back to what is durable, and makes those changes again that survive.
    pub(super) fn crash(&mut self, sector: usize, keep: &mut dyn FnMut(Unsynced) -> Survival) {
        if self.changes.is_empty() {
            return;
        }
        let now = Arc::make_mut(&mut self.now);
        let changes = mem::take(&mut self.changes);
        let mut written: Vec<Vec<u8>> = changes.iter().rev().map(|one| one.undo(now)).collect();
        for change in changes {
            let bytes = written.pop().expect("as many as changes");
            match change.fate {
                Fate::Lost => {}
                Fate::Durable => change.redo(now, &bytes),
                Fate::Unsynced => change.redo_some(now, &bytes, sector, keep),
            }
        }
        self.has_lost = false;
    }

    /// Returns what a crash that keeps nothing would leave.
    pub(super) fn durable(&self) -> Arc<Vec<u8>> {
        let mut crashed = self.clone();
        crashed.crash(1, &mut |_| Survival::Lost);
        crashed.now
    }

    /// Inverts bits of one byte, of what is seen and of what was durable before the oldest change.
    pub(super) fn rot(&mut self, position: usize, mask: u8) {
        Arc::make_mut(&mut self.now)[position] ^= mask;
        let durable = self.changes.iter_mut().find_map(|change| {
            let from = match change.what {
                What::Write { position, .. } => position,
                What::Length(length) => length,
            };
            change.before.get_mut(position.checked_sub(from)?)
        });
        if let Some(byte) = durable {
            *byte ^= mask;
        }
    }
}

impl Change {
    /// Takes the change back, and returns the bytes that it had written.
    fn undo(&self, now: &mut Vec<u8>) -> Vec<u8> {
        let (from, written) = match self.what {
            What::Write { position, bytes } => (position, now[position..position + bytes].to_vec()),
            What::Length(length) => (length, Vec::new()),
        };
        now.resize(self.length_before, 0);
        if !self.before.is_empty() {
            put(now, from, &self.before);
        }
        written
    }

    fn redo(&self, now: &mut Vec<u8>, written: &[u8]) {
        match self.what {
            What::Write { position, .. } => put(now, position, written),
            What::Length(length) => now.resize(length, 0),
        }
    }

    /// Makes the parts of the change again that survive.
    fn redo_some(
        &self,
        now: &mut Vec<u8>,
        written: &[u8],
        sector: usize,
        keep: &mut dyn FnMut(Unsynced) -> Survival,
    ) {
        let What::Write { position: mut at, .. } = self.what else {
            if keep(Unsynced::Length) == Survival::Kept {
                self.redo(now, written);
            }
            return;
        };
        let mut rest = written;
        while !rest.is_empty() {
            let whole = sector - at % sector;
            let (piece, later) = rest.split_at(whole.min(rest.len()));
            match keep(Unsynced::Sector { position: at as u64, bytes: piece.len() }) {
                Survival::Lost => {}
                Survival::Kept => put(now, at, piece),
                Survival::Torn { bytes } => put(now, at, &piece[..bytes.min(piece.len())]),
            }
            at += piece.len();
            rest = later;
        }
    }
}

fn put(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position + bytes.len();
    if position == content.len() {
        content.extend_from_slice(bytes);
        return;
    }
    if content.len() < end {
        content.resize(end, 0);
    }
    content[position..end].copy_from_slice(bytes);
}

fn index(position: u64) -> usize {
    usize::try_from(position).expect("a file in memory fits into memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The plainest disk: two copies, and what lies between them.
    #[derive(Default)]
    struct Plain {
        now: Vec<u8>,
        durable: Vec<u8>,
        unsynced: Vec<Step>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, Vec<u8>, bool),
        Length(usize, bool),
        Sync,
        FailedSync,
        Rot(usize, u8),
        Crash(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..30);
        prop_oneof![
            6 => (0..60_usize, bytes, any::<bool>())
                .prop_map(|(at, bytes, lost)| Step::Write(at, bytes, lost)),
            2 => (0..70_usize, any::<bool>()).prop_map(|(length, lost)| Step::Length(length, lost)),
            3 => Just(Step::Sync),
            1 => Just(Step::FailedSync),
            1 => (0..60_usize, 1..=255_u8).prop_map(|(at, mask)| Step::Rot(at, mask)),
            1 => any::<u64>().prop_map(Step::Crash),
        ]
    }

    fn apply(content: &mut Vec<u8>, step: &Step) {
        match step {
            Step::Write(at, bytes, _) => put(content, *at, bytes),
            Step::Length(length, _) => content.resize(*length, 0),
            Step::Sync | Step::FailedSync | Step::Rot(..) | Step::Crash(_) => {}
        }
    }

    impl Plain {
        fn step(&mut self, step: &Step, keep: &mut dyn FnMut(Unsynced) -> Survival) {
            match step {
                Step::Write(_, _, lost) | Step::Length(_, lost) => {
                    apply(&mut self.now, step);
                    if !lost {
                        self.unsynced.push(step.clone());
                    }
                }
                Step::Sync => {
                    self.unsynced.drain(..).for_each(|step| apply(&mut self.durable, &step));
                }
                Step::FailedSync => self.unsynced.clear(),
                Step::Rot(..) => {}
                Step::Crash(_) => {
                    for step in self.unsynced.drain(..) {
                        crash_one(&mut self.durable, &step, keep);
                    }
                    self.now.clone_from(&self.durable);
                }
            }
        }
    }

    fn crash_one(durable: &mut Vec<u8>, step: &Step, keep: &mut dyn FnMut(Unsynced) -> Survival) {
        let Step::Write(at, bytes, _) = step else {
            if keep(Unsynced::Length) == Survival::Kept {
                apply(durable, step);
            }
            return;
        };
        let mut from = 0;
        while from < bytes.len() {
            let position = at + from;
            let to = (from + SECTOR - position % SECTOR).min(bytes.len());
            match keep(Unsynced::Sector { position: position as u64, bytes: to - from }) {
                Survival::Lost => {}
                Survival::Kept => put(durable, position, &bytes[from..to]),
                Survival::Torn { bytes: kept } => {
                    put(durable, position, &bytes[from..to.min(from + kept)]);
                }
            }
            from = to;
        }
    }

    const SECTOR: usize = 8;

    /// A choice that depends on how often it was asked, and on nothing else.
    fn chooser(seed: u64) -> impl FnMut(Unsynced) -> Survival {
        let mut keep = crate::disk::mem::Keep::Torn(seed).chooser();
        move |what| keep(what)
    }

    proptest! {
        /// What is seen, what is durable and what a crash leaves is as if both were kept apart.
        #[test]
        fn undoing_comes_to_the_same_as_two_copies(
            steps in proptest::collection::vec(any_step(), 0..40),
        ) {
            let (mut content, mut plain) = (Content::default(), Plain::default());
            for step in steps {
                let seed = if let Step::Crash(seed) = step { seed } else { 0 };
                plain.step(&step, &mut chooser(seed));
                match &step {
                    Step::Write(at, bytes, lost) => content.write(*at as u64, bytes, *lost),
                    Step::Length(length, lost) => content.set_length(*length as u64, *lost),
                    Step::Sync => content.sync(),
                    Step::FailedSync => content.lose_unsynced(),
                    Step::Rot(at, mask) if *at < plain.now.len() && !content.has_lost => {
                        // Whether unsynced bytes rot is not said: the one survives as the other.
                        content.sync();
                        plain.step(&Step::Sync, &mut |_| Survival::Kept);
                        content.rot(*at, *mask);
                        plain.now[*at] ^= mask;
                        if let Some(byte) = plain.durable.get_mut(*at) {
                            *byte ^= mask;
                        }
                    }
                    Step::Rot(..) => {}
                    Step::Crash(_) => content.crash(SECTOR, &mut chooser(seed)),
                }
                prop_assert_eq!(content.now(), &plain.now[..]);
                prop_assert_eq!(&content.durable()[..], &plain.durable[..]);
            }
        }
    }
}
