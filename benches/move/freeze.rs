//! How long a move keeps its source frozen, beside the least that the same work can take.
//!
//! A freeze counts from the first request to freeze until the destination's own replica has applied
//! the flip, as the destination notes it with every move.

mod cluster;
mod floor;

use std::time::Duration;

use narad_core::mover::Freeze;

use self::cluster::{Cluster, Failed, Terms};
use self::floor::Floor;
use super::Options;
use super::bars::{Bar, Threshold};
use super::report::{Report, Row};
use super::stats::{median, percentile};

/// Moves of which one median is made.
const MOVES: u32 = 20;
const MIB: u64 = 1 << 20;
/// How long the new owner is let alone after a move.
const SETTLES: Duration = Duration::from_millis(40);

/// Measures those of F1 to F5 that are wanted.
pub(crate) fn measure(options: &Options, wanted: &[Bar], report: &mut Report) {
    let wants = |bar: Bar| wanted.contains(&bar);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return skip_all(wanted, &error.to_string(), report),
    };
    let measured = runtime.block_on(async {
        if wants(Bar::F1) || wants(Bar::F2) || wants(Bar::F5) {
            small_tails(options, wanted, report).await?;
        }
        if wants(Bar::F3) {
            sizes(options, report).await?;
        }
        if wants(Bar::F4) {
            outpaced(options, report).await?;
        }
        Ok::<(), Failed>(())
    });
    if let Err(error) = measured {
        skip_all(wanted, &error.to_string(), report);
    }
}

fn skip_all(wanted: &[Bar], why: &str, report: &mut Report) {
    for bar in wanted {
        if matches!(bar, Bar::F1 | Bar::F2 | Bar::F3 | Bar::F4 | Bar::F5) {
            report.skip(*bar, why);
        }
    }
}

