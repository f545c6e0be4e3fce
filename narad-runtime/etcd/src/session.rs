//! One connection to etcd, and what is read over it.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, GetOptions, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use narad_core::ids::LogIndex;
use tokio::time::Instant;

use crate::encoding::{Base, Head, Kept};
use crate::error::EtcdError;
use crate::keys::Keys;

/// Largest answer that is taken, in bytes: a page of the longest records, with room.
const ANSWER_BYTES_MAX: usize = 96 << 20;

/// Records that are read at once.
pub(crate) const PAGE: usize = 64;

/// What the parts of a metastore share.
pub(crate) struct Session {
    pub(crate) keys: Keys,
    client: Client,
    /// Longest wait for one answer.
    pub(crate) request_timeout: Duration,
    /// Longest wait for an outcome.
    pub(crate) patience: Duration,
    /// The furthest head that etcd has shown, so that it cannot go back unnoticed.
    furthest: Mutex<Option<Head>>,
    /// What is wrong now, with each [`Part`].
    trouble: Mutex<[Option<Arc<EtcdError>>; 2]>,
}

/// What goes well or ill apart from the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Proposals and barriers.
    Deciding = 0,
    /// Watches.
    Watching = 1,
}

/// What is under the prefix, at one revision: the head, the base, and a page of records.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The revision of etcd at which all of it was so.
    pub(crate) revision: i64,
    /// The last record; 0 if nothing was ever decided.
    pub(crate) head: LogIndex,
    /// The revision of the head; 0 if there is none.
    pub(crate) head_revision: i64,
    pub(crate) base: Option<Base>,
    /// The revision of the base; 0 if there is none.
    pub(crate) base_revision: i64,
    /// What follows the index that was asked for, without gaps; at most [`PAGE`] of them.
    pub(crate) records: Vec<(LogIndex, Kept)>,
}

impl Session {
    pub(crate) async fn connect(
        keys: Keys,
        endpoints: &[String],
        options: ConnectOptions,
        request_timeout: Duration,
        patience: Duration,
    ) -> Result<Self, EtcdError> {
        let connecting = Client::connect(endpoints, Some(options));
        // A user is authenticated here, which needs a server.
        let client = tokio::time::timeout(patience, connecting)
            .await
            .map_err(|_| silent(patience))?
            .map_err(|error| EtcdError::from_client(&error))?;
        let (furthest, trouble) = Default::default();
        Ok(Self { keys, client, request_timeout, patience, furthest, trouble })
    }

    /// Reads the head: a linearizable read, so no older than the call.
    pub(crate) async fn head(&self) -> Result<LogIndex, EtcdError> {
        let before = self.furthest();
        let mut kv = self.client.kv_client();
        let got = self.answered(kv.get(self.keys.head(), None)).await?;
        let head = got.kvs().first().map(|kv| Self::parse(kv, Head::from_value)).transpose()?;
        self.note(head, before)
    }

    /// Reads the head, the base and what follows `after`, all as of one revision, not older than the
    /// call.
    pub(crate) async fn look(&self, after: LogIndex) -> Result<Seen, EtcdError> {
        let before = self.furthest();
        let txn = Txn::new().and_then(self.looking(after));
        self.seen(after, before, &self.transact(txn).await?)
    }

    /// Returns the operations whose answers [`Session::seen`] takes.
    pub(crate) fn looking(&self, after: LogIndex) -> Vec<TxnOp> {
        let page = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let range = GetOptions::new().with_range(self.keys.records_end()).with_limit(page);
        vec![
            TxnOp::get(self.keys.head(), None),
            TxnOp::get(self.keys.base(), None),
            TxnOp::get(self.keys.record(after.next()), Some(range)),
        ]
    }

    /// Sends a transaction, once.
    pub(crate) async fn transact(&self, txn: Txn) -> Result<TxnResponse, EtcdError> {
        let mut kv = self.client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        self.answered(kv.txn(txn)).await
    }

    /// Reads a range of keys, or one.
    pub(crate) async fn get(
        &self,
        key: String,
        options: GetOptions,
    ) -> Result<GetResponse, EtcdError> {
        let mut kv = self.client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        self.answered(kv.get(key, Some(options))).await
    }

