//! Cuts, shares, order and chance.

use proptest::prelude::*;

use super::*;

const MILLI: u64 = 1_000_000;

fn n(id: u64) -> NodeId {
    NodeId(id)
}

fn net(wire: Wire) -> Net {
    Net::new(wire, &Random::root(3))
}

fn arrival(fate: Fate) -> Time {
    match fate {
        Fate::Arrives { at, .. } => at,
        Fate::Held(_) | Fate::Lost(_) => panic!("{fate:?}"),
    }
}

proptest! {
    /// Fault model, 1: a lane keeps its order whatever the delays, and nothing is faster than
    /// the wire.
    #[test]
    fn a_lane_is_first_in_first_out(
        seed: u64,
        tail in prop_oneof![Just(0.0), Just(0.2)],
        sends in prop::collection::vec((0..5 * MILLI, 0..200_000_u64, 0..2_u64), 1..60),
    ) {
        let wire = Wire { tail, duplicate: 0.1, museum: 0.1, ..Wire::default() };
        let mut net = Net::new(wire.clone(), &Random::root(seed));
        let mut now = Time::ZERO;
        let mut last = [Time::ZERO; 2];
        for (wait, bytes, lane) in sends {
            now = Time(now.0 + wait);
            let (no, lane) = if lane == 0 { (0, Lane::Raft) } else { (1, Lane::Bulk) };
            let Fate::Arrives { at, again } = net.send(now, n(1), n(2), lane, bytes) else {
                panic!("nothing is lost here");
            };
            prop_assert!(at >= now.after(*wire.delay.start()));
            prop_assert!(at >= last[no] && again.is_none_or(|again| again >= at));
            last[no] = at;
        }
    }

    /// H22: all lanes together get the bandwidth of their link and no more, small messages
    /// before bulk.
    #[test]
    fn lanes_share_the_bandwidth(
        seed: u64,
        sends in prop::collection::vec((0..2 * MILLI, 1..300_000_u64), 1..60),
    ) {
        let wire = Wire { bandwidth: 10 << 20, ..Wire::default() };
        let mut net = Net::new(wire.clone(), &Random::root(seed));
        let (mut now, mut sent) = (Time::ZERO, 0_u128);
        for (wait, bytes) in sends {
            now = Time(now.0 + wait);
            sent += u128::from(bytes);
            let lane = if bytes >= BULK_BYTES_MIN { Lane::Bulk } else { Lane::Peer };
            let at = arrival(net.send(now, n(1), n(2), lane, bytes));
            if lane == Lane::Bulk {
                // Everything before it has gone over the wire by then. Each is rounded down.
                let needed = sent * 1_000_000_000 / u128::from(wire.bandwidth);
                prop_assert!(u128::from(at.0) + 60 >= needed);
            }
        }
        // Another link has bandwidth of its own.
        let other = arrival(net.send(now, n(2), n(1), Lane::Bulk, 1));
        prop_assert!(other <= now.after(*wire.delay.end()).after(Duration::from_micros(1)));
    }

    /// The same seed gives the same network, and what one link carries changes no other.
    #[test]
    fn a_link_does_not_depend_on_others(seed: u64, between in 0..20_usize) {
        let wire = Wire { loss: 0.3, duplicate: 0.3, tail: 0.1, ..Wire::default() };
        let mut quiet = Net::new(wire.clone(), &Random::root(seed));
        let mut busy = Net::new(wire, &Random::root(seed));
        for round in 0..10_u64 {
            let now = Time(round * MILLI);
            for _ in 0..between {
                busy.send(now, n(1), n(3), Lane::Raft, 100);
                busy.send(now, n(1), n(2), Lane::Data, 0);
            }
            prop_assert_eq!(
                quiet.send(now, n(1), n(2), Lane::Raft, 100),
                busy.send(now, n(1), n(2), Lane::Raft, 100)
            );
        }
    }
}

/// H9, H12: a cut has a direction, and takes what is in flight.
#[test]
fn a_cut_has_a_direction() {
    let mut net = net(Wire::default());
    arrival(net.send(Time::ZERO, n(1), n(2), Lane::Peer, 10));
    net.cut(n(1), n(2));
    assert!(!net.arrives(n(1), n(2)) && net.arrives(n(2), n(1)));
    assert!(!net.talks(n(1), n(2)) && !net.talks(n(2), n(1)) && net.talks(n(1), n(3)));
    assert_eq!(net.send(Time(1), n(1), n(2), Lane::Peer, 10), Fate::Lost(Loss::Cut));
    arrival(net.send(Time(1), n(2), n(1), Lane::Peer, 10));
    net.heal(n(1), n(2));
    arrival(net.send(Time(2), n(1), n(2), Lane::Peer, 10));
    assert!(net.arrives(n(1), n(1)) && net.talks(n(1), n(1)));
}

