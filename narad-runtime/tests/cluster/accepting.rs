//! What is accepted by any node, and how it reaches its owner.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use narad_core::node::Node;
use narad_runtime::client::{Placement, ProducerOptions};
use narad_runtime::server::{Server, Start};
use narad_runtime::service::{
    MemberStatus, Read, Record, Service as _, ServiceError, partition_of,
};

use tokio_util::sync::CancellationToken;

use super::harness::{Cluster, eventually};

const TOPIC: &str = "orders";
const PARTITIONS: u32 = 6;

fn record(value: &str) -> Record {
    Record { value: value.to_owned().into(), ..Record::default() }
}

fn keyed(key: &str, value: &str) -> Record {
    Record { key: Some(key.to_owned().into()), ..record(value) }
}

async fn accept(
    server: &Server,
    partition: Option<u32>,
    record: Record,
) -> Result<(), ServiceError> {
    server.service().accept(TOPIC, partition, vec![record]).await.map(|_| ())
}

/// Returns the values of all partitions that are served.
async fn all(cluster: &Cluster) -> Vec<String> {
    let mut found = Vec::new();
    for partition in 0..PARTITIONS {
        found.extend(cluster.read(TOPIC, partition).await);
    }
    found
}

async fn all_arrive(cluster: &Cluster, expected: &BTreeSet<String>) {
    eventually("every accepted record is at its owner", async || {
        all(cluster).await.into_iter().collect::<BTreeSet<_>>() == *expected
    })
    .await;
}

async fn backlog(server: &Server) -> u64 {
    server.handle().query(|node: &Node| node.backlog().records).await.unwrap()
}

/// Returns the partitions that a node owns, as another one knows it.
async fn owned_by(cluster: &Cluster, asked: &str, owner: &str) -> Vec<u32> {
    let routes = cluster.servers[asked].service().routes(TOPIC).await.unwrap();
    let own = routes.iter().filter(|route| route.owner.as_str() == owner);
    own.map(|route| route.partition).collect()
}

async fn stop(cluster: &mut Cluster, name: &str) {
    cluster.servers.remove(name).unwrap().shutdown().await.unwrap();
}

/// R43, R46, L4: every node accepts for every partition; those of a key arrive in one partition, in
/// the order in which one node accepted them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_accepts_and_everything_reaches_its_owner() {
    let cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let mut expected = BTreeSet::new();
    for (at, server) in cluster.servers.values().enumerate() {
        for number in 0..20 {
            let value = format!("{at}/pinned {number}");
            accept(server, Some(number % PARTITIONS), record(&value)).await.unwrap();
            expected.insert(value);
            let value = format!("{at}/keyed {number}");
            accept(server, None, keyed(&format!("k{at}"), &value)).await.unwrap();
            expected.insert(value);
            let value = format!("{at}/any {number}");
            accept(server, None, record(&value)).await.unwrap();
            expected.insert(value);
        }
    }
    all_arrive(&cluster, &expected).await;
    for at in 0..3 {
        let home = partition_of(format!("k{at}").as_bytes(), PARTITIONS);
        let prefix = format!("{at}/keyed ");
        let values = cluster.read(TOPIC, home).await;
        let own = values.iter().filter_map(|value| value.strip_prefix(&prefix));
        let own: Vec<u32> = own.map(|number| number.parse().unwrap()).collect();
        assert_eq!(own, (0..20).collect::<Vec<_>>(), "nothing has restarted: once, and in order");
    }
    for server in cluster.servers.values() {
        eventually("nothing waits", async || backlog(server).await == 0).await;
    }
    let nothing = cluster.servers["n1"].service().accept("nothing", None, vec![record("x")]).await;
    assert_eq!(nothing, Err(ServiceError::UnknownTopic("nothing".into())));
    let beyond = accept(&cluster.servers["n1"], Some(PARTITIONS), record("x")).await;
    let (topic, partition) = (TOPIC.to_owned(), PARTITIONS);
    assert_eq!(beyond, Err(ServiceError::UnknownPartition { topic, partition }));
}

