//! Invented traces and rows for tests: they have everything in them that a page can show.

use std::collections::BTreeMap;

use crate::outcome::{Summary, Violation};
use crate::random::Random;
use crate::trace::{Header, Kind, Line};

/// A trace as it grows.
pub(super) struct Recorder {
    random: Random,
    pub(super) lines: Vec<Line>,
    at_us: u64,
}

impl Recorder {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::root(seed), lines: Vec::new(), at_us: 0 }
    }

    pub(super) fn pass(&mut self, us: u64) -> &mut Self {
        self.at_us += us;
        self
    }

    /// Adds a line; empty words are left out. Returns its number.
    pub(super) fn say(&mut self, kind: Kind, name: &str, who: [&str; 3], text: &str) -> u64 {
        let word = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let [node, peer, partition] = who.map(word);
        let n = self.lines.len() as u64 + 1;
        let bytes = (kind == Kind::Send).then_some(180);
        let (name, text) = (name.to_owned(), text.to_owned());
        self.lines.push(Line {
            n,
            at_us: self.at_us,
            kind,
            name,
            node,
            peer,
            partition,
            of: None,
            bytes,
            text,
        });
        n
    }

    /// Sends a message that takes so long to arrive, or is lost on the way.
    pub(super) fn message(&mut self, name: &str, from: &str, to: &str, part: &str, lost: bool) {
        let of = self.say(Kind::Send, name, [from, to, part], "");
        let delay = 200 + self.random.below(2_500);
        self.at_us += delay;
        if lost {
            self.say(Kind::Drop, name, [from, to, part], "the link is cut");
        } else {
            self.say(Kind::Deliver, name, [to, from, part], "");
        }
        if let Some(last) = self.lines.last_mut() {
            last.of = Some(of);
        }
    }

    fn traffic(&mut self, rounds: u64, owner: &str, cut: bool) {
        for round in 0..rounds {
            let pause = 15_000 + self.random.below(20_000);
            self.pass(pause);
            for follower in ["n2", "n3"] {
                let lost = cut && follower == "n3";
                self.message("raft-heartbeat", "n1", follower, "", lost);
                self.message("raft-append", "n1", follower, "", lost);
                self.message("raft-append-answer", follower, "n1", "", lost);
            }
            for part in ["orders/0", "orders/1"] {
                self.say(Kind::Ack, "produce", [owner, "", part], "offset=7 records=3");
                self.pass(1_000);
                self.say(Kind::Read, "fetch", [owner, "", part], "");
            }
            self.message("heartbeat", "n2", "n1", "", false);
            self.say(Kind::Effect, "watermarks", ["n2", "", ""], "");
            self.say(Kind::Done, "watermarks", ["n2", "", ""], "ok");
            if round % 5 == 0 {
                self.say(Kind::Wake, "wake", ["n3", "", ""], "");
            }
        }
    }

    fn one_move(&mut self, part: &str, from: &str, to: &str, epoch: u64) {
        let phases = [
            ("locate", 30_000),
            ("catch-up", 900_000),
            ("prepare", 40_000),
            ("drain", 120_000),
            ("verify", 60_000),
            ("install", 40_000),
            ("flip", 90_000),
        ];
        for (phase, us) in phases {
            self.say(Kind::Phase, phase, [to, from, part], &format!("move={epoch}"));
            let call = match phase {
                "prepare" => "prepare",
                "catch-up" => "list",
                "drain" => "renew",
                _ => "propose",
            };
            self.message(call, to, from, part, false);
            if phase == "prepare" {
                self.say(Kind::Freeze, "begin", [from, "", part], "token=1.1.1");
            }
            self.pass(us);
        }
        let text = format!("owner={to} epoch={epoch} end=1200 hwm=1180 index={}", self.lines.len());
        for node in ["n1", "n2", "n3"] {
            self.say(Kind::Applied, "flip", [node, "", part], &text);
            self.pass(700);
        }
        self.say(Kind::Freeze, "end", [from, "", part], "");
        self.say(Kind::Phase, "over", [to, from, part], "");
        self.say(Kind::Note, "mover-done", [to, "", part], "");
    }
}

