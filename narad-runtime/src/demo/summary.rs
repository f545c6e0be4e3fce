//! What the demonstration comes to: one object for programs, a table and sentences for people.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::node_loop::Counters;

/// What the demonstration comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Records acknowledged to a producer.
    pub acked: u64,
    /// Records that came back to the consumer, each counted once.
    pub consumed: u64,
    /// Acknowledged records that are nowhere.
    pub lost: u64,
    /// Acknowledged records that are there, but were never delivered.
    pub skipped: u64,
    /// Acknowledged records that only the old directory of the killed node has.
    pub on_old_disk: u64,
    /// Records that came back with other bytes than they were produced with.
    pub altered: u64,
    /// Times that a record was delivered again.
    pub duplicates: u64,
    /// Reigns in which two nodes answered.
    pub two_owners: Vec<String>,
    /// Moves.
    pub moves: Moves,
    /// Bytes copied by moves.
    pub bytes: u64,
    /// How fast, while they were copied.
    pub bytes_per_second: u64,
    /// How long normal moves kept partitions frozen.
    pub freeze_ms: FreezeMs,
    /// The node that was taken out.
    pub decommissioned: String,
    /// The node that was killed.
    pub killed: String,
    /// Partitions that were promoted without it.
    pub promoted: Vec<u32>,
    /// Partitions that waited for it.
    pub waited: Vec<u32>,
    /// Who votes in the end.
    pub voters: Vec<String>,
    /// Longest time without an acknowledged record.
    pub longest_silence_ms: u64,
    /// Reigns that were seen: one node's time with one partition.
    pub reigns: u64,
    /// Files that were compared byte for byte.
    pub files: u64,
    /// All of it.
    pub elapsed_ms: u64,
}

/// Moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    /// That ended with a new owner.
    pub completed: u64,
    /// Of these, without the old owner.
    pub force_promoted: u64,
    /// Of these, those that were written to faster than they were copied.
    pub non_converged: u64,
}

/// Freezes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreezeMs {
    /// Half of them were no longer.
    pub p50: u64,
    /// 99 of 100 were no longer.
    pub p99: u64,
    /// None was longer.
    pub max: u64,
}

impl FreezeMs {
    fn of(mut freezes: Vec<Duration>) -> Self {
        freezes.sort_unstable();
        let at = |percent: usize| {
            let place = (freezes.len() * percent).div_ceil(100).saturating_sub(1);
            freezes.get(place).map_or(0, |freeze| millis(*freeze))
        };
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}

/// Returns whole milliseconds, rounded up: a freeze that was there is not shown as none.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

impl Summary {
    /// Takes over what the nodes have counted in all their lives.
    pub(super) fn count(&mut self, lives: &[std::sync::Arc<Counters>]) {
        let mut freezes = Vec::new();
        for life in lives {
            self.moves.completed += life.moved.load(Ordering::Relaxed);
            self.moves.force_promoted += life.forced.load(Ordering::Relaxed);
            self.moves.non_converged += life.not_converged.load(Ordering::Relaxed);
            self.bytes += life.copied_bytes.load(Ordering::Relaxed);
            freezes.extend(life.freezes().into_iter().map(|freeze| freeze.lasted));
        }
        self.freeze_ms = FreezeMs::of(freezes);
    }

    /// Returns whether everything was kept that Narad promises.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.lost == 0 && self.skipped == 0 && self.altered == 0 && self.two_owners.is_empty()
    }

