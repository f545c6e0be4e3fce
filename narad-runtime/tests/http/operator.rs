//! What operators ask: each endpoint as the document describes it, each verb with what it prints and
//! exits with.

mod moves;

use std::sync::Arc;

use narad_core::ids::{Epoch, MoveId};
use narad_runtime::cli::ExitCode;
use narad_runtime::http::HttpOptions;
use narad_runtime::service::{
    BlockerView, Cause, ClusterView, DrainView, ElsewhereView, ExplainView, HistoryView,
    MemberStatus, MoveEnd, MoveView, PastMove, PastPhase, PastPhaseName, PlanView, PlannedView,
    PreflightView, QuorumView, Read, ReceiverView, ShareView, StaysView, StopReason, StopView,
    Verdict,
};
use tokio_util::sync::CancellationToken;

use crate::cli::{Ran, Setting, narad, narad_in, piped};
use crate::fake::operate::{plan, preflight};
use crate::fake::{Cluster, Running, member, name};
use crate::golden::{copying, planned};
use crate::router::{ask, error};

pub(crate) fn waiting() -> Verdict {
    Verdict::Waiting {
        code: Cause::SourceUnreachable,
        reason: "narad-1 does not answer narad-4".into(),
        who: "narad-1: look whether it runs".into(),
    }
}

pub(crate) fn blocked() -> Verdict {
    Verdict::Blocked {
        code: Cause::DiskFull,
        reason: "the disk of narad-4 is full".into(),
        remedy: "free space on narad-4".into(),
    }
}

pub(crate) fn moving() -> Vec<MoveView> {
    let going = MoveView {
        source_dead: false,
        waiting: None,
        attempts: Some(2),
        verdict: Some(Verdict::progressing(1 << 20, 3 << 20, 1 << 20)),
        ..copying()
    };
    let stuck = MoveView { partition: 5, verdict: Some(blocked()), ..planned() };
    vec![going, MoveView { verdict: Some(waiting()), ..planned() }, stuck]
}

pub(crate) async fn cluster() -> (Arc<Cluster>, Running) {
    let cluster = Cluster::new();
    cluster.change(|state| state.members = vec![member("narad-1", 1), member("narad-4", 4)]);
    cluster.topic("orders", &["narad-1", "narad-1", "narad-4", "narad-4"]);
    let node = cluster.start("narad-1").await;
    (cluster, node)
}

pub(crate) fn page() -> ClusterView {
    let leaving = DrainView {
        member: name("narad-4"),
        status: MemberStatus::Alive,
        draining: true,
        owned_partitions: 4,
        outbound_moves: 1,
        inbound_moves: 0,
        backlog_records: Some(3),
        verdict: Some(waiting()),
    };
    ClusterView {
        member: name("narad-1"),
        leader: Some(name("narad-1")),
        quorum: QuorumView { voters: vec![name("narad-1"), name("narad-4")], alive: 2, needed: 2 },
        paused: true,
        partitions: 12,
        unassigned: 1,
        unserved: 2,
        planned: 3,
        members: vec![member("narad-1", 1), member("narad-4", 4)],
        moves: moving(),
        drains: vec![leaving],
        verdict: blocked(),
        next: vec!["free space on narad-4".into()],
    }
}

pub(crate) fn explained() -> ExplainView {
    ExplainView {
        topic: name("orders"),
        partition: 3,
        owner: name("narad-1"),
        epoch: Epoch(4),
        owner_status: MemberStatus::Alive,
        pinned: true,
        bytes: Some(2048),
        here: "it is pinned to narad-1".into(),
        elsewhere: vec![ElsewhereView {
            member: name("narad-4"),
            why_not: "it has its share, 4 of 4".into(),
        }],
        would_change: vec!["narad cluster unpin orders/3 lets the planner have it".into()],
        moving: moving().pop(),
    }
}

