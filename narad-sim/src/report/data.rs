//! What the script of a page is given: the kept lines in columns, and the story.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trace::{Kind, Line};

use super::figures;
use super::story::{Life, Story};
use super::text;
use super::thin::Kept;

/// Letters of the text of a line that a page keeps at most.
const TEXT_LETTERS_MAX: usize = 600;

/// The columns: place 0 of a column is the first kept line. References count from 1, and 0 is
/// none.
#[derive(Default, Serialize)]
struct Data<'a> {
    nodes: &'a [String],
    partitions: &'a [String],
    kinds: [&'static str; 15],
    names: Vec<&'a str>,
    /// Of each name, its place among the icons, should it be a fault.
    name_icons: Vec<usize>,
    texts: Vec<String>,
    icons: Vec<(&'static str, &'static str)>,
    end: u64,
    /// Numbers of the lines, as steps.
    n: Vec<u64>,
    /// Times, as steps.
    t: Vec<u64>,
    kind: Vec<u8>,
    name: Vec<usize>,
    node: Vec<usize>,
    peer: Vec<usize>,
    partition: Vec<usize>,
    of: Vec<usize>,
    bytes: Vec<u64>,
    text: Vec<usize>,
    /// Node, from, to, 0 up, 1 paused, 2 down.
    lives: Vec<(usize, u64, u64, u8)>,
    leaders: Vec<(usize, u64, u64)>,
    /// Partition, node, from, to, phase, line.
    phases: Vec<(usize, usize, u64, u64, &'a str, usize)>,
    /// Partition, node, from, to, line.
    freezes: Vec<(usize, usize, u64, u64, usize)>,
    /// Partition, owner, from, to, epoch or -1, line.
    reigns: Vec<(usize, usize, u64, u64, i64, usize)>,
}

/// Returns the data as JSON that is safe inside a `script` element.
pub(super) fn json(lines: &[Line], kept: &Kept, story: &Story) -> String {
    let mut data = Data {
        nodes: &story.nodes,
        partitions: &story.partitions,
        kinds: figures::KINDS,
        icons: figures::ICONS.to_vec(),
        end: story.end_us,
        ..Data::default()
    };
    add_lines(&mut data, lines, kept, story);
    let shown = |line: usize| kept.lines.binary_search(&line).map_or(0, |place| place + 1);
    data.lives = story
        .lives
        .iter()
        .map(|life| {
            let number = match life.what {
                Life::Up => 0,
                Life::Paused => 1,
                Life::Down => 2,
            };
            (life.node, life.when.from_us, life.when.to_us, number)
        })
        .collect();
    data.leaders =
        story.leaders.iter().map(|lead| (lead.node, lead.when.from_us, lead.when.to_us)).collect();
    data.phases = story
        .phases
        .iter()
        .map(|phase| {
            let when = phase.when;
            let line = shown(phase.line);
            (phase.partition, phase.node, when.from_us, when.to_us, phase.what.as_str(), line)
        })
        .collect();
    data.freezes = story
        .freezes
        .iter()
        .map(|freeze| {
            let when = freeze.when;
            (freeze.partition, freeze.node, when.from_us, when.to_us, shown(freeze.line))
        })
        .collect();
    data.reigns = story
        .reigns
        .iter()
        .map(|reign| {
            let when = reign.when;
            let epoch = reign.what.and_then(|epoch| i64::try_from(epoch).ok()).unwrap_or(-1);
            (reign.partition, reign.node, when.from_us, when.to_us, epoch, shown(reign.line))
        })
        .collect();
    serde_json::to_string(&data).expect("columns of numbers and words").replace('<', "\\u003c")
}

fn add_lines<'a>(data: &mut Data<'a>, lines: &'a [Line], kept: &Kept, story: &'a Story) {
    let place = |names: &[String]| -> BTreeMap<String, usize> {
        names.iter().enumerate().map(|(place, name)| (name.clone(), place + 1)).collect()
    };
    let (nodes, partitions) = (place(&story.nodes), place(&story.partitions));
    let find = |places: &BTreeMap<String, usize>, name: &Option<String>| {
        name.as_ref().and_then(|name| places.get(name)).copied().unwrap_or(0)
    };
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    let mut texts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sent: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut last_n, mut last_us) = (0, 0);
    for (shown, line) in kept.lines.iter().map(|place| &lines[*place]).enumerate() {
        data.n.push(line.n.saturating_sub(last_n));
        data.t.push(line.at_us - last_us);
        (last_n, last_us) = (line.n, line.at_us);
        data.kind.push(figures::kind_number(line.kind));
        data.name.push(*names.entry(&line.name).or_insert_with(|| {
            data.names.push(&line.name);
            data.name_icons.push(figures::icon(&line.name));
            data.names.len() - 1
        }));
        data.node.push(find(&nodes, &line.node));
        data.peer.push(find(&nodes, &line.peer));
        data.partition.push(find(&partitions, &line.partition));
        if line.kind == Kind::Send {
            sent.insert(line.n, shown + 1);
        }
        data.of.push(line.of.and_then(|of| sent.get(&of)).copied().unwrap_or(0));
        data.bytes.push(line.bytes.unwrap_or(0));
        data.text.push(if line.text.is_empty() {
            0
        } else {
            *texts.entry(&line.text).or_insert_with(|| {
                data.texts.push(text::clipped(&line.text, TEXT_LETTERS_MAX));
                data.texts.len()
            })
        });
    }
}
