//! The battery for metastores: passed by those that are right, and failed by each that is not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_runtime::conformance::{self, MetastoreRig};
use narad_runtime::embed::memory::MemoryMetastore;
use narad_runtime::embed::{Metastore, Proposed, Update, Watch};
use tokio::sync::watch;

/// What is wrong with a metastore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// A lost answer is taken for a refusal.
    LostIsRejected,
    /// A record that could not be sent is reported as decided.
    AppliedWithoutContact,
    /// A barrier is what this client has seen last.
    BarrierIsLocal,
    /// A watch that begins in the middle leaves one out.
    WatchSkips,
    /// A watch shows only what was there when it began.
    WatchEnds,
    /// Two proposals at the same time are told the same index.
    SameIndexTwice,
    /// A record that is there already is not decided again.
    Deduplicates,
    /// A crash takes the last record back.
    ForgetsTheLast,
    /// Indices begin anew behind a snapshot.
    CountsAnew,
    /// What follows a snapshot begins one too early.
    RepeatsBehindSnapshot,
    /// A barrier is one ahead of what is decided.
    BarrierIsAhead,
    /// Of two snapshots the one that came last counts, though it stands for less.
    OlderSnapshotWins,
    /// A watch that is far behind goes on with what is decided now.
    LaggingWatchSkips,
    /// A restart forgets the snapshot, and the records behind it are counted from one.
    RestartForgetsSnapshot,
    /// A watch that is open while its records are dropped shows nothing any more.
    OpenWatchHangs,
    /// Whoever was overtaken by another proposal is refused, and proposed again.
    OvertakenIsRejected,
    /// What could not be sent is refused, and sent with the next proposal.
    RejectedIsSentLater,
    /// A barrier that begins beside another one ends with it.
    BarrierIsShared,
    /// A watch that begins at the end begins with what comes after the next one.
    WatchAtTheEndSkips,
    /// Of a snapshot a million bytes are kept.
    LongSnapshotsAreCut,
}

const FLAWS: [Flaw; 20] = [
    Flaw::LostIsRejected,
    Flaw::AppliedWithoutContact,
    Flaw::BarrierIsLocal,
    Flaw::WatchSkips,
    Flaw::WatchEnds,
    Flaw::SameIndexTwice,
    Flaw::Deduplicates,
    Flaw::ForgetsTheLast,
    Flaw::CountsAnew,
    Flaw::RepeatsBehindSnapshot,
    Flaw::BarrierIsAhead,
    Flaw::OlderSnapshotWins,
    Flaw::LaggingWatchSkips,
    Flaw::RestartForgetsSnapshot,
    Flaw::OpenWatchHangs,
    Flaw::OvertakenIsRejected,
    Flaw::RejectedIsSentLater,
    Flaw::BarrierIsShared,
    Flaw::WatchAtTheEndSkips,
    Flaw::LongSnapshotsAreCut,
];

#[derive(Clone, Debug, Default)]
struct Decided {
    snapshot: Option<(u64, Bytes)>,
    records: Vec<Bytes>,
}

impl Decided {
    fn first(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |(index, _)| *index)
    }

    fn last(&self) -> u64 {
        self.first() + self.records.len() as u64
    }
}

/// One for all clients.
#[derive(Debug)]
struct Server {
    decided: watch::Sender<Decided>,
    flaw: Flaw,
}

#[derive(Debug)]
struct Client {
    server: Arc<Server>,
    has_contact: AtomicBool,
    loses_next: AtomicBool,
    seen: Mutex<u64>,
    unsent: Mutex<Vec<Bytes>>,
    /// The barrier that is under way, for those that begin beside it.
    passing: Mutex<Option<watch::Receiver<Option<LogIndex>>>>,
}

impl Client {
    /// A barrier that takes a while, and is everybody's who comes meanwhile.
    async fn shared_barrier(&self) -> Option<LogIndex> {
        let under_way = self.passing.lock().expect("nobody panics").clone();
        if let Some(mut passing) = under_way {
            return *passing.wait_for(Option::is_some).await.ok()?;
        }
        let (passed, passing) = watch::channel(None);
        *self.passing.lock().expect("nobody panics") = Some(passing);
        let last = LogIndex(self.server.decided.borrow().last());
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        *self.passing.lock().expect("nobody panics") = None;
        passed.send_replace(Some(last));
        Some(last)
    }
}

