//! Handing records out over HTTP, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use narad_core::cursor::Handle;
use narad_core::ids::{Delivery, Epoch, Offset, TopicId};
use narad_runtime::http::HttpOptions;
use narad_runtime::http::batch::{self, Limits};
use narad_runtime::service::{Record, Ticket};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::fake::{Cluster, record};
use crate::router::{Reply, ask, error};

const MESSAGES: &str = "/v1/topics/orders/messages";

/// Partitions 0 and 2 are here, 1 is at `b`; the first one has three records.
fn cluster() -> (Arc<Cluster>, Router) {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a", "b", "a"]);
    cluster.change(|state| drop(state.addrs.insert("b".into(), "10.0.0.2:7401".into())));
    cluster.partition("orders", 0, |row| row.records = ["1", "2", "3"].map(record).into());
    let router = cluster.router("a", HttpOptions::default());
    (cluster, router)
}

async fn hand_out(router: &Router, query: &str) -> Value {
    let reply = ask(router, "GET", &format!("{MESSAGES}?{query}"), "").await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    reply.body
}

fn handles(handed: &Value) -> Vec<&str> {
    let messages = handed["messages"].as_array().expect("messages");
    messages.iter().map(|message| message["handle"].as_str().expect("a handle")).collect()
}

async fn post(router: &Router, what: &str, body: Value) -> Reply {
    ask(router, "POST", &format!("/v1/topics/orders/{what}"), &body.to_string()).await
}

async fn codes(router: &Router, what: &str, body: Value) -> Vec<String> {
    let reply = post(router, what, body).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
    let results = reply.body["results"].as_array().expect("results");
    for result in results {
        // What did not work says why, and what did says nothing.
        let done = ["acked", "already_acked", "nacked", "extended"];
        let is_done = done.contains(&result["code"].as_str().expect("a code"));
        assert!(is_done || result["error"].as_str().is_some_and(|why| !why.is_empty()), "{result}");
    }
    results.iter().map(|result| result["code"].as_str().expect("a code").to_owned()).collect()
}

#[tokio::test]
async fn records_are_handed_out_with_handles_and_acknowledged_by_them() {
    let (cluster, router) = cluster();
    let handed = hand_out(&router, "partition=0&max=2&visibility=1min").await;
    let told = |key: &str| handed[key].clone();
    assert_eq!(
        (told("topic"), told("partition"), told("epoch")),
        (json!("orders"), json!(0), json!(1))
    );
    assert_eq!(told("visibility_ms"), 60_000);
    let message = &handed["messages"][1];
    assert_eq!((&message["offset"], &message["delivery"]), (&json!(1), &json!(1)));
    assert_eq!(message["value"], "2");
    let [first, second] = handles(&handed)[..] else { panic!("two were wanted") };
    assert_eq!(
        codes(&router, "ack", json!({"handles": [second, second]})).await,
        ["acked", "already_acked"]
    );
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), None);
    assert_eq!(codes(&router, "ack", json!({"handles": [first]})).await, ["acked"]);
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(2));
    // What was handed out can be produced again as it is.
    let again = json!({"messages": [message]}).to_string();
    let reply = ask(&router, "POST", &format!("{MESSAGES}?partition=2"), &again).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
}

/// Time comes from the cluster in memory: nobody waits for it.
#[tokio::test]
async fn what_is_not_acknowledged_in_time_comes_again() {
    let (cluster, router) = cluster();
    let pass = |seconds| cluster.change(|state| state.clock += Duration::from_secs(seconds));
    let handed = hand_out(&router, "partition=0&visibility=10s").await;
    let [first, second, third] = handles(&handed)[..] else { panic!("there are three") };
    let body = json!({"handles": [second], "visibility": "1h"});
    let reply = post(&router, "extend", body).await;
    assert_eq!(reply.body["results"][0], json!({"code": "extended", "visibility_ms": 3_600_000}));
    let body = json!({"handles": [third], "delay": "20s"});
    assert_eq!(codes(&router, "nack", body).await, ["nacked"]);
    pass(10);
    let again = hand_out(&router, "partition=0").await;
    assert_eq!(
        (&again["messages"][0]["offset"], &again["messages"][0]["delivery"]),
        (&json!(0), &json!(2))
    );
    assert_eq!(handles(&again).len(), 1);
    assert_eq!(codes(&router, "ack", json!({"handles": [first]})).await, ["superseded"]);
    pass(10);
    let last = hand_out(&router, "partition=0").await;
    assert_eq!(last["messages"][0]["offset"], 2);
    assert_eq!(codes(&router, "nack", json!({"handles": handles(&last)})).await, ["nacked"]);
    pass(7200);
    let body = json!({"handles": [second], "visibility": "1s"});
    assert_eq!(codes(&router, "extend", body).await, ["expired"]);
    // Late is not too late while nobody else has it.
    assert_eq!(codes(&router, "ack", json!({"handles": [second]})).await, ["acked"]);
    assert_eq!(codes(&router, "nack", json!({"handles": [second]})).await, ["already_acked"]);
}

