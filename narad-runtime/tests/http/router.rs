//! Each endpoint of members, moves and topics, and each error in its one shape.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use narad_runtime::http::{HttpOptions, Peer};
use narad_runtime::service::ServiceError;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::fake::{Cluster, member};
use crate::openapi;

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

/// Asks a router; the body's content type is JSON unless told otherwise.
pub(crate) async fn ask(router: &Router, method: &str, path: &str, body: &str) -> Reply {
    let reply = send(router, method, path, "application/json", body.to_owned()).await;
    openapi::check(method, path, serde_json::from_str(body).ok().as_ref(), &reply);
    reply
}

/// Asks with a body of another kind. Like all answers, this one has to be as the document says.
pub(crate) async fn ask_as(
    router: &Router,
    method: &str,
    path: &str,
    content_type: &str,
    body: impl Into<Body>,
) -> Reply {
    let reply = send(router, method, path, content_type, body).await;
    openapi::check(method, path, None, &reply);
    reply
}

async fn send(
    router: &Router,
    method: &str,
    path: &str,
    content_type: &str,
    body: impl Into<Body>,
) -> Reply {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(header::CONTENT_TYPE, content_type).body(body.into());
    answered(router, request.expect("a request")).await
}

async fn answered(router: &Router, request: Request<Body>) -> Reply {
    let response = router.clone().oneshot(request).await.expect("infallible");
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Reply { status: parts.status, headers: parts.headers, body }
}

/// Asks from a made-up address, with headers of one's own.
pub(crate) async fn send_with(
    router: &Router,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.to_owned())).expect("a request");
    let address = Some("192.0.2.7".parse().expect("an address"));
    request.extensions_mut().insert(Peer { address, ..Peer::default() });
    let reply = answered(router, request).await;
    openapi::check(method, path, serde_json::from_str(body).ok().as_ref(), &reply);
    reply
}

/// Checks the one shape and returns the code.
pub(crate) fn error(reply: &Reply) -> (u16, &str, bool) {
    let body = &reply.body;
    assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    let code = body["code"].as_str().expect("a code");
    (reply.status.as_u16(), code, body["retryable"].as_bool().expect("retryable"))
}

fn cluster() -> (Arc<Cluster>, Router) {
    let cluster = Cluster::new();
    cluster.change(|state| state.members = vec![member("narad-1", 1), member("narad-4", 4)]);
    let router = cluster.router("narad-1", HttpOptions::default());
    (cluster, router)
}

fn is_draining(cluster: &Cluster) -> bool {
    cluster.state().members[1].draining
}

/// The page comes with what it needs, and may load nothing else.
#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let (_cluster, router) = cluster();
    for (path, kind) in
        [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")]
    {
        let reply = ask(&router, "GET", path, "").await;
        assert_eq!(reply.status, StatusCode::OK);
        let header = |name| reply.headers[name].to_str().expect("text").to_owned();
        assert!(header(header::CONTENT_TYPE).starts_with(kind), "{path}");
        assert!(
            header(header::CONTENT_SECURITY_POLICY).starts_with("default-src 'none'"),
            "{path}"
        );
    }
}

/// A scrape is answered in the type that the scraper asks for.
#[tokio::test]
async fn a_scrape_is_answered_as_text() {
    let (_cluster, router) = cluster();
    let (open, older) =
        ("application/openmetrics-text; version=1.0.0", "text/plain; version=0.0.4");
    let prometheus = format!("{open};q=0.5,{older};q=0.4,*/*;q=0.1");
    for (accept, kind) in [(None, older), (Some("*/*"), older), (Some(prometheus.as_str()), open)] {
        let headers: Vec<(&str, &str)> =
            accept.map(|kinds| ("accept", kinds)).into_iter().collect();
        let reply = send_with(&router, "GET", "/metrics", &headers, "").await;
        assert_eq!(reply.status, StatusCode::OK);
        let found = reply.headers[header::CONTENT_TYPE].to_str().expect("text");
        assert!(found.starts_with(kind), "{accept:?}: {found}");
        assert_eq!(reply.headers[header::VARY], "accept");
    }
}

const DRAIN: &str = "/v1/cluster/members/narad-4/decommission";

/// R82, R90, R94.
#[tokio::test]
async fn a_decommission_is_begun_and_cancelled_without_content() {
    let (cluster, router) = cluster();
    let reply = ask(&router, "POST", DRAIN, "").await;
    assert_eq!((reply.status, reply.body), (StatusCode::NO_CONTENT, Value::Null));
    assert!(is_draining(&cluster));
    let reply = ask(&router, "DELETE", DRAIN, "").await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert!(!is_draining(&cluster));
}

