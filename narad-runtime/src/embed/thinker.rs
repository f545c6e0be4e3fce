//! The machines of an embedded node: what the metastore has decided reaches them as events.

use narad_core::effects::{Deadline, Effects};
use narad_core::node::{Effect, Node};
use narad_core::time::Instant;

use super::error::Ended;
use crate::mind::{Input, Mind};

/// The machines, by themselves.
#[derive(Debug)]
pub(super) struct Thinker {
    pub(super) node: Node,
}

impl Mind for Thinker {
    type Error = Ended;

    fn take(&mut self, now: Instant, input: Input<'_>, out: &mut Vec<Effect>) -> Result<(), Ended> {
        // Ticks and messages are Raft's; there is none here.
        let Input::Event(event) = input else { return Ok(()) };
        let mut effects = Effects::default();
        self.node.handle(now, *event, &mut effects);
        for effect in effects.drain() {
            match effect {
                Effect::Stop(stop) => return Err(stop.into()),
                effect => out.push(effect),
            }
        }
        Ok(())
    }

    fn proceed(&mut self, _: Instant, _: &mut Vec<Effect>) -> Result<(), Ended> {
        Ok(())
    }

    fn deadline(&self) -> Option<Deadline> {
        self.node.deadline()
    }

    fn node(&self) -> &Node {
        &self.node
    }
}
