//! Clusters under TLS, from the first certificate on: what serves, and who is not served.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::eventually;
use super::http;
use super::node::{Node, narad, plain};

/// Processes under TLS, and who may ask them.
struct Secure {
    root: TempDir,
    nodes: Vec<Node>,
}

impl Secure {
    /// Makes certificates and founds a cluster of three, by the commands of the README.
    async fn start() -> Self {
        let root = TempDir::new().unwrap();
        let mut secure = Self { root, nodes: Vec::new() };
        let certs = secure.certs();
        assert_ok(&run(&["cert", "init", "--cluster", "prod", "--dir", &certs], ""));
        assert_ok(&run(&["cert", "issue", "n1", "n2", "n3", "--dir", &certs], ""));
        for name in ["n1", "n2", "n3"] {
            let node = secure.node(name, &certs);
            secure.nodes.push(node);
        }
        eventually("three nodes vote", async || {
            let Some(members) = secure.ask(&["cluster", "members"]) else { return false };
            let members = members["members"].as_array().unwrap().clone();
            members.len() == 3 && members.iter().all(|member| member["role"] == "voter")
        })
        .await;
        secure
    }

    fn certs(&self) -> String {
        text(&self.root.path().join("certs"))
    }

    /// Starts a node with the certificates of a directory; all but the first one join.
    fn node(&self, name: &str, certs: &str) -> Node {
        let more = format!("[tls]\ndir = \"{certs}\"\npoll_interval = \"1h\"\n");
        let mut node = Node::new(self.root.path(), name, &more);
        match self.nodes.first() {
            None => node.start(&["--bootstrap"]),
            Some(first) => node.start(&["--join", &format!("127.0.0.1:{}", first.peer)]),
        }
        node
    }

    /// Runs a command as an admin.
    fn narad(&self, arguments: &[&str], input: &str) -> Output {
        let admin: Vec<String> =
            self.nodes.iter().map(|node| format!("https://127.0.0.1:{}", node.http)).collect();
        let (admin, certs) = (admin.join(","), self.certs());
        let all = [&["--certs", certs.as_str(), "--admin", admin.as_str()][..], arguments].concat();
        run(&all, input)
    }