pub(crate) fn full_plan() -> PlanView {
    let moved = |partition, starts| PlannedView {
        topic: name("orders"),
        partition,
        from: name("narad-1"),
        to: name("narad-4"),
        starts,
        bytes: starts.then_some(3 << 20),
        why: "narad-1 has more than its share".into(),
    };
    let share = |member: &str, load, delta| ShareView {
        member: name(member),
        load,
        pinned: 0,
        share: 3,
        moves_in: 0,
        moves_out: 2,
        bytes_delta: delta,
        why: "has more than its share".into(),
    };
    PlanView {
        moves_min: 2,
        members: vec![share("narad-1", 5, -(3 << 20)), share("narad-4", 1, 3 << 20)],
        moves: vec![moved(1, true), moved(2, false)],
        stays: vec![StaysView {
            topic: name("orders"),
            partition: 3,
            member: name("narad-1"),
            why: "it is pinned to narad-1".into(),
        }],
        bytes: 3 << 20,
        bytes_unknown: 1,
        estimated_ms: Some(15_000),
        ..plan()
    }
}

pub(crate) fn past() -> HistoryView {
    let moved = PastMove {
        topic: Some(name("orders")),
        partition: 3,
        from: name("narad-1"),
        to: name("narad-4"),
        move_id: MoveId(7),
        outcome: MoveEnd::Moved,
        began_ms: 1000,
        ended_ms: 4000,
        phases: vec![
            PastPhase { phase: PastPhaseName::Copy, ms: 2990 },
            PastPhase { phase: PastPhaseName::CutOver, ms: 10 },
        ],
        bytes: 5 << 20,
        passes: 2,
        frozen_us: 8_200,
        predicted_us: Some(9_000),
        waits: 1,
        waited_for: Some(Cause::SourceUnreachable),
    };
    HistoryView { moves: vec![moved], silent: vec![name("narad-9")] }
}

