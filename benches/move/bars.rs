//! What is measured, and what is enough.

use clap::ValueEnum;
use serde::Serialize;

use super::report::Report;
use super::{Options, copy, freeze, plan, producer, replicated};

/// One question with a number for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[value(rename_all = "UPPER")]
pub(crate) enum Bar {
    /// A verified copy, not durable, beside rsync.
    C1,
    /// A durable verified copy beside rsync with fsync, and beside a plain loop.
    C2,
    /// The copy beside the raw limit of sendfile and splice.
    C3,
    /// CPU seconds per GiB beside rsync.
    C4,
    /// A verified copy under TLS beside one without.
    T1,
    /// The rate under a throttle beside the rate that was asked for.
    C6,
    /// The p99 of a producer on the same disk during a throttled move, beside rsync.
    C7,
    /// The longest stall of that producer with the throttle off, beside rsync.
    C8,
    /// The freeze's median beside its floor.
    F1,
    /// The freeze's p99 beside its floor's.
    F2,
    /// The freeze of 4 GiB beside that of 64 MiB.
    F3,
    /// The freeze of a move that does not converge, beside tail over bandwidth.
    F4,
    /// The predicted freeze beside the actual one.
    F5,
    /// A full plan beside one counting pass.
    P1,
    /// A plan beside a plain quadratic planner's.
    P2,
    /// Topping up after one change beside a full plan.
    P3,
    /// A plan for ten times as many partitions.
    P4,
    /// One compare-and-swap of the replicated log beside a commit and a round trip.
    R1,
    /// Many proposals at once beside one at a time.
    R2,
    /// A move beside that of a NATS stream.
    N1,
}

impl Bar {
    /// Returns every bar, in the order in which they are measured.
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns the group that it is measured with.
    pub(crate) fn group(self) -> Group {
        match self {
            Self::C1 | Self::C2 | Self::C3 | Self::C4 | Self::T1 => Group::Copy,
            Self::C6 | Self::C7 | Self::C8 => Group::Producer,
            Self::F1 | Self::F2 | Self::F3 | Self::F4 | Self::F5 => Group::Freeze,
            Self::P1 | Self::P2 | Self::P3 | Self::P4 => Group::Planner,
            Self::R1 | Self::R2 => Group::Replicated,
            Self::N1 => Group::Nats,
        }
    }
}

/// Bars that share their preparations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Copy,
    Producer,
    Freeze,
    Planner,
    Replicated,
    Nats,
}

/// Returns the groups of those bars, each once.
pub(crate) fn groups(bars: &[Bar]) -> Vec<Group> {
    let mut groups = Vec::new();
    for bar in bars {
        if !groups.contains(&bar.group()) {
            groups.push(bar.group());
        }
    }
    groups
}

impl Group {
    /// Returns the name of its plot.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Producer => "producer",
            Self::Freeze => "freeze",
            Self::Planner => "planner",
            Self::Replicated => "replicated",
            Self::Nats => "nats",
        }
    }

    /// Measures those of its bars that are wanted.
    pub(crate) fn measure(self, options: &Options, wanted: &[Bar], report: &mut Report) {
        let wanted: Vec<Bar> = wanted.iter().copied().filter(|bar| bar.group() == self).collect();
        match self {
            Self::Copy => copy::measure(options, &wanted, report),
            Self::Producer => producer::measure(options, &wanted, report),
            Self::Planner => plan::measure(options, &wanted, report),
            Self::Freeze => freeze::measure(options, &wanted, report),
            Self::Replicated => replicated::measure(options, &wanted, report),
            Self::Nats => {
                for bar in wanted {
                    report.skip(bar, "it is not measured yet");
                }
            }
        }
    }
}

/// What is enough.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Threshold {
    AtLeast(f64),
    AtMost(f64),
    Within(f64, f64),
    /// Only reported.
    None,
}

impl Threshold {
    /// Returns whether a value is enough.
    pub(crate) fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Within(least, most) => (least..=most).contains(&value),
            Self::None => true,
        }
    }
}
