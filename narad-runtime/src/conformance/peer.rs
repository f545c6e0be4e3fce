//! The battery for transports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{Name, NodeId};
use narad_core::node::CallFault;
use tokio::sync::Notify;

use super::{Report, Violation};
use crate::embed::{Inbound, KeptReachable, MESSAGE_BYTES_MAX, Peer, Whom};

/// What the battery needs of an embedder to try a transport.
#[async_trait]
pub trait PeerRig: Send + Sync {
    /// Makes the connections of one node, on a network with those that were made before.
    async fn peer(&self) -> Arc<dyn Peer>;

    /// Returns where a node is to be reached whose connections were made by [`peer`](Self::peer) as the
    /// n-th, from 0 on, and started. Empty (the default) for transports that go by id or name.
    async fn address(&self, n: usize) -> String {
        let _ = n;
        String::new()
    }

    /// Has the connections between all nodes break, in the midst of whatever is said, and come back.
    /// `false` (the default) if the rig cannot do that.
    async fn break_connections(&self) -> bool {
        false
    }
}

const WHOLE: &str = "messages are whole";
const ONCE: &str = "at most once";
const PROVED: &str = "who asks is proved";
const OTHERS: &str = "a peer that hangs holds up nobody else";
const FAULTS: &str = "a fault says nothing";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Messages that nobody answers before they are let go.
const HANGS: &[u8] = b"hang";
/// Messages that are answered after [`WHILE`].
const SLOW: &[u8] = b"slow";
/// Longer than what anybody waits before he asks again, and shorter than a request's patience.
const WHILE: Duration = Duration::from_millis(1500);
/// Messages that nobody answers at all.
const MUTE: &[u8] = b"mute";

/// Three nodes that answer a message with who asked, who answers, and the message.
struct Nodes {
    peers: Vec<Arc<dyn Peer>>,
    whom: Vec<Whom>,
    arrived: Arc<Mutex<BTreeMap<Bytes, u32>>>,
    release: Arc<Notify>,
    _kept: Vec<KeptReachable>,
}

