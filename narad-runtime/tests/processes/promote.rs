//! A source that is killed and does not come back.

use super::harness::{Cluster, eventually};
use super::http;
use super::ledger::Ledger;
use super::resume::{TOPIC, filled};

/// What a destination logs that took over without its source.
const PROMOTED: &str = "the partition was promoted here";

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
    assert!(cluster.node(&to).log().contains(PROMOTED));
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
    assert!(!cluster.node(&to).log().contains(PROMOTED));
}

/// Returns what the destination says that its move waits for.
async fn waiting(cluster: &Cluster, destination: &str) -> Option<String> {
    let port = cluster.nodes[destination].http;
    let answer = http::ask(port, "GET", "/v1/cluster/moves?stale=true", "").await?;
    Some(answer.body["moves"][0]["waiting"].as_str()?.to_owned())
}

/// H14, S1: a record that the source acknowledged after the destination had its copy is on the source's
/// disk only. The destination is promoted without it; once the source is back, it is brought to the
/// new owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_promotion_has_not_captured_is_salvaged_when_the_source_returns() {
    let ledger = Ledger::default();
    let (mut cluster, from, to) = filled(&ledger, HASTY).await;
    cluster.node(&to).arm("before-prepare:stop");
    cluster.begin_move(TOPIC, 0, &to).await;
    cluster.node(&to).stopped().await;
    let path = format!("/v1/topics/{TOPIC}/messages?partition=0&ack=owner");
    let acknowledged = http::ask(cluster.nodes[&from].http, "POST", &path, "late").await;
    cluster.node(&from).kill();
    cluster.node(&to).resume();
    assert_eq!(acknowledged.unwrap().status, 200);
    let mut lacks = false;
    eventually("the destination is promoted, or knows what it lacks", async || {
        lacks =
            waiting(&cluster, &to).await.is_some_and(|why| why.starts_with("the source is dead: "));
        lacks || cluster.routes(TOPIC).await[&0].1 == to
    })
    .await;
    cluster.restart(&from).await;
    cluster.settled(TOPIC, 0, &to).await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
    let port = cluster.nodes[&to].http;
    eventually("the late record is at its new owner", async || {
        let mut next = 0_u64;
        loop {
            let path = format!("/v1/topics/{TOPIC}/messages?partition=0&from={next}");
            let Some(answer) = http::ask(port, "GET", &path, "").await else { return false };
            let messages = answer.body["messages"].as_array().cloned().unwrap_or_default();
            if messages.iter().any(|message| message["value"] == "late") {
                return true;
            }
            match answer.body["next"].as_u64().filter(|_| !messages.is_empty()) {
                Some(further) => next = further,
                None => return false,
            }
        }
    })
    .await;
    // A report of the record may have been faster than the kill; then there was nothing to salvage.
    let salvaged = cluster.node(&from).log().contains("were accepted again");
    println!("salvaged: {salvaged}, known to be lacking: {lacks}");
    assert!(salvaged || !cluster.node(&to).log().contains(PROMOTED));
}
