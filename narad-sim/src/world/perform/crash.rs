//! Power that goes in the middle of work.

use std::time::Duration;

use narad_runtime::disk::mem;

use crate::scenario::Keep;
use crate::world::machine::CrashWithin;
use crate::world::{Due, World};

impl World {
    /// Sees to it that the power goes within the work that follows, if it is to.
    pub(in crate::world) fn arm(&mut self, machine: usize, crash: Option<CrashWithin>) {
        if let Some((steps, ..)) = crash {
            self.machines[machine].disk.stop_after(steps);
        }
    }

    /// Whether the power was to go within the work that was done; it has gone now.
    pub(in crate::world) fn crashed_within(
        &mut self,
        machine: usize,
        crash: Option<CrashWithin>,
    ) -> bool {
        let Some((_, keep, lasting)) = crash else { return false };
        self.lose_power(machine, keep, lasting);
        true
    }

    /// The power of a machine goes, and comes back later if it is to.
    pub(in crate::world) fn lose_power(
        &mut self,
        machine: usize,
        keep: Keep,
        lasting: Option<Duration>,
    ) {
        let keep = self.kept_of(keep);
        self.power_loss(machine, keep);
        if let Some(lasting) = lasting {
            self.machines[machine].wanted = true;
            self.schedule(self.now.after(lasting), Due::Start(machine));
        }
    }

    /// Translates what a scenario says of unsynced changes.
    pub(in crate::world) fn kept_of(&mut self, keep: Keep) -> mem::Keep {
        match keep {
            Keep::Nothing => mem::Keep::Nothing,
            Keep::Everything => mem::Keep::Everything,
            Keep::Random => mem::Keep::Seeded(self.chance.any()),
            Keep::Torn => mem::Keep::First(self.chance.below(8)),
        }
    }
}
