//! Consumers of partitions that move between real nodes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narad_core::cursor::Refused;
use narad_core::ids::{Delivery, Offset};
use narad_runtime::server::NodeService;
use narad_runtime::service::{
    AckSet, Handed, HandedRecord, OffsetsView, Position, Read, Reserve, Service, ServiceError,
    Settle, Settled, Ticket,
};

use super::harness::{Cluster, eventually};

const TOPIC: &str = "orders";
/// Long enough for anything that a test does.
const LONG: Duration = Duration::from_mins(10);

fn wanted(records_max: usize) -> Reserve {
    Reserve {
        partition: Some(0),
        records_max,
        bytes_max: 1 << 20,
        visibility: LONG,
        wait: Duration::ZERO,
    }
}

/// A cluster with one partition, its owner's name, and another node's.
async fn one_partition(nodes: usize) -> (Cluster, String, String) {
    let cluster = Cluster::of(nodes).await;
    cluster.create_topic(TOPIC, 1).await;
    cluster.produce(TOPIC, 0, "0").await;
    let owner = owner(&cluster).await;
    let other = cluster.servers.keys().find(|name| **name != owner).cloned().unwrap_or_default();
    (cluster, owner, other)
}

async fn owner(cluster: &Cluster) -> String {
    let any = cluster.servers.values().next().unwrap().service();
    any.routes(TOPIC).await.unwrap()[0].owner.to_string()
}

fn service(cluster: &Cluster, name: &str) -> std::sync::Arc<NodeService> {
    cluster.servers[name].service()
}

/// Moves the partition, and waits until both nodes know of it.
async fn move_to(cluster: &Cluster, to: &str) {
    service(cluster, to).move_partition(TOPIC, 0, to).await.unwrap();
    moved_to(cluster, to).await;
}

async fn moved_to(cluster: &Cluster, to: &str) {
    eventually("the partition has moved", async || {
        let served = |route: &narad_runtime::service::Route| {
            route.owner.as_str() == to && (route.serving_here || route.addr.is_empty())
        };
        service(cluster, to).routes(TOPIC).await.is_ok_and(|routes| routes.iter().all(served))
    })
    .await;
    for server in cluster.servers.values() {
        eventually("everybody knows", async || {
            let routes = server.service().routes(TOPIC).await.unwrap_or_default();
            routes.iter().all(|route| route.owner.as_str() == to)
        })
        .await;
    }
}

fn offsets_of(handed: &Handed) -> Vec<u64> {
    handed.records.iter().map(|one| one.offset.0).collect()
}

fn tickets(handed: &Handed) -> Vec<Ticket> {
    handed.records.iter().map(|HandedRecord { ticket, .. }| *ticket).collect()
}

async fn view(service: &NodeService) -> OffsetsView {
    service.offsets(TOPIC, Read::Barrier).await.unwrap().remove(0)
}

/// R49: whoever waits for records at the owner is answered at the flip, with where the
/// next one is, instead of waiting on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_poll_is_woken_at_the_flip() {
    let (cluster, owner, other) = one_partition(3).await;
    let source = service(&cluster, &owner);
    let held = source.reserve(TOPIC, wanted(9)).await.unwrap();
    source.settle(TOPIC, tickets(&held), Settle::Ack).await.unwrap();
    let handing = |wait| {
        let source = service(&cluster, &owner);
        tokio::spawn(async move { source.reserve(TOPIC, Reserve { wait, ..wanted(9) }).await })
    };
    let reading = {
        let source = service(&cluster, &owner);
        let end = Position::Offset { at: Offset(1), epoch: None };
        tokio::spawn(async move { source.fetch(TOPIC, 0, end, 1 << 20, LONG).await })
    };
    let polls = [handing(LONG), handing(LONG)];
    move_to(&cluster, &other).await;
    let addr = cluster.servers[&other].http_addr().to_string();
    for poll in polls {
        let refused = poll.await.unwrap().unwrap_err();
        assert_eq!(refused, ServiceError::NotOwner { owner: Some(addr.clone()) });
    }
    let refused = reading.await.unwrap().unwrap_err();
    assert_eq!(refused, ServiceError::NotOwner { owner: Some(addr) });
}

