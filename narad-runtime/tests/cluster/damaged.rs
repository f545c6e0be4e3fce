//! Records that their owner's disk has damaged: named, and given up only by command.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use narad_core::ids::{Epoch, Offset};
use narad_runtime::service::{
    Handed, Position, Record, Reserve, Service as _, ServiceError, Settle, Skip, Skipped,
};

use super::harness::{Cluster, eventually};

const TOPIC: &str = "orders";
const VICTIM: &[u8] = b"victim";

/// A node that has restarted on a log of which one append is damaged, of so many records of their
/// own each before it and behind it.
async fn damaged(before: u64, victims: u64, behind: u64) -> Cluster {
    let mut cluster = Cluster::of(1).await;
    cluster.create_topic(TOPIC, 1).await;
    is_served(&cluster).await;
    for number in 0..before {
        cluster.produce(TOPIC, 0, &format!("before {number}")).await;
    }
    let service = cluster.servers["n1"].service();
    let record = |value: String| Record { value: value.into(), ..Record::default() };
    let victims = (0..victims).map(|number| record(format!("victim {number}"))).collect();
    service.produce(TOPIC, 0, victims).await.unwrap();
    let behind: Vec<Record> = (0..behind).map(|number| record(format!("{number}"))).collect();
    for some in behind.chunks(100) {
        service.produce(TOPIC, 0, some.to_vec()).await.unwrap();
    }
    drop(service);
    let server = cluster.servers.remove("n1").unwrap();
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    server.shutdown().await.unwrap();
    let mut found = 0;
    for path in segments(&cluster.data_dir("n1").join("partitions")) {
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(VICTIM.len()).position(|window| window == VICTIM) {
            bytes[at] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            found += 1;
        }
    }
    assert_eq!(found, 1);
    cluster.start_again("n1", peer, http).await;
    is_served(&cluster).await;
    cluster
}

async fn is_served(cluster: &Cluster) {
    let service = cluster.servers["n1"].service();
    eventually("it is served", async || {
        service.routes(TOPIC).await.is_ok_and(|routes| routes.iter().all(|it| it.serving_here))
    })
    .await;
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|kind| kind == "seg") {
            found.push(path);
        }
    }
    found
}

async fn hand_out(
    cluster: &Cluster,
    partition: Option<u32>,
    records_max: usize,
) -> Result<Handed, ServiceError> {
    let visibility = Duration::from_mins(10);
    let wanted =
        Reserve { partition, records_max, bytes_max: 1 << 20, visibility, wait: Duration::ZERO };
    cluster.servers["n1"].service().reserve(TOPIC, wanted).await
}

/// Works on records, one handful after the other, until there are no more; returns their offsets.
async fn work(cluster: &Cluster, records_max: usize) -> (BTreeSet<u64>, Option<ServiceError>) {
    let mut done = BTreeSet::new();
    loop {
        match hand_out(cluster, Some(0), records_max).await {
            Ok(handed) if handed.records.is_empty() => return (done, None),
            Ok(handed) => {
                let tickets = handed.records.iter().map(|one| one.ticket).collect();
                for one in &handed.records {
                    assert!(done.insert(one.offset.0), "{:?} comes once", one.offset);
                }
                let service = cluster.servers["n1"].service();
                let settled = service.settle(TOPIC, tickets, Settle::Ack).await.unwrap();
                assert_eq!(settled.len(), handed.records.len());
            }
            Err(error) => return (done, Some(error)),
        }
    }
}

fn named(from: u64, to: u64) -> ServiceError {
    let (from, to) = (Offset(from), Offset(to));
    ServiceError::Damaged { topic: TOPIC.into(), partition: 0, from, to }
}

async fn skip(cluster: &Cluster, from: u64, to: u64) -> Result<Skipped, ServiceError> {
    let epoch = hand_out_epoch(cluster).await;
    let skip = Skip { epoch, from: Offset(from), to: Offset(to) };
    cluster.servers["n1"].service().skip(TOPIC, 0, skip).await
}

async fn hand_out_epoch(cluster: &Cluster) -> Epoch {
    cluster.servers["n1"].service().routes(TOPIC).await.unwrap()[0].epoch
}

