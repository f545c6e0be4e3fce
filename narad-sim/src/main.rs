//! The laboratory's command.

use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::{DrawOptions, Scenario};

fn main() {
    let arg = std::env::args().nth(1).unwrap_or_default();
    let trace = std::env::var("TRACE").is_ok();
    let go = |scenario: &Scenario, seed: u64| {
        let sink: Option<Box<dyn FnMut(narad_sim::trace::Line)>> = if trace {
            Some(Box::new(|line| println!("{}", serde_json::to_string(&line).unwrap())))
        } else { None };
        let began = std::time::Instant::now();
        let run = run(scenario, RunOptions { seed: Some(seed), trace: sink, ..RunOptions::default() });
        let s = run.summary;
        let wall = began.elapsed();
        println!("seed {seed} {:?} events {} sim {:.1}s wall {:.3}s x{:.0} acked {} delivered {} dup {} moves {}/{} forced {} viol {} waiting {} hash {:x}", s.verdict(), s.events, s.simulated_us as f64/1e6, wall.as_secs_f64(), s.simulated_us as f64/1e6/wall.as_secs_f64(), s.acked, s.delivered, s.duplicates, s.moves_done, s.moves_planned, s.moves_forced, s.violations.len(), s.waiting.len(), s.trace_hash);
        for v in s.violations.iter().take(6) { println!("   {} at {} us, event {}: {}", v.invariant, v.at_us, v.event, v.text); }
        if !s.violations.is_empty() { for w in &s.waiting { println!("   waits: {w}"); } }
        if std::env::var("NOTES").is_ok() { println!("{:?}\n{:?}", s.notes, s.faults); for (k,v) in run.described { println!("  {k}: {v}"); } }
    };
    if arg.ends_with(".toml") {
        let text = std::fs::read_to_string(&arg).unwrap();
        match Scenario::parse(&text, &arg) { Ok(s) => go(&s, std::env::args().nth(2).and_then(|x| x.parse().ok()).unwrap_or(s.head.seed)), Err(e) => println!("{e}") }
    } else {
        let a: u64 = arg.parse().unwrap_or(1);
        let b: u64 = std::env::args().nth(2).and_then(|x| x.parse().ok()).unwrap_or(a + 1);
        for seed in a..b {
            let mut options = DrawOptions::default();
            if std::env::var("ABS").is_ok() { options.metastore = Some(narad_sim::scenario::MetastoreKind::Abstract); }
            let s = Scenario::draw(&mut narad_sim::random::Random::root(seed), &options);
            if std::env::var("SHOW").is_ok() { println!("{}", s.to_toml()); }
            go(&s, seed);
        }
    }
}
