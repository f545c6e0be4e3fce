//! R1 and R2: what a change of the replicated state costs, and how many there can be.
//!
//! Three whole nodes in this process, each with a log of its own on the measured disk, and loopback
//! between them. The change is a pin, asked of the leader like an operator would: a read barrier,
//! then a compare-and-swap through the log, durable on two nodes before it is answered.

mod floor;
mod trio;

use std::future::Future;
use std::time::{Duration, Instant};

use self::floor::Floor;
use self::trio::Trio;
use super::Options;
use super::bars::{Bar, Threshold};
use super::report::{Report, Row};
use super::stats::median;

/// Changes of one sample of latency.
const LATENCY_OPS: u32 = 200;

/// Changes that are under way at once in a sample of throughput.
const DEPTH: u32 = 64;

/// How long one sample of throughput lasts.
const RATE_TIME: Duration = Duration::from_millis(700);

pub(crate) fn measure(options: &Options, wanted: &[Bar], report: &mut Report) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let measured = match runtime {
        Ok(runtime) => runtime.block_on(run(options, wanted, report)),
        Err(error) => Err(error.into()),
    };
    if let Err(why) = measured {
        for bar in wanted {
            report.skip(*bar, &why.to_string());
        }
    }
}

async fn run(
    options: &Options,
    wanted: &[Bar],
    report: &mut Report,
) -> Result<(), Box<dyn std::error::Error>> {
    let trio = Trio::start(&options.dir.path().join("trio"), DEPTH).await?;
    let mut floor = Floor::new(&options.dir.path().join("floor"))?;
    for bar in wanted {
        match bar {
            Bar::R1 => latency(options, &trio, &mut floor, report).await?,
            Bar::R2 => rate(options, &trio, report).await?,
            other => report.skip(*other, "no bar of the replicated log"),
        }
    }
    trio.stop().await;
    Ok(())
}

/// R1: one change after the other, beside what a change cannot do without.
async fn latency(
    options: &Options,
    trio: &Trio,
    floor: &mut Floor,
    report: &mut Report,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut by_commit, mut by_sync, mut barriers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=options.pairs {
        let change = p50(|| trio.change(0)).await?;
        let barrier = p50(|| trio.barrier()).await?;
        let (commit, sync, trip) = floor.measure(LATENCY_OPS)?;
        by_commit.push((change - barrier, commit + trip));
        by_sync.push((change - barrier, sync + trip));
        barriers.push((change, commit + trip));
    }
    for (pairs, beside, threshold) in [
        (by_commit, "one redb commit + one round trip", Threshold::AtMost(2.0)),
        (by_sync, "one fdatasync + one round trip", Threshold::None),
        (barriers, "with its read barrier, commit + round trip", Threshold::None),
    ] {
        report.row(Row::of_pairs(Bar::R1, beside, "us", &pairs[1..], threshold));
    }
    Ok(())
}

/// Does something a number of times, one after the other; returns the median in microseconds.
async fn p50<F>(mut work: impl FnMut() -> F) -> Result<f64, Box<dyn std::error::Error>>
where
    F: Future<Output = Result<(), Box<dyn std::error::Error>>>,
{
    let mut samples = Vec::new();
    for _ in 0..LATENCY_OPS {
        let began = Instant::now();
        work().await?;
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&samples))
}

/// R2: many at once beside one at a time.
async fn rate(
    options: &Options,
    trio: &Trio,
    report: &mut Report,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut pairs = Vec::new();
    for _ in 0..=options.pairs {
        pairs.push((trio.rate(DEPTH, RATE_TIME).await?, trio.rate(1, RATE_TIME).await?));
    }
    let beside = format!("{DEPTH} changes at once, one at a time");
    report.row(Row::of_pairs(Bar::R2, beside, "/s", &pairs[1..], Threshold::AtLeast(5.0)));
    Ok(())
}
