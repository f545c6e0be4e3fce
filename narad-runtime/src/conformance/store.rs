//! The battery for stores.

mod crash;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::Offset;

use super::{Report, Violation};
use crate::embed::{
    Kept, LOG_NAME_BYTES_MAX, PartitionStore, RECORD_BYTES_MAX, StoreFault, is_own,
};

/// What the battery needs of an embedder to try a store.
#[async_trait]
pub trait StoreRig: Send + Sync {
    /// Begins anew, with an empty medium.
    async fn fresh(&self);

    /// Opens the store on the medium as it is. What was opened before is not used any more.
    async fn open(&self) -> Arc<dyn PartitionStore>;

    /// Cuts the power: what is not durable is gone, and what was opened before is dead. The battery has
    /// dropped it by now; a call that goes on behind a dropped future is to be waited for, or cut off.
    async fn power_loss(&self);

    /// Has the power cut itself within one of the next calls: before its write to the medium with this
    /// number, counted from 0. From then on every call of what is open fails, until
    /// [`power_loss`](Self::power_loss). `false` (the default) if the rig cannot do that.
    async fn power_loss_at(&self, write: u64) -> bool {
        let _ = write;
        false
    }

    /// Has the medium go bad: one bit or more of the bytes in which it keeps this record of this log is
    /// another one from now on. Called after [`power_loss`](Self::power_loss), while nothing is open; no
    /// other log has a record of the same bytes. `false` (the default) if the rig cannot do that.
    async fn rot(&self, log: &str, record: &Bytes) -> bool {
        let _ = (log, record);
        false
    }
}

const DURABLE: &str = "durable on return";
const SHOWN: &str = "only what is durable is shown";
const PREFIX: &str = "a failed append leaves a prefix";
const NAMES: &str = "names are never replaced";
const OPENING: &str = "opening never creates";
const RECORDS: &str = "records come back as they were appended";
const DAMAGED: &str = "what is damaged is reported, neither shown nor left out";
const ATOMIC: &str = "the old one or the new one is there after a crash";

/// Tries a store. Ends with the first broken rule.
///
/// # Errors
///
/// The rule, with what was done.
pub async fn store(rig: &dyn StoreRig) -> Result<Report, Violation> {
    let mut report = Report::default();
    basics(rig, &mut report).await?;
    names(rig, &mut report).await?;
    sizes(rig, &mut report).await?;
    together(rig, &mut report).await?;
    crash::survives(rig, &mut report).await?;
    crash::overwritten(rig, &mut report).await?;
    crash::abandoned(rig, &mut report).await?;
    crash::recreated(rig, &mut report).await?;
    crash::crashes(rig, &mut report).await?;
    crash::rots(rig, &mut report).await?;
    Ok(report)
}

fn records(numbers: std::ops::Range<u64>) -> Vec<Bytes> {
    numbers.map(|n| Bytes::from(format!("record {n} {}", "x".repeat((n % 7) as usize)))).collect()
}

