//! What goes wrong at random: on every message, at every step of a disk, every now and then.

use std::time::Duration;

use super::table::section;
use super::value::{Between, Bytes, Chance, Rate};

section! {
    /// What may happen to every message.
    pub struct Network {
        /// What a message takes.
        "delay" delay: def Between = Between::micros(200, 2_000) => "[\"0.2ms\", \"2ms\"]";
        /// Messages that take much longer.
        "heavy_tail" heavy_tail: opt HeavyTail => "{ chance = 0.001, up_to = \"30s\" }";
        /// Bytes per second and direction of a link, shared by all that it carries.
        "bandwidth" bandwidth: def Bytes = Bytes(100 << 20) => "\"100MiB\"";
        /// Messages that are lost.
        "loss" loss: def Chance = Chance(0.0) => "0.01";
        /// Messages that arrive twice, shortly after one another.
        "duplicate" duplicate: def Chance = Chance(0.0) => "0.01";
        /// Messages of which a copy arrives long after.
        "museum" museum: opt Museum => "{ chance = 0.005, up_to = \"2min\" }";
        /// Messages that overtake earlier ones of their link.
        "reorder" reorder: def Chance = Chance(0.0) => "0.02";
        /// Copy requests whose stream breaks in the middle of a chunk.
        "reset" reset: def Chance = Chance(0.0) => "0.02";
        /// Copy requests of which a byte arrives changed.
        "garbage" garbage: def Chance = Chance(0.0) => "0.005";
    }
}

section! {
    /// Messages that take much longer.
    pub struct HeavyTail {
        /// How many.
        "chance" chance: req Chance => "0.001";
        /// How long at most.
        "up_to" up_to: req Duration => "\"30s\"";
    }
}

section! {
    /// Messages of which a copy arrives long after.
    pub struct Museum {
        /// How many.
        "chance" chance: req Chance => "0.005";
        /// How long after at most.
        "up_to" up_to: req Duration => "\"2min\"";
    }
}

section! {
    /// What may happen at every step of a disk.
    pub struct Disk {
        /// What a step takes.
        "operation" operation: def Between = Between::micros(20, 200) => "[\"20us\", \"200us\"]";
        /// What a sync takes.
        "sync" sync: def Between = Between::micros(200, 4_000) => "[\"200us\", \"4ms\"]";
        /// Bytes per second.
        "bandwidth" bandwidth: def Bytes = Bytes(200 << 20) => "\"200MiB\"";
        /// How much fits on it; without end where it is not given.
        "capacity" capacity: opt Bytes => "\"4MiB\"";
        /// Works that fail with an error of the disk.
        "error" error: def Chance = Chance(0.0) => "0.001";
        /// Works that take far longer.
        "slow" slow: def Chance = Chance(0.0) => "0.005";
        /// How long these take.
        "slow_for" slow_for: def Between = Between::micros(50_000, 3_000_000) => "[\"50ms\", \"3s\"]";
    }
}

section! {
    /// What happens every now and then, per minute of the safety phase, at places that the seed
    /// picks. Before the run it is turned into steps, which `shrink` then takes away one by one.
    pub struct Chances {
        /// A node is killed, and started again after a while.
        "kill" kill: def Rate = Rate(0.0) => "1";
        /// A machine loses its power, and is started again after a while.
        "power_loss" power_loss: def Rate = Rate(0.0) => "1";
        /// A node dies for longer than a force-promote takes, and comes back.
        "long_death" long_death: def Rate = Rate(0.0) => "1";
        /// A process does nothing for a while.
        "pause" pause: def Rate = Rate(0.0) => "2";
        /// A virtual machine is suspended for a while.
        "suspend" suspend: def Rate = Rate(0.0) => "0.5";
        /// A monotonic clock runs too fast or too slow, within the policy's bound.
        "clock_rate" clock_rate: def Rate = Rate(0.0) => "1";
        /// A monotonic clock jumps forwards.
        "clock_jump" clock_jump: def Rate = Rate(0.0) => "0.5";
        /// A wall clock jumps.
        "wall_jump" wall_jump: def Rate = Rate(0.0) => "2";
        /// A node is cut off from some others, in both directions.
        "cut" cut: def Rate = Rate(0.0) => "2";
        /// A node is cut off in one direction.
        "one_way_cut" one_way_cut: def Rate = Rate(0.0) => "2";
        /// Links of a node are clogged.
        "clog" clog: def Rate = Rate(0.0) => "2";
        /// A link is slow.
        "slow_link" slow_link: def Rate = Rate(0.0) => "1";
        /// A node applies nothing new for a while.
        "lag" lag: def Rate = Rate(0.0) => "2";
        /// A disk fails at a step.
        "io_error" io_error: def Rate = Rate(0.0) => "1";
        /// A sync fails, and what it was to keep is gone.
        "sync_error" sync_error: def Rate = Rate(0.0) => "1";
        /// A disk is full for a while.
        "disk_full" disk_full: def Rate = Rate(0.0) => "1";
        /// A disk is slow for a while.
        "slow_disk" slow_disk: def Rate = Rate(0.0) => "1";
        /// A disk answers nothing for a while.
        "stuck_disk" stuck_disk: def Rate = Rate(0.0) => "0.5";
        /// Bytes that are being copied change at rest.
        "bit_rot" bit_rot: def Rate = Rate(0.0) => "0.5";
        /// A machine comes back with its disk as it was earlier.
        "stale_disk" stale_disk: def Rate = Rate(0.0) => "0.2";
        /// A spare machine joins.
        "join" join: def Rate = Rate(0.0) => "1";
        /// A node is decommissioned.
        "drain" drain: def Rate = Rate(0.0) => "2";
        /// A decommission is cancelled.
        "cancel" cancel: def Rate = Rate(0.0) => "1";
        /// A partition is moved by hand, or a move is sent elsewhere.
        "move" moves: def Rate = Rate(0.0) => "6";
        /// A move is given up.
        "abort" abort: def Rate = Rate(0.0) => "2";
        /// A topic is deleted, and created again under the same name.
        "delete_topic" delete_topic: def Rate = Rate(0.0) => "0.5";
        /// The policy changes.
        "policy" policy: def Rate = Rate(0.0) => "1";
        /// The lead is handed over.
        "transfer" transfer: def Rate = Rate(0.0) => "2";
        /// All nodes are restarted, one after the other.
        "rolling_restart" rolling_restart: def Rate = Rate(0.0) => "0.5";
        /// How long lasts what lasts.
        "lasting" lasting: def Between = Between::micros(200_000, 6_000_000) => "[\"0.2s\", \"6s\"]";
    }
}

impl Network {
    /// Returns a network without faults.
    #[must_use]
    pub const fn good() -> Self {
        Self {
            delay: Between::micros(200, 2_000),
            heavy_tail: None,
            bandwidth: Bytes(100 << 20),
            loss: Chance(0.0),
            duplicate: Chance(0.0),
            museum: None,
            reorder: Chance(0.0),
            reset: Chance(0.0),
            garbage: Chance(0.0),
        }
    }
}

impl Disk {
    /// Returns a disk without faults.
    #[must_use]
    pub const fn good() -> Self {
        Self {
            operation: Between::micros(20, 200),
            sync: Between::micros(200, 4_000),
            bandwidth: Bytes(200 << 20),
            capacity: None,
            error: Chance(0.0),
            slow: Chance(0.0),
            slow_for: Between::micros(50_000, 3_000_000),
        }
    }
}
