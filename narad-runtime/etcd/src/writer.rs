//! Puts proposals in order: several at once, each batch by one transaction, one batch at a time.

use std::sync::Arc;

use bytes::Bytes;
use etcd_client::ResponseHeader;
use narad_core::ids::LogIndex;
use narad_runtime::embed::{DECISION_BYTES_MAX, Proposed};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::encoding::Tag;
use crate::error::EtcdError;
use crate::session::{Part, Pause, Seen, Session};
use crate::view::{Plan, View};

/// Most records in one transaction: they leave room for rows.
const BATCH_RECORDS_MAX: usize = 32;

/// A record on its way, and who waits for its outcome.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) record: Bytes,
    pub(crate) outcome: oneshot::Sender<Proposed>,
    pub(crate) deadline: Instant,
}

/// What became of a batch.
#[derive(Debug)]
enum Verdict {
    /// It is in the sequence, from here on.
    Applied(LogIndex),
    /// It is not, and never will be.
    Rejected(EtcdError),
    /// Others came first until there was no more time; it is not, and never will be.
    Outrun,
    Unknown,
}

/// What became of one transaction that was not simply applied.
#[derive(Debug)]
enum Judged {
    Verdict(Verdict),
    /// Others came first: it never will be applied.
    Outrun,
}

/// The one task of a metastore.
#[derive(Debug)]
pub(crate) struct Writer {
    session: Arc<Session>,
    inbox: mpsc::Receiver<Proposal>,
    view: View,
    tag: Tag,
    pause: Pause,
}

impl Writer {
    pub(crate) fn new(
        session: Arc<Session>,
        inbox: mpsc::Receiver<Proposal>,
        tag: Tag,
        writes_rows: bool,
    ) -> Self {
        let pause = Pause::new(u64::try_from(tag.0 >> 64).unwrap_or_default());
        Self { session, inbox, view: View::new(writes_rows), tag, pause }
    }

    /// Decides until nobody can propose any more.
    pub(crate) async fn run(mut self) {
        let mut over = None;
        loop {
            let first = match over.take() {
                Some(proposal) => proposal,
                None => match self.inbox.recv().await {
                    Some(proposal) => proposal,
                    None => return,
                },
            };
            let batch = self.gather(first, &mut over);
            self.decide(batch).await;
            while over.is_none() && self.inbox.is_empty() && self.view.has_leftovers() {
                if let Err(error) = self.view.mend(&self.session).await {
                    self.view.doubt();
                    tracing::debug!(%error, "rows for people are written later");
                    break;
                }
            }
        }
    }

    /// Takes what waits beside the first one, as much as goes into a transaction.
    fn gather(&mut self, first: Proposal, over: &mut Option<Proposal>) -> Vec<Proposal> {
        let mut bytes = first.record.len();
        let mut batch = vec![first];
        while batch.len() < BATCH_RECORDS_MAX {
            let Ok(proposal) = self.inbox.try_recv() else { break };
            bytes += proposal.record.len();
            if bytes > DECISION_BYTES_MAX {
                *over = Some(proposal);
                break;
            }
            batch.push(proposal);
        }
        // Who no longer waits has been told that the outcome is unknown; the record was never sent.
        batch.retain(|proposal| !proposal.outcome.is_closed());
        batch
    }

    async fn decide(&mut self, batch: Vec<Proposal>) {
        let Some(deadline) = batch.iter().map(|proposal| proposal.deadline).max() else { return };
        let records: Vec<Bytes> = batch.iter().map(|proposal| proposal.record.clone()).collect();
        let verdict = self.place(&records, deadline).await;
        self.pause.reset();
        let outcome = |place| match &verdict {
            Verdict::Applied(first) => Proposed::Applied(LogIndex(first.0 + place)),
            Verdict::Rejected(error) => Proposed::Rejected { reason: error.to_string() },
            Verdict::Outrun => Proposed::Rejected {
                reason: "other nodes' records came first until there was no more time".to_owned(),
            },
            Verdict::Unknown => Proposed::Unknown,
        };
        for (proposal, place) in batch.into_iter().zip(0..) {
            // Who no longer waits needs no answer.
            drop(proposal.outcome.send(outcome(place)));
        }
        match verdict {
            Verdict::Applied(_) | Verdict::Outrun => self.session.is_well(Part::Deciding),
            Verdict::Rejected(error) => self.session.is_ill(Part::Deciding, error),
            Verdict::Unknown => {}
        }
    }

