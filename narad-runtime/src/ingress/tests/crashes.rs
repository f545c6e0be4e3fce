//! Power losses at every step of a log's life.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::disk::mem::Keep;

/// What the world outside knows when the power goes off.
#[derive(Debug, Default)]
struct Promised {
    /// What was answered, by position, and not checkpointed.
    accepted: BTreeMap<Seq, Parcel>,
    /// The highest position that was answered.
    next: Seq,
    /// The last checkpoint that was confirmed, and the last that was asked for.
    confirmed: Seq,
    asked: Seq,
}

impl Promised {
    fn append(&mut self, log: &IngressLog, numbers: Range<u64>) -> Result<(), IngressError> {
        let parcels = parcels(numbers);
        let done = log.append(parcels.clone())?;
        self.accepted.extend((done.first.0..).map(Seq).zip(parcels));
        self.next = done.end;
        Ok(())
    }

    fn checkpoint(&mut self, log: &IngressLog, seq: Seq) -> Result<(), IngressError> {
        self.asked = self.asked.max(seq);
        self.accepted.retain(|accepted, _| *accepted >= seq);
        log.checkpoint(seq)?;
        self.confirmed = self.confirmed.max(seq);
        Ok(())
    }

    /// What stuck is carried to the end, and then let go of where it was.
    fn carry(&mut self, log: &IngressLog, stuck: &[Seq]) -> Result<(), IngressError> {
        let carried = log.carry(stuck.iter().copied())?;
        for (old, new) in stuck.iter().zip((carried.first.0..carried.end.0).map(Seq)) {
            self.accepted.insert(new, self.accepted[old].clone());
        }
        self.next = carried.end;
        self.checkpoint(log, stuck.last().expect("some").next())
    }

    /// Opens the log after a power loss and compares.
    fn check(&self, disk: &MemDisk, context: &str) -> (IngressLog, Told) {
        if self.next == Seq(0) {
            // Nothing was promised; a creation that was cut short is repeated.
            IngressLog::create(disk, Path::new(DIR)).expect("repeatable");
        }
        let scanned = scan(disk, Path::new(DIR)).expect("readable");
        let (log, found, told) = open(disk);
        assert!(found.next >= self.next, "{context}: {self:?} {found:?}");
        assert!((self.confirmed..=self.asked).contains(&found.checkpoint), "{context}");
        assert_eq!((found.checkpoint, found.next), (scanned.checkpoint, scanned.next), "{context}");
        assert_eq!(found.recovery.damage, [], "{context}");

        let mut waybills = found.waybills;
        let waiting: Vec<Waybill> = waybills.by_ref().collect();
        assert_eq!(waybills.finish().expect("undamaged"), [], "{context}");
        let positions: Vec<Seq> = waiting.iter().map(|waybill| waybill.seq).collect();
        assert_eq!(positions, seqs(found.checkpoint.0..found.next.0), "{context}");
        let read = read_all(&log, &positions);
        assert_eq!(read, scanned.waiting, "{context}");
        for ((seq, parcel), waybill) in read.iter().zip(&waiting) {
            assert_eq!(parcel.waybill(*seq), *waybill, "{context}");
            let promised = self.accepted.get(seq);
            assert!(promised.is_none_or(|promised| promised == parcel), "{context}: {seq:?}");
        }
        let waits = |seq: &&Seq| **seq >= found.checkpoint;
        assert!(self.accepted.keys().filter(waits).all(|seq| positions.contains(seq)), "{context}");
        (log, told)
    }
}

/// A life with appends, checkpoints that give segments up, and records that stick.
fn live(disk: &MemDisk, promised: &mut Promised) -> Result<(), IngressError> {
    IngressLog::create(disk, Path::new(DIR))?;
    let (log, ..) = try_open(disk)?;
    for at in 0..3_u64 {
        let first = at * 10;
        promised.append(&log, first..first + 1)?;
        promised.append(&log, first + 1..first + 6)?;
        promised.append(&log, first + 6..first + 10)?;
        promised.checkpoint(&log, Seq(promised.next.0 - 4))?;
    }
    promised.carry(&log, &[promised.next.0 - 3, promised.next.0 - 1].map(Seq))?;
    promised.append(&log, 30..31)?;
    promised.checkpoint(&log, Seq(promised.next.0))
}