/// Returns the lines of a run of three nodes with two moves, a kill, a pause, a cut and a
/// violation; `rounds` stretches it.
pub(super) fn lines(seed: u64, rounds: u64) -> Vec<Line> {
    let mut run = Recorder::new(seed);
    run.say(
        Kind::Note,
        "limits",
        ["", "", ""],
        "freeze_max=2s max_in_flight=2 lease=2s dead_timeout=3s freeze_duty_percent=10",
    );
    for part in ["orders/0", "orders/1", "payments/0"] {
        run.say(Kind::Applied, "assign", ["n1", "", part], "owner=n1 epoch=1");
    }
    run.say(Kind::Note, "leader", ["n1", "n1", ""], "term=2");
    run.traffic(rounds, "n1", false);
    run.one_move("orders/0", "n1", "n2", 2);
    run.traffic(rounds / 2, "n1", false);
    run.say(Kind::Fault, "cut", ["n3", "n1", ""], "one way, for 2 s");
    run.traffic(rounds / 2, "n2", true);
    run.say(Kind::Fault, "clock-jump", ["n3", "", ""], "by 30 s");
    run.say(Kind::Fault, "heal", ["n3", "n1", ""], "");
    run.say(Kind::Fault, "pause", ["n3", "", ""], "for 700 ms");
    run.traffic(rounds / 3, "n2", true);
    run.say(Kind::Fault, "resume", ["n3", "", ""], "");
    run.say(Kind::Step, "kill", ["", "", ""], "step 3: kill n1");
    run.say(Kind::Fault, "kill", ["n1", "", ""], "");
    run.pass(300_000).say(Kind::Note, "leader", ["n2", "n2", ""], "term=3");
    run.pass(900_000).say(Kind::Fault, "restart", ["n1", "", ""], "the same disk");
    run.say(Kind::Fault, "disk-slow", ["n2", "", ""], "");
    run.one_move("orders/1", "n2", "n3", 2);
    run.say(Kind::Phase, "locate", ["n3", "n1", "payments/0"], "move=9");
    run.pass(200_000).say(Kind::Phase, "waiting", ["n3", "n1", "payments/0"], "SourceUnreachable");
    run.traffic(rounds / 2, "n3", false);
    run.say(
        Kind::Violation,
        "S2",
        ["n1", "", "orders/1"],
        "n1 and n3 both acknowledge in epoch 2 <script>",
    );
    run.traffic(rounds / 3, "n3", false);
    run.lines
}

/// Returns the text of a trace file with these lines.
pub(super) fn text(lines: &[Line]) -> String {
    let header = Header {
        narad_trace: 1,
        scenario: "name = \"h02-two-owners\"\ntitle = \"Two owners & <one> partition\"\n\
                   covers = [\"H2\", \"S2\"]\n[cluster]\nnodes = 3\npace = \"fast\"\n"
            .to_owned(),
        seed: 7,
        planted: None,
    };
    let json = |line: &Line| serde_json::to_string(line).expect("plain data");
    let mut rows = vec![serde_json::to_string(&header).expect("plain data")];
    rows.extend(lines.iter().map(json));
    rows.push(serde_json::to_string(&summary(lines)).expect("plain data"));
    rows.join("\n") + "\n"
}

fn summary(lines: &[Line]) -> Summary {
    let bad = lines.iter().filter(|line| line.kind == Kind::Violation);
    Summary {
        simulated_us: lines.last().map_or(0, |line| line.at_us),
        events: lines.len() as u64,
        violations: bad
            .map(|line| Violation {
                invariant: line.name.clone(),
                at_us: line.at_us,
                event: line.n,
                text: line.text.clone(),
            })
            .collect(),
        ..row("h02-two-owners", 7, Some(0.8))
    }
}

/// Returns a row of a sweep: the heavier the load, the longer the freezes.
pub(super) fn row(scenario: &str, seed: u64, load: Option<f64>) -> Summary {
    let mut random = Random::root(seed);
    let base = 4_000.0 * (load.unwrap_or(0.5) * 2.2).exp();
    let freezes_us: Vec<u64> = (0..4)
        .map(|_| (base * (0.4 + 1.6 * random.below(1_000) as f64 / 1_000.0)) as u64)
        .collect();
    let moves = 6;
    let failed = ((load.unwrap_or(0.5) - 0.8).max(0.0) * 5.0) as u64;
    Summary {
        scenario: scenario.to_owned(),
        seed,
        metastore: "raft".to_owned(),
        classes: vec!["kill".to_owned(), "cut".to_owned()],
        nodes: 3,
        partitions: 3,
        events: 20_000 + random.below(9_000),
        simulated_us: 90_000_000,
        acked: 4_000,
        delivered: 4_100,
        duplicates: random.below(40),
        moves_planned: moves,
        moves_done: moves - 1,
        moves_forced: random.below(2),
        moves_given_up: 1,
        freezes_us,
        copied_bytes: (5e6 * (1.0 + load.unwrap_or(0.5) * 2.0)) as u64 + random.below(1 << 20),
        write_over_copy: load,
        notes: BTreeMap::from([
            ("mover-not-converged".to_owned(), failed.min(moves)),
            ("mover-done".to_owned(), moves - 1),
        ]),
        faults: BTreeMap::from([("kill".to_owned(), 2), ("cut".to_owned(), random.below(9))]),
        violations: Vec::new(),
        waiting: Vec::new(),
        trace_hash: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

/// Returns the rows of a sweep over W/B, with a few runs that are not good.
pub(super) fn rows(runs: u64) -> Vec<Summary> {
    (0..runs)
        .map(|seed| {
            let name = ["freeze-over-load", "rolling-restart", "drawn"][(seed % 3) as usize];
            let mut row = row(name, seed, Some((seed % 15) as f64 * 0.2 + 0.1));
            if seed % 97 == 5 {
                row.violations.push(Violation {
                    invariant: if seed % 2 == 0 { "L1" } else { "S2" }.to_owned(),
                    at_us: 12_345_678,
                    event: 4_711,
                    text: format!("n{} and n2 both acknowledge orders/0 in epoch 3", seed % 5),
                });
            }
            row
        })
        .collect()
}
