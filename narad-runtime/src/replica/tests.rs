//! One replica by itself, driven without clock or socket.

use std::collections::BTreeSet;

use narad_core::config::Config;
use narad_core::ids::{Incarnation, Name, StoreUuid};
use narad_core::metastore::Addresses;
use narad_core::node::Identity;

use super::*;
use crate::raft::{MemStore, RaftConfig, Role};

const ME: NodeId = NodeId(1);
const LIFE: Incarnation = Incarnation(1);

/// The only voter of a cluster; its driver carries appends if it says so.
fn lone(carries: bool) -> Replica<MemStore> {
    let mut disk = MemStore::new(ME);
    Raft::bootstrap(&mut disk, &[ME], State::new().to_parts().to_bytes()).unwrap();
    let (raft, restored) = Raft::open(RaftConfig::new(ME, LIFE.0), disk).unwrap();
    let state = load(&restored.expect("it was bootstrapped")).unwrap();
    let me = Identity {
        node: ME,
        name: Name::new("n1").unwrap(),
        store_uuid: StoreUuid(7),
        addrs: Addresses { peer: "n1:1".into(), http: "n1:2".into() },
    };
    let mut first = Effects::default();
    let now = Instant::ORIGIN;
    let node = Node::new(now, me, LIFE, Config::new(0), state, BTreeSet::new(), &mut first);
    let mut out = Actions::default();
    let timeout = Duration::from_secs(1);
    let mut replica = Replica::new(now, raft, node, timeout, &mut first, &mut out).unwrap();
    if carries {
        replica.carry_appends();
    }
    replica
}

/// Ticks a replica for a while and returns the appends that are left to the driver.
fn run(replica: &mut Replica<MemStore>) -> Vec<(OpId, Entry)> {
    let mut out = Actions::default();
    for at in 1..=60 {
        let now = Instant::from_origin(Duration::from_millis(100 * at));
        replica.handle(now, Input::Tick, &mut out).unwrap();
        replica.handle(now, Input::Event(Box::new(Event::Wake)), &mut out).unwrap();
    }
    assert_eq!(replica.raft().leadership().role, Role::Leader);
    let append = |effect| match effect {
        Effect::Run(op, Operation::Append(entry)) => Some((op, entry)),
        _ => None,
    };
    out.effects.into_iter().filter_map(append).collect()
}

#[test]
fn appends_are_the_replicas_own_work_unless_the_driver_carries_them() {
    let mut replica = lone(false);
    let begun = replica.node().state().applied();
    assert!(run(&mut replica).is_empty());
    assert!(replica.node().state().applied() > begun);
}

#[test]
fn an_append_that_the_driver_holds_is_in_no_log_until_it_is_carried() {
    let mut replica = lone(true);
    let held = run(&mut replica);
    let (op, entry) = held.first().expect("a node that starts asks to be registered");
    let status = replica.raft().status();
    assert_eq!(status.last, status.applied, "only what a new leader begins with is in the log");
    let before = replica.node().state().applied();

    let (now, mut out) = (Instant::from_origin(Duration::from_secs(7)), Actions::default());
    replica.append(now, *op, entry, &mut out).unwrap();
    assert_eq!(replica.node().state().applied(), before.next());
    assert!(matches!(entry.command, Command::Register { .. }), "{entry:?}");
}