/// R2, S1, H17: whatever step the power fails at and whatever of the unsynced bytes and names
/// survives, every record that was acknowledged and not dispatched is there, at its own position.
#[test]
fn every_accepted_record_survives_a_power_loss_after_any_step() {
    let disk = MemDisk::new();
    live(&disk, &mut Promised::default()).expect("nothing fails");
    assert!(bases(&disk)[0] > 20, "segments were given up: {:?}", bases(&disk));
    let steps = disk.steps();
    assert!(steps > 90, "the run is long enough to mean something: {steps}");
    let keeps = [Keep::Nothing, Keep::Everything, Keep::First(1), Keep::First(4)];
    let keeps =
        keeps.into_iter().chain((0..4).flat_map(|seed| [Keep::Seeded(seed), Keep::Torn(seed)]));
    for keep in keeps {
        for step in 0..=steps {
            let disk = MemDisk::new();
            disk.set_sector(16);
            disk.stop_after(step);
            let mut promised = Promised::default();
            let _ = live(&disk, &mut promised);
            disk.crash(keep);
            let context = format!("{keep:?} after step {step}");
            let (log, _) = promised.check(&disk, &context);
            // A position is never given twice, and what was found once stays.
            let next = log.next();
            promised.append(&log, 100..102).expect("the disk works again");
            assert_eq!(promised.next, Seq(next.0 + 2), "{context}");
            disk.crash(Keep::Nothing);
            promised.check(&disk, &context);
        }
    }
}

/// A power loss in the middle of recovering from one.
#[test]
fn a_power_loss_at_any_step_of_an_opening_loses_nothing() {
    for seed in 0..8 {
        let mut step = 0;
        loop {
            let disk = MemDisk::new();
            disk.set_sector(16);
            let mut promised = Promised::default();
            live(&disk, &mut promised).expect("nothing fails");
            let (log, ..) = open(&disk);
            // The write is done, its sync is not.
            disk.stop_after(1);
            promised.append(&log, 50..58).expect_err("the power is off");
            disk.crash(Keep::Torn(seed));
            disk.stop_after(step);
            let opened = try_open(&disk).is_ok();
            disk.crash(Keep::Seeded(seed));
            promised.check(&disk, &format!("seed {seed}, step {step}"));
            if opened {
                break;
            }
            step += 1;
        }
        assert!(step > 4, "opening takes steps: {step}");
    }
}

/// H16: an append of several frames may lose any of its sectors; what is cut was never
/// acknowledged, and what precedes it stays.
#[test]
fn a_torn_append_of_many_frames_is_cut_to_whole_frames() {
    let limits = Limits { append_bytes_max: 4 << 20, ..Limits::default() };
    for seed in 0..12 {
        let disk = MemDisk::new();
        disk.set_sector(4096);
        IngressLog::create(&disk, Path::new(DIR)).expect("fresh");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let open = || IngressLog::open(Arc::clone(&shared), Path::new(DIR), limits, |_| {});
        let (log, _) = open().expect("opens");
        log.append(parcels(0..3)).expect("space is left");
        let mut large = parcels(3..15);
        for parcel in &mut large {
            parcel.record.value = vec![7; 100_000].into();
        }
        disk.stop_after(1);
        log.append(large.clone()).expect_err("the power is off");
        disk.crash(Keep::Seeded(seed));
        let (log, found) = open().expect("opens");
        let end = found.next.0;
        assert!((3..15).contains(&end), "{end}");
        assert_eq!(found.waybills.finish().expect("readable"), []);
        let whole: Vec<Parcel> = parcels(0..3).into_iter().chain(large).collect();
        for (seq, parcel) in read_all(&log, &seqs(0..end)) {
            assert_eq!(parcel, whole[usize::try_from(seq.0).expect("small")]);
        }
    }
}

