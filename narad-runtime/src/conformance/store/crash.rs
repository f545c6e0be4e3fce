//! Power losses: between calls, and within them.

use std::sync::Arc;

use bytes::Bytes;
use narad_core::ids::Offset;

use super::{
    ATOMIC, DAMAGED, DURABLE, NAMES, PREFIX, RECORDS, SHOWN, StoreRig, content, log, records,
};
use crate::conformance::{Report, Violation};
use crate::embed::{Kept, PartitionStore, StoreFault, is_own};

/// Most writes of one call at which the power is cut.
const WRITES_MAX: u64 = 64;

/// One thing to do to a store that has two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Append,
    AppendMany,
    Cut,
    CutAll,
    Note,
    Rename,
    Remove,
}

const DEEDS: [Deed; 8] = [
    Deed::Create,
    Deed::Append,
    Deed::AppendMany,
    Deed::Cut,
    Deed::CutAll,
    Deed::Note,
    Deed::Rename,
    Deed::Remove,
];
const A: &str = "s/1-0";
const B: &str = "p/1-0/m1-n1-i1-a1";
const C: &str = "p/2-0/m0-n1-i0-a0";

type Content = [Option<(Kept, Vec<Bytes>)>; 3];

impl Deed {
    async fn prepare(store: &dyn PartitionStore) -> Result<(), StoreFault> {
        store.create(A, Offset(3), Bytes::from_static(b"old")).await?;
        store.append(A, Offset(3), &records(3..9)).await?;
        store.create(C, Offset(0), Bytes::from_static(b"c")).await?;
        store.append(C, Offset(0), &records(0..2)).await
    }

    async fn run(self, store: &dyn PartitionStore) -> Result<(), StoreFault> {
        match self {
            Self::Create => store.create(B, Offset(9), Bytes::from_static(b"new")).await,
            Self::Append => store.append(A, Offset(9), &records(9..10)).await,
            Self::AppendMany => store.append(A, Offset(9), &records(9..14)).await,
            Self::Cut => store.cut(A, Offset(5)).await,
            Self::CutAll => store.cut(A, Offset(3)).await,
            Self::Note => store.write_note(A, Bytes::from("new".repeat(2000))).await,
            Self::Rename => store.rename(A, B).await,
            Self::Remove => store.remove(A).await,
        }
    }

    fn before() -> Content {
        [log(3, records(3..9), "old"), None, log(0, records(0..2), "c")]
    }

    /// All that may be there if the deed was begun; the last one if it was done.
    fn outcomes(self) -> Vec<Content> {
        let [a, _, c] = Self::before();
        let all = |records| log(3, records, "old");
        let mut outcomes = vec![Self::before()];
        match self {
            Self::Create => outcomes.push([a, log(9, Vec::new(), "new"), c]),
            Self::Append => outcomes.push([all(records(3..10)), None, c]),
            Self::AppendMany => {
                outcomes.extend((10..=14).map(|end| [all(records(3..end)), None, c.clone()]));
            }
            Self::Cut => outcomes.push([all(records(3..5)), None, c]),
            Self::CutAll => outcomes.push([all(Vec::new()), None, c]),
            Self::Note => {
                outcomes.push([log(3, records(3..9), &"new".repeat(2000)), None, c]);
            }
            Self::Rename => outcomes.push([None, a, c]),
            Self::Remove => outcomes.push([None, None, c]),
        }
        outcomes
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Append | Self::AppendMany => PREFIX,
            Self::Rename => NAMES,
            Self::Create | Self::Cut | Self::CutAll | Self::Note | Self::Remove => ATOMIC,
        }
    }
}

async fn whole(store: &dyn PartitionStore) -> Result<Content, StoreFault> {
    Ok([content(store, A).await?, content(store, B).await?, content(store, C).await?])
}

/// Whatever has returned survives a power loss, and whatever is done after one works.
pub(super) async fn survives(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    for deed in DEEDS {
        rig.fresh().await;
        let store = rig.open().await;
        report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
        drop(store);
        rig.power_loss().await;
        let store = rig.open().await;
        let found = whole(&*store).await;
        report.same(&found, &Ok(Deed::before()), DURABLE, "a power loss after the preparation")?;
        report.same(&deed.run(&*store).await, &Ok(()), RECORDS, "after a power loss")?;
        drop(store);
        rig.power_loss().await;
        let store = rig.open().await;
        let done = deed.outcomes().pop().expect("there is one");
        let doing = format!("a power loss after {deed:?} had returned");
        report.same(&whole(&*store).await, &Ok(done), DURABLE, &doing)?;
    }
    Ok(())
}

