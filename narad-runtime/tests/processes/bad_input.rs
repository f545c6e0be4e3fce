//! What people and strangers get wrong: a clear word, a documented exit code, and nothing lost.

use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::{Cluster, eventually};
use super::http;
use super::ledger::{Ledger, Writers};
use super::node::{Node, free_port, narad, plain};

const TOPIC: &str = "orders";

/// Runs the binary to its end; `NAME=value` sets a variable.
fn run(arguments: &[&str]) -> Output {
    let is_variable = |argument: &&str| argument.starts_with("NARAD_") && argument.contains('=');
    let (variables, arguments): (Vec<&str>, Vec<&str>) =
        arguments.iter().copied().partition(is_variable);
    let mut command = narad();
    for variable in variables {
        let (name, value) = variable.split_once('=').unwrap();
        command.env(name, value);
    }
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Checks what the binary exits with, and that it says these things.
fn refuses(arguments: &[&str], code: i32, says: &[&str]) {
    let output = run(arguments);
    let said = plain(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for word in says {
        assert!(said.contains(word), "{arguments:?} does not say {word:?}: {said}");
    }
}

/// The documented codes, as `narad exit-codes` lists them.
const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const UNAVAILABLE: i32 = 5;
const DATA_DIRECTORY: i32 = 7;

/// R97, H9: a node with a wrong configuration says which key is wrong and what is allowed, and
/// leaves no trace.
#[test]
fn a_wrong_configuration_is_refused_before_anything_is_touched() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let file = |text: &str| {
        let path = dir.path().join("narad.toml");
        let head = format!("name = \"n1\"\ndata_dir = {data:?}\n");
        std::fs::write(&path, head + text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let server = |config: &str| ["server", "--bootstrap", "--config", config].map(str::to_owned);
    let cases: [(&str, &[&str]); 6] = [
        ("[policy]\nleaze = \"1s\"\n", &["unknown key policy.leaze", "policy.lease"]),
        ("[policy]\nlease = \"10min\"\n", &["unsafe", "force_promote_after"]),
        ("[policy]\nlease = \"soon\"\n", &["policy.lease", "soon", "a duration such as"]),
        ("[freeze]\nduty_percent = 0\n", &["freeze.duty_percent", "1 to 100"]),
        ("[listen]\npeer = \"0.0.0.0:0\"\n", &["advertise.peer"]),
        ("this is not TOML", &["narad.toml", "not TOML"]),
    ];
    for (text, says) in cases {
        let arguments = server(&file(text));
        refuses(&arguments.each_ref().map(String::as_str), USAGE, says);
        assert!(!data.exists(), "{text:?} made a data directory");
    }
    let nowhere = dir.path().join("nowhere.toml");
    refuses(&["server", "--config", nowhere.to_str().unwrap()], USAGE, &["nowhere.toml"]);
    let good = file("");
    let typo = "NARAD_FAILPOINT=before-flipp:kill";
    refuses(&[typo, "server", "--bootstrap", "--config", &good], USAGE, &["before-flipp"]);
    assert!(!data.exists(), "a failpoint made a data directory");
    let elsewhere = ["--listen-peer", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
    let neither = [&["server", "--config", &good][..], &elsewhere].concat();
    refuses(&neither, USAGE, &["--bootstrap", "--join"]);
    // Whoever was called something else by mistake is not held to it.
    let renamed = [&["server", "--config", &good, "--name", "n2"][..], &elsewhere].concat();
    refuses(&renamed, USAGE, &["--bootstrap", "--join"]);
    refuses(&["server", "--bootstrap", "--join", "a:1"], USAGE, &["--join"]);
}

/// The codes are those that the command documents.
#[test]
fn the_exit_codes_are_documented() {
    let listed = String::from_utf8(run(&["exit-codes"]).stdout).unwrap();
    for code in [0, 1, USAGE, NOT_FOUND, REFUSED, UNAVAILABLE, 6, DATA_DIRECTORY, 8, 130] {
        let documents = |line: &str| line.split_whitespace().next() == Some(&code.to_string());
        assert!(listed.lines().any(documents), "{code}: {listed}");
    }
}

/// H25: one process for one data directory, one data directory for one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_that_is_not_the_nodes_own_is_refused() {
    let mut cluster = Cluster::of(1, "").await;
    cluster.create_topic(TOPIC, 1).await;
    let ledger = Ledger::default();
    ledger.fill(&cluster.client(), TOPIC, 0, 64 << 10, 1 << 10).await;
    let (config, data) = (cluster.nodes["n1"].config(), cluster.nodes["n1"].data());
    let config = config.to_str().unwrap();
    let elsewhere =
        ["--listen-peer", "127.0.0.1:0", "--listen-http", "127.0.0.1:0", "--config", config];
    let server = |more: &[&str]| {
        let all = [&["server"][..], &elsewhere, more].concat();
        all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()
    };
    let refuses = |more: &[&str], code, says: &[&str]| {
        let arguments = server(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        refuses(&arguments, code, says);
    };
    refuses(&[], DATA_DIRECTORY, &["another process"]);
    refuses(&["--bootstrap"], DATA_DIRECTORY, &["another process"]);
    ledger.check(&cluster.client(), TOPIC, &[0]).await;

    cluster.node("n1").kill();
    refuses(&["--name", "n2"], DATA_DIRECTORY, &["n1", "n2"]);
    let identity = data.join("identity");
    let kept = std::fs::read(&identity).unwrap();
    std::fs::remove_file(&identity).unwrap();
    refuses(&["--bootstrap"], DATA_DIRECTORY, &["identity"]);
    std::fs::write(&identity, &kept).unwrap();
    let (log, aside) = (data.join("raft.redb"), data.join("aside"));
    std::fs::rename(&log, &aside).unwrap();
    refuses(&["--bootstrap"], DATA_DIRECTORY, &["raft.redb"]);
    std::fs::write(&log, b"this is no database").unwrap();
    refuses(&[], DATA_DIRECTORY, &["raft.redb"]);
    std::fs::rename(&aside, &log).unwrap();
    cluster.restart("n1").await;
    ledger.check(&cluster.client(), TOPIC, &[0]).await;
}

/// A node whose policy is not the cluster's, whose port is taken, or whom nobody admits, ends and
/// says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_does_not_fit_the_cluster_ends() {
    let mut cluster = Cluster::of(1, "").await;
    let taken = format!("127.0.0.1:{}", cluster.nodes["n1"].peer);
    let dir = TempDir::new().unwrap();
    let node = Node::new(dir.path(), "n2", "max_in_flight = 3\n");
    let config = node.config();
    let config = config.to_str().unwrap();
    let listen = ["server", "--config", config, "--join", &taken, "--listen-peer", &taken];
    refuses(&listen, USAGE, &["cannot listen", &taken]);
    refuses(&["server", "--config", config, "--join", &taken], USAGE, &["policy", "max_in_flight"]);

    let node = Node::new(dir.path(), "n3", "");
    let config = node.config();
    let nobody = format!("127.0.0.1:{}", node.http);
    let join = ["server", "--config", config.to_str().unwrap(), "--join", &nobody];
    refuses(&join, UNAVAILABLE, &["not admitted", &nobody]);
    // Its HTTP port is an address that answers, and no node.
    let http = format!("127.0.0.1:{}", cluster.nodes["n1"].http);
    let join = ["server", "--config", config.to_str().unwrap(), "--join", &http];
    refuses(&join, UNAVAILABLE, &["not admitted", "peer address"]);

    let node = Node::new(dir.path(), "n1", "");
    let config = node.config();
    let join = ["server", "--config", config.to_str().unwrap(), "--join", &taken];
    refuses(&join, REFUSED, &["another member named n1", "choose another name"]);
    cluster.ready("n1").await;
}

/// What does not exist and what cannot be is answered with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_about_what_there_is_not_are_refused() {
    let cluster = Cluster::of(1, "").await;
    cluster.create_topic(TOPIC, 1).await;
    let admin = cluster.admin();
    let refuses = |arguments: &[&str], code, says: &[&str]| {
        refuses(&[&["--admin", &admin][..], arguments].concat(), code, says);
    };
    refuses(&["pub", "invoices"], NOT_FOUND, &["invoices"]);
    refuses(&["sub", "invoices"], NOT_FOUND, &["invoices"]);
    refuses(&["cluster", "move", "invoices/0", "--to", "n1"], NOT_FOUND, &["invoices"]);
    refuses(&["cluster", "move", "orders/7", "--to", "n1"], NOT_FOUND, &["7"]);
    refuses(&["cluster", "move", "orders/0", "--to", "n9"], NOT_FOUND, &["n9"]);
    refuses(&["cluster", "move", "orders/0", "--to", "n1"], REFUSED, &["refused"]);
    refuses(&["cluster", "decommission", "n9"], NOT_FOUND, &["n9"]);
    refuses(&["cluster", "decommission", "n1"], REFUSED, &["nothing was changed"]);
    refuses(&["topic", "create", TOPIC, "--partitions", "1"], REFUSED, &["refused"]);
    refuses(&["topic", "create", "no/such name", "--partitions", "1"], USAGE, &["no/such name"]);
}

/// A node that does not answer is another matter than one that refuses.
#[test]
fn a_command_without_a_node_says_so() {
    let nobody = format!("127.0.0.1:{}", free_port());
    let arguments = ["--admin", &nobody, "cluster", "members"];
    refuses(&arguments, UNAVAILABLE, &["no node could be reached", &nobody]);
}

/// Case C59, field fault 24: garbage, silence and giants on either port harm nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_its_ports_does_not_disturb_a_node() {
    let cluster = Cluster::of(3, "").await;
    cluster.create_topic(TOPIC, 3).await;
    let ledger = Ledger::default();
    let writers = Writers::start(&cluster, TOPIC, 3, &ledger);
    let mut silent = Vec::new();
    for node in cluster.nodes.values() {
        for port in [node.peer, node.http] {
            for garbage in garbage() {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                // The node may have hung up already.
                drop(stream.write_all(&garbage).await);
                drop(stream.shutdown().await);
                let mut answer = Vec::new();
                drop(stream.read_to_end(&mut answer).await);
                assert!(answer.len() < 4096, "{} bytes for garbage", answer.len());
            }
            for _ in 0..100 {
                silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
            }
        }
    }
    let any = cluster.nodes["n1"].http;
    let path = format!("/v1/topics/{TOPIC}/messages");
    let long = "x".repeat((1 << 20) + 1);
    let answer = http::ask(any, "POST", &path, &long).await.unwrap();
    assert_eq!((answer.status, &answer.body["retryable"]), (413, &false.into()), "{answer:?}");
    let answer = http::ask(any, "POST", &path, "{\"messages\": 3}").await.unwrap();
    assert_eq!((answer.status, &answer.body["code"]), (400, &"bad_request".into()));
    let answer = http::ask(any, "GET", "/v1/nothing", "").await.unwrap();
    assert_eq!((answer.status, &answer.body["code"]), (404, &"no_such_route".into()));
    let before = ledger.len();
    eventually("the writers write on", async || ledger.len() > before + 30).await;
    drop(silent);
    writers.end().await;
    ledger.check(&cluster.client(), TOPIC, &[0, 1, 2]).await;
    for node in cluster.nodes.values() {
        assert!(!node.log().contains("panicked"), "{}", node.name);
    }
}

fn garbage() -> [Vec<u8>; 6] {
    // Any bytes that are no frame; always the same ones.
    let noise: Vec<u8> =
        (0..9000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    // A frame of four gigabytes, and one of a kind that may be long, announced and not sent.
    let giant = [0xff, 0xff, 0xff, 0xff, 1, 1].to_vec();
    let long = [0x03, 0xff, 0xff, 0xff, 1, 4].to_vec();
    let wish = b"GET /healthz HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n".to_vec();
    [noise, giant, long, wish, vec![0; 64], b"\r\n\r\n\r\n".to_vec()]
}

/// H20, field fault 11: a node whose disk is full refuses records and says why; it keeps and serves
/// what it has, and goes on when there is space.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_records_and_loses_none() {
    let dir = TempDir::new().unwrap();
    let mut node = Node::new(dir.path(), "n1", "");
    if !node.start_on_small_disk(12 << 20, 6 << 20, &["--bootstrap"]) {
        println!("not tried: this user may not mount a file system in a namespace of its own");
        return;
    }
    let mut cluster = Cluster::around(node);
    cluster.ready("n1").await;
    cluster.create_topic(TOPIC, 1).await;
    let port = cluster.nodes["n1"].http;
    let path = format!("/v1/topics/{TOPIC}/messages?partition=0&ack=owner");
    let mut acknowledged = 0;
    let value = |number: usize| format!("{number} {}", "x".repeat(200 << 10));
    let refusal = loop {
        let answer = http::ask(port, "POST", &path, &value(acknowledged)).await.unwrap();
        if answer.status != 200 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 1000, "the disk never fills");
    };
    assert!(acknowledged > 3, "{acknowledged} fit");
    assert_eq!((refusal.status, &refusal.body["code"]), (507, &"disk_full".into()), "{refusal:?}");
    assert_eq!(refusal.body["retryable"], true);
    let served = async || {
        let path = format!("/v1/topics/{TOPIC}/messages?partition=0&from=0&max_bytes=8388608");
        let answer = http::ask(port, "GET", &path, "").await?;
        Some(answer.body["messages"].as_array()?.iter().map(|m| m["value"].clone()).collect())
    };
    let expected: Vec<serde_json::Value> = (0..acknowledged).map(|n| value(n).into()).collect();
    eventually("all that was acknowledged is served from a full disk", async || {
        served().await.is_some_and(|found: Vec<serde_json::Value>| found == expected)
    })
    .await;
    cluster.nodes["n1"].free_small_disk();
    eventually("records are taken again", async || {
        let answer = http::ask(port, "POST", &path, "there is space").await;
        answer.is_some_and(|answer| answer.status == 200)
    })
    .await;
    let found = served().await.unwrap();
    assert!(found.starts_with(&expected), "{} of {} are served", found.len(), expected.len());
}