/// R43, R46, R54, H23: with two of three nodes down there is no leader and most owners are dead; the
/// third accepts on, and all of it arrives when they are back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producing_goes_on_without_a_leader_and_with_dead_owners() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    eventually("the survivor knows the topic", async || {
        cluster.servers["n1"].service().routes(TOPIC).await.is_ok_and(|routes| routes.len() == 6)
    })
    .await;
    let mut addresses = Vec::new();
    for name in ["n2", "n3"] {
        let server = &cluster.servers[name];
        addresses.push((name, server.peer_addr().to_string(), server.http_addr().to_string()));
        stop(&mut cluster, name).await;
    }
    let client = cluster.client();
    let producer = client.producer(TOPIC, ProducerOptions::default());
    let mut expected = BTreeSet::new();
    for number in 0..30 {
        let value = format!("record {number}");
        let placement = Placement::Pinned(number % PARTITIONS);
        let sent = producer.send(placement, &[record(&value)]).await.unwrap();
        assert_eq!(sent.placed, None);
        expected.insert(value);
    }
    assert!(backlog(&cluster.servers["n1"]).await > 0);
    for (name, peer, http) in addresses {
        cluster.start_again(name, peer, http).await;
    }
    all_arrive(&cluster, &expected).await;
    eventually("nothing waits", async || backlog(&cluster.servers["n1"]).await == 0).await;
}

/// R37, R39, S11: a node that is restarted with a backlog brings all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_survives_a_restart() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let dead = owned_by(&cluster, "n1", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    let mut expected = BTreeSet::new();
    for number in 0..10 {
        let value = format!("record {number}");
        accept(&cluster.servers["n1"], Some(dead[0]), record(&value)).await.unwrap();
        expected.insert(value);
    }
    cluster.restart("n1").await;
    assert_eq!(backlog(&cluster.servers["n1"]).await, 10);
    cluster.start_again("n2", peer, http).await;
    all_arrive(&cluster, &expected).await;
}

/// R45, R47, H23: while an owner is dead, records keyed to its partitions go to a live one, and those
/// asked for by number wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_dead_owner_go_to_a_sibling() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let dead = owned_by(&cluster, "n1", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    let keys = (0..).map(|n| format!("k{n}"));
    let of_the_dead = |key: &String| dead.contains(&partition_of(key.as_bytes(), PARTITIONS));
    let mut expected = BTreeSet::new();
    for key in keys.filter(of_the_dead).take(5) {
        accept(&cluster.servers["n1"], None, keyed(&key, &key)).await.unwrap();
        expected.insert(key);
    }
    accept(&cluster.servers["n1"], Some(dead[0]), record("pinned")).await.unwrap();
    all_arrive(&cluster, &expected).await;
    assert_eq!(backlog(&cluster.servers["n1"]).await, 1, "it waits for its partition");
    let rerouted = cluster.servers["n1"].counters().rerouted.load(Ordering::Relaxed);
    assert_eq!(rerouted, expected.len() as u64);
    cluster.start_again("n2", peer, http).await;
    expected.insert("pinned".to_owned());
    all_arrive(&cluster, &expected).await;
    assert_eq!(cluster.read(TOPIC, dead[0]).await, ["pinned"]);
}