/// R49, R51, H26, H44, `case_069`, `case_070`: each handle is answered for itself, whatever has become of its partition.
#[tokio::test]
async fn what_becomes_of_one_handle_does_not_depend_on_another() {
    let (cluster, router) = cluster();
    cluster.partition("orders", 2, |row| row.records = vec![record("x")]);
    let [here, there] = ["partition=0", "partition=2"];
    let (here, there) = (hand_out(&router, here).await, hand_out(&router, there).await);
    cluster.partition("orders", 2, |row| {
        row.owner = "b".into();
        row.epoch = 2;
        row.reigned.insert(1, "a".into());
    });
    cluster.partition("orders", 0, |row| {
        row.epoch = 2;
        row.reign_starts.insert(2, 1);
    });
    let ticket = |topic, partition, epoch, offset| Ticket {
        topic: TopicId(topic),
        partition,
        handle: Handle { epoch: Epoch(epoch), offset: Offset(offset), delivery: Delivery(1) },
    };
    let all = json!({"handles": [
        handles(&here)[0],
        handles(&here)[2],
        handles(&there)[0],
        ticket(8, 0, 1, 0).to_string(),
        ticket(7, 0, 2, 3).to_string(),
        ticket(7, 1, 1, 0).to_string(),
    ]});
    let expected = ["acked", "other_epoch", "moved", "other_topic", "out_of_range", "not_owner"];
    let reply = post(&router, "ack", all.clone()).await;
    assert_eq!(reply.body["results"][2]["owner"], "10.0.0.2:7401");
    assert_eq!(reply.body["results"][2]["retryable"], true);
    assert_eq!(reply.body["results"][5]["owner"], "10.0.0.2:7401");
    assert_eq!(reply.body["results"][1].get("retryable"), None);
    assert_eq!(codes(&router, "ack", all).await[1..], expected[1..]);
}

/// R36: whoever takes a handle to a node that never had it is told the right one, as with every other
/// request.
#[tokio::test]
async fn a_handle_of_another_nodes_partition_is_answered_with_its_owner() {
    let (_, router) = cluster();
    let handle = Handle { epoch: Epoch(1), offset: Offset(0), delivery: Delivery(1) };
    let ticket = Ticket { topic: TopicId(7), partition: 1, handle }.to_string();
    for (what, body) in [
        ("ack", json!({"handles": [ticket, ticket]})),
        ("nack", json!({"handles": [ticket]})),
        ("extend", json!({"handles": [ticket], "visibility": "1s"})),
    ] {
        let reply = post(&router, what, body).await;
        assert_eq!(error(&reply), (421, "not_owner", true), "{what}");
        let location = format!("http://10.0.0.2:7401/v1/topics/orders/{what}");
        assert_eq!(reply.headers[header::LOCATION], location);
    }
}

/// Any partition that the node serves, in one request; the owner's address if there is none.
#[tokio::test]
async fn without_a_partition_any_served_one_is_taken() {
    let (cluster, router) = cluster();
    assert_eq!(hand_out(&router, "max=1").await["partition"], 0);
    for partition in [0, 2] {
        cluster.partition("orders", partition, |row| row.owner = "b".into());
    }
    let path = format!("{MESSAGES}?max=1&wait=1s");
    let reply = ask(&router, "GET", &path, "").await;
    assert_eq!(error(&reply), (421, "not_owner", true));
    assert_eq!(reply.headers[header::LOCATION], format!("http://10.0.0.2:7401{path}"));
}

