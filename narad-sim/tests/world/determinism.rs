//! S17: the same seed gives the same trace.
//!
//! Debug against release is the business of the gate (`.ci/run sim`), which has both binaries.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use narad_sim::lab::{Describe, Laboratory, Watch};
use narad_sim::narad::Narad;
use narad_sim::outcome::Summary;
use narad_sim::run::{RunOptions, run};
use narad_sim::scenario::{DrawOptions, MetastoreKind, Scenario};
use narad_sim::sweep::in_order;
use narad_sim::trace::Line;

const SEEDS: u64 = 200;

/// A short one, on either log in turn.
fn drawn(seed: u64) -> Scenario {
    let all = [MetastoreKind::Abstract, MetastoreKind::Raft];
    let metastore = all.into_iter().cycle().nth(usize::try_from(seed % 2).unwrap_or(0));
    let safety = Some(Duration::from_secs(3));
    let mut drawn = Narad.draw(seed, &DrawOptions { metastore, safety, ..DrawOptions::default() });
    drawn.head.liveness = Duration::from_secs(5);
    drawn
}

fn all(jobs: usize, perform: impl Fn(u64) -> Summary + Sync) -> Vec<Summary> {
    let mut all = Vec::new();
    let jobs = NonZeroUsize::new(jobs).expect("it is not zero");
    let never = AtomicBool::new(false);
    in_order(
        0..SEEDS,
        jobs,
        &never,
        |seed, _| Some(perform(seed)),
        |_, summary| {
            all.push(summary);
            ControlFlow::Continue(())
        },
    );
    all
}

struct Reader(usize);

impl Watch for Reader {
    fn line(&mut self, _: &Line, world: &dyn Describe) -> ControlFlow<()> {
        self.0 += 1;
        if self.0.is_multiple_of(1_000) {
            assert!(!world.describe().is_empty());
        }
        ControlFlow::Continue(())
    }
}

/// Covers S17: 200 drawn seeds on one thread, and again on three, in another order and with somebody
/// who reads every line.
#[test]
fn a_seed_gives_the_same_trace_on_any_thread_and_under_any_eye() {
    let once = all(1, |seed| run(&drawn(seed), RunOptions::default()).summary);
    let again = all(3, |seed| {
        let mut reader = Reader(0);
        let options = RunOptions { watch: Some(&mut reader), ..RunOptions::default() };
        run(&drawn(seed), options).summary
    });
    assert_eq!(once.len(), again.len());
    for (once, again) in once.iter().zip(&again) {
        assert_eq!(once, again, "seed {} came out otherwise", once.seed);
    }
    let mut hashes: Vec<u64> = once.iter().map(|summary| summary.trace_hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), once.len(), "a hash that tells seeds apart");
}