/// However much clients send, what nodes say to each other goes on: clients wait while a link has
/// more of theirs than half of it carries.
#[test]
fn clients_leave_half_of_a_link_to_nodes() {
    let mut net = net(Wire { bandwidth: 64 << 10, ..Wire::default() });
    let mut sent = 0;
    while !net.is_full(Time::ZERO, n(1), n(2)) {
        net.send(Time::ZERO, n(1), n(2), Lane::Data, 1 << 10);
        sent += 1;
    }
    assert_eq!(sent, 9, "a quarter of a second at half of 64 KiB, and the one that fills it");
    assert!(arrival(net.send(Time::ZERO, n(1), n(2), Lane::Peer, 100)) < Time(200 * MILLI));
    assert!(!net.is_full(Time::ZERO, n(2), n(1)) && !net.is_full(Time(100 * MILLI), n(1), n(2)));
    assert_eq!(net.bandwidth(n(1), n(2)), 64 << 10);
}

/// Fault model, 1: what a clogged link holds comes later, all of it, in order.
#[test]
fn a_clogged_link_holds_what_is_sent_until_it_flows() {
    let mut net = net(Wire::default());
    net.clog(n(1), n(2));
    let held: Vec<Fate> = (0..5).map(|at| net.send(Time(at), n(1), n(2), Lane::Raft, 10)).collect();
    assert_eq!(held[4], Fate::Held(Parcel(5)));
    assert!(!net.talks(n(2), n(1)));
    let released = net.unclog(Time(100 * MILLI), n(1), n(2));
    assert_eq!(released.iter().map(|(parcel, _)| parcel.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(released.is_sorted_by_key(|(_, at)| *at) && released[0].1 > Time(100 * MILLI));
    let next = arrival(net.send(Time(100 * MILLI), n(1), n(2), Lane::Raft, 10));
    assert!(next >= released[4].1);

    net.clog(n(1), n(2));
    net.send(Time(200 * MILLI), n(1), n(2), Lane::Raft, 10);
    assert_eq!(net.cut(n(1), n(2)), [Parcel(6)]);
    assert_eq!(net.heal_all(Time(300 * MILLI)), []);
    assert!(net.talks(n(1), n(2)));
}

/// Fault model, 1: a small message does not wait for a chunk, but a chunk for everything.
#[test]
fn bulk_waits_and_small_messages_do_not() {
    let mut net = net(Wire { bandwidth: 1 << 20, ..Wire::default() });
    let first = arrival(net.send(Time::ZERO, n(1), n(2), Lane::Bulk, 1 << 20));
    let small = arrival(net.send(Time::ZERO, n(1), n(2), Lane::Raft, 100));
    let second = arrival(net.send(Time::ZERO, n(1), n(2), Lane::Bulk, 1 << 20));
    assert!(first.0 >= 1_000 * MILLI && second.0 >= 2_000 * MILLI && small.0 < 10 * MILLI);
    net.slow(n(1), n(2), Slow { bandwidth: 0, delay: Duration::from_secs(9) });
    let late = arrival(net.send(Time(3_000 * MILLI), n(1), n(2), Lane::Raft, 100));
    assert!(late.0 >= 12_000 * MILLI);
}

/// Fault model, 1: every fault of the wire happens, about as often as it should.
#[test]
fn chances_are_met() {
    let mut net = net(Wire {
        loss: 0.1,
        duplicate: 0.2,
        museum: 0.1,
        reorder: 0.2,
        reset: 0.5,
        garbage: 0.5,
        ..Wire::default()
    });
    let (mut lost, mut soon, mut late, mut overtaken) = (0, 0, 0, 0);
    let mut last = Time::ZERO;
    for at in 0..1_000 {
        match net.send(Time(at * MILLI), n(1), n(2), Lane::Peer, 100) {
            Fate::Lost(why) => lost += u32::from(why == Loss::Chance),
            Fate::Held(_) => panic!("nothing is clogged"),
            Fate::Arrives { at, again } => {
                overtaken += u32::from(at < last);
                last = last.max(at);
                let age = again.map(|again| again.since(at));
                soon += u32::from(age.is_some_and(|age| age < Duration::from_secs(1)));
                late += u32::from(age.is_some_and(|age| age >= Duration::from_secs(1)));
            }
        }
    }
    assert!((50..200).contains(&lost), "{lost}");
    assert!((100..300).contains(&soon), "{soon}");
    assert!((50..200).contains(&late), "{late}");
    assert!(overtaken > 20, "{overtaken}");
    let cuts: Vec<u64> = (0..100).filter_map(|_| net.chunk_cut(n(1), n(2), 1_000)).collect();
    assert!((20..80).contains(&cuts.len()) && cuts.iter().all(|bytes| *bytes < 1_000));
    assert!((20..80).contains(&(0..100).filter(|_| net.garbles(n(1), n(2))).count()));
    let wire = net.wire().healed();
    net.set_wire(wire);
    assert_eq!(net.chunk_cut(n(1), n(2), 1_000), None);
}
