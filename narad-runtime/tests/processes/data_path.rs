//! Producing and consuming through moves, deaths and pauses: nobody waits, nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::harness::{Cluster, PATIENCE, eventually};
use super::http;

/// Between two records of one writer.
const PACE: Duration = Duration::from_millis(5);

/// Writers that send one record after the other, each to a node of its own that stays up.
struct Writers {
    acked: Arc<Mutex<BTreeSet<String>>>,
    /// Whatever was not acknowledged at once.
    failed: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Writers {
    /// Starts one writer for each target: the port of a node, and the path that is posted to.
    fn start(targets: &[(u16, String)]) -> Self {
        let mut writers = Self {
            acked: Arc::default(),
            failed: Arc::default(),
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        for (writer, (port, path)) in targets.iter().enumerate() {
            let (acked, failed) = (Arc::clone(&writers.acked), Arc::clone(&writers.failed));
            let (stop, port, path) = (writers.stop.clone(), *port, path.clone());
            writers.tasks.spawn(async move {
                let mut pace = tokio::time::interval(PACE);
                for n in 0.. {
                    pace.tick().await;
                    if stop.is_cancelled() {
                        return;
                    }
                    let value = format!("{writer}-{n:06}");
                    let begun = Instant::now();
                    match http::ask(port, "POST", &path, &value).await {
                        Some(answer) if answer.status == 200 => {
                            acked.lock().unwrap().insert(value);
                        }
                        other => failed.lock().unwrap().push(format!(
                            "{value} at {path} after {:?}: {other:?}",
                            begun.elapsed()
                        )),
                    }
                }
            });
        }
        writers
    }

    fn acked(&self) -> usize {
        self.acked.lock().unwrap().len()
    }

    /// Waits until so many more records were acknowledged.
    async fn more(&self, records: usize) {
        let enough = self.acked() + records;
        eventually("producing goes on", async || self.acked() >= enough).await;
    }

    /// Ends the writers; returns what was acknowledged. Nothing may have failed.
    async fn end(mut self) -> BTreeSet<String> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let failed = self.failed.lock().unwrap().clone();
        assert!(failed.is_empty(), "{} requests failed: {failed:#?}", failed.len());
        std::mem::take(&mut *self.acked.lock().unwrap())
    }
}

/// What consumers were handed out.
#[derive(Default)]
struct Seen {
    values: BTreeSet<String>,
    /// By partition and epoch, in the order of offsets.
    records: BTreeMap<(u64, u64), BTreeMap<u64, String>>,
    duplicates: usize,
}

impl Seen {
    /// Takes and acknowledges what there is at one node.
    async fn take(&mut self, port: u16, topic: &str) {
        let path = format!("/v1/topics/{topic}/messages?max=1000&visibility=5s");
        let Some(answer) = http::ask(port, "GET", &path, "").await else { return };
        if answer.status != 200 {
            return;
        }
        let number = |value: &Value| value.as_u64().unwrap();
        let reign = (number(&answer.body["partition"]), number(&answer.body["epoch"]));
        let mut handles = Vec::new();
        for message in answer.body["messages"].as_array().unwrap() {
            let value = message["value"].as_str().unwrap().to_owned();
            let known = self.records.entry(reign).or_default();
            let before = known.insert(number(&message["offset"]), value.clone());
            assert!(before.is_none_or(|before| before == value), "an offset has two records");
            if !self.values.insert(value) {
                self.duplicates += 1;
            }
            handles.push(message["handle"].clone());
        }
        if !handles.is_empty() {
            let body = json!({ "handles": handles }).to_string();
            http::ask(port, "POST", &format!("/v1/topics/{topic}/ack"), &body).await;
        }
    }

    /// Consumes until everything that was acknowledged has been seen.
    async fn all(&mut self, cluster: &Cluster, topic: &str, acked: &BTreeSet<String>) {
        let mut progress = Instant::now();
        while !acked.is_subset(&self.values) {
            let before = self.values.len();
            for node in cluster.nodes.values().filter(|node| node.runs()) {
                self.take(node.http, topic).await;
            }
            if self.values.len() > before {
                progress = Instant::now();
            }
            let missing = acked.difference(&self.values).count();
            assert!(progress.elapsed() < PATIENCE, "{missing} acknowledged records never came");
        }
    }

    /// Checks that one writer's records came in their order in each reign over a partition, second
    /// copies apart.
    fn in_order(&self) {
        let mut seen = BTreeSet::new();
        for ((partition, epoch), records) in &self.records {
            let mut last: BTreeMap<&str, &str> = BTreeMap::new();
            for value in records.values().filter(|value| seen.insert(value.as_str())) {
                let (writer, n) = value.split_once('-').unwrap();
                let before = last.insert(writer, n);
                assert!(
                    before.is_none_or(|before| before < n),
                    "partition {partition}, epoch {epoch}: {value} after {before:?}"
                );
            }
        }
    }
}

/// R36, R37, R43, R45, R46, R53, L4: while partitions move, the leader is killed, and another node
/// stands still and goes on, not one request to the nodes that are up fails, and consumers see every
/// record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_produce_request_fails_while_one_node_is_up() {
    let mut cluster = Cluster::of(4, "").await;
    cluster.create_topic("orders", 6).await;
    // A node that neither leads nor will be touched takes the records.
    let leader = cluster.leader().await;
    let names: Vec<String> = cluster.nodes.keys().cloned().collect();
    let others: Vec<&String> = names.iter().filter(|name| **name != leader).collect();
    let (up, paused) = (others[0], others[1]);
    let port = cluster.nodes[up].http;
    let targets: Vec<(u16, String)> = ["", "?key=a", "?key=b", "?partition=3"]
        .map(|query| (port, format!("/v1/topics/orders/messages{query}")))
        .to_vec();
    let writers = Writers::start(&targets);
    writers.more(200).await;

