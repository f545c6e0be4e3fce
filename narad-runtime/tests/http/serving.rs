//! What comes over a socket that is no request, or comes too late.

use std::time::Duration;

use narad_runtime::http::{Connections, HttpOptions, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::fake::{Cluster, Fault, record};
use narad_runtime::client::{Placement, ProducerOptions};
use narad_runtime::service::Read;

async fn exchange(addr: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("it listens");
    stream.write_all(bytes).await.expect("sent");
    let mut answer = Vec::new();
    // A reset is an end like any other.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn garbage_costs_the_connection_it_came_on() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    let answer = exchange(&node.addr, b"\x16\x03\x01 this is not HTTP\r\n\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let answer = exchange(&node.addr, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(node.client().members(Read::Barrier).await, Ok(Vec::new()));
}

/// What is no request at all has the one shape of an error too: whatever it is, and whatever else is
/// still being sent.
#[tokio::test]
async fn what_is_no_request_is_told_so_in_the_one_shape() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    let long = |bytes: usize| "y".repeat(bytes);
    let get = |head: String| format!("GET {head}\r\n\r\n").into_bytes();
    let many = "x: y\r\n".repeat(500);
    let cases: Vec<(Vec<u8>, u16, &str)> = vec![
        (b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec(), 400, "bad_request"),
        (b"GET /\0../x HTTP/1.1\r\nhost: a\r\n\r\n".to_vec(), 400, "bad_request"),
        (get("/healthz HTTP/1.1\r\nbad header: \0".to_owned()), 400, "bad_request"),
        (get("/healthz HTTP/1.1\r\ncontent-length: -1".to_owned()), 400, "bad_request"),
        (
            get(format!("/healthz HTTP/1.1\r\ncontent-length: {}", "9".repeat(30))),
            400,
            "bad_request",
        ),
        (get("/healthz HTTP/1.1\r\nconnection: close".to_owned()), 400, "bad_request"),
        (
            get("/healthz HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close".to_owned()),
            400,
            "bad_request",
        ),
        (get(format!("/{} HTTP/1.1\r\nhost: a", long(70_000))), 414, "too_large"),
        (get(format!("/healthz HTTP/1.1\r\nx: {}", long(1 << 20))), 431, "too_large"),
        (get(format!("/healthz HTTP/1.1\r\n{many}host: a")), 431, "too_large"),
    ];
    for (bytes, status, code) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let stream = TcpStream::connect(&node.addr).await.expect("it listens");
        let (mut read, mut write) = stream.into_split();
        let sending = tokio::spawn(async move {
            // Whoever is refused may not get all of it off.
            let _ = write.write_all(&bytes).await;
            write
        });
        let mut answer = Vec::new();
        let _ = read.read_to_end(&mut answer).await;
        drop(sending.await);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {answer}");
        assert!(head.contains("content-type: application/json"), "{shown:?}: {answer}");
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((&body["code"], &body["retryable"]), (&code.into(), &false.into()), "{shown:?}");
        assert!(body["error"].as_str().is_some_and(|error| error.len() > 20), "{body}");
    }
    assert_eq!(node.client().members(Read::Barrier).await, Ok(Vec::new()));
}

#[tokio::test]
async fn silence_a_head_that_never_ends_and_a_body_that_never_ends_are_cut_off() {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a"]);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    let options =
        HttpOptions { request_timeout: Duration::from_millis(50), ..HttpOptions::default() };
    let connections =
        Connections { head_timeout: Duration::from_millis(50), ..Connections::default() };
    let router = cluster.router("a", options);
    tokio::spawn(serve(listener, router, connections, std::future::pending()));
    // They come back at all: that is the point.
    exchange(&addr, b"").await;
    exchange(&addr, b"GET /healthz HTTP/1.1\r\nhost").await;
    let body = b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx";
    let answer = exchange(&addr, body).await;
    // Nothing was read, and so nothing was done.
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_timeout"), "{answer}");
    assert!(answer.contains("\"retryable\":true"), "{answer}");
    assert_eq!(cluster.values("orders", 0), [""; 0]);
    // What was read may have been done.
    cluster.change(|state| state.faults = [Fault::WriteAndHang].into());
    let body = b"POST /v1/topics/orders/messages HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
        content-length: 1\r\n\r\nx";
    let answer = exchange(&addr, body).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("outcome_unknown"), "{answer}");
    assert_eq!(cluster.values("orders", 0), ["x"]);
}