#[async_trait]
impl Metastore for Client {
    async fn propose(&self, record: Bytes) -> Proposed {
        let flaw = self.server.flaw;
        if !self.has_contact.load(Ordering::Relaxed) {
            if flaw == Flaw::RejectedIsSentLater {
                self.unsent.lock().expect("nobody panics").push(record);
                return Proposed::Rejected { reason: "no contact".to_owned() };
            }
            return if flaw == Flaw::AppliedWithoutContact {
                Proposed::Applied(LogIndex(self.server.decided.borrow().last() + 1))
            } else {
                Proposed::Unknown
            };
        }
        let before = self.server.decided.borrow().last();
        if matches!(flaw, Flaw::SameIndexTwice | Flaw::OvertakenIsRejected) {
            tokio::task::yield_now().await;
        }
        for late in std::mem::take(&mut *self.unsent.lock().expect("nobody panics")) {
            self.server.decided.send_modify(|decided| decided.records.push(late));
        }
        let mut index = 0;
        self.server.decided.send_modify(|decided| {
            let known = decided.records.iter().position(|known| *known == record);
            if let (Flaw::Deduplicates, Some(at)) = (flaw, known) {
                index = decided.first() + at as u64 + 1;
                return;
            }
            decided.records.push(record);
            index = decided.last();
        });
        if flaw == Flaw::SameIndexTwice {
            index = before + 1;
        }
        if flaw == Flaw::OvertakenIsRejected && index != before + 1 {
            return Proposed::Rejected { reason: "another one was first".to_owned() };
        }
        *self.seen.lock().expect("nobody panics") = index;
        if self.loses_next.swap(false, Ordering::Relaxed) {
            return if flaw == Flaw::LostIsRejected {
                Proposed::Rejected { reason: "no answer".to_owned() }
            } else {
                Proposed::Unknown
            };
        }
        Proposed::Applied(LogIndex(index))
    }

    async fn barrier(&self) -> Option<LogIndex> {
        if self.server.flaw == Flaw::BarrierIsLocal {
            return Some(LogIndex(*self.seen.lock().expect("nobody panics")));
        }
        let has_contact = self.has_contact.load(Ordering::Relaxed);
        if self.server.flaw == Flaw::BarrierIsShared && has_contact {
            return self.shared_barrier().await;
        }
        let last = self.server.decided.borrow().last();
        let ahead = u64::from(self.server.flaw == Flaw::BarrierIsAhead && last > 0);
        has_contact.then_some(LogIndex(last + ahead))
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        let mut at = after.0;
        if self.server.flaw == Flaw::WatchSkips && at > 1 {
            at += 1;
        }
        let (decided, flaw) = (self.server.decided.subscribe(), self.server.flaw);
        if flaw == Flaw::WatchAtTheEndSkips && at > 0 && at == decided.borrow().last() {
            at += 1;
        }
        let upto = (flaw == Flaw::WatchEnds).then(|| decided.borrow().last());
        let first = decided.borrow().first();
        let lag = decided.borrow().last().saturating_sub(at);
        Box::new(Reader { decided, at, upto, flaw, first, lag })
    }

    async fn compact(&self, index: LogIndex, mut state: Bytes) {
        let flaw = self.server.flaw;
        if flaw == Flaw::LongSnapshotsAreCut {
            state.truncate(1_000_000);
        }
        self.server.decided.send_modify(|decided| {
            if index.0 <= decided.first() {
                if let (Flaw::OlderSnapshotWins, Some(snapshot)) = (flaw, &mut decided.snapshot) {
                    snapshot.1 = state;
                }
                return;
            }
            let passed = usize::try_from(index.0 - decided.first()).expect("it is small");
            if passed <= decided.records.len() {
                decided.records.drain(..passed);
                decided.snapshot = Some((index.0, state));
            }
        });
    }
}

struct Reader {
    decided: watch::Receiver<Decided>,
    at: u64,
    upto: Option<u64>,
    flaw: Flaw,
    /// What stood for records when it began.
    first: u64,
    /// How far it was behind then.
    lag: u64,
}