impl Nodes {
    async fn start(rig: &dyn PeerRig) -> Result<Self, Violation> {
        let (arrived, release) = (Arc::<Mutex<BTreeMap<Bytes, u32>>>::default(), Arc::default());
        let (mut peers, mut whom, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..3 {
            let peer = rig.peer().await;
            let node = NodeId(n as u64 + 11);
            let name = Name::new(format!("peer-{n}")).expect("it is a good name");
            let me = Whom { node, name: name.clone(), address: String::new() };
            let (counts, release) = (Arc::clone(&arrived), Arc::clone(&release));
            let (inbound, keeps) = Inbound::to_function(me, move |from, message: Bytes| {
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(message.clone()).or_default() += 1;
                let release: Arc<Notify> = Arc::clone(&release);
                async move {
                    if message == HANGS {
                        release.notified().await;
                    }
                    if message == SLOW {
                        tokio::time::sleep(WHILE).await;
                    }
                    (message != MUTE).then(|| answer(from, node, &message))
                }
            });
            let started = peer.start(inbound).await;
            started
                .map_err(|reason| Violation { rule: WHOLE, what: format!("start: {reason}") })?;
            let address = rig.address(n).await;
            whom.push(Whom { node, name, address });
            peers.push(peer);
            kept.push(keeps);
        }
        Ok(Self { peers, whom, arrived, release, _kept: kept })
    }

    async fn call(
        &self,
        from: usize,
        to: usize,
        message: impl Into<Bytes>,
    ) -> Result<Result<Bytes, CallFault>, Violation> {
        let call = self.peers[from].call(&self.whom[to], message.into());
        let late = |_| Violation { rule: FAULTS, what: format!("no end within {PATIENCE:?}") };
        tokio::time::timeout(PATIENCE, call).await.map_err(late)
    }

    fn arrivals(&self, message: &Bytes) -> u32 {
        let arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.get(message).copied().unwrap_or_default()
    }
}

fn answer(from: NodeId, at: NodeId, message: &[u8]) -> Bytes {
    let mut answer = format!("{from} {at} ").into_bytes();
    // An answer that is longer than a message may be is nobody's.
    let room = MESSAGE_BYTES_MAX - answer.len();
    answer.extend_from_slice(&message[..message.len().min(room)]);
    answer.into()
}

/// Tries a transport. Ends with the first broken rule.
///
/// # Errors
///
/// The rule, with what was done.
pub async fn peer(rig: &dyn PeerRig) -> Result<Report, Violation> {
    let mut report = Report::default();
    let nodes = Nodes::start(rig).await?;
    sizes(&nodes, &mut report).await?;
    crowds(&nodes, &mut report).await?;
    hangs(&nodes, &mut report).await?;
    given_up(&nodes, &mut report).await?;
    slow(&nodes, &mut report).await?;
    nobody(&nodes, &mut report).await?;
    breaks(rig, &nodes, &mut report).await?;
    for peer in &nodes.peers {
        peer.stop().await;
    }
    Ok(report)
}

/// Messages of every length, between each two nodes.
async fn sizes(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    for (from, to) in [(0, 1), (1, 0), (2, 0), (1, 2)] {
        let longest = if from + to == 1 { MESSAGE_BYTES_MAX } else { 100_000 };
        for bytes in [2, 3, 255, 65_536, 1 << 20, longest] {
            let pattern: Vec<u8> = (0..=250).collect();
            let mut message = pattern.repeat(bytes / pattern.len() + 1);
            message.truncate(bytes - 2);
            message.extend_from_slice(format!("{from}{to}").as_bytes());
            let message = Bytes::from(message);
            let before = nodes.arrivals(&message);
            let answered = nodes.call(from, to, message.clone()).await?;
            let (asker, at) = (nodes.whom[from].node, nodes.whom[to].node);
            let expected = answer(asker, at, &message);
            let answered = answered.unwrap_or_default();
            let asker_is = expected.iter().position(|byte| *byte == b' ').unwrap_or_default();
            let is_other = answered.get(..asker_is) != expected.get(..asker_is);
            let rule = if is_other && !answered.is_empty() { PROVED } else { WHOLE };
            report.check(answered == expected, rule, || {
                let (head, expected) = (brief(&answered), brief(&expected));
                format!("{asker} sent {bytes} bytes to {at}: the answer should be {expected}, it is {head}")
            })?;
            let arrived = nodes.arrivals(&message) - before;
            report.same(&arrived, &1, ONCE, "a message that was answered has arrived")?;
        }
    }
    // The same message again is another one, and one without bytes is one.
    for (n, message) in (1..).zip([Bytes::new(), Bytes::new()]) {
        let (asker, at) = (nodes.whom[0].node, nodes.whom[1].node);
        let answered = nodes.call(0, 1, message.clone()).await?;
        let expected = Ok(answer(asker, at, &message));
        report.same(&answered, &expected, WHOLE, "a message without bytes")?;
        report.same(&nodes.arrivals(&message), &n, WHOLE, "the same message again")?;
    }
    Ok(())
}

fn brief(message: &Bytes) -> String {
    format!("{} bytes that begin with {:?}", message.len(), message.slice(..message.len().min(12)))
}

/// Many at the same time: each has its own answer.
async fn crowds(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..120_usize {
        let (from, to) = ([0, 1, 2][n % 3], [1, 2, 0][n % 3]);
        let peer = Arc::clone(&nodes.peers[from]);
        let (asker, whom) = (nodes.whom[from].node, nodes.whom[to].clone());
        calls.spawn(async move {
            let message = Bytes::from(format!("crowd {n} {}", "y".repeat(n * 37 % 4000)));
            let answered = peer.call(&whom, message.clone()).await;
            (answered, answer(asker, whom.node, &message), message)
        });
    }
    while let Some(done) = calls.join_next().await {
        let (answered, expected, message) = done.expect("a call does not panic");
        report.same(&answered, &Ok(expected), WHOLE, "one of many calls at the same time")?;
        report.same(&nodes.arrivals(&message), &1, ONCE, "one of many calls at the same time")?;
    }
    Ok(())
}

/// Calls that are not answered yet, and others beside them.
async fn hangs(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    const HANGING: u32 = 40;
    let mut hanging = tokio::task::JoinSet::new();
    for _ in 0..HANGING {
        let (peer, whom) = (Arc::clone(&nodes.peers[0]), nodes.whom[1].clone());
        hanging.spawn(async move { peer.call(&whom, Bytes::from_static(HANGS)).await });
    }
    let begun = async {
        while nodes.arrivals(&Bytes::from_static(HANGS)) < HANGING {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let begun = tokio::time::timeout(PATIENCE, begun).await;
    report.check(begun.is_ok(), OTHERS, || "one of many messages did not arrive".to_owned())?;
    for (from, to) in [(0, 2), (2, 1), (1, 0), (0, 1)] {
        let message = Bytes::from(format!("beside {from} {to}"));
        let call = nodes.peers[from].call(&nodes.whom[to], message.clone());
        let answered = tokio::time::timeout(PATIENCE, call).await;
        let (asker, at) = (nodes.whom[from].node, nodes.whom[to].node);
        let expected = Ok(Ok(answer(asker, at, &message)));
        report.check(answered == expected, OTHERS, || {
            format!(
                "while calls from {} to {} hang, a call from {asker} to {at} came to {answered:?}",
                nodes.whom[0].node, nodes.whom[1].node
            )
        })?;
    }
    hanging.abort_all();
    nodes.release.notify_waiters();
    while hanging.join_next().await.is_some() {}
    let message = Bytes::from_static(b"after those that hung");
    let answered = nodes.call(0, 1, message.clone()).await?;
    let expected = answer(nodes.whom[0].node, nodes.whom[1].node, &message);
    report.same(&answered, &Ok(expected), OTHERS, "a call after some were given up")
}

/// Narad gives calls up all the time: they leave nothing behind, once they were answered.
async fn given_up(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    let hangs = Bytes::from_static(HANGS);
    for _ in 0..10 {
        let mut hanging = tokio::task::JoinSet::new();
        let before = nodes.arrivals(&hangs);
        for _ in 0..100 {
            let (peer, whom) = (Arc::clone(&nodes.peers[2]), nodes.whom[0].clone());
            hanging.spawn(async move { peer.call(&whom, Bytes::from_static(HANGS)).await });
        }
        let arrived = async {
            while nodes.arrivals(&hangs) < before + 100 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let arrived = tokio::time::timeout(PATIENCE, arrived).await;
        report.check(arrived.is_ok(), OTHERS, || {
            "of a hundred calls at the same time, after others were given up, some did not arrive"
                .to_owned()
        })?;
        hanging.shutdown().await;
        nodes.release.notify_waiters();
        let arrived = nodes.arrivals(&hangs) - before;
        report.same(&arrived, &100, ONCE, "a hundred calls that were given up")?;
    }
    let message = Bytes::from_static(b"after a thousand that were given up");
    let answered = nodes.call(2, 0, message.clone()).await?;
    let expected = answer(nodes.whom[2].node, nodes.whom[0].node, &message);
    report.same(&answered, &Ok(expected), OTHERS, "a call after a thousand were given up")
}

/// An answer that takes a while: the question is not put again meanwhile.
async fn slow(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    let call = nodes.call(1, 2, Bytes::from_static(SLOW));
    let expected = answer(nodes.whom[1].node, nodes.whom[2].node, SLOW);
    report.same(&call.await?, &Ok(expected), WHOLE, "an answer that takes a while")?;
    let arrived = nodes.arrivals(&Bytes::from_static(SLOW));
    report.same(&arrived, &1, ONCE, "a question whose answer takes a while")
}

/// Nobody there, and nobody who answers.
async fn nobody(nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    let name = Name::new("nobody").expect("it is a good name");
    let stranger = Whom { node: NodeId(99), name, address: "127.0.0.1:1".to_owned() };
    let call = nodes.peers[0].call(&stranger, Bytes::from_static(b"anybody?"));
    let answered = tokio::time::timeout(PATIENCE, call).await;
    report.check(matches!(answered, Ok(Err(_))), FAULTS, || {
        format!("a call of a node that is not there came to {answered:?}")
    })?;
    let mute = nodes.call(0, 1, Bytes::from_static(MUTE)).await?;
    report.check(mute.is_err(), FAULTS, || {
        format!("a message that nobody answers came to {mute:?}")
    })?;
    let is_sent = mute != Err(CallFault::Unreachable);
    report.check(is_sent, FAULTS, || {
        "a message that has arrived was reported not to have been sent".to_owned()
    })?;
    let arrived = nodes.arrivals(&Bytes::from_static(MUTE));
    report.same(&arrived, &1, ONCE, "a message that nobody answers")
}

/// Connections that break.
async fn breaks(rig: &dyn PeerRig, nodes: &Nodes, report: &mut Report) -> Result<(), Violation> {
    for round in 0..20 {
        let message = Bytes::from(format!("broken {round}"));
        let call = nodes.call(0, 1, message.clone());
        let (answered, could) = tokio::join!(call, rig.break_connections());
        if !could {
            report.skipped.push("broken connections: the rig has no break_connections");
            return Ok(());
        }
        let arrived = nodes.arrivals(&message);
        report.check(arrived <= 1, ONCE, || {
            format!("a message has arrived {arrived} times when the connection broke")
        })?;
        let answered = answered?;
        let is_true = match answered {
            Ok(answered) => answered == answer(nodes.whom[0].node, nodes.whom[1].node, &message),
            Err(CallFault::Unreachable) => arrived == 0,
            Err(CallFault::TimedOut | CallFault::Malformed) => true,
        };
        report.check(is_true, FAULTS, || "a broken call came to something else".to_owned())?;
    }
    let again = async {
        loop {
            let message = Bytes::from_static(b"after the breaks");
            if nodes.peers[0].call(&nodes.whom[1], message).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let again = tokio::time::timeout(PATIENCE, again).await;
    report.check(again.is_ok(), WHOLE, || "nothing arrives after connections broke".to_owned())
}