    /// Returns the table and a sentence for every promise.
    #[must_use]
    pub fn for_people(&self) -> String {
        let mut text = self.table();
        text.push_str("\n\n");
        for (word, sentence) in self.promises() {
            let word = match word {
                Word::Kept => "kept",
                Word::Broken => "BROKEN",
                Word::Note => "note",
            };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{word:<6}  {sentence}");
        }
        text
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header([
            "MOVES",
            "FORCED",
            "BYTES",
            "MiB/s",
            "FREEZE p50 ms",
            "p99 ms",
            "max ms",
            "REDELIVERED",
            "LOST",
        ]);
        let cells = [
            self.moves.completed,
            self.moves.force_promoted,
            self.bytes,
            self.bytes_per_second >> 20,
            self.freeze_ms.p50,
            self.freeze_ms.p99,
            self.freeze_ms.max,
            self.duplicates,
            self.lost,
        ];
        table.add_row(cells.map(|cell| cell.to_string()));
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let text = table.to_string();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// Returns a sentence for every promise, with the evidence.
    fn promises(&self) -> Vec<(Word, String)> {
        let Self { acked, consumed, lost, skipped, duplicates, .. } = self;
        let Self { reigns, decommissioned, killed, longest_silence_ms, on_old_disk, .. } = self;
        let (promoted, waited) = (self.promoted.len(), self.waited.len());
        let voters = self.voters.join(", ");
        let mut words = vec![
            Word::of(*lost == 0).with(format!(
                "no acknowledged record was lost: {acked} acknowledged, {consumed} consumed, \
                 {lost} lost"
            )),
            Word::of(*skipped == 0).with(format!(
                "no record was skipped: {skipped} are there and were not delivered, {duplicates} \
                 deliveries were repetitions"
            )),
            Word::of(self.altered == 0).with(self.bytes_promise()),
            Word::of(self.two_owners.is_empty())
                .with(format!("never two owners: in each of {reigns} reigns one node answered")),
            Word::of(!self.voters.contains(decommissioned)).with(format!(
                "the decommissioned node is out of the voters: {decommissioned} left, {voters} \
                 vote"
            )),
            Word::Kept.with(format!(
                "a dead source holds up only what nobody has a whole copy of: {promoted} \
                 partitions of {killed} were promoted without it, {waited} waited for it and were \
                 served again when it returned"
            )),
            Word::Kept.with(format!(
                "nothing stalled: longest time without an acknowledged record \
                 {longest_silence_ms} ms"
            )),
        ];
        let two_owners = self.two_owners.iter();
        words.extend(two_owners.map(|both| Word::Broken.with(format!("two owners: {both}"))));
        if *on_old_disk > 0 {
            words.push(Word::Note.with(format!(
                "{on_old_disk} acknowledged records are still in the old directory of {killed} \
                 only: not lost, and on their way to their new owners"
            )));
        }
        words
    }

    fn bytes_promise(&self) -> String {
        let whole = if self.altered > 0 {
            format!("{} records came back with other bytes", self.altered)
        } else {
            "every record came back byte for byte".to_owned()
        };
        if self.files == 0 { whole } else { format!("{whole}, compared with {} files", self.files) }
    }
}

/// The word on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Kept,
    Broken,
    /// Something to know that breaks no promise.
    Note,
}

impl Word {
    const fn of(kept: bool) -> Self {
        if kept { Self::Kept } else { Self::Broken }
    }

    const fn with(self, sentence: String) -> (Self, String) {
        (self, sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_real_freezes() {
        let ms = |ms: &[u64]| ms.iter().copied().map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(FreezeMs::of(Vec::new()), FreezeMs::default());
        assert_eq!(FreezeMs::of(ms(&[7])), FreezeMs { p50: 7, p99: 7, max: 7 });
        let many: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(FreezeMs::of(ms(&many)), FreezeMs { p50: 100, p99: 198, max: 200 });
        assert_eq!(FreezeMs::of(vec![Duration::from_micros(10)]).max, 1);
    }

    #[test]
    fn a_broken_promise_is_said_so() {
        let kept = Summary { acked: 5, consumed: 5, ..Summary::default() };
        assert!(kept.is_kept());
        let lost = Summary { lost: 1, ..kept.clone() };
        let two = Summary { two_owners: vec!["partition 1, epoch 2".into()], ..kept.clone() };
        for broken in [&lost, &two, &Summary { skipped: 1, ..kept.clone() }] {
            assert!(!broken.is_kept());
            assert!(broken.for_people().contains("BROKEN"), "{}", broken.for_people());
        }
        // Not served, but not lost.
        assert!(Summary { on_old_disk: 3, ..kept }.is_kept());
    }

    #[test]
    fn programs_find_the_fields_under_their_names() {
        let json = serde_json::to_value(Summary::default()).expect("it has text keys only");
        for field in [
            "acked",
            "consumed",
            "lost",
            "duplicates",
            "bytes",
            "decommissioned",
            "voters",
            "elapsed_ms",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        for field in ["completed", "force_promoted", "non_converged"] {
            assert!(json["moves"].get(field).is_some(), "{field}");
        }
        for field in ["p50", "p99", "max"] {
            assert!(json["freeze_ms"].get(field).is_some(), "{field}");
        }
    }
}