/// Freezes with a tail of at most a MiB, and their floor with the same tail, one after the other.
async fn small_tails(options: &Options, wanted: &[Bar], report: &mut Report) -> Result<(), Failed> {
    let dir = options.dir.path().join("freeze");
    let mut floor = Floor::new(&dir.join("floor"))?;
    let terms = Terms { copy_rate: 0, passes_max: 20 };
    let mut cluster = Cluster::found(&dir.join("cluster"), terms).await?;
    cluster.fill(64 * MIB).await?;
    let writer = cluster.write(16 << 10, Duration::from_millis(4));
    let (mut pairs, mut freezes, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    let mut gaps = Vec::new();
    // The first round is thrown away.
    for round in 0..=options.pairs {
        let mut ours: Vec<Freeze> = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..MOVES {
            writer.longest_gap();
            let freeze = cluster.move_on().await?;
            tokio::time::sleep(SETTLES).await;
            gaps.push(writer.longest_gap());
            let least = tokio::task::block_in_place(|| {
                cluster.empty_trash();
                floor.freeze(freeze.tail_bytes.min(MIB))
            })?;
            if freeze.tail_bytes <= MIB {
                ours.push(freeze);
                theirs.push(millis(least));
            }
        }
        if round > 0 {
            let lasted: Vec<f64> = ours.iter().map(|freeze| millis(freeze.lasted)).collect();
            pairs.push((median(&lasted), median(&theirs)));
            freezes.append(&mut ours);
            floors.append(&mut theirs);
        }
    }
    writer.stop().await;
    cluster.stop().await?;
    explain(&freezes, &floors, &gaps);
    let lasted: Vec<f64> = freezes.iter().map(|freeze| millis(freeze.lasted)).collect();
    if wanted.contains(&Bar::F1) {
        let threshold = Threshold::AtMost(2.0);
        report.row(Row::of_pairs(Bar::F1, "bare system calls, p50", "ms", &pairs, threshold));
    }
    if wanted.contains(&Bar::F2) {
        let pair = [(percentile(&lasted, 0.99), percentile(&floors, 0.99))];
        let threshold = Threshold::AtMost(3.0);
        report.row(Row::of_pairs(Bar::F2, "bare system calls, p99", "ms", &pair, threshold));
    }
    if wanted.contains(&Bar::F5) {
        report.row(predictions(&freezes));
    }
    Ok(())
}

/// The same tail behind a large partition and behind a small one, in turn.
async fn sizes(options: &Options, report: &mut Report) -> Result<(), Failed> {
    let terms = Terms { copy_rate: 0, passes_max: 20 };
    let dir = options.dir.path();
    let mut large = Cluster::found(&dir.join("large"), terms).await?;
    let mut small = Cluster::found(&dir.join("small"), terms).await?;
    large.fill(4 * options.bytes).await?;
    small.fill(64 * MIB).await?;
    let mut pairs = Vec::new();
    for round in 0..=options.pairs {
        let mut lasted = Vec::new();
        for cluster in [&mut large, &mut small] {
            let writer = cluster.write(16 << 10, Duration::from_millis(4));
            let freeze = cluster.move_on().await?;
            writer.stop().await;
            tokio::time::sleep(SETTLES).await;
            tokio::task::block_in_place(|| cluster.empty_trash());
            lasted.push(millis(freeze.lasted));
        }
        if round > 0 {
            pairs.push((lasted[0], lasted[1]));
        }
    }
    large.stop().await?;
    small.stop().await?;
    let beside = format!("{} MiB beside 64 MiB, same writer", 4 * options.bytes / MIB);
    report.row(Row::of_pairs(Bar::F3, beside, "ms", &pairs, Threshold::AtMost(1.2)));
    Ok(())
}

/// A writer that is faster than the copy may be: the freeze beside its tail over that rate.
async fn outpaced(options: &Options, report: &mut Report) -> Result<(), Failed> {
    const COPY_RATE: u64 = 24 * MIB;
    let terms = Terms { copy_rate: COPY_RATE, passes_max: 20 };
    let mut pairs = Vec::new();
    for round in 0..=options.pairs {
        let mut cluster =
            Cluster::found(&options.dir.path().join(format!("outpaced-{round}")), terms).await?;
        let fixed = cluster.move_on().await?;
        cluster.fill(16 * MIB).await?;
        // About 1.5 times the copy rate.
        let writer = cluster.write(256 << 10, Duration::from_millis(7));
        let freeze = cluster.move_on().await?;
        writer.stop().await;
        cluster.stop().await?;
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let least = freeze.tail_bytes as f64 / COPY_RATE as f64 * 1e3 + millis(fixed.lasted);
        if round > 0 {
            pairs.push((millis(freeze.lasted), least));
        }
        tell_outpaced(&freeze);
    }
    let beside = "tail over the copy rate, and a freeze without a tail";
    report.row(Row::of_pairs(Bar::F4, beside, "ms", &pairs, Threshold::AtMost(1.3)));
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what a person wants to know beside the result")]
fn tell_outpaced(freeze: &Freeze) {
    let Freeze { tail_bytes, predicted, lasted, .. } = freeze;
    eprintln!(
        "outpaced: a tail of {} MiB, {predicted:?} said, {lasted:?} lasted",
        tail_bytes / MIB
    );
}

/// The share of predictions that were near enough, and what they were.
fn predictions(freezes: &[Freeze]) -> Row {
    let pairs: Vec<(f64, f64)> =
        freezes.iter().map(|freeze| (millis(freeze.predicted), millis(freeze.lasted))).collect();
    let near = pairs.iter().filter(|(said, was)| (0.7..=1.5).contains(&(said / was))).count();
    #[expect(clippy::cast_precision_loss, reason = "few moves")]
    let share = near as f64 / pairs.len() as f64;
    let threshold = Threshold::AtLeast(0.9);
    Row {
        ratio: share,
        met: threshold.is_met_by(share),
        threshold,
        ..Row::of_pairs(Bar::F5, "predicted by actual; share in 0.7..1.5", "ms", &pairs, threshold)
    }
}

#[expect(clippy::print_stderr, reason = "what a person wants to know beside the result")]
fn explain(freezes: &[Freeze], floors: &[f64], gaps: &[f64]) {
    let mid = |of: fn(&Freeze) -> Duration| {
        median(&freezes.iter().map(|freeze| millis(of(freeze))).collect::<Vec<_>>())
    };
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let tails: Vec<f64> = freezes.iter().map(|freeze| freeze.tail_bytes as f64 / 1024.0).collect();
    let p = |part| percentile(&freezes.iter().map(|f| millis(f.lasted)).collect::<Vec<_>>(), part);
    eprintln!(
        "freeze ms: p10 {:.2} p50 {:.2} p90 {:.2} p99 {:.2}; floor p50 {:.2} p99 {:.2}; steps: \
         prepare {:.2}, drain {:.2}, verify {:.2}, install {:.2}, flip {:.2}; tail KiB {:.0} \
         ({:.0}..{:.0}); until the next record is taken {:.1} ms",
        p(0.1),
        p(0.5),
        p(0.9),
        p(0.99),
        median(floors),
        percentile(floors, 0.99),
        mid(|freeze| freeze.steps.prepare),
        mid(|freeze| freeze.steps.drain),
        mid(|freeze| freeze.steps.verify),
        mid(|freeze| freeze.steps.install),
        mid(|freeze| freeze.steps.flip),
        median(&tails),
        percentile(&tails, 0.0),
        percentile(&tails, 1.0),
        median(gaps) * 1e3,
    );
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
