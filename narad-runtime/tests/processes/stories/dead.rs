//! Five processes, of which some die.

use super::super::harness::Cluster;
use super::super::ledger::Ledger;
use super::super::node::{free_port, plain};
use super::{NOT_SAFE, OK, REFUSED, ask, cluster_is, is, member, move_is, owned, told};

const TOPIC: &str = "orders";

/// Copies take some seconds, and so does a promotion.
const SLOW: &str = "copy_rate_bytes_per_second = \"256KiB\"\nforce_promote_after = \"5s\"\n\
                    [copy]\nchunk_bytes_max = \"64KiB\"\n";

/// Field faults 45, 46, 48, 50, 52 and 56.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_nodes_are_told_by_the_command_alone() {
    let mut cluster = Cluster::of(5, SLOW).await;
    cluster.create_topic(TOPIC, 5).await;
    let ledger = Ledger::default();
    for partition in 0..5 {
        ledger.fill(&cluster.client(), TOPIC, partition, 2 << 20, 32 << 10).await;
    }
    cluster_is(&cluster, "done", "", &["all is served: 5 partitions"]).await;
    whoever_of_two_dies_has_a_word(&mut cluster).await;
    a_lost_answer_changes_nothing(&mut cluster).await;
    ledger.check(&cluster.client(), TOPIC, &[0, 1, 2, 3, 4]).await;
    a_dead_node_stays_dead_whoever_has_its_address(&mut cluster).await;
}

/// Has a partition's owner take a record; whether it does.
async fn takes(cluster: &Cluster, partition: u32) -> bool {
    let owner = cluster.routes(TOPIC).await[&partition].1.clone();
    let path = format!("/v1/topics/{TOPIC}/messages?partition={partition}&ack=owner");
    let answer = super::super::http::ask(cluster.nodes[&owner].http, "POST", &path, "late").await;
    answer.is_some_and(|answer| answer.status == 200)
}

/// Field faults 45, 46 and 48: neither dies, the destination, both, the source: each has a verdict
/// of its own. What is not concerned goes on, and nobody is taken out who alone holds something.
async fn whoever_of_two_dies_has_a_word(cluster: &mut Cluster) {
    // Whoever gives something away gets nothing else for it meanwhile.
    ask(cluster, "cluster pause").ended(OK, &[]);
    let partition = owned(cluster, TOPIC, "n5").await[0];
    let (place, at) = (format!("{TOPIC}/{partition}"), (TOPIC, u64::from(partition)));
    ask(cluster, &format!("cluster move {place} --to n4")).ended(OK, &[]);
    move_is(cluster, at, "progressing", "", &["bytes_per_second"]).await;

    cluster.node("n4").kill();
    let words = ["n4 is dead; n5 goes on serving", "narad cluster resume"];
    move_is(cluster, at, "waiting", "destination_dead", &words).await;
    let words = ["n4 is dead, and its disk alone holds 1 partition", "start n4 again"];
    let view = cluster_is(cluster, "blocked", "owner_dead", &words).await;
    assert_eq!(view["unserved"], 1, "only what it owns: {view}");
    assert!(takes(cluster, partition).await, "its owner lives");
    let words = ["its disk alone holds 1 partition", "nothing was changed"];
    ask(cluster, "cluster decommission n4 --yes").ended(REFUSED, &words);
    ask(cluster, "cluster forget n4 --yes").ended(REFUSED, &["its disk alone holds"]);

    cluster.node("n5").kill();
    let words = ["both n5 and n4 are dead", &format!("declare-lost {place}")];
    move_is(cluster, at, "blocked", "destination_dead", &words).await;
    let view = ask(cluster, "cluster safe-to-stop n3").ended(NOT_SAFE, &[]).json;
    assert_eq!(view["reasons"][0]["code"], "last_majority", "{view}");

    cluster.restart("n4").await;
    move_is(cluster, at, "waiting", "source_dead", &["n5, if it is started again"]).await;
    let words = ["n5 is dead, and the copy on n4", "start n5 again"];
    move_is(cluster, at, "blocked", "promote_refused", &words).await;
    cluster_is(cluster, "blocked", "promote_refused", &[&place]).await;

    cluster.restart("n5").await;
    ask(cluster, "cluster throttle off").ended(OK, &[]);
    told(cluster, "cluster history", "it has moved", |view| {
        let moves = view["moves"].as_array().unwrap();
        moves.iter().any(|one| one["partition"] == partition && one["outcome"] == "moved")
    })
    .await;
    told(cluster, "cluster moves", "its freeze is told, beside what was said before", |view| {
        let ended = view["ended"].as_array().unwrap();
        ended.iter().any(|one| {
            let freeze = (one["frozen_us"].as_u64(), one["predicted_us"].as_u64());
            one["partition"] == partition && matches!(freeze, (Some(1..), Some(1..)))
        })
    })
    .await;
    ask(cluster, &format!("cluster unpin {place}")).ended(OK, &[]);
    ask(cluster, "cluster resume").ended(OK, &[]);
    cluster_is(cluster, "done", "", &["by 5 members"]).await;
}

