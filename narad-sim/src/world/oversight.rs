//! What the oracle is told and asked, and what becomes of its findings.

use super::World;
use super::observe::At;
use super::view::View;
use crate::oracle::{Fact, Look, Oracle};
use crate::outcome::Violation;
use crate::scenario::Heals;
use crate::trace::Kind;

impl World {
    /// Records that an invariant did not hold.
    pub(crate) fn violated(&mut self, invariant: &str, text: String) {
        let violation = Violation {
            invariant: invariant.to_owned(),
            at_us: self.now.as_micros(),
            event: self.recorder.events,
            text,
        };
        let at = At::default();
        let (now, named) = (self.now, invariant.to_owned());
        self.recorder.said(now, Kind::Violation, &named, at, || violation.text.clone());
        self.violations.push(violation);
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            machines: &self.machines,
            by_node: self.by_node.as_slice(),
            net: &self.net,
            log: self.log.as_ref(),
        }
    }

    pub(crate) fn observe(&mut self, fact: Fact<'_>) {
        let view = View {
            now: self.now,
            machines: &self.machines,
            by_node: &self.by_node,
            net: &self.net,
            log: self.log.as_ref(),
        };
        self.oracle.observe(self.recorder.events, fact, &view);
        self.take_violations();
    }

    /// Writes down what the oracle has found.
    fn take_violations(&mut self) {
        while let Some(violation) = self.oracle.violations().get(self.judged) {
            self.judged += 1;
            let violation = violation.clone();
            let now = self.now;
            let text = || violation.text.clone();
            self.recorder.said(now, Kind::Violation, &violation.invariant, At::default(), text);
            self.violations.push(violation);
        }
    }

    /// Judges what must hold before the world heals, and heals it.
    pub(crate) fn begin_to_live(&mut self) {
        self.judge(Oracle::finish_safety);
        self.is_live_phase = true;
        self.script.end();
        match self.setup.scenario.head.heals {
            Heals::All => self.heal_everything(),
            Heals::Core => self.heal_core(),
        }
        self.observe(Fact::Liveness);
    }

    /// Judges what must hold in the end.
    pub(crate) fn end(&mut self) {
        if self.is_live_phase {
            self.judge(Oracle::finish_liveness);
        } else {
            self.judge(Oracle::finish_safety);
        }
        self.look_at_the_end();
    }

    fn judge(&mut self, how: fn(&mut Oracle, u64, &dyn Look)) {
        let view = View {
            now: self.now,
            machines: &self.machines,
            by_node: &self.by_node,
            net: &self.net,
            log: self.log.as_ref(),
        };
        how(&mut self.oracle, self.recorder.events, &view);
        self.take_violations();
    }

    /// Lets the oracle look again while the world heals; returns whether nothing is left to do.
    pub(crate) fn is_at_rest(&mut self) -> bool {
        self.observe(Fact::Tick);
        self.oracle.is_settled(&self.view())
    }

    /// Whether going on would tell nothing more.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.violations.len() >= Self::VIOLATIONS_MAX
    }
}
