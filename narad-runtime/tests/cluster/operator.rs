//! What operators see of real nodes, and what they tell them.

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use clap::Parser;
use narad_runtime::cli::{Cli, ExitCode, Terminal, run};
use narad_runtime::client::{Client, ClientError, ClientOptions};
use narad_runtime::service::{Abort, Cause, MemberStatus, MoveEnd, PolicyChange, Read, Verdict};
use narad_runtime::settings::Settings;
use tokio_util::sync::CancellationToken;

use super::harness::{Cluster, eventually};

pub(super) const TOPIC: &str = "orders";

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Runs the command against every node of a cluster, as on a terminal on which nobody types.
pub(super) async fn narad(cluster: &Cluster, line: &[&str]) -> (ExitCode, String, String) {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut terminal = Terminal {
        input: Box::new(Cursor::new(Vec::new())),
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        in_is_terminal: false,
        out_is_terminal: true,
        err_is_terminal: false,
        width: 120,
        interrupt: CancellationToken::new(),
    };
    let admin: Vec<String> =
        cluster.servers.values().map(|server| server.http_addr().to_string()).collect();
    let admin = admin.join(",");
    let cli = Cli::try_parse_from(["narad", "--admin", &admin].iter().chain(line)).unwrap();
    let code = run(cli, &mut terminal).await;
    (code, out.text(), err.text())
}

pub(super) async fn moves_are_over(client: &Client) {
    eventually("nothing moves", async || {
        client
            .status(Read::Barrier)
            .await
            .is_ok_and(|view| view.moves.is_empty() && view.planned == 0 && view.unassigned == 0)
    })
    .await;
}

pub(super) fn paused(on: bool) -> PolicyChange {
    PolicyChange { paused: Some(on), ..PolicyChange::default() }
}

fn refused(error: &ClientError) -> (&str, String) {
    (error.code().unwrap_or("none"), error.to_string())
}

/// Field faults 32 to 43, group Decommission, told by the command alone: what would move, that it
/// moves, that it is out, and what history says of it; a second one is refused before it begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decommission_is_seen_through_by_the_command_alone() {
    let cluster = Cluster::of(4).await;
    cluster.create_topic(TOPIC, 8).await;
    for partition in 0..8 {
        cluster.produce(TOPIC, partition, "a record").await;
    }
    let client = cluster.client();
    moves_are_over(&client).await;

    let (code, out, err) = narad(&cluster, &["cluster", "status"]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert!(out.contains("4 of 4 voters alive, 3 needed"), "{out}");
    assert!(out.contains("done: all is served: 8 partitions, by 4 members"), "{out}");

    // Nothing is changed by a look.
    let dry = ["cluster", "decommission", "n4", "--dry-run"];
    let (code, out, err) = narad(&cluster, &dry).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert!(out.contains("n4 leaves") && out.contains("2 moves"), "{out}");
    let before = client.status(Read::Barrier).await.unwrap();
    assert!(before.drains.is_empty() && before.moves.is_empty());

    // Two of four cannot leave together, though each of them could.
    let both = ["cluster", "decommission", "n3", "n4", "--yes"];
    let (code, _, err) = narad(&cluster, &both).await;
    assert_eq!(code, ExitCode::Refused, "{err}");
    assert!(err.contains("2 voters would be left, but min_voters is 3"), "{err}");
    assert!(client.status(Read::Barrier).await.unwrap().drains.is_empty());
    let not_asked = ["cluster", "decommission", "n4"];
    assert_eq!(narad(&cluster, &not_asked).await.0, ExitCode::Usage);

    assert_eq!(
        narad(&cluster, &["cluster", "safe-to-stop", "n4", "--for-good"]).await.0,
        ExitCode::NotSafe
    );
    let go = ["cluster", "decommission", "n4", "--wait", "--yes"];
    let (code, out, err) = narad(&cluster, &go).await;
    assert_eq!(code, ExitCode::Success, "{out} {err}");
    assert!(out.contains("n4 owns nothing, is nobody's destination"), "{out}");
    let (code, out, _) = narad(&cluster, &["cluster", "safe-to-stop", "n4", "--for-good"]).await;
    assert_eq!(code, ExitCode::Success, "{out}");
    assert!(out.contains("n4 may be stopped, and its disk wiped"), "{out}");
    // Whoever waits again is told the same.
    assert_eq!(narad(&cluster, &go).await.0, ExitCode::Success);

    // Field fault 35: the next one is refused, with the reason, before anything changes.
    let (code, _, err) = narad(&cluster, &["cluster", "decommission", "n3", "--yes"]).await;
    assert_eq!(code, ExitCode::Refused);
    assert!(err.contains("2 voters would be left") && err.contains("nothing was changed"), "{err}");

    let history = client.history(Read::Barrier).await.unwrap();
    let away: Vec<_> = history.moves.iter().filter(|past| past.from.as_str() == "n4").collect();
    assert_eq!(away.len(), 2, "{history:?}");
    for past in away {
        assert_eq!(past.outcome, MoveEnd::Moved);
        assert!(past.ended_ms >= past.began_ms && past.bytes > 0, "{past:?}");
        assert!(!past.phases.is_empty(), "{past:?}");
    }
    let (code, out, _) = narad(&cluster, &["cluster", "history"]).await;
    assert!(code == ExitCode::Success && out.contains("moved"), "{out}");
}

