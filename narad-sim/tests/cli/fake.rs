//! A laboratory whose scenarios say how they end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use narad_sim::lab::{Bug, Burden, Describe, Finished, Laboratory, NoSuchBug, RunOptions};
use narad_sim::outcome::{Summary, Violation};
use narad_sim::scenario::{DrawOptions, MetastoreKind};
use narad_sim::trace::{Kind, Line};
use serde::{Deserialize, Serialize};

/// A scenario that says how it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fake {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) metastore: String,
    /// `fail S2 ..` violates; `panic`, `interrupt`, `spin`, and everything else is noise.
    #[serde(default)]
    pub(crate) steps: Vec<String>,
    #[serde(default)]
    pub(crate) nodes: usize,
}

/// Runs fakes.
#[derive(Debug, Default)]
pub(crate) struct Lab {
    /// What an `interrupt` step sets, like Ctrl-C.
    pub(crate) interrupt: Arc<AtomicBool>,
    /// Whether bugs can be planted.
    pub(crate) has_bugs: bool,
    /// Changes what runs come out as: another version of the code.
    pub(crate) drift: u64,
    pub(crate) runs: AtomicUsize,
    pub(crate) planted: Mutex<Option<String>>,
}

struct World(BTreeMap<&'static str, String>);

impl Describe for World {
    fn describe(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(part, state)| ((*part).into(), state.clone())).collect()
    }
}

impl Laboratory for Lab {
    type Scenario = Fake;

    fn parse(&self, text: &str, name: &str) -> Result<Fake, String> {
        let mut fake: Fake = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        if fake.name.is_empty() {
            let stem = std::path::Path::new(name).file_stem().expect("a file");
            stem.to_str().expect("text").clone_into(&mut fake.name);
        }
        Ok(fake)
    }

    fn draw(&self, seed: u64, options: &DrawOptions) -> Fake {
        let nodes = usize::try_from(options.nodes.unwrap_or(3)).expect("few");
        let mut steps = vec!["noise".to_owned(); usize::try_from(seed % 4).expect("small")];
        match seed % 50 {
            3 | 13 => steps.push("fail S2 two owners, \"n1\" and \"n2\"".into()),
            7 => steps.push("fail L1".into()),
            49 => steps.push("panic".into()),
            _ => {}
        }
        Fake { name: "drawn".into(), seed, metastore: "raft".into(), steps, nodes }
    }

    fn text(&self, scenario: &Fake) -> String {
        toml::to_string(scenario).expect("a fake is a table")
    }

