//! The timeline as a still picture: a lane for each node, a lane for each partition.

use crate::trace::{Kind, Line};

use super::scale::{self, Scale};
use super::story::{Fate, Life, Message, Story, Stretch};
use super::text::{self, escape, put};
use super::thin;
use super::{figures, legend};

const WIDTH: f64 = 1180.0;
const GUTTER: f64 = 104.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 46.0;
const NODE_LANE: f64 = 52.0;
const PARTITION_LANE: f64 = 38.0;
const STRIP_COLUMN: f64 = 3.0;

/// Messages that the picture shows at most; more would be a grey block.
const MESSAGES_MAX: usize = 1_200;
/// Lanes of partitions that the picture has at most.
const PARTITIONS_MAX: usize = 40;

/// Draws the timeline. The picture is made for a page that has the style sheet of the charts.
pub(super) fn svg(lines: &[Line], story: &Story) -> String {
    let drawing = Drawing::new(lines, story);
    let mut inside = String::new();
    drawing.axis(&mut inside);
    let notes = drawing.messages(&mut inside);
    drawing.nodes(&mut inside);
    drawing.partitions(&mut inside);
    drawing.violations(&mut inside);
    let height = legend::below(&mut inside, WIDTH, drawing.bottom + 20.0, &notes);
    format!(
        "<svg class=\"timeline\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"Timeline of the run: {} and {}\">\n{ICE}{inside}</svg>\n",
        text::counted(story.nodes.len() as u64, "node"),
        text::counted(story.partitions.len() as u64, "partition"),
    )
}

/// What frozen stretches are filled with.
const ICE: &str = "<defs><pattern id=\"ice\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect class=\"ice-back\" width=\"6\" height=\"6\"/>\
    <rect class=\"ice-stripe\" width=\"3\" height=\"6\"/></pattern></defs>\n";

struct Drawing<'a> {
    lines: &'a [Line],
    story: &'a Story,
    time: Scale,
    /// Partitions that have a lane, in order.
    shown: Vec<usize>,
    bottom: f64,
}

impl<'a> Drawing<'a> {
    fn new(lines: &'a [Line], story: &'a Story) -> Self {
        let end = story.end_us.max(1) as f64;
        let shown = shown_partitions(lines, story);
        let nodes = story.nodes.len() as f64 * NODE_LANE;
        let bottom = TOP + nodes + shown.len() as f64 * PARTITION_LANE + 6.0;
        let time = Scale::linear(0.0, end, GUTTER, WIDTH - RIGHT);
        Self { lines, story, time, shown, bottom }
    }

    fn x(&self, us: u64) -> f64 {
        self.time.at(us as f64)
    }

    fn node_y(node: usize) -> f64 {
        TOP + node as f64 * NODE_LANE
    }

    fn partition_y(&self, partition: usize) -> Option<f64> {
        let row = self.shown.iter().position(|shown| *shown == partition)?;
        let nodes = self.story.nodes.len() as f64 * NODE_LANE;
        Some(TOP + nodes + 6.0 + row as f64 * PARTITION_LANE)
    }

    /// Left edge and width of a stretch; a short one is still to be seen.
    fn span(&self, when: Stretch, least: f64) -> (f64, f64) {
        let x = self.x(when.from_us);
        (x, (self.x(when.to_us) - x).max(least))
    }

    fn axis(&self, out: &mut String) {
        for tick in self.time.ticks(10) {
            let x = self.time.at(tick);
            put!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {:.1}V{:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
                TOP - 6.0,
                self.bottom,
                TOP - 12.0,
                escape(&scale::seconds(tick)),
            );
        }
        put!(out, "<text class=\"label\" x=\"4\" y=\"{:.1}\">true time</text>\n", TOP - 12.0);
    }

    /// Draws the messages, and returns what has to be said about those that are not drawn.
    fn messages(&self, out: &mut String) -> Vec<String> {
        let between: Vec<&Message> =
            self.story.messages.iter().filter(|message| message.from != message.to).collect();
        let name = |message: &Message| self.lines[message.line].name.as_str();
        let is_beat = |message: &Message| name(message).starts_with("raft-heartbeat");
        let without: Vec<&Message> =
            between.iter().copied().filter(|message| !is_beat(message)).collect();
        let mut notes = Vec::new();
        let drawn = if between.len() <= MESSAGES_MAX { between } else { without };
        if drawn.len() < self.story.messages.len() || drawn.len() > MESSAGES_MAX {
            notes.push(format!(
                "{} of {} messages drawn",
                text::count(drawn.len().min(MESSAGES_MAX) as u64),
                text::count(self.story.messages.len() as u64)
            ));
        }
        let (some, all) = (MESSAGES_MAX.min(drawn.len()), drawn.len());
        for (_, message) in
            drawn.iter().enumerate().filter(|(at, _)| thin::is_chosen(*at, some, all))
        {
            self.message(out, message);
        }
        let left = self.story.partitions.len() - self.shown.len();
        if left > 0 {
            notes.push(format!("{} without a lane", text::counted(left as u64, "partition")));
        }
        notes
    }

