//! What a step does.

mod kind;
mod words;

use std::time::Duration;

use super::cluster::PolicyChange;
use super::load::{Address, Via};
use super::name::{Label, Machine, PartitionName, Side, TopicName, Who};
use super::table::choice;
use super::value::{Bytes, Chance, Rate, Shift};

pub use self::words::{DiskAction, Failure, Files, Forged, Keep, Platter};

choice! {
    /// What a step does.
    pub enum Action {
        /// Keeps the message, proposal, work or outcome of `on` back, under the step's label, until
        /// a step releases it. Whoever waits for it gives up when its own patience ends, and mostly
        /// tries again: `times = 0` in `on` holds these tries, too. What is released later than
        /// that still takes its effect; a held effect or outcome is gone with the process that it
        /// is of, a held message (`send`, `deliver`) is not.
        "hold" Hold {}
        /// Lets go everything that was held under a label, in its old order; from then on that step
        /// holds nothing more.
        "release" Release {
            /// The label of the step that held it.
            "of" of: req Label => "\"late-flip\"";
        }
        /// Keeps a copy of the message or proposal of `on` under the step's label; the original
        /// goes its way.
        "record" Record {}
        /// Delivers a copy of what was held or recorded under a label, exactly as it was: an old
        /// message from a museum. May be done any number of times.
        "replay" Replay {
            /// The label of the step that held or recorded it.
            "of" of: req Label => "\"old-prepare\"";
        }
        /// Loses the message, proposal, work or outcome of `on`. A lost outcome reaches the node as
        /// a timeout: it was done, and nobody said so.
        "drop" Drop {}
        /// Delivers the message or carries out the proposal of `on`, and once more later.
        "duplicate" Duplicate {
            /// How much later the second one comes.
            "later" later: def Duration = Duration::ZERO => "\"2min\"";
        }
        /// Delays the message, proposal, work or outcome of `on`.
        "delay" Delay {
            /// By how much.
            "by" by: req Duration => "\"5s\"";
        }
        /// Changes bytes of the message of `on` on its way.
        "corrupt" Corrupt {}
        /// Lets the work of `on` end with a failure instead of being carried out.
        "fail" Fail {
            /// Which failure.
            "with" with: req Failure => "\"disk-full\"";
        }
        /// Cuts the power in the middle of the work of `on`: at one of the steps that its disk takes.
        "crash-within" CrashWithin {
            /// At which step of the disk (a write, a sync, a rename …), from 1; if there are fewer,
            /// right after the last.
            "disk_step" disk_step: def u32 = 1 => "3";
            /// What the disk keeps of what was not synced.
            "keep" keep: def Keep = Keep::Nothing => "\"torn\"";
            /// After how long the node is started again; never without it.
            "for" lasting: opt Duration => "\"5s\"";
        }

        /// Starts a process that does not run, with the disk that its machine has.
        "start" Start {
            /// The machine.
            "node" node: req Who => "\"n2\"";
        }
        /// Starts a spare machine, which asks to join the cluster and gets partitions.
        "join" Join {
            /// The machine; one with an empty disk.
            "node" node: req Machine => "\"n4\"";
            /// The node that it asks.
            "through" through: def Who = Who::Node(Machine(1)) => "\"n2\"";
        }
        /// Kills a process: what it wrote survives, synced or not.
        "kill" Kill {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// After how long it is started again; never without it.
            "for" lasting: opt Duration => "\"8s\"";
        }
        /// Cuts a machine's power: what was not synced is gone, or any part of it.
        "power-loss" PowerLoss {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// What the disk keeps of what was not synced.
            "keep" keep: def Keep = Keep::Nothing => "\"random\"";
            /// After how long it is started again; never without it.
            "for" lasting: opt Duration => "\"5s\"";
        }
        /// Cuts a machine's power as soon as its disk has made so many further steps (a write, a
        /// sync, a changed name), wherever that is.
        "crash-after" CrashAfter {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// After how many steps of the disk, counted from when this step is taken. 1 or more.
            "disk_steps" disk_steps: def u32 = 1 => "17";
            /// What the disk keeps of what was not synced.
            "keep" keep: def Keep = Keep::Nothing => "\"torn\"";
            /// After how long it is started again; never without it.
            "for" lasting: opt Duration => "\"500ms\"";
        }
        /// Starts a process anew, killing it first if it runs.
        "restart" Restart {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// Which disk it finds.
            "disk" disk: def Platter = Platter::Same => "\"saved\"";
            /// With `disk = "saved"`: the label of the step that saved it.
            "of" of: opt Label => "\"yesterday\"";
            /// With `disk = "other"`: the machine whose disk it gets, as it is now.
            "from" from: opt Machine => "\"n3\"";
        }
        /// Saves what is on a machine's disk under the step's label, for a later `restart`.
        "save-disk" SaveDisk {
            /// The machine.
            "node" node: req Machine => "\"n1\"";
        }
        /// Ends a process as an operator does it, giving it time to close.
        "stop" Stop {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// After how long it is started again; never without it.
            "for" lasting: opt Duration => "\"3s\"";
        }
        /// Lets a process do nothing: a collector's pause, a SIGSTOP. Its clock goes on, its timers
        /// fire late, messages wait for it.
        "pause" Pause {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// For how long; until a `resume` without it.
            "for" lasting: opt Duration => "\"15s\"";
        }
        /// Ends a pause.
        "resume" Resume {
            /// The machine.
            "node" node: req Who => "\"n1\"";
        }
        /// Suspends a virtual machine: nothing runs, the network loses what is sent to it.
        "suspend" Suspend {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// For how long.
            "for" lasting: req Duration => "\"60s\"";
            /// Whether its monotonic clock stands still meanwhile (`CLOCK_MONOTONIC`) instead of
            /// going on (`CLOCK_BOOTTIME`, which Narad reads).
            "clock_stops" clock_stops: def bool = false => "true";
        }
        /// Lets a node apply nothing new: its replica falls behind.
        "lag" Lag {
            /// The node.
            "node" node: req Who => "\"n1\"";
            /// For how long.
            "for" lasting: req Duration => "\"10s\"";
        }

        /// Cuts links: nothing that is sent from one side reaches the other.
        "cut" Cut {
            /// Who sends.
            "from" from: req Side => "\"n1\"";
            /// Who does not receive.
            "to" to: def Side = Side::Others => "[\"leader\", \"n3\"]";
            /// Whether the other direction is cut as well.
            "both" both: def bool = false => "true";
            /// For how long; until a `heal` without it.
            "for" lasting: opt Duration => "\"20s\"";
        }
        /// Heals links that were cut, clogged or slowed down; all without `from`. Links are healed
        /// in both directions.
        "heal" Heal {
            /// One side.
            "from" from: opt Side => "\"n1\"";
            /// The other side.
            "to" to: def Side = Side::Others => "\"others\"";
        }
        /// Clogs links: what is sent waits, and arrives when the clog is gone.
        "clog" Clog {
            /// Who sends.
            "from" from: req Side => "\"n1\"";
            /// Who receives late.
            "to" to: def Side = Side::Others => "\"n2\"";
            /// Whether the other direction is clogged as well.
            "both" both: def bool = false => "true";
            /// For how long; until a `heal` without it.
            "for" lasting: opt Duration => "\"3s\"";
        }
        /// Makes links slow.
        "slow" Slow {
            /// Who sends.
            "from" from: req Side => "\"n1\"";
            /// Who receives.
            "to" to: def Side = Side::Others => "\"n2\"";
            /// Whether the other direction is slow as well.
            "both" both: def bool = false => "true";
            /// How many bytes pass in a second.
            "bandwidth" bandwidth: opt Bytes => "\"64KiB\"";
            /// How much longer every message takes.
            "delay" delay: def Duration = Duration::ZERO => "\"300ms\"";
            /// For how long; until a `heal` without it.
            "for" lasting: opt Duration => "\"20s\"";
        }

        /// Changes how fast a machine's monotonic clock runs.
        "clock-rate" ClockRate {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// How much too fast, in millionths; too slow if negative. 50000 is 5 %, the most that
            /// the default policy allows for.
            "ppm" ppm: req i64 => "-40000";
        }
        /// Moves a machine's monotonic clock forwards.
        "clock-jump" ClockJump {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// By how much.
            "by" by: req Duration => "\"1h\"";
        }
        /// Moves a machine's wall clock.
        "wall-jump" WallJump {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// By how much; backwards with a minus.
            "by" by: req Shift => "\"-3min\"";
        }

        /// Makes steps of a machine's disk fail. A failed sync loses what it was to keep.
        "disk-fail" DiskFail {
            /// The machine.
            "node" node: req Who => "\"n2\"";
            /// Which steps; all without it.
            "action" action: opt DiskAction => "\"sync\"";
            /// Only in files of this kind.
            "what" what: opt Files => "\"staging\"";
            /// Only in files of this partition.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// How many such steps pass before the first that fails.
            "skip" skip: def u32 = 0 => "2";
            /// How many fail; 0 is all.
            "times" times: def u32 = 1 => "0";
            /// For how long at most; until `heal-all` without it.
            "for" lasting: opt Duration => "\"10s\"";
        }
        /// Fills a machine's disk.
        "disk-full" DiskFull {
            /// The machine.
            "node" node: req Who => "\"n2\"";
            /// How much may still be written.
            "free" free: def Bytes = Bytes(0) => "\"16KiB\"";
            /// For how long; until `heal-all` without it.
            "for" lasting: opt Duration => "\"20s\"";
        }
        /// Slows a machine's disk down.
        "disk-slow" DiskSlow {
            /// The machine.
            "node" node: req Who => "\"n2\"";
            /// How much longer every step takes.
            "by" by: req Duration => "\"200ms\"";
            /// For how long; until `heal-all` without it.
            "for" lasting: opt Duration => "\"20s\"";
        }
        /// Lets a machine's disk answer nothing.
        "disk-stuck" DiskStuck {
            /// The machine.
            "node" node: req Who => "\"n2\"";
            /// For how long; until `heal-all` without it.
            "for" lasting: opt Duration => "\"20s\"";
        }
        /// Changes bytes at rest.
        "rot" Rot {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// In which files.
            "what" what: def Files = Files::Live => "\"staging\"";
            /// Of which partition; required unless `what` is `raft` or `identity`.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// Where: 0 is the first byte of all these files in order, 1 the last.
            "position" position: def Chance = Chance(0.5) => "0.1";
            /// How many bytes.
            "bytes" bytes: def Bytes = Bytes(1) => "8";
        }
        /// Removes files by hand.
        "erase" Erase {
            /// The machine.
            "node" node: req Who => "\"n1\"";
            /// Which files.
            "what" what: req Files => "\"live\"";
            /// Of which partition; of all without it.
            "partition" partition: opt PartitionName => "\"orders/0\"";
        }

        /// Begins a decommission.
        "drain" Drain {
            /// The node that is to leave.
            "node" node: req Who => "\"n1\"";
            /// The node that is asked; without it any, and again until there is an answer.
            "through" through: opt Who => "\"n2\"";
        }
        /// Cancels a decommission.
        "cancel" Cancel {
            /// The node that is to stay.
            "node" node: req Who => "\"n1\"";
            /// The node that is asked; without it any, and again until there is an answer.
            "through" through: opt Who => "\"n2\"";
        }
        /// Moves a partition by hand, which pins it there; one that is moving already is sent
        /// somewhere else (a retarget).
        "move" Move {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// Where to.
            "to" to: req Who => "\"n2\"";
            /// The node that is asked; without it any, and again until there is an answer.
            "through" through: opt Who => "\"n2\"";
        }
        /// Gives a move up.
        "abort" Abort {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The node that is asked; without it any, and again until there is an answer.
            "through" through: opt Who => "\"n2\"";
        }
        /// Pins a partition where it is.
        "pin" Pin {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
        }
        /// Lets the planner have a partition again.
        "unpin" Unpin {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
        }
        /// Creates a topic; the planner gives its partitions to nodes.
        "create-topic" CreateTopic {
            /// Its name.
            "topic" topic: req TopicName => "\"orders\"";
            /// How many partitions it has.
            "partitions" partitions: def u32 = 1 => "3";
            /// The topic that feeds it.
            "parent" parent: opt TopicName => "\"events\"";
        }
        /// Deletes a topic.
        "delete-topic" DeleteTopic {
            /// Its name.
            "topic" topic: req TopicName => "\"orders\"";
        }
        /// Changes the policy.
        "policy" Policy {
            /// What is changed; the rest stays as it is in the log.
            "set" set: req PolicyChange => "{ max_in_flight = 1 }";
        }
        /// Hands the lead to another voter.
        "transfer" Transfer {
            /// To whom.
            "to" to: req Who => "\"follower\"";
        }
        /// Takes a node out that is dead or drained out. With a receipt a node is asked; without one
        /// the command goes to the log as it is.
        "retire" Retire {
            /// The node.
            "node" node: req Who => "\"n3\"";
            /// The operator's word that what a dead node still holds may be given up.
            "receipt" receipt: opt String => "\"disk shredded\"";
        }
        /// Accepts that what only a dead owner holds is lost; the partition is served from a later offset.
        "declare-lost" DeclareLost {
            /// The partition.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// Where an empty log shall be, or the best copy is; without it a node is asked, which
            /// takes the target, or the node that owns least.
            "to" to: opt Who => "\"n2\"";
            /// The operator's word.
            "receipt" receipt: def String = "accepted".to_owned() => "\"ticket 4711\"";
        }
        /// Proposes a command by hand: a forged or a stale one. What is not given is taken from the
        /// newest committed state, as the proposer would see it.
        "propose" Propose {
            /// Which command.
            "command" command: req Forged => "\"clear-target\"";
            /// Who proposes it.
            "by" by: def Who = Who::Leader => "\"n3\"";
            /// The partition.
            "partition" partition: opt PartitionName => "\"orders/0\"";
            /// The node that it is about: who is dead, registers, drains or retires.
            "about" about: opt Who => "\"n1\"";
            /// The new owner or target.
            "to" to: opt Who => "\"n2\"";
            /// The epoch that is expected.
            "epoch" epoch: opt u64 => "1";
            /// The move id that is expected.
            "move_id" move_id: opt u64 => "2";
            /// The incarnation that is named; the present one without it. What only a node itself says
            /// (`flip`, `resolve`, `revoke`, `drained-out`) names the one before: nodes do not lie (S18).
            "incarnation" incarnation: opt u64 => "1";
            /// The death certificate that is named.
            "generation" generation: opt u64 => "1";
            /// The end of the log that is named.
            "end" end: opt u64 => "100";
            /// On or off, where the command has that.
            "enabled" enabled: opt bool => "false";
        }

        /// Produces records at once.
        "produce" Produce {
            /// Where to.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// How many.
            "records" records: def u32 = 1 => "10";
            /// How long each is; as in `[workload]` without it.
            "bytes" bytes: opt Bytes => "\"1KiB\"";
            /// The node that is asked; without it the owner, or any node that accepts.
            "node" node: opt Who => "\"n1\"";
            /// Whether the owner is asked, or any node accepts them; as in `[workload]` without it.
            "via" via: opt Via => "\"ingress\"";
            /// How the partition is asked for, with `via = "ingress"`; as in `[workload]` without it.
            "address" address: opt Address => "\"key\"";
        }
        /// Reserves records at once, and acknowledges them.
        "consume" Consume {
            /// Where.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// How many at most.
            "records" records: def u32 = 1 => "10";
            /// Whether they are acknowledged.
            "ack" ack: def bool = true => "false";
            /// Whether they are handed back instead.
            "nack" nack: def bool = false => "true";
            /// Whether they are kept for as long once more instead.
            "extend" extend: def bool = false => "true";
            /// The node that is asked; the owner, as the newest committed state has it, without it.
            "node" node: opt Who => "\"n1\"";
        }
        /// Acknowledges one record as consumed, by hand: late, twice, or at a node that no longer
        /// owns the partition.
        "ack" Ack {
            /// Where.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The record.
            "offset" offset: req u64 => "995";
            /// The epoch of the reservation; the partition's present one without it.
            "epoch" epoch: opt u64 => "1";
            /// The node that is asked; the owner, as the newest committed state has it, without it.
            "node" node: opt Who => "\"n1\"";
        }
        /// Removes the oldest records, as a retention policy does it.
        "retain" Retain {
            /// Where.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// How much may stay; whole segments go.
            "keep_bytes" keep_bytes: def Bytes = Bytes(0) => "\"32KiB\"";
        }
        /// Gives up the first records that consumers come to and their owner cannot read.
        "skip" Skip {
            /// Where.
            "partition" partition: req PartitionName => "\"orders/0\"";
            /// The node that is asked; the owner, as the newest committed state has it, without it.
            "node" node: opt Who => "\"n1\"";
        }
        /// Changes how much is produced in the background.
        "load" Load {
            /// Records per second and partition.
            "per_second" per_second: req Rate => "200";
            /// Only there.
            "partition" partition: opt PartitionName => "\"orders/0\"";
        }
        /// Stops the producers in the background; consumers go on.
        "quiet" Quiet {}
        /// Goes on with the load in the background.
        "busy" Busy {}

        /// Ends every fault that lasts: links, disks, pauses, lags, clock rates, and everything that
        /// is held. Starts every process that is down.
        "heal-all" HealAll {}
        /// Writes a line into the trace.
        "note" Note {
            /// The line.
            "text" text: req String => "\"from here on n1 is alone\"";
        }
    }
}

impl Action {
    /// Returns the word of `do`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        super::table::Choice::name(self)
    }

    /// Returns the words of `do`.
    pub fn words() -> impl Iterator<Item = &'static str> {
        <Self as super::table::Choice>::VARIANTS.iter().map(|variant| variant.name)
    }
}
