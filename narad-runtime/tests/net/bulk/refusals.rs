//! What a source does not give, and to whom.

use std::io;
use std::sync::Arc;

use narad_core::ids::{NodeId, Offset};
use narad_runtime::net::Directory;
use narad_runtime::transfer::{
    CancelFlag, Client, CopyRequest, Settings, Sink, SourceError, TransferError,
};
use narad_runtime::wire::frame::Kind;
use narad_runtime::wire::handshake::{ClusterId, Purpose, Why};

use super::{
    Collected, DESTINATION, Options, SOURCE, Setup, eventually, partition, random, unlimited, whole,
};
use crate::support::{Raw, hello, identity};

/// Every status reaches the destination as what it is, and the connection goes on.
#[test]
fn every_status_comes_through() {
    let setup = Setup::new(Options {
        extents: vec![random(12, 1000)],
        before: Some(Box::new(|partition, _| match partition.index {
            1 => Err(SourceError::NotServing),
            2 => Err(SourceError::Disk),
            3 => Err(SourceError::Busy),
            _ => Ok(()),
        })),
        ..Options::default()
    });
    let sink = Collected::default();
    for (request, expected) in [
        (whole(1, 1), SourceError::NotServing),
        (whole(2, 1), SourceError::Disk),
        (whole(3, 1), SourceError::Busy),
        // C40: reaped between listing and copy.
        (whole(4, 1), SourceError::Gone),
        (CopyRequest { position: 1001, ..whole(0, 1) }, SourceError::OutOfRange),
        (CopyRequest { position: 1000, ..whole(0, 1) }, SourceError::OutOfRange),
    ] {
        match setup.copy(request, &sink) {
            Err(TransferError::Source(found)) => assert_eq!(found, expected),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(setup.copy(whole(0, 0), &sink).expect("nothing").bytes, 0);
    let rest = setup.copy(CopyRequest { position: 900, ..whole(0, 500) }, &sink);
    assert_eq!(rest.expect("what is there").bytes, 100);
    assert_eq!(setup.server.connections(), 1);
}

/// C59: a request for everything gets the beginning.
#[test]
fn case_059_a_range_is_clamped() {
    let bytes = random(13, 1 << 20);
    let setup = Setup::new(Options {
        extents: vec![bytes.clone()],
        server: Settings { range_bytes_max: 300_000, ..Settings::default() },
        ..Options::default()
    });
    let sink = Collected::default();
    assert_eq!(setup.copy(whole(0, u64::MAX), &sink).expect("some").bytes, 300_000);
    assert!(sink.is(&bytes[..300_000]));
    let beyond = setup.copy(CopyRequest { position: u64::MAX, ..whole(7, u64::MAX) }, &sink);
    assert!(matches!(beyond, Err(TransferError::Source(SourceError::Gone))), "{beyond:?}");
}

/// C52: a full disk at the destination ends the copy with its own error.
#[test]
fn case_052_a_failing_sink_ends_the_copy() {
    struct Full(u64);
    impl Sink for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            if self.0 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 = self.0.saturating_sub(bytes.len() as u64);
            Ok(())
        }
    }
    let setup = Setup::new(Options { extents: vec![random(14, 1 << 20)], ..Options::default() });
    let request = whole(0, 1 << 20);
    let error = setup
        .client
        .copy(SOURCE, &request, &mut Full(1), &CancelFlag::default())
        .expect_err("it is full");
    match error {
        TransferError::Sink { received, error } => {
            assert!(received > 0);
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        other => panic!("{other}"),
    }
    // The broken-off answer is not taken for the next one.
    let sink = Collected::default();
    setup.copy(request, &sink).expect("copied");
    assert!(sink.is(&setup.memory.extents[&(partition(0), Offset(0))]));
}

#[test]
fn a_source_refuses_strangers_and_too_many() {
    let setup = Setup::new(Options {
        extents: vec![random(15, 1000)],
        server: Settings { connections_max: 1, ..Settings::default() },
        ..Options::default()
    });
    let client = |identity| {
        let directory: Arc<dyn Directory> = Arc::clone(&setup.world) as _;
        Client::new(identity, directory, unlimited(), Settings::default())
    };
    let refused = |client: &Client| {
        let sink = &mut Collected::default();
        match client.copy(SOURCE, &whole(0, 1), sink, &CancelFlag::default()) {
            Err(TransferError::Refused(refused)) => refused.why,
            other => panic!("{other:?}"),
        }
    };
    let mut astray = identity(DESTINATION);
    astray.cluster = ClusterId(1);
    assert_eq!(refused(&client(astray)), Why::WrongCluster);
    setup.world.disown(NodeId(3));
    assert_eq!(refused(&client(identity(NodeId(3)))), Why::UnknownNode);
    setup.copy(whole(0, 1), &Collected::default()).expect("the first is served");
    assert_eq!(refused(&client(identity(NodeId(4)))), Why::Busy);
}

/// Another node at the source's address gives no bytes (field fault 56).
#[test]
fn another_node_at_the_address_is_not_copied_from() {
    let setup = Setup::new(Options { extents: vec![random(16, 1000)], ..Options::default() });
    setup.world.place(NodeId(5), setup.world.where_is(SOURCE));
    let sink = &mut Collected::default();
    let copy = setup.client.copy(NodeId(5), &whole(0, 1), sink, &CancelFlag::default());
    assert!(matches!(copy, Err(TransferError::Unreachable { .. })), "{copy:?}");
    let nobody = setup.client.copy(NodeId(6), &whole(0, 1), sink, &CancelFlag::default());
    assert!(matches!(nobody, Err(TransferError::Unreachable { .. })), "{nobody:?}");
}

#[test]
fn garbage_on_a_bulk_connection_closes_it_alone() {
    let setup = Setup::new(Options { extents: vec![random(17, 1000)], ..Options::default() });
    let address = setup.world.where_is(SOURCE);
    setup.runtime.block_on(async {
        for (kind, payload) in
            [(Kind::CopyRequest, &[0xff; 5][..]), (Kind::Raft, b"x"), (Kind::CopyRequest, &[])]
        {
            let (mut raw, _) = Raw::greeted(&address, &hello(DESTINATION, Purpose::Bulk)).await;
            raw.send(kind, payload).await;
            assert!(raw.is_closed().await, "{kind:?}");
        }
    });
    eventually("their threads have ended", || setup.server.connections() == 0);
    setup.copy(whole(0, 1000), &Collected::default()).expect("copied");
}
