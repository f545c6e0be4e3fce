//! Large partitions, and partitions that are written while they move.
//!
//! With `NARAD_BIG=1` the partition has 4 GiB; build for release then.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::harness::Cluster;
use super::ledger::{Filler, Ledger};

const TOPIC: &str = "orders";

/// How often a second a writer writes.
const BEATS: u32 = 20;

/// What one test moves.
#[derive(Clone, Copy, Debug)]
struct Load {
    partition_bytes: usize,
    copied_per_second: usize,
    written_per_second: usize,
    lag_bytes: usize,
}

/// What came of it.
#[derive(Debug)]
struct Figures {
    /// From the wish to the last record's new home.
    took: Duration,
    copied_bytes: u64,
    /// What was left to copy when the source was frozen.
    tail_bytes: u64,
    frozen: Duration,
    passes: u64,
    /// Cutovers with a tail that never became small.
    not_converged: usize,
    /// Bytes acknowledged meanwhile.
    written: usize,
}

impl Figures {
    fn show(&self) -> String {
        let Self { took, copied_bytes, tail_bytes, frozen, passes, not_converged, written } = self;
        format!(
            "{copied_bytes} bytes copied in {took:?} and {passes} passes, {written} written \
             meanwhile, {tail_bytes} left at the freeze of {frozen:?}, {not_converged} not converged"
        )
    }
}

/// Moves a partition of a cluster that knows nothing else, while it is written.
async fn move_while_written(load: Load) -> Figures {
    let Load { partition_bytes, copied_per_second, written_per_second, lag_bytes } = load;
    let segment_bytes = (partition_bytes / 16).clamp(1 << 20, 64 << 20);
    let more = format!(
        "paused = true\ncopy_rate_bytes_per_second = {copied_per_second}\n[log]\n\
         segment_bytes = {segment_bytes}\n[copy]\nlag_bytes = {lag_bytes}\n\
         chunk_bytes_max = \"1MiB\"\n"
    );
    let mut cluster = Cluster::of(3, &more).await;
    cluster.create_topic(TOPIC, 1).await;
    let ledger = Ledger::default();
    ledger.fill(&cluster.client(), TOPIC, 0, partition_bytes, 32 << 10).await;

    let (stop, client) = (CancellationToken::new(), cluster.client());
    let (stopped, noted) = (stop.clone(), ledger.clone());
    let writer = tokio::spawn(async move {
        let mut filler = Filler::new(&noted, &client, TOPIC, 0, 4 << 10);
        let mut beat = tokio::time::interval(Duration::from_secs(1) / BEATS);
        while !stopped.is_cancelled() {
            beat.tick().await;
            filler.send(written_per_second / BEATS as usize).await;
        }
        filler.written
    });
    let (_, from) = cluster.routes(TOPIC).await.remove(&0).unwrap();
    let to = cluster.nodes.keys().find(|name| **name != from).unwrap().clone();
    let begun = Instant::now();
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.settled(TOPIC, 0, &to).await;
    let took = begun.elapsed();
    stop.cancel();
    let written = writer.await.unwrap();
    ledger.check(&cluster.client(), TOPIC, &[0]).await;

    let node = cluster.node(&to);
    let last = |about, field| *node.logged(about, field).last().unwrap();
    Figures {
        took,
        copied_bytes: last("has moved here", "copied_bytes"),
        tail_bytes: last("is frozen", "tail_bytes"),
        frozen: Duration::from_micros(last("has moved here", "frozen_us")),
        passes: last("has moved here", "passes"),
        not_converged: node.log().matches("non-converged cutover").count(),
        written,
    }
}

/// R17, R26, case C50: what is left for the freeze is what was written last, whatever the size of
/// the partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_freeze_does_not_grow_with_the_partition() {
    let big = std::env::var("NARAD_BIG").is_ok();
    let (large, rate) = if big { (4 << 30, 150 << 20) } else { (96 << 20, 24 << 20) };
    // More than is written between the starts of two passes, which no pass can catch up with.
    let lag_bytes = if big { 8 << 20 } else { 1 << 20 };
    for partition_bytes in [large / 16, large] {
        let load = Load {
            partition_bytes,
            copied_per_second: rate,
            written_per_second: rate / 3,
            lag_bytes,
        };
        let figures = move_while_written(load).await;
        assert_eq!(figures.not_converged, 0, "{figures:?}");
        assert!(figures.copied_bytes >= partition_bytes as u64, "{figures:?}");
        // The lag, and what came between the last listing and the freeze.
        let most = (load.lag_bytes + load.written_per_second) as u64;
        assert!(figures.tail_bytes <= most, "more than {most} bytes under the freeze: {figures:?}");
        println!("{}", figures.show());
    }
}

/// R28, R33, R34: a partition that is written faster than it can be copied is cut over all the
/// same, and the operator is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_written_faster_than_it_copies_still_cuts_over_and_says_so() {
    let load = Load {
        partition_bytes: 1 << 20,
        copied_per_second: 1 << 20,
        written_per_second: 2 << 20,
        lag_bytes: 64 << 10,
    };
    let figures = move_while_written(load).await;
    println!("{}", figures.show());
    assert_eq!(figures.not_converged, 1, "{figures:?}");
}
