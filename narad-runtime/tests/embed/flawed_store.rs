//! The battery for stores: passed by one that is right, and failed by each that is not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::Offset;
use narad_runtime::conformance::{self, StoreRig};
use narad_runtime::embed::{Kept, PartitionStore, StoreFault};

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Appends are acknowledged before they are on the medium.
    AcknowledgesEarly,
    /// A reader sees records that are not on the medium yet.
    ShowsUnsynced,
    /// A crash leaves half a record.
    TearsRecords,
    /// A crash leaves the last record of an append without those before it.
    WritesBackwards,
    CreateReplaces,
    RenameReplaces,
    /// A crash leaves the log under both names.
    RenameCopies,
    RenameForgetsNote,
    OpenCreates,
    AppendsAnywhere,
    /// A crash leaves no note at all.
    NoteInTwoSteps,
    RemoveByPrefix,
    CutIsForgotten,
    NothingWhereOneIsTooLong,
    PastTheEndIsEmpty,
    RecreatedIsFull,
    ListForgets,
    /// A read is as long as the log, whatever fits.
    ReadsTooMuch,
    CutForgetsNote,
    /// A log whose records were all cut begins at zero again, as where its start is its first record's.
    EmptyBeginsAtZero,
    /// An append elsewhere than at the end is refused, after it was made.
    RefusesTooLate,
    /// Notes that do not fit into a page are written some time later.
    LongNotesAreLazy,
    /// So are records.
    LongRecordsAreLazy,
    /// What was cut is there again after a crash, behind what was appended since.
    CutComesBack,
    /// Names that were given up are listed for ever.
    ListKeepsNames,
    /// A crash within a creation leaves a name that is listed, and no log.
    ListsTheUnborn,
    /// Records are kept as lines.
    SeparatesByLines,
    /// A note is written over the one before, which may have been longer.
    NoteKeepsItsTail,
    /// Slashes are no different from hyphens.
    FlattensNames,
    /// A crash brings records back that were removed, if the name is used again.
    RemovedComesBack,
    /// What is left of an append that was not finished is skipped, and stays: what is appended behind
    /// it is not found by the next recovery.
    RecoveryHidesTheTail,
    /// What the medium says is believed.
    ServesRot,
    /// A record that is damaged is skipped.
    LeavesRotOut,
    /// A record that is damaged is taken for the end, as if it had never been finished.
    RotIsTheEnd,
}

const FLAWS: [Flaw; 34] = [
    Flaw::AcknowledgesEarly,
    Flaw::ShowsUnsynced,
    Flaw::TearsRecords,
    Flaw::WritesBackwards,
    Flaw::CreateReplaces,
    Flaw::RenameReplaces,
    Flaw::RenameCopies,
    Flaw::RenameForgetsNote,
    Flaw::OpenCreates,
    Flaw::AppendsAnywhere,
    Flaw::NoteInTwoSteps,
    Flaw::RemoveByPrefix,
    Flaw::CutIsForgotten,
    Flaw::NothingWhereOneIsTooLong,
    Flaw::PastTheEndIsEmpty,
    Flaw::RecreatedIsFull,
    Flaw::ListForgets,
    Flaw::ReadsTooMuch,
    Flaw::CutForgetsNote,
    Flaw::EmptyBeginsAtZero,
    Flaw::RefusesTooLate,
    Flaw::LongNotesAreLazy,
    Flaw::LongRecordsAreLazy,
    Flaw::CutComesBack,
    Flaw::ListKeepsNames,
    Flaw::ListsTheUnborn,
    Flaw::SeparatesByLines,
    Flaw::NoteKeepsItsTail,
    Flaw::FlattensNames,
    Flaw::RemovedComesBack,
    Flaw::RecoveryHidesTheTail,
    Flaw::ServesRot,
    Flaw::LeavesRotOut,
    Flaw::RotIsTheEnd,
];

/// What one write of a lazy store takes, in bytes.
const PAGE: usize = 64 << 10;

#[derive(Clone, Debug, Default)]
struct Log {
    start: u64,
    records: Vec<Bytes>,
    note: Bytes,
}

impl Log {
    fn end(&self) -> Offset {
        Offset(self.start + self.records.len() as u64)
    }
}

type Logs = BTreeMap<String, Log>;

