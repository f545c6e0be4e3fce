//! Copies under TLS.

use std::thread;

use narad_core::ids::Offset;
use narad_runtime::tls::{Fault, Tls, What};
use narad_runtime::transfer::{CancelFlag, CopyRequest, Settings, TransferError};

use super::{Collected, DESTINATION, Options, SOURCE, Setup, partition, random, whole};
use crate::tls::Set;

fn with(tls: Tls) -> Settings {
    Settings { tls: Some(tls), ..Settings::default() }
}

fn setup(extents: Vec<Vec<u8>>, source: Tls, destination: Tls) -> Setup {
    let (server, client) = (with(source), with(destination));
    let setup = Setup::new(Options { extents, server, client, ..Options::default() });
    setup.world.call(SOURCE, "narad-1");
    setup.world.call(DESTINATION, "narad-2");
    setup
}

/// Two streams at once, in ranges that end within records, and every byte is where it was.
#[test]
fn bytes_arrive_as_they_were_under_tls() {
    const HALF: usize = (10 << 20) + 77;
    const RANGE: u64 = (1 << 20) + 13;
    let set = Set::of("prod");
    let extents = vec![random(1, HALF), random(2, HALF)];
    let setup = setup(extents, set.node("narad-1"), set.node("narad-2"));
    thread::scope(|scope| {
        for index in 0..2 {
            let setup = &setup;
            scope.spawn(move || {
                let sink = Collected::default();
                while sink.bytes() < HALF as u64 {
                    let request = CopyRequest { position: sink.bytes(), ..whole(index, RANGE) };
                    assert!(setup.copy(request, &sink).expect("copied").bytes > 0);
                }
                assert!(sink.is(&setup.memory.extents[&(partition(index), Offset(0))]));
            });
        }
    });
    assert!(setup.server.connections() <= 2, "ranges share connections");
}

/// R61: the connections of an earlier life are not held against a source, under TLS as without.
#[test]
fn r61_a_restarted_source_is_asked_over_a_new_connection_under_tls() {
    let set = Set::of("prod");
    let bytes = random(4, 100_000);
    let mut setup = setup(vec![bytes.clone()], set.node("narad-1"), set.node("narad-2"));
    let sink = Collected::default();
    setup.copy(whole(0, 50_000), &sink).expect("copied");
    setup.runtime.block_on(setup.source.take().unwrap().transport.shutdown());
    setup.start();
    setup.copy(CopyRequest { position: 50_000, ..whole(0, 50_000) }, &sink).expect("copied");
    assert!(sink.is(&bytes));
}

/// What the source refuses costs no connection.
#[test]
fn a_refusal_of_the_source_leaves_the_connection_for_the_next_request() {
    let set = Set::of("prod");
    let bytes = random(5, 1000);
    let setup = setup(vec![bytes.clone()], set.node("narad-1"), set.node("narad-2"));
    let sink = Collected::default();
    let beyond = CopyRequest { base: Offset(9), ..whole(0, 10) };
    assert!(matches!(setup.copy(beyond, &sink), Err(TransferError::Source(_))));
    setup.copy(whole(0, 1000), &sink).expect("copied");
    assert!(sink.is(&bytes));
    assert_eq!(setup.server.connections(), 1);
}

/// Nothing is served to whoever is not who it says, and nothing is taken from such.
#[test]
fn a_copy_needs_the_right_certificates_on_both_sides() {
    let (set, other) = (Set::of("prod"), Set::of("prod"));
    other.trust(&set);
    let both = |source: &Set, one: &str, destination: &Set, two: &str| {
        let setup = setup(vec![vec![7; 100]], source.node(one), destination.node(two));
        let sink = Collected::default();
        let copied =
            setup.client.copy(SOURCE, &whole(0, 100), &mut sink.clone(), &CancelFlag::default());
        assert_eq!(sink.bytes(), 0);
        assert_eq!(setup.memory.read.load(std::sync::atomic::Ordering::Relaxed), 0);
        copied.expect_err("it was served").to_string()
    };
    let told = both(&set, "narad-1", &set, "narad-3");
    assert!(told.contains("narad-3, not of narad-2"), "{told}");
    let told = both(&set, "narad-3", &set, "narad-2");
    assert!(told.contains("narad-3, not of narad-1"), "{told}");
    let told = both(&set, "narad-1", &other, "narad-2");
    let expected = Fault { is_told: true, what: What::UnknownAuthority };
    assert!(told.contains(&expected.to_string()), "{told}");
    let told = both(&other, "narad-1", &set, "narad-2");
    let expected = Fault { is_told: false, what: What::UnknownAuthority };
    assert!(told.contains(&expected.to_string()), "{told}");
}
