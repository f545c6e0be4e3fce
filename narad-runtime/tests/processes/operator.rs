//! What operators do to a process that runs: a file read again, tokens, logs, and strangers at the door.

use narad_runtime::http::Secret;
use tokio::net::TcpStream;

use super::harness::eventually;
use super::http::ask;
use super::node::Node;

const MORE: &str = r#"
[http]
connections_max = 64

[logging]
format = "json"
"#;

/// Ten thousand half-open connections would be the same, only slower.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_node_takes_over_a_file_and_keeps_its_door_open() {
    let root = tempfile::tempdir().unwrap();
    let mut node = Node::new(root.path(), "n1", MORE);
    node.start(&["--bootstrap"]);
    let port = node.http;
    let is = async |path: &str, status: u16| {
        ask(port, "GET", path, "").await.is_some_and(|answer| answer.status == status)
    };
    eventually("it is ready", async || is("/readyz", 200).await).await;

    // Ten times as many as there is room for, and none of them says anything.
    let mut silent = Vec::new();
    for round in 0..640 {
        silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        if round % 80 == 79 {
            assert!(is("/healthz", 200).await, "after {round} silent connections");
            assert!(is("/readyz", 200).await, "after {round} silent connections");
        }
    }

    let secret = Secret::draw();
    let config = std::fs::read_to_string(node.config()).unwrap();
    let token = format!(
        "[[auth.tokens]]\nname = \"ops\"\nrole = \"admin\"\nsha256 = \"{}\"\n",
        secret.sha256()
    );
    // A file that is none changes nothing.
    std::fs::write(node.config(), "policy = 3").unwrap();
    node.hang_up();
    eventually("it is said that the file is wrong", async || {
        node.log().contains("the configuration stays as it is")
    })
    .await;
    assert!(is("/v1/cluster/members", 200).await);
    std::fs::write(node.config(), format!("{config}\n{token}")).unwrap();
    node.hang_up();
    eventually("a token is needed", async || is("/v1/cluster/members", 401).await).await;
    let refused = ask(port, "PATCH", "/v1/cluster/policy", "{\"paused\":true}").await.unwrap();
    assert_eq!(refused.status, 401);
    assert!(is("/healthz", 200).await, "probes have no token");
    let written = node.data().join("audit-refused.jsonl");
    eventually("it is written down", async || {
        std::fs::read_to_string(&written).is_ok_and(|text| {
            text.contains("\"path\":\"/v1/cluster/policy\"")
                && text.contains("\"from\":\"127.0.0.1\"")
        })
    })
    .await;

    node.terminate();
    assert!(node.ended().await.success());
    let log = node.log();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
    assert!(log.contains("read again: auth.tokens from 0 tokens to 1 tokens"), "{log}");
    assert!(!log.contains(secret.reveal()) && !log.contains("takes a restart"), "{log}");
}
