//! What a writer knows of the sequence, and the transactions that it builds on that.

use std::collections::BTreeSet;

use bytes::Bytes;
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use narad_core::ids::LogIndex;
use narad_runtime::embed::Ledger;

use crate::encoding::{Head, Kept, Tag};
use crate::error::EtcdError;
use crate::rows::{self, Row};
use crate::session::{Seen, Session};
use crate::snapshot;

/// Most operations in one transaction: etcd takes 128.
const OPERATIONS_MAX: usize = 120;

/// How far the sequence had come when it was last looked at.
#[derive(Debug)]
pub(crate) struct View {
    /// The last record.
    pub(crate) index: LogIndex,
    /// The revision of the head that says so, if it is known to.
    head_revision: Option<i64>,
    /// The fold up to there; nothing if no rows are written, or a record cannot be folded.
    ledger: Option<Ledger>,
    /// Rows that are not what they should be.
    dirty: BTreeSet<Row>,
    /// Whether the rows that an earlier process left were looked at.
    has_compared: bool,
}

/// A transaction that puts records, to be sent until it is known what became of it.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) txn: Txn,
    pub(crate) tag: Tag,
    pub(crate) first: LogIndex,
    last: LogIndex,
    /// The fold with the records.
    ledger: Option<Ledger>,
    /// Rows that are not right yet when they are written.
    dirty: BTreeSet<Row>,
}

impl View {
    pub(crate) fn new(writes_rows: bool) -> Self {
        Self {
            index: LogIndex(0),
            head_revision: None,
            ledger: writes_rows.then(Ledger::new),
            dirty: BTreeSet::new(),
            has_compared: false,
        }
    }

    /// Whether it is up to date, as far as is known.
    pub(crate) const fn is_current(&self) -> bool {
        self.head_revision.is_some()
    }

    /// Has it looked at again before it is built on.
    pub(crate) fn doubt(&mut self) {
        self.head_revision = None;
    }

    /// Reads what has come, until nothing more does.
    pub(crate) async fn catch_up(&mut self, session: &Session) -> Result<(), EtcdError> {
        while !self.is_current() {
            let seen = session.look(self.index).await?;
            self.take(session, seen).await?;
        }
        Ok(())
    }

    /// Takes what follows.
    pub(crate) async fn take(&mut self, session: &Session, seen: Seen) -> Result<(), EtcdError> {
        self.head_revision = None;
        if self.ledger.is_none() {
            self.index = seen.head;
        } else if let Some(base) = seen.base.filter(|base| base.index > self.index) {
            let (index, state) = snapshot::load(session, base).await?;
            match Ledger::from_bytes(&state) {
                Ok(ledger) if ledger.index() == index => self.ledger = Some(ledger),
                Ok(_) => self.give_up(&"the snapshot is of another place"),
                Err(error) => self.give_up(&error),
            }
            self.index = index;
            return Ok(());
        } else {
            for (index, kept) in seen.records {
                self.fold(&kept.record);
                self.index = index;
            }
        }
        if self.index == seen.head {
            self.head_revision = Some(seen.head_revision);
        }
        Ok(())
    }

    fn fold(&mut self, record: &[u8]) {
        if let Some(Err(error)) = self.ledger.as_mut().map(|ledger| ledger.fold(record)) {
            self.give_up(&error);
        }
    }

    /// Goes on without rows: the records themselves are nobody's concern here.
    fn give_up(&mut self, why: &dyn std::fmt::Display) {
        tracing::warn!(index = %self.index, %why, "rows for people are no longer written from here");
        self.ledger = None;
        self.dirty.clear();
    }

    /// Builds the transaction that puts these records next. The view is current.
    pub(crate) fn plan(&self, session: &Session, records: &[Bytes], tag: Tag) -> Plan {
        let keys = &session.keys;
        let first = self.index.next();
        let mut ledger = self.ledger.clone();
        let mut dirty = self.dirty.clone();
        let (mut puts, mut last) = (Vec::with_capacity(OPERATIONS_MAX), self.index);
        for record in records {
            last = last.next();
            puts.push(TxnOp::put(keys.record(last), Kept::value(tag, record), None));
            let folded = ledger.as_mut().map(|ledger| ledger.fold(record));
            match (folded, &self.ledger, &ledger) {
                (Some(Ok((_, folded))), Some(before), Some(after)) => {
                    dirty.extend(rows::changed(before.state(), after.state(), &folded));
                }
                (Some(Err(_)), _, _) => ledger = None,
                _ => {}
            }
        }
        puts.push(TxnOp::put(keys.head(), Head { index: last, tag }.to_value(), None));
        if let Some(ledger) = &ledger {
            let room = OPERATIONS_MAX.saturating_sub(puts.len());
            let written: Vec<Row> = dirty.iter().take(room).cloned().collect();
            for row in written {
                puts.push(put(session, ledger, &row));
                dirty.remove(&row);
            }
        }
        let is_next = [
            self.is_unmoved(session),
            // Somebody else's key is not written over.
            Compare::create_revision(keys.record(first), CompareOp::Equal, 0),
        ];
        let txn = Txn::new().when(is_next).and_then(puts).or_else(session.looking(self.index));
        Plan { txn, tag, first, last, ledger, dirty }
    }

