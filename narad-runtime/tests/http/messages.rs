//! Producing, fetching and acknowledging over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use narad_runtime::http::HttpOptions;
use narad_runtime::http::batch::{self, Limits};
use narad_runtime::service::{ServiceError, partition_of};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::fake::{Cluster, Fault, record};
use crate::router::{ask, ask_as, error};

const MESSAGES: &str = "/v1/topics/orders/messages";
const OWNER: &str = "/v1/topics/orders/messages?ack=owner";

/// Partitions 0 and 2 are here, 1 is at `b`.
fn cluster() -> (Arc<Cluster>, Router) {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a", "b", "a"]);
    cluster.change(|state| drop(state.addrs.insert("b".into(), "10.0.0.2:7401".into())));
    let options = HttpOptions {
        body_bytes_max: 4096,
        record_bytes_max: 1000,
        batch_records_max: 3,
        bodies_bytes_max: 4096,
        ..HttpOptions::default()
    };
    let router = cluster.router("a", options);
    (cluster, router)
}

async fn plain(router: &Router, query: &str, value: &str) -> crate::router::Reply {
    let and = if query.is_empty() { "?" } else { "&" };
    let path = format!("{MESSAGES}{query}{and}ack=owner");
    ask_as(router, "POST", &path, "application/octet-stream", value.to_owned()).await
}

/// A key that belongs to a partition.
fn key_of(partition: u32) -> String {
    let keys = (0..100).map(|n| format!("k{n}"));
    keys.into_iter().find(|key| partition_of(key.as_bytes(), 3) == partition).expect("one of many")
}

#[tokio::test]
async fn records_come_in_three_forms() {
    let (cluster, router) = cluster();
    let reply = plain(&router, "?partition=0&key=k", "one").await;
    let result =
        json!({"partition": 0, "first_offset": 0, "next_offset": 1, "epoch": 1, "records": 1});
    assert_eq!((reply.status, &reply.body["results"]), (StatusCode::OK, &json!([result])));
    let body = r#"{"messages": [
        {"key": "k", "value": "two", "headers": [{"name": "h", "value": "v"}], "timestamp_ms": 5},
        {"value_base64": "/wA="}]}"#;
    let reply = ask(&router, "POST", &format!("{MESSAGES}?partition=0&ack=owner"), body).await;
    assert_eq!(reply.body["results"][0]["next_offset"], 3);
    let body = Body::from(batch::encode_records(&[record("four")]));
    let path = format!("{MESSAGES}?partition=0&ack=owner");
    let reply = ask_as(&router, "POST", &path, batch::CONTENT_TYPE, body).await;
    assert_eq!(reply.body["results"][0]["first_offset"], 3);
    cluster.partition("orders", 0, |row| {
        assert_eq!(row.records[0].key.as_deref(), Some(&b"k"[..]));
        assert!(row.records[0].timestamp_ms > 0);
        assert_eq!((row.records[1].timestamp_ms, row.records[1].headers.len()), (5, 1));
        assert_eq!(row.records[2].value[..], [0xff, 0]);
    });
}

/// R43, R45, R46: any node accepts records of any partition, whoever owns it and whatever state it
/// is in; all of a request, or none.
#[tokio::test]
async fn any_node_accepts_records_of_any_partition() {
    let (cluster, router) = cluster();
    cluster.partition("orders", 1, |row| row.frozen = true);
    let path = format!("{MESSAGES}?partition=1");
    let reply = ask_as(&router, "POST", &path, "text/plain", "one").await;
    assert_eq!((reply.status, &reply.body), (StatusCode::OK, &json!({"accepted": 1})));
    let body = json!({"messages": [{"key": key_of(1), "value": "two"}, {"value": "three"}]});
    let reply = ask(&router, "POST", MESSAGES, &body.to_string()).await;
    assert_eq!((reply.status, &reply.body), (StatusCode::OK, &json!({"accepted": 2})));
    assert_eq!(cluster.values("orders", 1), ["one", "two"]);
    let reply =
        ask_as(&router, "POST", &format!("{MESSAGES}?partition=3"), "text/plain", "x").await;
    assert_eq!(error(&reply), (404, "unknown_partition", false));
    let reply = ask_as(&router, "POST", &format!("{MESSAGES}?ack=all"), "text/plain", "x").await;
    assert_eq!(error(&reply), (400, "bad_request", false));
}

