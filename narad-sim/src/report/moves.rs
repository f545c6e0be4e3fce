//! Moves, put together from their phases.

use crate::trace::{Kind, Line};

use super::story::{AtPartition, Story, Stretch};
use super::words;

/// One move of one partition to one destination, by one life of the destination unless the trace
/// gives its number.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) partition: usize,
    pub(super) from: Option<usize>,
    pub(super) to: usize,
    pub(super) when: Stretch,
    /// Places in [`Story::phases`], in their order.
    pub(super) phases: Vec<usize>,
    /// How long the partition was frozen meanwhile, in microseconds, all freezes together.
    pub(super) frozen_us: u64,
    pub(super) end: End,
}

/// How a move ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Forced,
    GivenUp,
    Open,
}

impl End {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Forced => "forced",
            Self::GivenUp => "given up",
            Self::Open => "not finished",
        }
    }
}

/// Puts phases together to moves, in the order in which they began.
pub(super) fn moves(lines: &[Line], story: &Story) -> Vec<Move> {
    let mut moves: Vec<(Option<u64>, Move)> = Vec::new();
    let mut latest = std::collections::BTreeMap::new();
    for (place, phase) in story.phases.iter().enumerate() {
        let key = (phase.partition, phase.node);
        let id = move_id(&lines[phase.line]);
        let known: Option<usize> = latest.get(&key).copied();
        if let Some(known) = known.filter(|known| belongs(&moves[*known], id, phase)) {
            let (_, moved) = &mut moves[known];
            moved.phases.push(place);
            moved.when.to_us = phase.when.to_us;
            moved.from = moved.from.or_else(|| peer(&lines[phase.line], story));
        } else {
            latest.insert(key, moves.len());
            moves.push((id, begun(lines, story, place)));
        }
    }
    let mut moves: Vec<Move> = moves.into_iter().map(|(_, moved)| moved).collect();
    for moved in &mut moves {
        moved.frozen_us = frozen_us(story, moved);
    }
    name_ends(lines, story, &mut moves);
    moves
}

fn belongs(
    (id, moved): &(Option<u64>, Move),
    new: Option<u64>,
    phase: &AtPartition<String>,
) -> bool {
    match (id, new) {
        (Some(id), Some(new)) => *id == new,
        _ => moved.when.to_us == phase.when.from_us,
    }
}

fn begun(lines: &[Line], story: &Story, place: usize) -> Move {
    let phase = &story.phases[place];
    let owner = story
        .reigns
        .iter()
        .rfind(|reign| {
            reign.partition == phase.partition && reign.when.from_us <= phase.when.from_us
        })
        .map(|reign| reign.node);
    Move {
        partition: phase.partition,
        from: peer(&lines[phase.line], story).or(owner),
        to: phase.node,
        when: phase.when,
        phases: vec![place],
        frozen_us: 0,
        end: End::Open,
    }
}

fn move_id(line: &Line) -> Option<u64> {
    words::number(line, "move").or_else(|| words::field_number(line, "move_id"))
}

/// The source, as the phase names it.
fn peer(line: &Line, story: &Story) -> Option<usize> {
    let name = line.peer.as_deref().or_else(|| words::field(line, "source"))?;
    story.nodes.iter().position(|node| node == name)
}

fn frozen_us(story: &Story, moved: &Move) -> u64 {
    let overlap = |when: Stretch| {
        let from_us = when.from_us.max(moved.when.from_us);
        when.to_us.min(moved.when.to_us).saturating_sub(from_us)
    };
    let own = story.freezes.iter().filter(|freeze| freeze.partition == moved.partition);
    own.fold(0, |sum, freeze| sum.saturating_add(overlap(freeze.when)))
}

/// The first flip or clearing of the target that anybody applied in the course of a move ended it.
fn name_ends(lines: &[Line], story: &Story, moves: &mut [Move]) {
    let mut newest = None;
    for line in lines.iter().filter(|line| line.kind == Kind::Applied) {
        let entry = words::entry(line);
        if words::is_rejected(line) || (entry.is_some() && entry <= newest) {
            continue;
        }
        newest = entry.or(newest);
        let is_forced =
            words::value(line, "kind") == Some("forced") || line.text.contains("Forced");
        let end = match line.name.as_str() {
            _ if words::is_flip(line) && is_forced => End::Forced,
            _ if words::is_flip(line) => End::Done,
            "clear-target" | "set-target" | "delete-topic" => End::GivenUp,
            _ => continue,
        };
        let owner =
            words::value(line, "owner").map(str::to_owned).or_else(|| words::proposer(line));
        let is_meant = |moved: &&mut Move| {
            let partition = Some(story.partitions[moved.partition].as_str());
            let in_time = moved.when.from_us < line.at_us && line.at_us <= moved.when.to_us;
            let to = owner.as_ref().is_none_or(|name| story.nodes[moved.to] == *name);
            moved.end == End::Open
                && in_time
                && partition == line.partition.as_deref()
                && (to || end == End::GivenUp)
        };
        if let Some(moved) = moves.iter_mut().find(is_meant) {
            moved.end = end;
        }
    }
}
