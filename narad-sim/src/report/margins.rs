//! How near the rules came to breaking: of each rule, the moment at which least was left.

use std::collections::BTreeMap;

use crate::trace::{Kind, Line};

use super::limits::Told;
use super::read::Trace;
use super::story::{self, Life, Story};
use super::text;
use super::words;

/// The narrowest moment of one rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Margin {
    /// The invariant that it is about, such as `L2`, or a word.
    pub(super) rule: &'static str,
    pub(super) title: &'static str,
    /// What was seen.
    pub(super) seen: String,
    /// What is allowed, in words.
    pub(super) allowed: String,
    /// How much of what is allowed was used; `None` if there is no limit to compare with.
    pub(super) used: Option<f64>,
    /// Whether it is counted in ones, so that all of it may be used without any worry.
    pub(super) is_count: bool,
    /// Whether nothing at all was left.
    pub(super) is_broken: bool,
    /// Place in the trace of the line where it was.
    pub(super) line: Option<usize>,
}

/// The window over which the share of frozen time is judged: ten minutes.
const DUTY_WINDOW_US: u64 = 600_000_000;

/// Returns the margins that the lines of the trace tell.
pub(super) fn margins(trace: &Trace, story: &Story, told: &Told) -> Vec<Margin> {
    let lines = &trace.lines;
    [
        longest_freeze(story, told),
        freeze_duty(story, told),
        moves_at_once(story, told),
        frozen_at_once(story),
        lease_left(lines),
        between_owners(lines, story),
        copied_end(lines),
        silence(lines, story, told),
        oldest_message(lines, story),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const UNKNOWN: &str = "limit not in the trace";

fn longest_freeze(story: &Story, told: &Told) -> Option<Margin> {
    let longest = story.freezes.iter().max_by_key(|freeze| freeze.when.length_us())?;
    let seen = longest.when.length_us();
    let limit = told.time_us("freeze_max");
    Some(Margin {
        rule: "L2",
        title: "Longest freeze",
        seen: format!("{} of {}", text::duration(seen), story.partitions[longest.partition]),
        allowed: limit.map_or(UNKNOWN.to_owned(), |limit| {
            format!("at most {} (freeze_max)", text::duration(limit))
        }),
        used: share(seen, limit),
        is_count: false,
        is_broken: limit.is_some_and(|limit| seen > limit),
        line: Some(longest.line),
    })
}

/// Every window that is the worst one ends with a freeze.
fn freeze_duty(story: &Story, told: &Told) -> Option<Margin> {
    let frozen_before = |partition: usize, end_us: u64| {
        let start_us = end_us.saturating_sub(DUTY_WINDOW_US);
        let own = story.freezes.iter().filter(|freeze| freeze.partition == partition);
        own.fold(0u64, |sum, freeze| {
            let from_us = freeze.when.from_us.max(start_us);
            sum.saturating_add(freeze.when.to_us.min(end_us).saturating_sub(from_us))
        })
    };
    let (seen, worst) = story
        .freezes
        .iter()
        .map(|freeze| (frozen_before(freeze.partition, freeze.when.to_us), freeze))
        .max_by_key(|(frozen_us, _)| *frozen_us)?;
    let percent = told.number("freeze_duty_percent");
    let limit = percent.map(|percent| DUTY_WINDOW_US / 100 * percent.min(100));
    Some(Margin {
        rule: "L2",
        title: "Frozen time in ten minutes",
        seen: format!("{} of {}", text::duration(seen), story.partitions[worst.partition]),
        allowed: limit.map_or(UNKNOWN.to_owned(), |limit| {
            format!("at most {} (freeze_duty_percent)", text::duration(limit))
        }),
        used: share(seen, limit),
        is_count: false,
        is_broken: limit.is_some_and(|limit| seen > limit),
        line: Some(worst.line),
    })
}

/// A move that waits holds no slot.
fn moves_at_once(story: &Story, told: &Told) -> Option<Margin> {
    let busy = story.phases.iter().filter(|phase| phase.what != "waiting");
    let (seen, line) = most_at_once(busy.map(|phase| {
        let key = (phase.partition, phase.node);
        (key, phase.when.from_us, phase.when.to_us, phase.line)
    }))?;
    let limit = told.number("max_in_flight");
    Some(Margin {
        rule: "S14",
        title: "Moves at once",
        seen: text::counted(seen, "move"),
        allowed: limit.map_or(UNKNOWN.to_owned(), |limit| {
            format!("at most {} (max_in_flight)", text::count(limit))
        }),
        used: share(seen, limit),
        is_count: true,
        is_broken: limit.is_some_and(|limit| seen > limit),
        line: Some(line),
    })
}

fn frozen_at_once(story: &Story) -> Option<Margin> {
    let topic = |partition: usize| {
        let name = story.partitions[partition].as_str();
        name.rsplit_once('/').map_or(name, |(topic, _)| topic)
    };
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for partition in 0..story.partitions.len() {
        *sizes.entry(topic(partition)).or_default() += 1;
    }
    let worst = sizes
        .iter()
        .filter_map(|(name, size)| {
            let own = story.freezes.iter().filter(|freeze| topic(freeze.partition) == *name);
            let (seen, line) = most_at_once(own.map(|freeze| {
                (freeze.partition, freeze.when.from_us, freeze.when.to_us, freeze.line)
            }))?;
            Some((seen, (size / 2).max(1), *name, line))
        })
        .max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)).then(b.2.cmp(a.2)))?;
    let (seen, limit, name, line) = worst;
    Some(Margin {
        rule: "S14",
        title: "Frozen partitions of one topic",
        seen: format!("{} of {name}", text::count(seen)),
        allowed: format!("at most {limit}: half of the partitions seen, or one"),
        used: share(seen, Some(limit)),
        is_count: true,
        is_broken: seen > limit,
        line: Some(line),
    })
}

