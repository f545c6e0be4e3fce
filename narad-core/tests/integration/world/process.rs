//! Processes: how each starts, ends, is told things, and has its effects carried out.

use std::collections::{BTreeMap, BTreeSet};

use narad_core::config::Config;
use narad_core::effects::{Effects, OpId};
use narad_core::freeze::Authority;
use narad_core::ids::*;
use narad_core::metastore::Addresses;
use narad_core::node::{CallFault, Effect, Event, Identity, Node, Outcome};

use super::{Asked, Due, Process, World};

impl World {
    /// Starts the process of a node, from its last snapshot.
    pub(crate) fn start(&mut self, id: NodeId) {
        let (now, config) = (self.now, self.config.clone());
        let machine = self.machines.get_mut(&id).unwrap();
        assert!(machine.process.is_none(), "one process a machine");
        machine.incarnation += 1;
        machine.processes += 1;
        machine.accepts = true;
        machine.believes = None;
        let me = Identity {
            node: id,
            name: Name::new(format!("narad-{id}")).unwrap(),
            store_uuid: StoreUuid(id.0.into()),
            addrs: Addresses::default(),
        };
        let held = machine.disk.keys().copied().collect();
        let mut out = Effects::default();
        let config = Config { jitter_seed: id.0, ..config };
        let life = Incarnation(machine.incarnation);
        let node = Node::new(now, me, life, config, machine.snapshot.clone(), held, &mut out);
        machine.process = Some(Process {
            node,
            gates: BTreeMap::new(),
            open: BTreeMap::new(),
            authority: Authority::NONE,
            barriers: BTreeMap::new(),
            running: BTreeSet::new(),
        });
        self.carry_out(id, out);
        self.apply_soon(id);
        self.meet_leader(id);
    }

    /// Ends the process of a node; what was not durable is lost.
    pub(crate) fn crash(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        machine.process = None;
        for area in machine.disk.values_mut() {
            area.crash();
        }
        self.work.crashed(id);
        if self.log.leader == Some(id) {
            self.log.leader = None;
        }
    }

    /// Answers an operation, unless it has been answered.
    pub(crate) fn done(&mut self, id: NodeId, life: u64, op: OpId, outcome: Outcome) {
        let Some(process) = self.process(id, life) else { return };
        process.barriers.remove(&op);
        if process.running.remove(&op) {
            self.tell(id, life, Event::Done(op, outcome));
        }
    }

    pub(super) fn give_up(&mut self, id: NodeId, life: u64, op: OpId) {
        let is_survey = match self.process(id, life) {
            Some(process) => process.barriers.get(&op).copied(),
            None => return,
        };
        let outcome = match is_survey {
            Some((_, true)) => Outcome::Survey(None),
            Some((_, false)) => Outcome::Barrier(None),
            None => Outcome::Call(Err(CallFault::TimedOut)),
        };
        self.done(id, life, op, outcome);
    }

    pub(crate) fn tell(&mut self, id: NodeId, life: u64, event: Event) {
        let now = self.now;
        let Some(process) = self.process(id, life) else { return };
        let mut out = Effects::default();
        process.node.handle(now, event, &mut out);
        self.carry_out(id, out);
    }

    fn carry_out(&mut self, id: NodeId, mut out: Effects<Effect>) {
        let life = self.life(id);
        let mut effects: Vec<Effect> = out.drain().collect();
        // No effect depends on another of the same call (DESIGN 3, rule 3).
        if self.faults.delay_ms_max > 0 {
            for at in (1..effects.len()).rev() {
                let other = usize::try_from(self.draw(at as u64 + 1)).unwrap();
                effects.swap(at, other);
            }
        }
        for effect in effects {
            match effect {
                Effect::Run(op, operation) => {
                    let process = self.process(id, life).expect("it has just spoken");
                    assert!(process.running.insert(op), "an operation is started once");
                    self.begin(id, life, op, operation);
                }
                Effect::Cancel(op) => self.cancel(id, life, op),
                Effect::Answer(request, answer) => {
                    let question = self.requests.remove(&request);
                    let question = question.expect("a question is answered once");
                    let Asked { from: to, life, op, to: from, .. } = question;
                    assert_eq!(from, id);
                    self.send(from, to, Due::Answer { to, life, op, from, answer });
                }
                Effect::Reply(ask, said) => {
                    let before = self.replies.insert(ask, said);
                    assert_eq!(before, None, "an ask is answered once");
                }
                Effect::Authority(authority) => {
                    self.process(id, life).expect("it has just spoken").authority = authority;
                }
                // Nobody accepts records in this world.
                Effect::Room(_) => {}
                Effect::Note(note) => self.notes.push((id, note)),
                Effect::Stop(stop) => panic!("{id:?} stops: {stop}"),
            }
        }
    }
}
