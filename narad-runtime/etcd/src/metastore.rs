//! The metastore itself: its three outcomes, its barrier, its watch.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::LogIndex;
use narad_runtime::embed::{DECISION_BYTES_MAX, Metastore, Proposed, Watch};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::builder::Builder;
use crate::encoding::Tag;
use crate::error::EtcdError;
use crate::session::{Part, Pause, Session};
use crate::snapshot;
use crate::watch::EtcdWatch;
use crate::writer::{Proposal, Writer};

/// Proposals that wait for the writer; more wait outside.
const WAITING_MAX: usize = 1024;

/// The decisions of one cluster, in etcd.
///
/// Every node has one of its own. The [crate docs](crate) tell how it works and what it asks of etcd.
/// What is wrong with etcd, if anything, is told by [`EtcdMetastore::trouble`], and by one warning when
/// it begins; a metastore goes on by itself once etcd does.
#[derive(Debug)]
pub struct EtcdMetastore {
    session: Arc<Session>,
    writer: mpsc::Sender<Proposal>,
    /// What sets this metastore's pauses apart from others'.
    seed: u64,
}

impl EtcdMetastore {
    /// Begins to set up a metastore over an etcd with these members, each like `http://10.0.0.1:2379`.
    pub fn builder<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Builder {
        Builder::new(endpoints.into_iter().map(Into::into).collect())
    }

    pub(crate) async fn over(session: Session, writes_rows: bool) -> Result<Self, EtcdError> {
        let session = Arc::new(session);
        let tag = Tag::first().map_err(|error| EtcdError::Random { reason: error.to_string() })?;
        // The upper half is the random one.
        let seed = u64::try_from(tag.0 >> 64).unwrap_or_default();
        let deadline = Instant::now() + session.patience;
        let mut pause = Pause::new(seed);
        while let Err(error) = session.look(LogIndex(0)).await {
            // A member that has just started may not know its leader yet.
            if !error.may_pass() || !pause.until(deadline).await {
                return Err(error);
            }
        }
        let (writer, inbox) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Writer::new(Arc::clone(&session), inbox, tag, writes_rows).run());
        Ok(Self { session, writer, seed })
    }

    /// Returns how many records are decided, by a read that is no older than this call.
    ///
    /// # Errors
    ///
    /// If etcd does not answer, or shows what cannot be.
    pub async fn head(&self) -> Result<LogIndex, EtcdError> {
        self.session.head().await
    }

    /// Returns what is wrong with etcd at the moment, as far as anything has been asked of it.
    pub fn trouble(&self) -> Option<Arc<EtcdError>> {
        self.session.trouble()
    }
}

#[async_trait]
impl Metastore for EtcdMetastore {
    async fn propose(&self, record: Bytes) -> Proposed {
        if record.len() > DECISION_BYTES_MAX {
            let reason = format!(
                "a record has at most {DECISION_BYTES_MAX} bytes, this one has {}",
                record.len()
            );
            return Proposed::Rejected { reason };
        }
        let deadline = Instant::now() + self.session.patience;
        let (outcome, decided) = oneshot::channel();
        let proposal = Proposal { record, outcome, deadline };
        let proposing = async {
            self.writer.send(proposal).await.ok()?;
            decided.await.ok()
        };
        // The writer goes by the same deadline, and is given a moment to say what it knows.
        let patience = deadline + self.session.request_timeout;
        tokio::time::timeout_at(patience, proposing)
            .await
            .ok()
            .flatten()
            .unwrap_or(Proposed::Unknown)
    }

    async fn barrier(&self) -> Option<LogIndex> {
        let deadline = Instant::now() + self.session.patience;
        let mut pause = Pause::new(self.seed);
        loop {
            match self.session.head().await {
                Ok(index) => {
                    self.session.is_well(Part::Deciding);
                    return Some(index);
                }
                Err(error) => {
                    let may_pass = error.may_pass();
                    self.session.is_ill(Part::Deciding, error);
                    if !may_pass || !pause.until(deadline).await {
                        return None;
                    }
                }
            }
        }
    }

    async fn watch(&self, after: LogIndex) -> Box<dyn Watch> {
        Box::new(EtcdWatch::new(Arc::clone(&self.session), after, self.seed))
    }

    async fn compact(&self, index: LogIndex, state: Bytes) {
        match snapshot::save(&self.session, index, &state).await {
            Ok(true) => tracing::debug!(%index, "a snapshot stands for the records before"),
            // Another node's snapshot is as good, and there will be another offer.
            Ok(false) => {}
            Err(error) => tracing::warn!(%index, %error, "a snapshot could not be kept in etcd"),
        }
    }
}
