//! What a scenario expects to come true.

use std::fmt;
use std::time::Duration;

use super::file::inline;
use super::name::{Label, Machine, PartitionName, Who};
use super::read::{Reader, listed};
use super::step::When;
use super::table::{Choice, Section, Value, choice, words};
use super::value::{Mention, Out};

/// Something that must be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// When it is looked at; at the end if nothing is given.
    pub when: When,
    /// How long after that it may take to come true; it is then looked at again and again.
    pub within: Option<Duration>,
    /// Whether it must stay true from then to the end.
    pub always: bool,
    /// Whether it must be false instead.
    pub not: bool,
    /// What; all of them. Never empty.
    pub conditions: Vec<Condition>,
}

impl Expect {
    /// Returns the expectation that a condition is true at the end.
    #[must_use]
    pub fn at_the_end(condition: Condition) -> Self {
        Self {
            when: When::start(),
            within: None,
            always: false,
            not: false,
            conditions: vec![condition],
        }
    }

    /// Whether it is looked at when everything is over.
    #[must_use]
    pub const fn is_at_the_end(&self) -> bool {
        self.when.at.is_none() && self.when.on.is_none() && self.when.since.is_none()
    }
}

choice! {
    /// A condition on the state of the world. A condition whose only key is `is` may be written
    /// without braces: `settled = true`.
    pub enum Condition {
        /// Who owns a partition, as the newest committed state has it.
        "owner" Owner {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The owner.
            "is" is: req Who => "\"n2\"";
        }
        /// Where a partition is moving to.
        "target" Target {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The target; that there is none without it.
            "is" is: opt Who => "\"n2\"";
        }
        /// The epoch of a partition: 1 with its first owner, one more with every flip.
        "epoch" Epoch {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// Exactly.
            "is" is: opt u64 => "2";
            /// Or more.
            "at_least" at_least: opt u64 => "2";
            /// Or less.
            "at_most" at_most: opt u64 => "3";
        }
        /// What the log says of a node.
        "member" Member {
            /// The node.
            "node" node: req Machine => "\"n1\"";
            /// What it is.
            "is" is: req MemberIs => "\"retired\"";
        }
        /// Whether a machine's process runs.
        "process" Process {
            /// The machine.
            "node" node: req Machine => "\"n1\"";
            /// What it does.
            "is" is: req ProcessIs => "\"up\"";
        }
        /// How often a note was seen so far.
        "note" Note {
            /// Its name.
            "name" name: req String => "\"mover-not-converged\"";
            /// Only at this node.
            "node" node: opt Machine => "\"n2\"";
            /// Only of this partition.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// Exactly.
            "is" is: opt u64 => "1";
            /// Or more.
            "at_least" at_least: opt u64 => "1";
            /// Or less.
            "at_most" at_most: opt u64 => "3";
        }
        /// A count of the whole run so far.
        "count" Count {
            /// Of what.
            "of" of: req Counter => "\"moves-done\"";
            /// Exactly.
            "is" is: opt u64 => "1";
            /// Or more.
            "at_least" at_least: opt u64 => "1";
            /// Or less.
            "at_most" at_most: opt u64 => "3";
        }
        /// What an operator's step was answered.
        "reply" Reply {
            /// The label of the step.
            "of" of: req Label => "\"first-drain\"";
            /// The answer.
            "is" is: req ReplyIs => "\"refused\"";
            /// The reason that was given, or one of them.
            "reason" reason: opt String => "\"below-min-voters\"";
        }
        /// How often the steps of a label were taken so far.
        "taken" Taken {
            /// Their label.
            "of" of: req Label => "\"late-flip\"";
            /// Exactly.
            "is" is: opt u64 => "0";
            /// Or more.
            "at_least" at_least: opt u64 => "1";
            /// Or less.
            "at_most" at_most: opt u64 => "3";
        }
        /// The log of a partition on one machine's disk.
        "log" Log {
            /// The machine.
            "node" node: req Who => "\"n2\"";
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// Which directory.
            "what" what: def super::action::Files = super::action::Files::Live => "\"staging\"";
            /// What of it.
            "of" of: req Extent => "\"end\"";
            /// Exactly.
            "is" is: opt u64 => "100";
            /// Or more.
            "at_least" at_least: opt u64 => "100";
            /// Or less.
            "at_most" at_most: opt u64 => "120";
        }
        /// How many directories of a kind a machine's disk has.
        "directories" Directories {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// Of which kind.
            "what" what: req super::action::Files => "\"staging\"";
            /// Only of this partition.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// Exactly.
            "is" is: opt u64 => "0";
            /// Or more.
            "at_least" at_least: opt u64 => "1";
            /// Or less.
            "at_most" at_most: opt u64 => "2";
        }
        /// The offset up to which consumers can see a partition, at its owner.
        "visible" Visible {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// Exactly.
            "is" is: opt u64 => "100";
            /// Or more.
            "at_least" at_least: opt u64 => "100";
            /// Or less.
            "at_most" at_most: opt u64 => "120";
        }
        /// Whether a node has the log of a partition open: then it serves it, and shows its lag.
        "open" Open {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// The partition; any without it.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// Whether.
            "is" is: def bool = true => "false";
        }
        /// A move that waits, and why.
        "waiting" Waiting {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The reason, such as `source-dead`; any without it.
            "reason" reason: opt String => "\"promote-refused\"";
        }
        /// The longest single time for which a partition was frozen so far.
        "frozen" Frozen {
            /// The partition; whichever was frozen longest without it.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// Or longer.
            "at_least" at_least: opt Duration => "\"1s\"";
            /// Or shorter.
            "at_most" at_most: opt Duration => "\"2s\"";
        }
        /// Who leads.
        "leader" Leader {
            /// The leader.
            "is" is: req Machine => "\"n2\"";
        }
        /// Whether nothing is under way any more: no move, no drain, nobody dead who is up.
        "settled" Settled {
            /// Whether.
            "is" is: def bool = true => "true";
        }
    }
}