/// R49, R50, R51, R53, `case_069`: what was in flight at the flip is handed out again by the next owner; the old
/// one answers that the partition has moved, and where to, and the next one still takes the old
/// handles where the records are the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_in_flight_comes_again_at_the_next_owner() {
    let (cluster, owner, other) = one_partition(3).await;
    for value in ["1", "2", "3"] {
        cluster.produce(TOPIC, 0, value).await;
    }
    let (source, next) = (service(&cluster, &owner), service(&cluster, &other));
    let held = source.reserve(TOPIC, wanted(3)).await.unwrap();
    let held = tickets(&held);
    let acked = source.settle(TOPIC, held[..1].to_vec(), Settle::Ack).await.unwrap();
    assert_eq!(acked, [Settled::Acked]);
    let misdirected = next.settle(TOPIC, held[1..2].to_vec(), Settle::Ack).await.unwrap();
    let at = |name: &str| Some(cluster.servers[name].http_addr().to_string());
    let not_owner = ServiceError::NotOwner { owner: at(&owner) };
    assert_eq!(misdirected, [Settled::Unavailable(not_owner)]);
    // An epoch that has not begun is nobody's.
    let reign = held[0].handle.epoch.next();
    let acks = AckSet { up_to: Some(Offset(1)), offsets: Vec::new() };
    let ahead = source.ack(TOPIC, 0, reign, acks).await.unwrap_err();
    assert!(matches!(ahead, ServiceError::Invalid(_)), "{ahead}");
    let from = Position::Offset { at: Offset(0), epoch: Some(reign) };
    let ahead = source.fetch(TOPIC, 0, from, 1 << 20, Duration::ZERO).await.unwrap_err();
    assert!(matches!(ahead, ServiceError::Invalid(_)), "{ahead}");

    move_to(&cluster, &other).await;
    for how in
        [Settle::Ack, Settle::Nack { delay: Duration::ZERO }, Settle::Extend { visibility: LONG }]
    {
        let stale = source.settle(TOPIC, held[1..].to_vec(), how).await.unwrap();
        let moved = Settled::Moved { owner: at(&other) };
        assert_eq!(stale, [moved.clone(), moved], "{how:?}");
    }
    let by_offset = AckSet { up_to: Some(Offset(2)), offsets: Vec::new() };
    let stale = source.ack(TOPIC, 0, held[1].handle.epoch, by_offset).await.unwrap_err();
    assert_eq!(stale, ServiceError::NotOwner { owner: at(&other) });

    let late = next.settle(TOPIC, held[1..2].to_vec(), Settle::Ack).await.unwrap();
    assert_eq!(late, [Settled::Acked], "the record is the same in both reigns");
    let again = next.reserve(TOPIC, wanted(9)).await.unwrap();
    assert_eq!(offsets_of(&again), [2, 3], "the position has moved with the partition");
    assert!(again.records.iter().all(|one| one.delivery == Delivery(1)));
    let kept = next.settle(TOPIC, held[2..].to_vec(), Settle::Extend { visibility: LONG }).await;
    let epoch = again.epoch;
    assert_eq!(kept.unwrap(), [Settled::Refused(Refused::OtherEpoch { epoch })]);
}