/// R49: whoever waits is told of records, and of another owner, as soon as there is one.
#[tokio::test]
async fn a_long_poll_ends_with_a_record_or_with_the_flip() {
    let (cluster, router) = cluster();
    let wait = |router: &Router| {
        let router = router.clone();
        let path = format!("{MESSAGES}?partition=2&wait=10min");
        tokio::spawn(async move { ask(&router, "GET", &path, "").await })
    };
    let polls = |state: &crate::fake::State| state.topics["orders"].1[2].fetches;
    let waiting = wait(&router);
    cluster.until(|state| polls(state) >= 1).await;
    cluster.partition("orders", 2, |row| row.records.push(record("late")));
    let reply = waiting.await.expect("no panic");
    assert_eq!(reply.body["messages"][0]["value"], "late");
    let seen = polls(&cluster.state());
    let waiting = wait(&router);
    cluster.until(|state| polls(state) > seen).await;
    cluster.partition("orders", 2, |row| row.owner = "b".into());
    let reply = waiting.await.expect("no panic");
    assert_eq!(error(&reply), (421, "not_owner", true));
}

#[tokio::test]
async fn too_many_in_flight_is_an_error_that_passes() {
    let (cluster, router) = cluster();
    cluster.partition("orders", 0, |row| row.records = vec![record("x"); 20]);
    assert_eq!(handles(&hand_out(&router, "partition=0").await).len(), 8, "as the fake limits it");
    let reply = ask(&router, "GET", &format!("{MESSAGES}?partition=0"), "").await;
    assert_eq!(error(&reply), (503, "too_many_in_flight", true));
    assert!(reply.headers.contains_key(header::RETRY_AFTER));
}

