//! What a run was held to: the limits of its policy and configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use narad_core::config::{Config, Policy};

use crate::trace::Kind;

use super::read::Trace;

/// What the scenario of a run says about it, as far as it can be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) name: Option<String>,
    pub(super) title: Option<String>,
    pub(super) covers: Vec<String>,
    limits: BTreeMap<String, String>,
    has_real_pace: bool,
}

/// Reads the scenario in the header, and the note `limits` that a run may begin with: its text is
/// `freeze_max=5min lease=10s …`, and it counts for more than the scenario.
pub(super) fn told(trace: &Trace) -> Told {
    let scenario: toml::Table = trace.header.scenario.parse().unwrap_or_default();
    let word = |key: &str| scenario.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let mut told = Told {
        name: word("name"),
        title: word("title"),
        covers: scenario
            .get("covers")
            .and_then(toml::Value::as_array)
            .map_or_else(Vec::new, |covers| {
                covers.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
            }),
        ..Told::default()
    };
    let cluster = scenario.get("cluster").and_then(toml::Value::as_table);
    told.has_real_pace = cluster
        .and_then(|cluster| cluster.get("pace")?.as_str())
        .is_some_and(|pace| pace == "real");
    for part in ["policy", "config"] {
        let table = cluster.and_then(|cluster| cluster.get(part)?.as_table());
        for (key, value) in table.into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            told.limits.insert(key.clone(), text);
        }
    }
    let notes = trace.lines.iter().take(1_000);
    for line in notes.filter(|line| line.kind == Kind::Note && line.name == "limits") {
        let pairs = line.text.split_whitespace().filter_map(|word| word.split_once('='));
        told.limits.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    told
}

impl Told {
    /// Returns a limit in microseconds.
    pub(super) fn time_us(&self, name: &str) -> Option<u64> {
        let default = || {
            let (policy, config) = (Policy::default(), Config::new(0));
            let time = match name {
                "freeze_max" => config.freeze_max,
                "lease" => policy.lease,
                "dead_timeout" => policy.dead_timeout,
                "force_promote_after" => policy.force_promote_after,
                _ => return None,
            };
            micros(time)
        };
        self.limits
            .get(name)
            .and_then(|text| time_us(text))
            .or_else(|| self.has_real_pace.then(default)?)
    }

    /// Returns a limit that is a plain number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let default = || match name {
            "max_in_flight" => Some(u64::from(Policy::default().max_in_flight)),
            "freeze_duty_percent" => Some(u64::from(Config::new(0).freeze_duty_percent)),
            _ => None,
        };
        self.limits
            .get(name)
            .and_then(|text| text.parse().ok())
            .or_else(|| self.has_real_pace.then(default)?)
    }
}

fn micros(time: Duration) -> Option<u64> {
    u64::try_from(time.as_micros()).ok()
}

/// Reads `250ms`, `1.5s`, `3min`.
fn time_us(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit.trim() {
        "us" | "µs" => 1e0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3_600e6,
        _ => return None,
    };
    let us = number.parse::<f64>().ok()? * unit_us;
    (us.is_finite() && us >= 0.0).then_some(us as u64)
}