/// Waits until the destination knows what was captured at the source, or has already got it.
async fn captured(next: &NodeService) {
    loop {
        let moves = next.moves(Read::Stale).await.unwrap();
        let phase = moves.first().and_then(|planned| planned.phase.as_deref().map(str::to_owned));
        let is_served = next.routes(TOPIC).await.unwrap()[0].serving_here;
        let is_captured =
            phase.is_some_and(|phase| ["drain", "verify", "install", "flip"].contains(&&*phase));
        if is_captured || is_served {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// R52, H28, `case_031`: exactly this interleaving: captured, acknowledged at the source, flipped. The next owner
/// is told over its socket, and hands out none of what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_after_the_capture_reach_the_next_owner() {
    let (cluster, mut from, mut to) = one_partition(3).await;
    let mut acked: u64 = 0;
    let forwarded = |cluster: &Cluster| -> u64 {
        let counters = cluster.servers.values().map(narad_runtime::server::Server::counters);
        counters.map(|counters| counters.acks_forwarded.load(Ordering::Relaxed)).sum()
    };
    // A flip may be too quick for an acknowledgement in between: then back again.
    while forwarded(&cluster) == 0 {
        for value in ["a", "b", "c"] {
            cluster.produce(TOPIC, 0, value).await;
        }
        let (source, next) = (service(&cluster, &from), service(&cluster, &to));
        let held = tickets(&source.reserve(TOPIC, wanted(1024)).await.unwrap());
        next.move_partition(TOPIC, 0, &to).await.unwrap();
        captured(&next).await;
        // All but the first, so that they are ahead of the frontier.
        let settled = source.settle(TOPIC, held[1..].to_vec(), Settle::Ack).await.unwrap();
        let counts = settled.iter().filter(|settled| **settled == Settled::Acked).count() as u64;
        acked += counts;
        moved_to(&cluster, &to).await;
        if counts > 0 {
            eventually("the next owner is told", async || forwarded(&cluster) > 0).await;
        }
        let of = view(&next).await.offsets.unwrap();
        assert_eq!(of.hwm.0 - of.backlog, acked, "what was acknowledged is acknowledged there");
        let again = next.reserve(TOPIC, wanted(1024)).await.unwrap();
        let missing = held.len() as u64 - counts;
        assert_eq!(again.records.len() as u64, missing);
        let back = Settle::Nack { delay: Duration::ZERO };
        next.settle(TOPIC, tickets(&again), back).await.unwrap();
        std::mem::swap(&mut from, &mut to);
    }
}

/// R53, R54: a restart of the owner costs duplicates of what was in flight, and no acknowledgement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_owner_keeps_what_was_acknowledged() {
    let (mut cluster, owner, _) = one_partition(1).await;
    for value in ["1", "2", "3"] {
        cluster.produce(TOPIC, 0, value).await;
    }
    let source = service(&cluster, &owner);
    let held = tickets(&source.reserve(TOPIC, wanted(3)).await.unwrap());
    let done = vec![held[0], held[2]];
    source.settle(TOPIC, done, Settle::Ack).await.unwrap();
    drop(source);
    cluster.restart(&owner).await;
    let source = service(&cluster, &owner);
    eventually("it serves again", async || view(&source).await.offsets.is_some()).await;
    let offsets = view(&source).await.offsets.unwrap();
    assert_eq!((offsets.committed, offsets.acked_ahead, offsets.backlog), (Some(Offset(1)), 1, 2));
    let late = source.settle(TOPIC, vec![held[1]], Settle::Ack).await.unwrap();
    assert_eq!(late, [Settled::Acked], "of an earlier life of the same reign");
    let again = source.reserve(TOPIC, wanted(9)).await.unwrap();
    assert_eq!(offsets_of(&again), [3]);
}

/// Two consumers at once, of any partition that a node serves, and one that waits until the other
/// hands back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_share_what_a_node_serves() {
    let cluster = Cluster::of(1).await;
    cluster.create_topic(TOPIC, 3).await;
    for partition in 0..3 {
        cluster.produce(TOPIC, partition, "x").await;
    }
    let node = service(&cluster, "n1");
    let any = Reserve { partition: None, ..wanted(1) };
    let mut seen = BTreeSet::new();
    let mut last = None;
    for _ in 0..3 {
        let handed = node.reserve(TOPIC, any).await.unwrap();
        seen.insert(handed.partition);
        last = tickets(&handed).pop();
    }
    assert_eq!(seen.len(), 3, "in turn");
    assert!(node.reserve(TOPIC, any).await.unwrap().records.is_empty());
    let waiting = {
        let node = service(&cluster, "n1");
        tokio::spawn(async move { node.reserve(TOPIC, Reserve { wait: LONG, ..any }).await })
    };
    let last = last.unwrap();
    let back = node.settle(TOPIC, vec![last], Settle::Nack { delay: Duration::from_millis(20) });
    assert_eq!(back.await.unwrap(), [Settled::Nacked]);
    let again = waiting.await.unwrap().unwrap();
    assert_eq!((again.partition, again.records[0].delivery), (last.partition, Delivery(2)));
    let stale = node.settle(TOPIC, vec![last], Settle::Ack).await.unwrap();
    assert_eq!(stale, [Settled::Refused(Refused::Superseded { by: Delivery(2) })]);
    // H26: a handle of a topic that had the name before is of no use.
    let foreign = Ticket { topic: last.topic.next(), ..last };
    let odd = node.settle(TOPIC, vec![foreign, last], Settle::Ack).await.unwrap();
    assert_eq!(odd[0], Settled::OtherTopic);
    let views = node.offsets(TOPIC, Read::Stale).await.unwrap();
    let in_flight: u64 = views.iter().map(|view| view.offsets.unwrap().in_flight).sum();
    assert_eq!((views.len(), in_flight), (3, 3));
}

/// What a consumer that has gone away was about to be handed is there for the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_takes_is_given_back() {
    let (cluster, owner, _) = one_partition(1).await;
    let node = service(&cluster, &owner);
    // Dropped after more and more steps of the way, until the last one has got it.
    for steps in 0.. {
        let mut reserve = node.reserve(TOPIC, wanted(9));
        let mut handed = None;
        for _ in 0..steps {
            tokio::select! {
                biased;
                done = &mut reserve => {
                    handed = Some(done.unwrap());
                    break;
                }
                () = tokio::task::yield_now() => {}
            }
        }
        drop(reserve);
        let Some(handed) = handed else { continue };
        if let Some(record) = handed.records.first() {
            assert_eq!(record.delivery, Delivery(1), "given back, not handed out again");
            return;
        }
        // The one before it is still on its way back.
    }
}

/// Offsets of all partitions are told by any node; what an owner does not tell is said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_of_other_nodes_are_asked_for() {
    let (cluster, owner, other) = one_partition(3).await;
    let asked = service(&cluster, &other);
    let told = view(&asked).await;
    assert_eq!(told.owner.as_str(), owner);
    let offsets = told.offsets.unwrap();
    assert_eq!((offsets.hwm, offsets.backlog, offsets.committed), (Offset(1), 1, None));
    let stale = asked.offsets(TOPIC, Read::Stale).await.unwrap().remove(0);
    assert!(stale.offsets.is_none() && stale.unknown.is_some());
    let unknown = asked.offsets("none", Read::Barrier).await;
    assert_eq!(unknown, Err(ServiceError::UnknownTopic("none".into())));
}