/// Returns how many different keys were under way at once at most, and what began last then.
fn most_at_once<K: Ord>(
    stretches: impl Iterator<Item = (K, u64, u64, usize)>,
) -> Option<(u64, usize)> {
    let mut edges = Vec::new();
    for (key, from_us, to_us, line) in stretches {
        let key = std::rc::Rc::new(key);
        edges.push((from_us, true, key.clone(), line));
        edges.push((to_us, false, key, line));
    }
    // At the same instant, what ends makes room before what begins.
    edges.sort();
    let mut open: BTreeMap<std::rc::Rc<K>, u64> = BTreeMap::new();
    let mut most: Option<(u64, usize)> = None;
    for (_, begins, key, line) in edges {
        if begins {
            *open.entry(key).or_default() += 1;
            let now = open.len() as u64;
            if most.is_none_or(|(most, _)| now > most) {
                most = Some((now, line));
            }
        } else if let Some(times) = open.get_mut(&key) {
            *times -= 1;
            if *times == 0 {
                open.remove(&key);
            }
        }
    }
    most
}

/// The world writes at a flip how much of the old owner's lease was left: negative if it had
/// run out so long before.
fn lease_left(lines: &[Line]) -> Option<Margin> {
    let left = |line: &Line| words::value(line, "lease_left_us")?.parse::<i64>().ok();
    let (left, line) = applied(lines).filter_map(|(at, line)| Some((left(line)?, at))).max()?;
    let length = text::duration(left.unsigned_abs());
    Some(Margin {
        rule: "S2",
        title: "Old owner's lease at a forced flip",
        seen: if left > 0 { format!("{length} left") } else { format!("over for {length}") },
        allowed: "must be over".to_owned(),
        used: None,
        is_count: false,
        is_broken: left > 0,
        line: Some(line),
    })
}

/// Between the last acknowledgement of one owner and the first of the next.
fn between_owners(lines: &[Line], story: &Story) -> Option<Margin> {
    let mut last: BTreeMap<&str, (u64, &str, Option<u64>)> = BTreeMap::new();
    let mut shortest: Option<(u64, usize)> = None;
    let mut stale = None;
    for (place, line) in lines.iter().enumerate().filter(|(_, line)| line.kind == Kind::Ack) {
        let (Some(partition), Some(node)) = (line.partition.as_deref(), line.node.as_deref())
        else {
            continue;
        };
        let epoch = words::number(line, "epoch");
        if let Some((at_us, before, newest)) = last.get(partition).copied() {
            if epoch < newest {
                stale.get_or_insert(place);
                continue;
            }
            let gap = line.at_us.saturating_sub(at_us);
            if before != node && shortest.is_none_or(|(shortest, _)| gap < shortest) {
                shortest = Some((gap, place));
            }
        }
        last.insert(partition, (line.at_us, node, epoch));
    }
    if story.nodes.is_empty() {
        return None;
    }
    let seen = match (stale, shortest) {
        (Some(_), _) => "an owner acknowledged after its successor".to_owned(),
        (None, Some((gap, _))) => format!("{} at least", text::duration(gap)),
        (None, None) => return None,
    };
    Some(Margin {
        rule: "S2",
        title: "Silence between two owners",
        seen,
        allowed: "more than nothing".to_owned(),
        used: None,
        is_count: false,
        is_broken: stale.is_some(),
        line: stale.or(shortest.map(|(_, line)| line)),
    })
}

