//! Every scenario file, run as it stands.

mod files;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use narad_sim::outcome::Verdict;

use crate::files::ScenarioFile;

/// Every scenario passes: all invariants hold, everything finishes, what it expects is met.
#[test]
fn every_scenario_passes() {
    let files = files::all();
    let next = AtomicUsize::new(0);
    // Worlds share nothing, so that they may run side by side.
    let work = || {
        let mut failed = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let summary = file.run(file.scenario.cluster.metastore);
            if summary.verdict() != Verdict::Good {
                failed.push(file.tell(&summary));
            }
        }
        failed
    };
    let hands = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let failed: Vec<String> = thread::scope(|scope| {
        let hands: Vec<_> = (0..hands).map(|_| scope.spawn(work)).collect();
        hands.into_iter().flat_map(|hand| hand.join().expect("panics are caught")).collect()
    });
    assert!(failed.is_empty(), "{} scenarios failed:\n{}", failed.len(), failed.join("\n"));
}

/// A scenario says what it shows, and is called after the first thing that it covers.
#[test]
fn every_scenario_is_called_after_what_it_covers() {
    for ScenarioFile { path, number, scenario } in files::all() {
        assert!(!scenario.head.title.is_empty(), "{path} has a title");
        if path.starts_with("holes") || number.is_some() {
            let first = scenario.head.covers.first();
            assert_eq!(first, number.as_ref(), "{path}: the first that it covers is in its name");
        }
        assert!(number.is_none() || !scenario.expects.is_empty(), "{path} expects something");
    }
}