    fn message(&self, out: &mut String, message: &Message) {
        let middle = |node: usize| Self::node_y(node) + 22.0;
        let sent = &self.lines[message.line];
        let (from, to) = (middle(message.from), middle(message.to));
        let (class, at_us, y) = match message.fate {
            Fate::Arrived { line } => {
                (figures::message_class(&sent.name), self.lines[line].at_us, to)
            }
            Fate::Lost { line } => ("ms-lost", self.lines[line].at_us, f64::midpoint(from, to)),
            Fate::Unseen => ("ms-unseen", sent.at_us, from + (to - from) / 4.0),
        };
        let x = self.x(sent.at_us);
        put!(
            out,
            "<path class=\"ms {class}\" d=\"M{x:.1} {from:.1}L{:.1} {y:.1}\">",
            self.x(at_us)
        );
        let end = match message.fate {
            Fate::Arrived { .. } => format!("arrived {}", text::instant(at_us)),
            Fate::Lost { .. } => format!("lost {}", text::instant(at_us)),
            Fate::Unseen => "not seen to arrive, nor to be lost".to_owned(),
        };
        put!(
            out,
            "<title>{}</title></path>\n",
            escape(&format!(
                "{} {} → {}: sent {}, {end}",
                sent.name,
                self.story.nodes[message.from],
                self.story.nodes[message.to],
                text::instant(sent.at_us),
            ))
        );
    }

    fn nodes(&self, out: &mut String) {
        for (node, name) in self.story.nodes.iter().enumerate() {
            let y = Self::node_y(node);
            put!(out, "<path class=\"lane\" d=\"M0 {:.1}H{WIDTH}\"/>", y + NODE_LANE);
            put!(
                out,
                "<text class=\"name\" x=\"4\" y=\"{:.1}\">{}</text>\n",
                y + 26.0,
                escape(&text::clipped(name, 14))
            );
            self.strips(out, node, y);
        }
        for life in &self.story.lives {
            let y = Self::node_y(life.node) + 22.0;
            let (x, width) = self.span(life.when, 0.5);
            let (class, words) = match life.what {
                Life::Up => ("up", "up"),
                Life::Paused => ("paused", "paused"),
                Life::Down => ("down", "down"),
            };
            put!(
                out,
                "<path class=\"life {class}\" d=\"M{x:.1} {y:.1}h{width:.1}\"><title>{}</title></path>\n",
                escape(&about(&self.story.nodes[life.node], words, life.when)),
            );
        }
        for lead in &self.story.leaders {
            let y = Self::node_y(lead.node) + 14.5;
            let (x, width) = self.span(lead.when, 1.0);
            put!(
                out,
                "<rect class=\"lead\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"3\">\
                 <title>{}</title></rect>\n",
                escape(&about(
                    &self.story.nodes[lead.node],
                    "takes itself for the leader",
                    lead.when
                )),
            );
        }
        self.faults(out);
    }

    /// Draws what was done to the world. Marks that would lie on one another stand side by side.
    fn faults(&self, out: &mut String) {
        let mut last = vec![0.0f64; self.story.nodes.len() + 1];
        for line in self.story.faults.iter().map(|place| &self.lines[*place]) {
            let here = line.node.as_deref();
            let node = self.story.nodes.iter().position(|name| Some(name.as_str()) == here);
            let y = node.map_or(TOP - 3.0, |node| Self::node_y(node) + 7.0);
            let last = &mut last[node.map_or(0, |node| node + 1)];
            let at = self.x(line.at_us);
            let x = if at - *last < 10.0 { *last + 10.0 } else { at };
            *last = x;
            let (class, shape) = figures::ICONS[figures::icon(&line.name)];
            put!(
                out,
                "<path class=\"fault ic-{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{shape}\">\
                 <title>{}</title></path>\n",
                escape(&format!("{} {} {}", text::instant(line.at_us), line.name, line.text)),
            );
        }
    }

    /// Draws how many records were acknowledged and read, column by column.
    fn strips(&self, out: &mut String, node: usize, y: f64) {
        let columns = ((WIDTH - RIGHT - GUTTER) / STRIP_COLUMN) as usize + 1;
        let name = Some(self.story.nodes[node].as_str());
        for (kind, class, top) in [(Kind::Ack, "acks", y + 31.0), (Kind::Read, "reads", y + 40.0)] {
            let mut sums = vec![0u32; columns];
            for line in
                self.lines.iter().filter(|line| line.kind == kind && line.node.as_deref() == name)
            {
                let column = ((self.x(line.at_us) - GUTTER) / STRIP_COLUMN) as usize;
                sums[column.min(columns - 1)] += 1;
            }
            let most = f64::from(sums.iter().copied().max().unwrap_or(0));
            let mut paths: [String; 4] = Default::default();
            for (column, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0) {
                let strength = (f64::from(*sum) / most).sqrt() * 3.999;
                let x = GUTTER + column as f64 * STRIP_COLUMN;
                put!(paths[strength as usize], "M{x:.0} {top:.1}h{STRIP_COLUMN}");
            }
            for (strength, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                put!(out, "<path class=\"strip {class} st{strength}\" d=\"{path}\"/>\n");
            }
        }
    }