/// Every endpoint answers as the document says, with everything that it may hold.
#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let (cluster, _node) = cluster().await;
    let unsafe_stop = StopView {
        member: name("narad-4"),
        for_good: false,
        safe: false,
        reasons: vec![StopReason {
            code: Cause::LastMajority,
            reason: "1 voter would be left".into(),
            remedy: "start the others".into(),
        }],
        notes: Vec::new(),
    };
    cluster.change(|state| {
        state.shown.status = Some(page());
        state.shown.plan = Some(full_plan());
        state.shown.explain = Some(explained());
        state.shown.history = past();
        state.shown.stop = Some(unsafe_stop);
        state.moves = moving();
        state.members[1].draining = true;
        state.shown.drains = vec![blocked()];
    });
    let router = cluster.router("narad-1", HttpOptions::default());
    for path in [
        "/v1/node",
        "/v1/cluster/status",
        "/v1/cluster/status?stale=true",
        "/v1/cluster/moves",
        "/v1/cluster/preflight?members=narad-1,narad-4",
        "/v1/cluster/members/narad-4/decommission",
        "/v1/cluster/members/narad-1/decommission",
        "/v1/cluster/members/narad-4/safe-to-stop?for_good=true",
        "/v1/cluster/policy",
        "/v1/cluster/plan",
        "/v1/cluster/history",
        "/v1/topics/orders/partitions/3",
    ] {
        let reply = ask(&router, "GET", path, "").await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
    }
    for (method, path, body, status) in [
        ("POST", "/v1/cluster/decommissions", r#"{"members": ["narad-4"]}"#, 200),
        ("PATCH", "/v1/cluster/policy", r#"{"paused": true}"#, 200),
        ("PUT", "/v1/topics/orders/partitions/1/pin", "", 204),
        ("DELETE", "/v1/topics/orders/partitions/1/pin", "", 204),
        ("DELETE", "/v1/cluster/moves/orders/4?pin=true", "", 204),
        ("DELETE", "/v1/cluster/moves/orders/0", "", 409),
        (
            "PUT",
            "/v1/cluster/members/narad-4/throttle",
            r#"{"copy_rate_bytes_per_second": 5}"#,
            204,
        ),
        ("DELETE", "/v1/cluster/members/narad-4/throttle", "", 204),
        ("POST", "/v1/cluster/members/narad-4/forget", r#"{"receipt": "gone"}"#, 409),
    ] {
        let reply = ask(&router, method, path, body).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
    }
}

/// Who is unknown is told apart from what is refused, and from what is no request (field fault 34).
#[tokio::test]
async fn what_is_refused_says_what_it_is() {
    let (cluster, _node) = cluster().await;
    let router = cluster.router("narad-1", HttpOptions::default());
    let huge = r#"{"max_in_flight": 0}"#;
    for (method, path, body, expected) in [
        ("GET", "/v1/cluster/members/nobody/decommission", "", (404, "unknown_member", false)),
        ("GET", "/v1/cluster/members/nobody/safe-to-stop", "", (404, "unknown_member", false)),
        ("GET", "/v1/cluster/preflight?members=nobody", "", (404, "unknown_member", false)),
        ("GET", "/v1/cluster/preflight", "", (400, "bad_request", false)),
        (
            "PUT",
            "/v1/cluster/members/nobody/throttle",
            r#"{"copy_rate_bytes_per_second": 1}"#,
            (404, "unknown_member", false),
        ),
        ("PATCH", "/v1/cluster/policy", huge, (400, "invalid", false)),
        ("PATCH", "/v1/cluster/policy", r#"{"colour": 1}"#, (400, "bad_request", false)),
        ("PUT", "/v1/topics/bills/partitions/1/pin", "", (404, "unknown_topic", false)),
        ("PUT", "/v1/topics/orders/partitions/x/pin", "", (400, "bad_request", false)),
        ("GET", "/v1/topics/bills/partitions/1", "", (404, "unknown_topic", false)),
        ("POST", "/v1/cluster/decommissions", "{}", (400, "bad_request", false)),
    ] {
        let reply = ask(&router, method, path, body).await;
        assert_eq!(error(&reply), expected, "{method} {path}: {}", reply.body);
    }
    cluster.change(|state| state.leaderless = true);
    for path in ["status", "policy", "plan", "history", "members/narad-4/safe-to-stop"] {
        let reply = ask(&router, "GET", &format!("/v1/cluster/{path}"), "").await;
        assert_eq!(error(&reply), (503, "no_leader", true), "{path}");
    }
}

/// The client reads what the API writes, and asks for what it is told to.
#[tokio::test]
async fn the_client_reads_every_view() {
    let (cluster, node) = cluster().await;
    cluster.change(|state| {
        state.shown.status = Some(page());
        state.shown.plan = Some(full_plan());
        state.shown.explain = Some(explained());
        state.shown.history = past();
        state.moves = moving();
    });
    let client = node.client();
    assert_eq!(client.status(Read::Barrier).await, Ok(page()));
    assert_eq!(client.plan(Read::Barrier).await, Ok(full_plan()));
    assert_eq!(client.explain("orders", 3).await, Ok(explained()));
    assert_eq!(client.history(Read::Stale).await, Ok(past()));
    assert_eq!(client.node().await.map(|view| view.member), Ok(name("narad-1")));
    let members = ["narad-1".to_owned(), "narad-4".to_owned()];
    assert_eq!(client.preflight(&members).await, Ok(preflight(&members)));
    assert_eq!(client.moves(Read::Barrier).await, Ok(moving()));
    assert!(client.safe_to_stop("narad-4", true).await.is_ok_and(|view| view.for_good));
}

pub(crate) async fn fails(node: &Running, line: &[&str], code: ExitCode, words: &[&str]) -> Ran {
    let ran = narad(node, line).await;
    assert_eq!(ran.code, code, "{line:?}: {} {}", ran.out, ran.err);
    for word in words {
        assert!(ran.err.contains(word), "{word} in {}", ran.err);
    }
    ran
}

pub(crate) async fn prints(node: &Running, line: &[&str], words: &[&str]) -> String {
    let ran = narad(node, line).await;
    assert_eq!(ran.code, ExitCode::Success, "{line:?}: {} {}", ran.out, ran.err);
    for word in words {
        assert!(ran.out.contains(word), "{word:?} in {}", ran.out);
    }
    let wide = line.contains(&"wide");
    let fits = ran.out.lines().all(|line| line.chars().count() <= 100 || !line.contains("  "));
    assert!(wide || fits, "{}", ran.out);
    ran.out
}

/// One screen says who leads, who votes, what moves, what is wrong and what to do.
#[tokio::test]
async fn status_is_one_page() {
    let (cluster, node) = cluster().await;
    prints(&node, &["cluster", "status"], &["narad-1 leads", "done: nothing moves"]).await;
    cluster.change(|state| state.shown.status = Some(page()));
    let words = [
        "narad-1 leads; 2 of 2 voters alive, 2 needed",
        "12 partitions, 2 of them NOT SERVED, 1 without an owner yet; 3 moves under way, 3 to come",
        "moves are PAUSED",
        "narad-4 leaves: waiting: narad-1 does not answer narad-4",
        "BLOCKED: the disk of narad-4 is full; free space on narad-4",
        "next: free space on narad-4",
    ];
    prints(&node, &["cluster", "status"], &words).await;
    prints(&node, &["cluster", "status", "-o", "wide"], &["PEER ADDR", "WHO CAN HELP"]).await;
    fails(&node, &["cluster", "status", "--check"], ExitCode::Blocked, &["blocked"]).await;
    let ran = piped(&node, "", &["cluster", "status"]).await;
    let view: ClusterView = serde_json::from_str(&ran.out).expect("the API's JSON");
    assert_eq!(view, page());
}

/// Without a leader the page shows what one node knows, and the exit code says that it is old.
#[tokio::test]
async fn status_without_a_leader_is_more_than_an_error() {
    let (cluster, node) = cluster().await;
    cluster.change(|state| state.leaderless = true);
    let ran = fails(&node, &["cluster", "status"], ExitCode::Unavailable, &["no leader"]).await;
    assert!(ran.out.contains("NOBODY leads") && ran.out.contains("narad-4"), "{}", ran.out);
    prints(&node, &["cluster", "status", "--stale"], &["NOBODY leads"]).await;
}

/// R82, R90: what would move, what it takes, and what stands in the way; nothing is changed.
#[tokio::test]
async fn a_dry_run_shows_everything_and_changes_nothing() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "decommission", "narad-4", "--dry-run"];
    prints(&node, &line, &["0 moves", "nothing stands in the way; nothing was changed"]).await;
    let members = ["narad-4".to_owned()];
    let view = PreflightView {
        moves: full_plan().moves,
        receivers: vec![ReceiverView {
            member: name("narad-1"),
            moves: 2,
            bytes: 3 << 20,
            free_bytes: Some(1 << 20),
        }],
        bytes: 3 << 20,
        estimated_ms: Some(15_000),
        warnings: vec!["moves are paused".into()],
        ..preflight(&members)
    };
    cluster.change(|state| state.shown.preflight = Some(view.clone()));
    let words = ["orders/1", "RECEIVER", "1.0 MiB", "2 moves, 3.0 MiB, about 15 s", "note: moves"];
    prints(&node, &line, &words).await;
    let blocker = BlockerView {
        member: name("narad-1"),
        code: Cause::NoHeadroom,
        reason: "narad-1 would take 3145728 bytes and has 1048576 left".into(),
        remedy: "free space on it".into(),
    };
    let refused = PreflightView { possible: false, blockers: vec![blocker], ..view };
    cluster.change(|state| state.shown.preflight = Some(refused));
    let words = ["narad-1 would take 3145728", "free space on it", "nothing was changed"];
    let ran = fails(&node, &line, ExitCode::Refused, &words).await;
    assert!(ran.out.contains("orders/1"), "{}", ran.out);
    fails(&node, &line[..3], ExitCode::Refused, &words).await;
    assert!(!cluster.state().members[1].draining);
}

/// A destructive verb asks on a terminal, is refused elsewhere, and is done with --yes.
#[tokio::test]
async fn what_cannot_simply_be_undone_is_asked_for() {
    let (cluster, node) = cluster().await;
    let drain = ["--admin", &node.addr, "cluster", "decommission", "narad-4"];
    let ran = narad_in(Setting::default(), &drain).await;
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Usage, ""));
    assert!(ran.err.contains("narad-4 would leave") && ran.err.contains("--yes"), "{}", ran.err);
    for (answer, code) in [("n\n", ExitCode::Interrupted), ("", ExitCode::Interrupted)] {
        let setting = Setting { input: answer.into(), answers: true, ..Setting::default() };
        let ran = narad_in(setting, &drain).await;
        assert_eq!(ran.code, code);
        assert!(ran.err.contains("go on? [y/N]") && ran.err.contains("nothing was changed"));
        assert!(!cluster.state().members[1].draining);
    }
    let setting = Setting { input: "Y\n".into(), answers: true, ..Setting::default() };
    assert_eq!(narad_in(setting, &drain).await.code, ExitCode::Success);
    assert!(cluster.state().members[1].draining);
    fails(&node, &["topic", "delete", "orders"], ExitCode::Usage, &["all its records"]).await;
    assert!(cluster.state().topics.contains_key("orders"));
}