/// A medium whose power can be cut, and what an open store has of it in memory.
#[derive(Debug, Default)]
struct Medium {
    durable: Logs,
    shown: Logs,
    removed: Logs,
    /// Cut from a log, by the flaw that lets it come back.
    cut: BTreeMap<String, Vec<Bytes>>,
    /// Where an append ended that was not finished: before this crash, and before the one before it.
    torn: BTreeMap<String, usize>,
    hidden: BTreeMap<String, usize>,
    /// What was listed, by the flaws of listing.
    listed: BTreeSet<String>,
    /// A record that is not any more what it was.
    rotten: Option<(String, Bytes)>,
    writes_left: Option<u64>,
    is_dead: bool,
}

impl Medium {
    /// Writes to the medium, if there is power.
    fn write(&mut self, change: impl Fn(&mut Logs)) -> Result<(), StoreFault> {
        if self.is_dead || self.writes_left == Some(0) {
            self.is_dead = true;
            return Err(StoreFault::failed("there is no power"));
        }
        self.writes_left = self.writes_left.map(|left| left - 1);
        change(&mut self.durable);
        change(&mut self.shown);
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Flawed {
    medium: Arc<Mutex<Medium>>,
    flaw: Flaw,
}

impl Flawed {
    fn new(flaw: Flaw) -> Self {
        Self { medium: Arc::default(), flaw }
    }

    fn look(&self) -> Result<MutexGuard<'_, Medium>, StoreFault> {
        let medium = self.medium.lock().expect("nobody panics");
        if medium.is_dead && self.flaw != Flaw::ShowsUnsynced {
            return Err(StoreFault::failed("there is no power"));
        }
        Ok(medium)
    }

    fn there(medium: &Medium, log: &str) -> Result<Log, StoreFault> {
        let missing = || StoreFault::NoSuchLog { log: log.to_owned() };
        medium.shown.get(log).cloned().ok_or_else(missing)
    }

    fn at(&self, kept: &Log, log: &str, offset: Offset) -> Result<usize, StoreFault> {
        let at = offset.0.checked_sub(kept.start).filter(|at| *at <= kept.records.len() as u64);
        match at {
            Some(at) => Ok(usize::try_from(at).expect("it is small")),
            None if self.flaw == Flaw::PastTheEndIsEmpty && offset > kept.end() => {
                Ok(kept.records.len())
            }
            None => Err(StoreFault::OutOfRange { log: log.to_owned(), offset }),
        }
    }
}

#[async_trait]
impl PartitionStore for Flawed {
    async fn list(&self) -> Result<Vec<String>, StoreFault> {
        let medium = self.look()?;
        let is_told = |log: &&String| self.flaw != Flaw::ListForgets || !log.starts_with("s/");
        let names = medium.shown.keys().filter(is_told).chain(&medium.listed);
        Ok(names.cloned().collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn open(&self, log: &str) -> Result<Option<Kept>, StoreFault> {
        let mut medium = self.look()?;
        if self.flaw == Flaw::OpenCreates && !medium.shown.contains_key(log) {
            medium.write(|logs| drop(logs.insert(log.to_owned(), Log::default())))?;
        }
        Ok(medium.shown.get(log).map(|kept| Kept {
            start: Offset(kept.start),
            end: kept.end(),
            note: kept.note.clone(),
        }))
    }

    async fn create(&self, log: &str, start: Offset, note: Bytes) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        if medium.shown.contains_key(log) && self.flaw != Flaw::CreateReplaces {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        let mut made = Log { start: start.0, records: Vec::new(), note };
        if let (Flaw::RecreatedIsFull, Some(old)) = (self.flaw, medium.removed.get(log)) {
            made.records.clone_from(&old.records);
        }
        let flattened = |name: &String| name.replace('/', "-") == log.replace('/', "-");
        if self.flaw == Flaw::FlattensNames && medium.shown.keys().any(flattened) {
            return Err(StoreFault::Exists { log: log.to_owned() });
        }
        if self.flaw == Flaw::ListKeepsNames {
            medium.listed.insert(log.to_owned());
        }
        let written = medium.write(|logs| drop(logs.insert(log.to_owned(), made.clone())));
        if self.flaw == Flaw::ListsTheUnborn && written.is_err() {
            medium.listed.insert(log.to_owned());
        }
        written
    }

    async fn append(&self, log: &str, at: Offset, records: &[Bytes]) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        let end = Self::there(&medium, log)?.end();
        let push = |logs: &mut Logs, record: Bytes| {
            logs.get_mut(log).expect("it is there").records.push(record);
        };
        if at != end && self.flaw != Flaw::AppendsAnywhere {
            if self.flaw == Flaw::RefusesTooLate {
                for record in records {
                    medium.write(|logs| push(logs, record.clone()))?;
                }
            }
            return Err(StoreFault::NotAtEnd { log: log.to_owned(), end, at });
        }
        match self.flaw {
            Flaw::AcknowledgesEarly => {
                // Only the next write brings it there.
                for record in records {
                    push(&mut medium.shown, record.clone());
                }
            }
            Flaw::ShowsUnsynced => {
                for record in records {
                    push(&mut medium.shown, record.clone());
                }
                for record in records {
                    let shown = medium.shown.clone();
                    let written = medium.write(|logs| push(logs, record.clone()));
                    medium.shown = shown;
                    written?;
                }
            }
            Flaw::TearsRecords => {
                for record in records {
                    let half = record.slice(..record.len() / 2);
                    medium.write(|logs| push(logs, half.clone()))?;
                    medium.write(|logs| {
                        let kept = &mut logs.get_mut(log).expect("it is there").records;
                        *kept.last_mut().expect("one was pushed") = record.clone();
                    })?;
                }
            }
            Flaw::WritesBackwards => {
                for record in records.iter().rev() {
                    let at =
                        usize::try_from(at.0 - Self::there(&medium, log)?.start).expect("small");
                    medium.write(|logs| {
                        logs.get_mut(log).expect("it is there").records.insert(at, record.clone());
                    })?;
                }
            }
            Flaw::LongRecordsAreLazy if records.iter().any(|record| record.len() > PAGE) => {
                for record in records {
                    push(&mut medium.shown, record.clone());
                }
            }
            Flaw::SeparatesByLines => {
                for line in records.iter().flat_map(|record| record.split(|byte| *byte == b'\n')) {
                    medium.write(|logs| push(logs, Bytes::copy_from_slice(line)))?;
                }
            }
            _ => {
                for record in records {
                    let written = medium.write(|logs| push(logs, record.clone()));
                    if written.is_err() && self.flaw == Flaw::RecoveryHidesTheTail {
                        let there = medium.durable[log].records.len();
                        medium.torn.insert(log.to_owned(), there);
                    }
                    written?;
                }
            }
        }
        Ok(())
    }

    async fn read(
        &self,
        log: &str,
        from: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, StoreFault> {
        let medium = self.look()?;
        let kept = Self::there(&medium, log)?;
        let (mut bytes, mut read) = (0, Vec::new());
        for record in &kept.records[self.at(&kept, log, from)?..] {
            bytes += record.len();
            let is_first = read.is_empty() && self.flaw != Flaw::NothingWhereOneIsTooLong;
            if bytes > bytes_max && !is_first && self.flaw != Flaw::ReadsTooMuch {
                break;
            }
            if medium.rotten.as_ref().is_some_and(|(l, rotten)| l == log && rotten == record) {
                if self.flaw != Flaw::ServesRot {
                    return Err(StoreFault::failed("a checksum is wrong"));
                }
                read.push(Bytes::from_static(b"recorc"));
                continue;
            }
            read.push(record.clone());
        }
        Ok(read)
    }

    async fn cut(&self, log: &str, end: Offset) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        let at = self.at(&Self::there(&medium, log)?, log, end)?;
        let flaw = self.flaw;
        let cut = |logs: &mut Logs| {
            let kept = logs.get_mut(log).expect("it is there");
            kept.records.truncate(at);
            if flaw == Flaw::CutForgetsNote {
                kept.note = Bytes::new();
            }
            if flaw == Flaw::EmptyBeginsAtZero && kept.records.is_empty() {
                kept.start = 0;
            }
        };
        if flaw == Flaw::CutComesBack {
            let rest = Self::there(&medium, log)?.records.split_off(at);
            medium.cut.insert(log.to_owned(), rest);
        }
        if self.flaw == Flaw::CutIsForgotten {
            cut(&mut medium.shown);
            return Ok(());
        }
        medium.write(cut)
    }

    async fn write_note(&self, log: &str, mut note: Bytes) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        let old = Self::there(&medium, log)?.note;
        if self.flaw == Flaw::NoteKeepsItsTail && old.len() > note.len() {
            note = [&note[..], &old[note.len()..]].concat().into();
        }
        let set = |logs: &mut Logs, note: Bytes| {
            logs.get_mut(log).expect("it is there").note = note;
        };
        if self.flaw == Flaw::NoteInTwoSteps {
            medium.write(|logs| set(logs, Bytes::new()))?;
        }
        if self.flaw == Flaw::LongNotesAreLazy && note.len() > PAGE {
            set(&mut medium.shown, note);
            return Ok(());
        }
        medium.write(|logs| set(logs, note.clone()))
    }

