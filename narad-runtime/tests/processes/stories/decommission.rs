//! Five processes under load, of which two leave.

use super::super::decommission::{TOPIC, publish_while};
use super::super::harness::Cluster;
use super::super::ledger::Ledger;
use super::super::node::narad;
use super::super::pty::OnTerminal;
use super::{
    NOT_FOUND, NOT_SAFE, OK, REFUSED, ask, cluster_is, drain, is, member, move_is, moving, owned,
    told,
};

/// Copies take some seconds.
const SLOW: &str = "copy_rate_bytes_per_second = \"512KiB\"\n[copy]\nchunk_bytes_max = \"64KiB\"\n";

/// What a partition has that is to move, and what the small disk has left for it.
const FAT: usize = 3 << 20;
const ROOM: u64 = 2 << 20;

/// Field faults 32, 34, 35, 36, 37, 39, 40, 42, 43 and 54.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decommission_is_told_by_the_command_alone() {
    let mut cluster = Cluster::of(1, SLOW).await;
    let small = cluster.join_on_small_disk("n2", 24 << 20).await;
    for name in ["n3", "n4", "n5"] {
        cluster.join(name).await;
    }
    cluster.create_topic(TOPIC, 10).await;
    let ledger = Ledger::default();
    for (partition, (_, owner)) in cluster.routes(TOPIC).await {
        let bytes = if ["n4", "n5"].contains(&owner.as_str()) { FAT } else { 64 << 10 };
        ledger.fill(&cluster.client(), TOPIC, partition, bytes, 32 << 10).await;
    }
    cluster_is(&cluster, "done", "", &["all is served: 10 partitions"]).await;
    publish_while(&mut cluster, async |cluster: &mut Cluster| {
        nothing_changes_before_it_can_end(cluster);
        if small {
            what_does_not_fit_is_refused(cluster).await;
        } else {
            println!("not tried: this user may not mount a file system in a namespace of its own");
        }
        two_leave_in_one_plan(cluster);
        what_is_taken_back_is_over_at_once(cluster);
        who_leaves_takes_nothing_more(cluster).await;
        who_is_killed_while_leaving_goes_on_later(cluster).await;
        a_leader_leaves(cluster).await;
        who_did_what_is_told_of_all_nodes(cluster);
    })
    .await;
}

/// Field faults 34 and 35: nobody by that name, and a drain that could never end: two answers, and
/// neither changes anything.
fn nothing_changes_before_it_can_end(cluster: &Cluster) {
    ask(cluster, "cluster decommission n9 --yes").ended(NOT_FOUND, &["n9"]);
    ask(cluster, "cluster safe-to-stop n9").ended(NOT_FOUND, &["n9"]);
    let three = "cluster decommission n3 n4 n5";
    let view = ask(cluster, &format!("{three} --dry-run")).ended(REFUSED, &[]).json;
    assert_eq!(view["possible"], false);
    assert_eq!(view["blockers"][0]["code"], "below_min_voters", "{view}");
    assert!(view["blockers"][0]["remedy"].as_str().unwrap().contains("join"), "{view}");
    let words = ["2 voters would be left", "min_voters is 3", "nothing was changed"];
    ask(cluster, &format!("{three} --yes")).ended(REFUSED, &words);
    let view = ask(cluster, "cluster status").ended(OK, &[]).json;
    assert_eq!(view["drains"].as_array().map(Vec::len), Some(0), "{view}");
}