/// What was cut does not come back, whatever was put in its place before the power was lost.
pub(super) async fn overwritten(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let store = rig.open().await;
    report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
    report.same(&store.cut(A, Offset(5)).await, &Ok(()), RECORDS, "cutting")?;
    let appended = store.append(A, Offset(5), &records(20..21)).await;
    report.same(&appended, &Ok(()), RECORDS, "appending after a cut")?;
    drop(store);
    rig.power_loss().await;
    let store = rig.open().await;
    let there = Ok(log(3, [records(3..5), records(20..21)].concat(), "old"));
    let found = content(&*store, A).await;
    report.same(&found, &there, DURABLE, "a power loss after a cut and an append")?;
    // What was renamed away and made anew is what was made.
    report.same(&store.rename(A, B).await, &Ok(()), RECORDS, "renaming")?;
    let made = store.create(A, Offset(40), Bytes::from_static(b"new")).await;
    report.same(&made, &Ok(()), NAMES, "creating under a name that was given up")?;
    drop(store);
    rig.power_loss().await;
    let store = rig.open().await;
    let doing = "a power loss after a rename and a creation";
    report.same(&content(&*store, B).await, &there, DURABLE, doing)?;
    report.same(&content(&*store, A).await, &Ok(log(40, Vec::new(), "new")), DURABLE, doing)
}

/// What was removed does not come back under a name that is given anew.
pub(super) async fn recreated(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    rig.fresh().await;
    let store = rig.open().await;
    report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
    report.same(&store.remove(A).await, &Ok(()), RECORDS, "removing")?;
    let made = store.create(A, Offset(3), Bytes::new()).await;
    report.same(&made, &Ok(()), NAMES, "creating under a name that was removed")?;
    let appended = store.append(A, Offset(3), &records(30..31)).await;
    report.same(&appended, &Ok(()), RECORDS, "appending to a log that was made anew")?;
    drop(store);
    rig.power_loss().await;
    let (found, there) = (content(&*rig.open().await, A).await, log(3, records(30..31), ""));
    report.same(&found, &Ok(there), DURABLE, "a power loss after a removal and a creation")
}

/// A medium that goes bad under what is durable.
pub(super) async fn rots(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    for rotten in 3..9 {
        rig.fresh().await;
        let store = rig.open().await;
        report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
        // What is damaged in the last append looks like one that was not finished; this is behind it.
        let appended = store.append(A, Offset(9), &records(9..11)).await;
        report.same(&appended, &Ok(()), RECORDS, "appending behind what will rot")?;
        drop(store);
        rig.power_loss().await;
        if !rig.rot(A, &records(rotten..rotten + 1)[0]).await {
            report.skipped.push("a damaged medium: the rig has no rot");
            return Ok(());
        }
        let store = rig.open().await;
        let doing = format!("a bit of record {rotten} of 3 to 10 has rotted");
        // A store that has it twice may mend it.
        let found = content(&*store, A).await;
        let is_mended = found == Ok(log(3, records(3..11), "old"));
        report.check(is_mended || found.is_err(), DAMAGED, || {
            let found: String = format!("{found:?}").chars().take(400).collect();
            format!("{doing}, and there is {found}")
        })?;
        for from in 3..11 {
            let Ok(read) = store.read(A, Offset(from), 1000).await else { continue };
            let is_true = !read.is_empty() && records(from..11).starts_with(&read);
            report
                .check(is_true, DAMAGED, || format!("{doing}; reading at {from} gave {read:?}"))?;
        }
        // Nor does it vanish in what is asked of the store next.
        let listed = store.list().await;
        let is_told = listed.as_ref().is_ok_and(|listed| listed.iter().any(|name| name == A));
        report.check(is_told || listed.is_err(), DAMAGED, || {
            format!("{doing}, and the log is not listed any more: {listed:?}")
        })?;
    }
    Ok(())
}

