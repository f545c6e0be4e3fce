//! Sets of numbers that are mostly dense.

use std::collections::BTreeMap;

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// Numbers past this one are not kept; nothing that counts from zero gets there.
    const LIMIT: u64 = 1 << 32;

    /// Puts a number in. Returns whether it is new.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        if number >= Self::LIMIT {
            return true;
        }
        let (word, bit) = place(number);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let (word, bit) = place(number.min(Self::LIMIT));
        self.0.get(word).is_some_and(|found| found & bit != 0)
    }
}

/// A set of any numbers, in pages; quick where neighbours follow each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    pages: BTreeMap<u64, Box<[u64; Self::WORDS]>>,
}

impl Ids {
    const WORDS: usize = 64;
    const PAGE: u64 = 64 * Self::WORDS as u64;

    /// Puts a number in. Returns whether it is new.
    pub(super) fn insert(&mut self, id: u64) -> bool {
        let page = self.pages.entry(id / Self::PAGE).or_insert_with(|| Box::new([0; Self::WORDS]));
        let (word, bit) = place(id % Self::PAGE);
        let new = page[word] & bit == 0;
        page[word] |= bit;
        new
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        let (word, bit) = place(id % Self::PAGE);
        self.pages.get(&(id / Self::PAGE)).is_some_and(|page| page[word] & bit != 0)
    }
}

/// Returns the word of a number and its bit there.
fn place(number: u64) -> (usize, u64) {
    let word = usize::try_from(number / 64).unwrap_or(usize::MAX);
    (word, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once() {
        let (mut bits, mut ids) = (Bits::default(), Ids::default());
        for number in [0, 63, 64, 4_095, 4_096, 1 << 20] {
            assert!(bits.insert(number) && !bits.insert(number) && bits.contains(number));
            assert!(ids.insert(number) && !ids.insert(number) && ids.contains(number));
        }
        assert!(!bits.contains(1) && !ids.contains(1) && !bits.contains(u64::MAX));
        assert!(ids.insert(u64::MAX) && ids.contains(u64::MAX));
    }
}
