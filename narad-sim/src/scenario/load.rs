//! Topics, producers, consumers and retention.

use std::time::Duration;

use super::name::{Machine, TopicName};
use super::table::{section, words};
use super::value::{Between, Bytes, Chance, Rate};

section! {
    /// A topic that is there from the start.
    pub struct Topic {
        /// Its name.
        "name" name: req TopicName => "\"orders\"";
        /// How many partitions it has. 1 or more.
        "partitions" partitions: def u32 = 1 => "2";
        /// Who owns them first: the list is gone through again and again. The planner places them
        /// without it.
        "owners" owners: def Vec<Machine> = Vec::new() => "[\"n1\", \"n2\"]";
        /// How many records each partition has from the start, acknowledged and not consumed.
        "preload" preload: def u32 = 0 => "100";
        /// How long each of these is.
        "preload_bytes" preload_bytes: def Bytes = Bytes(100) => "\"1KiB\"";
        /// The topic that feeds it, whose partitions of the same number live elsewhere if they can.
        "parent" parent: opt TopicName => "\"events\"";
        /// Whether its partitions are pinned.
        "pinned" pinned: def bool = false => "true";
    }
}

section! {
    /// What clients do all the time.
    pub struct Workload {
        /// Producers.
        "produce" produce: def Produce = Produce::standard() => "{ per_second = 20, value_bytes = 100 }";
        /// Consumers.
        "consume" consume: def Consume = Consume::standard() => "{ per_second = 50, late = 0.1, twice = 0.1 }";
        /// Retention; none without it.
        "retention" retention: opt Retention => "{ keep_bytes = \"64KiB\", every = \"5s\" }";
    }
}

section! {
    /// Producers.
    pub struct Produce {
        /// Records per second and partition; 0 is none.
        "per_second" per_second: def Rate = Rate(20.0) => "20";
        /// How long a record's value is.
        "value_bytes" value_bytes: def Bytes = Bytes(100) => "100";
        /// How long one in a hundred is instead.
        "huge_bytes" huge_bytes: opt Bytes => "\"64KiB\"";
        /// Records that are produced together.
        "batch" batch: def u32 = 1 => "4";
        /// When they begin.
        "from" from: def Duration = Duration::ZERO => "\"1s\"";
        /// When they end; at the end of the safety phase without it.
        "until" until: opt Duration => "\"25s\"";
        /// Besides, many records at once.
        "burst" burst: opt Burst => "{ every = \"5s\", records = 200 }";
        /// The share of all records that goes to the first partition.
        "hot" hot: opt Chance => "0.8";
        /// Sets the rate so that this many bytes are written to a moving partition for one that is
        /// copied (W/B), given the copy rate of the policy or the network.
        "write_over_copy" write_over_copy: opt Rate => "1.5";
        /// Whether producers go to the owner, or have any node accept their records.
        "via" via: def Via = Via::Direct => "\"ingress\"";
        /// How they ask for a partition, with `via = "ingress"`.
        "address" address: def Address = Address::Mixed => "\"key\"";
        /// How a producer finds the owner.
        "route" route: def Route = Route::Stale => "\"fresh\"";
        /// The chance that a record whose fate is unknown is sent again.
        "retry" retry: def Chance = Chance(1.0) => "0.5";
    }
}

words! {
    /// Whom a producer gives its records to.
    pub enum Via {
        /// The owner of the partition.
        Direct = "direct",
        /// Any node, each in turn, whose ingress log takes them; it brings them to the owner.
        Ingress = "ingress",
    }
}

words! {
    /// How a producer asks for a partition.
    pub enum Address {
        /// By its number.
        Number = "number",
        /// By a key that falls on it.
        Key = "key",
        /// Any partition of the topic will do.
        Any = "any",
        /// One of these, batch by batch.
        Mixed = "mixed",
    }
}

words! {
    /// How a client finds the owner.
    pub enum Route {
        /// From the state that some node has applied, which may be old.
        Stale = "stale",
        /// From the newest committed state.
        Fresh = "fresh",
        /// It asks any node that believes to own the partition, old ones included.
        Anyone = "anyone",
    }
}

section! {
    /// Many records at once.
    pub struct Burst {
        /// The time between two.
        "every" every: req Duration => "\"5s\"";
        /// How many records each partition gets.
        "records" records: req u32 => "200";
    }
}

section! {
    /// Consumers.
    pub struct Consume {
        /// Records per second and partition; 0 is none.
        "per_second" per_second: def Rate = Rate(50.0) => "50";
        /// How long a consumer works on a record before it acknowledges.
        "lag" lag: def Between = Between::micros(1_000, 200_000) => "[\"1ms\", \"200ms\"]";
        /// The share of records that are acknowledged after the visibility timeout.
        "late" late: def Chance = Chance(0.0) => "0.1";
        /// The share that is acknowledged twice.
        "twice" twice: def Chance = Chance(0.0) => "0.1";
        /// The share that is never acknowledged.
        "never" never: def Chance = Chance(0.0) => "0.02";
        /// The share that is handed back.
        "nack" nack: def Chance = Chance(0.0) => "0.05";
        /// The share that is kept for longer before.
        "extend" extend: def Chance = Chance(0.0) => "0.05";
        /// The share that is acknowledged at the node that owned the partition before.
        "old_owner" old_owner: def Chance = Chance(0.0) => "0.1";
        /// After how long a reservation that was not acknowledged comes again.
        "visibility" visibility: def Duration = Duration::from_secs(5) => "\"5s\"";
        /// When they begin.
        "from" from: def Duration = Duration::ZERO => "\"1s\"";
    }
}

section! {
    /// Retention.
    pub struct Retention {
        /// How much of each partition may stay; whole segments go, whether consumed or not.
        "keep_bytes" keep_bytes: req Bytes => "\"64KiB\"";
        /// How often it is looked at.
        "every" every: def Duration = Duration::from_secs(5) => "\"5s\"";
    }
}

impl Workload {
    /// Returns the load that there is where nothing is said.
    #[must_use]
    pub const fn standard() -> Self {
        Self { produce: Produce::standard(), consume: Consume::standard(), retention: None }
    }
}

impl Produce {
    /// Returns the producers that there are where nothing is said.
    #[must_use]
    pub const fn standard() -> Self {
        Self {
            per_second: Rate(20.0),
            value_bytes: Bytes(100),
            huge_bytes: None,
            batch: 1,
            from: Duration::ZERO,
            until: None,
            burst: None,
            hot: None,
            write_over_copy: None,
            via: Via::Direct,
            address: Address::Mixed,
            route: Route::Stale,
            retry: Chance(1.0),
        }
    }
}

impl Consume {
    /// Returns the consumers that there are where nothing is said.
    #[must_use]
    pub const fn standard() -> Self {
        Self {
            per_second: Rate(50.0),
            lag: Between::micros(1_000, 200_000),
            late: Chance(0.0),
            twice: Chance(0.0),
            never: Chance(0.0),
            nack: Chance(0.0),
            extend: Chance(0.0),
            old_owner: Chance(0.0),
            visibility: Duration::from_secs(5),
            from: Duration::ZERO,
        }
    }
}