/// Field fault 36: what would not fit at the peak of the moves, said before; and what does not fit once it
/// is tried. A pin stands in the way as long as it is there.
async fn what_does_not_fit_is_refused(cluster: &Cluster) {
    cluster.nodes["n2"].fill_small_disk(ROOM);
    let view = told(cluster, "cluster plan", "a plan", |_| true).await;
    assert_eq!(view["moves_min"], 0, "{view}");
    let view = ask(cluster, "cluster decommission n4 n5 --dry-run").ended(REFUSED, &[]).json;
    let blocker = &view["blockers"][0];
    assert_eq!((&blocker["code"], &blocker["member"]), (&"no_headroom".into(), &"n2".into()));
    assert!(blocker["remedy"].as_str().unwrap().contains("free space on it"), "{view}");

    let partition = owned(cluster, TOPIC, "n5").await[0];
    let place = format!("{TOPIC}/{partition}");
    ask(cluster, &format!("cluster move {place} --to n2")).ended(OK, &[]);
    let words = ["the disk of n2 is full", "free space on n2"];
    move_is(cluster, (TOPIC, partition.into()), "blocked", "disk_full", &words).await;
    cluster_is(cluster, "blocked", "disk_full", &[&place]).await;
    let view = ask(cluster, &format!("cluster explain {place}")).ended(OK, &[]).json;
    assert_eq!((&view["owner"], &view["moving"]["to"]), (&"n5".into(), &"n2".into()), "{view}");
    ask(cluster, &format!("cluster abort {place} --yes")).ended(OK, &[]);
    cluster.nodes["n2"].free_small_disk();

    let view = ask(cluster, "cluster decommission n5 --dry-run").ended(REFUSED, &["unpin"]).json;
    assert_eq!(view["blockers"][0]["code"], "pinned", "{view}");
    ask(cluster, &format!("cluster unpin {place}")).ended(OK, &[]);
    told(cluster, "cluster moves", "nothing moves", |view| view["moves"] == serde_json::json!([]))
        .await;
}

/// Field fault 42: what leaves with two of them moves once, and to neither.
fn two_leave_in_one_plan(cluster: &Cluster) {
    let view = ask(cluster, "cluster decommission n4 n5 --dry-run").ended(OK, &[]).json;
    let moves = view["moves"].as_array().unwrap();
    let mut partitions: Vec<_> = moves.iter().map(|one| one["partition"].as_u64()).collect();
    partitions.sort_unstable();
    partitions.dedup();
    assert_eq!((moves.len(), partitions.len()), (4, 4), "{view}");
    assert!(moves.iter().all(|one| one["to"] != "n4" && one["to"] != "n5"), "{view}");
    assert!(view["estimated_ms"].as_u64().unwrap() > 1000, "{view}");
}

/// Field faults 39 and 40: a drain of which nothing has moved is over the moment it is taken back,
/// and can begin again.
fn what_is_taken_back_is_over_at_once(cluster: &Cluster) {
    ask(cluster, "cluster pause").ended(OK, &[]);
    for _ in 0..2 {
        let view = ask(cluster, "cluster decommission n5 --yes").ended(OK, &[]).json;
        assert!(view["warnings"].to_string().contains("paused"), "{view}");
        let view = ask(cluster, "cluster status").ended(OK, &[]).json;
        assert!(is(&drain(&view, "n5")["verdict"], "waiting", "paused"), "{view}");
        assert!(view["next"].to_string().contains("narad cluster resume"), "{view}");
        ask(cluster, "cluster decommission n5 --cancel").ended(OK, &[]);
        let view = ask(cluster, "cluster status").ended(OK, &[]).json;
        assert!(drain(&view, "n5").is_null() && member(&view, "n5")["draining"] == false);
    }
    ask(cluster, "cluster resume").ended(OK, &[]);
}

/// Field fault 37: a destination that is to leave is none any more; nothing moves to it.
async fn who_leaves_takes_nothing_more(cluster: &Cluster) {
    let partition = owned(cluster, TOPIC, "n4").await[0];
    let place = format!("{TOPIC}/{partition}");
    ask(cluster, &format!("cluster move {place} --to n5")).ended(OK, &[]);
    move_is(cluster, (TOPIC, partition.into()), "progressing", "", &["eta_ms"]).await;
    a_narrow_terminal_shows_what_counts(cluster, &place).await;
    let view = ask(cluster, "cluster decommission n5 --yes").ended(OK, &[]).json;
    assert!(view["warnings"].to_string().contains("1 move to n5 will be given up"), "{view}");
    told(cluster, "cluster moves", "nothing moves to n5", |view| {
        moving(view, (TOPIC, partition.into())).is_none_or(|one| one["to"] != "n5")
    })
    .await;
    ask(cluster, &format!("cluster move {place} --to n5"))
        .ended(REFUSED, &["draining: name another member"]);
    ask(cluster, &format!("cluster unpin {place}")).ended(OK, &[]);
}

