//! Single blows, and the points of a move at which they fall.

use std::time::Duration;

use super::{Draft, Step};
use crate::scenario::action::{DiskAction, Files};
use crate::scenario::name::{PartitionName, Side, Who};
use crate::scenario::step::{Filter, On, Stage, When};
use crate::scenario::value::{Bytes, Shift};
use crate::scenario::{Action, Keep};

/// Points of a move that happen at its destination.
pub(super) const AT_DESTINATION: &[(Stage, &str)] = &[
    (Stage::Done, "list"),
    (Stage::Done, "copy"),
    (Stage::Performed, "copy"),
    (Stage::Performed, "checkpoint"),
    (Stage::Done, "checkpoint"),
    (Stage::Effect, "prepare"),
    (Stage::Performed, "prepare"),
    (Stage::Done, "prepare"),
    (Stage::Phase, "drain"),
    (Stage::Phase, "promote"),
    (Stage::Effect, "verify"),
    (Stage::Effect, "install"),
    (Stage::Performed, "install"),
    (Stage::Done, "install"),
    (Stage::Effect, "flip"),
    (Stage::Performed, "flip"),
    (Stage::Done, "flip"),
    (Stage::Effect, "resolve"),
    (Stage::Performed, "resolve"),
    (Stage::Effect, "open"),
    (Stage::Performed, "open"),
    (Stage::Performed, "expose"),
    (Stage::Performed, "restage"),
];

/// Points of a move that happen at its source.
pub(super) const AT_SOURCE: &[(Stage, &str)] = &[
    (Stage::Deliver, "list"),
    (Stage::Deliver, "copy"),
    (Stage::Deliver, "prepare"),
    (Stage::Effect, "freeze"),
    (Stage::Performed, "freeze"),
    (Stage::Freeze, "begin"),
    (Stage::Freeze, "end"),
    (Stage::Send, "prepare-answer"),
    (Stage::Effect, "commit"),
    (Stage::Performed, "commit"),
    (Stage::Effect, "revoke"),
    (Stage::Performed, "revoke"),
    (Stage::Done, "revoke"),
    (Stage::Effect, "thaw"),
    (Stage::Effect, "set-aside"),
    (Stage::Performed, "set-aside"),
    (Stage::Effect, "close"),
];

/// Points of the log.
pub(super) const IN_LOG: &[(Stage, &str)] = &[
    (Stage::Committed, "set-target"),
    (Stage::Committed, "clear-target"),
    (Stage::Committed, "flip"),
    (Stage::Applied, "flip"),
    (Stage::Committed, "revoke"),
    (Stage::Committed, "resolve"),
    (Stage::Committed, "mark-dead"),
    (Stage::Committed, "register"),
    (Stage::Committed, "set-draining"),
    (Stage::Committed, "drained-out"),
    (Stage::Committed, "retire"),
];

/// Those of them that concern no partition.
pub(super) const OF_MEMBERS: &[&str] =
    &["mark-dead", "register", "set-draining", "drained-out", "retire"];

