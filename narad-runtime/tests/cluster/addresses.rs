//! Nodes that come back elsewhere.

use narad_runtime::server::{Server, Start};

use super::harness::{Cluster, eventually, settings};

/// Starts a node again; it listens where the system lets it, and so where it never was.
async fn restart(cluster: &mut Cluster, name: &str, start: Start) {
    let root = cluster.data_dir(name).parent().unwrap().to_owned();
    let server = Server::start(&settings(&root, name), start).await.unwrap();
    cluster.servers.insert(name.to_owned(), server);
}

async fn stop(cluster: &mut Cluster, names: &[&str]) {
    for &name in names {
        cluster.servers.remove(name).unwrap().shutdown().await.unwrap();
    }
}

async fn all_have_registered(cluster: &Cluster) {
    eventually("all are where they say", async || {
        let mut good = 0;
        for server in cluster.servers.values() {
            let me = (server.node(), server.peer_addr().to_string());
            for other in cluster.servers.values() {
                let known = other.handle().query(move |node| {
                    let peer = |id| node.state().member(id).map(|member| member.addrs.peer.clone());
                    (node.is_registered(), peer(me.0))
                });
                good += usize::from(known.await.unwrap() == (true, Some(me.1.clone())));
            }
        }
        good == cluster.servers.len() * cluster.servers.len()
    })
    .await;
}

async fn three_voters() -> Cluster {
    let cluster = Cluster::of(3).await;
    eventually("three vote", async || {
        let (_, first) = cluster.servers.first_key_value().unwrap();
        let voters = first.handle().query(|node| node.state().configuration().voters.len());
        voters.await.unwrap() == 3
    })
    .await;
    cluster.create_topic("orders", 3).await;
    all_have_registered(&cluster).await;
    cluster
}

/// A new address is registered with a leader, and two of three must find each other to have one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_comes_back_elsewhere_is_found() {
    let mut cluster = three_voters().await;
    let offset = cluster.produce("orders", 0, "before").await;
    stop(&mut cluster, &["n1", "n2"]).await;
    for name in ["n1", "n2"] {
        restart(&mut cluster, name, Start::Resume).await;
    }
    all_have_registered(&cluster).await;
    assert!(cluster.produce("orders", 0, "after").await > offset);
}

/// Nobody is where the others remember it, so the operator names one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_cluster_that_comes_back_elsewhere_is_found_by_join() {
    let mut cluster = three_voters().await;
    let offset = cluster.produce("orders", 0, "before").await;
    stop(&mut cluster, &["n1", "n2", "n3"]).await;
    restart(&mut cluster, "n1", Start::Resume).await;
    let known = cluster.servers["n1"].peer_addr().to_string();
    for name in ["n2", "n3"] {
        restart(&mut cluster, name, Start::Join(vec![known.clone()])).await;
    }
    all_have_registered(&cluster).await;
    assert!(cluster.produce("orders", 0, "after").await > offset);
}
