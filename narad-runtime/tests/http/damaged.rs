//! Records that cannot be read, over the API, in the client and by the command.

use std::sync::Arc;
use std::time::Duration;

use narad_runtime::cli::ExitCode;
use narad_runtime::client::ConsumerOptions;
use narad_runtime::http::HttpOptions;
use serde_json::json;

use crate::cli::narad;
use crate::fake::{Cluster, record};
use crate::router::{ask, error};

/// Two partitions, the first of which has nothing left but damage.
fn cluster() -> Arc<Cluster> {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a", "a"]);
    cluster.partition("orders", 0, |row| row.damaged = Some((120, 125)));
    cluster.partition("orders", 1, |row| row.records = ["1", "2"].map(record).into());
    cluster
}

/// The JSON that scripts rely on, to the letter.
#[tokio::test]
async fn damage_is_named_and_given_up() {
    let cluster = cluster();
    let router = cluster.router("a", HttpOptions::default());
    let messages = "/v1/topics/orders/messages?partition=0";
    let reply = ask(&router, "GET", messages, "").await;
    assert_eq!(error(&reply), (409, "damaged_records", false));
    assert_eq!(reply.body["damaged"], json!({"partition": 0, "from": 120, "to": 125}));
    let told = reply.body["error"].as_str().unwrap_or_default();
    assert!(told.contains("narad topic skip orders/0 --from 120 --to 125"), "{told}");
    let path = "/v1/topics/orders/skip?partition=0";
    let body = r#"{"epoch":1,"from":119,"to":125}"#;
    let reply = ask(&router, "POST", path, body).await;
    assert_eq!(error(&reply), (400, "invalid", false));
    let body = r#"{"epoch":1,"from":120,"to":125}"#;
    let reply = ask(&router, "POST", path, body).await;
    assert_eq!((reply.status.as_u16(), reply.body), (200, json!({"records": 2, "next": 122})));
    let reply = ask(&router, "POST", "/v1/topics/orders/skip", body).await;
    assert_eq!(error(&reply), (400, "bad_request", false));
}

/// A consumer is told once of the damage, gets what the other partitions have, and goes on where the
/// damage was once it is given up.
#[tokio::test]
async fn a_consumer_is_told_once_and_goes_on() {
    let cluster = cluster();
    let node = cluster.start("a").await;
    cluster.partition("orders", 1, |row| row.records.clear());
    let options = ConsumerOptions { wait: Duration::from_millis(10), ..ConsumerOptions::default() };
    let mut consumer = node.client().consumer("orders", options).await.expect("a topic");
    let told = consumer.next().await.expect_err("damage");
    assert!(told.is_damage() && told.to_string().contains("from offset 120"), "{told}");
    cluster.change(|state| {
        let (_, rows) = state.topics.get_mut("orders").expect("a topic");
        rows[1].records.push(record("elsewhere"));
    });
    let delivery = consumer.next().await.expect("it is told once").expect("a record");
    assert_eq!((delivery.partition, delivery.records.len()), (1, 1));
    cluster.change(|state| {
        let (_, rows) = state.topics.get_mut("orders").expect("a topic");
        rows[0].damaged = None;
        rows[0].records.push(record("behind"));
    });
    let delivery = consumer.next().await.expect("nothing is damaged").expect("a record");
    assert_eq!(delivery.partition, 0);
    consumer.close().await;
}

/// `narad sub` prints what there is and says what is missing; `narad topic skip` gives that up, in as
/// many steps as it takes, and only if it is told to.
#[tokio::test]
async fn the_command_names_damage_and_gives_it_up() {
    let cluster = cluster();
    let node = cluster.start("a").await;
    let ran = narad(&node, &["sub", "orders"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Failure, "1\n2\n"), "{}", ran.err);
    let named = "narad topic skip orders/0 --from 120 --to 125";
    assert_eq!(ran.err.matches(named).count(), 1, "{}", ran.err);

    let skip = ["topic", "skip", "orders/0", "--from", "120", "--to", "125"];
    let ran = narad(&node, &skip).await;
    assert_eq!(ran.code, ExitCode::Usage, "{}", ran.err);
    assert!(ran.err.contains("add --yes to do it"), "{}", ran.err);
    let ran =
        narad(&node, &["topic", "skip", "orders/1", "--from", "0", "--to", "1", "--yes"]).await;
    assert!(ran.err.contains("can be read"), "{}", ran.err);
    let ran =
        narad(&node, &["topic", "skip", "orders/7", "--from", "0", "--to", "1", "--yes"]).await;
    assert_eq!(ran.code, ExitCode::NotFound, "{}", ran.err);
    let ran = narad(&node, &[&skip[..], &["--yes"]].concat()).await;
    let done = "5 damaged records were given up; the consumers of orders/0 go on behind them\n";
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, done), "{}", ran.err);
    let ran = narad(&node, &["sub", "orders"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, ""), "{}", ran.err);
}