    /// Returns what a command answers, if it does.
    fn ask(&self, arguments: &[&str]) -> Option<Value> {
        let output = self.narad(&[arguments, &["--json"]].concat(), "");
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Nobody has lost sight of anybody.
    fn is_whole(&self) {
        let members = self.ask(&["cluster", "members"]).expect("an answer");
        let members = members["members"].as_array().unwrap();
        assert_eq!(members.len(), 3, "{members:?}");
        assert!(members.iter().all(|member| member["status"] == "alive"), "{members:?}");
    }

    async fn says(node: &Node, words: &[&str]) {
        eventually(&format!("{} says {words:?}", node.name), async || {
            let log = plain(&node.log());
            log.lines().any(|line| words.iter().all(|word| line.contains(word)))
        })
        .await;
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = narad()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{}", plain(&String::from_utf8_lossy(&output.stderr)));
}

/// Checks what a command exits with, and that it says these things.
fn refused(output: &Output, code: i32, says: &[&str]) {
    let said = plain(&String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in says {
        assert!(said.contains(word), "it does not say {word:?}: {said}");
    }
}

const USAGE: i32 = 2;
const UNAVAILABLE: i32 = 5;

/// Records are published, moved and received, and nodes ask one another, all of it
/// under TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_does_under_tls_what_it_does_without() {
    let secure = Secure::start().await;
    assert_ok(&secure.narad(&["topic", "create", "orders", "--partitions", "3"], ""));
    let lines = (0..500).map(|i| format!("line {i}")).collect::<Vec<_>>().join("\n");
    assert_ok(&secure.narad(&["pub", "orders"], &lines));
    let topic = secure.ask(&["topic", "show", "orders"]).expect("a topic");
    let owner = topic["routes"][0]["owner"].as_str().unwrap().to_owned();
    let to = if owner == "n1" { "n2" } else { "n1" };
    eventually("the move begins", async || {
        secure.narad(&["cluster", "move", "orders/0", "--to", to], "").status.success()
    })
    .await;
    eventually("the partition has moved", async || {
        let topic = secure.ask(&["topic", "show", "orders"]).expect("a topic");
        topic["routes"][0]["owner"] == to
    })
    .await;
    // Whoever is asked asks the owners, node by node.
    let offsets = secure.ask(&["topic", "offsets", "orders"]).expect("offsets");
    let partitions = offsets["partitions"].as_array().unwrap();
    assert!(partitions.iter().all(|one| one["unknown"].is_null()), "{partitions:?}");
    let output = secure.narad(&["sub", "orders", "--max", "500", "--wait", "30s"], "");
    assert_ok(&output);
    let mut received: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    received.sort();
    received.dedup();
    assert_eq!(received.len(), 500);
    secure.is_whole();
}

/// The wrong authority, no TLS, another node's certificate. Nothing
/// is served, both logs say why, and nobody's heartbeats are harmed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_no_node_of_the_cluster_does_not_get_in() {
    let secure = Secure::start().await;
    let first = &secure.nodes[0];
    let join = format!("127.0.0.1:{}", first.peer);

    // An authority of its own, of the same name; it knows the cluster's, too.
    let foreign = text(&secure.root.path().join("foreign"));
    assert_ok(&run(&["cert", "init", "--cluster", "prod", "--dir", &foreign], ""));
    assert_ok(&run(&["cert", "issue", "n4", "--dir", &foreign], ""));
    let ca = |dir: &str| fs::read_to_string(Path::new(dir).join("ca.crt")).unwrap();
    let both = format!("{}{}", ca(&foreign), ca(&secure.certs()));
    fs::write(Path::new(&foreign).join("ca.crt"), both).unwrap();
    let mut fourth = secure.node("n4", &foreign);
    assert_eq!(fourth.ended().await.code(), Some(UNAVAILABLE), "{}", fourth.tail(5));
    Secure::says(&fourth, &["signed by an authority that is not trusted"]).await;
    Secure::says(first, &["refused a connection", "why=\"unknown_authority\""]).await;
    assert!(!fourth.data().join("raft.redb").exists());

    // No TLS at all.
    let mut fifth = Node::new(secure.root.path(), "n5", "");
    fifth.start(&["--join", &join]);
    assert_eq!(fifth.ended().await.code(), Some(UNAVAILABLE), "{}", fifth.tail(5));
    Secure::says(&fifth, &["one side speaks TLS and the other one does not"]).await;
    Secure::says(first, &["refused a connection", "why=\"not_tls\""]).await;

    // Another node's certificate, which an honest node refuses to start with.
    let at = |ending: &str| text(&Path::new(&secure.certs()).join(format!("n2.{ending}")));
    let sixth = Node::new(secure.root.path(), "n6", "");
    let config = text(&sixth.config());
    let (ca, cert, key) = (format!("{}/ca.crt", secure.certs()), at("crt"), at("key"));
    let output = run(
        &[
            "server",
            "--config",
            &config,
            "--join",
            &join,
            "--tls-ca",
            &ca,
            "--tls-cert",
            &cert,
            "--tls-key",
            &key,
        ],
        "",
    );
    refused(&output, USAGE, &["narad://prod/node/n2", "this node is n6", "narad cert issue n6"]);

    // Clients that do not speak TLS, or trust another authority.
    assert!(http::ask(first.http, "GET", "/v1/cluster/members", "").await.is_none());
    let admin = format!("https://127.0.0.1:{}", first.http);
    let mistrusting = PathBuf::from(&foreign).join("own.crt");
    fs::write(&mistrusting, {
        let other = text(&secure.root.path().join("third"));
        assert_ok(&run(&["cert", "init", "--dir", &other], ""));
        fs::read_to_string(Path::new(&other).join("ca.crt")).unwrap()
    })
    .unwrap();
    let members = ["--admin", &admin, "cluster", "members"];
    let ask = |more: &[&str]| run(&[more, &members[..]].concat(), "");
    refused(&ask(&["--ca", &text(&mistrusting)]), UNAVAILABLE, &["not trusted"]);
    let (foreign_cert, foreign_key) =
        (format!("{foreign}/admin.crt"), format!("{foreign}/admin.key"));
    let shows_foreign = ["--ca", &ca, "--cert", &foreign_cert, "--key", &foreign_key];
    refused(&ask(&shows_foreign), UNAVAILABLE, &["authority that is not trusted"]);
    refused(&ask(&[]), UNAVAILABLE, &["--ca"]);
    secure.is_whole();
}

/// Certificates are replaced without a restart, by SIGHUP; a bad one changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hangup_replaces_the_certificate() {
    let secure = Secure::start().await;
    let second = &secure.nodes[1];
    let shown = || {
        let file = format!("{}/n2.crt", secure.certs());
        let output = run(&["cert", "show", &file, "--json"], "");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let before = shown();
    let again = ["cert", "issue", "n2", "--days", "30", "--dir", &secure.certs()];
    refused(&run(&again, ""), USAGE, &["is there already", "--force"]);
    assert_eq!(shown(), before);
    assert_ok(&run(&[&again[..], &["--force"]].concat(), ""));
    assert_ne!(shown()["not_after"], before["not_after"]);
    assert_eq!(shown()["subject"], "narad://prod/node/n2");
    second.hang_up();
    Secure::says(second, &["the certificate was replaced"]).await;
    let cert = Path::new(&secure.certs()).join("n2.crt");
    let good = fs::read(&cert).unwrap();
    fs::write(&cert, &good[..100]).unwrap();
    second.hang_up();
    Secure::says(second, &["the certificate files cannot be used", "n2.crt"]).await;
    secure.is_whole();
}

/// One command makes a working set, and nobody else can read the keys.
#[test]
fn keys_are_for_their_owner() {
    let root = TempDir::new().unwrap();
    let dir = text(&root.path().join("certs"));
    assert_ok(&run(&["cert", "init", "--dir", &dir], ""));
    assert_ok(&run(
        &["cert", "issue", "n1", "n2", "--host", "10.0.0.1,n.example.org", "--dir", &dir],
        "",
    ));
    assert_ok(&run(&["cert", "client", "alice", "--role", "write", "--dir", &dir], ""));
    let mode = |path: &str| {
        let found = fs::metadata(Path::new(&dir).join(path)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode(""), 0o700);
    for key in ["ca.key", "admin.key", "n1.key", "n2.key", "alice.key"] {
        assert_eq!(mode(key), 0o600, "{key}");
    }
    let show = |file: &str| run(&["cert", "show", &format!("{dir}/{file}"), "--json"], "");
    let n1: Value = serde_json::from_slice(&show("n1.crt").stdout).unwrap();
    let hosts = ["localhost", "127.0.0.1", "::1", "n1", "10.0.0.1", "n.example.org"];
    assert_eq!(n1["hosts"], serde_json::json!(hosts));
    let alice: Value = serde_json::from_slice(&show("alice.crt").stdout).unwrap();
    assert_eq!(
        (&alice["subject"], &alice["name"]),
        (&"narad://narad/role/write".into(), &"alice".into())
    );
    // Nothing is overwritten, and nothing is written in part.
    refused(&run(&["cert", "init", "--dir", &dir], ""), USAGE, &["ca.key is there already"]);
    refused(&run(&["cert", "issue", "n3", "n1", "--dir", &dir], ""), USAGE, &["n1.key"]);
    assert!(!Path::new(&dir).join("n3.key").exists());
    refused(&run(&["cert", "issue", "../n", "--dir", &dir], ""), USAGE, &["A-Z"]);
    refused(&run(&["cert", "issue", "n4", "--host", "a b", "--dir", &dir], ""), USAGE, &["a b"]);
    refused(&run(&["cert", "issue", "ca", "--dir", &dir], ""), USAGE, &["choose another name"]);
    let nowhere = text(&root.path().join("nowhere"));
    refused(&run(&["cert", "issue", "n1", "--dir", &nowhere], ""), USAGE, &["narad cert init"]);
    refused(&show("ca.crt"), USAGE, &["narad://"]);
}

/// Plaintext is for this machine alone, unless somebody insists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wider_bind_without_tls_is_refused_unless_insecure_is_said() {
    let root = TempDir::new().unwrap();
    let mut node = Node::new(root.path(), "n1", "");
    let (config, everywhere) = (text(&node.config()), format!("0.0.0.0:{}", node.http));
    let own = format!("127.0.0.1:{}", node.http);
    let wide = ["--listen-http", &everywhere, "--advertise-http", &own];
    let output = run(&[&["server", "--bootstrap", "--config", &config], &wide[..]].concat(), "");
    refused(&output, USAGE, &["listen.http", "0.0.0.0", "tls.dir", "--insecure"]);
    assert!(!node.data().exists());
    node.start(&[&["--bootstrap", "--insecure"], &wide[..]].concat());
    eventually("it serves", async || {
        http::ask(node.http, "GET", "/readyz", "").await.is_some_and(|answer| answer.status == 200)
    })
    .await;
    Secure::says(&node, &["WARN", "there is no TLS"]).await;
}

/// Ten thousand connections that do not say who they are, on both ports. Heartbeats
/// go on, and so does the API.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_harm_nobody() {
    /// As many as this process may have open while the test runs.
    const HELD: usize = 400;
    let secure = Secure::start().await;
    let first = &secure.nodes[0];
    let mut held = std::collections::VecDeque::new();
    for i in 0..10_000_usize {
        let port = if i % 2 == 0 { first.peer } else { first.http };
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
        let begun = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc];
        drop(stream.write_all(&begun[..i % begun.len()]).await);
        held.push_back(stream);
        if held.len() > HELD {
            held.pop_front();
        }
        if i % 2500 == 0 {
            secure.is_whole();
        }
    }
    secure.is_whole();
    // The oldest one had to make room, or is still one of few.
    let mut oldest = held.pop_front().unwrap();
    let mut scrap = [0; 16];
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), oldest.read(&mut scrap));
    assert!(ended.await.is_ok(), "a silent connection is kept");
}