    fn partitions(&self, out: &mut String) {
        for partition in &self.shown {
            let y = self.partition_y(*partition).unwrap_or(TOP);
            let name = text::clipped(&self.story.partitions[*partition], 14);
            put!(
                out,
                "<path class=\"lane\" d=\"M0 {:.1}H{WIDTH}\"/>\
                 <text class=\"name part\" x=\"4\" y=\"{:.1}\">{}</text>\n",
                y + PARTITION_LANE,
                y + 22.0,
                escape(&name),
            );
        }
        for reign in &self.story.reigns {
            let Some(y) = self.partition_y(reign.partition) else { continue };
            let (x, width) = self.span(reign.when, 1.0);
            let epoch = reign.what.map_or(String::new(), |epoch| format!(", epoch {epoch}"));
            let words = format!("{}{epoch}", self.story.nodes[reign.node]);
            put!(
                out,
                "<rect class=\"reign ow{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"11\"/>",
                reign.node % 6,
                y + 3.0
            );
            if width > 6.0 * words.len() as f64 {
                put!(
                    out,
                    "<text class=\"in\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                    x + 3.0,
                    y + 11.5,
                    escape(&words)
                );
            }
        }
        for phase in &self.story.phases {
            let Some(y) = self.partition_y(phase.partition) else { continue };
            let (x, width) = self.span(phase.when, 1.0);
            let to = &self.story.nodes[phase.node];
            put!(
                out,
                "<rect class=\"phase {}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"11\">\
                 <title>{}</title></rect>\n",
                figures::phase_class(&phase.what),
                y + 15.0,
                escape(&about(&format!("{} to {to}", phase.what), "", phase.when)),
            );
        }
        for freeze in &self.story.freezes {
            let Some(y) = self.partition_y(freeze.partition) else { continue };
            let (x, width) = self.span(freeze.when, 2.0);
            put!(
                out,
                "<rect class=\"freeze\" fill=\"url(#ice)\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" \
                 height=\"7\"><title>{}</title></rect>\n",
                y + 27.5,
                escape(&about("frozen at", &self.story.nodes[freeze.node], freeze.when)),
            );
        }
    }

    fn violations(&self, out: &mut String) {
        for (number, place) in self.story.violations.iter().enumerate() {
            let line = &self.lines[*place];
            let x = self.x(line.at_us);
            let flag = if x + 26.0 > WIDTH { x - 26.0 } else { x };
            put!(
                out,
                "<g class=\"violation\" id=\"mark-{}\"><path d=\"M{x:.1} 14V{:.1}\"/>\
                 <path class=\"flag\" d=\"M{flag:.1} 2h26v14h-26z\"/>\
                 <text x=\"{:.1}\" y=\"13\" text-anchor=\"middle\">{}</text><title>{}</title></g>\n",
                number + 1,
                self.bottom,
                flag + 13.0,
                escape(&text::clipped(&line.name, 4)),
                escape(&format!("{} {} {}", text::instant(line.at_us), line.name, line.text)),
            );
        }
    }
}

fn about(what: &str, how: &str, when: Stretch) -> String {
    format!(
        "{what} {how}: {} to {}, {}",
        text::instant(when.from_us),
        text::instant(when.to_us),
        text::duration(when.length_us())
    )
}

/// Returns the partitions that get a lane: all, or those with something to tell first.
fn shown_partitions(lines: &[Line], story: &Story) -> Vec<usize> {
    if story.partitions.len() <= PARTITIONS_MAX {
        return (0..story.partitions.len()).collect();
    }
    let mut weight = vec![0u32; story.partitions.len()];
    story.phases.iter().for_each(|phase| weight[phase.partition] += 1);
    story.freezes.iter().for_each(|freeze| weight[freeze.partition] += 10);
    for place in &story.violations {
        let name = lines[*place].partition.as_deref();
        let hit = story.partitions.iter().position(|partition| Some(partition.as_str()) == name);
        if let Some(partition) = hit {
            weight[partition] += 1_000;
        }
    }
    let mut order: Vec<usize> = (0..weight.len()).collect();
    order.sort_by_key(|partition| std::cmp::Reverse(weight[*partition]));
    order.truncate(PARTITIONS_MAX);
    order.sort_unstable();
    order
}