    /// What a transaction asks for that is built on this view.
    fn is_unmoved(&self, session: &Session) -> Compare {
        let revision = self.head_revision.unwrap_or_default();
        Compare::mod_revision(session.keys.head(), CompareOp::Equal, revision)
    }

    /// Goes on from a transaction that was applied, at this revision.
    pub(crate) fn advance(&mut self, session: &Session, plan: Plan, revision: Option<i64>) {
        session.remember(Head { index: plan.last, tag: plan.tag });
        if self.ledger.is_some() && plan.ledger.is_none() {
            self.index = plan.last;
            self.give_up(&"a record that is none of Narad's");
        }
        self.index = plan.last;
        self.head_revision = revision;
        self.ledger = plan.ledger;
        self.dirty = plan.dirty;
    }

    /// Whether there are rows to be [mended](View::mend).
    pub(crate) fn has_leftovers(&self) -> bool {
        self.ledger.is_some() && (!self.has_compared || !self.dirty.is_empty())
    }

    /// Writes some of the rows that no transaction had room for, or that an earlier process left.
    pub(crate) async fn mend(&mut self, session: &Session) -> Result<(), EtcdError> {
        self.catch_up(session).await?;
        let Some(ledger) = &self.ledger else { return Ok(()) };
        if !self.has_compared {
            self.dirty.extend(differing(session, ledger).await?);
            self.has_compared = true;
        }
        let rows: Vec<Row> = self.dirty.iter().take(OPERATIONS_MAX).cloned().collect();
        if rows.is_empty() {
            return Ok(());
        }
        let puts: Vec<_> = rows.iter().map(|row| put(session, ledger, row)).collect();
        let before = session.furthest();
        let txn = Txn::new()
            .when([self.is_unmoved(session)])
            .and_then(puts)
            .or_else(session.looking(self.index));
        let answer = session.transact(txn).await?;
        if answer.succeeded() {
            for row in &rows {
                self.dirty.remove(row);
            }
            return Ok(());
        }
        let seen = session.seen(self.index, before, &answer)?;
        self.take(session, seen).await
    }
}

/// What makes a row right: a put, or its removal.
fn put(session: &Session, ledger: &Ledger, row: &Row) -> TxnOp {
    let key = row.key(&session.keys);
    match row.value(ledger) {
        Some(value) => TxnOp::put(key, value, None),
        None => TxnOp::delete(key, None),
    }
}

/// Returns the rows in etcd that are not as they should be, and those that are not there.
///
/// What it reads may be newer than the ledger; such rows are written once more than needed, and what is
/// written is right, since it is written only where nothing has come after the ledger.
async fn differing(session: &Session, ledger: &Ledger) -> Result<BTreeSet<Row>, EtcdError> {
    const ROWS: i64 = 1000;
    let keys = &session.keys;
    let mut differing = rows::all(ledger);
    for folder in [keys.assignments(), keys.members(), keys.topics(), keys.leader()] {
        // `leader` is one key, and nothing else begins like it.
        let end = format!("{}0", folder.trim_end_matches('/'));
        let mut from = folder;
        loop {
            let range = GetOptions::new().with_range(end.clone()).with_limit(ROWS);
            let got = session.get(from, range).await?;
            for kv in got.kvs() {
                let Some(row) = Row::of_key(keys, kv.key()) else { continue };
                if row.value(ledger).is_some_and(|value| value.as_bytes() == kv.value()) {
                    differing.remove(&row);
                } else {
                    differing.insert(row);
                }
            }
            let Some(last) = got.kvs().last().filter(|_| got.more()) else { break };
            // The least key after the last one. Ours are text; a stranger's ends the page.
            let Ok(last) = std::str::from_utf8(last.key()) else { break };
            from = format!("{last}\0");
        }
    }
    Ok(differing)
}