/// R36, R37, R39, R43, R44, R46: two producers at two nodes, while partitions move to a third that
/// joins: no record is refused; those of a partition arrive in the order of acceptance, each at least
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producing_goes_on_while_partitions_move() {
    let mut cluster = Cluster::of(2).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let stop = CancellationToken::new();
    let producers = ["n1", "n2"].map(|node| {
        let (service, stop) = (cluster.servers[node].service(), stop.clone());
        tokio::spawn(async move {
            let mut number = 0;
            while !stop.is_cancelled() {
                for partition in 0..PARTITIONS {
                    let value = record(&format!("{node} {number}"));
                    service.accept(TOPIC, Some(partition), vec![value]).await.unwrap();
                }
                number += 1;
                tokio::task::yield_now().await;
            }
            number
        })
    });
    cluster.join("n3").await;
    eventually("the third has its share", async || {
        cluster.owned().await.values().all(|owned| *owned == 2)
            && cluster.client().moves(Read::Barrier).await.is_ok_and(|moves| moves.is_empty())
    })
    .await;
    stop.cancel();
    for (node, producer) in ["n1", "n2"].into_iter().zip(producers) {
        let count: u32 = producer.await.unwrap();
        assert!(count > 10, "{count}");
        eventually("nothing waits", async || backlog(&cluster.servers[node]).await == 0).await;
        for partition in 0..PARTITIONS {
            let values = cluster.read(TOPIC, partition).await;
            let own = values.iter().filter_map(|value| value.strip_prefix(node));
            let mut seen = BTreeSet::new();
            let own = own.map(|number| number.trim().parse::<u32>().unwrap());
            let first: Vec<u32> = own.filter(|number| seen.insert(*number)).collect();
            assert_eq!(first, (0..count).collect::<Vec<_>>(), "{node}, partition {partition}");
        }
    }
}

/// R94, H37: a node that leaves accepts nothing new, and is not out before what it had accepted has
/// arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_first_brings_what_it_has_accepted() {
    let mut cluster = Cluster::of(5).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    eventually("everybody has a share", async || {
        cluster.owned().await.values().all(|owned| *owned > 0)
            && cluster.client().moves(Read::Barrier).await.is_ok_and(|moves| moves.is_empty())
    })
    .await;
    let dead = owned_by(&cluster, "n4", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    accept(&cluster.servers["n4"], Some(dead[0]), record("waits")).await.unwrap();
    let client = cluster.client();
    eventually("its death is known", async || {
        let members = client.members(Read::Barrier).await.unwrap_or_default();
        members.iter().any(|one| one.id.as_str() == "n2" && one.status == MemberStatus::Dead)
    })
    .await;
    client.decommission("n4", true).await.unwrap();
    eventually("it refuses what is new", async || {
        accept(&cluster.servers["n4"], None, record("refused")).await == Err(ServiceError::Draining)
    })
    .await;
    eventually("it owns nothing", async || cluster.owned().await["n4"] == 0).await;
    let member = async || {
        let members = client.members(Read::Barrier).await.unwrap();
        members.into_iter().find(|one| one.id.as_str() == "n4").unwrap()
    };
    // As long as something waits, nothing says that it is empty: looked at several times.
    let mut looks = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..10 {
        looks.tick().await;
        assert!(!member().await.drained_out);
    }
    assert_eq!(backlog(&cluster.servers["n4"]).await, 1);
    cluster.start_again("n2", peer, http).await;
    eventually("it is out", async || member().await.status == MemberStatus::Retired).await;
    let found = cluster.read(TOPIC, dead[0]).await;
    assert!(found.contains(&"waits".to_owned()), "{found:?}");
}

/// L4: a node whose log is full says so, with a time to come again, and takes more when there is
/// room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_node_says_so_until_there_is_room() {
    const BYTES: usize = 100 << 10;
    let mut cluster = Cluster::with(2, |settings| {
        settings.node.backlog_bytes_max = 1 << 20;
        settings.http.body_bytes_max = 1 << 20;
    })
    .await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let dead = owned_by(&cluster, "n1", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    let mut accepted = 0;
    let refused = loop {
        let large = Record { value: vec![b'x'; BYTES].into(), ..Record::default() };
        match accept(&cluster.servers["n1"], Some(dead[0]), large).await {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, ServiceError::Full { retry_after } if !retry_after.is_zero()));
    assert_eq!(accepted, 10, "a mebibyte, and not more");
    let more = Record { value: vec![b'x'; 2 << 20].into(), ..Record::default() };
    let never = accept(&cluster.servers["n1"], Some(dead[0]), more).await;
    assert!(matches!(never, Err(ServiceError::TooLarge(_))), "{never:?}");
    cluster.start_again("n2", peer, http).await;
    eventually("there is room again", async || {
        accept(&cluster.servers["n1"], Some(dead[0]), record("more")).await.is_ok()
    })
    .await;
    eventually("all of it arrives", async || {
        cluster.read(TOPIC, dead[0]).await.len() == accepted + 1
    })
    .await;
}

