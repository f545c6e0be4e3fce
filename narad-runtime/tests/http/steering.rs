//! The verbs that steer: moves, pins, policy, plans, history, hooks.

use std::time::Duration;

use narad_runtime::cli::ExitCode;
use narad_runtime::service::{Cause, MoveView, PlanView, StopReason, StopView};
use serde_json::json;

use crate::cli::piped;
use crate::fake::name;
use crate::golden::planned;
use crate::operator::{cluster, explained, fails, full_plan, moving, page, past, prints};

#[tokio::test]
async fn moves_are_given_up_and_partitions_pinned() {
    let (cluster, node) = cluster().await;
    let dead = MoveView { partition: 6, source_dead: true, ..planned() };
    cluster.change(|state| {
        state.moves = moving();
        state.moves.push(dead);
    });
    prints(&node, &["cluster", "abort", "orders/4"], &["pin orders/4"]).await;
    prints(&node, &["cluster", "abort", "orders/4", "--pin"], &["is pinned there"]).await;
    fails(&node, &["cluster", "abort", "orders/0"], ExitCode::Refused, &["does not move"]).await;
    let words = ["the owner of orders/6 is dead", "--yes"];
    fails(&node, &["cluster", "abort", "orders/6"], ExitCode::Usage, &words).await;
    prints(&node, &["cluster", "abort", "orders/6", "--yes"], &["orders/6 stays"]).await;
    prints(&node, &["cluster", "pin", "orders/1"], &["orders/1 is pinned"]).await;
    prints(&node, &["cluster", "unpin", "orders/1"], &["orders/1 is the planner's again"]).await;
    fails(&node, &["cluster", "pin", "bills/1"], ExitCode::NotFound, &["no topic"]).await;
    let said = cluster.state().shown.said.clone();
    assert_eq!(
        said,
        [
            "abort orders/4 Abort { pin: false, force: false }",
            "abort orders/4 Abort { pin: true, force: false }",
            "abort orders/6 Abort { pin: false, force: true }",
            "pin orders/1 true",
            "pin orders/1 false",
        ]
    );
}

#[tokio::test]
async fn the_policy_is_shown_and_changed() {
    let (cluster, node) = cluster().await;
    let words = ["max_in_flight", "200MiB", "force_promote_after", "Moves that may be"];
    prints(&node, &["cluster", "policy"], &words).await;
    prints(&node, &["cluster", "pause"], &["no move begins until"]).await;
    assert!(cluster.state().shown.policy.paused);
    prints(&node, &["cluster", "resume"], &["moves begin again"]).await;
    prints(&node, &["cluster", "throttle", "50MiB/s"], &["50MiB/s at most"]).await;
    assert_eq!(cluster.state().shown.policy.copy_rate_bytes_per_second, 50 << 20);
    prints(&node, &["cluster", "throttle", "off"], &["without a limit"]).await;
    let line = ["cluster", "policy", "set", "max_in_flight=4", "lease=5s"];
    prints(&node, &line, &["5s"]).await;
    let policy = cluster.state().shown.policy.clone();
    assert!(!policy.paused);
    assert_eq!((policy.max_in_flight, policy.copy_rate_bytes_per_second), (4, 0));
    assert_eq!(policy.lease, Duration::from_secs(5));
    for (line, words) in [
        (["cluster", "policy", "set", "colour=blue"], "no key"),
        (["cluster", "policy", "set", "lease=blue"], "a duration"),
        (["cluster", "policy", "set", "lease"], "KEY=VALUE"),
        (["cluster", "policy", "set", "max_in_flight=0"], "must be at least 1"),
        (["cluster", "policy", "set", "lease=10min"], "lease"),
    ] {
        fails(&node, &line, ExitCode::Usage, &[words]).await;
    }
    assert_eq!(cluster.state().shown.policy, policy);
}

#[tokio::test]
async fn one_node_is_throttled_until_it_restarts() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "throttle", "1MiB", "--node", "narad-4"];
    prints(&node, &line, &["until it restarts"]).await;
    let line = ["cluster", "throttle", "policy", "--node", "narad-4"];
    prints(&node, &line, &["as fast as the policy"]).await;
    fails(&node, &["cluster", "throttle", "fast"], ExitCode::Usage, &["such as 50MiB"]).await;
    fails(&node, &["cluster", "throttle", "policy"], ExitCode::Usage, &["or off"]).await;
    fails(&node, &["cluster", "throttle", "0"], ExitCode::Usage, &["or off"]).await;
    let line = ["cluster", "throttle", "1MiB", "--node", "narad-9"];
    fails(&node, &line, ExitCode::NotFound, &["narad-9"]).await;
    let said = cluster.state().shown.said.clone();
    assert_eq!(said, ["throttle narad-4 Some(1048576)", "throttle narad-4 None"]);
}

