//! Which lines of a long trace the page keeps.

use std::collections::BTreeSet;

use crate::trace::{Kind, Line};

/// Lines that a page holds at most; a page of so many takes about 10 MB.
pub(super) const LINES_MAX: usize = 200_000;

/// What a page keeps of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Places in the trace, ascending.
    pub(super) lines: Vec<usize>,
    /// What was left out: how many lines, of how many, of what.
    pub(super) left_out: Vec<(usize, usize, &'static str)>,
}

/// What goes first when there is too much.
const CLASSES: [&str; 8] = [
    "wake-ups",
    "heartbeats of Raft",
    "other messages of Raft",
    "heartbeats",
    "messages of producers and consumers",
    "acknowledgements and deliveries of records",
    "other messages, effects and their outcomes",
    "notes and applied entries",
];

/// Phases, freezes, faults, steps and violations stay, however many there are.
const ALWAYS: usize = CLASSES.len();

fn class(line: &Line) -> usize {
    let name = line.name.as_str();
    match line.kind {
        Kind::Wake => 0,
        Kind::Send | Kind::Deliver | Kind::Drop => match name {
            _ if name.starts_with("raft-heartbeat") => 1,
            _ if name.starts_with("raft-") => 2,
            "heartbeat" | "heartbeat-answer" => 3,
            "produce" | "produce-answer" | "fetch" | "fetch-answer" | "ack" | "ack-answer" => 4,
            _ => 6,
        },
        Kind::Ack | Kind::Read => 5,
        Kind::Effect | Kind::Done => 6,
        Kind::Applied | Kind::Note => 7,
        Kind::Phase | Kind::Freeze | Kind::Fault | Kind::Step | Kind::Violation => ALWAYS,
    }
}

/// Chooses at most about `most` lines: whole classes go, the least important first, and of the
/// last one that has to give way an even share stays. What became of a message stays or goes with
/// the line that sent it.
pub(super) fn thin(lines: &[Line], most: usize) -> Kept {
    let mut sizes = [0usize; ALWAYS + 1];
    let classes: Vec<usize> = lines.iter().map(class).collect();
    for class in &classes {
        sizes[*class] += 1;
    }

    let mut stays = sizes;
    let mut over = lines.len().saturating_sub(most);
    for stay in &mut stays[..ALWAYS] {
        let gone = over.min(*stay);
        *stay -= gone;
        over -= gone;
    }

    let mut seen = [0usize; ALWAYS + 1];
    let mut kept = Vec::with_capacity(lines.len().min(most));
    let mut sent = BTreeSet::new();
    let mut counts = [0usize; ALWAYS + 1];
    for (place, line) in lines.iter().enumerate() {
        let class = classes[place];
        let before = seen[class];
        seen[class] += 1;
        let partial = 0 < stays[class] && stays[class] < sizes[class];
        let stays = match line.of.filter(|_| partial) {
            Some(of) if matches!(line.kind, Kind::Deliver | Kind::Drop) => sent.contains(&of),
            _ => is_chosen(before, stays[class], sizes[class]),
        };
        if stays {
            if partial && line.kind == Kind::Send {
                sent.insert(line.n);
            }
            counts[class] += 1;
            kept.push(place);
        }
    }
    let left_out = (0..ALWAYS)
        .filter(|class| counts[*class] < sizes[*class])
        .map(|class| (sizes[class] - counts[class], sizes[class], CLASSES[class]))
        .collect();
    Kept { lines: kept, left_out }
}

/// Says whether the thing of that number is among `some` of `all`, evenly spread.
pub(super) fn is_chosen(number: usize, some: usize, all: usize) -> bool {
    let share = |number: usize| number as u128 * some as u128 / all.max(1) as u128;
    share(number) < share(number + 1)
}
