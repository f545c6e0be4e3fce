//! A source that is killed and does not come back.

use super::harness::{Cluster, eventually};
use super::http;
use super::ledger::Ledger;
use super::resume::{TOPIC, filled};

const HASTY: &str = "force_promote_after = \"1s\"\n";

/// R63, R64: the destination has everything, so it takes over without the source; the source comes
/// back and serves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_has_everything_is_promoted_when_the_source_stays_away() {
    let ledger = Ledger::default();
    let (mut cluster, from, to) = filled(&ledger, HASTY).await;
    cluster.node(&to).arm("before-prepare:stop");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).stopped().await;
    cluster.node(&from).kill();
    cluster.node(&to).resume();
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    ledger.fill(&cluster.client(), TOPIC, 0, 64 << 10, 1 << 10).await;
    cluster.restart(&from).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    assert!(cluster.node(&to).log().contains("forced=true"));
}

/// R65, S1: the destination lacks something, so it waits, says why, and goes on when the source is
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_lacks_something_waits_for_the_source() {
    let ledger = Ledger::default();
    let (mut cluster, from, to) = filled(&ledger, HASTY).await;
    cluster.node(&to).arm("after-checkpoint@2:stop");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).stopped().await;
    cluster.node(&from).kill();
    cluster.node(&to).resume();
    eventually("the move says what it lacks", async || {
        waiting(&cluster, &to).await.is_some_and(|why| why.starts_with("the source is dead: "))
    })
    .await;
    let routes = cluster.routes(TOPIC).await;
    assert_eq!(routes[&0].1, from, "promoted without what was acknowledged");
    cluster.restart(&from).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    assert!(!cluster.node(&to).log().contains("forced=true"));
}

/// Returns what the destination says that its move waits for.
async fn waiting(cluster: &Cluster, destination: &str) -> Option<String> {
    let port = cluster.nodes[destination].http;
    let answer = http::ask(port, "GET", "/v1/cluster/moves?stale=true", "").await?;
    Some(answer.body["moves"][0]["waiting"].as_str()?.to_owned())
}