/// R82.
#[tokio::test]
async fn a_decommission_that_is_not_done_says_why() {
    let (cluster, router) = cluster();
    let reply = ask(&router, "POST", "/v1/cluster/members/narad-9/decommission", "").await;
    assert_eq!(error(&reply), (404, "unknown_member", false));
    let reasons = vec!["orders/3 is pinned".to_owned(), "2 voters would be left".to_owned()];
    let cases = [
        (ServiceError::Blocked(reasons.clone()), (409, "blocked", false)),
        (ServiceError::Rejected("retired".into()), (409, "rejected", false)),
        (ServiceError::NoLeader, (503, "no_leader", true)),
        (ServiceError::OutcomeUnknown, (503, "outcome_unknown", true)),
        (ServiceError::Internal("a fault".into()), (500, "internal", false)),
    ];
    for (cause, expected) in cases {
        cluster.change(|state| state.decommission = Some(cause));
        let reply = ask(&router, "POST", DRAIN, "").await;
        assert_eq!(error(&reply), expected);
        assert_eq!(reply.headers.contains_key(header::RETRY_AFTER), expected.0 == 503);
        if expected.1 == "blocked" {
            assert_eq!(reply.body["reasons"], json!(reasons));
        }
    }
    assert!(!is_draining(&cluster));
}