words! {
    /// What the log says of a node.
    pub enum MemberIs {
        /// A member that is heard of.
        Alive = "alive",
        /// Declared dead.
        Dead = "dead",
        /// Being decommissioned, and not retired yet.
        Draining = "draining",
        /// A member that is neither draining nor retired, whether alive or dead.
        Staying = "staying",
        /// Taken out for good.
        Retired = "retired",
        /// Never joined.
        Absent = "absent",
        /// It has a vote.
        Voter = "voter",
        /// It receives the log without a vote.
        Learner = "learner",
    }
}

words! {
    /// What a process does.
    pub enum ProcessIs {
        /// It runs.
        Up = "up",
        /// It does not run.
        Down = "down",
        /// It ended by itself, because it cannot go on.
        Stopped = "stopped",
    }
}

words! {
    /// A part of a log.
    pub enum Extent {
        /// The offset of its first record.
        Start = "start",
        /// The offset after its last record.
        End = "end",
        /// Its high watermark.
        Hwm = "hwm",
        /// The number of its records.
        Records = "records",
        /// The number of its bytes.
        Bytes = "bytes",
        /// The position up to which consumers have acknowledged.
        Committed = "committed",
    }
}

words! {
    /// Something that is counted.
    pub enum Counter {
        /// Records acknowledged to producers.
        Acked = "acked",
        /// Records delivered to consumers, repetitions included.
        Delivered = "delivered",
        /// Deliveries of a record that had been delivered before.
        Duplicates = "duplicates",
        /// Acknowledged records that are on no disk any more, retention aside.
        Lost = "lost",
        /// Moves that the log planned.
        MovesPlanned = "moves-planned",
        /// Flips, forced ones included.
        MovesDone = "moves-done",
        /// Forced flips.
        MovesForced = "moves-forced",
        /// Moves that were given up or replaced.
        MovesGivenUp = "moves-given-up",
        /// Freezes that began.
        Freezes = "freezes",
        /// Flips that the state machine refused.
        FlipsRejected = "flips-rejected",
        /// Freezes that were revoked.
        Revokes = "revokes",
        /// Deaths that were declared.
        Deaths = "deaths",
        /// Starts of processes after the first ones.
        Restarts = "restarts",
        /// Nodes that were retired.
        Retired = "retired",
        /// Leaders that were elected.
        Elections = "elections",
        /// Bytes that copies brought, tails included.
        CopiedBytes = "copied-bytes",
        /// Commits that were refused to producers.
        Refused = "refused",
        /// Acknowledgements, and whatever else consumers say of records, that were refused.
        ConsumersRefused = "consumers-refused",
        /// Records that nodes have accepted, and answered.
        Accepted = "accepted",
        /// Acceptances that were refused.
        AcceptsRefused = "accepts-refused",
        /// Accepted records that have not arrived at an owner, on nodes that run.
        Backlog = "backlog",
        /// Keyed records that a sibling has taken.
        Rerouted = "rerouted",
        /// Accepted records that were appended by an owner once more, at a seam.
        ArrivedAgain = "arrived-again",
        /// Records that were appended to an ingress log once more.
        Carried = "carried",
        /// Records that a flip has left behind and that were accepted once more.
        Salvaged = "salvaged",
        /// Records that nobody could read and that were given up.
        Skipped = "skipped",
        /// Files that were deleted from quarantine.
        Swept = "swept",
    }
}

