//! What is done to the world, and when.

use std::time::Duration;

use super::action::Action;
use super::error::did_you_mean;
use super::name::{Label, Machine, PartitionName, Who};
use super::read::{Cx, Item, Reader};
use super::table::{Choice, Key, Need, Section, Value, section, words};
use super::value::{Mention, Out};
use super::vocabulary::names_of;

/// One step: when it is taken, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub when: When,
    /// How often again.
    pub repeat: Option<Repeat>,
    /// Its name, under which other steps and expectations speak of it and of what it keeps.
    pub label: Option<Label>,
    /// What it does.
    pub action: Action,
}

section! {
    /// When something is done or looked at.
    ///
    /// With `at` alone: at that time. With `on`: whenever the event happens; with `at` beside it,
    /// only events from that time on count. With `since`: only after that step was taken. With
    /// nothing: at the start.
    pub struct When {
        /// The time since the start at which it is due; with `on`, events before it do not count.
        "at" at: opt Duration => "\"12s\"";
        /// The event of the protocol on which it is due.
        "on" on: opt On => "{ effect = \"flip\", node = \"n2\" }";
        /// The number of an event of the run, as traces of it have them after `event`: it is done
        /// right before that event. For schedules that were enumerated; a number means something
        /// else with every other change of the scenario.
        "event" event: opt u64 => "1234";
        /// The label of a step. Only what happens after that step was taken counts; without `at`
        /// and `on`, it is due when that step was taken.
        "since" since: opt Label => "\"late-flip\"";
        /// How much later it is done; it was taken then, for those with `since`. Not for actions on
        /// the message, proposal or work of `on`, which are done on the spot.
        "after" after: def Duration = Duration::ZERO => "\"500ms\"";
    }
}

section! {
    /// A step that is taken several times.
    pub struct Repeat {
        /// The time from one to the next.
        "every" every: req Duration => "\"5s\"";
        /// How often in all; 0 is without end.
        "times" times: def u32 = 0 => "3";
    }
}

/// An event of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct On {
    /// Which point of its life.
    pub stage: Stage,
    /// Its name, one of those that [`names_of`](super::vocabulary::names_of) lists.
    pub name: &'static str,
    /// Which of those events are meant.
    pub filter: Filter,
}

section! {
    /// Which of the events with a name are meant. What is not given does not matter.
    pub struct Filter {
        /// Where it happens: who asks for the work, who sends (`send`), who receives (`deliver`),
        /// who applies (`applied`), who says it (`note`), the destination (`phase`), the source
        /// (`freeze`).
        "node" node: opt Who => "\"n2\"";
        /// The other end: the receiver (`send`), the sender (`deliver`), the node that is asked.
        "peer" peer: opt Who => "\"n1\"";
        /// The partition that it concerns.
        "partition" partition: opt PartitionName => "\"orders/0\"";
        /// Who proposed it, of a proposal.
        "by" by: opt Who => "\"n2\"";
        /// The node that a proposal is about: who is dead, registers, drains, retires, or is to be
        /// the target.
        "about" about: opt Who => "\"n1\"";
        /// How it ended: of `done`, `applied` and `committed`.
        "outcome" outcome: opt Ending => "\"rejected\"";
        /// Of a `flip`: whether it is a forced one, of a dead source.
        "forced" forced: opt bool => "true";
        /// Of a `mover-waiting` note: the reason.
        "reason" reason: opt String => "\"source-dead\"";
        /// Which of them it begins with, from 1.
        "nth" nth: def u32 = 1 => "2";
        /// How many of them from there on; 0 is all.
        "times" times: def u32 = 1 => "0";
    }
}

words! {
    /// A point in the life of a message, a proposal or a work.
    pub enum Stage {
        /// A node has asked for it; it has not been carried out.
        Effect = "effect",
        /// It has been carried out; the node that asked does not know yet.
        Performed = "performed",
        /// Its outcome reaches the node that asked.
        Done = "done",
        /// A message is about to leave its sender.
        Send = "send",
        /// A message is about to reach its receiver.
        Deliver = "deliver",
        /// A node applied the command.
        Applied = "applied",
        /// The first node applied the command: it is in the log for good.
        Committed = "committed",
        /// A node said so.
        Note = "note",
        /// A move entered the phase.
        Phase = "phase",
        /// A partition was frozen, or is no more.
        Freeze = "freeze",
    }
}