    cluster.begin_move("orders", 0, up).await;
    cluster.begin_move("orders", 3, up).await;
    writers.more(200).await;
    cluster.node(&leader).kill();
    writers.more(400).await;
    cluster.node(paused).pause();
    writers.more(400).await;
    cluster.node(paused).resume();
    cluster.restart(&leader).await;
    writers.more(200).await;

    let acked = writers.end().await;
    let mut seen = Seen::default();
    seen.all(&cluster, "orders", &acked).await;
    println!("{} records, {} duplicates", acked.len(), seen.duplicates);
}

/// R47, H23: the only partition of a topic moves ten times while it is written: no error, no gap, and
/// the records of one writer in their order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_partition_moves_ten_times_under_load() {
    let cluster = Cluster::of(3, "").await;
    cluster.create_topic("log", 1).await;
    let path = "/v1/topics/log/messages".to_owned();
    let targets: Vec<_> = cluster.nodes.values().map(|node| (node.http, path.clone())).collect();
    let writers = Writers::start(&targets);
    let mut seen = Seen::default();
    let names: Vec<String> = cluster.nodes.keys().cloned().collect();
    for turn in 0..10 {
        let owner = cluster.routes("log").await[&0].1.clone();
        let here = names.iter().position(|name| *name == owner).unwrap();
        let to = &names[(here + 1 + turn % 2) % names.len()];
        cluster.begin_move("log", 0, to).await;
        cluster.settled("log", 0, to).await;
        writers.more(20).await;
        for node in cluster.nodes.values() {
            seen.take(node.http, "log").await;
        }
    }
    let acked = writers.end().await;
    seen.all(&cluster, "log", &acked).await;
    seen.in_order();
    let (epochs, duplicates) = (seen.records.len(), seen.duplicates);
    println!("{} records in {epochs} reigns, {duplicates} duplicates", acked.len());
}

/// H14, S1, S11: a node stands still past the wait for a promotion, with records that were not copied;
/// another goes on without it. When it wakes up, what it had acknowledged comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_paused_owner_had_acknowledged_comes_back() {
    let hasty = "force_promote_after = \"1s\"\n";
    let mut cluster = Cluster::of(4, hasty).await;
    cluster.create_topic("orders", 1).await;
    let owner = cluster.routes("orders").await[&0].1.clone();
    let names: Vec<String> = cluster.nodes.keys().cloned().collect();
    let others: Vec<&String> = names.iter().filter(|name| **name != owner).collect();
    let (up, to) = (others[0].clone(), others[1].clone());
    let (port, owners) = (cluster.nodes[&up].http, cluster.nodes[&owner].http);
    let path = "/v1/topics/orders/messages".to_owned();
    let writers = Writers::start(&[(port, path.clone())]);
    writers.more(100).await;
    let mut acked = writers.end().await;

    // The copy reaches all that is visible when its node stands still. The owner then acknowledges
    // one more record, and stands still between another one's sync and its acknowledgement; or, on a
    // slow machine, before it would tell how much can be seen.
    cluster.node(&to).arm("before-prepare:stop");
    cluster.begin_move("orders", 0, &to).await;
    cluster.node(&to).stopped().await;
    cluster.node(&owner).arm("after-watermarks:stop");
    cluster.node(&owner).stopped().await;
    cluster.node(&owner).arm("before-ack@2:stop,before-watermarks:stop");
    cluster.node(&owner).resume();
    let direct = format!("{path}?partition=0&ack=owner");
    let mut late = BTreeSet::new();
    for n in 0.. {
        let value = format!("late-{n:06}");
        let answer = http::ask(owners, "POST", &direct, &value).await;
        if answer.is_none_or(|answer| answer.status != 200) {
            break;
        }
        late.insert(value);
    }
    cluster.node(&owner).stopped().await;
    assert!(late.len() <= 1, "acknowledged while it stood still: {late:?}");
    let writers = Writers::start(&[(port, path)]);
    writers.more(50).await;
    cluster.node(&to).resume();
    cluster.settled_but_for("orders", 0, &to, &owner).await;
    writers.more(50).await;
    cluster.node(&owner).resume();
    eventually("the old owner has given back what it had", async || {
        let answer = http::ask(port, "GET", "/v1/cluster/salvage", "").await;
        answer.is_some_and(|answer| answer.body["receipts"][0]["salvaged"] == json!(true))
    })
    .await;
    acked.extend(writers.end().await);
    acked.append(&mut late);
    let mut seen = Seen::default();
    seen.all(&cluster, "orders", &acked).await;
}