/// R71: the plan says how many moves it takes at least, which of them start, and why.
#[tokio::test]
async fn a_plan_is_shown_with_its_reasons() {
    let (cluster, node) = cluster().await;
    prints(&node, &["cluster", "plan"], &["balanced: no move would make it better"]).await;
    prints(&node, &["cluster", "rebalance"], &["balanced"]).await;
    cluster.change(|state| state.shown.plan = Some(full_plan()));
    let words = [
        "2 moves and no fewer: 1 now, 1 later",
        "at least 3.0 MiB, about 15 s at 200 MiB/s a node",
        "-3.0 MiB",
        "it is pinned to narad-1",
    ];
    prints(&node, &["cluster", "plan"], &words).await;
    prints(&node, &["cluster", "rebalance"], &["the leader begins these by itself"]).await;
    cluster.change(|state| state.shown.plan = Some(PlanView { paused: true, ..full_plan() }));
    prints(&node, &["cluster", "rebalance", "--dry-run"], &["PAUSED"]).await;
    fails(&node, &["cluster", "rebalance"], ExitCode::Refused, &["paused", "resume"]).await;
    let ran = piped(&node, "", &["cluster", "plan"]).await;
    let plan: serde_json::Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!((&plan["moves_min"], &plan["moves"][1]["starts"]), (&json!(2), &json!(false)));
}

#[tokio::test]
async fn whoever_waits_for_balance_sees_it_through() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "rebalance", "--wait"];
    prints(&node, &line, &["it is balanced"]).await;
    cluster.change(|state| state.shown.status = Some(page()));
    fails(&node, &line, ExitCode::Blocked, &["the disk of narad-4 is full", "free space"]).await;
}

#[tokio::test]
async fn a_partition_is_explained() {
    let (cluster, node) = cluster().await;
    fails(&node, &["cluster", "explain", "orders/3"], ExitCode::NotFound, &["orders"]).await;
    cluster.change(|state| state.shown.explain = Some(explained()));
    let words = [
        "orders/3 is on narad-1 (alive), in epoch 4, 2.0 KiB, pinned\n  because it is pinned",
        "NOT ON",
        "it has its share, 4 of 4",
        "what would change that:\n  narad cluster unpin orders/3",
    ];
    prints(&node, &["cluster", "explain", "orders/3"], &words).await;
}

#[tokio::test]
async fn past_moves_are_told() {
    let (cluster, node) = cluster().await;
    prints(&node, &["cluster", "history"], &["no move has ended"]).await;
    cluster.change(|state| state.shown.history = past());
    let out = prints(&node, &["cluster", "history"], &["no answer: narad-9"]).await;
    let squeezed: String = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["orders/3", "moved", "5.0 MiB", "8.2 ms", "cut-over"] {
        assert!(squeezed.contains(words), "{words} in {out}");
    }
    let line = ["cluster", "history", "-o", "wide"];
    prints(&node, &line, &["WAITED"]).await;
}

/// Field fault 43: an orchestrator has an exit code to go by, and nothing else is 0.
#[tokio::test]
async fn a_hook_is_told_whether_a_node_may_be_stopped() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "safe-to-stop", "narad-4"];
    prints(&node, &line, &["narad-4 may be stopped\n"]).await;
    let note = StopReason {
        code: Cause::Leads,
        reason: "narad-4 leads".into(),
        remedy: "another one is elected".into(),
    };
    let mut view = StopView {
        member: name("narad-4"),
        for_good: false,
        safe: true,
        reasons: Vec::new(),
        notes: vec![note.clone()],
    };
    cluster.change(|state| state.shown.stop = Some(view.clone()));
    prints(&node, &line, &["note: narad-4 leads; another one is elected"]).await;
    let reason = StopReason {
        code: Cause::LastMajority,
        reason: "1 voter would be left alive".into(),
        remedy: "start the others first".into(),
    };
    view = StopView { safe: false, reasons: vec![reason], ..view };
    cluster.change(|state| state.shown.stop = Some(view));
    let words = ["narad-4 must not be stopped now: 1 voter", "start the others first"];
    fails(&node, &line, ExitCode::NotSafe, &words).await;
    let unknown = ["cluster", "safe-to-stop", "narad-9"];
    fails(&node, &unknown, ExitCode::NotFound, &["narad-9"]).await;
    cluster.change(|state| state.leaderless = true);
    fails(&node, &line, ExitCode::Unavailable, &["no leader"]).await;
}