impl Stage {
    /// Whether there is something at this point that can be held, dropped, repeated or delayed.
    #[must_use]
    pub const fn can_be_stopped(self) -> bool {
        match self {
            Self::Effect | Self::Performed | Self::Done | Self::Send | Self::Deliver => true,
            Self::Applied | Self::Committed | Self::Note | Self::Phase | Self::Freeze => false,
        }
    }
}

words! {
    /// How something ended.
    pub enum Ending {
        /// It was done, applied or granted.
        Ok = "ok",
        /// The state machine or the peer refused it.
        Rejected = "rejected",
        /// It failed for certain.
        Failed = "failed",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

impl On {
    /// Returns an event of one name, wherever and whenever it happens first.
    ///
    /// # Panics
    ///
    /// If the stage knows no such name.
    #[must_use]
    pub fn new(stage: Stage, name: &str) -> Self {
        let name = intern(stage, name).expect("the name is one of the stage's");
        Self { stage, name, filter: Filter::any() }
    }
}

impl Filter {
    /// Returns the filter that lets the first event through, whatever it is.
    #[must_use]
    pub const fn any() -> Self {
        Self {
            node: None,
            peer: None,
            partition: None,
            by: None,
            about: None,
            outcome: None,
            forced: None,
            reason: None,
            nth: 1,
            times: 1,
        }
    }

    /// Returns whether the occurrence of that number, from 1, is one of those that are meant.
    #[must_use]
    pub const fn counts(&self, occurrence: u32) -> bool {
        occurrence >= self.nth && (self.times == 0 || occurrence - self.nth < self.times)
    }
}

impl When {
    /// Returns the beginning.
    #[must_use]
    pub const fn start() -> Self {
        Self { at: None, on: None, event: None, since: None, after: Duration::ZERO }
    }

    /// Returns a time.
    #[must_use]
    pub const fn at(time: Duration) -> Self {
        Self { at: Some(time), on: None, event: None, since: None, after: Duration::ZERO }
    }

    /// Returns an event.
    #[must_use]
    pub const fn on(event: On) -> Self {
        Self { at: None, on: Some(event), event: None, since: None, after: Duration::ZERO }
    }
}

impl Step {
    /// Returns a step without a label that is taken once.
    #[must_use]
    pub const fn new(when: When, action: Action) -> Self {
        Self { when, repeat: None, label: None, action }
    }

    /// Returns the same step under a name.
    #[must_use]
    pub fn labelled(mut self, label: &str) -> Self {
        self.label = Some(Label(label.to_owned()));
        self
    }
}

/// Returns the name as the vocabulary has it.
fn intern(stage: Stage, name: &str) -> Option<&'static str> {
    let mut names = names_of(stage).iter().flat_map(|(_, names)| names.iter().copied());
    names.find(|known| *known == name)
}

/// Keys of `on` that say what happens: exactly one of them is given.
pub(super) const STAGES: &[Key] = &{
    const fn key(name: &'static str, about: &'static [&'static str], example: &'static str) -> Key {
        Key {
            name,
            about,
            kind: || "the name of an event".to_owned(),
            short: "name",
            keys: || &[],
            need: Need::Optional,
            example,
        }
    }
    [
        key(
            "effect",
            &["A node has asked for the work or proposal; it has not been carried out."],
            "\"flip\"",
        ),
        key(
            "performed",
            &["It has been carried out; the node that asked does not know yet."],
            "\"install\"",
        ),
        key("done", &["Its outcome reaches the node that asked."], "\"prepare\""),
        key("send", &["The message is about to leave its sender."], "\"list\""),
        key("deliver", &["The message is about to reach its receiver."], "\"prepare-answer\""),
        key("applied", &["A node applied the command."], "\"mark-dead\""),
        key(
            "committed",
            &["The first node applied the command: it is in the log for good."],
            "\"flip\"",
        ),
        key("note", &["A node said so."], "\"mover-not-converged\""),
        key("phase", &["A move entered the phase."], "\"drain\""),
        key("freeze", &["A partition was frozen (`begin`), or is no more (`end`)."], "\"begin\""),
    ]
};

impl Value for On {
    const SHORT: &'static str = "event";

    fn kind() -> String {
        "an event, such as { effect = \"flip\", node = \"n2\" }".to_owned()
    }

    fn keys() -> &'static [Key] {
        Filter::KEYS
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let reader = Reader::open(cx, item, path)?;
        let mut found = Vec::new();
        let mut fine = Some(());
        for stage in Stage::ALL {
            let Some(item) = reader.item(stage.word()) else { continue };
            match read_name(cx, item, &reader.key(stage.word()), *stage) {
                Some(name) => found.push((*stage, name)),
                None => fine = None,
            }
        }
        let filter = Filter::read_from(&reader);
        reader.finish_as("of an event")?;
        fine?;
        let [(stage, name)] = found.as_slice() else {
            let words: Vec<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
            let what = if found.is_empty() {
                "what happens is missing"
            } else {
                "this is more than one event"
            };
            cx.complain(
                reader.line(),
                path,
                format!("{what}: give exactly one of {}", words.join(", ")),
            );
            return None;
        };
        Some(Self { stage: *stage, name, filter: filter? })
    }

    fn write(&self) -> Out {
        let mut out = vec![(self.stage.word(), Out::Text(self.name.to_owned()))];
        self.filter.write_to(&mut out);
        Out::Table(out)
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        self.filter.visit_in(path, see);
    }
}

fn read_name(cx: &Cx<'_>, item: &Item<'_>, path: &str, stage: Stage) -> Option<&'static str> {
    let word = cx.text(item, path, "the name of an event")?;
    let found = intern(stage, word);
    if found.is_none() {
        let lists = names_of(stage);
        let all = lists.iter().flat_map(|(_, names)| names.iter().copied());
        let allowed: Vec<String> =
            lists.iter().map(|(of, names)| format!("{of}: {}", names.join(", "))).collect();
        let hint = did_you_mean(word, all);
        let hint = if hint.is_empty() { "." } else { &hint };
        let text = format!("there is no event \"{word}\"{hint} Allowed are {}", allowed.join("; "));
        cx.complain(cx.line(item.span().start), path, text);
    }
    found
}

