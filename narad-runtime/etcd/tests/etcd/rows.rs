//! Rows for people.

use narad_core::config::Policy;
use narad_core::ids::LogIndex;
use narad_core::ids::{Incarnation, Name, NodeId, PartitionId, ProposalId, StoreUuid, TopicId};
use narad_core::metastore::{Addresses, Command, Entry};
use narad_etcd::EtcdMetastore;
use narad_runtime::embed::{Ledger, Metastore, Record, Update};

use crate::server::Server;
use crate::{applied, soon};

/// Proposes commands of one node.
struct Node<'a> {
    metastore: &'a EtcdMetastore,
    sequence: u64,
}

impl Node<'_> {
    async fn command(&mut self, command: Command) -> LogIndex {
        self.sequence += 1;
        let (node, incarnation) = (NodeId(1), Incarnation(1));
        let proposal = ProposalId { node, incarnation, sequence: self.sequence };
        let record = Record::Entry(Entry { proposal, by: node, command });
        applied(self.metastore, record.to_bytes()).await
    }

    /// Founds a cluster of `narad-1` and `narad-2`, which is led by the first.
    async fn found(&mut self) {
        applied(self.metastore, Record::Found(Policy::default()).to_bytes()).await;
        for node in 1..=2 {
            let store_uuid = StoreUuid(u128::from(node));
            let addrs = Addresses { peer: format!("10.0.0.{node}:7000"), http: String::new() };
            let name = Name::new(format!("narad-{node}")).unwrap();
            self.command(Command::Join { name, store_uuid, addrs: addrs.clone() }).await;
            let (node, incarnation) = (NodeId(node), Incarnation(1));
            let proposal = ProposalId { node, incarnation, sequence: 1000 };
            let command = Command::Register { node, store_uuid, incarnation, addrs };
            let record = Record::Entry(Entry { proposal, by: node, command });
            applied(self.metastore, record.to_bytes()).await;
        }
        let lead = Record::Lead { node: NodeId(1), after: LogIndex(0) };
        applied(self.metastore, lead.to_bytes()).await;
    }

    async fn topic(&mut self, name: &str, partitions: u32) -> TopicId {
        let name = Name::new(name).unwrap();
        let created = self.command(Command::CreateTopic { name, partitions, parent: None }).await;
        TopicId(created.0)
    }
}

/// Returns the fold of everything that is decided.
async fn ledger(metastore: &EtcdMetastore) -> Ledger {
    let head = metastore.barrier().await.unwrap();
    let (mut ledger, mut watch) = (Ledger::new(), metastore.watch(LogIndex(0)).await);
    while ledger.index() < head {
        match soon("a record", watch.next()).await.unwrap() {
            Update::Record { record, .. } => drop(ledger.fold(&record).unwrap()),
            Update::Snapshot { state, .. } => ledger = Ledger::from_bytes(&state).unwrap(),
        }
    }
    ledger
}

/// Who owns what, and where it moves, can be read in etcd; a row changes in the very revision in which
/// its record is decided.
#[tokio::test]
async fn rows_say_who_owns_what() {
    let server = Server::start().await;
    let metastore = server.metastore().await;
    let mut node = Node { metastore: &metastore, sequence: 0 };
    node.found().await;
    let topic = node.topic("orders", 2).await;
    let partition = PartitionId { topic, index: 1 };
    node.command(Command::AssignPartition { partition, node: NodeId(1) }).await;
    let row = server.value("narad/assignments/orders/1").await.unwrap();
    for part in
        ["\"partition\":\"orders/1\"", "\"owner\":\"narad-1\"", "\"target\":null", "\"epoch\":1"]
    {
        assert!(row.contains(part), "{row}");
    }
    let expect = ledger(&metastore).await.state().assignment(partition).unwrap().expect();
    let decided = node.command(Command::SetTarget { partition, expect, to: NodeId(2) }).await;
    let mut client = server.client().await;
    let revision = |got: etcd_client::GetResponse| got.kvs()[0].mod_revision();
    let row = client.get("narad/assignments/orders/1", None).await.unwrap();
    assert!(row.kvs()[0].value_str().unwrap().contains("\"target\":\"narad-2\""));
    let record = client.get(format!("narad/log/{:020}", decided.0), None).await.unwrap();
    assert_eq!(revision(row), revision(record));

    let topic_row = server.value("narad/topics/orders").await.unwrap();
    assert!(topic_row.contains("\"partitions\":2"), "{topic_row}");
    let member = server.value("narad/members/narad-2").await.unwrap();
    assert!(member.contains("10.0.0.2:7000") && member.contains("\"alive\":true"), "{member}");
    let leader = server.value("narad/leader").await.unwrap();
    assert!(leader.contains("\"leader\":\"narad-1\""), "{leader}");

    node.command(Command::DeleteTopic { topic }).await;
    assert_eq!(server.count("narad/assignments/").await + server.count("narad/topics/").await, 0);
}