/// An interrupted creation is completed, and a log that is there is left as it is.
#[test]
fn creating_a_log_can_be_repeated() {
    for step in 0..8 {
        let disk = MemDisk::new();
        disk.stop_after(step);
        let _ = IngressLog::create(&disk, Path::new(DIR));
        disk.crash(Keep::Seeded(step));
        IngressLog::create(&disk, Path::new(DIR)).expect("repeatable");
        let (log, ..) = open(&disk);
        log.append(parcels(0..2)).expect("space is left");
        IngressLog::create(&disk, Path::new(DIR)).expect("it is there");
        disk.crash(Keep::Nothing);
        assert_eq!(open(&disk).1.next, Seq(2));
    }
}

/// S3: a log that is missing is not taken for an empty one.
#[test]
fn a_missing_log_is_never_created_by_opening() {
    let disk = MemDisk::new();
    assert!(try_open(&disk).is_err());
    disk.create_dir_all(Path::new(DIR)).expect("space is left");
    let Err(IngressError::Log(error)) = try_open(&disk) else { panic!("it opened") };
    assert!(matches!(*error, LogError::NoSegments { .. }), "{error}");
}

#[derive(Clone, Debug)]
enum Act {
    Append(u64),
    Checkpoint(u64),
    Carry(u64),
    /// The power fails so many steps into an append.
    Crash {
        count: u64,
        steps: u64,
        seed: u64,
    },
    Reopen,
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1..6_u64).prop_map(Act::Append),
        2 => (0..12_u64).prop_map(Act::Checkpoint),
        1 => (1..4_u64).prop_map(Act::Carry),
        2 => (1..6_u64, 0..8_u64, any::<u64>())
            .prop_map(|(count, steps, seed)| Act::Crash { count, steps, seed }),
        1 => Just(Act::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// S1, S11: any mixture of everything; duplicates, never gaps.
    #[test]
    fn a_log_survives_any_history(acts in proptest::collection::vec(any_act(), 1..24)) {
        let disk = MemDisk::new();
        disk.set_sector(32);
        let (mut log, mut told) = filled(&disk, 0);
        let mut promised = Promised::default();
        let mut number = 0;
        for act in acts {
            match act {
                Act::Append(count) => {
                    promised.append(&log, number..number + count).unwrap();
                    number += count;
                    let last = lock(&told).last().copied();
                    prop_assert_eq!(last.map(|waybill| waybill.seq.next()), Some(promised.next));
                }
                Act::Checkpoint(back) => {
                    let seq = Seq(promised.next.0.saturating_sub(back));
                    promised.checkpoint(&log, seq).unwrap();
                }
                Act::Carry(count) => {
                    let count = usize::try_from(count).unwrap();
                    let stuck: Vec<Seq> =
                        promised.accepted.keys().copied().take(count).collect();
                    if !stuck.is_empty() {
                        promised.carry(&log, &stuck).unwrap();
                    }
                }
                Act::Crash { count, steps, seed } => {
                    disk.stop_after(steps);
                    let _ = promised.append(&log, number..number + count);
                    number += count;
                    disk.crash(Keep::Torn(seed));
                    (log, told) = promised.check(&disk, "after a crash");
                    // What was found is as good as acknowledged.
                    promised.next = log.next();
                }
                Act::Reopen => prop_assert!(!log.reopen().unwrap(), "nothing has failed"),
            }
            prop_assert!(log.checkpointed() == promised.confirmed.max(log.checkpointed()));
            let waiting: Vec<Seq> = promised.accepted.keys().copied().collect();
            let read = read_all(&log, &waiting);
            prop_assert!(read.into_iter().eq(promised.accepted.clone()));
        }
    }
}