    pub(crate) fn watch_client(&self) -> etcd_client::WatchClient {
        self.client.watch_client().max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    /// Waits for an answer, but not for ever.
    pub(crate) async fn answered<T>(
        &self,
        asking: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        tokio::time::timeout(self.request_timeout, asking)
            .await
            .map_err(|_| silent(self.request_timeout))?
            .map_err(|error| EtcdError::from_client(&error))
    }

    /// Takes what the operations of [`Session::looking`] have found. `before` is what was
    /// [known](Session::furthest) when they were sent.
    pub(crate) fn seen(
        &self,
        after: LogIndex,
        before: Option<Head>,
        answer: &TxnResponse,
    ) -> Result<Seen, EtcdError> {
        let strange = || EtcdError::Unreachable {
            reason: "the answer to a transaction has other parts than the question".to_owned(),
        };
        let mut parts = answer.op_responses().into_iter().map(|part| match part {
            TxnOpResponse::Get(mut got) => Ok(got.take_kvs()),
            TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => {
                Err(strange())
            }
        });
        let mut next = || parts.next().unwrap_or_else(|| Err(strange()));
        let (head, base, records) = (next()?, next()?, next()?);
        let revision = answer.header().ok_or_else(strange)?.revision();

        let head_revision = head.first().map_or(0, KeyValue::mod_revision);
        let head = head.first().map(|kv| Self::parse(kv, Head::from_value)).transpose()?;
        let base_revision = base.first().map_or(0, KeyValue::mod_revision);
        let base = base.first().map(|kv| Self::parse(kv, Base::from_value)).transpose()?;
        let head = self.note(head, before)?;
        if let Some(base) = base.filter(|base| base.index > head) {
            let why = format!("a snapshot stands for {} records", base.index);
            return Err(EtcdError::Missing { key: self.keys.head(), why });
        }
        let records = self.contiguous(after, head, base, &records)?;
        Ok(Seen { revision, head, head_revision, base, base_revision, records })
    }

    /// Returns the records that follow `after`, if they are all there.
    fn contiguous(
        &self,
        after: LogIndex,
        head: LogIndex,
        base: Option<Base>,
        found: &[KeyValue],
    ) -> Result<Vec<(LogIndex, Kept)>, EtcdError> {
        let floor = base.map_or(LogIndex(0), |base| base.index);
        let (mut records, mut due) = (Vec::new(), after.max(floor).next());
        let mut stranger = None;
        for kv in found {
            // A key that is no record's is nobody's business, unless it takes up all the room.
            let Some(index) = self.keys.index_of(kv.key()) else {
                stranger = Some(kv);
                continue;
            };
            if index <= floor {
                continue;
            }
            if index > head {
                let reason = format!("only {head} records are decided");
                return Err(EtcdError::Foreign { key: self.keys.record(index), reason });
            }
            if index != due {
                break;
            }
            records.push((index, Self::parse(kv, Kept::from_value)?));
            due = due.next();
        }
        // A page may end early, but not before its first record.
        if records.is_empty() && due <= head && after >= floor {
            return Err(match stranger {
                Some(kv) if found.len() >= PAGE => EtcdError::Foreign {
                    key: String::from_utf8_lossy(kv.key()).into_owned(),
                    reason: "it stands between the records".to_owned(),
                },
                _ => {
                    let why = format!("{head} records are decided");
                    EtcdError::Missing { key: self.keys.record(due), why }
                }
            });
        }
        Ok(records)
    }

    /// Reads a value, or names its key.
    pub(crate) fn parse<T>(
        kv: &KeyValue,
        read: impl FnOnce(&[u8]) -> Result<T, &'static str>,
    ) -> Result<T, EtcdError> {
        read(kv.value()).map_err(|reason| EtcdError::Foreign {
            key: String::from_utf8_lossy(kv.key()).into_owned(),
            reason: reason.to_owned(),
        })
    }

    /// Returns the furthest head that etcd has shown; to be asked before anything is sent.
    pub(crate) fn furthest(&self) -> Option<Head> {
        *self.furthest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a head, unless it contradicts what was known before it was asked for.
    fn note(&self, shown: Option<Head>, before: Option<Head>) -> Result<LogIndex, EtcdError> {
        let index = shown.map_or(LogIndex(0), |head| head.index);
        if let Some(known) = before {
            let is_other = shown.is_none_or(|head| head.tag != known.tag);
            if index < known.index || (index == known.index && is_other) {
                return Err(EtcdError::WentBack { shown: index, known: known.index });
            }
        }
        if let Some(head) = shown {
            self.remember(head);
        }
        Ok(index)
    }

    /// Remembers a head, if it is further than those before.
    pub(crate) fn remember(&self, head: Head) {
        let mut furthest = self.furthest.lock().unwrap_or_else(PoisonError::into_inner);
        if furthest.is_none_or(|known| known.index < head.index) {
            *furthest = Some(head);
        }
    }

    /// Says that etcd is as it should be.
    pub(crate) fn is_well(&self, part: Part) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble[part as usize].take().is_some() {
            tracing::info!(prefix = self.keys.prefix(), ?part, "etcd can be used again");
        }
    }

    /// Says what is wrong; in the log once, as long as it stays the same.
    pub(crate) fn is_ill(&self, part: Part, error: EtcdError) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let known = trouble[part as usize].replace(Arc::new(error));
        let Some(error) = &trouble[part as usize] else { return };
        let kind = std::mem::discriminant(error.as_ref());
        if known.is_none_or(|known| std::mem::discriminant(known.as_ref()) != kind) {
            tracing::warn!(prefix = self.keys.prefix(), ?part, %error, "etcd cannot be used");
        }
    }

    /// Returns what is wrong.
    pub(crate) fn trouble(&self) -> Option<Arc<EtcdError>> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.iter().flatten().next().cloned()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("prefix", &self.keys.prefix()).finish_non_exhaustive()
    }
}

fn silent(waited: Duration) -> EtcdError {
    EtcdError::Unreachable { reason: format!("no answer within {} ms", waited.as_millis()) }
}

/// Waits between tries: short at first, longer later, and never the same as somebody else.
#[derive(Debug)]
pub(crate) struct Pause {
    next: Duration,
    seed: u64,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(5);
    const LAST: Duration = Duration::from_millis(500);

    pub(crate) fn new(seed: u64) -> Self {
        Self { next: Self::FIRST, seed: seed | 1 }
    }

    pub(crate) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// Waits. False if the deadline is over.
    pub(crate) async fn until(&mut self, deadline: Instant) -> bool {
        tokio::time::sleep(self.step()).await;
        Instant::now() < deadline
    }

    /// Waits.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.step()).await;
    }

    fn step(&mut self) -> Duration {
        // xorshift64: only to keep two nodes apart.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let base = self.next;
        self.next = (self.next * 2).min(Self::LAST);
        let percent = u32::try_from(self.seed % 100).unwrap_or_default();
        base / 2 + base * percent / 100
    }
}
