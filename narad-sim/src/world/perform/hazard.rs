//! What may go wrong in the middle of work: the power, and the disk.

use std::time::Duration;

use narad_runtime::disk::mem::{self, Step};

use crate::scenario::Keep;
use crate::world::machine::CrashWithin;
use crate::world::{Due, World};

impl World {
    /// Sees to it that the power goes within the work that follows, if it is to.
    pub(in crate::world) fn arm(&mut self, machine: usize, crash: Option<CrashWithin>) {
        if let Some((steps, ..)) = crash {
            self.machines[machine].disk.stop_after(steps);
        }
        self.chance_of_error(machine);
    }

    /// A disk is busy for as long as so many bytes take.
    pub(in crate::world) fn written(&mut self, machine: usize, bytes: u64) {
        let per_second = self.setup.scenario.disk.bandwidth.0.max(1);
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(per_second);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let until = self.now.after(takes);
        let busy = &mut self.machines[machine].disk_stuck_until;
        *busy = (*busy).max(until);
    }

    /// Lets a step of the disk fail by chance.
    pub(in crate::world) fn chance_of_error(&mut self, machine: usize) {
        const STEPS: [Step; 7] = [
            Step::Read,
            Step::Write,
            Step::SetLen,
            Step::Sync,
            Step::Create,
            Step::Rename,
            Step::SyncDir,
        ];
        let chance = self.setup.scenario.disk.error.0;
        let it = &mut self.machines[machine];
        if chance <= 0.0 || !it.latency.happens(chance) {
            return;
        }
        if let Some(step) = it.latency.pick(&STEPS) {
            it.disk.fail(*step, 0);
            self.recorder.count_fault("disk-error");
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
