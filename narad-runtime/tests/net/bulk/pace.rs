//! Waiting: for a throttle, for a peer that hangs, and for nobody any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use narad_runtime::net::Bulk;
use narad_runtime::transfer::{CancelFlag, CopyReport, Settings, Throttle, TransferError};
use narad_runtime::wire::frame::Kind;
use narad_runtime::wire::handshake::Purpose;

use super::{
    Collected, DESTINATION, Options, SECOND_PIECE, SOURCE, Setup, eventually, random, whole,
};
use crate::support::{Raw, hello};

/// The rate counts by the clock alone, piece by piece, and a change of it at once.
#[test]
fn a_throttle_changes_while_a_copy_runs() {
    const PIECE: u64 = 256 << 10;
    // One piece is due every 12.5 ms at this rate.
    const RATE: u64 = 20 << 20;
    let bytes = random(8, 16 << 20);
    let micros = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&micros);
    let now = move || Duration::from_micros(clock.load(Ordering::Acquire));
    let throttle = Arc::new(Throttle::new(now, RATE));
    let setup = Setup::new(Options {
        extents: vec![bytes.clone()],
        source_throttle: Some(Arc::clone(&throttle)),
        ..Options::default()
    });
    let (sink, cancel) = (Collected::default(), CancelFlag::default());
    let copying = setup.copying(whole(0, 16 << 20), &sink, &cancel);
    for pieces in 1..=8 {
        eventually("the next piece has arrived", || sink.bytes() >= pieces * PIECE);
        assert_eq!(sink.bytes(), pieces * PIECE);
        micros.fetch_add(12_500, Ordering::AcqRel);
    }
    // Half the rate: the same time is half a piece.
    eventually("the last piece has arrived", || sink.bytes() == 9 * PIECE);
    throttle.set_rate(RATE / 2);
    micros.fetch_add(12_500, Ordering::AcqRel);
    assert_eq!(sink.bytes(), 9 * PIECE);
    micros.fetch_add(12_500, Ordering::AcqRel);
    eventually("the next piece has arrived", || sink.bytes() > 9 * PIECE);
    assert_eq!(sink.bytes(), 10 * PIECE);
    assert!(!copying.is_finished());
    throttle.set_rate(0);
    let report = copying.join().unwrap().expect("copied");
    // The destination's own throttle is unlimited: what the source's takes is not its business.
    assert_eq!(report, CopyReport { bytes: 16 << 20, throttled: Duration::ZERO });
    assert!(sink.is(&bytes));
}

/// The destination's own throttle is told apart from the copy's time.
#[test]
fn a_destination_knows_how_long_its_throttle_held_it_up() {
    let bytes = random(9, 2 << 20);
    let micros = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&micros);
    // Time passes by being looked at, so that the copy ends and the waits add up.
    let now = move || Duration::from_micros(clock.fetch_add(500, Ordering::AcqRel));
    let setup = Setup::new(Options {
        extents: vec![bytes.clone()],
        destination_throttle: Some(Arc::new(Throttle::new(now, 200 << 20))),
        ..Options::default()
    });
    let sink = Collected::default();
    let report = setup.copy(whole(0, 2 << 20), &sink).expect("copied");
    assert!(sink.is(&bytes));
    let elapsed = Duration::from_micros(micros.load(Ordering::Acquire));
    assert!(report.throttled > Duration::ZERO && report.throttled < elapsed, "{report:?}");
}

/// X169: a copy ends when it is cancelled, whatever it waits for.
#[test]
fn case_169_a_cancelled_copy_ends() {
    // A read that hangs, as on a stuck disk.
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let setup = Setup::new(Options {
        extents: vec![random(5, 1 << 20)],
        before: Some(Box::new(move |_, position| {
            if position == SECOND_PIECE {
                let _ = held.lock().unwrap().recv();
            }
            Ok(())
        })),
        client: Settings { connections_per_source: 1, ..Settings::default() },
        ..Options::default()
    });
    let (sink, cancel) = (Collected::default(), CancelFlag::default());
    let hanging = setup.copying(whole(0, 1 << 20), &sink, &cancel);
    eventually("the first piece has arrived", || sink.bytes() == SECOND_PIECE);
    // A second copy waits for the one connection.
    let cancel_second = CancelFlag::default();
    let waiting = setup.copying(whole(0, 1), &Collected::default(), &cancel_second);
    cancel_second.cancel();
    let second = waiting.join().unwrap();
    assert!(matches!(second, Err(TransferError::Cancelled { received: 0 })), "{second:?}");
    cancel.cancel();
    let first = hanging.join().unwrap().expect_err("cancelled");
    assert!(matches!(first, TransferError::Cancelled { received: SECOND_PIECE }));
    drop(release);
}

/// A hung source does not hold a thread for ever; what had arrived stays valid.
#[test]
fn a_source_that_moves_no_byte_is_given_up() {
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(held);
    let setup = Setup::new(Options {
        extents: vec![random(6, 1 << 20)],
        before: Some(Box::new(move |_, position| {
            if position == SECOND_PIECE {
                let _ = held.lock().unwrap().recv();
            }
            Ok(())
        })),
        client: Settings { stall_timeout: Duration::from_millis(500), ..Settings::default() },
        ..Options::default()
    });
    let sink = Collected::default();
    let error = setup.copy(whole(0, 1 << 20), &sink).expect_err("it hangs");
    assert!(matches!(error, TransferError::TimedOut { .. }), "{error}");
    assert_eq!((error.received(), sink.bytes()), (SECOND_PIECE, SECOND_PIECE));
    drop(release);
}

/// A destination that stops reading does not hold the source's thread for ever either.
#[test]
fn a_destination_that_takes_no_byte_is_given_up() {
    let setup = Setup::new(Options {
        extents: vec![random(7, 32 << 20)],
        server: Settings { stall_timeout: Duration::from_millis(150), ..Settings::default() },
        ..Options::default()
    });
    let address = setup.world.where_is(SOURCE);
    let _raw = setup.runtime.block_on(async {
        let (mut raw, _) = Raw::greeted(&address, &hello(DESTINATION, Purpose::Bulk)).await;
        // `partition { topic: 1 }, bytes: 32 MiB`.
        raw.send(Kind::CopyRequest, &[0x0a, 2, 0x08, 1, 0x20, 0x80, 0x80, 0x80, 0x10]).await;
        raw
    });
    eventually("it is served", || setup.memory.read.load(Ordering::Relaxed) > 0);
    eventually("it is given up", || setup.server.connections() == 0);
}

/// X169: stopping waits for nobody who is merely connected.
#[test]
fn case_169_a_stopped_server_ends_its_connections() {
    let setup = Setup::new(Options { extents: vec![random(18, 1000)], ..Options::default() });
    setup.copy(whole(0, 1000), &Collected::default()).expect("copied");
    assert_eq!(setup.server.connections(), 1);
    setup.server.stop();
    assert_eq!(setup.server.connections(), 0);
    assert!(!setup.server.has_room());
}
