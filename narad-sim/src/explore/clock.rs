//! Time, which passes only when it is needed.
//!
//! All nodes share one clock: what holds without any clock is the point of most invariants, and the
//! one that needs clocks (S2) needs only their rate. Time stands still until somebody would have to
//! wait; then it jumps to the next deadline that matters. Heartbeats and reports on the way are
//! sent and answered within the jump, or a search would drown in them.

use narad_core::ids::NodeId;
use narad_core::node::Event;
use narad_core::time::Instant;

use super::action::{Action, number};
use super::world::{World, policy};

/// Deadlines that come and go without changing anything.
const DULL: [&str; 2] = ["a heartbeat is due", "report what moves away"];

/// Most deadlines that one jump passes.
const PASSED_MAX: u32 = 24;

impl World {
    /// Jumps to where something new happens while nobody had anything to do: what is tried again
    /// and again at somebody who is down is passed over. Returns false if nothing new ever does.
    pub(super) fn wait(&mut self) -> bool {
        let silent = self.silent();
        for _ in 0..PASSED_MAX {
            let Some((at, _)) = self.next_deadline() else { return false };
            self.pass_to(at);
            if !self.progress().is_empty() || self.silent() != silent {
                return true;
            }
        }
        false
    }

    /// Jumps to the next deadline that matters, whatever else could happen. Returns false if there
    /// is none.
    pub(super) fn expire(&mut self) -> bool {
        let busy = self.wire.len();
        for _ in 0..PASSED_MAX {
            let Some((at, dull)) = self.next_deadline() else { return false };
            self.pass_to(at);
            if !dull || self.wire.len() != busy {
                return true;
            }
        }
        false
    }

    const fn may_kill(&self) -> bool {
        self.budget.kills > 0 && self.budget.faults > 0
    }

    /// Returns whom the leader may declare dead.
    fn silent(&self) -> Vec<NodeId> {
        self.nodes().filter(|id| self.may_kill() && self.is_silent(*id)).collect()
    }

    /// Has the clock show an instant, and wakes everybody whose time has come.
    pub(super) fn pass_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        for id in self.nodes() {
            // Everybody is woken once, so that nobody remembers another time than the present.
            for _ in 0..16 {
                self.tell(id, Event::Wake);
                let due = self.process(id).and_then(|process| process.node.deadline());
                if due.is_none_or(|due| due.at > self.now) {
                    break;
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<(Instant, bool)> {
        let of_nodes = self.nodes().filter_map(|id| {
            let deadline = self.process(id)?.node.deadline()?;
            Some((deadline.at, DULL.contains(&deadline.why)))
        });
        let of_deaths = self.nodes().filter(|id| self.may_kill() && self.is_alive(*id));
        let of_deaths = of_deaths
            .map(|id: NodeId| (self.heard[Self::at(id)].after(policy().dead_timeout), false))
            .filter(|(at, _)| *at > self.now);
        of_nodes.chain(of_deaths).min()
    }

    /// Lets everything go on, one thing after the other and without faults, until nothing happens
    /// any more or so many steps are taken. Whoever is down starts, whoever is cut off hears again.
    pub(super) fn run_fairly(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            if self.broken.is_some() {
                return true;
            }
            let next = self.recovery().or_else(|| self.progress().first().copied());
            if let Some(next) = next {
                let what = self.story.is_some().then(|| super::tell::action(self, next));
                self.tell_story(|| what.unwrap_or_default());
                self.take(next);
            } else if self.is_at_rest() || !self.wait() {
                return true;
            } else {
                self.check();
            }
        }
        false
    }

    fn recovery(&self) -> Option<Action> {
        if !self.held.is_empty() {
            return Some(Action::Arrive(0));
        }
        self.nodes().find_map(|id| {
            if self.process(id).is_none() {
                Some(Action::Restart(number(id)))
            } else if self.machine(id).cut {
                Some(Action::Heal(number(id)))
            } else if self.machine(id).lagging {
                Some(Action::CatchUp(number(id)))
            } else {
                let slow = self.process(id)?.append.as_ref().is_some_and(|append| append.slow);
                slow.then_some(Action::Ack(number(id)))
            }
        })
    }

    /// Whether everybody is up, knows everything, and nothing moves.
    pub(super) fn is_at_rest(&self) -> bool {
        let last = self.log.last();
        let idle = |id: NodeId| {
            self.process(id).is_some_and(|process| {
                !self.machine(id).cut
                    && process.node.is_registered()
                    && process.append.is_none()
                    && process.node.state().applied().0 == last
                    && process.node.moves().next().is_none()
                    && process.running.is_empty()
            })
        };
        let served = self.row().is_none_or(|row| {
            row.target.is_none()
                && self.process(row.owner).is_some_and(|process| {
                    process.node.serving(self.rules.partition) == Some(row.epoch)
                        && !process.gate.is_frozen()
                })
        });
        self.wire.is_empty() && served && self.nodes().all(idle)
    }
}