/// What changes more rows than one transaction has room for is written in several; what an earlier
/// process left, or somebody has altered, is put right by the next one; from a snapshot too.
#[tokio::test]
async fn rows_come_right_in_the_end() {
    let server = Server::start().await;
    {
        // No rows: as if the process had ended before it wrote them.
        let metastore = server.builder("narad").writes_rows(false).connect().await.unwrap();
        let mut node = Node { metastore: &metastore, sequence: 0 };
        node.found().await;
        let topic = node.topic("orders", 300).await;
        let assigning = (0..300).map(|index| {
            let command = Command::AssignPartition {
                partition: PartitionId { topic, index },
                node: NodeId(1),
            };
            let (by, incarnation) = (NodeId(1), Incarnation(1));
            let sequence = 5000 + u64::from(index);
            let proposal = ProposalId { node: by, incarnation, sequence };
            applied(&metastore, Record::Entry(Entry { proposal, by, command }).to_bytes())
        });
        for assigned in assigning {
            assigned.await;
        }
        assert_eq!(server.count("narad/assignments/").await, 0);
        let ledger = ledger(&metastore).await;
        metastore.compact(ledger.index(), ledger.to_bytes()).await;
        let mut client = server.client().await;
        for (key, value) in [
            ("narad/assignments/orders/7", "wrong"),
            ("narad/assignments/orders/007", "nobody's"),
            ("narad/assignments/gone/1", "of a topic that is gone"),
        ] {
            client.put(key, value, None).await.unwrap();
        }
    }
    let metastore = server.metastore().await;
    let mut node = Node { metastore: &metastore, sequence: 8000 };
    let topic = node.topic("other", 1).await;
    let counted = async |count| while server.count("narad/assignments/orders/").await != count {};
    soon("all rows", counted(301)).await;
    soon("the wrong one", async {
        while server.value("narad/assignments/orders/7").await.unwrap() == "wrong" {}
        while server.count("narad/assignments/gone/").await != 0 {}
    })
    .await;

    // All at once, by one record.
    let orders = ledger(&metastore).await.state().topic_named("orders").unwrap().id;
    node.command(Command::DeleteTopic { topic: orders }).await;
    soon("no rows", counted(1)).await;
    assert_eq!(server.value("narad/assignments/orders/007").await.as_deref(), Some("nobody's"));
    node.command(Command::DeleteTopic { topic }).await;
}

/// A metastore orders records that it does not understand like all others; only the rows end there.
#[tokio::test]
async fn records_need_not_be_understood() {
    let server = Server::start().await;
    let (one, other) = (server.metastore().await, server.metastore().await);
    let mut node = Node { metastore: &one, sequence: 0 };
    node.found().await;
    let odd = applied(&other, "of a newer Narad").await;
    assert_eq!(node.topic("orders", 1).await.0, odd.0 + 1);
    assert_eq!(applied(&other, "again").await.0, odd.0 + 2);
    assert_eq!(server.count("narad/topics/").await, 0);
    assert_eq!(server.count("narad/members/").await, 2);
}