/// `case_048`, S11: an accepted record whose bytes are damaged before it is sent is lost, loudly; it
/// holds up neither what came with it nor the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_holds_up_nothing() {
    // Nothing is kept in memory: what is sent is read from the disk.
    let mut cluster = Cluster::with(2, |settings| settings.ingress.cache_bytes_max = 0).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let dead = owned_by(&cluster, "n1", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    for value in ["before", "victim", "after"] {
        accept(&cluster.servers["n1"], Some(dead[0]), record(value)).await.unwrap();
    }
    let path = cluster.data_dir("n1").join("ingress").join(format!("{:020}.seg", 0));
    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|window| window == b"victim").unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"V", at as u64).unwrap();
    cluster.start_again("n2", peer, http).await;
    let expected: BTreeSet<String> = ["before", "after"].map(str::to_owned).into();
    all_arrive(&cluster, &expected).await;
    let server = &cluster.servers["n1"];
    eventually("nothing waits", async || backlog(server).await == 0).await;
    assert_eq!(server.counters().damaged.load(Ordering::Relaxed), 1);
}

/// S3: an ingress log that is gone held what was acknowledged: it is never begun anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_ingress_log_is_no_empty_one() {
    let mut cluster = Cluster::of(1).await;
    let dir = cluster.data_dir("n1").join("ingress");
    stop(&mut cluster, "n1").await;
    std::fs::remove_dir_all(&dir).unwrap();
    let error = Server::start(&cluster.settings("n1"), Start::Resume).await.unwrap_err();
    assert!(error.to_string().contains("missing, but the node has run before"), "{error}");
    assert!(!dir.exists());
}

/// Returns how many records the partitions that are served hold.
async fn count(cluster: &Cluster) -> usize {
    all(cluster).await.len()
}

/// S11, R39: a record that waits for a dead owner does not have everything sent again that was
/// accepted after it, whenever its node is restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_partition_has_nothing_sent_again() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let mut stuck = None;
    for at in 0..6 {
        let name = format!("single{at}");
        cluster.create_topic(&name, 1).await;
        let routes = cluster.servers["n1"].service().routes(&name).await.unwrap();
        if routes[0].owner.as_str() == "n2" {
            stuck = Some(name);
            break;
        }
    }
    let stuck = stuck.expect("partitions are spread");
    let dead = owned_by(&cluster, "n1", "n2").await;
    let server = &cluster.servers["n2"];
    let (peer, http) = (server.peer_addr().to_string(), server.http_addr().to_string());
    stop(&mut cluster, "n2").await;
    let service = cluster.servers["n1"].service();
    service.accept(&stuck, None, vec![record("waits")]).await.unwrap();
    let alive: Vec<u32> = (0..PARTITIONS).filter(|partition| !dead.contains(partition)).collect();
    let mut expected = BTreeSet::new();
    for number in 0..200_usize {
        let value = format!("record {number}");
        let partition = alive[number % alive.len()];
        accept(&cluster.servers["n1"], Some(partition), record(&value)).await.unwrap();
        expected.insert(value);
    }
    for restart in 0..3 {
        eventually("only one waits", async || backlog(&cluster.servers["n1"]).await == 1).await;
        all_arrive(&cluster, &expected).await;
        assert_eq!(count(&cluster).await, expected.len(), "after {restart} restarts");
        cluster.restart("n1").await;
    }
    cluster.start_again("n2", peer, http).await;
    eventually("nothing waits", async || backlog(&cluster.servers["n1"]).await == 0).await;
    assert_eq!(cluster.read(&stuck, 0).await, ["waits"]);
    all_arrive(&cluster, &expected).await;
    assert_eq!(count(&cluster).await, expected.len());
}