    /// Finds the records their place.
    async fn place(&mut self, records: &[Bytes], deadline: Instant) -> Verdict {
        let mut outrun: u32 = 0;
        loop {
            if let Err(error) = self.view.catch_up(&self.session).await {
                // Nothing of it has been sent.
                if !error.may_pass() {
                    return Verdict::Rejected(error);
                }
                self.session.is_ill(Part::Deciding, error);
                if !self.pause.until(deadline).await {
                    return Verdict::Unknown;
                }
                continue;
            }
            self.tag = self.tag.next();
            let plan = self.view.plan(&self.session, records, self.tag);
            match self.send(plan, deadline).await {
                Judged::Verdict(verdict) => return verdict,
                Judged::Outrun => {}
            }
            outrun += 1;
            // Once is what happens; twice in a row, somebody is just as fast.
            if Instant::now() >= deadline || (outrun > 1 && !self.pause.until(deadline).await) {
                return Verdict::Outrun;
            }
        }
    }

    /// Sends a transaction until it is known what became of it.
    async fn send(&mut self, plan: Plan, deadline: Instant) -> Judged {
        // Whether one that was sent may still be applied.
        let mut is_open = false;
        loop {
            let before = self.session.furthest();
            let error = match self.session.transact(plan.txn.clone()).await {
                Ok(answer) if answer.succeeded() => {
                    let (first, revision) =
                        (plan.first, answer.header().map(ResponseHeader::revision));
                    self.view.advance(&self.session, plan, revision);
                    return Judged::Verdict(Verdict::Applied(first));
                }
                Ok(answer) => match self.session.seen(self.view.index, before, &answer) {
                    Ok(seen) => return self.judge(&plan, seen, is_open).await,
                    Err(error) => return self.fail(error, is_open),
                },
                Err(error) => error,
            };
            if matches!(error, EtcdError::Full { .. }) {
                // The one that exceeds the quota is applied all the same: the sequence tells.
                match self.session.look(self.view.index).await {
                    Ok(seen) if seen.head >= plan.first => {
                        return self.judge(&plan, seen, is_open).await;
                    }
                    Ok(_) if !is_open => return self.fail(error, false),
                    Ok(_) => {}
                    Err(_) => is_open = true,
                }
            } else if error.is_certain() && !is_open {
                return self.fail(error, false);
            } else if !error.is_certain() {
                is_open = true;
            }
            self.session.is_ill(Part::Deciding, error);
            if !self.pause.until(deadline).await {
                self.view.doubt();
                return Judged::Verdict(Verdict::Unknown);
            }
        }
    }

    /// Judges a transaction by what the sequence has at its place: its own records, because an earlier
    /// sending was applied, or those of others, and then it never can be.
    async fn judge(&mut self, plan: &Plan, seen: Seen, is_open: bool) -> Judged {
        let place = seen.records.iter().find(|(index, _)| *index == plan.first);
        let is_gone = seen.base.is_some_and(|base| base.index >= plan.first);
        let verdict = match place {
            Some((_, kept)) if kept.tag == plan.tag => Some(Verdict::Applied(plan.first)),
            // A snapshot has taken its place already.
            None if is_gone && is_open => Some(Verdict::Unknown),
            Some(_) | None => None,
        };
        if self.view.take(&self.session, seen).await.is_err() {
            self.view.doubt();
        }
        verdict.map_or(Judged::Outrun, Judged::Verdict)
    }

    /// Ends with an error: a promise, unless an earlier sending is open.
    fn fail(&mut self, error: EtcdError, is_open: bool) -> Judged {
        self.view.doubt();
        if is_open {
            self.session.is_ill(Part::Deciding, error);
            return Judged::Verdict(Verdict::Unknown);
        }
        Judged::Verdict(Verdict::Rejected(error))
    }
}