/// A call whose caller has lost interest, then a power loss.
pub(super) async fn abandoned(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    for deed in DEEDS {
        for polls in 1..4 {
            rig.fresh().await;
            let store = rig.open().await;
            report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
            let mut call = Box::pin(deed.run(&*store));
            for _ in 0..polls {
                let polled = std::future::poll_fn(|context| {
                    std::task::Poll::Ready(call.as_mut().poll(context).is_ready())
                });
                if polled.await {
                    break;
                }
            }
            drop(call);
            let shown = whole(&*store).await;
            drop(store);
            rig.power_loss().await;
            let store = rig.open().await;
            judge(&*store, deed, shown, "its caller was gone", report).await?;
        }
    }
    Ok(())
}

/// The power fails at every write to the medium.
pub(super) async fn crashes(rig: &dyn StoreRig, report: &mut Report) -> Result<(), Violation> {
    for deed in DEEDS {
        for write in 0..WRITES_MAX {
            rig.fresh().await;
            let store = rig.open().await;
            report.same(&Deed::prepare(&*store).await, &Ok(()), RECORDS, "preparing")?;
            if !rig.power_loss_at(write).await {
                report.skipped.push("a power loss within a call: the rig has no power_loss_at");
                return Ok(());
            }
            let done = deed.run(&*store).await;
            // Whoever still reads is told nothing that the power loss takes back.
            let shown = whole(&*store).await;
            drop(store);
            rig.power_loss().await;
            let store = rig.open().await;
            if done.is_ok() {
                let all = deed.outcomes().pop().expect("there is one");
                let doing = format!("a power loss after {deed:?} had returned");
                report.same(&whole(&*store).await, &Ok(all), DURABLE, &doing)?;
                break;
            }
            report.crash_points += 1;
            let when = format!("before write {write}");
            judge(&*store, deed, shown, &when, report).await?;
            again(rig, store, deed, &when, report).await?;
        }
    }
    Ok(())
}

/// What was recovered is durable, and so is what is appended behind it.
async fn again(
    rig: &dyn StoreRig,
    store: Arc<dyn PartitionStore>,
    deed: Deed,
    when: &str,
    report: &mut Report,
) -> Result<(), Violation> {
    let doing = format!("a second power loss after one within {deed:?} ({when})");
    for name in [A, B] {
        let Ok(Some((kept, _))) = content(&*store, name).await else { continue };
        let appended = store.append(name, kept.end, &records(60..62)).await;
        report.same(&appended, &Ok(()), RECORDS, "appending to what was recovered")?;
    }
    let before = whole(&*store).await;
    let listed = sorted(store.list().await);
    let there = [A, B, C].into_iter().zip(before.iter().flatten());
    let there = there.filter(|(_, content)| content.is_some()).map(|(name, _)| name.to_owned());
    report.same(
        &listed,
        &sorted(Ok(there.collect())),
        SHOWN,
        "what is listed after a power loss",
    )?;
    drop(store);
    rig.power_loss().await;
    let store = rig.open().await;
    report.same(&whole(&*store).await, &before, DURABLE, &doing)?;
    report.same(&sorted(store.list().await), &listed, DURABLE, &doing)
}

fn sorted(listed: Result<Vec<String>, StoreFault>) -> Result<Vec<String>, StoreFault> {
    let mut listed = listed?;
    listed.retain(|name| is_own(name));
    listed.sort_unstable();
    Ok(listed)
}

/// Judges what is there after a power loss in the midst of a deed.
async fn judge(
    store: &dyn PartitionStore,
    deed: Deed,
    shown: Result<Content, StoreFault>,
    when: &str,
    report: &mut Report,
) -> Result<(), Violation> {
    let found = whole(store).await;
    let outcomes = deed.outcomes();
    let is_one = found.as_ref().is_ok_and(|found| outcomes.contains(found));
    report.check(is_one, deed.rule(), || {
        let found: String = format!("{found:?}").chars().take(600).collect();
        format!("after a power loss within {deed:?} ({when}) there is {found}")
    })?;
    if let (Ok(shown), Ok(found)) = (&shown, &found) {
        let place = |content: &Content| outcomes.iter().position(|one| one == content);
        report.check(place(shown) <= place(found), SHOWN, || {
            format!("a reader saw what the power loss within {deed:?} ({when}) has taken back")
        })?;
    }
    // And all of it still works.
    let at = found.ok().and_then(|found| found[2].clone()).map_or(Offset(0), |(kept, _)| kept.end);
    let appended = store.append(C, at, &records(2..3)).await;
    report.same(&appended, &Ok(()), RECORDS, "appending after a power loss")
}
