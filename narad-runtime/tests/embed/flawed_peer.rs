//! The battery for transports: passed by those that are right, and failed by each that is not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::NodeId;
use narad_core::node::CallFault;
use narad_runtime::conformance::{self, PeerRig};
use narad_runtime::embed::memory::MemoryPeer;
use narad_runtime::embed::{Inbound, Peer, Whom};

/// What is wrong with a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Every tenth message arrives twice.
    Twice,
    /// Answers go to whoever asked last.
    MixesAnswers,
    /// Whoever asks is what the message says.
    BelievesTheAsker,
    /// Long messages lose their ends.
    CutsLongOnes,
    /// A call waits for the one before.
    OneAfterTheOther,
    /// No answer is taken for not having been sent.
    MuteIsUnreachable,
    /// Whoever calls nobody waits for ever.
    NobodyIsWaitedFor,
    /// An empty answer stands for none.
    MuteIsEmpty,
    /// A question that was answered before is not asked again.
    AnswersFromCache,
    /// Bytes that are no text are mended.
    CarriesText,
    /// Nothing is carried for nothing.
    EmptyIsNotSent,
    /// Only so many calls may ever be given up; each keeps its place.
    GivenUpKeepTheirPlace,
    /// A message that comes back from where it went is taken for the same one.
    AnswersItself,
    /// A question that is not answered in a second is put again.
    AsksAgain,
}

const FLAWS: [Flaw; 14] = [
    Flaw::Twice,
    Flaw::MixesAnswers,
    Flaw::BelievesTheAsker,
    Flaw::CutsLongOnes,
    Flaw::OneAfterTheOther,
    Flaw::MuteIsUnreachable,
    Flaw::NobodyIsWaitedFor,
    Flaw::MuteIsEmpty,
    Flaw::AnswersFromCache,
    Flaw::CarriesText,
    Flaw::EmptyIsNotSent,
    Flaw::GivenUpKeepTheirPlace,
    Flaw::AnswersItself,
    Flaw::AsksAgain,
];

#[derive(Debug, Default)]
struct Network {
    nodes: Mutex<BTreeMap<NodeId, Inbound>>,
    calls: Mutex<u64>,
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Bytes>,
    answered: Mutex<BTreeMap<(NodeId, NodeId, Bytes), Bytes>>,
    under_way: Mutex<u64>,
}

#[derive(Debug)]
struct Flawed {
    network: Arc<Network>,
    flaw: Flaw,
    me: Mutex<NodeId>,
}

#[async_trait]
impl Peer for Flawed {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        *self.me.lock().expect("nobody panics") = inbound.me().node;
        self.network.nodes.lock().expect("nobody panics").insert(inbound.me().node, inbound);
        Ok(())
    }

    async fn call(&self, to: &Whom, mut message: Bytes) -> Result<Bytes, CallFault> {
        let mut from = *self.me.lock().expect("nobody panics");
        let inbound = self.network.nodes.lock().expect("nobody panics").get(&to.node).cloned();
        let Some(inbound) = inbound else {
            if self.flaw == Flaw::NobodyIsWaitedFor {
                std::future::pending::<()>().await;
            }
            return Err(CallFault::Unreachable);
        };
        let _turn = match self.flaw {
            Flaw::OneAfterTheOther => Some(self.network.turn.lock().await),
            _ => None,
        };
        match self.flaw {
            Flaw::BelievesTheAsker if message.len() > 100 => {
                from = NodeId(u64::from(message[message.len() - 2]));
            }
            Flaw::CutsLongOnes => message.truncate(4 << 20),
            _ => {}
        }
        let calls = {
            let mut calls = self.network.calls.lock().expect("nobody panics");
            *calls += 1;
            *calls
        };
        if self.flaw == Flaw::Twice && calls.is_multiple_of(10) {
            inbound.answer(from, message.clone()).await;
        }
        let key = (from, to.node, message.clone());
        let known = self.network.answered.lock().expect("nobody panics").get(&key).cloned();
        if let (Flaw::AnswersFromCache, Some(answer)) = (self.flaw, known) {
            return Ok(answer);
        }
        match self.flaw {
            Flaw::CarriesText => message = String::from_utf8_lossy(&message).into_owned().into(),
            Flaw::EmptyIsNotSent if message.is_empty() => return Err(CallFault::Unreachable),
            Flaw::AnswersItself if from > to.node => return Ok(message),
            Flaw::GivenUpKeepTheirPlace => {
                let mut under_way = self.network.under_way.lock().expect("nobody panics");
                if *under_way >= 256 {
                    return Err(CallFault::TimedOut);
                }
                *under_way += 1;
            }
            _ => {}
        }
        let second = Duration::from_secs(1);
        let asked = tokio::time::timeout(second, inbound.answer(from, message.clone()));
        let answered = match (self.flaw, asked) {
            (Flaw::AsksAgain, asked) => match asked.await {
                Ok(answered) => answered,
                Err(_) => inbound.answer(from, message).await,
            },
            (_, asked) => asked.into_inner().await,
        };
        if self.flaw == Flaw::GivenUpKeepTheirPlace {
            *self.network.under_way.lock().expect("nobody panics") -= 1;
        }
        if let Some(answer) = &answered {
            self.network.answered.lock().expect("nobody panics").insert(key, answer.clone());
        }
        if self.flaw == Flaw::MixesAnswers {
            let mut last = self.network.last.lock().expect("nobody panics");
            let other = std::mem::replace(&mut *last, answered.clone().unwrap_or_default());
            if calls > 40 && !other.is_empty() {
                return Ok(other);
            }
        }
        match (answered, self.flaw) {
            (Some(answer), _) => Ok(answer),
            (None, Flaw::MuteIsUnreachable) => Err(CallFault::Unreachable),
            (None, Flaw::MuteIsEmpty) => Ok(Bytes::new()),
            (None, _) => Err(CallFault::TimedOut),
        }
    }
}

struct Rig(Arc<Network>, Flaw);

#[async_trait]
impl PeerRig for Rig {
    async fn peer(&self) -> Arc<dyn Peer> {
        let (network, flaw) = (Arc::clone(&self.0), self.1);
        Arc::new(Flawed { network, flaw, me: Mutex::new(NodeId(0)) })
    }

    async fn break_connections(&self) -> bool {
        // There are none.
        true
    }
}

/// The connections that come with Narad.
struct InMemory(MemoryPeer);

#[async_trait]
impl PeerRig for InMemory {
    async fn peer(&self) -> Arc<dyn Peer> {
        Arc::new(self.0.another())
    }
}

#[tokio::test]
async fn transports_that_are_right_pass() {
    let report = conformance::peer(&Rig(Arc::default(), Flaw::None)).await.expect("it is right");
    assert!(report.checks > 200, "{report:?}");
    assert_eq!(report.skipped, Vec::<&str>::new());
    let report = conformance::peer(&InMemory(MemoryPeer::default())).await.expect("it is right");
    assert_eq!(report.skipped.len(), 1, "{report:?}");
}

/// The kit finds each of many ways to be wrong (S18, case F20). Time passes as fast as nothing is left
/// to do, so that waiting for what never comes is short.
#[tokio::test(start_paused = true)]
async fn each_transport_that_is_wrong_fails() {
    for flaw in FLAWS {
        let found = conformance::peer(&Rig(Arc::default(), flaw)).await;
        assert!(found.is_err(), "{flaw:?} passes: {found:?}");
    }
}
