//! Losses, receipts and quarantine, over the API and by the command.

use std::sync::Arc;

use narad_core::ids::{ByteCount, Offset};
use narad_runtime::cli::ExitCode;
use narad_runtime::http::HttpOptions;
use narad_runtime::service::{AcceptedView, QuarantinedView};
use serde_json::json;

use crate::cli::narad;
use crate::fake::{Cluster, name};
use crate::router::{ask, error};

const ID: &str = "00000000001700000000-0-t3-0-m2-n1-i1-a0";

/// A topic whose first partition's owner is dead, and a copy in quarantine at another member.
fn cluster() -> Arc<Cluster> {
    let cluster = Cluster::new();
    cluster.topic("orders", &["narad-1", "narad-2"]);
    let copy = QuarantinedView {
        member: name("narad-2"),
        id: ID.into(),
        topic: Some(name("orders")),
        topic_id: 3,
        partition: 0,
        copy: true,
        bytes: ByteCount(4096),
        set_aside_ms: 1_700_000_000,
        accepted: None,
    };
    cluster.change(|state| {
        state.dead = vec!["narad-1".into()];
        state.salvage.quarantine = vec![copy];
    });
    cluster
}

/// The JSON that scripts rely on, to the letter.
#[tokio::test]
async fn a_loss_leaves_a_receipt() {
    let cluster = cluster();
    let router = cluster.router("narad-2", HttpOptions::default());
    let body = r#"{"topic":"orders","partition":0,"receipt":"ticket 4711"}"#;
    let reply = ask(&router, "POST", "/v1/cluster/losses", body).await;
    let receipt = json!({
        "topic": "orders", "partition": 0, "cause": "declared_lost", "epoch": 2, "old_epoch": 1,
        "old_owner": "narad-1", "new_owner": "narad-2", "at_risk_from": null, "start": 0,
        "salvaged": false,
    });
    assert_eq!((reply.status.as_u16(), &reply.body), (200, &receipt));
    let reply = ask(&router, "GET", "/v1/cluster/salvage", "").await;
    assert_eq!(reply.body["receipts"], json!([receipt]));
    assert_eq!(
        reply.body["quarantine"],
        json!([{
            "member": "narad-2", "id": ID, "topic": "orders", "topic_id": 3, "partition": 0,
            "copy": true, "bytes": 4096, "set_aside_ms": 1_700_000_000_u64,
        }])
    );
    let reply = ask(&router, "POST", "/v1/cluster/losses", body).await;
    assert_eq!(error(&reply), (409, "rejected", false), "its owner lives now");
}

#[tokio::test]
async fn what_is_in_quarantine_can_be_restored_or_dropped() {
    let cluster = cluster();
    let router = cluster.router("narad-2", HttpOptions::default());
    let path = format!("/v1/cluster/salvage/narad-2/{ID}");
    let reply = ask(&router, "POST", &format!("{path}/restore"), "").await;
    assert_eq!(reply.body, json!({"from": 3, "end": 9, "records": 6, "bytes": 60}));
    let reply = ask(&router, "DELETE", &path, "").await;
    assert_eq!(reply.status.as_u16(), 204);
    for (method, path) in [("DELETE", path.clone()), ("POST", format!("{path}/restore"))] {
        let reply = ask(&router, method, &path, "").await;
        assert_eq!(error(&reply), (404, "not_in_quarantine", false), "{method}");
    }
}

/// Nothing is given up or deleted without a word that it is meant.
#[tokio::test]
async fn the_command_asks_before_anything_is_given_up() {
    let cluster = cluster();
    let node = cluster.start("narad-2").await;
    let ran = narad(&node, &["cluster", "declare-lost", "orders/0"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (ExitCode::Success, ""));
    for told in ["would go on at narad-2 from offset 0 on", "below offset 0", "--yes"] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
    let ran = narad(&node, &["--json", "cluster", "declare-lost", "orders/0"]).await;
    let told: serde_json::Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!((&told["dry_run"], &told["start"]), (&json!(true), &json!(0)));
    // Nothing would come of it, however it is asked.
    for (place, code) in [
        ("orders/1", ExitCode::Refused),
        ("orders/9", ExitCode::NotFound),
        ("x/0", ExitCode::NotFound),
    ] {
        for line in
            [&["cluster", "declare-lost", place][..], &["cluster", "declare-lost", place, "--yes"]]
        {
            let ran = narad(&node, line).await;
            assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{line:?}: {}", ran.err);
            assert!(!ran.err.contains("--yes"), "{}", ran.err);
        }
    }
    let ran = narad(&node, &["cluster", "declare-lost", "orders/1"]).await;
    assert!(ran.err.contains("narad-2 owns it and is not dead"), "{}", ran.err);
    let what = format!("narad-2/{ID}");
    let ran = narad(&node, &["cluster", "salvage", "drop", &what]).await;
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(cluster.state().salvage.receipts.is_empty());
    assert_eq!(cluster.state().salvage.quarantine.len(), 1);
}

#[tokio::test]
async fn the_command_shows_and_does_what_the_api_does() {
    let cluster = cluster();
    let node = cluster.start("narad-2").await;
    let ran = narad(&node, &["cluster", "declare-lost", "orders/0", "--yes"]).await;
    assert_eq!(ran.code, ExitCode::Success, "{}", ran.err);
    assert!(ran.out.contains("goes on at narad-2 from offset 0 on, in epoch 2"), "{}", ran.out);
    let what = format!("narad-2/{ID}");
    let ran = narad(&node, &["cluster", "salvage", "restore", &what]).await;
    assert_eq!(ran.out.trim(), "accepted again: 6 records, 3 to 9");
    let accepted =
        AcceptedView { from: Offset(3), end: Offset(9), records: 6, bytes: ByteCount(60) };
    assert_eq!(cluster.state().salvage.quarantine[0].accepted, Some(accepted));
    let ran = narad(&node, &["cluster", "salvage"]).await;
    for shown in ["declared lost", "waits for the", &what[..20], "4.0 KiB", "6 records"] {
        assert!(ran.out.contains(shown), "{shown}: {}", ran.out);
    }
    let ran = narad(&node, &["cluster", "salvage", "drop", &what, "--yes"]).await;
    assert_eq!(ran.code, ExitCode::Success, "{}", ran.err);
    let ran = narad(&node, &["cluster", "salvage"]).await;
    assert!(ran.out.contains("nothing is in quarantine"), "{}", ran.out);
}
