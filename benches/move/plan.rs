//! P1 to P4: what a plan costs, beside one look at everything and beside a planner without ideas.
//!
//! A million partitions on a thousand nodes, fewer if the copies are small. One look at everything
//! is a tally of where each partition ends up, its target or its owner, over a dense array of both:
//! nobody who plans can do less.

mod plain;
mod scenes;

use std::hint::black_box;
use std::time::Instant;

use narad_core::plan::{Limits, Move, Partition, Placement, Planner, plan};

use self::scenes::{Ends, Kin, Scene, Size};
use super::Options;
use super::bars::{Bar, Threshold};
use super::report::{Report, Row};
use super::stats::median;

/// Times that one side runs for one sample.
const RUNS: usize = 5;

pub(crate) fn measure(options: &Options, wanted: &[Bar], report: &mut Report) {
    let big = Size::of(options);
    for bar in wanted {
        match bar {
            Bar::P1 => {
                for kin in [Kin::Alone, Kin::Topics, Kin::Families] {
                    full(options, big, kin, report);
                }
            }
            Bar::P2 => {
                for (scene, size, least) in [
                    (Scene::Join, big, 20.0),
                    (Scene::Random, big, 100.0),
                    (Scene::Double, big.tenth_of_partitions(), 100.0),
                ] {
                    beside_plain(options, size, scene, least, report);
                }
            }
            Bar::P3 => topped_up(options, big, report),
            Bar::P4 => grown(options, big, report),
            other => report.skip(*other, "no bar of the planner"),
        }
    }
}

/// Runs something a few times; returns the median in milliseconds.
fn milliseconds<T>(mut work: impl FnMut() -> T) -> f64 {
    let runs = (0..RUNS).map(|_| {
        let began = Instant::now();
        black_box(work());
        began.elapsed().as_secs_f64() * 1e3
    });
    median(&runs.collect::<Vec<f64>>())
}

/// Runs pairs; the first does not count.
fn pairs(
    options: &Options,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) -> Vec<(f64, f64)> {
    (0..=options.pairs).map(|_| (ours(), theirs())).skip(1).collect()
}

/// One look at everything: who ends up with how many partitions.
fn tally(ends: &[Ends], nodes: usize) -> Vec<u32> {
    let mut counts = vec![0; nodes];
    for Ends { owner, target } in ends {
        counts[if *target == u32::MAX { *owner } else { *target } as usize] += 1;
    }
    counts
}

fn planned(placement: &Placement) -> usize {
    plan(placement, &Limits::default()).len()
}

/// P1: every scene, and the worst of them against its threshold.
fn full(options: &Options, size: Size, kin: Kin, report: &mut Report) {
    let rows = Scene::ALL.map(|scene| {
        let (placement, ends) = scene.build(size, kin);
        let nodes = placement.nodes().len();
        let pairs = pairs(
            options,
            || milliseconds(|| planned(&placement)),
            || milliseconds(|| tally(&ends, nodes)),
        );
        let beside = format!("{} {}, one tally", kin.name(), scene.name());
        (beside, pairs)
    });
    let of = |(beside, pairs): &(String, Vec<(f64, f64)>), threshold| {
        Row::of_pairs(Bar::P1, beside.clone(), "ms", pairs, threshold)
    };
    let worst = rows
        .iter()
        .max_by(|one, other| {
            of(one, Threshold::None).ratio.total_cmp(&of(other, Threshold::None).ratio)
        })
        .map(|(beside, _)| beside.clone());
    for row in &rows {
        let threshold = if Some(&row.0) == worst.as_ref() { kin.most() } else { Threshold::None };
        report.row(of(row, threshold));
    }
}

/// P2: beside a planner that looks at every receiver for every partition.
fn beside_plain(options: &Options, size: Size, scene: Scene, least: f64, report: &mut Report) {
    let (placement, _) = scene.build(size, Kin::Alone);
    let moves = planned(&placement);
    for (how, plain, threshold) in [
        ("by ids", plain::by_ids as fn(&Placement) -> usize, Threshold::AtLeast(least)),
        ("by dense indices", plain::by_indices, Threshold::None),
    ] {
        assert_eq!(plain(&placement), moves, "both find the fewest moves");
        let once = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
        // The plain planner's time over ours: how many times faster ours is.
        let pairs = pairs(
            options,
            || {
                let began = Instant::now();
                black_box(plain(&placement));
                once(began)
            },
            || milliseconds(|| planned(&placement)),
        );
        let beside = format!("{} of {}, plain {how} / Narad", scene.name(), size.partitions);
        report.row(Row::of_pairs(Bar::P2, beside, "ms", &pairs, threshold));
    }
}

/// P3: eight moves of a plan have ended, and the next eight start, all of which the planner is told.
fn topped_up(options: &Options, size: Size, report: &mut Report) {
    let limits = Limits { per_source: u32::MAX, per_destination: u32::MAX, ..Limits::default() };
    for scene in [Scene::Join, Scene::Drain, Scene::Random, Scene::Double] {
        let (placement, _) = scene.build(size, Kin::Families);
        let mut planner = Planner::new(placement.clone());
        let mut running = planner.top_up(&limits);
        assert_eq!(running.len(), 8, "{}", scene.name());
        start(&mut planner, &running);
        let pairs = pairs(
            options,
            || {
                milliseconds(|| {
                    for Move { partition, to, .. } in &running {
                        planner.set(Partition::settled(*partition, *to)).expect("it moves there");
                    }
                    running = planner.top_up(&limits);
                    start(&mut planner, &running);
                })
            },
            || milliseconds(|| planned(&placement)),
        );
        let beside = format!("{}, the full plan", scene.name());
        report.row(Row::of_pairs(Bar::P3, beside, "ms", &pairs, Threshold::AtMost(0.01)));
    }
}

fn start(planner: &mut Planner, moves: &[Move]) {
    for Move { partition, from, to, .. } in moves {
        let row = Partition::settled(*partition, *from);
        planner.set(Partition { target: Some(*to), ..row }).expect("it may move there");
    }
}

/// P4: ten times as many partitions and nodes.
fn grown(options: &Options, big: Size, report: &mut Report) {
    for kin in [Kin::Alone, Kin::Families] {
        for scene in Scene::ALL {
            let ((large, _), (small, _)) = (scene.build(big, kin), scene.build(big.tenth(), kin));
            let pairs = pairs(
                options,
                || milliseconds(|| planned(&large)),
                || milliseconds(|| planned(&small)),
            );
            let beside = format!("{} {}, a tenth of it", kin.name(), scene.name());
            report.row(Row::of_pairs(Bar::P4, beside, "ms", &pairs, Threshold::AtMost(20.0)));
        }
    }
}
