//! The battery for metastores.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::LogIndex;

use super::{Report, Violation};
use crate::embed::{DECISION_BYTES_MAX, Metastore, Proposed, Update, Watch};

/// What the battery needs of an embedder to try a metastore.
#[async_trait]
pub trait MetastoreRig: Send + Sync {
    /// Begins anew: whatever was decided is forgotten.
    async fn fresh(&self);

    /// Makes one more client of the metastore, as another node would have it.
    async fn client(&self) -> Arc<dyn Metastore>;

    /// Ends the metastore hard (`kill -9`, a power loss) and starts it again; clients that were made
    /// before go on. `false` (the default) if it cannot be ended.
    async fn restart(&self) -> bool {
        false
    }

    /// Takes contact to the metastore away from all clients that were made so far, or gives it back;
    /// those made later have contact. `false` (the default) if the rig cannot do that.
    async fn cut_off(&self, on: bool) -> bool {
        let _ = on;
        false
    }

    /// Has the metastore take the next proposal of the clients that were made so far, and its answer
    /// get lost. `false` (the default) if the rig cannot do that.
    async fn lose_next_answer(&self) -> bool {
        false
    }
}

const ORDER: &str = "one order";
const DECIDED: &str = "decided is decided";
const OUTCOMES: &str = "three outcomes";
const BARRIER: &str = "a barrier is no older than its call";

/// How long anything may take that is said to take a few seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries a metastore. Ends with the first broken rule.
///
/// # Errors
///
/// The rule, with what was done.
pub async fn metastore(rig: &dyn MetastoreRig) -> Result<Report, Violation> {
    let mut report = Report::default();
    alone(rig, &mut report).await?;
    together(rig, &mut report).await?;
    barriers(rig, &mut report).await?;
    snapshots(rig, &mut report).await?;
    lost_answers(rig, &mut report).await?;
    without_contact(rig, &mut report).await?;
    restarts(rig, &mut report).await?;
    Ok(report)
}

fn record(text: impl std::fmt::Display) -> Bytes {
    Bytes::from(format!("record {text}"))
}

/// Waits for an answer that must come in a few seconds.
async fn soon<T>(
    answer: impl Future<Output = T>,
    rule: &'static str,
    doing: &str,
) -> Result<T, Violation> {
    let answered = tokio::time::timeout(PATIENCE, answer).await;
    answered.map_err(|_| Violation { rule, what: format!("{doing}: no answer in {PATIENCE:?}") })
}

async fn barrier(client: &dyn Metastore, doing: &str) -> Result<Option<LogIndex>, Violation> {
    soon(client.barrier(), BARRIER, doing).await
}

