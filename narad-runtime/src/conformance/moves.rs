//! Whole nodes over an embedder's store: a partition that moves to and fro under load.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use narad_core::config::Config;
use narad_core::ids::{Name, NodeId, Offset, PartitionId};
use narad_core::node::Ask;
use narad_core::partition::Position;

use super::store::StoreRig;
use super::{Report, Violation};
use crate::embed::Narad;
use crate::embed::memory::{MemoryMetastore, MemoryPeer};

const KEPT: &str = "an acknowledged record is neither lost nor hidden";
const ORDER: &str = "records of one writer keep their order";
const LIVES: &str = "a move ends";

/// How long one move may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Moves while a writer writes; after each other one the power of both nodes is cut.
const MOVES: u32 = 4;

/// Runs two nodes over stores of two rigs, moves a partition between them while records are appended
/// and consumers' positions noted, cuts the power of both in between, and checks that no acknowledged
/// record is lost, none is there out of order, and positions move along. What decides, and the
/// connections, are [in memory](crate::embed::memory).
///
/// # Errors
///
/// The rule, with what was done.
pub async fn moves(one: &dyn StoreRig, other: &dyn StoreRig) -> Result<Report, Violation> {
    let mut report = Report::default();
    let (metastore, network) = (MemoryMetastore::default(), MemoryPeer::default());
    let rigs = [("left", one), ("right", other)];
    for (_, rig) in rigs {
        rig.fresh().await;
    }
    let mut acknowledged = BTreeSet::new();
    let mut next = 0;
    let mut partition = None;
    for round in 0..MOVES / 2 {
        let mut nodes = Vec::new();
        for (name, rig) in rigs {
            let store = rig.open().await;
            let started = Narad::builder()
                .name(named(name))
                .config(Config { pass_interval: Duration::from_millis(5), ..hasty() })
                .store(store)
                .metastore(metastore.clone())
                .peer(network.another())
                .start()
                .await;
            nodes.push(Arc::new(started.map_err(|error| broken(LIVES, "starting", &error))?));
        }
        for node in &nodes {
            within(node.ready(), "becoming ready").await?;
        }
        let of = if let Some(partition) = partition {
            partition
        } else {
            let topic = nodes[0].create_topic(named("orders"), 1);
            PartitionId { topic: within(topic, "creating a topic").await?, index: 0 }
        };
        partition = Some(of);
        for _ in 0..2 {
            next = one_move(&nodes, of, next, &mut acknowledged, &mut report).await?;
        }
        settled(&nodes, of, &acknowledged, &mut report).await?;
        if round == 0 {
            // Both at once, in the midst of nothing in particular.
            drop(nodes);
            for (_, rig) in rigs {
                rig.power_loss().await;
            }
        } else {
            for node in nodes {
                if let Some(node) = Arc::into_inner(node) {
                    node.shutdown().await.map_err(|error| broken(LIVES, "a shutdown", &error))?;
                }
            }
        }
    }
    Ok(report)
}