/// Bodies are bytes: base64 where they are not text, and as they are in a batch.
#[tokio::test]
async fn bytes_come_out_as_they_went_in() {
    let (cluster, router) = cluster();
    let odd = Record {
        key: Some(vec![0xff].into()),
        value: vec![0xfe, 0].into(),
        headers: vec![("h".into(), vec![0x80].into())],
        timestamp_ms: 5,
    };
    cluster.partition("orders", 0, |row| row.records = vec![odd.clone()]);
    let handed = hand_out(&router, "partition=0&visibility=1ms").await;
    let message = &handed["messages"][0];
    assert_eq!(
        (&message["key_base64"], &message["value_base64"]),
        (&json!("/w=="), &json!("/gA="))
    );
    assert_eq!(message["headers"], json!([{"name": "h", "value_base64": "gA=="}]));
    cluster.change(|state| state.clock += Duration::from_secs(1));
    let path = format!("{MESSAGES}?partition=0");
    let request = axum::http::Request::get(&path).header(header::ACCEPT, batch::CONTENT_TYPE);
    let response = router.oneshot(request.body(Body::empty()).expect("a request")).await;
    let response = response.expect("infallible");
    assert_eq!(response.headers()[header::CONTENT_TYPE], batch::CONTENT_TYPE);
    let body = axum::body::to_bytes(response.into_body(), 4096).await.expect("a body");
    let limits = Limits { records_max: 10, record_bytes_max: 100 };
    let handed = batch::decode_handed(body.clone(), limits).expect("a batch");
    assert_eq!((handed.partition, handed.visibility), (0, Duration::from_secs(30)));
    assert_eq!((&handed.records[0].record, handed.records[0].delivery), (&odd, Delivery(2)));
    assert!(batch::decode_fetched(body, limits).is_ok(), "whoever only reads can read it");
    let read = batch::encode_records(&[odd]);
    assert!(batch::decode_handed(read, limits).is_err(), "no handle is made up");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_before_anything_is_done() {
    let (cluster, router) = cluster();
    let queries = [
        "max=0",
        "max=1025",
        "max=-1",
        "wait=5",
        "wait=soon",
        "visibility=0s",
        "visibility=0",
        "partition=0&wait_ms=5",
        "partition=0&from=0&max=1",
        "partition=0&from=0&wait=1s",
        "partition=0&from=committed&visibility=1s",
        "from=0",
        "partition=0&epoch=1",
        // Misspelt, these would reserve records, or for a time that nobody asked for.
        "partition=0&form=0",
        "visiblity=10min",
        "partition=0&partition=1",
        "max_bytes=0",
    ];
    for query in queries {
        let reply = ask(&router, "GET", &format!("{MESSAGES}?{query}"), "").await;
        assert_eq!(error(&reply), (400, "bad_request", false), "{query}");
    }
    assert_eq!(cluster.partition("orders", 0, |row| row.cursor().in_flight()), 0);
    let handed = hand_out(&router, "partition=0").await;
    let good = handles(&handed)[0];
    let cut = &good[..good.len() - 1];
    let cases = [
        ("ack", json!({"handles": []})),
        ("ack", json!({"handles": [good, "nonsense"]})),
        ("ack", json!({"handles": [cut]})),
        ("ack", json!({"handles": ["x".repeat(10_000)]})),
        ("ack", json!({"handles": [good], "delay": "1s"})),
        ("ack", json!({"handles": [good], "epoch": 1})),
        ("nack", json!({"handles": [good], "visibility": "1s"})),
        ("nack", json!({"handles": [good], "delay": "1"})),
        ("extend", json!({"handles": [good]})),
        ("extend", json!({"handles": [good], "visibility": "0s"})),
        ("nack", json!({"epoch": 1, "offsets": [1]})),
        ("ack", json!({})),
        ("ack", json!([])),
        ("ack?partition=0", json!({"epoch": 1, "up_to": 1, "up_too": 2})),
        ("ack?partition=0&force=true", json!({"epoch": 1, "up_to": 1})),
        ("ack?partition=0", json!({"epoch": 1, "offsets": []})),
    ];
    for (what, body) in cases {
        let reply = post(&router, what, body.clone()).await;
        assert_eq!(error(&reply), (400, "bad_request", false), "{what} {body}: {}", reply.body);
    }
    let reply = post(&router, "ack", json!({"handles": [good, "nonsense"]})).await;
    assert!(reply.body["error"].as_str().expect("text").contains("handle 1"), "{}", reply.body);
    for what in ["ack", "nack"] {
        let reply = post(&router, what, json!({"handles": vec![good; 1025]})).await;
        assert_eq!(error(&reply), (413, "too_large", false));
    }
    let offsets = cluster.partition("orders", 0, |row| row.cursor().position().clone());
    assert_eq!(offsets, narad_core::partition::Position::default(), "nothing was acknowledged");
    for path in ["/v1/topics/none/messages", "/v1/topics/none/offsets"] {
        assert_eq!(error(&ask(&router, "GET", path, "").await), (404, "unknown_topic", false));
    }
}

#[tokio::test]
async fn offsets_say_where_consumers_stand() {
    let (_, router) = cluster();
    let handed = hand_out(&router, "partition=0&max=2").await;
    codes(&router, "ack", json!({"handles": [handles(&handed)[1]]})).await;
    let reply = ask(&router, "GET", "/v1/topics/orders/offsets", "").await;
    let first = json!({
        "partition": 0, "owner": "a", "addr": "", "epoch": 1, "start": 0, "hwm": 3,
        "committed": null, "acked_ahead": 1, "in_flight": 1, "backlog": 2,
    });
    assert_eq!((&reply.body["topic"], &reply.body["partitions"][0]), (&json!("orders"), &first));
    let reply = ask(&router, "GET", "/v1/topics/orders/offsets?stale=true", "").await;
    let elsewhere = &reply.body["partitions"][1];
    assert_eq!((elsewhere["addr"].as_str(), elsewhere.get("hwm")), (Some("10.0.0.2:7401"), None));
    assert!(elsewhere["unknown"].is_string());
}

/// A request whose answer has no body would only keep records from others; and no cache in between may
/// give two consumers the same ones.
#[tokio::test]
async fn records_are_handed_to_one_who_takes_them() {
    let (cluster, router) = cluster();
    let reply = ask(&router, "HEAD", &format!("{MESSAGES}?partition=0"), "").await;
    assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(cluster.partition("orders", 0, |row| row.cursor().in_flight()), 0);
    let reply = ask(&router, "GET", &format!("{MESSAGES}?partition=0"), "").await;
    assert_eq!(reply.headers[header::CACHE_CONTROL], "no-store");
    let reply = ask(&router, "HEAD", &format!("{MESSAGES}?partition=0&from=0"), "").await;
    assert_eq!(reply.status, StatusCode::OK);
}
