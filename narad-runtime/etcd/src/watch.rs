//! What follows an index, whatever becomes of the connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse, WatchStream};
use narad_core::ids::LogIndex;
use narad_runtime::embed::{Update, Watch};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::encoding::Kept;
use crate::error::EtcdError;
use crate::session::{Part, Pause, Session};
use crate::snapshot;

/// A stream that has been silent for so long is doubted: what it should have shown is read.
const DOUBT_AFTER: Duration = Duration::from_secs(5);

/// Updates that wait to be asked for; more wait in etcd.
const WAITING_MAX: usize = 64;

/// A watch, as Narad has it: a task of its own reads on, so that whoever asks for the next update may
/// change their mind at any time.
pub(crate) struct EtcdWatch {
    updates: mpsc::Receiver<Update>,
    reading: JoinHandle<()>,
}

impl EtcdWatch {
    pub(crate) fn new(session: Arc<Session>, after: LogIndex, seed: u64) -> Self {
        let (sender, updates) = mpsc::channel(WAITING_MAX);
        let mut reader = Reader::new(session, after, seed);
        let reading = tokio::spawn(async move {
            while let Some(update) = reader.next().await {
                if sender.send(update).await.is_err() {
                    return;
                }
            }
        });
        Self { updates, reading }
    }
}

#[async_trait]
impl Watch for EtcdWatch {
    async fn next(&mut self) -> Option<Update> {
        self.updates.recv().await
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Reads what is there, then follows; reads again whenever following may have left something out.
struct Reader {
    session: Arc<Session>,
    /// The last place that was shown or waits to be.
    at: LogIndex,
    waiting: VecDeque<Update>,
    /// Follows from the revision at which nothing came after `at`.
    stream: Option<WatchStream>,
    pause: Pause,
}

impl Reader {
    fn new(session: Arc<Session>, after: LogIndex, seed: u64) -> Self {
        let pause = Pause::new(seed);
        Self { session, at: after, waiting: VecDeque::new(), stream: None, pause }
    }

    /// Returns the next update; nothing if there is no use in waiting for one.
    async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                return Some(update);
            }
            match self.step().await {
                Ok(()) => {
                    self.pause.reset();
                    self.session.is_well(Part::Watching);
                }
                Err(error) => {
                    self.stream = None;
                    let may_pass = error.may_pass();
                    self.session.is_ill(Part::Watching, error);
                    if !may_pass {
                        return None;
                    }
                    self.pause.wait().await;
                }
            }
        }
    }

    /// Makes one step: a read, the beginning of a stream, or something from it.
    async fn step(&mut self) -> Result<(), EtcdError> {
        let Some(stream) = &mut self.stream else { return self.read_on().await };
        match tokio::time::timeout(DOUBT_AFTER, stream.message()).await {
            Err(_) => {
                self.read().await?;
                Ok(())
            }
            Ok(Ok(Some(message))) => self.take(&message),
            Ok(Ok(None)) => {
                self.stream = None;
                Err(EtcdError::Unreachable { reason: "the watch has ended".to_owned() })
            }
            Ok(Err(error)) => Err(EtcdError::from_client(&error)),
        }
    }

    /// Reads what follows; where nothing does, follows from there.
    async fn read_on(&mut self) -> Result<(), EtcdError> {
        let revision = self.read().await?;
        if self.waiting.is_empty() {
            let options = WatchOptions::new()
                .with_range(self.session.keys.records_end())
                .with_start_revision(revision + 1)
                .with_filters([WatchFilterType::NoDelete])
                .with_fragment();
            let mut client = self.session.watch_client();
            let first = self.session.keys.record(LogIndex(0));
            let beginning = client.watch(first, Some(options));
            self.stream = Some(self.session.answered(beginning).await?);
        }
        Ok(())
    }

    /// Reads what follows, and returns the revision at which it was so.
    async fn read(&mut self) -> Result<i64, EtcdError> {
        let seen = self.session.look(self.at).await?;
        if seen.head < self.at {
            // This node has seen them in an earlier life of the process.
            return Err(EtcdError::WentBack { shown: seen.head, known: self.at });
        }
        if let Some(base) = seen.base.filter(|base| base.index > self.at) {
            let (index, state) = snapshot::load(&self.session, base).await?;
            self.push(Update::Snapshot { index, state });
        } else {
            for (index, Kept { record, .. }) in seen.records {
                self.push(Update::Record { index, record });
            }
        }
        Ok(seen.revision)
    }

    /// Takes what the stream has shown.
    fn take(&mut self, message: &WatchResponse) -> Result<(), EtcdError> {
        if message.canceled() {
            self.stream = None;
            if message.compact_revision() > 0 {
                // What is gone is in no stream; reading finds what counts.
                return Ok(());
            }
            let reason = format!("the watch was cancelled: {}", message.cancel_reason());
            return Err(EtcdError::Unreachable { reason });
        }
        for event in message.events() {
            let (EventType::Put, Some(kv)) = (event.event_type(), event.kv()) else { continue };
            let Some(index) = self.session.keys.index_of(kv.key()) else { continue };
            if index <= self.at {
                continue;
            }
            if index != self.at.next() {
                // Somebody writes here, or the stream left something out: what is there counts.
                self.stream = None;
                return Ok(());
            }
            let record = Session::parse(kv, Kept::from_value)?.record;
            self.push(Update::Record { index, record });
        }
        Ok(())
    }

    fn push(&mut self, update: Update) {
        self.at = update.index();
        self.waiting.push_back(update);
    }
}
