//! Who leads, and who believes what about it.

use narad_core::ids::NodeId;
use narad_core::node::Event;

use super::{AbstractLog, Due, Output, Why};
use crate::metastore::Reach;
use crate::time::Time;

impl AbstractLog {
    /// Makes another node lead: that one, or one by chance. Returns who does, if anybody else
    /// could be elected.
    pub fn unseat(
        &mut self,
        now: Time,
        to: Option<NodeId>,
        why: Why,
        reach: &dyn Reach,
    ) -> Option<NodeId> {
        self.now = self.now.max(now);
        let mut heirs = self.electable(reach);
        heirs.retain(|heir| self.leader != Some(*heir) && to.is_none_or(|to| to == *heir));
        let heir = self.fate.pick(&heirs).copied()?;
        self.elect(heir, why, reach);
        Some(heir)
    }

    /// A node hands over, if it leads and the other can be elected.
    pub fn transfer(&mut self, now: Time, node: NodeId, to: NodeId) {
        self.now = self.now.max(now);
        if self.leader == Some(node) && self.believes(node) == Some(node) && node != to {
            let takes = self.hop() + self.hop();
            self.schedule(takes, Due::HandOver { from: node, to });
        }
    }

    pub(super) fn hand_over(&mut self, from: NodeId, to: NodeId, reach: &dyn Reach) {
        if self.leader == Some(from) && self.hears(to, reach) && self.electable(reach).contains(&to)
        {
            self.elect(to, Why::Transfer, reach);
        }
    }

    /// Plans an election if the leader is none.
    pub(super) fn watch_leader(&mut self, reach: &dyn Reach) {
        if self.pending.election || self.fit_leader(reach).is_some() {
            return;
        }
        let why = match self.leader {
            Some(leader) if self.is_up(leader, reach) => Why::Cut,
            Some(_) => Why::Crash,
            None => Why::First,
        };
        if !self.electable(reach).is_empty() || self.leader.is_some() {
            self.pending.election = true;
            let timeout = self.timing.duration(self.pace.election.clone());
            self.schedule(timeout, Due::Election(why));
        }
    }

    /// The leader has been missed for long.
    pub(super) fn election(&mut self, why: Why, reach: &dyn Reach) {
        self.pending.election = false;
        if self.fit_leader(reach).is_some() {
            return;
        }
        let heirs = self.electable(reach);
        match self.fate.pick(&heirs).copied() {
            Some(heir) => self.elect(heir, why, reach),
            // Nobody can: the next change of who reaches whom is the next chance.
            None => self.depose(why),
        }
    }

    /// Nobody leads from now on.
    pub(super) fn depose(&mut self, why: Why) {
        if self.leader.take().is_some() {
            self.deposed = Some(why);
            self.is_settled = false;
            self.ready.push_back(Output::Led { leader: None, why });
        }
    }

    /// Returns the voters that run and reach a majority, ascending.
    fn electable(&self, reach: &dyn Reach) -> Vec<NodeId> {
        let configuration = self.state.configuration();
        let fit = |node: &NodeId| self.is_up(*node, reach) && self.has_quorum(*node, reach);
        let (voters, outgoing) = (&configuration.voters, &configuration.voters_outgoing);
        voters.union(outgoing).copied().filter(fit).collect()
    }

    fn elect(&mut self, heir: NodeId, why: Why, reach: &dyn Reach) {
        let is_same = self.last_leader == Some(heir);
        let why = if self.last_leader.is_none() {
            Why::First
        } else {
            self.deposed.take().unwrap_or(why)
        };
        self.deposed = None;
        self.leader = Some(heir);
        self.last_leader = Some(heir);
        self.is_settled = false;
        let is_stubborn = self.fate.happens(self.faults.stubborn);
        let member = self.members.get_mut(&heir).expect("it runs");
        member.is_stubborn = is_stubborn;
        self.ready.push_back(Output::Led { leader: Some(heir), why });
        self.believe(heir, Some(heir));
        self.open_reign(is_same, reach);
        self.reach_changed(self.now, reach);
    }

    /// A node hears who leads.
    pub(super) fn hear_leader(&mut self, node: NodeId, reach: &dyn Reach) {
        let hears = self.hears(node, reach) && self.takes_part(node);
        let leader = self.leader;
        let Some(member) = self.members.get_mut(&node) else { return };
        member.awaits.news = false;
        if hears {
            self.believe(node, leader);
            // What it asked of the one that it believed in came to nothing.
            self.ask_again(node);
        }
    }

    /// A node has not heard the leader for long. One that led steps down, as `check_quorum` has it.
    pub(super) fn doubt(&mut self, node: NodeId, reach: &dyn Reach) {
        let hears = self.hears(node, reach) && self.takes_part(node);
        let is_up = self.is_up(node, reach);
        let Some(member) = self.members.get_mut(&node) else { return };
        member.awaits.doubt = false;
        if is_up && !hears {
            self.believe(node, None);
            if self.leader == Some(node) {
                self.depose(Why::Cut);
                self.watch_leader(reach);
            }
        }
    }

    fn believe(&mut self, node: NodeId, leader: Option<NodeId>) {
        let Some(member) = self.members.get_mut(&node) else { return };
        if member.believes != leader {
            member.believes = leader;
            self.ready.push_back(Output::Tell { node, event: Box::new(Event::Leader(leader)) });
        }
    }

    /// Plans what a node learns, and when, about who leads and what is committed.
    pub(super) fn follow(&mut self, node: NodeId, reach: &dyn Reach) {
        if !self.is_up(node, reach) {
            return;
        }
        let hears = self.hears(node, reach);
        if hears && self.takes_part(node) {
            let member = &self.members[&node];
            if member.believes != self.leader && !member.awaits.news {
                let keeps_on = member.is_stubborn && member.believes == Some(node);
                let takes = if keeps_on {
                    self.timing.duration(self.pace.election.clone())
                } else {
                    self.hop()
                };
                self.plan_news(node, takes);
            }
        } else {
            self.plan_doubt(node, reach);
        }
        self.activate(node);
        self.apply_soon(node);
        self.ask_again(node);
    }

    fn plan_news(&mut self, node: NodeId, takes: std::time::Duration) {
        let Some(member) = self.members.get_mut(&node) else { return };
        member.awaits.news = true;
        self.schedule(takes, Due::News(node));
    }

    fn plan_doubt(&mut self, node: NodeId, reach: &dyn Reach) {
        let Some(member) = self.members.get(&node) else { return };
        let Some(believed) = member.believes else { return };
        // A leader that goes on is heard by those that it reaches.
        let goes_on = |it: &super::Member| it.is_stubborn && it.believes == Some(believed);
        let leads_on = self.members.get(&believed).is_some_and(goes_on);
        let keeps_on = leads_on && (believed == node || reach.talks(believed, node));
        let Some(member) = self.members.get_mut(&node) else { return };
        if member.believes.is_some() && !member.awaits.doubt && !keeps_on {
            member.awaits.doubt = true;
            let timeout = self.timing.duration(self.pace.election.clone());
            self.schedule(timeout, Due::Doubt(node));
        }
    }
}
