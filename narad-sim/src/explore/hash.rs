//! Names of states: 128 bits of everything that a state holds, and values that know theirs.
//!
//! Two different states of one search share a name with a chance of about `n² / 2¹²⁹`: for a
//! billion states that is one in 10²⁰, far below what a cosmic ray does to an exact comparison.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::rc::{Rc, Weak};

use narad_core::time::Instant;

/// Folds words into 128 bits by wide multiplication: quick for the many small fields of a machine.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    low: u64,
    high: u64,
    /// If set, instants count from here, and operations by where they appear first.
    now: Option<i128>,
    ops: Vec<u128>,
}

impl Fold {
    pub(super) const fn new(now: Option<Instant>) -> Self {
        let now = match now {
            Some(now) => Some(now.since_origin().as_nanos().cast_signed()),
            None => None,
        };
        Self { low: 0x243f_6a88_85a3_08d3, high: 0x1319_8a2e_0370_7344, now, ops: Vec::new() }
    }

    fn wide(&mut self, word: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (word as u64, (word >> 64) as u64);
        self.word(low);
        self.word(high);
    }

    fn word(&mut self, word: u64) {
        let (low, high) = (self.low ^ word, self.high.rotate_left(29).wrapping_add(word));
        self.low = fold(low, 0x9e37_79b9_7f4a_7c15) ^ high;
        self.high = fold(high ^ 0xa409_3822_299f_31d0, 0xd1b5_4a32_d192_ed03) ^ low.rotate_left(17);
    }

    pub(super) fn name(mut self) -> u128 {
        self.word(0x082e_fa98_ec4e_6c89);
        self.word(0x4528_21e6_38d0_1377);
        (u128::from(self.high) << 64) | u128::from(self.low)
    }
}

const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let folded = wide as u64 ^ (wide >> 64) as u64;
    folded
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word) ^ ((chunk.len() as u64) << 56));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.word(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.word(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.word(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.word(word as u64);
    }

    /// An operation, or a digest, which is as well off with a place.
    fn write_u128(&mut self, word: u128) {
        if self.now.is_none() {
            return self.wide(word);
        }
        let place = self.ops.iter().position(|known| *known == word);
        let place = place.unwrap_or_else(|| {
            self.ops.push(word);
            self.ops.len() - 1
        });
        self.word(place as u64);
    }

    /// An instant. The origin stands for none.
    fn write_i128(&mut self, nanos: i128) {
        let since = if nanos == 0 { i128::MIN } else { nanos - self.now.unwrap_or(0) };
        self.wide(since.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.low ^ self.high
    }
}

/// Returns the name of a value as it is.
pub(super) fn name_of(value: &impl Hash) -> u128 {
    let mut fold = Fold::new(None);
    value.hash(&mut fold);
    fold.name()
}

/// Returns the name that a value has in common with those that behave alike: they differ by a
/// shift of all instants, and by how their operations are numbered.
fn kind_of(value: &impl Hash, now: Instant) -> u128 {
    let mut fold = Fold::new(Some(now));
    value.hash(&mut fold);
    fold.name()
}

/// A part of a world that other worlds may share: copied when it is changed, named once.
#[derive(Debug)]
pub(super) struct Shared<T> {
    value: Rc<T>,
    /// Its name as it is; none while it has changed since it was named.
    name: Cell<Option<u128>>,
    kind: Cell<Option<(Instant, u128)>>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self { value: Rc::clone(&self.value), name: self.name.clone(), kind: self.kind.clone() }
    }
}

impl<T: Clone + Hash> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Rc::new(value), name: Cell::new(None), kind: Cell::new(None) }
    }

    pub(super) fn edit(&mut self) -> &mut T {
        self.name.set(None);
        self.kind.set(None);
        Rc::make_mut(&mut self.value)
    }

    pub(super) fn name(&self) -> u128 {
        let name = self.name.get().unwrap_or_else(|| name_of(&*self.value));
        self.name.set(Some(name));
        name
    }

    pub(super) fn kind(&self, now: Instant) -> u128 {
        if let Some((at, kind)) = self.kind.get()
            && at == now
        {
            return kind;
        }
        let kind = kind_of(&*self.value, now);
        self.kind.set(Some((now, kind)));
        kind
    }

    /// Has worlds that hold equal parts hold the same one, so that a frontier fits into memory.
    pub(super) fn share(&mut self, pool: &mut Pool<T>) {
        let name = self.name();
        if let Some(known) = pool.parts.get(&name).and_then(Weak::upgrade) {
            self.value = known;
            return;
        }
        pool.parts.insert(name, Rc::downgrade(&self.value));
        if pool.parts.len() > pool.tidy_at {
            pool.parts.retain(|_, part| part.strong_count() > 0);
            pool.tidy_at = (pool.parts.len() * 2).max(1 << 12);
        }
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Parts that some world still holds, by name.
#[derive(Debug)]
pub(super) struct Pool<T> {
    parts: BTreeMap<u128, Weak<T>>,
    tidy_at: usize,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), tidy_at: 1 << 12 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const fn at(secs: u64) -> Instant {
        Instant::from_origin(Duration::from_secs(secs))
    }

    /// What is as long ago, or as far ahead, has one kind; none stays none.
    #[test]
    fn a_shift_of_all_instants_makes_no_difference() {
        let early = kind_of(&(at(3), at(9), Instant::ORIGIN), at(5));
        assert_eq!(early, kind_of(&(at(13), at(19), Instant::ORIGIN), at(15)));
        assert_ne!(early, kind_of(&(at(13), at(20), Instant::ORIGIN), at(15)));
        assert_ne!(early, kind_of(&(at(13), at(19), at(10)), at(15)));
        assert_ne!(name_of(&at(3)), name_of(&at(4)));
    }

    /// Numbers of operations count by where they appear first, and only where kinds are asked for.
    #[test]
    fn operations_go_by_their_first_place() {
        let (now, ops) = (at(1), |[a, b, c]: [u128; 3]| (a, b, c));
        assert_eq!(kind_of(&ops([7, 9, 7]), now), kind_of(&ops([8, 12, 8]), now));
        assert_ne!(kind_of(&ops([7, 9, 7]), now), kind_of(&ops([8, 12, 12]), now));
        assert_ne!(name_of(&ops([7, 9, 7])), name_of(&ops([8, 12, 8])));
    }
}
