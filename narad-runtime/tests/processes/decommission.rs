//! Four nodes, `narad pub` and `narad sub`: a node leaves, and anybody may be killed meanwhile.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use narad_runtime::service::{MemberStatus, MemberView, Read};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::harness::{Cluster, eventually};
use super::node::narad;

pub(crate) const TOPIC: &str = "orders";

/// Between two lines that are published.
const PACE: Duration = Duration::from_millis(4);

/// A command that runs on, with its output in files.
struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    fn start(cluster: &Cluster, dir: &TempDir, arguments: &[&str]) -> (Self, ChildStdin) {
        let file = |kind: &str| dir.path().join(format!("{}.{kind}", arguments[0]));
        let (out, err) = (file("out"), file("err"));
        let mut child = narad()
            .args(["--admin", &cluster.admin()])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        (Self { child, out, err }, input)
    }

    fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    async fn succeeds(&mut self, what: &str) {
        let mut status = None;
        eventually(&format!("{what} ends"), async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        let said = fs::read_to_string(&self.err).unwrap();
        assert!(status.unwrap().success(), "{what}: {:?}\n{said}", status.unwrap());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Publishes lines until the decommission is over, and checks that each acknowledged one comes out.
pub(crate) async fn publish_while<T>(
    cluster: &mut Cluster,
    meanwhile: impl AsyncFnOnce(&mut Cluster) -> T,
) -> T {
    let dir = TempDir::new().unwrap();
    let (mut subscriber, _input) = Running::start(cluster, &dir, &["sub", TOPIC, "--follow"]);
    let (mut publisher, mut input) = Running::start(cluster, &dir, &["pub", TOPIC]);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let feeder = tokio::spawn(async move {
        let mut pace = tokio::time::interval(PACE);
        let mut stopped = std::pin::pin!(stopped);
        let mut lines = 0_usize;
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => return lines,
                _ = pace.tick() => {
                    writeln!(input, "line {lines}").unwrap();
                    lines += 1;
                }
            }
        }
    });
    let result = meanwhile(cluster).await;
    stop.send(()).unwrap();
    let lines = feeder.await.unwrap();
    // Its input has ended, so it ends too; success means that each line was acknowledged.
    publisher.succeeds("pub").await;
    println!("pub: {}", publisher.out().trim());
    let expected: BTreeSet<String> = (0..lines).map(|line| format!("line {line}")).collect();
    eventually("every line has come out of sub", async || {
        let out = subscriber.out();
        let come: BTreeSet<String> = out.lines().map(str::to_owned).collect();
        expected.is_subset(&come)
    })
    .await;
    println!("sub: {} lines for {lines}", subscriber.out().lines().count());
    kill_process(Pid::from_child(&subscriber.child), Signal::INT).unwrap();
    subscriber.succeeds("sub").await;
    result
}

async fn member(cluster: &Cluster, name: &str) -> Option<MemberView> {
    cluster.members().await.into_iter().find(|member| member.id.as_str() == name)
}

async fn is_retired(cluster: &Cluster, name: &str) -> bool {
    member(cluster, name).await.is_some_and(|member| member.status == MemberStatus::Retired)
}

/// Founds a cluster of four whose partitions take a while to move.
async fn four() -> Cluster {
    let more = "copy_rate_bytes_per_second = \"1MiB\"\n[copy]\nchunk_bytes_max = \"64KiB\"\n";
    let cluster = Cluster::of(4, more).await;
    cluster.create_topic(TOPIC, 8).await;
    let ledger = super::ledger::Ledger::default();
    for partition in 0..8 {
        ledger.fill(&cluster.client(), TOPIC, partition, 512 << 10, 32 << 10).await;
    }
    cluster
}

/// R82 to R90: a node leaves under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_decommissioned_while_publishers_and_subscribers_run_on() {
    let mut cluster = four().await;
    publish_while(&mut cluster, async |cluster: &mut Cluster| {
        cluster.client().decommission("n4", true).await.unwrap();
        eventually("n4 is out", async || is_retired(cluster, "n4").await).await;
    })
    .await;
    let owned = member(&cluster, "n4").await.unwrap().owned_partitions;
    assert_eq!(owned, 0);
    // It went to followers as well as to the leader.
    for name in ["n1", "n2", "n3"] {
        let log = cluster.nodes[name].log();
        let owned = member(&cluster, name).await.unwrap().owned_partitions;
        assert!((2..=3).contains(&owned), "{name} owns {owned}");
        assert!(owned == 2 || log.contains("has moved here"), "{name} got its share somehow");
    }
    // What is left can be stopped: nothing depends on it.
    cluster.node("n4").terminate();
    assert!(cluster.node("n4").ended().await.success());
}

/// R61, R84, R88: anybody is killed while a node leaves, the leader and the leaving node too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_decommissioned_although_everybody_is_killed_once() {
    let mut cluster = four().await;
    publish_while(&mut cluster, async |cluster: &mut Cluster| {
        cluster.client().decommission("n4", true).await.unwrap();
        let leader = cluster.leader().await;
        let mut victims = vec!["n4".to_owned(), leader.clone()];
        let others = cluster.nodes.keys().filter(|name| **name != "n4" && **name != leader);
        victims.extend(others.cloned());
        for victim in victims {
            eventually("something moves, or n4 is out", async || {
                let moves = cluster.client().moves(Read::Barrier).await.unwrap_or_default();
                moves.iter().any(|m| m.phase.is_some() || m.from.as_str() == "n4")
                    || is_retired(cluster, "n4").await
            })
            .await;
            if victim == "n4" && is_retired(cluster, "n4").await {
                continue;
            }
            cluster.node(&victim).kill();
            cluster.restart(&victim).await;
        }
        eventually("n4 is out", async || is_retired(cluster, "n4").await).await;
    })
    .await;
}