    fn name<'a>(&self, scenario: &'a Fake) -> &'a str {
        &scenario.name
    }

    fn seed(&self, scenario: &Fake) -> u64 {
        scenario.seed
    }

    fn metastore(&self, scenario: &Fake) -> MetastoreKind {
        if scenario.metastore == "abstract" { MetastoreKind::Abstract } else { MetastoreKind::Raft }
    }

    fn adjust(&self, scenario: &mut Fake, seed: u64, metastore: Option<MetastoreKind>) {
        scenario.seed = seed;
        if let Some(metastore) = metastore {
            metastore.word().clone_into(&mut scenario.metastore);
        }
    }

    fn explicit(&self, scenario: &Fake, _: u64) -> Option<Fake> {
        let chance = scenario.steps.iter().position(|step| step == "chance")?;
        let mut explicit = scenario.clone();
        explicit.steps[chance] = "fail S7 by chance".into();
        Some(explicit)
    }

    fn shrinks(&self, scenario: &Fake) -> Vec<Fake> {
        let without = |at: usize| {
            let mut simpler = scenario.clone();
            simpler.steps.remove(at);
            simpler
        };
        let mut simpler: Vec<Fake> = (0..scenario.steps.len()).map(without).collect();
        if scenario.nodes > 1 {
            simpler.push(Fake { nodes: scenario.nodes - 1, ..scenario.clone() });
        }
        simpler
    }

    fn burden(&self, scenario: &Fake) -> Burden {
        Burden { steps: scenario.steps.len(), rates: 0, nodes: scenario.nodes }
    }

    fn schema(&self) -> String {
        "steps = [\"fail S2\"]\n".into()
    }

    fn run(&self, scenario: &Fake, mut options: RunOptions<'_>) -> Finished {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let seed = options.seed;
        let mut violations = Vec::new();
        let mut complete = true;
        let mut hash = seed ^ self.drift;
        let planted = self.planted.lock().expect("no panic holds it").clone();
        let mut steps = scenario.steps.clone();
        match planted.as_deref() {
            Some("h01-early") if seed % 10 == 4 => steps.push("fail S3 planted".into()),
            Some("h02-hinted") if scenario.name == "hint" && seed == 2 => {
                steps.push("fail S9 planted".into());
            }
            _ => {}
        }
        let mut world =
            World(BTreeMap::from([("n1", "up".to_owned()), ("seed", seed.to_string())]));
        for (n, step) in (1..).zip(&steps) {
            options.pulse.event.set(n);
            options.pulse.at_us.set(n * 1000);
            hash = hash.wrapping_mul(31).wrapping_add(n + step.len() as u64);
            world.0.insert("last", step.clone());
            let line = Line {
                n,
                at_us: n * 1000,
                kind: if step == "noise" { Kind::Note } else { Kind::Fault },
                name: step.split(' ').next().expect("never empty").into(),
                node: Some("n1".into()),
                peer: None,
                partition: None,
                of: None,
                bytes: None,
                text: if self.drift == 0 { step.clone() } else { format!("{step} again") },
            };
            if let Some(watch) = options.watch.as_deref_mut()
                && watch.line(&line, &world) == ControlFlow::Break(())
            {
                complete = false;
                break;
            }
            match step.split_once(' ') {
                _ if step == "chance" => violations.push(Violation {
                    invariant: "S7".into(),
                    at_us: n * 1000,
                    event: n,
                    text: "by chance".into(),
                }),
                Some(("fail", what)) => violations.push(Violation {
                    invariant: what.split(' ').next().expect("never empty").into(),
                    at_us: n * 1000,
                    event: n,
                    text: what.into(),
                }),
                _ if step == "panic" => panic!("an invariant of the code: {seed}"),
                _ if step == "interrupt" => self.interrupt.store(true, Ordering::Relaxed),
                _ if step == "spin" => {
                    while !options.stop.is_set() {
                        std::hint::spin_loop();
                    }
                }
                _ => {}
            }
            if options.stop.is_set() {
                complete = false;
                break;
            }
        }
        Finished { summary: scenario.summary(seed, violations, hash), complete }
    }

    fn bugs(&self) -> Vec<Bug> {
        let bug = |name: &str| Bug {
            name: name.into(),
            removes: "a rule".into(),
            place: "somewhere".into(),
            invariants: vec!["S3".into()],
        };
        let names: &[&str] =
            if self.has_bugs { &["h01-early", "h02-hinted", "c01-never"] } else { &[] };
        names.iter().map(|name| bug(name)).collect()
    }

    fn plant(&self, name: Option<&str>) -> Result<(), NoSuchBug> {
        if let Some(name) = name
            && !self.bugs().iter().any(|bug| bug.name == name)
        {
            return Err(NoSuchBug(name.into()));
        }
        *self.planted.lock().expect("no panic holds it") = name.map(str::to_owned);
        Ok(())
    }

    fn hint(&self, bug: &str, _: u64) -> Option<Fake> {
        let hint = || Fake {
            name: "hint".into(),
            seed: 0,
            metastore: "raft".into(),
            steps: vec![],
            nodes: 2,
        };
        (bug == "h02-hinted").then(hint)
    }
}

impl Fake {
    fn summary(&self, seed: u64, violations: Vec<Violation>, hash: u64) -> Summary {
        Summary {
            scenario: self.name.clone(),
            seed,
            metastore: self.metastore.clone(),
            classes: vec!["kill".into(), "cut".into()],
            nodes: u32::try_from(self.nodes).expect("few"),
            partitions: 2,
            events: 100 + seed % 7,
            simulated_us: 30_000_000,
            acked: 10,
            delivered: 12,
            duplicates: 2,
            moves_planned: 1,
            moves_done: 1,
            moves_forced: 0,
            moves_given_up: 0,
            freezes_us: vec![2_000, seed % 5 * 1_000],
            copied_bytes: 4096,
            write_over_copy: Some(0.5),
            notes: BTreeMap::from([("paused".into(), 1)]),
            faults: BTreeMap::new(),
            violations,
            waiting: Vec::new(),
            trace_hash: hash,
        }
    }
}