/// Field fault 52: the flip is in the log, and whoever proposed it dies before it hears of that. It finds
/// out, and the partition is served.
async fn a_lost_answer_changes_nothing(cluster: &mut Cluster) {
    let leader = cluster.leader().await;
    let routes = cluster.routes(TOPIC).await;
    let (partition, from) = routes.into_iter().map(|(id, (_, owner))| (id, owner)).next().unwrap();
    let mut names = cluster.nodes.keys();
    let to = names.find(|name| **name != leader && **name != from).unwrap().clone();
    // Every node sees every flip: there is to be this one only.
    ask(cluster, "cluster pause").ended(OK, &[]);
    cluster.node(&to).arm("after-flip:kill");
    let place = format!("{TOPIC}/{partition}");
    ask(cluster, &format!("cluster move {place} --to {to}")).ended(OK, &[]);
    cluster.node(&to).killed().await;
    let view = ask(cluster, &format!("cluster explain {place}")).ended(OK, &[]).json;
    assert_eq!(view["owner"], to.as_str(), "{view}");
    cluster.restart(&to).await;
    ask(cluster, &format!("cluster unpin {place}")).ended(OK, &[]);
    ask(cluster, "cluster resume").ended(OK, &[]);
    cluster_is(cluster, "done", "", &["by 5 members"]).await;
}

/// Field faults 46, 50 and 56: who takes a dead node's address does not take its place; what only that
/// held is given up by word alone, with a receipt; and it never comes back.
async fn a_dead_node_stays_dead_whoever_has_its_address(cluster: &mut Cluster) {
    let leader = cluster.leader().await;
    let gone = ["n3", "n4"].into_iter().find(|name| **name != leader).unwrap();
    cluster.node(gone).kill();
    let held = owned(cluster, TOPIC, gone).await;
    let words = [gone, "declare-lost"];
    cluster_is(cluster, "blocked", "owner_dead", &words).await;

    let ports = (cluster.nodes[gone].peer, cluster.nodes[gone].http);
    cluster.join_at("n6", ports).await;
    let view = cluster_is(cluster, "blocked", "owner_dead", &words).await;
    assert_eq!(member(&view, gone)["status"], "dead", "{view}");
    assert_eq!(member(&view, "n6")["status"], "alive", "{view}");
    assert_ne!(member(&view, gone)["node"], member(&view, "n6")["node"], "{view}");
    assert_eq!(member(&view, gone)["owned_partitions"], held.len(), "{view}");

    for &partition in &held {
        let place = format!("{TOPIC}/{partition}");
        let line = format!("cluster declare-lost {place} --yes --receipt burnt");
        ask(cluster, &line).ended(OK, &[]);
        told(cluster, "cluster salvage", "a receipt", |view| {
            let receipts = view["receipts"].as_array().unwrap();
            receipts.iter().any(|one| {
                one["partition"] == partition
                    && one["cause"] == "declared_lost"
                    && one["old_owner"] == gone
            })
        })
        .await;
    }
    ask(cluster, &format!("cluster forget {gone} --yes")).ended(OK, &[]);
    let view = cluster_is(cluster, "done", "", &["by 5 members"]).await;
    assert_eq!(member(&view, gone)["status"], "retired", "{view}");
    for &partition in &held {
        assert!(takes(cluster, partition).await, "{partition} is served again");
    }

    // Its disk comes back, elsewhere: it is told that it is out, and changes nothing.
    let elsewhere = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    cluster.node(gone).start(&["--listen-peer", &elsewhere[0], "--listen-http", &elsewhere[1]]);
    let port = elsewhere[1].rsplit(':').next().unwrap().parse().unwrap();
    super::super::harness::eventually("it knows that it is out", async || {
        let ready = super::super::http::ask(port, "GET", "/readyz", "").await;
        ready.is_some_and(|ready| {
            ready.status == 503 && ready.body.to_string().contains("was removed from the cluster")
        })
    })
    .await;
    let said = plain(&cluster.nodes[gone].log());
    assert!(said.contains("a member says that this node was removed from the cluster"), "{said}");
    assert!(said.contains("was taken out of this cluster for good"), "{said}");
    let view = ask(cluster, "cluster status").ended(OK, &[]).json;
    assert!(is(&view["verdict"], "done", "") && member(&view, gone)["status"] == "retired");
}