#[async_trait]
impl Watch for Reader {
    async fn next(&mut self) -> Option<Update> {
        if self.upto.is_some_and(|upto| self.at >= upto) {
            std::future::pending::<()>().await;
        }
        let at = self.at;
        let decided = self.decided.wait_for(|decided| decided.last() > at).await.ok()?.clone();
        if self.flaw == Flaw::OpenWatchHangs && at < decided.first() && self.first == 0 {
            std::future::pending::<()>().await;
        }
        if self.flaw == Flaw::LaggingWatchSkips && decided.last() - at > self.lag.max(16) {
            self.at = decided.last() - 1;
        }
        if let Some((index, state)) = decided.snapshot.clone().filter(|(index, _)| at < *index) {
            self.at = index;
            if self.flaw == Flaw::RepeatsBehindSnapshot {
                self.at -= 1;
            }
            return Some(Update::Snapshot { index: LogIndex(index), state });
        }
        self.at = self.at.max(decided.first()) + 1;
        let mut index = self.at;
        let record = decided.records[usize::try_from(index - decided.first() - 1).ok()?].clone();
        if self.flaw == Flaw::CountsAnew {
            index -= decided.first();
        }
        Some(Update::Record { index: LogIndex(index), record })
    }
}

struct Rig {
    flaw: Flaw,
    server: Mutex<Arc<Server>>,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Rig {
    fn new(flaw: Flaw) -> Self {
        let server = Mutex::new(Arc::new(Server { decided: watch::Sender::default(), flaw }));
        Self { flaw, server, clients: Mutex::default() }
    }

    fn each(&self, act: impl Fn(&Client)) {
        for client in &*self.clients.lock().expect("nobody panics") {
            act(client);
        }
    }
}

#[async_trait]
impl MetastoreRig for Rig {
    async fn fresh(&self) {
        let (decided, flaw) = (watch::Sender::default(), self.flaw);
        *self.server.lock().expect("nobody panics") = Arc::new(Server { decided, flaw });
        self.clients.lock().expect("nobody panics").clear();
    }

    async fn client(&self) -> Arc<dyn Metastore> {
        let client = Arc::new(Client {
            server: Arc::clone(&*self.server.lock().expect("nobody panics")),
            has_contact: AtomicBool::new(true),
            loses_next: AtomicBool::new(false),
            seen: Mutex::default(),
            unsent: Mutex::default(),
            passing: Mutex::default(),
        });
        self.clients.lock().expect("nobody panics").push(Arc::clone(&client));
        client
    }

    async fn restart(&self) -> bool {
        if self.flaw == Flaw::ForgetsTheLast {
            let server = Arc::clone(&*self.server.lock().expect("nobody panics"));
            server.decided.send_modify(|decided| drop(decided.records.pop()));
        }
        if self.flaw == Flaw::RestartForgetsSnapshot {
            let server = Arc::clone(&*self.server.lock().expect("nobody panics"));
            server.decided.send_modify(|decided| decided.snapshot = None);
        }
        true
    }

    async fn cut_off(&self, on: bool) -> bool {
        self.each(|client| client.has_contact.store(!on, Ordering::Relaxed));
        true
    }

    async fn lose_next_answer(&self) -> bool {
        self.each(|client| client.loses_next.store(true, Ordering::Relaxed));
        true
    }
}

/// The metastore that comes with Narad.
#[derive(Default)]
struct InMemory(Mutex<MemoryMetastore>);

#[async_trait]
impl MetastoreRig for InMemory {
    async fn fresh(&self) {
        *self.0.lock().expect("nobody panics") = MemoryMetastore::default();
    }

    async fn client(&self) -> Arc<dyn Metastore> {
        Arc::new(self.0.lock().expect("nobody panics").clone())
    }
}

#[tokio::test]
async fn metastores_that_are_right_pass() {
    let report = conformance::metastore(&Rig::new(Flaw::None)).await.expect("it is right");
    assert!(report.checks > 100, "{report:?}");
    assert_eq!(report.skipped, Vec::<&str>::new());
    let report = conformance::metastore(&InMemory::default()).await.expect("it is right");
    assert_eq!(report.skipped.len(), 3, "{report:?}");
}

/// The kit finds each of many ways to be wrong (H2, H31, case F20). Time passes as fast as nothing is
/// left to do, so that waiting for what never comes is short.
#[tokio::test(start_paused = true)]
async fn each_metastore_that_is_wrong_fails() {
    for flaw in FLAWS {
        let found = conformance::metastore(&Rig::new(flaw)).await;
        assert!(found.is_err(), "{flaw:?} passes: {found:?}");
    }
}