/// Moves the partition to the node that does not have it, under load.
async fn one_move(
    nodes: &[Arc<Narad>],
    partition: PartitionId,
    first: u64,
    acknowledged: &mut BTreeSet<u64>,
    report: &mut Report,
) -> Result<u64, Violation> {
    let owned = async {
        loop {
            if let Some(owner) = nodes[0].owner(partition) {
                return Ok::<_, std::convert::Infallible>(owner);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let owner = within(owned, "a first owner").await?;
    let target = nodes.iter().find(|node| node.node() != owner).unwrap_or(&nodes[0]);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(Arc::clone(&nodes[0]), partition, first, Arc::clone(&stop)));
    let (to, id) = (Arc::clone(target), target.node());
    let asked = nodes[0].ask(Ask::Move { partition, to: id }).await;
    asked.map_err(|error| broken(LIVES, "asking for a move", &error))?;
    within(to.until(move |node| node.serving(partition).is_some()), "a move under load").await?;
    stop.store(true, Ordering::Relaxed);
    let written = writer.await.map_err(|panic| broken(KEPT, "a writer", &panic))?;
    report.checks += 1;
    acknowledged.extend(&written.acknowledged);
    let (start, hwm) = to.bounds(partition).map_err(|error| broken(LIVES, "bounds", &error))?;
    let stands =
        Position { committed: Some(Offset(start.0.midpoint(hwm.0))), ..Position::default() };
    within(to.commit(partition, stands.clone()), "noting a position").await?;
    let kept = to.position(partition).map_err(|error| broken(KEPT, "a position", &error))?;
    report.same(&kept, &stands, KEPT, "a position that was noted")?;
    Ok(written.next)
}

#[derive(Debug)]
struct Written {
    acknowledged: Vec<u64>,
    next: u64,
}

/// Appends numbered records until it is told to stop.
async fn write(
    node: Arc<Narad>,
    partition: PartitionId,
    first: u64,
    stop: Arc<AtomicBool>,
) -> Written {
    const LEAST: u64 = 200;
    let mut written = Written { acknowledged: Vec::new(), next: first };
    while !stop.load(Ordering::Relaxed) || written.next < first + LEAST {
        let numbers = written.next..written.next + 5;
        let records = numbers.clone().map(|n| Bytes::from(format!("{n} {}", "z".repeat(300))));
        written.next = numbers.end;
        if node.append(partition, records.collect()).await.is_ok() {
            written.acknowledged.extend(numbers);
        } else {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    written
}

/// Reads all of it, at whoever owns it.
async fn settled(
    nodes: &[Arc<Narad>],
    partition: PartitionId,
    acknowledged: &BTreeSet<u64>,
    report: &mut Report,
) -> Result<(), Violation> {
    let owner = nodes[0].owner(partition).unwrap_or(NodeId(0));
    let node = nodes.iter().find(|node| node.node() == owner).unwrap_or(&nodes[0]);
    let (mut at, hwm) =
        node.bounds(partition).map_err(|error| broken(LIVES, "the owner's bounds", &error))?;
    let mut found = Vec::new();
    while at < hwm {
        let read = node.read(partition, at, 1 << 20).await;
        let read = read.map_err(|error| broken(KEPT, "reading", &error))?;
        let Some((last, _)) = read.last() else {
            return Err(Violation {
                rule: KEPT,
                what: format!("nothing to read at {at} of {hwm}"),
            });
        };
        at = last.next();
        for (_, record) in read {
            let number = std::str::from_utf8(&record).ok().and_then(|text| text.split(' ').next());
            let number = number.and_then(|text| text.parse::<u64>().ok());
            let foreign =
                || Violation { rule: KEPT, what: "a record nobody has appended".to_owned() };
            found.push(number.ok_or_else(foreign)?);
        }
    }
    let there: BTreeSet<u64> = found.iter().copied().collect();
    let lost: Vec<_> = acknowledged.difference(&there).take(5).collect();
    report.check(lost.is_empty(), KEPT, || format!("lost or hidden after a move: {lost:?}, .."))?;
    let mut firsts = BTreeSet::new();
    let order: Vec<u64> = found.into_iter().filter(|number| firsts.insert(*number)).collect();
    let is_ordered = order.is_sorted();
    report.check(is_ordered, ORDER, || "records of one writer are out of order".to_owned())
}

async fn within<T, E: std::fmt::Display>(
    work: impl Future<Output = Result<T, E>>,
    doing: &str,
) -> Result<T, Violation> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done.map_err(|error| broken(LIVES, doing, &error)),
        Err(_) => Err(Violation { rule: LIVES, what: format!("{doing}: no end in {PATIENCE:?}") }),
    }
}

fn broken(rule: &'static str, doing: &str, error: &impl std::fmt::Display) -> Violation {
    Violation { rule, what: format!("{doing}: {error}") }
}

fn named(text: &str) -> Name {
    Name::new(text).unwrap_or_else(|_| unreachable!("{text} is a good name"))
}

fn hasty() -> Config {
    Config {
        heartbeat_interval: Duration::from_millis(100),
        controller_interval: Duration::from_millis(50),
        retry_min: Duration::from_millis(20),
        freeze_duty_percent: 100,
        ..Config::new(7)
    }
}