impl Step {
    pub(super) fn read(reader: &Reader<'_>) -> Option<Self> {
        let when = When::read_from(reader);
        let repeat = reader.optional::<Repeat>("repeat");
        let label = reader.optional::<Label>("label");
        let action = read_action(reader);
        Some(Self { when: when?, repeat: repeat?, label: label?, action: action? })
    }

    pub(super) fn write(&self) -> Vec<(&'static str, Out)> {
        let mut out = Vec::new();
        self.when.write_to(&mut out);
        if let Some(repeat) = &self.repeat {
            out.push(("repeat", repeat.write()));
        }
        if let Some(label) = &self.label {
            out.push(("label", label.write()));
        }
        out.push(("do", Out::Text(self.action.name().to_owned())));
        self.action.write_to(&mut out);
        out
    }

    pub(super) fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        self.when.visit_in(path, see);
        self.action.visit_in(path, see);
    }

    /// Returns the machine that the step names, if it names exactly one.
    #[must_use]
    pub fn machine(&self) -> Option<Machine> {
        let mut found = Vec::new();
        self.action.visit_in("", &mut |_, mention| match mention {
            Mention::Machine(machine) => found.push(machine),
            Mention::Who(Who::Node(machine)) => found.push(*machine),
            Mention::Who(_) | Mention::Topic(_) | Mention::Partition(_) | Mention::Label(_) => {}
        });
        match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }
}

fn read_action(reader: &Reader<'_>) -> Option<Action> {
    let names: Vec<&str> = Action::VARIANTS.iter().map(|variant| variant.name).collect();
    let Some(item) = reader.item("do") else {
        let text = format!("`do` is missing: give one of {}", names.join(", "));
        reader.cx.complain(reader.line(), reader.path(), text);
        return None;
    };
    let name = reader.cx.word(item, &reader.key("do"), &names)?;
    let action = Action::read_named(name, reader);
    reader.finish_as(&format!("of a step that does \"{name}\""))?;
    action
}