/// A flip needs a copy that reaches the high watermark.
fn copied_end(lines: &[Line]) -> Option<Margin> {
    let ahead = |line: &Line| {
        let told = |key| words::number(line, key).or_else(|| words::field_number(line, key));
        let (end, hwm) = (told("end")?, told("hwm")?);
        Some(i128::from(end) - i128::from(hwm))
    };
    let (ahead, line) = applied(lines)
        .filter(|(_, line)| words::is_flip(line) && !words::is_rejected(line))
        .filter_map(|(at, line)| Some((ahead(line)?, at)))
        .min_by_key(|(ahead, _)| *ahead)?;
    let records = text::counted(u64::try_from(ahead.unsigned_abs()).unwrap_or(u64::MAX), "record");
    Some(Margin {
        rule: "S8",
        title: "End of the copy over the high watermark",
        seen: if ahead < 0 { format!("{records} short") } else { format!("{records} ahead") },
        allowed: "never short".to_owned(),
        used: None,
        is_count: false,
        is_broken: ahead < 0,
        line: Some(line),
    })
}

/// How long a living node that was not declared dead went unheard.
fn silence(lines: &[Line], story: &Story, told: &Told) -> Option<Margin> {
    let deaths: Vec<u64> = applied(lines)
        .filter(|(_, line)| line.name == "mark-dead")
        .map(|(_, line)| line.at_us)
        .collect();
    let was_up = |name: &str, from_us: u64, to_us: u64| {
        let breaks = |life: &story::AtNode<Life>| {
            story.nodes[life.node] == name
                && life.what == Life::Down
                && life.when.from_us < to_us
                && life.when.to_us > from_us
        };
        !story.lives.iter().any(breaks)
    };
    let mut heard: BTreeMap<&str, u64> = BTreeMap::new();
    let mut longest: Option<(u64, usize, &str)> = None;
    let beats = lines.iter().enumerate();
    for (place, line) in
        beats.filter(|(_, line)| line.kind == Kind::Deliver && line.name == "heartbeat")
    {
        let Some(name) = line.peer.as_deref() else { continue };
        let Some(before_us) = heard.insert(name, line.at_us) else { continue };
        let gap = line.at_us - before_us;
        let next = deaths.partition_point(|death| *death < before_us);
        let died = deaths.get(next).is_some_and(|death| *death <= line.at_us);
        if longest.is_none_or(|(longest, ..)| gap > longest)
            && !died
            && was_up(name, before_us, line.at_us)
        {
            longest = Some((gap, place, name));
        }
    }
    let (seen, line, name) = longest?;
    let limit = told.time_us("dead_timeout");
    Some(Margin {
        rule: "timing",
        title: "Longest silence of a living node",
        seen: format!("{} of {name}", text::duration(seen)),
        allowed: limit.map_or(UNKNOWN.to_owned(), |limit| {
            format!("declared dead after {} (dead_timeout)", text::duration(limit))
        }),
        used: share(seen, limit),
        is_count: false,
        is_broken: false,
        line: Some(line),
    })
}

fn oldest_message(lines: &[Line], story: &Story) -> Option<Margin> {
    let (age, line) = story
        .messages
        .iter()
        .filter_map(|message| match message.fate {
            story::Fate::Arrived { line } => {
                Some((lines[line].at_us - lines[message.line].at_us, line))
            }
            story::Fate::Lost { .. } | story::Fate::Unseen => None,
        })
        .max_by_key(|(age, line)| (*age, std::cmp::Reverse(*line)))?;
    Some(Margin {
        rule: "network",
        title: "Oldest message that arrived",
        seen: format!("{}, {}", text::duration(age), lines[line].name),
        allowed: "any age: it must do no harm".to_owned(),
        used: None,
        is_count: false,
        is_broken: false,
        line: Some(line),
    })
}

fn applied(lines: &[Line]) -> impl Iterator<Item = (usize, &Line)> {
    lines.iter().enumerate().filter(|(_, line)| line.kind == Kind::Applied)
}

fn share(seen: u64, limit: Option<u64>) -> Option<f64> {
    limit.filter(|limit| *limit > 0).map(|limit| seen as f64 / limit as f64)
}
