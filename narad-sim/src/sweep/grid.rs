//! Which runs a sweep is made of.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Seeds without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
}

impl Seeds {
    /// Returns how many there are.
    pub const fn count(self) -> u64 {
        self.end - self.first
    }
}

impl FromStr for Seeds {
    type Err = String;

    /// Reads `A..B` (without B), `A..=B`, `A..` or one seed.
    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("{text} are no seeds: write 0..1000, 1..=1000, 5.. or 7");
        let number = |text: &str| {
            let digits: String = text.trim().chars().filter(|c| *c != '_').collect();
            digits.parse::<u64>().map_err(|_| usage())
        };
        let (first, end) = match text.split_once("..") {
            None => {
                let seed = number(text)?;
                (seed, seed.checked_add(1).ok_or_else(usage)?)
            }
            Some((first, end)) => {
                let first = number(first)?;
                let end = match end.strip_prefix('=') {
                    Some(last) => number(last)?.checked_add(1).ok_or_else(usage)?,
                    None if end.trim().is_empty() => u64::MAX,
                    None => number(end)?,
                };
                (first, end)
            }
        };
        if first >= end {
            return Err(format!("{text} is no seed at all: the first has to be below the end"));
        }
        Ok(Self { first, end })
    }
}

impl std::fmt::Display for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, end } = self;
        match end - first {
            1 => write!(f, "{first}"),
            _ if *end == u64::MAX => write!(f, "{first}.."),
            _ => write!(f, "{first}..{end}"),
        }
    }
}

impl TryFrom<String> for Seeds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Seeds> for String {
    fn from(seeds: Seeds) -> Self {
        seeds.to_string()
    }
}

/// One part of a sweep that is spread over machines: every `of`-th run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// Which part, from one.
    pub number: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Self { number: 1, of: 1 }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("{text} is no shard: write i/n with i from 1 to n, such as 2/8");
        let (number, of) = text.split_once('/').ok_or_else(usage)?;
        let number = number.trim().parse().map_err(|_| usage())?;
        let of = of.trim().parse().map_err(|_| usage())?;
        if number == 0 || number > of { Err(usage()) } else { Ok(Self { number, of }) }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

/// All runs of a sweep, numbered from zero: the seeds one after the other, and within a seed the
/// scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The seeds.
    pub seeds: Seeds,
    /// How many scenarios there are, at least one.
    pub scenarios: u64,
    /// Which part of the runs is wanted.
    pub shard: Shard,
}

impl Grid {
    /// Returns the numbers of the wanted runs, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u64> + Send {
        let Shard { number, of } = self.shard;
        let step = usize::try_from(of).unwrap_or(usize::MAX);
        (number - 1..self.all()).step_by(step)
    }

    /// Returns how many runs are wanted.
    pub fn count(self) -> u64 {
        let Shard { number, of } = self.shard;
        self.all().saturating_sub(number - 1).div_ceil(of)
    }

    /// Returns which scenario a run is of, by its position, and with which seed.
    pub fn run(self, number: u64) -> (usize, u64) {
        let scenario = usize::try_from(number % self.scenarios).unwrap_or(0);
        (scenario, self.seeds.first + number / self.scenarios)
    }

    fn all(self) -> u64 {
        self.seeds.count().saturating_mul(self.scenarios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seeds(text: &str) -> Result<(u64, u64), String> {
        text.parse().map(|Seeds { first, end }| (first, end))
    }

    #[test]
    fn seeds_are_written_like_ranges() {
        assert_eq!(seeds("0..1000"), Ok((0, 1000)));
        assert_eq!(seeds("1..=1_000"), Ok((1, 1001)));
        assert_eq!(seeds("7"), Ok((7, 8)));
        assert_eq!(seeds("7.."), Ok((7, u64::MAX)));
        for bad in ["", "a", "5..5", "5..4", "..", "..5", "-1..4", "1...3", "18446744073709551615"]
        {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shards_are_counted_from_one() {
        assert_eq!("2/8".parse(), Ok(Shard { number: 2, of: 8 }));
        for bad in ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn seeds_read_back(first in 0..1000_u64, count in 1..1000_u64) {
            let seeds = Seeds { first, end: first + count };
            prop_assert_eq!(seeds.to_string().parse(), Ok(seeds));
        }

        #[test]
        fn shards_are_disjoint_and_complete(
            first in 0..50_u64, count in 1..60_u64, scenarios in 1..5_u64, of in 1..9_u64,
        ) {
            let seeds = Seeds { first, end: first + count };
            let grid = |number| Grid { seeds, scenarios, shard: Shard { number, of } };
            let mut runs: Vec<_> = (1..=of)
                .flat_map(|number| grid(number).numbers().map(move |run| grid(number).run(run)))
                .collect();
            prop_assert_eq!((1..=of).map(|n| grid(n).count()).sum::<u64>(), count * scenarios);
            runs.sort_unstable();
            let mut all: Vec<_> = (0..usize::try_from(scenarios).unwrap_or(0))
                .flat_map(|scenario| (first..first + count).map(move |seed| (scenario, seed)))
                .collect();
            all.sort_unstable();
            prop_assert_eq!(runs, all);
        }
    }
}
