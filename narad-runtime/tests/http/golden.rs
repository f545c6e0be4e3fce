//! The JSON that scripts rely on, to the letter: fields may be added, none may change or go.

use narad_core::ids::MoveId;
use narad_runtime::http::HttpOptions;
use narad_runtime::service::{MemberStatus, MemberView, MoveView, Role, partition_of};
use serde_json::json;

use crate::fake::{Cluster, member, name};
use crate::router::ask;

/// R91.
#[tokio::test]
async fn members() {
    let cluster = Cluster::new();
    let leaving = MemberView {
        draining: true,
        role: Role::Learner,
        outbound_moves: 2,
        inbound_moves: 1,
        ..member("narad-4", 4)
    };
    let gone = MemberView { status: MemberStatus::Dead, role: Role::None, ..member("narad-5", 5) };
    cluster.change(|state| state.members = vec![member("narad-1", 1), leaving, gone]);
    let router = cluster.router("narad-1", HttpOptions::default());
    let reply = ask(&router, "GET", "/v1/cluster/members", "").await;
    assert_eq!(
        reply.body,
        json!({"members": [
            {
                "id": "narad-1", "node": 1, "addr": "10.0.0.1:7401", "peer_addr": "10.0.0.1:7400",
                "status": "alive", "draining": false, "drained_out": false, "role": "voter",
                "leader": true, "incarnation": 2, "owned_partitions": 4, "inbound_moves": 0,
                "outbound_moves": 0,
            },
            {
                "id": "narad-4", "node": 4, "addr": "10.0.0.4:7401", "peer_addr": "10.0.0.4:7400",
                "status": "alive", "draining": true, "drained_out": false, "role": "learner",
                "leader": false, "incarnation": 2, "owned_partitions": 4, "inbound_moves": 1,
                "outbound_moves": 2,
            },
            {
                "id": "narad-5", "node": 5, "addr": "10.0.0.5:7401", "peer_addr": "10.0.0.5:7400",
                "status": "dead", "draining": false, "drained_out": false, "role": "none",
                "leader": false, "incarnation": 2, "owned_partitions": 4, "inbound_moves": 0,
                "outbound_moves": 0,
            },
        ]})
    );
}

pub(crate) fn planned() -> MoveView {
    MoveView {
        topic: name("orders"),
        partition: 3,
        from: name("narad-1"),
        to: name("narad-4"),
        move_id: MoveId(9),
        phase: None,
        bytes_staged: None,
        bytes_total: None,
        bytes_per_second: None,
        predicted_freeze_ms: None,
        waiting: None,
        source_dead: false,
        attempts: None,
        verdict: None,
    }
}

pub(crate) fn copying() -> MoveView {
    MoveView {
        partition: 4,
        phase: Some("catch-up".into()),
        bytes_staged: Some(1 << 20),
        bytes_total: Some(3 << 20),
        bytes_per_second: Some(200 << 20),
        predicted_freeze_ms: Some(12),
        waiting: Some("the source cannot be reached; start narad-1".into()),
        source_dead: true,
        ..planned()
    }
}

/// R92.
#[tokio::test]
async fn moves() {
    let cluster = Cluster::new();
    cluster.change(|state| state.moves = vec![planned(), copying()]);
    let router = cluster.router("narad-1", HttpOptions::default());
    let reply = ask(&router, "GET", "/v1/cluster/moves", "").await;
    assert_eq!(
        reply.body,
        json!({"moves": [
            {
                "topic": "orders", "partition": 3, "from": "narad-1", "to": "narad-4", "move_id": 9,
                "source_dead": false,
            },
            {
                "topic": "orders", "partition": 4, "from": "narad-1", "to": "narad-4", "move_id": 9,
                "phase": "catch-up", "bytes_staged": 1_048_576, "bytes_total": 3_145_728,
                "bytes_per_second": 209_715_200, "predicted_freeze_ms": 12,
                "waiting": "the source cannot be reached; start narad-1", "source_dead": true,
            },
        ]})
    );
}

/// A node of another version may say more or less.
#[test]
fn views_are_read_with_fields_added_or_missing() {
    let lean = json!({
        "id": "narad-1", "node": 1, "addr": "h:1", "status": "leaving", "draining": false,
        "owned_partitions": 1, "outbound_moves": 0, "colour": "blue",
    });
    let view: MemberView = serde_json::from_value(lean).expect("a member");
    assert_eq!((view.status, view.role), (MemberStatus::Unknown, Role::None));
    let lean = json!({"topic": "t", "partition": 0, "from": "a", "to": "b", "mood": 3});
    assert!(serde_json::from_value::<MoveView>(lean).is_ok());
}

/// Changing this would send the keys of every topic to other partitions.
#[test]
fn keys_keep_their_partitions() {
    let places = [&b""[..], b"a", b"customer-7", &[0xff]].map(|key| partition_of(key, 12));
    assert_eq!(places, [10, 7, 8, 6]);
    assert_eq!(partition_of(b"anything", 1), 0);
}