/// H20, field fault 11, L4: the same of records that are accepted first and brought to their partition
/// afterwards, on one small disk: what was acknowledged waits for space at worst, and all of it
/// arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_accepted_on_a_disk_that_fills_arrives_when_there_is_space() {
    let dir = TempDir::new().unwrap();
    let mut node = Node::new(dir.path(), "n1", "");
    if !node.start_on_small_disk(12 << 20, 6 << 20, &["--bootstrap"]) {
        println!("not tried: this user may not mount a file system in a namespace of its own");
        return;
    }
    let mut cluster = Cluster::around(node);
    cluster.ready("n1").await;
    cluster.create_topic(TOPIC, 1).await;
    let port = cluster.nodes["n1"].http;
    let path = format!("/v1/topics/{TOPIC}/messages");
    let value = |number: usize| format!("{number} {}", "x".repeat(200 << 10));
    let mut acknowledged = 0;
    let refusal = loop {
        let answer = http::ask(port, "POST", &path, &value(acknowledged)).await.unwrap();
        if answer.status != 200 {
            break answer;
        }
        acknowledged += 1;
        assert!(acknowledged < 1000, "the disk never fills");
    };
    assert_eq!((refusal.status, &refusal.body["code"]), (507, &"disk_full".into()), "{refusal:?}");
    assert_eq!(refusal.body["retryable"], true);
    cluster.nodes["n1"].free_small_disk();
    eventually("all that was acknowledged arrives", async || {
        let path = format!("{path}?partition=0&from=0&max_bytes=8388608");
        let Some(answer) = http::ask(port, "GET", &path, "").await else { return false };
        let messages = answer.body["messages"].as_array().cloned().unwrap_or_default();
        messages.len() >= acknowledged
            && (0..acknowledged).all(|n| messages.iter().any(|found| found["value"] == value(n)))
    })
    .await;
    eventually("records are taken again", async || {
        let answer = http::ask(port, "POST", &path, "there is space").await;
        answer.is_some_and(|answer| answer.status == 200)
    })
    .await;
}
