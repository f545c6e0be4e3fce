//! What operators of other systems were not told, told here by the command alone.
//!
//! Each story of the groups "Decommission" and "Dead nodes" of the field faults is made on processes,
//! and then `narad` is asked as an operator would ask it. The verdict has to be right, name a reason
//! and who can help, and come within seconds.

mod dead;
mod decommission;

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::harness::Cluster;
use super::node::{narad, plain};

/// How long a verdict may take, the time after which a silent node counts as dead included.
const SECONDS: Duration = Duration::from_secs(30);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The documented codes, as `narad exit-codes` lists them.
const OK: i32 = 0;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const BLOCKED: i32 = 9;
const NOT_SAFE: i32 = 10;

/// What the command answered.
#[derive(Debug)]
struct Said {
    code: i32,
    json: Value,
    err: String,
}

impl Said {
    /// Checks how the command ended, and that it said these things to people.
    fn ended(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "it does not say {word:?}: {self:?}");
        }
        self
    }
}

/// Runs `narad` as an operator does whose shell knows every node; the answer is JSON.
fn ask(cluster: &Cluster, line: &str) -> Said {
    let mut command = narad();
    command.args(["--admin", &cluster.admin(), "-o", "json"]).args(line.split(' '));
    let output = tokio::task::block_in_place(|| command.stdin(Stdio::null()).output()).unwrap();
    Said {
        code: output.status.code().unwrap(),
        json: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        err: plain(&String::from_utf8_lossy(&output.stderr)),
    }
}

/// Asks until the answer is as it should be, for some seconds.
async fn told(
    cluster: &Cluster,
    line: &str,
    what: &str,
    mut is: impl FnMut(&Value) -> bool,
) -> Value {
    let give_up = tokio::time::Instant::now() + SECONDS;
    let mut pause = tokio::time::interval(LOOK);
    loop {
        pause.tick().await;
        let said = ask(cluster, line);
        if said.code == OK && is(&said.json) {
            return said.json;
        }
        assert!(
            tokio::time::Instant::now() < give_up,
            "`narad {line}` does not tell within {SECONDS:?}: {what}\n{said:#?}"
        );
    }
}

/// Waits until the page of the whole cluster has a verdict with this code, and checks that it says
/// what has to be done, or who can help.
async fn cluster_is(cluster: &Cluster, state: &str, code: &str, words: &[&str]) -> Value {
    let what = format!("{state}: {code}, {words:?}");
    let view = told(cluster, "cluster status", &what, |view| {
        is(&view["verdict"], state, code) && has(&view["verdict"], words)
    })
    .await;
    if state == "blocked" {
        assert!(!view["next"].as_array().unwrap().is_empty(), "nothing is next: {view}");
        ask(cluster, "cluster status --check").ended(BLOCKED, &[]);
    }
    view
}

/// Waits until one move has such a verdict.
async fn move_is(cluster: &Cluster, place: (&str, u64), state: &str, code: &str, words: &[&str]) {
    let what = format!("{place:?} is {state}: {code}, {words:?}");
    told(cluster, "cluster moves", &what, |view| {
        moving(view, place)
            .is_some_and(|one| is(&one["verdict"], state, code) && has(&one["verdict"], words))
    })
    .await;
}

/// Returns the move of a partition.
fn moving<'a>(view: &'a Value, (topic, partition): (&str, u64)) -> Option<&'a Value> {
    let moves = view["moves"].as_array()?;
    moves.iter().find(|one| one["topic"] == topic && one["partition"] == partition)
}

/// Whether a verdict is this one; no code stands for one that goes on or is over.
fn is(verdict: &Value, state: &str, code: &str) -> bool {
    verdict["state"] == state && (code.is_empty() || verdict["code"] == code)
}

fn has(verdict: &Value, words: &[&str]) -> bool {
    let text = verdict.to_string();
    words.iter().all(|word| text.contains(word))
}

/// Returns what a page says of one member.
fn member<'a>(view: &'a Value, name: &str) -> &'a Value {
    let members = view["members"].as_array().unwrap();
    members.iter().find(|member| member["id"] == name).unwrap_or(&Value::Null)
}

/// Returns how the decommission of one member is coming on.
fn drain<'a>(view: &'a Value, name: &str) -> &'a Value {
    let drains = view["drains"].as_array().unwrap();
    drains.iter().find(|drain| drain["member"] == name).unwrap_or(&Value::Null)
}

/// Returns the partitions that a member owns.
async fn owned(cluster: &Cluster, topic: &str, name: &str) -> Vec<u32> {
    let routes = cluster.routes(topic).await;
    routes.into_iter().filter(|(_, (_, owner))| owner == name).map(|(id, _)| id).collect()
}