/// Everything that a log has.
async fn content(
    store: &dyn PartitionStore,
    log: &str,
) -> Result<Option<(Kept, Vec<Bytes>)>, StoreFault> {
    let Some(kept) = store.open(log).await? else { return Ok(None) };
    let mut all = Vec::new();
    loop {
        let from = Offset(kept.start.0 + all.len() as u64);
        let read = store.read(log, from, 1000).await?;
        if read.is_empty() {
            return Ok(Some((kept, all)));
        }
        all.extend(read);
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be there or not")]
fn log(start: u64, records: Vec<Bytes>, note: &str) -> Option<(Kept, Vec<Bytes>)> {
    let end = Offset(start + records.len() as u64);
    Some((Kept { start: Offset(start), end, note: note.to_owned().into() }, records))
}

async fn basics(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let store = rig.open().await;
    let name = "p/1-0/m0-n1-i0-a0";
    report.same(&store.list().await, &Ok(Vec::new()), RECORDS, "listing an empty store")?;
    report.same(&store.open(name).await, &Ok(None), OPENING, "opening a log that is not there")?;
    report.same(&store.open(name).await, &Ok(None), OPENING, "opening it a second time")?;
    report.same(&store.list().await, &Ok(Vec::new()), OPENING, "listing after an opening")?;
    let start = Offset(1 << 44);
    let made = store.create(name, start, Bytes::from_static(b"n")).await;
    report.same(&made, &Ok(()), RECORDS, "creating a log")?;
    let empty = log(start.0, Vec::new(), "n");
    report.same(&content(&*store, name).await, &Ok(empty), RECORDS, "reading an empty log")?;
    let again = store.create(name, Offset(0), Bytes::new()).await;
    let taken = StoreFault::Exists { log: name.to_owned() };
    report.same(&again, &Err(taken.clone()), NAMES, "creating a log that is there")?;

    let mut all = Vec::new();
    for count in [1, 2, 40] {
        let at = Offset(start.0 + all.len() as u64);
        let next = records(all.len() as u64..all.len() as u64 + count);
        let appended = store.append(name, at, &next).await;
        report.same(&appended, &Ok(()), RECORDS, "appending")?;
        all.extend(next);
        let there = log(start.0, all.clone(), "n");
        report.same(
            &content(&*store, name).await,
            &Ok(there),
            RECORDS,
            "reading what was appended",
        )?;
    }
    let end = Offset(start.0 + all.len() as u64);
    for at in [start, Offset(end.0 - 1), end.next()] {
        let appended = store.append(name, at, &records(0..2)).await;
        let refused = StoreFault::NotAtEnd { log: name.to_owned(), end, at };
        report.same(&appended, &Err(refused), RECORDS, "appending elsewhere than at the end")?;
    }
    let there = log(start.0, all.clone(), "n");
    report.same(&content(&*store, name).await, &Ok(there), RECORDS, "a refused append")?;
    ranges(&*store, name, start, &all, report).await?;

    let cut = store.cut(name, Offset(start.0 + 5)).await;
    report.same(&cut, &Ok(()), RECORDS, "cutting")?;
    all.truncate(5);
    let next = records(100..103);
    let appended = store.append(name, Offset(start.0 + 5), &next).await;
    report.same(&appended, &Ok(()), RECORDS, "appending after a cut")?;
    all.extend(next);
    for note in ["another note, and a longer one", "short", "", "another note"] {
        let noted = store.write_note(name, Bytes::from_static(note.as_bytes())).await;
        report.same(&noted, &Ok(()), RECORDS, "noting")?;
        let kept = store.open(name).await.map(|kept| kept.map(|kept| kept.note));
        report.same(&kept, &Ok(Some(note.into())), RECORDS, "a note in the place of another")?;
    }
    let there = log(start.0, all, "another note");
    report.same(&content(&*store, name).await, &Ok(there), RECORDS, "after a cut and a note")?;
    report.same(&store.cut(name, start).await, &Ok(()), RECORDS, "cutting all")?;
    let empty = log(start.0, Vec::new(), "another note");
    report.same(&content(&*store, name).await, &Ok(empty), RECORDS, "after all was cut")?;
    let appended = store.append(name, start, &records(7..9)).await;
    report.same(&appended, &Ok(()), RECORDS, "appending after all was cut")?;
    let there = log(start.0, records(7..9), "another note");
    report.same(
        &content(&*store, name).await,
        &Ok(there),
        RECORDS,
        "after all was cut and more came",
    )
}

/// Reading at and past the edges.
async fn ranges(
    store: &dyn PartitionStore,
    name: &str,
    start: Offset,
    all: &[Bytes],
    report: &mut Report,
) -> Result<(), Violation> {
    let end = Offset(start.0 + all.len() as u64);
    report.same(
        &store.read(name, end, 100).await,
        &Ok(Vec::new()),
        RECORDS,
        "reading at the end",
    )?;
    for offset in [Offset(start.0 - 1), Offset(0), end.next(), Offset(u64::MAX)] {
        let out = StoreFault::OutOfRange { log: name.to_owned(), offset };
        let read = store.read(name, offset, 100).await;
        report.same(&read, &Err(out.clone()), RECORDS, "reading out of range")?;
        let cut = store.cut(name, offset).await;
        report.same(&cut, &Err(out), RECORDS, "cutting out of range")?;
    }
    for bytes_max in [0, 1, 20, 60] {
        let read = store.read(name, start, bytes_max).await;
        let (mut expected, mut bytes) = (Vec::new(), 0);
        for record in all {
            bytes += record.len();
            if bytes > bytes_max && !expected.is_empty() {
                break;
            }
            expected.push(record.clone());
        }
        let read = read.unwrap_or_default();
        let is_prefix = !read.is_empty() && all.starts_with(&read) && read.len() <= expected.len();
        report.check(is_prefix, RECORDS, || {
            format!(
                "reading at most {bytes_max} bytes gave {} records, of which {} fit; at least \
                     one is due",
                read.len(),
                expected.len()
            )
        })?;
    }
    Ok(())
}

async fn names(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let store = rig.open().await;
    let long = format!("t/{}", "9-a".repeat(LOG_NAME_BYTES_MAX / 3));
    let long = &long[..LOG_NAME_BYTES_MAX];
    let all = [
        "node",
        "p/1-1/m1-n1-i1-a1",
        "p/1-1/m1-n1-i1-a11",
        "p/1-11/m1-n1-i1-a1",
        "s/1-1",
        "s/1-11",
        "t/1-1-0",
        "t/1-1/0",
        long,
    ];
    for (n, name) in (0..).zip(all) {
        let made = store.create(name, Offset(n), Bytes::from(name.to_owned())).await;
        report.same(&made, &Ok(()), RECORDS, "creating several logs")?;
        let appended = store.append(name, Offset(n), &records(n..n + 3)).await;
        report.same(&appended, &Ok(()), RECORDS, "appending to several logs")?;
    }
    let also = ["p/1-1/m2-n1-i1-a1"];
    let intact = async |report: &mut Report, but: &[&str], doing: &str| {
        for (n, name) in (0..).zip(all).filter(|(_, name)| !but.contains(name)) {
            let there = Ok(log(n, records(n..n + 3), name));
            report.same(&content(&*store, name).await, &there, RECORDS, doing)?;
        }
        let mut listed = store.list().await.unwrap_or_default();
        listed.sort_unstable();
        // Whatever else it has is its own.
        listed.retain(|name| is_own(name));
        let mut left: Vec<_> = all.into_iter().filter(|name| !but.contains(name)).collect();
        left.extend(also.iter().filter(|_| but.contains(&"s/1-1")));
        left.sort_unstable();
        report.same(&listed, &left.into_iter().map(str::to_owned).collect(), RECORDS, doing)
    };
    intact(report, &[], "logs whose names begin alike").await?;
    let renamed = store.rename("s/1-1", "node").await;
    let taken = StoreFault::Exists { log: "node".to_owned() };
    report.same(&renamed, &Err(taken), NAMES, "renaming to a name that is there")?;
    intact(report, &[], "a refused rename").await?;
    for missing in ["p/1-1/m1-n1-i1-a", "s/2-1"] {
        let none = StoreFault::NoSuchLog { log: missing.to_owned() };
        let outcomes = [
            store.rename(missing, "s/3-1").await,
            store.append(missing, Offset(0), &records(0..1)).await,
            store.read(missing, Offset(0), 10).await.map(|_| ()),
            store.cut(missing, Offset(0)).await,
            store.write_note(missing, Bytes::new()).await,
        ];
        for outcome in outcomes {
            report.same(&outcome, &Err(none.clone()), OPENING, "using a log that is not there")?;
        }
        report.same(&store.remove(missing).await, &Ok(()), NAMES, "removing nothing")?;
    }
    intact(report, &[], "uses of logs that are not there").await?;
    let renamed = store.rename("s/1-1", "p/1-1/m2-n1-i1-a1").await;
    report.same(&renamed, &Ok(()), NAMES, "renaming")?;
    let moved = Ok(log(4, records(4..7), "s/1-1"));
    report.same(
        &content(&*store, "p/1-1/m2-n1-i1-a1").await,
        &moved,
        NAMES,
        "a rename takes records and note along",
    )?;
    report.same(&store.open("s/1-1").await, &Ok(None), NAMES, "the old name after a rename")?;
    intact(report, &["s/1-1"], "the others after a rename").await?;
    let removed = store.remove("p/1-1/m1-n1-i1-a1").await;
    report.same(&removed, &Ok(()), RECORDS, "removing")?;
    let gone = store.open("p/1-1/m1-n1-i1-a1").await;
    report.same(&gone, &Ok(None), RECORDS, "a removed log")?;
    intact(report, &["s/1-1", "p/1-1/m1-n1-i1-a1"], "the others after a removal").await?;
    // A name that was given up holds nothing of what it held.
    let made = store.create("s/1-1", Offset(50), Bytes::new()).await;
    report.same(&made, &Ok(()), NAMES, "creating under a name that was given up")?;
    let empty = Ok(log(50, Vec::new(), ""));
    report.same(&content(&*store, "s/1-1").await, &empty, RECORDS, "a name that was given up")
}

async fn sizes(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let store = rig.open().await;
    let name = "s/7-0";
    let big = Bytes::from(vec![7; RECORD_BYTES_MAX]);
    let mut all = vec![Bytes::new(), big, Bytes::from_static(&[0]), Bytes::new()];
    let made = store.create(name, Offset(0), Bytes::new()).await;
    report.same(&made, &Ok(()), RECORDS, "creating")?;
    report.same(
        &store.append(name, Offset(0), &all).await,
        &Ok(()),
        RECORDS,
        "the longest record",
    )?;
    // Whatever separates records, it may be in one.
    let every: Bytes = (0..=255).chain((0..=255).rev()).collect();
    let lines = Bytes::from_static(b"\n\r\n\0\n");
    let odd = [every, lines.clone(), lines, Bytes::from_static(b"\xff\xff\xff\xff")];
    let appended = store.append(name, Offset(4), &odd).await;
    report.same(&appended, &Ok(()), RECORDS, "bytes of every kind")?;
    all.extend(odd);
    let many = records(0..3000);
    let appended = store.append(name, Offset(8), &many).await;
    report.same(&appended, &Ok(()), RECORDS, "many records at once")?;
    all.extend(many);
    let note = "n".repeat(1 << 20);
    let noted = store.write_note(name, note.clone().into()).await;
    report.same(&noted, &Ok(()), RECORDS, "a long note")?;
    let there = Ok(log(0, all, &note));
    report.same(&content(&*store, name).await, &there, RECORDS, "empty, long and many records")?;
    drop(store);
    rig.power_loss().await;
    let found = content(&*rig.open().await, name).await;
    report.same(&found, &there, DURABLE, "empty, long and many records, after a power loss")
}

/// Many logs at the same time.
async fn together(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    const LOGS: u64 = 8;
    rig.fresh().await;
    let store = rig.open().await;
    let name = |n: u64| format!("p/{n}-0/m0-n1-i0-a0");
    let mut writers = tokio::task::JoinSet::new();
    for n in 0..LOGS {
        let (store, name) = (Arc::clone(&store), name(n));
        writers.spawn(async move {
            store.create(&name, Offset(0), Bytes::from_static(b"n")).await?;
            for at in 0..20 {
                store.append(&name, Offset(at), &records(at..at + 1)).await?;
                // What is read meanwhile is a prefix of what will be there.
                let read = store.read(&name, Offset(0), 1 << 20).await?;
                if read != records(0..at + 1) {
                    return Err(StoreFault::failed("a reader beside a writer saw something else"));
                }
            }
            Ok::<_, StoreFault>(())
        });
    }
    while let Some(written) = writers.join_next().await {
        let written = written.unwrap_or_else(|panic| Err(StoreFault::failed(panic)));
        report.same(&written, &Ok(()), RECORDS, "writing several logs at the same time")?;
    }
    for n in 0..LOGS {
        let there = Ok(log(0, records(0..20), "n"));
        let found = content(&*store, &name(n)).await;
        report.same(&found, &there, RECORDS, "logs that were written at the same time")?;
    }
    drop(store);
    rig.power_loss().await;
    let store = rig.open().await;
    for n in 0..LOGS {
        let there = Ok(log(0, records(0..20), "n"));
        let found = content(&*store, &name(n)).await;
        report.same(
            &found,
            &there,
            DURABLE,
            "logs that were written together, after a power loss",
        )?;
    }
    Ok(())
}
