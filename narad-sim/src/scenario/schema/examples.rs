//! Whole scenarios of the reference.

/// Whole scenarios, for a beginning.
pub(in super::super) const EXAMPLES: &[(&str, &str)] = &[
    ("A flip that reaches the log after the freeze has run out", LATE_FLIP),
    ("A source that dies, is replaced, and comes back", FORCED),
    ("Everything now and then, for a sweep over seeds", SOAK),
];

const LATE_FLIP: &str = r#"title = "A flip that commits after the freeze has run out"
covers = ["H1", "S2"]
safety = "20s"

[[topic]]
name = "orders"
owners = ["n1"]
preload = 200

[[step]]
at = "2s"
do = "move"
partition = "orders/0"
to = "n2"

[[step]]                    # n2 proposes the flip, again and again: keep all of it back
on = { effect = "flip", node = "n2", times = 0 }
label = "late-flip"
do = "hold"

[[step]]                    # the freeze has run out, n1 has had it revoked and goes on
on = { committed = "revoke", partition = "orders/0" }
since = "late-flip"
after = "500ms"
do = "release"
of = "late-flip"

[[expect]]                  # the late flip is refused; a later attempt succeeds
count = { of = "flips-rejected", at_least = 1 }

[[expect]]
owner = { partition = "orders/0", is = "n2" }
settled = true
"#;

const FORCED: &str = r#"title = "A source dies in the middle of a move and comes back after the promotion"
covers = ["H9", "H14", "S1"]
safety = "40s"

[[topic]]
name = "orders"
owners = ["n1"]
preload = 100

[workload]                  # nothing more is written, so that the copy is complete
produce = { per_second = 0 }

[[step]]
at = "4s"
do = "move"
partition = "orders/0"
to = "n3"

[[step]]                    # all is copied; fast pace: dead after 3 s, promoted 4 s later
on = { effect = "prepare", node = "n3", partition = "orders/0" }
label = "death"
do = "power-loss"
node = "owner of orders/0"
keep = "torn"
for = "20s"

[[expect]]                  # while n1 is still down
since = "death"
within = "15s"
owner = { partition = "orders/0", is = "n3" }

[[expect]]
count = { of = "moves-forced", is = 1 }
member = { node = "n1", is = "alive" }
"#;

const SOAK: &str = r#"title = "Everything now and then"
safety = "2min"
liveness = "90s"

[cluster]
nodes = 5
spares = 1
metastore = "abstract"

[[topic]]
name = "orders"
partitions = 6

[workload]
produce = { per_second = 20, burst = { every = "10s", records = 100 } }
consume = { per_second = 50, late = 0.05, twice = 0.05 }

[network]
loss = 0.01
museum = { chance = 0.01, up_to = "1min" }

[chance]                    # times a minute
kill = 2
power_loss = 1
long_death = 0.5
one_way_cut = 1
drain = 1
cancel = 1
move = 6
"#;