    async fn rename(&self, log: &str, to: &str) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        let mut kept = Self::there(&medium, log)?;
        if medium.shown.contains_key(to) && self.flaw != Flaw::RenameReplaces {
            return Err(StoreFault::Exists { log: to.to_owned() });
        }
        if self.flaw == Flaw::RenameForgetsNote {
            kept.note = Bytes::new();
        }
        if self.flaw == Flaw::RenameCopies {
            medium.write(|logs| drop(logs.insert(to.to_owned(), kept.clone())))?;
        }
        medium.removed.insert(log.to_owned(), kept.clone());
        medium.write(|logs| {
            logs.remove(log);
            logs.insert(to.to_owned(), kept.clone());
        })
    }

    async fn remove(&self, log: &str) -> Result<(), StoreFault> {
        let mut medium = self.look()?;
        let by_prefix = self.flaw == Flaw::RemoveByPrefix;
        if let (Flaw::RemovedComesBack, Some(kept)) = (self.flaw, medium.shown.get(log).cloned()) {
            medium.removed.insert(log.to_owned(), kept);
        }
        medium.write(|logs| {
            logs.retain(|name, _| name != log && !(by_prefix && name.starts_with(log)));
        })
    }
}

#[async_trait]
impl StoreRig for Flawed {
    async fn fresh(&self) {
        *self.medium.lock().expect("nobody panics") = Medium::default();
    }

