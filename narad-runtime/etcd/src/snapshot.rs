//! Snapshots: in parts, because etcd takes no long values, and in force by one transaction.

use bytes::{Bytes, BytesMut};
use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, Txn, TxnOp};
use narad_core::ids::LogIndex;

use crate::encoding::{Base, Tag};
use crate::error::EtcdError;
use crate::session::Session;

/// Length of a part, in bytes: below what etcd takes in one request.
const PART_BYTES: usize = 512 << 10;

/// Longest snapshot, in bytes.
const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

/// Reads a snapshot, or the one that has come in its place meanwhile.
pub(crate) async fn load(
    session: &Session,
    mut base: Base,
) -> Result<(LogIndex, Bytes), EtcdError> {
    loop {
        let missing = match parts(session, base).await? {
            Ok(state) => return Ok((base.index, state)),
            Err(missing) => missing,
        };
        // A newer snapshot deletes the parts of an older one.
        match session.look(base.index).await?.base {
            Some(newer) if newer.tag != base.tag => base = newer,
            _ => {
                let why = format!("it is a part of the snapshot of {} records", base.index);
                return Err(EtcdError::Missing { key: missing, why });
            }
        }
    }
}

/// Puts the parts together; or says which is missing.
async fn parts(session: &Session, base: Base) -> Result<Result<Bytes, String>, EtcdError> {
    let foreign = |reason: String| EtcdError::Foreign { key: session.keys.base(), reason };
    if base.bytes > SNAPSHOT_BYTES_MAX {
        return Err(foreign(format!("a snapshot has at most {SNAPSHOT_BYTES_MAX} bytes")));
    }
    let folder = session.keys.snapshot(base.index, &base.tag.to_string());
    let mut state = BytesMut::new();
    let mut part = 0;
    while u64::try_from(state.len()).unwrap_or(u64::MAX) < base.bytes {
        let key = part_key(&folder, part);
        let got = session.get(key.clone(), GetOptions::new()).await?;
        match got.kvs().first() {
            Some(kv) if !kv.value().is_empty() => state.extend_from_slice(kv.value()),
            _ => return Ok(Err(key)),
        }
        part += 1;
    }
    if crc32c::crc32c(&state) != base.crc32c {
        return Err(foreign("the parts of its snapshot have another checksum".to_owned()));
    }
    Ok(Ok(state.freeze()))
}

/// Keeps a snapshot and lets go of the records that it stands for. False if another one, or none,
/// stands for them afterwards.
pub(crate) async fn save(
    session: &Session,
    index: LogIndex,
    state: &Bytes,
) -> Result<bool, EtcdError> {
    let seen = session.look(index).await?;
    if index > seen.head
        || index == LogIndex(0)
        || seen.base.is_some_and(|base| base.index >= index)
    {
        return Ok(false);
    }
    let bytes = u64::try_from(state.len()).unwrap_or(u64::MAX);
    if bytes > SNAPSHOT_BYTES_MAX {
        let reason = format!("a snapshot of {bytes} bytes, of at most {SNAPSHOT_BYTES_MAX}");
        return Err(EtcdError::TooLarge { reason });
    }
    let tag = Tag::first().map_err(|error| EtcdError::Random { reason: error.to_string() })?;
    let folder = session.keys.snapshot(index, &tag.to_string());
    for (part, value) in state.chunks(PART_BYTES).enumerate() {
        let put = TxnOp::put(part_key(&folder, part), value, None);
        if let Err(error) = session.transact(Txn::new().and_then([put])).await {
            clear(session, &folder).await;
            return Err(error);
        }
    }
    let base = Base { index, tag, bytes, crc32c: crc32c::crc32c(state) };
    let answer = session.transact(enforce(session, base, seen.base_revision, &folder)).await;
    match answer {
        Ok(answer) if answer.succeeded() => Ok(true),
        Ok(_) => {
            clear(session, &folder).await;
            Ok(false)
        }
        Err(error) => {
            // It may be in force. If it is not, the next one clears its parts away.
            if error.is_certain() {
                clear(session, &folder).await;
            }
            Err(error)
        }
    }
}

/// The transaction that lets a snapshot stand for its records, unless another one has come first:
/// then the parts of this one may have been cleared away.
fn enforce(session: &Session, base: Base, seen_revision: i64, folder: &str) -> Txn {
    let keys = &session.keys;
    let range =
        |from: String, end: String| TxnOp::delete(from, Some(DeleteOptions::new().with_range(end)));
    Txn::new().when([Compare::mod_revision(keys.base(), CompareOp::Equal, seen_revision)]).and_then(
        [
            TxnOp::put(keys.base(), base.to_value(), None),
            range(keys.record(LogIndex(0)), keys.record(base.index.next())),
            range(keys.snapshots(), folder.to_owned()),
            range(end_of(folder), end_of(&keys.snapshots())),
        ],
    )
}

/// Deletes the parts of a snapshot that is not in force; if that fails, the next one does.
async fn clear(session: &Session, folder: &str) {
    let options = DeleteOptions::new().with_range(end_of(folder));
    let cleared = session.transact(Txn::new().and_then([TxnOp::delete(folder, Some(options))]));
    if let Err(error) = cleared.await {
        tracing::debug!(%error, folder, "the parts of a snapshot stay until the next one");
    }
}

fn part_key(folder: &str, part: usize) -> String {
    format!("{folder}{part:05}")
}

/// What follows everything in a folder, whose name ends with a slash.
fn end_of(folder: &str) -> String {
    format!("{}0", folder.trim_end_matches('/'))
}
