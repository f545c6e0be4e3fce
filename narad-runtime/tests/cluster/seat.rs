//! Journals, reloads, tokens: what operators have of real nodes besides verdicts.

use narad_core::mover::Phase;
use narad_core::mover::journal::{Beginning, Entry, Journal};
use narad_runtime::cli::ExitCode;
use narad_runtime::client::{Client, ClientOptions};
use narad_runtime::http::{Role, Secret, Token};
use narad_runtime::service::{Read, Service as _};
use narad_runtime::settings::{Change, Settings};

use super::harness::{Cluster, eventually};
use super::operator::{TOPIC, moves_are_over, narad, paused};

/// What a real move was told drives the same machine through the same course, whichever
/// node is asked; and the move is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_of_a_real_move_is_driven_again() {
    let cluster = Cluster::of(3).await;
    cluster.create_topic(TOPIC, 1).await;
    let client = cluster.client();
    moves_are_over(&client).await;
    for value in 0..50 {
        cluster.produce(TOPIC, 0, &format!("record {value}")).await;
    }
    let owner = client.topic(TOPIC).await.unwrap().routes[0].owner.to_string();
    let to = ["n1", "n2", "n3"].into_iter().find(|name| **name != owner).unwrap();
    client.move_partition(TOPIC, 0, to).await.unwrap();
    eventually("it has moved", async || {
        client.topic(TOPIC).await.is_ok_and(|topic| topic.routes[0].owner.as_str() == to)
    })
    .await;
    moves_are_over(&client).await;

    let (code, out, err) = narad(&cluster, &["cluster", "trace", "orders/0"]).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    let mut lines = out.lines();
    let head: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&head["narad_journal"], &head["node"]), (&1.into(), &to.into()));
    let beginning: Beginning = serde_json::from_value(head["beginning"].clone()).unwrap();
    let entries: Vec<Entry> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let inputs = entries.len();
    let mut phases = Vec::new();
    let same = Journal::of(beginning, entries, 0).replay(|_, mover, _, same| {
        if phases.last() != Some(&mover.phase()) {
            phases.push(mover.phase());
        }
        same
    });
    assert_eq!(same, inputs, "it came out otherwise after {phases:?}");
    assert!(phases.contains(&Phase::Flip) && phases.last() == Some(&Phase::Over), "{phases:?}");

    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("t.jsonl");
    let line = ["cluster", "trace", "orders/0", "-o", path.to_str().unwrap()];
    let (code, _, err) = narad(&cluster, &line).await;
    assert_eq!(code, ExitCode::Success, "{err}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), out);
    let line = ["cluster", "members", "-o", path.to_str().unwrap()];
    let (code, _, err) = narad(&cluster, &line).await;
    assert!(code == ExitCode::Usage && err.contains("table, wide or json"), "{err}");

    let server = &cluster.servers[to];
    let text = server.service().metrics().await.unwrap();
    let has = |line: &str| text.lines().any(|found| found == line);
    assert!(has("narad_move_duration_seconds_count 1"), "{text}");
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("narad_raft_term") >= 1.0 && value("narad_lease_seconds") > 0.0, "{text}");
    assert!(value("narad_raft_applied_index") > 0.0, "{text}");
}

/// A file that is read again counts at once where that is possible, for the whole
/// cluster where it is the cluster's, and otherwise says that it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_taken_over_while_the_node_runs() {
    let cluster = Cluster::of(1).await;
    let client = cluster.client();
    let before = cluster.settings("n1");
    let secret = Secret::draw();
    let mut after = before.clone();
    after.auth.tokens =
        vec![Token { name: "ops".into(), role: Role::Admin, sha256: secret.sha256() }];
    after.policy.max_in_flight = 3;
    after.consumers.in_flight_max = 7;
    let done = cluster.servers["n1"].reload(&before, &after).await;
    let keys = |all: &[Change]| all.iter().map(|change| change.key).collect::<Vec<_>>();
    assert_eq!(keys(&done.taken), ["auth.tokens"]);
    assert_eq!(keys(&done.agreed), ["policy.max_in_flight"]);
    assert_eq!(keys(&done.waiting), ["consumers.in_flight_max"]);
    assert_eq!(done.refused, []);
    let denied = client.policy(Read::Barrier).await.expect_err("nobody is known any more");
    assert_eq!(denied.code(), Some("unauthenticated"));
    let addr = cluster.servers["n1"].http_addr().to_string();
    let options = ClientOptions { token: Some(secret), ..ClientOptions::default() };
    let known = Client::new(vec![addr.parse().unwrap()], options);
    assert_eq!(known.policy(Read::Barrier).await.unwrap().max_in_flight, 3);

    // A file without tokens, such as one that is cut short, makes nobody an admin; nor does the next one.
    let mut cut = after.clone();
    cut.auth.tokens.clear();
    let done = cluster.servers["n1"].reload(&after, &cut).await;
    assert_eq!((keys(&done.taken), keys(&done.waiting)), (vec![], vec!["auth.tokens"]));
    cluster.servers["n1"].reload(&cut, &cut).await;
    let denied = client.policy(Read::Barrier).await.expect_err("still nobody is known");
    assert_eq!(denied.code(), Some("unauthenticated"));
    assert!(known.policy(Read::Barrier).await.is_ok());
}

/// What a node asks others, it asks in the name of whoever asks it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_ask_one_another_with_the_callers_token() {
    fn guard(settings: &mut Settings) {
        let secret = Secret::new("a-token-of-tests").unwrap();
        let token = Token { name: "eye".into(), role: Role::Read, sha256: secret.sha256() };
        settings.auth.tokens = vec![token];
    }
    let cluster = Cluster::with(2, guard).await;
    let addr = cluster.servers["n1"].http_addr().to_string();
    let token = Some(Secret::new("a-token-of-tests").unwrap());
    let options = ClientOptions { token, ..ClientOptions::default() };
    let client = Client::new(vec![addr.parse().unwrap()], options);
    let view = client.status(Read::Barrier).await.unwrap();
    assert!(view.members.iter().all(|member| member.bytes.is_some()), "{:?}", view.members);
    let history = client.history(Read::Barrier).await.unwrap();
    assert_eq!(history.silent, []);
    let denied = client.policy(Read::Barrier).await;
    assert!(denied.is_ok());
    let change = client.change_policy(&paused(true)).await.expect_err("only an admin may");
    assert_eq!(change.code(), Some("forbidden"));
}