impl Draft<'_> {
    /// An event of a partition's move, at one of some points.
    pub(super) fn point(&mut self, points: &[(Stage, &str)], partition: &PartitionName) -> When {
        let (stage, name) = *self.dice.pick(points);
        let concerned = !OF_MEMBERS.contains(&name);
        // Of events that come often, a later one as well.
        let nth = if self.dice.happens(30) { self.dice.within(2, 4) } else { 1 };
        let nth = u32::try_from(nth).expect("it is at most 4");
        When::on(On {
            filter: Filter {
                partition: concerned.then(|| partition.clone()),
                nth,
                ..Filter::any()
            },
            ..On::new(stage, name)
        })
    }

    /// Has a partition move early, so that there is a move to strike at.
    pub(super) fn sent(&mut self, partition: &PartitionName) {
        if self.dice.happens(60) {
            let end = self.safety_ms() / 3;
            let when = When::at(Duration::from_millis(self.dice.within(3, end / 100) * 100));
            let (partition, to) = (partition.clone(), self.anyone());
            self.push(Step::new(when, Action::Move { partition, to, through: None }));
        }
    }

    /// An event of a partition: the first one.
    pub(super) fn first(stage: Stage, name: &str, partition: &PartitionName) -> On {
        On {
            filter: Filter { partition: Some(partition.clone()), ..Filter::any() },
            ..On::new(stage, name)
        }
    }

    /// One blow: a fault of one node.
    pub(super) fn blow(&mut self, node: Who, kinds: &[Blow]) -> Action {
        let lasting = self.lasting();
        let short = self.dice.millis_by_100(200, 5_000);
        match *self.dice.pick(kinds) {
            Blow::Kill => Action::Kill { node, lasting: Some(lasting) },
            Blow::Power => Action::PowerLoss { node, keep: self.keep(), lasting: Some(lasting) },
            Blow::Stop => Action::Stop { node, lasting: Some(short) },
            Blow::Pause => Action::Pause { node, lasting: Some(lasting) },
            Blow::Suspend => Action::Suspend { node, lasting, clock_stops: false },
            Blow::Lag => Action::Lag { node, lasting },
            Blow::Cut => Action::Cut {
                from: Side::These(vec![node]),
                to: Side::Others,
                both: true,
                lasting: Some(lasting),
            },
            Blow::CutOut => Action::Cut {
                from: Side::These(vec![node]),
                to: Side::Others,
                both: false,
                lasting: Some(lasting),
            },
            Blow::CutIn => Action::Cut {
                from: Side::Others,
                to: Side::These(vec![node]),
                both: false,
                lasting: Some(lasting),
            },
            Blow::Clog => Action::Clog {
                from: Side::These(vec![node]),
                to: Side::Others,
                both: self.dice.happens(50),
                lasting: Some(short),
            },
            Blow::Slow => Action::Slow {
                from: Side::These(vec![node]),
                to: Side::Others,
                both: self.dice.happens(50),
                bandwidth: self.dice.maybe(70, |dice| Bytes(*dice.pick(&[4, 16, 64]) << 10)),
                delay: self.dice.millis(10, 1_500),
                lasting: Some(lasting),
            },
            Blow::DiskFail => self.disk_fail(node),
            Blow::DiskFull => Action::DiskFull {
                node,
                free: Bytes(*self.dice.pick(&[0, 2_000, 10_000])),
                lasting: Some(short),
            },
            Blow::DiskSlow => {
                Action::DiskSlow { node, by: self.dice.millis(20, 1_000), lasting: Some(short) }
            }
            Blow::DiskStuck => Action::DiskStuck { node, lasting: Some(lasting) },
            Blow::WallJump => {
                let ms = i64::try_from(self.dice.within(1, 100) * 10_000).unwrap_or(0);
                let back = self.dice.happens(50);
                Action::WallJump { node, by: Shift { ms: if back { -ms } else { ms } } }
            }
            Blow::ClockRate => {
                // Half of the bound: it is that of any two clocks.
                let ppm = i64::try_from(self.dice.within(1, 24) * 1_000).unwrap_or(0);
                let slow = self.dice.happens(50);
                Action::ClockRate { node, ppm: if slow { -ppm } else { ppm } }
            }
        }
    }

    pub(super) fn keep(&mut self) -> Keep {
        *self.dice.pick(&[Keep::Nothing, Keep::Torn, Keep::Random, Keep::Everything])
    }

    pub(super) fn disk_fail(&mut self, node: Who) -> Action {
        let action = self.dice.maybe(80, |dice| {
            *dice.pick(&[
                DiskAction::Sync,
                DiskAction::Write,
                DiskAction::Rename,
                DiskAction::SyncDir,
                DiskAction::Create,
                DiskAction::Read,
            ])
        });
        let what = self.dice.maybe(60, |dice| *dice.pick(&[Files::Staging, Files::Live]));
        let skip = u32::try_from(self.dice.within(0, 6)).expect("it is at most 6");
        let times = *self.dice.pick(&[1, 1, 3, 0]);
        let lasting = Some(Duration::from_millis(self.dice.within(5, 50) * 100));
        Action::DiskFail { node, action, what, partition: None, skip, times, lasting }
    }

    /// Strikes one of the nodes of a move, at one of its points.
    pub(super) fn strike(&mut self, points: &[(Stage, &str)], kinds: &[Blow]) {
        let partition = self.partition();
        let mut when = self.point(points, &partition);
        let victim = match self.dice.below(4) {
            0 | 1 => Who::Here,
            2 => Who::Owner(partition),
            _ => Who::Leader,
        };
        if self.dice.happens(30) {
            when.after = self.dice.millis(1, 900);
        }
        let action = self.blow(victim, kinds);
        self.push(Step::new(when, action));
    }
}

/// A fault of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blow {
    Kill,
    Power,
    Stop,
    Pause,
    Suspend,
    Lag,
    Cut,
    CutOut,
    CutIn,
    Clog,
    Slow,
    DiskFail,
    DiskFull,
    DiskSlow,
    DiskStuck,
    WallJump,
    ClockRate,
}
