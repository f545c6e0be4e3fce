//! Telling people what a command waits for, instead of standing still without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::terminal::Terminal;
use crate::client::Waiting;

/// What somebody who looks on has been told of what is waited for.
#[derive(Debug, Default)]
pub(super) struct Patience {
    told: BTreeSet<Option<u32>>,
}

impl Patience {
    /// How often it is worth looking.
    pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
    /// What is over sooner than that is nobody's concern: partitions change hands all the time.
    const QUIET: Duration = Duration::from_secs(3);

    /// Tells once of everything that has not gone on for a while, and once that it goes on again.
    pub(super) fn tell(&mut self, waiting: &[Waiting], terminal: &mut Terminal) {
        for line in self.news(waiting) {
            terminal.note(&line);
        }
    }

    fn news(&mut self, waiting: &[Waiting]) -> Vec<String> {
        let is_stuck = |one: &&Waiting| one.since >= Self::QUIET;
        let mut fresh: BTreeMap<&str, Vec<Option<u32>>> = BTreeMap::new();
        for one in waiting.iter().filter(is_stuck) {
            if self.told.insert(one.partition) {
                fresh.entry(&one.why).or_default().push(one.partition);
            }
        }
        let still: BTreeSet<Option<u32>> = waiting.iter().map(|one| one.partition).collect();
        let over: Vec<Option<u32>> = self.told.difference(&still).copied().collect();
        self.told.retain(|partition| still.contains(partition));
        let mut news = Vec::new();
        for (why, partitions) in fresh {
            news.push(format!("waiting for {}: {why}; trying again", named(&partitions)));
        }
        if !over.is_empty() {
            news.push(format!("going on with {}", named(&over)));
        }
        news
    }
}

/// Says what is out of reach, and why.
pub(super) fn out_of_reach(waiting: &[Waiting]) -> Option<String> {
    let first = waiting.first()?;
    let partitions: Vec<Option<u32>> = waiting.iter().map(|one| one.partition).collect();
    Some(format!("no answer about {}: {}", named(&partitions), first.why))
}

fn named(partitions: &[Option<u32>]) -> String {
    let numbers: Vec<String> = partitions.iter().flatten().map(u32::to_string).collect();
    match numbers.len() {
        0 => "a node that takes the lines".to_owned(),
        1 => format!("partition {}", numbers[0]),
        _ => format!("partitions {}", numbers.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(partition: Option<u32>, seconds: u64, why: &str) -> Waiting {
        Waiting { partition, since: Duration::from_secs(seconds), why: why.to_owned() }
    }

    #[test]
    fn each_wait_is_told_once_and_so_is_its_end() {
        let mut patience = Patience::default();
        let mut news = |waiting: &[Waiting]| patience.news(waiting);
        let nothing: [String; 0] = [];
        assert_eq!(news(&[waiting(Some(3), 2, "refused")]), nothing, "that may be a flip");
        let stuck = [waiting(Some(3), 3, "refused"), waiting(Some(5), 4, "refused")];
        assert_eq!(news(&stuck), ["waiting for partitions 3, 5: refused; trying again"]);
        assert_eq!(news(&stuck), nothing);
        assert_eq!(news(&stuck[..1]), ["going on with partition 5"]);
        assert_eq!(news(&[]), ["going on with partition 3"]);
        assert_eq!(news(&stuck[..1]), ["waiting for partition 3: refused; trying again"]);
    }

    #[test]
    fn what_may_go_anywhere_waits_for_a_node() {
        let news = Patience::default().news(&[waiting(None, 5, "a:1: the disk is full")]);
        let line = "waiting for a node that takes the lines: a:1: the disk is full; trying again";
        assert_eq!(news, [line]);
    }
}