/// Field faults 39 and 40: a decommission that is cancelled is over at once, and can begin again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_decommission_can_begin_again() {
    let cluster = Cluster::of(4).await;
    cluster.create_topic(TOPIC, 4).await;
    let client = cluster.client();
    moves_are_over(&client).await;
    // Nothing leaves while moves are paused, and the verdict says so.
    client.change_policy(&paused(true)).await.unwrap();
    let leaving = ["n4".to_owned()];
    let view = client.decommission_all(&leaving).await.unwrap();
    assert!(view.warnings.iter().any(|warning| warning.contains("paused")), "{view:?}");
    let drain = client.drain("n4").await.unwrap();
    assert_eq!(drain.verdict.and_then(|verdict| verdict.cause()), Some(Cause::Paused));
    let status = client.status(Read::Barrier).await.unwrap();
    assert!(status.next.iter().any(|line| line.contains("narad cluster resume")), "{status:?}");

    client.decommission("n4", false).await.unwrap();
    assert_eq!(client.drain("n4").await.unwrap().verdict, None);
    client.decommission_all(&leaving).await.unwrap();
    let (code, out, _) = narad(&cluster, &["cluster", "resume"]).await;
    assert!(code == ExitCode::Success && out.contains("moves begin again"), "{out}");
    eventually("it is out", async || {
        let drain = client.drain("n4").await;
        drain.is_ok_and(|drain| drain.verdict.as_ref().is_some_and(Verdict::is_done))
    })
    .await;
    let error = client.drain("n9").await.unwrap_err();
    assert_eq!(refused(&error).0, "unknown_member");
}