/// `case_048`: consumers get what can be read, whatever they ask for at once; then they are told
/// exactly what cannot, as often as they ask, until an operator gives that up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_read_is_handed_out_and_the_rest_is_named() {
    let cluster = damaged(3, 5, 10).await;
    let (done, error) = work(&cluster, 4).await;
    let readable: BTreeSet<u64> = (0..3).chain(8..18).collect();
    assert_eq!((done, error), (readable, Some(named(3, 8))));
    for records_max in [1, 100] {
        for partition in [None, Some(0)] {
            let again = hand_out(&cluster, partition, records_max).await;
            assert_eq!(again, Err(named(3, 8)), "it is handed back, and named again");
        }
    }
    let service = cluster.servers["n1"].service();
    let from = Position::Offset { at: Offset(0), epoch: None };
    let read = service.fetch(TOPIC, 0, from, 1 << 20, Duration::ZERO).await.unwrap();
    assert_eq!(read.next, Offset(3));
    let from = Position::Offset { at: read.next, epoch: None };
    let read = service.fetch(TOPIC, 0, from, 1 << 20, Duration::ZERO).await;
    assert_eq!(read, Err(named(3, 8)), "a plain read is told as well");

    for (from, to) in [(2, 8), (3, 9), (3, 3), (17, 19)] {
        let refused = skip(&cluster, from, to).await;
        assert!(matches!(refused, Err(ServiceError::Invalid(_))), "{from} to {to}: {refused:?}");
    }
    let stale = Skip { epoch: Epoch(9), from: Offset(3), to: Offset(8) };
    assert!(service.skip(TOPIC, 0, stale).await.is_err(), "of another reign");
    assert_eq!(hand_out(&cluster, Some(0), 1).await, Err(named(3, 8)), "nothing was given up");
    assert_eq!(skip(&cluster, 3, 8).await, Ok(Skipped { records: 5, next: Offset(8) }));
    assert_eq!(skip(&cluster, 3, 8).await, Ok(Skipped { records: 0, next: Offset(8) }));
    assert_eq!(work(&cluster, 100).await, (BTreeSet::new(), None));
    cluster.produce(TOPIC, 0, "more").await;
    assert_eq!(work(&cluster, 100).await, ([18].into(), None));
}

/// S7: consumers who may not acknowledge any further ahead are told what holds them up, and go on
/// when it is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_consumers_up_is_named() {
    let cluster = damaged(0, 1, 1_500).await;
    let (done, error) = work(&cluster, 100).await;
    assert_eq!(error, Some(named(0, 1)));
    assert!((1_000..1_100).contains(&done.len()), "{}", done.len());
    assert_eq!(skip(&cluster, 0, 1).await, Ok(Skipped { records: 1, next: Offset(1) }));
    let (rest, error) = work(&cluster, 100).await;
    assert_eq!((done.len() + rest.len(), error), (1_500, None));
}

/// More damage than may be handed out at once is named whole, and goes in one step; ahead of what is
/// not acknowledged it goes in as many as the limit needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_damage_is_given_up() {
    let cluster = damaged(1, 3_000, 1).await;
    let handed = hand_out(&cluster, Some(0), 1).await.unwrap();
    assert_eq!(handed.records[0].offset, Offset(0));
    let error = hand_out(&cluster, Some(0), 100).await.unwrap_err();
    let ServiceError::Damaged { from, to, .. } = error else { panic!("{error}") };
    assert_eq!((from, to), (Offset(1), Offset(3_001)));
    let ahead = skip(&cluster, 1, 3_001).await.unwrap();
    assert!(ahead.records > 0 && ahead.next < Offset(3_001), "{ahead:?}");
    assert_eq!(ahead.next.0, 1 + ahead.records);
    let stuck = skip(&cluster, ahead.next.0, 3_001).await.unwrap_err();
    assert_eq!(stuck, ServiceError::TooFarAhead { frontier: Offset(0) });
    let service = cluster.servers["n1"].service();
    service.settle(TOPIC, vec![handed.records[0].ticket], Settle::Ack).await.unwrap();
    let rest = skip(&cluster, ahead.next.0, 3_001).await.unwrap();
    assert_eq!((ahead.records + rest.records, rest.next), (3_000, Offset(3_001)));
    assert_eq!(work(&cluster, 100).await, ([3_001].into(), None));
}