/// R93: whoever waits sees it through: 0 once it is out, 9 if it cannot go on, 130 if interrupted.
#[tokio::test]
async fn waiting_for_a_decommission_ends_with_a_verdict() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "decommission", "narad-4", "--wait", "--yes"];
    let done = Verdict::Done { proof: "narad-4 owns nothing".into() };
    let going = Verdict::progressing(1, 2, 1);
    cluster.change(|state| state.shown.drains = vec![going.clone(), waiting(), done.clone()]);
    let words = ["narad-4 [4 partitions to go]: progressing", "waiting: narad-1", "narad-4 owns"];
    prints(&node, &line, &words).await;
    // It is leaving already: whoever waits again is not asked again.
    prints(&node, &line[..4], &["narad-4 owns nothing"]).await;
    cluster.change(|state| state.shown.drains = vec![blocked()]);
    let words = ["narad-4 is blocked: the disk of narad-4 is full", "hint: free space on narad-4"];
    fails(&node, &line, ExitCode::Blocked, &words).await;
    cluster.change(|state| state.shown.drains = vec![going]);
    let interrupt = CancellationToken::new();
    interrupt.cancel();
    let setting = Setting { interrupt, ..Setting::default() };
    let ran = narad_in(setting, &[&["--admin", &node.addr], &line[..]].concat()).await;
    assert_eq!(ran.code, ExitCode::Interrupted);
    assert!(ran.err.contains("the decommission goes on"), "{}", ran.err);
}

/// A dead member that never comes back is taken out with an operator's word, a live one is not.
#[tokio::test]
async fn a_dead_member_is_forgotten_with_a_word() {
    let (cluster, node) = cluster().await;
    let line = ["cluster", "forget", "narad-4", "--receipt", "ticket 7"];
    fails(&node, &line, ExitCode::Refused, &["narad-4 is alive"]).await;
    cluster.change(|state| state.members[1].status = MemberStatus::Dead);
    fails(&node, &line, ExitCode::Usage, &["whatever only its disk holds", "--yes"]).await;
    assert!(cluster.state().shown.said.is_empty());
    prints(&node, &[&line[..], &["--yes"]].concat(), &["narad-4 is taken out"]).await;
    assert_eq!(cluster.state().shown.said, ["forget narad-4: ticket 7"]);
    fails(&node, &["cluster", "forget", "narad-9"], ExitCode::NotFound, &["narad-9"]).await;
}