words! {
    /// What an operator is answered.
    pub enum ReplyIs {
        /// It is done.
        Done = "done",
        /// It is refused, before it began or by the state machine, and nothing changed.
        Refused = "refused",
        /// It is refused before it began, because it could not end.
        Blocked = "blocked",
        /// No answer: nobody knows whether it was done.
        Unknown = "unknown",
    }
}

/// Returns whether a number is as it is expected.
#[must_use]
pub fn is_within(found: u64, is: Option<u64>, at_least: Option<u64>, at_most: Option<u64>) -> bool {
    is.is_none_or(|is| found == is)
        && at_least.is_none_or(|least| found >= least)
        && at_most.is_none_or(|most| found <= most)
}

/// As a file has it: `count = { of = "lost", is = 0 }`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.name(), inline(&self.value()))
    }
}

impl Condition {
    /// Returns what stands behind its name: without braces if that is all there is to say.
    fn value(&self) -> Out {
        let mut keys = Vec::new();
        self.write_to(&mut keys);
        match keys.as_mut_slice() {
            [("is", value)] => value.clone(),
            // All keys have their default value.
            [] => Out::Boolean(true),
            _ => Out::Table(keys),
        }
    }
}

impl Expect {
    /// Its own keys besides those of [`When`]: an example of each, and what it is.
    pub(super) const KEYS: &'static [(&'static str, &'static str)] = &[
        (
            "within = \"10s\"",
            "How long it may take to come true; it is looked at again and again until then.",
        ),
        ("always = true", "Whether it must stay true from then to the end."),
        ("not = true", "Whether it must be false instead."),
    ];

    pub(super) fn read(reader: &Reader<'_>) -> Option<Self> {
        let when = When::read_from(reader);
        let within = reader.optional::<Duration>("within");
        let always = reader.optional::<bool>("always");
        let not = reader.optional::<bool>("not");
        let mut conditions = Vec::new();
        for variant in Condition::VARIANTS {
            let Some(item) = reader.item(variant.name) else { continue };
            let inner = Reader::open_is(reader.cx, item, &reader.key(variant.name));
            let read = Condition::read_named(variant.name, &inner);
            conditions
                .push(inner.finish_as(&format!("of the condition `{}`", variant.name)).and(read));
        }
        let conditions: Option<Vec<Condition>> = conditions.into_iter().collect();
        reader.finish_as("of an expectation")?;
        let conditions = conditions?;
        if conditions.is_empty() {
            let names: Vec<&str> = Condition::VARIANTS.iter().map(|one| one.name).collect();
            let text = format!("nothing is expected: give one of {}", listed(&names));
            reader.cx.complain(reader.line(), reader.path(), text);
            return None;
        }
        Some(Self {
            when: when?,
            within: within?,
            always: always?.unwrap_or(false),
            not: not?.unwrap_or(false),
            conditions,
        })
    }

    pub(super) fn write(&self) -> Vec<(&'static str, Out)> {
        let mut out = Vec::new();
        self.when.write_to(&mut out);
        if let Some(within) = &self.within {
            out.push(("within", within.write()));
        }
        for (key, on) in [("always", self.always), ("not", self.not)] {
            if on {
                out.push((key, Out::Boolean(true)));
            }
        }
        for condition in &self.conditions {
            out.push((condition.name(), condition.value()));
        }
        out
    }

    pub(super) fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        self.when.visit_in(path, see);
        for condition in &self.conditions {
            condition.visit_in(&format!("{path}.{}", condition.name()), see);
        }
    }
}