/// R91, R92.
#[tokio::test]
async fn reads_stand_behind_a_barrier_unless_told_otherwise() {
    let (cluster, router) = cluster();
    cluster.change(|state| state.leaderless = true);
    for path in ["/v1/cluster/members", "/v1/cluster/moves", "/v1/topics"] {
        let reply = ask(&router, "GET", path, "").await;
        assert_eq!(error(&reply), (503, "no_leader", true));
        let reply = ask(&router, "GET", &format!("{path}?stale=true"), "").await;
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(cluster.state().barriers, 3);
}

#[tokio::test]
async fn a_topic_lives_from_creation_to_deletion() {
    let (cluster, router) = cluster();
    let new = r#"{"name": "orders", "partitions": 2}"#;
    let reply = ask(&router, "POST", "/v1/topics", new).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let topic = json!({"name": "orders", "id": 7, "partitions": 2, "parent": null});
    assert_eq!(reply.body, topic);
    let reply = ask(&router, "POST", "/v1/topics", new).await;
    assert_eq!(error(&reply), (409, "rejected", false));
    let child = r#"{"name": "bills", "partitions": 1, "parent": "orders"}"#;
    assert_eq!(ask(&router, "POST", "/v1/topics", child).await.body["parent"], "orders");
    let reply = ask(&router, "GET", "/v1/topics", "").await;
    assert_eq!(reply.body["topics"][1], topic);
    cluster.change(|state| drop(state.addrs.insert("narad-1".into(), "h:1".into())));
    let reply = ask(&router, "GET", "/v1/topics/orders", "").await;
    let route = json!({
        "partition": 1, "owner": "narad-1", "addr": "h:1", "epoch": 1,
        "serving_here": true, "alive": true, "moving": false,
    });
    assert_eq!((&reply.body["name"], &reply.body["routes"][1]), (&json!("orders"), &route));
    let reply = ask(&router, "DELETE", "/v1/topics/orders", "").await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    let reply = ask(&router, "DELETE", "/v1/topics/orders", "").await;
    assert_eq!(error(&reply), (404, "unknown_topic", false));
}

#[tokio::test]
async fn only_a_topic_that_is_not_known_costs_a_barrier() {
    let (cluster, router) = cluster();
    cluster.topic("orders", &["narad-1"]);
    assert_eq!(ask(&router, "GET", "/v1/topics/orders", "").await.status, StatusCode::OK);
    assert_eq!(cluster.state().barriers, 0);
    let reply = ask(&router, "GET", "/v1/topics/nothing", "").await;
    assert_eq!(error(&reply), (404, "unknown_topic", false));
    assert_eq!(cluster.state().barriers, 1);
}

#[tokio::test]
async fn a_partition_is_moved_by_hand() {
    let (cluster, router) = cluster();
    cluster.topic("orders", &["narad-1"]);
    let body = r#"{"topic": "orders", "partition": 0, "to": "narad-4"}"#;
    let reply = ask(&router, "POST", "/v1/cluster/moves", body).await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert_eq!(cluster.partition("orders", 0, |row| row.owner.clone()), "narad-4");
    let body = body.replace("narad-4", "narad-9");
    let reply = ask(&router, "POST", "/v1/cluster/moves", &body).await;
    assert_eq!(error(&reply), (404, "unknown_member", false));
}

#[tokio::test]
async fn a_node_is_ready_once_it_is_registered() {
    let (cluster, router) = cluster();
    assert_eq!(ask(&router, "GET", "/readyz", "").await.status, StatusCode::OK);
    cluster.change(|state| state.unregistered = true);
    let reply = ask(&router, "GET", "/readyz", "").await;
    assert_eq!(error(&reply), (503, "not_ready", true));
    assert_eq!(reply.body["error"], "waits for a leader");
    assert_eq!(ask(&router, "GET", "/healthz", "").await.status, StatusCode::OK);
    // Waiting for that would be in vain.
    cluster.change(|state| state.removed = vec!["narad-1".into()]);
    let reply = ask(&router, "GET", "/readyz", "").await;
    assert_eq!(error(&reply), (503, "not_a_member", false));
}

#[tokio::test]
async fn whatever_is_wrong_with_a_request_has_the_one_shape() {
    let (_, router) = cluster();
    let cases = [
        ("GET", "/page", "", (404, "no_such_route", false)),
        ("GET", "/v2/cluster/members", "", (404, "no_such_route", false)),
        ("PUT", "/v1/cluster/members", "", (405, "method_not_allowed", false)),
        ("GET", "/v1/cluster/members?stale=perhaps", "", (400, "bad_request", false)),
        ("GET", "/v1/topics/%ff", "", (400, "bad_request", false)),
        ("POST", "/v1/topics", "{", (400, "bad_request", false)),
        ("POST", "/v1/topics", r#"{"name": "a/b", "partitions": 1}"#, (400, "bad_request", false)),
        ("POST", "/v1/topics", r#"{"name": "a", "partitions": 0}"#, (400, "invalid", false)),
        ("POST", "/v1/topics", r#"{"name": "a", "partitions": 100001}"#, (400, "invalid", false)),
        ("POST", "/v1/topics", r#"{"name": "a", "partition": 1}"#, (400, "bad_request", false)),
        ("POST", "/v1/topics", r#"["a", 1, null]"#, (400, "bad_request", false)),
        ("GET", "/v1/topics?stale=true&full=1", "", (400, "bad_request", false)),
        ("DELETE", "/v1/topics/a?dry_run=true", "", (400, "bad_request", false)),
    ];
    for (method, path, body, expected) in cases {
        let reply = ask(&router, method, path, body).await;
        assert_eq!(error(&reply), expected, "{method} {path} {body}: {}", reply.body);
    }
    let reply = ask(&router, "PUT", "/v1/cluster/members", "").await;
    assert_eq!(reply.headers[header::ALLOW], "GET,HEAD");
    assert_eq!(ask(&router, "HEAD", "/v1/topics?steal=true", "").await.status, 400);
    // A probe may ask whatever it likes.
    assert_eq!(ask(&router, "GET", "/readyz?at=5", "").await.status, StatusCode::OK);
}

/// What is told is about the request, and in the words of its names.
#[tokio::test]
async fn an_error_speaks_of_the_request_and_not_of_the_program() {
    let (_, router) = cluster();
    let cases = [
        ("GET", "/v1/cluster/members?stale=perhaps", "", "the query: stale: "),
        ("GET", "/v1/topics?steal=true", "", r#"the query has "steal", but this path knows stale"#),
        ("DELETE", "/v1/topics/a?x=1", "", "nothing: leave the query out"),
        ("GET", "/v1/topics/%ff", "", "the topic in the path"),
        ("POST", "/v1/topics", "[]", "must be a JSON object"),
        ("POST", "/v1/topics/a/messages", r#"{"messages": [5]}"#, "expected an object, such as"),
        ("POST", "/v1/topics/a/ack", "{}", "the body needs handles; or"),
    ];
    for (method, path, body, told) in cases {
        let reply = ask(&router, method, path, body).await;
        let error = reply.body["error"].as_str().expect("text");
        assert!(reply.status == 400 && error.contains(told), "{method} {path}: {error}");
        for word in ["eserialize", "struct", "URL"] {
            assert!(!error.contains(word), "{method} {path}: {error}");
        }
    }
}

/// An embedder serves the API under a path of its own, beside its own routes.
#[tokio::test]
async fn the_router_can_be_nested() {
    let (_, router) = cluster();
    let own = Router::new().nest("/narad", router);
    let reply = send(&own, "GET", "/narad/v1/cluster/members", "text/plain", "").await;
    assert_eq!(reply.body["members"][0]["id"], "narad-1");
    assert_eq!(error(&ask(&own, "GET", "/narad/nothing", "").await), (404, "no_such_route", false));
}