#[tokio::test]
async fn a_request_under_way_comes_to_its_end_when_the_node_stops() {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a"]);
    cluster.change(|state| state.gate_shut = true);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    cluster.change(|state| drop(state.addrs.insert("a".into(), addr.clone())));
    let (stop, stopped) = oneshot::channel::<()>();
    let router = cluster.router("a", HttpOptions::default());
    let serving = tokio::spawn(serve(listener, router, Connections::default(), async {
        let _ = stopped.await;
    }));
    let client = narad_runtime::client::Client::new(
        vec![addr.parse().expect("an address")],
        narad_runtime::client::ClientOptions::default(),
    );
    let producer = client.producer("orders", ProducerOptions::default());
    let sending = tokio::spawn(async move { producer.send(Placement::Any, &[record("x")]).await });
    cluster.until(|state| state.producing == 1).await;
    stop.send(()).expect("it serves");
    // The port closes first.
    while TcpStream::connect(&addr).await.is_ok() {
        tokio::task::yield_now().await;
    }
    cluster.change(|state| state.gate_shut = false);
    assert_eq!(sending.await.expect("no panic").expect("acknowledged").attempts, 1);
    serving.await.expect("no panic").expect("it served");
    assert_eq!(cluster.values("orders", 0), ["x"]);
}

/// Connections that say nothing make room for those that do.
#[tokio::test]
async fn half_open_connections_keep_nobody_out() {
    const MAX: usize = 16;
    let cluster = Cluster::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    let connections = Connections { connections_max: 16, ..Connections::default() };
    let router = cluster.router("a", HttpOptions::default());
    tokio::spawn(serve(listener, router, connections, std::future::pending()));
    let mut silent = Vec::new();
    for round in 0..20 * MAX {
        let mut stream = TcpStream::connect(&addr).await.expect("it listens");
        // Some say half of something.
        if round % 2 == 0 {
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost").await;
        }
        silent.push(stream);
        if round % MAX == 0 {
            let ask = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            let answer = exchange(&addr, ask).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{round}: {answer}");
        }
    }
    // The first ones had to go, without a word.
    let mut answer = Vec::new();
    let _ = silent[1].read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

/// A node all of whose places are taken by clients that wait is busy, and not dead.
#[tokio::test]
async fn clients_that_wait_keep_probes_and_operators_out_of_nothing() {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a"]);
    cluster.change(|state| state.gate_shut = true);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    let connections = Connections { connections_max: 2, ..Connections::default() };
    let router = cluster.router("a", HttpOptions::default());
    tokio::spawn(serve(listener, router, connections, std::future::pending()));
    let body = "POST /v1/topics/orders/messages HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
        content-length: 1\r\n\r\nx";
    let asking = [(); 2].map(|()| {
        let addr = addr.clone();
        tokio::spawn(async move { exchange(&addr, body.as_bytes()).await })
    });
    cluster.until(|state| state.producing == 2).await;
    for path in ["/healthz", "/readyz", "/v1/cluster/members"] {
        let ask = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        let answer = exchange(&addr, ask.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let answer = exchange(&addr, body.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("busy"), "{answer}");
    cluster.change(|state| state.gate_shut = false);
    for asked in asking {
        let answer = asked.await.expect("no panic");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(cluster.values("orders", 0), ["x", "x"]);
}