/// R71, S13: the plan is what happens. Its number of moves is the least there can be; what is pinned
/// stays, what is planned is explained, and what is given up and pinned stays too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_is_what_happens() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, 6).await;
    for partition in 0..6 {
        cluster.produce(TOPIC, partition, "a record").await;
    }
    moves_are_over(&cluster.client()).await;
    cluster.client().change_policy(&paused(true)).await.unwrap();
    cluster.join("n4").await;
    let client = cluster.client();
    // Whoever is asked, the leader plans.
    let plan = client.plan(Read::Barrier).await.unwrap();
    assert_eq!((plan.moves_min, plan.moves.len(), plan.paused), (1, 1, true));
    assert_eq!(plan.bytes_unknown, 0);
    assert!(plan.bytes > 0 && plan.moves[0].to.as_str() == "n4", "{plan:?}");
    assert!(plan.moves[0].why.contains("moves are paused"), "{plan:?}");
    let (code, _, err) = narad(&cluster, &["cluster", "rebalance"]).await;
    assert_eq!(code, ExitCode::Refused, "{err}");

    let partition = plan.moves[0].partition;
    let place = format!("{TOPIC}/{partition}");
    let (code, out, _) = narad(&cluster, &["cluster", "explain", &place]).await;
    assert_eq!(code, ExitCode::Success);
    assert!(out.contains("it is to move to n4, later: moves are paused"), "{out}");
    let (code, _, _) = narad(&cluster, &["cluster", "pin", &place]).await;
    assert_eq!(code, ExitCode::Success);
    let why = client.explain(TOPIC, partition).await.unwrap();
    assert!(why.pinned && why.here.contains("pinned"), "{why:?}");
    let plan = client.plan(Read::Barrier).await.unwrap();
    assert_eq!(plan.moves.len(), 1);
    assert_ne!(plan.moves[0].partition, partition, "what is pinned stays");
    narad(&cluster, &["cluster", "unpin", &place]).await;
    assert!(!client.explain(TOPIC, partition).await.unwrap().pinned);

    client.change_policy(&paused(false)).await.unwrap();
    let (code, out, err) = narad(&cluster, &["cluster", "rebalance", "--wait"]).await;
    assert_eq!(code, ExitCode::Success, "{out} {err}");
    let plan = client.plan(Read::Barrier).await.unwrap();
    assert_eq!((plan.moves_min, plan.moves.len()), (0, 0));
    assert_eq!(refused(&client.explain(TOPIC, 9).await.unwrap_err()).0, "unknown_partition");
    assert_eq!(refused(&client.explain("bills", 0).await.unwrap_err()).0, "unknown_topic");
}

fn slow(settings: &mut Settings) {
    // A partition's copy takes some seconds, and many requests.
    settings.policy.copy_rate_bytes_per_second = 256 << 10;
    settings.node.chunk_bytes_max = 32 << 10;
}

