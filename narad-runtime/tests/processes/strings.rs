//! Strings that would like to be paths, in every place where the API takes a string.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use narad_runtime::http::paths;

use super::harness::Cluster;
use super::http;

/// As they stand in an address, and as they stand in JSON.
const EVIL: [(&str, &str); 7] = [
    ("..", ".."),
    ("%2e%2e", ".."),
    ("..%2f..%2f..%2fetc%2fpasswd", "../../../etc/passwd"),
    ("%2fetc%2fpasswd", "/etc/passwd"),
    ("a%00b", "a\\u0000b"),
    ("%00", "\\u0000"),
    ("..%5c..%5cetc", "..\\\\..\\\\etc"),
];

/// Bodies with a place for a string each.
const BODIES: [(&str, &str, &str); 10] = [
    ("POST", "/v1/topics", r#"{"name": "@", "partitions": 1}"#),
    ("POST", "/v1/topics", r#"{"name": "fine", "partitions": 1, "parent": "@"}"#),
    ("POST", "/v1/cluster/moves", r#"{"topic": "@", "partition": 0, "to": "n1"}"#),
    ("POST", "/v1/cluster/moves", r#"{"topic": "orders", "partition": 0, "to": "@"}"#),
    ("POST", "/v1/cluster/decommissions", r#"{"members": ["@"]}"#),
    ("POST", "/v1/cluster/losses", r#"{"topic": "@", "partition": 0, "receipt": "x"}"#),
    ("POST", "/v1/topics/orders/ack", r#"{"handles": ["@"]}"#),
    ("POST", "/v1/topics/orders/nack", r#"{"handles": ["@"], "delay": "1s"}"#),
    ("POST", "/v1/topics/orders/extend", r#"{"handles": ["@"], "visibility": "1s"}"#),
    ("PATCH", "/v1/cluster/policy", r#"{"@": 1}"#),
];

/// Returns every file and directory below one.
fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

/// Topic names, members and whatever else is named can never name a path: each is refused in the one
/// shape, nothing is told of any file, none appears or goes, and the node goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_string_names_a_path() {
    let cluster = Cluster::of(1, "").await;
    cluster.create_topic("orders", 1).await;
    let node = &cluster.nodes["n1"];
    let before = tree(&node.dir);
    let check = async |method: &str, path: &str, body: &str| {
        let answer = http::ask(node.http, method, path, body).await;
        let shown = format!("{method} {path:?} {body}: {answer:?}");
        let answer = answer.expect(&shown);
        // A write without a body may be refused for that before anything else is looked at.
        assert!((400..500).contains(&answer.status), "{shown}");
        assert!(answer.body["code"].is_string() && answer.body["error"].is_string(), "{shown}");
        assert!(!answer.body.to_string().contains("root:"), "{shown}");
    };
    for (encoded, _) in EVIL {
        for template in paths().filter(|path| path.contains('{')) {
            // One name at a time, the others being right, and then all of them.
            let names: Vec<&str> =
                template.split('/').filter(|step| step.starts_with('{')).collect();
            for evil in names.iter().map(Some).chain([None]) {
                let mut path = template.to_owned();
                for name in &names {
                    let is_evil = evil.is_none_or(|evil| evil == name);
                    let right = match *name {
                        "{partition}" => "0",
                        "{topic}" => "orders",
                        _ => "n1",
                    };
                    path = path.replacen(name, if is_evil { encoded } else { right }, 1);
                }
                for method in ["GET", "DELETE"] {
                    check(method, &path, "").await;
                }
                for method in ["POST", "PUT"] {
                    check(method, &path, "{}").await;
                }
            }
        }
        check("GET", &format!("/v1/cluster/preflight?members={encoded}"), "").await;
        check("GET", &format!("/v1/topics/orders/messages?partition={encoded}"), "").await;
    }
    for (_, json) in EVIL {
        for (method, path, body) in BODIES {
            check(method, path, &body.replace('@', json)).await;
        }
    }
    let is_own = |path: &&PathBuf| !path.ends_with("log");
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (before.iter().filter(is_own).collect(), BTreeSet::from_iter(tree(&node.dir)));
    let after: BTreeSet<_> = after.iter().filter(is_own).collect();
    let new: Vec<_> = after.symmetric_difference(&before).collect();
    let is_audit = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("audit"))
    };
    assert!(new.iter().all(|path| is_audit(path)), "{new:?}");
    let ready = http::ask(node.http, "GET", "/readyz", "").await.unwrap();
    assert_eq!(ready.status, 200);
    let path = "/v1/topics/orders/messages?partition=0&ack=owner";
    let taken = http::ask(node.http, "POST", path, "it goes on").await.unwrap();
    assert_eq!(taken.status, 200);
}