    async fn open(&self) -> Arc<dyn PartitionStore> {
        Arc::new(self.clone())
    }

    async fn power_loss(&self) {
        let mut medium = self.medium.lock().expect("nobody panics");
        let mut durable = std::mem::take(&mut medium.durable);
        for (log, rest) in std::mem::take(&mut medium.cut) {
            // The first of them was overwritten by what was appended.
            let old = durable.get_mut(&log).filter(|kept| kept.end() == Offset(6));
            if let Some(kept) = old {
                kept.records.extend(rest.into_iter().skip(1));
            }
        }
        for (log, removed) in std::mem::take(&mut medium.removed) {
            if let (Flaw::RemovedComesBack, Some(kept)) = (self.flaw, durable.get_mut(&log)) {
                *kept = removed;
            }
        }
        for (log, end) in std::mem::take(&mut medium.hidden) {
            durable.entry(log).and_modify(|kept| kept.records.truncate(end));
        }
        let (hidden, listed) =
            (std::mem::take(&mut medium.torn), std::mem::take(&mut medium.listed));
        *medium = Medium { shown: durable.clone(), durable, hidden, listed, ..Medium::default() };
    }

    async fn rot(&self, log: &str, record: &Bytes) -> bool {
        let mut medium = self.medium.lock().expect("nobody panics");
        let records = &mut medium.shown.get_mut(log).expect("it is there").records;
        match self.flaw {
            Flaw::LeavesRotOut => records.retain(|kept| kept != record),
            Flaw::RotIsTheEnd => {
                let at = records.iter().position(|kept| kept == record).expect("it is there");
                records.truncate(at);
            }
            _ => medium.rotten = Some((log.to_owned(), record.clone())),
        }
        true
    }

    async fn power_loss_at(&self, write: u64) -> bool {
        self.medium.lock().expect("nobody panics").writes_left = Some(write);
        true
    }
}

/// The kit passes what is right, and looks at every step.
#[tokio::test]
async fn a_store_that_is_right_passes() {
    let report = conformance::store(&Flawed::new(Flaw::None)).await.expect("it is right");
    assert!(report.checks > 250 && report.crash_points >= 8, "{report:?}");
    assert_eq!(report.skipped, Vec::<&str>::new());
    let (one, other) = (Flawed::new(Flaw::None), Flawed::new(Flaw::None));
    let report = conformance::moves(&one, &other).await.expect("it is right");
    assert!(report.checks > 10, "{report:?}");
}

/// The kit finds each of many ways to be wrong (S3, S11, H16, H18, R61).
#[tokio::test]
async fn each_store_that_is_wrong_fails() {
    for flaw in FLAWS {
        let found = conformance::store(&Flawed::new(flaw)).await;
        assert!(found.is_err(), "{flaw:?} passes: {found:?}");
    }
}