/// A move that takes its time has a verdict with bytes, rate and time; it is seen at every node, it
/// slows down and speeds up by the policy and by hand, and it can be given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_move_is_watched_throttled_and_given_up() {
    let cluster = Cluster::with(3, slow).await;
    cluster.create_topic(TOPIC, 3).await;
    let client = cluster.client();
    let owners = client.topic(TOPIC).await.unwrap().routes;
    let (from, partition) = (owners[0].owner.to_string(), owners[0].partition);
    let to = if from == "n1" { "n2" } else { "n1" };
    let record = "x".repeat(64 << 10);
    for _ in 0..48 {
        cluster.produce(TOPIC, partition, &record).await;
    }
    let place = format!("{TOPIC}/{partition}");
    let error = client.abort(TOPIC, partition, Abort::default()).await.unwrap_err();
    assert_eq!(
        refused(&error),
        ("rejected", format!("{}{place} does not move", "the cluster refused: "))
    );
    let (code, _, err) = narad(&cluster, &["cluster", "move", &place, "--to", to]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    for server in cluster.servers.values() {
        let addr = server.http_addr().to_string().parse().unwrap();
        let one = Client::new(vec![addr], ClientOptions::default());
        eventually("every node shows bytes, rate and time", async || {
            let moves = one.moves(Read::Barrier).await.unwrap_or_default();
            moves.iter().any(|moved| {
                matches!(
                    moved.verdict,
                    Some(Verdict::Progressing { bytes_per_second: 1.., eta_ms: Some(1..), .. })
                )
            })
        })
        .await;
    }
    let status = client.status(Read::Barrier).await.unwrap();
    assert!(matches!(status.verdict, Verdict::Progressing { .. }), "{status:?}");

    let line = ["cluster", "throttle", "64KiB", "--node", to];
    assert_eq!(narad(&cluster, &line).await.0, ExitCode::Success);
    let view =
        narad_runtime::service::Operate::node(&*cluster.servers[to].service()).await.unwrap();
    assert_eq!((view.copy_rate_bytes_per_second, view.throttled), (64 << 10, true));
    let line = ["cluster", "throttle", "policy", "--node", to];
    assert_eq!(narad(&cluster, &line).await.0, ExitCode::Success);

    let (code, out, err) = narad(&cluster, &["cluster", "abort", &place, "--pin"]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert!(out.contains("is pinned there"), "{out}");
    moves_are_over(&client).await;
    let why = client.explain(TOPIC, partition).await.unwrap();
    assert_eq!((why.owner.as_str(), why.pinned), (from.as_str(), true));
    eventually("history has it", async || {
        let history = client.history(Read::Barrier).await.unwrap_or_default();
        history.moves.iter().any(|past| past.outcome == MoveEnd::Cancelled)
    })
    .await;
    // A pinned partition stands in the way of a decommission, and that is said.
    let view = client.preflight(std::slice::from_ref(&from)).await.unwrap();
    assert!(view.blockers.iter().any(|blocker| blocker.code == Cause::Pinned), "{view:?}");
}

/// The policy is changed for all nodes at once, checked as a whole, and follows a throttle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_is_changed_for_all_nodes() {
    let mut cluster = Cluster::of(3).await;
    let client = cluster.client();
    let before = client.policy(Read::Barrier).await.unwrap();
    let (code, _, err) = narad(&cluster, &["cluster", "throttle", "32MiB"]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    for server in cluster.servers.values() {
        eventually("every node copies by it", async || {
            let view = narad_runtime::service::Operate::node(&*server.service()).await;
            view.is_ok_and(|view| view.copy_rate_bytes_per_second == 32 << 20 && !view.throttled)
        })
        .await;
    }
    // Its file says otherwise, and must not keep it out.
    client.change_policy(&paused(true)).await.unwrap();
    cluster.restart("n2").await;
    client.change_policy(&paused(false)).await.unwrap();
    let line = ["cluster", "policy", "set", "max_in_flight=3", "lease=10s"];
    let (code, _, err) = narad(&cluster, &line).await;
    // A promotion could come before the last lease has run out.
    assert_eq!(code, ExitCode::Usage, "{err}");
    assert!(err.contains("lease"), "{err}");
    assert_eq!(client.policy(Read::Barrier).await.unwrap().max_in_flight, before.max_in_flight);
    let line = ["cluster", "policy", "set", "max_in_flight=3"];
    assert_eq!(narad(&cluster, &line).await.0, ExitCode::Success);
    assert_eq!(client.policy(Read::Barrier).await.unwrap().max_in_flight, 3);
}

/// Field faults 34, 43, 46 and 48: a dead owner is blocked by name, the others go on, a hook is told
/// that no further voter may stop, and an unknown member is told apart. Without a majority the page
/// still shows what one node knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_owner_is_named_and_nobody_else_may_stop() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, 3).await;
    let client = cluster.client();
    moves_are_over(&client).await;
    for node in ["n1", "n2", "n3"] {
        let (code, out, err) = narad(&cluster, &["cluster", "safe-to-stop", node]).await;
        assert_eq!(code, ExitCode::Success, "{err}");
        assert!(out.contains("owns 1 partition, not served meanwhile"), "{out}");
    }
    let gone = cluster.servers.remove("n3").unwrap();
    let (peer, http) = (gone.peer_addr().to_string(), gone.http_addr().to_string());
    gone.shutdown().await.unwrap();
    let client = cluster.client();
    eventually("it is declared dead, and the page says what that means", async || {
        let view = client.status(Read::Barrier).await;
        view.is_ok_and(|view| view.verdict.cause() == Some(Cause::OwnerDead))
    })
    .await;
    let (code, out, _) = narad(&cluster, &["cluster", "status", "--check"]).await;
    assert_eq!(code, ExitCode::Blocked, "{out}");
    for words in [
        "1 of them NOT SERVED",
        "BLOCKED: n3 is dead, and its disk alone holds 1 partition",
        "start n3 again",
        "narad cluster declare-lost",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let dead = client.topic(TOPIC).await.unwrap().routes;
    let dead = dead.iter().find(|route| !route.alive).unwrap();
    let why = client.explain(TOPIC, dead.partition).await.unwrap();
    assert!(why.owner_status == MemberStatus::Dead && why.here.contains("n3 is dead"), "{why:?}");
    for node in ["n1", "n2"] {
        let (code, _, err) = narad(&cluster, &["cluster", "safe-to-stop", node]).await;
        assert_eq!(code, ExitCode::NotSafe, "{err}");
        assert!(err.contains("the voters alive would be 1, and 2 are needed"), "{err}");
    }
    assert_eq!(narad(&cluster, &["cluster", "safe-to-stop", "n3"]).await.0, ExitCode::Success);
    let unknown = narad(&cluster, &["cluster", "safe-to-stop", "n9"]).await;
    assert_eq!(unknown.0, ExitCode::NotFound);
    // Its disk is all there is: it cannot be taken out.
    let (code, _, err) = narad(&cluster, &["cluster", "decommission", "n3", "--yes"]).await;
    assert_eq!(code, ExitCode::Refused);
    assert!(err.contains("its disk alone holds 1 partition"), "{err}");

    // Another one goes, against the advice.
    let other = cluster.servers.remove("n2").unwrap();
    other.shutdown().await.unwrap();
    eventually("there is no leader", async || {
        cluster.client().status(Read::Barrier).await.is_err()
    })
    .await;
    let (code, out, err) = narad(&cluster, &["cluster", "status"]).await;
    assert_eq!(code, ExitCode::Unavailable, "{out} {err}");
    assert!(out.contains("n3") && err.contains("what one node knows"), "{out} {err}");
    assert_eq!(narad(&cluster, &["cluster", "safe-to-stop", "n1"]).await.0, ExitCode::Unavailable);

    cluster.start_again("n3", peer, http).await;
    eventually("with it the cluster decides again, and serves what was missing", async || {
        let view = cluster.client().status(Read::Barrier).await;
        view.is_ok_and(|view| {
            let n3 = view.members.iter().find(|member| member.id.as_str() == "n3");
            n3.is_some_and(|member| member.status == MemberStatus::Alive)
        })
    })
    .await;
}

/// Field faults 45, 46 and 50: a node that never comes back is given up step by step, each with an
/// operator's word, and its disk never comes back as a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_never_comes_back_is_taken_out() {
    let mut cluster = Cluster::of(4).await;
    cluster.create_topic(TOPIC, 4).await;
    moves_are_over(&cluster.client()).await;
    let (code, _, err) = narad(&cluster, &["cluster", "forget", "n4", "--yes"]).await;
    assert_eq!(code, ExitCode::Refused);
    assert!(err.contains("n4 is alive"), "{err}");
    cluster.servers.remove("n4").unwrap().shutdown().await.unwrap();
    let client = cluster.client();
    eventually("it is declared dead", async || {
        let view = client.status(Read::Barrier).await;
        view.is_ok_and(|view| view.verdict.cause() == Some(Cause::OwnerDead))
    })
    .await;
    let (code, _, err) = narad(&cluster, &["cluster", "forget", "n4", "--yes"]).await;
    assert_eq!(code, ExitCode::Refused, "it still owns a partition");
    assert!(err.contains("its disk alone holds"), "{err}");
    assert!(client.status(Read::Barrier).await.unwrap().drains.is_empty(), "nothing was changed");

    let routes = client.topic(TOPIC).await.unwrap().routes;
    let lost = routes.iter().find(|route| !route.alive).unwrap().partition;
    let place = format!("{TOPIC}/{lost}");
    let line = ["cluster", "declare-lost", &place, "--yes"];
    let (code, _, err) = narad(&cluster, &line).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert_eq!(narad(&cluster, &["cluster", "forget", "n4"]).await.0, ExitCode::Usage);
    let (code, out, err) = narad(&cluster, &["cluster", "forget", "n4", "--yes"]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert!(out.contains("n4 is taken out"), "{out}");
    eventually("it has no vote any more, and all is well", async || {
        let drain = client.drain("n4").await;
        let out = drain.is_ok_and(|drain| drain.verdict.as_ref().is_some_and(Verdict::is_done));
        out && client.status(Read::Barrier).await.is_ok_and(|view| view.verdict.is_done())
    })
    .await;
}