/// Whoever watches on a terminal of 80 columns sees how far it is, how fast, and how long it takes; no
/// line is longer than the terminal, and whoever has seen enough ends it in peace.
async fn a_narrow_terminal_shows_what_counts(cluster: &Cluster, place: &str) {
    const COLUMNS: u16 = 80;
    let mut command = narad();
    command.args(["--admin", &cluster.admin(), "cluster", "moves", "--watch"]);
    let mut watch = OnTerminal::start(command, COLUMNS);
    watch.shows(&[place, "of 3.", "/s", " left"]).await;
    assert_eq!(watch.interrupted().await, Some(OK));
    for line in watch.lines() {
        // A line that fills the terminal needs no end; what follows is one of its own.
        let rest: String = line.chars().skip(COLUMNS.into()).collect();
        assert!(rest.is_empty() || rest.starts_with(TOPIC), "{line:?}");
    }
}

/// Field faults 32 and 43: nobody may take a node away that has something; if it is killed all the
/// same, the page says so, and it goes on once the node is back. It is out once, for everybody who
/// is asked.
async fn who_is_killed_while_leaving_goes_on_later(cluster: &mut Cluster) {
    told(cluster, "cluster status", "n5 leaves", |view| {
        is(&drain(view, "n5")["verdict"], "progressing", "")
    })
    .await;
    let said = ask(cluster, "cluster safe-to-stop n5 --for-good");
    let view = said.ended(NOT_SAFE, &["narad cluster decommission n5 --wait"]).json;
    assert_eq!(view["reasons"][0]["code"], "not_retired", "{view}");
    cluster.node("n5").kill();
    let view = told(cluster, "cluster status", "n5 is dead, and has something", |view| {
        let drain = drain(view, "n5");
        drain["status"] == "dead"
            && ["source_dead", "owner_dead", "promote_refused"]
                .iter()
                .any(|code| drain["verdict"]["code"] == *code)
    })
    .await;
    assert!(view["next"].to_string().contains("n5"), "{view}");
    ask(cluster, "cluster safe-to-stop n5 --for-good").ended(NOT_SAFE, &[]);
    cluster.restart("n5").await;
    ask(cluster, "cluster throttle off").ended(OK, &[]);
    let view = ask(cluster, "cluster decommission n5 --wait --yes").ended(OK, &[]).json;
    assert!(is(&view["members"][0]["verdict"], "done", ""), "{view}");
    let view = cluster_is(cluster, "done", "", &["by 4 members"]).await;
    let gone = member(&view, "n5");
    assert_eq!((&gone["status"], &gone["owned_partitions"]), (&"retired".into(), &0.into()));
    assert!(drain(&view, "n5").is_null(), "{view}");
    ask(cluster, "cluster safe-to-stop n5 --for-good").ended(OK, &[]);
    ask(cluster, "cluster decommission n5 --dry-run").ended(REFUSED, &["n5 is retired for good"]);
    cluster.node("n5").terminate();
    assert!(cluster.node("n5").ended().await.success());
}

/// Whoever comes later sees what was asked, of whichever node, and how it ended.
fn who_did_what_is_told_of_all_nodes(cluster: &Cluster) {
    let view = ask(cluster, "cluster audit -n 200").ended(OK, &[]).json;
    let actions = view["actions"].as_array().unwrap();
    let has = |path: &str, outcome: &str| {
        actions.iter().any(|one| one["path"] == path && one["outcome"] == outcome)
    };
    assert!(has("/v1/cluster/decommissions", "done"), "{view}");
    assert!(has("/v1/cluster/members/n5/decommission", "done"), "it was taken back: {view}");
    assert!(has("/v1/cluster/moves", "rejected"), "to one that leaves: {view}");
    assert!(actions.is_sorted_by(|one, next| one["time"].as_str() >= next["time"].as_str()));
    assert_eq!(view["silent"], serde_json::json!([]), "{view}");
}

/// Field fault 54: a leader that leaves hands its lead over first, and leads nothing afterwards.
async fn a_leader_leaves(cluster: &mut Cluster) {
    let leader = cluster.leader().await;
    ask(cluster, &format!("cluster decommission {leader} --wait --yes")).ended(OK, &[]);
    let view = cluster_is(cluster, "done", "", &["by 3 members"]).await;
    assert!(view["leader"] != leader.as_str() && !view["leader"].is_null(), "{view}");
    let gone = member(&view, &leader);
    assert_eq!((&gone["role"], &gone["leader"]), (&"none".into(), &false.into()), "{view}");
    assert!(!view["quorum"]["voters"].to_string().contains(&leader), "{view}");
    ask(cluster, &format!("cluster safe-to-stop {leader} --for-good")).ended(OK, &[]);
}