/// Tries until there is a barrier: a metastore that has just been started may take a while.
async fn some_barrier(client: &dyn Metastore, doing: &str) -> Result<LogIndex, Violation> {
    let passing = async {
        loop {
            if let Some(index) = client.barrier().await {
                return index;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(passing, BARRIER, doing).await
}

/// Reads the records after an index, up to another one.
async fn records(
    client: &dyn Metastore,
    after: LogIndex,
    upto: LogIndex,
    doing: &str,
) -> Result<Vec<Bytes>, Violation> {
    let watch = soon(client.watch(after), ORDER, doing).await?;
    records_of(watch, client, after, upto, doing).await
}

/// Reads the same from a watch that was begun after that index, and again if it ends.
async fn records_of(
    mut watch: Box<dyn Watch>,
    client: &dyn Metastore,
    after: LogIndex,
    upto: LogIndex,
    doing: &str,
) -> Result<Vec<Bytes>, Violation> {
    let fail = |what: String| Violation { rule: ORDER, what: format!("{doing}: {what}") };
    let (mut at, mut found) = (after, Vec::new());
    while at < upto {
        match soon(watch.next(), ORDER, doing).await? {
            Some(Update::Record { index, record }) if index == at.next() => {
                at = index;
                found.push(record);
            }
            Some(update) => return Err(fail(format!("after {at} came {update:?}"))),
            None => watch = soon(client.watch(at), ORDER, doing).await?,
        }
    }
    Ok(found)
}

async fn alone(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let (one, other) = (rig.client().await, rig.client().await);
    let nothing = barrier(&*one, "a barrier of an empty metastore").await?;
    report.same(&nothing, &Some(LogIndex(0)), BARRIER, "an empty metastore")?;
    // Bytes of any kind and length, and the same ones twice.
    let long = Bytes::from(vec![0xa5; DECISION_BYTES_MAX]);
    let all = [record(1), record(1), Bytes::from_static(&[0]), long, record(5)];
    let early = one.watch(LogIndex(0)).await;
    for (n, record) in (1..).zip(&all) {
        let proposed = soon(one.propose(record.clone()), OUTCOMES, "proposing").await?;
        let index = LogIndex(n);
        report.same(&proposed, &Proposed::Applied(index), OUTCOMES, "proposing alone")?;
        let passed = barrier(&*other, "a barrier of another client").await?;
        report.check(passed >= Some(index), BARRIER, || {
            format!("record {index} was applied, then another client's barrier said {passed:?}")
        })?;
    }
    for client in [&one, &other] {
        for after in 0..=5 {
            let found = records(&**client, LogIndex(after), LogIndex(5), "watching").await?;
            let at = usize::try_from(after).expect("it is small");
            report.same(&found, &all[at..].to_vec(), ORDER, "watching from an index on")?;
        }
    }
    waits(early, &*one, &all, report).await?;
    // A watch that begins at the end has missed nothing.
    for client in [&one, &other] {
        let end = barrier(&**client, "a barrier").await?.unwrap_or_default();
        let mut watch = soon(client.watch(end), ORDER, "watching at the end").await?;
        let proposed = soon(one.propose(record("next")), OUTCOMES, "proposing").await?;
        report.same(&proposed, &Proposed::Applied(end.next()), OUTCOMES, "proposing on")?;
        let shown = soon(watch.next(), ORDER, "a watch that began at the end").await?;
        let expected = Update::Record { index: end.next(), record: record("next") };
        report.same(&shown, &Some(expected), ORDER, "a watch that began at the end")?;
    }
    Ok(())
}

/// A watch shows what is decided while it waits, and nothing else.
async fn waits(
    mut watch: Box<dyn Watch>,
    client: &dyn Metastore,
    all: &[Bytes],
    report: &mut Report,
) -> Result<(), Violation> {
    for (n, record) in (1..).zip(all) {
        let shown = soon(watch.next(), ORDER, "a watch that began early").await?;
        let expected = Update::Record { index: LogIndex(n), record: record.clone() };
        report.same(&shown, &Some(expected), ORDER, "a watch that began early")?;
    }
    let next = LogIndex(all.len() as u64 + 1);
    let (shown, proposed) = tokio::join!(
        soon(watch.next(), ORDER, "a watch that waits"),
        client.propose(record("late")),
    );
    report.same(&proposed, &Proposed::Applied(next), OUTCOMES, "proposing under a watch")?;
    let expected = Update::Record { index: next, record: record("late") };
    report.same(&shown?, &Some(expected), ORDER, "a watch that waits")
}

async fn together(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    const CLIENTS: u64 = 4;
    const EACH: u64 = 25;
    rig.fresh().await;
    let idle = rig.client().await;
    let behind = idle.watch(LogIndex(0)).await;
    let mut proposing = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let metastore = rig.client().await;
        for n in 0..EACH {
            let metastore = Arc::clone(&metastore);
            proposing.spawn(async move {
                let record = record(format_args!("{n} of {client}"));
                (record.clone(), metastore.propose(record).await)
            });
        }
    }
    let (mut applied, mut all, mut rejected) = (Vec::new(), BTreeSet::new(), Vec::new());
    while let Some(proposed) = soon(proposing.join_next(), OUTCOMES, "many proposals").await? {
        let (record, proposed) = proposed.expect("a proposal does not panic");
        all.insert(record.clone());
        match proposed {
            Proposed::Applied(index) => applied.push((index, record)),
            Proposed::Rejected { .. } => rejected.push(record),
            Proposed::Unknown => {}
        }
    }
    report.check(!applied.is_empty(), OUTCOMES, || {
        "none of many proposals at the same time was applied".to_owned()
    })?;
    let client = rig.client().await;
    let last = some_barrier(&*client, "a barrier after many proposals").await?;
    let first = records(&*client, LogIndex(0), last, "watching many").await?;
    let other = rig.client().await;
    let again = records(&*other, LogIndex(0), last, "watching many elsewhere").await?;
    report.same(&again, &first, ORDER, "two clients watch the same")?;
    let late = records_of(behind, &*idle, LogIndex(0), last, "a watch far behind").await?;
    report.same(&late, &first, ORDER, "a watch that nobody read while much was decided")?;
    for (index, record) in applied {
        let at = usize::try_from(index.0).ok().and_then(|index| index.checked_sub(1));
        let found = at.and_then(|at| first.get(at));
        report.same(&found, &Some(&record), ORDER, "a record at the index that was applied")?;
    }
    let broken = rejected.iter().find(|rejected| first.contains(*rejected));
    report.same(&broken, &None, OUTCOMES, "what was reported rejected is not there")?;
    let foreign = first.iter().find(|found| !all.contains(*found));
    report.same(&foreign, &None, ORDER, "records that nobody has proposed")
}

/// Many barriers under way at the same time, each of which began at another moment.
async fn barriers(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    const RECORDS: u64 = 30;
    const BARRIERS: u64 = 4;
    rig.fresh().await;
    let (one, other) = (rig.client().await, rig.client().await);
    let (decided, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut passing = tokio::task::JoinSet::new();
    for n in 0..2 * BARRIERS {
        let client = Arc::clone(if n % 2 == 0 { &one } else { &other });
        let (decided, is_over) = (Arc::clone(&decided), Arc::clone(&is_over));
        passing.spawn(async move {
            loop {
                let before = decided.load(Ordering::SeqCst);
                let passed = client.barrier().await;
                if is_over.load(Ordering::SeqCst) || passed.is_some_and(|passed| passed.0 < before)
                {
                    return (before, passed);
                }
                // Not all of them at the same moment.
                for _ in 0..=n {
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    for n in 1..=RECORDS {
        let proposed = soon(one.propose(record(n)), OUTCOMES, "proposing beside barriers").await?;
        if let Proposed::Applied(index) = proposed {
            decided.fetch_max(index.0, Ordering::SeqCst);
        }
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::SeqCst);
    while let Some(passed) = soon(passing.join_next(), BARRIER, "many barriers").await? {
        let (before, passed) = passed.expect("a barrier does not panic");
        report.check(passed.is_none_or(|passed| passed.0 >= before), BARRIER, || {
            format!("record {before} was decided, then a barrier beside others said {passed:?}")
        })?;
    }
    Ok(())
}

async fn snapshots(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    const RECORDS: u64 = 40;
    const KEPT: u64 = 10;
    rig.fresh().await;
    let client = rig.client().await;
    let early = client.watch(LogIndex(0)).await;
    for n in 1..=RECORDS {
        let proposed = soon(client.propose(record(n)), OUTCOMES, "proposing").await?;
        report.same(&proposed, &Proposed::Applied(LogIndex(n)), OUTCOMES, "proposing")?;
    }
    // As long as that of a cluster of some size.
    let (index, state) = (LogIndex(RECORDS - KEPT), Bytes::from(b"so far ".repeat(400_001)));
    soon(client.compact(index, state.clone()), ORDER, "offering a snapshot").await?;
    let other = rig.client().await;
    // Of a node that is behind; it stands for less. Each client may have a snapshot of its own.
    let less = (LogIndex(RECORDS / 2), Bytes::from_static(b"half of it"));
    let offering = other.compact(less.0, less.1.clone());
    soon(offering, ORDER, "offering an older snapshot").await?;
    for (client, begun) in [(&client, Some(early)), (&client, None), (&other, None)] {
        let mut watch = match begun {
            Some(begun) => begun,
            None => soon(client.watch(LogIndex(0)), ORDER, "watching behind a snapshot").await?,
        };
        let mut shown = soon(watch.next(), ORDER, "watching behind a snapshot").await?;
        if shown.is_none() {
            // It may end, and say nothing: whoever watches begins again.
            watch = soon(client.watch(LogIndex(0)), ORDER, "watching again").await?;
            shown = soon(watch.next(), ORDER, "watching behind a snapshot").await?;
        }
        let mut at = match shown {
            Some(Update::Snapshot { index: found, state: bytes }) => {
                let (found, offered) = ((found, bytes), [(index, state.clone()), less.clone()]);
                report.check(offered.contains(&found), ORDER, || {
                    let brief = |(index, state): &(LogIndex, Bytes)| (*index, state.len());
                    let (offered, found) = (offered.each_ref().map(brief), brief(&found));
                    format!(
                        "of the snapshots {offered:?} (index, bytes) a watch has shown {found:?}"
                    )
                })?;
                found.0
            }
            Some(Update::Record { index, record: found }) => {
                let (found, expected) = ((index, found), (LogIndex(1), record(1)));
                report.same(&found, &expected, ORDER, "records that are kept all the same")?;
                index
            }
            // Twice in a row.
            None => return Err(Violation { rule: ORDER, what: "a watch has ended".to_owned() }),
        };
        while at < LogIndex(RECORDS) {
            let next = at.next();
            let shown = soon(watch.next(), ORDER, "watching on behind a snapshot").await?;
            let expected = Update::Record { index: next, record: record(next.0) };
            report.same(&shown, &Some(expected), ORDER, "what follows a snapshot")?;
            at = next;
        }
        let after = LogIndex(RECORDS - 3);
        let found =
            records(&**client, after, LogIndex(RECORDS), "watching past a snapshot").await?;
        let expected: Vec<_> = (after.0 + 1..=RECORDS).map(record).collect();
        report.same(&found, &expected, ORDER, "watching past a snapshot")?;
    }
    let proposed = soon(client.propose(record(RECORDS + 1)), OUTCOMES, "proposing").await?;
    let next = Proposed::Applied(LogIndex(RECORDS + 1));
    report.same(&proposed, &next, ORDER, "indices go on after a snapshot")
}

async fn lost_answers(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let client = rig.client().await;
    soon(client.propose(record("first")), OUTCOMES, "proposing").await?;
    if !rig.lose_next_answer().await {
        report.skipped.push("lost answers: the rig has no lose_next_answer");
        return Ok(());
    }
    let proposed = soon(client.propose(record("lost")), OUTCOMES, "a lost answer").await?;
    let other = rig.client().await;
    let last = some_barrier(&*other, "a barrier after a lost answer").await?;
    let found = records(&*other, LogIndex(0), last, "watching after a lost answer").await?;
    let is_there = found.contains(&record("lost"));
    let is_true = match proposed {
        Proposed::Applied(index) => usize::try_from(index.0)
            .is_ok_and(|at| found.get(at.wrapping_sub(1)) == Some(&record("lost"))),
        Proposed::Rejected { .. } => !is_there,
        Proposed::Unknown => true,
    };
    report.check(is_true, OUTCOMES, || {
        format!(
            "the answer to a proposal was lost, so it was reported {proposed:?}; it is in the \
                 order: {is_there}"
        )
    })
}

async fn without_contact(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let client = rig.client().await;
    for n in 1..=3 {
        soon(client.propose(record(n)), OUTCOMES, "proposing").await?;
    }
    if !rig.cut_off(true).await {
        report.skipped.push("a lost contact: the rig has no cut_off");
        return Ok(());
    }
    let other = rig.client().await;
    let mut rejected = Vec::new();
    for n in 0..3 {
        let unheard = record(format_args!("cut off {n}"));
        let proposed = soon(client.propose(unheard.clone()), OUTCOMES, "without contact").await?;
        let is_applied = matches!(proposed, Proposed::Applied(_));
        report.check(!is_applied, OUTCOMES, || {
            format!("a proposal without contact was reported {proposed:?}")
        })?;
        if matches!(proposed, Proposed::Rejected { .. }) {
            rejected.push(unheard);
        }
        let decided = soon(
            other.propose(record(format_args!("meanwhile {n}"))),
            OUTCOMES,
            "another client, which has contact",
        )
        .await?;
        let Proposed::Applied(index) = decided else { continue };
        let passed = barrier(&*client, "a barrier without contact").await?;
        report.check(passed.is_none_or(|passed| passed >= index), BARRIER, || {
            format!(
                "record {index} was decided, then a client without contact passed a barrier at \
                     {passed:?}"
            )
        })?;
    }
    rig.cut_off(false).await;
    some_barrier(&*client, "a barrier once there is contact again").await?;
    // Nor does it come with what is proposed next.
    soon(client.propose(record("contact again")), OUTCOMES, "with contact again").await?;
    let last = some_barrier(&*client, "a barrier once there is contact again").await?;
    let found = records(&*client, LogIndex(0), last, "once there is contact again").await?;
    let broken = rejected.iter().find(|rejected| found.contains(*rejected));
    report.same(&broken, &None, OUTCOMES, "what was reported rejected is not there")?;
    let elsewhere = records(&*other, LogIndex(0), last, "at a client that had contact").await?;
    report.same(&found, &elsewhere, ORDER, "after a lost contact")
}

async fn restarts(rig: &dyn MetastoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let client = rig.client().await;
    let mut decided = 0;
    for round in 0..3 {
        for n in 0..5 {
            let proposed = soon(client.propose(record(n)), OUTCOMES, "proposing").await?;
            if proposed == Proposed::Applied(LogIndex(decided + 1)) {
                decided += 1;
            }
        }
        let before = records(&*client, LogIndex(0), LogIndex(decided), "before a restart").await?;
        if !rig.restart().await {
            report.skipped.push("restarts: the rig has no restart");
            return Ok(());
        }
        let doing = format!("after restart {round}");
        for client in [Arc::clone(&client), rig.client().await] {
            let last = some_barrier(&*client, &doing).await?;
            report.check(last >= LogIndex(decided), DECIDED, || {
                format!("{doing} the barrier is {last}, and {decided} records were applied before")
            })?;
            let after = records(&*client, LogIndex(0), LogIndex(decided), &doing).await?;
            report.same(&after, &before, DECIDED, &doing)?;
            decided = last.0;
        }
    }
    report.check(decided > 2, OUTCOMES, || {
        format!("of fifteen proposals between restarts {decided} were decided")
    })?;
    // And a snapshot outlives it.
    let (upto, state) = (LogIndex(decided), Bytes::from_static(b"all of it"));
    let all = records(&*client, LogIndex(0), upto, "before a snapshot").await?;
    soon(client.compact(LogIndex(decided - 2), state.clone()), ORDER, "offering a snapshot")
        .await?;
    rig.restart().await;
    for client in [client, rig.client().await] {
        let doing = "after a snapshot and a restart";
        let last = some_barrier(&*client, doing).await?;
        report.same(&last, &upto, DECIDED, doing)?;
        let snapshot = Update::Snapshot { index: LogIndex(decided - 2), state: state.clone() };
        let first = Update::Record { index: LogIndex(1), record: all[0].clone() };
        let beginning = async {
            // A watch may end as long as there is no contact.
            loop {
                if let Some(shown) = client.watch(LogIndex(0)).await.next().await {
                    return shown;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let shown = soon(beginning, ORDER, doing).await?;
        let is_one = shown == snapshot || shown == first;
        report.check(is_one, DECIDED, || format!("{doing} a watch began with {shown:?}"))?;
        let rest = records(&*client, LogIndex(decided - 2), upto, doing).await?;
        report.same(&rest, &all[all.len() - 2..].to_vec(), DECIDED, doing)?;
    }
    Ok(())
}