/// L4, H23: what is not accepted says whether to come again, and when.
#[tokio::test]
async fn records_that_are_not_accepted_may_be_sent_elsewhere() {
    let (cluster, router) = cluster();
    let retry_after = std::time::Duration::from_millis(2100);
    for (refusal, code, seconds) in [
        (ServiceError::Full { retry_after }, "full", "3"),
        (ServiceError::Draining, "draining", "1"),
        (ServiceError::NotAccepting("the disk failed".into()), "not_accepting", "1"),
        (ServiceError::Busy, "busy", "1"),
    ] {
        cluster.change(|state| state.faults = [Fault::Refuse(refusal)].into());
        let reply = ask_as(&router, "POST", MESSAGES, "text/plain", "x").await;
        assert_eq!(error(&reply), (503, code, true));
        assert_eq!(reply.headers[header::RETRY_AFTER], seconds);
    }
    let too_large = ServiceError::TooLarge("more than the log may hold".into());
    cluster.change(|state| state.faults = [Fault::Refuse(too_large)].into());
    let reply = ask_as(&router, "POST", MESSAGES, "text/plain", "x").await;
    assert_eq!(error(&reply), (413, "too_large", false));
}

/// R36: whoever asks the wrong node is told the right one.
#[tokio::test]
async fn another_nodes_partition_is_answered_with_its_owner() {
    let (_, router) = cluster();
    let cases = [
        ("POST", format!("{MESSAGES}?partition=1&ack=owner"), r#"{"messages": [{"value": ""}]}"#),
        ("GET", format!("{MESSAGES}?partition=1"), ""),
        ("POST", "/v1/topics/orders/ack?partition=1".into(), r#"{"epoch": 1, "up_to": 1}"#),
    ];
    for (method, path, body) in cases {
        let reply = ask(&router, method, &path, body).await;
        assert_eq!(error(&reply), (421, "not_owner", true));
        assert_eq!(reply.headers[header::LOCATION], format!("http://10.0.0.2:7401{path}"));
        assert_eq!(reply.body["owner"], "10.0.0.2:7401");
    }
}

#[tokio::test]
async fn a_key_decides_and_those_without_take_turns_here() {
    let (cluster, router) = cluster();
    for _ in 0..4 {
        assert_eq!(plain(&router, "", "x").await.status, StatusCode::OK);
    }
    assert_eq!((cluster.values("orders", 0).len(), cluster.values("orders", 2).len()), (2, 2));
    let reply = plain(&router, &format!("?key={}", key_of(2)), "keyed").await;
    assert_eq!(reply.body["results"][0]["partition"], 2);
    let reply = plain(&router, &format!("?key={}", key_of(1)), "keyed").await;
    assert_eq!(error(&reply), (421, "not_owner", true));
    let location = reply.headers[header::LOCATION].to_str().expect("text").to_owned();
    let key = key_of(1);
    assert_eq!(location, format!("http://10.0.0.2:7401{MESSAGES}?partition=1&ack=owner&key={key}"));
}

/// R43, R45, R46, R47.
#[tokio::test]
async fn producing_goes_on_at_a_sibling_while_a_partition_is_frozen() {
    let (cluster, router) = cluster();
    cluster.partition("orders", 0, |row| row.frozen = true);
    for query in [String::new(), format!("?key={}", key_of(0))] {
        let reply = plain(&router, &query, "x").await;
        assert_eq!(reply.body["results"][0]["partition"], 2, "{}", reply.body);
    }
    // Only who insists has to wait.
    assert_eq!(error(&plain(&router, "?partition=0", "x").await), (503, "frozen", true));
    cluster.partition("orders", 2, |row| row.frozen = true);
    assert_eq!(error(&plain(&router, "", "x").await), (503, "frozen", true));
}

#[tokio::test]
async fn what_was_acknowledged_before_a_failure_is_named() {
    let (cluster, router) = cluster();
    cluster.change(|state| {
        state.faults =
            [Fault::Refuse(ServiceError::Frozen), Fault::Refuse(ServiceError::DiskFull)].into();
    });
    // Two parts: partition 0 is frozen, so that 2 is tried, which is full.
    let body =
        json!({"messages": [{"key": key_of(0), "value": "a"}, {"key": key_of(2), "value": "b"}]});
    let reply = ask(&router, "POST", OWNER, &body.to_string()).await;
    assert_eq!(error(&reply), (507, "disk_full", true));
    assert_eq!(reply.body["results"], Value::Null);
    let body =
        json!({"messages": [{"key": key_of(0), "value": "a"}, {"key": key_of(1), "value": "b"}]});
    let reply = ask(&router, "POST", OWNER, &body.to_string()).await;
    assert_eq!(error(&reply), (421, "not_owner", true));
    assert_eq!(reply.body["results"][0]["partition"], 0);
    assert_eq!(reply.body["results"][0]["records"], 1);
    // The other node would take all of it into one partition.
    assert!(!reply.headers.contains_key(header::LOCATION));
}

/// An error repeats a name as far as people read it, and no further.
#[tokio::test]
async fn a_long_name_comes_back_cut_short() {
    let (_, router) = cluster();
    for (letter, name) in [("y", "y".repeat(10_000)), ("é", "%C3%A9".repeat(5_000))] {
        let reply = ask(&router, "GET", &format!("/v1/topics/{name}"), "").await;
        assert_eq!(reply.status, 404);
        let said = reply.body["error"].as_str().expect("an error");
        assert!(said.starts_with(&format!("there is no topic \"{letter}")), "{said}");
        assert!(said.ends_with(&format!("{letter} ..")) && said.len() <= 2051, "{}", said.len());
    }
}

#[tokio::test]
async fn limits_are_answered_with_413() {
    let (_, router) = cluster();
    let path = format!("{MESSAGES}?partition=0");
    let long = "x".repeat(1001);
    assert_eq!(error(&plain(&router, "?partition=0", &long).await), (413, "too_large", false));
    let longer = "x".repeat(4097);
    assert_eq!(error(&plain(&router, "?partition=0", &longer).await), (413, "too_large", false));
    // Without a length: found out while reading.
    let chunks = (0..5).map(move |_| Ok::<_, std::io::Error>(long.clone()));
    let body = Body::from_stream(futures_util::stream::iter(chunks));
    let reply = ask_as(&router, "POST", &path, "application/octet-stream", body).await;
    assert_eq!(error(&reply), (413, "too_large", false));
    let many = json!({"messages": vec![json!({"value": ""}); 4]}).to_string();
    assert_eq!(error(&ask(&router, "POST", &path, &many).await), (413, "too_large", false));
    let many = Body::from(batch::encode_records(&vec![record(""); 4]));
    let reply = ask_as(&router, "POST", &path, batch::CONTENT_TYPE, many).await;
    assert_eq!(error(&reply), (413, "too_large", false));
    let acks = json!({"epoch": 1, "offsets": vec![0; 1025]}).to_string();
    let reply = ask(&router, "POST", "/v1/topics/orders/ack?partition=0", &acks).await;
    assert_eq!(error(&reply), (413, "too_large", false));
}

#[tokio::test]
async fn what_cannot_be_understood_is_answered_with_400_or_415() {
    let (_, router) = cluster();
    let path = format!("{MESSAGES}?partition=0");
    let form = "application/x-www-form-urlencoded";
    let reply = ask_as(&router, "POST", &path, form, "a=b").await;
    assert_eq!(error(&reply), (415, "unsupported_media_type", false));
    let reply = ask_as(&router, "POST", &path, batch::CONTENT_TYPE, "\u{1}\u{1}garbage").await;
    assert_eq!(error(&reply), (400, "bad_request", false));
    let cases = [
        ("POST", path.as_str(), r#"{"messages": []}"#),
        ("POST", path.as_str(), r#"{"messages": [{}]}"#),
        ("POST", path.as_str(), r#"{"messages": [{"value": "v", "keys": "k"}]}"#),
        ("POST", "/v1/topics/orders/messages?partition=-1", r#"{"messages": [{"value": ""}]}"#),
        ("GET", "/v1/topics/orders/messages?from=0", ""),
        ("GET", "/v1/topics/orders/messages?partition=0&from=here", ""),
        ("POST", "/v1/topics/orders/ack?partition=0", r#"{"epoch": 1}"#),
        ("POST", "/v1/topics/orders/ack?partition=0", r#"{"up_to": 1}"#),
    ];
    for (method, path, body) in cases {
        let reply = ask(&router, method, path, body).await;
        assert_eq!(error(&reply).0, 400, "{method} {path} {body}: {}", reply.body);
    }
    let reply = ask(&router, "GET", "/v1/topics/orders/messages?partition=3", "").await;
    assert_eq!(error(&reply), (404, "unknown_partition", false));
}

/// Two keys are two keys, also where neither is text.
#[tokio::test]
async fn a_key_in_the_query_is_bytes() {
    let (cluster, router) = cluster();
    for key in ["%ff", "%fe", "a+b%2B", ""] {
        let path = format!("{MESSAGES}?partition=0&key={key}");
        let reply = ask_as(&router, "POST", &path, "text/plain", "x").await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    }
    let keys = cluster.partition("orders", 0, |row| {
        row.records.iter().map(|one| one.key.clone().expect("a key").to_vec()).collect::<Vec<_>>()
    });
    assert_eq!(keys, [&b"\xff"[..], b"\xfe", b"a b+", b""]);
    // Also on the way to the owner.
    let keys = (0..=255).map(|byte| format!("%{byte:02X}"));
    let mut sent_on = 0;
    for key in keys {
        let reply = plain(&router, &format!("?key={key}"), "x").await;
        if let Some(location) = reply.headers.get(header::LOCATION) {
            let location = location.to_str().expect("text");
            let as_sent = location.contains(&format!("&key={key}"));
            let letter = u8::from_str_radix(&key[1..], 16).expect("hex");
            assert!(as_sent || location.ends_with(&format!("&key={}", char::from(letter))));
            sent_on += 1;
        }
    }
    assert!(sent_on > 50, "{sent_on} of 256");
}

/// What `curl -d` sends is a form, and the answer says what to send instead.
#[tokio::test]
async fn a_body_of_an_unknown_kind_is_answered_with_the_known_ones() {
    let (_, router) = cluster();
    let kind = "application/x-www-form-urlencoded";
    let reply = ask_as(&router, "POST", MESSAGES, kind, "hello").await;
    assert_eq!(error(&reply), (415, "unsupported_media_type", false));
    for known in ["text/plain", "application/octet-stream", "application/json"] {
        assert!(reply.body["error"].as_str().expect("text").contains(known), "{}", reply.body);
    }
}

/// Bodies under way may not take more memory than allowed, however many come at once.
#[tokio::test]
async fn a_body_for_which_there_is_no_room_is_turned_away() {
    let (cluster, router) = cluster();
    cluster.change(|state| state.gate_shut = true);
    let held = tokio::spawn({
        let router = router.clone();
        async move {
            // No length is announced, so that it may be as long as any.
            let chunk = Ok::<_, std::io::Error>("x");
            let body = Body::from_stream(futures_util::stream::iter([chunk]));
            let path = format!("{MESSAGES}?partition=0");
            ask_as(&router, "POST", &path, "application/octet-stream", body).await.status
        }
    });
    cluster.until(|state| state.producing == 1).await;
    // The one that is held counts as 4096 bytes, which is all there is.
    assert_eq!(error(&plain(&router, "?partition=0", "hello").await), (503, "busy", true));
    cluster.change(|state| state.gate_shut = false);
    assert_eq!(held.await.expect("no panic"), StatusCode::OK);
    assert_eq!(plain(&router, "?partition=0", "hello").await.status, StatusCode::OK);
}

#[tokio::test]
async fn records_are_fetched_as_json_and_as_a_batch() {
    let (cluster, router) = cluster();
    cluster.partition("orders", 0, |row| {
        row.records = ["a", "b", "c"].map(record).into();
        row.committed = Some(1);
    });
    let path = format!("{MESSAGES}?partition=0&from=0");
    let reply = ask(&router, "GET", &path, "").await;
    let expected = json!({
        "topic": "orders", "partition": 0, "next": 2, "start": 0, "hwm": 3, "epoch": 1, "committed": 1,
        "messages": [
            {"offset": 0, "timestamp_ms": 0, "value": "a"},
            {"offset": 1, "timestamp_ms": 0, "value": "b"},
        ],
    });
    assert_eq!(reply.body, expected);
    let committed = format!("{MESSAGES}?partition=0&from=committed");
    let reply = ask(&router, "GET", &committed, "").await;
    assert_eq!(reply.body["messages"][0]["offset"], 1, "from the acknowledged position");
    let request = axum::http::Request::get(&path).header(header::ACCEPT, batch::CONTENT_TYPE);
    let response = router.oneshot(request.body(Body::empty()).expect("a request")).await;
    let response = response.expect("infallible");
    assert_eq!(response.headers()[header::CONTENT_TYPE], batch::CONTENT_TYPE);
    let body = axum::body::to_bytes(response.into_body(), 4096).await.expect("a body");
    let limits = Limits { records_max: 10, record_bytes_max: 100 };
    let fetched = batch::decode_fetched(body, limits).expect("a batch");
    assert_eq!((fetched.records.len(), fetched.hwm.0), (2, 3));
}

/// R53: an acknowledgement of another reign acknowledges nothing.
#[tokio::test]
async fn acknowledgements_name_the_reign_they_belong_to() {
    let (cluster, router) = cluster();
    let path = "/v1/topics/orders/ack?partition=0";
    let reply = ask(&router, "POST", path, r#"{"epoch": 1, "up_to": 2}"#).await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    let reply = ask(&router, "POST", path, r#"{"epoch": 0, "up_to": 3}"#).await;
    assert_eq!(error(&reply), (409, "stale_epoch", false));
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(2));
}
