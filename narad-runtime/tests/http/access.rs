//! Roles: who may do what, what is answered to others, and what is written down of it.

use std::sync::Arc;

use axum::Router;
use narad_runtime::client::{Client, ClientOptions};
use narad_runtime::http::{
    Access, Audit, AuditLimits, HttpOptions, Peer, Role, Secret, Token, least_role, paths,
};
use narad_runtime::service::Read;
use serde_json::Value;

use crate::cli::{Setting, narad_in};
use crate::fake::{Cluster, member};
use crate::router::{Reply, error, send_with};

const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

fn token(role: Role) -> (Secret, Token) {
    let secret = Secret::draw();
    let token = Token { name: format!("a-{role}"), role, sha256: secret.sha256() };
    (secret, token)
}

struct Guarded {
    cluster: Arc<Cluster>,
    router: Router,
    access: Arc<Access>,
    secrets: Vec<(Role, Secret)>,
    dir: tempfile::TempDir,
    audit: Arc<Audit>,
}

fn guarded() -> Guarded {
    let cluster = Cluster::new();
    cluster.topic("orders", &["narad-1"]);
    cluster.change(|state| state.members = vec![member("narad-1", 1), member("narad-4", 4)]);
    let (secrets, tokens): (Vec<_>, Vec<_>) = Role::ALL
        .into_iter()
        .map(|role| {
            let (secret, token) = token(role);
            ((role, secret), token)
        })
        .unzip();
    let dir = tempfile::tempdir().expect("a directory");
    let audit = Audit::open(dir.path(), "narad-1", &AuditLimits::default()).expect("opened");
    let audit = Arc::new(audit);
    let access = Arc::new(Access::new(tokens).audited(Arc::clone(&audit)));
    let router = cluster.guarded("narad-1", HttpOptions::default(), Arc::clone(&access));
    Guarded { cluster, router, access, secrets, dir, audit }
}

impl Guarded {
    async fn ask(&self, token: Option<&str>, method: &str, path: &str, body: &str) -> Reply {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<(&str, &str)> =
            bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        send_with(&self.router, method, path, &headers, body).await
    }

    fn secret(&self, role: Role) -> &str {
        self.secrets.iter().find(|(has, _)| *has == role).expect("there is one").1.reveal()
    }

    /// Closes the audit log and reads one of its files.
    fn written(&self, name: &str) -> Vec<Value> {
        self.audit.close();
        let text = std::fs::read_to_string(self.dir.path().join(name)).expect("written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Whatever the route, less than its role gets nothing.
#[tokio::test]
async fn every_route_is_shut_to_lesser_roles_and_open_to_its_own() {
    let guarded = guarded();
    for path in paths() {
        let uri = path.replace("{topic}", "orders").replace("{partition}", "0");
        let uri = uri.replace("{id}", "narad-4").replace("{member}", "narad-4");
        for method in METHODS {
            let least = least_role(path, &method.parse().expect("a method"), &uri.parse().unwrap());
            let unknown = guarded.ask(None, method, &uri, "").await;
            if unknown.status == 405 {
                continue;
            }
            let Some(least) = least else {
                assert!(unknown.status.is_success(), "{method} {path}: {}", unknown.status);
                let wrong = guarded.ask(Some("wrong"), method, &uri, "").await;
                assert_eq!(wrong.status, unknown.status, "probes do not care: {path}");
                continue;
            };
            let wrong = guarded.ask(Some("wrong"), method, &uri, "").await;
            for reply in [&unknown, &wrong] {
                assert_eq!(error(reply), (401, "unauthenticated", false), "{method} {path}");
                let challenge = reply.headers["www-authenticate"].to_str().expect("text");
                assert!(challenge.starts_with("Bearer realm=\"narad\""), "{challenge}");
            }
            for role in Role::ALL {
                let reply = guarded.ask(Some(guarded.secret(role)), method, &uri, "").await;
                if role < least {
                    assert_eq!(error(&reply), (403, "forbidden", false), "{role} {method} {path}");
                    let told = reply.body["error"].as_str().expect("text");
                    assert!(told.contains(least.name()) && told.contains("a-"), "{told}");
                } else {
                    let status = reply.status.as_u16();
                    assert!(status != 401 && status != 403, "{role} {method} {path}: {status}");
                }
            }
        }
    }
    assert!(guarded.cluster.state().decommission.is_none());
}

/// What admins do is written down, and so is what others may not do.
#[tokio::test]
async fn what_admins_do_is_written_down_with_who_and_how_it_ended() {
    let guarded = guarded();
    let path = "/v1/cluster/members/narad-4/decommission";
    let admin = guarded.secret(Role::Admin).to_owned();
    assert_eq!(guarded.ask(Some(&admin), "POST", path, "").await.status, 204);
    let body = r#"{"topic":"orders","partition":9,"to":"narad-4"}"#;
    let moved = guarded.ask(Some(&admin), "POST", "/v1/cluster/moves", body).await;
    assert_eq!(moved.status, 404);
    let write = guarded.secret(Role::Write).to_owned();
    assert_eq!(guarded.ask(Some(&write), "DELETE", path, "").await.status, 403);
    assert_eq!(guarded.ask(Some("wrong"), "DELETE", path, "").await.status, 401);
    // Reads and records are nobody's action.
    assert_eq!(guarded.ask(Some(&write), "GET", "/v1/cluster/members", "").await.status, 200);
    let message = r#"{"messages":[{"value":"x"}]}"#;
    let produced = guarded.ask(Some(&write), "POST", "/v1/topics/orders/messages", message).await;
    assert_eq!(produced.status, 200);

    // Admins can read all of it back, and nobody else.
    let shown = guarded.ask(Some(&admin), "GET", "/v1/node/audit?limit=3", "").await;
    assert_eq!(shown.status, 200, "{}", shown.body);
    let told: Vec<(&str, &str)> = shown.body["actions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["who"].as_str().unwrap_or("-"), one["outcome"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        told,
        [("-", "unauthenticated"), ("a-write", "forbidden"), ("a-admin", "unknown_partition")]
    );
    assert_eq!(guarded.ask(Some(&write), "GET", "/v1/node/audit", "").await.status, 403);
    assert_eq!(guarded.ask(Some(&admin), "GET", "/v1/node/audit?limit=0", "").await.status, 400);

    let lines = guarded.written("audit.jsonl");
    let short = |line: &Value| {
        let text = |field: &str| line[field].as_str().unwrap_or("-").to_owned();
        (text("event"), text("who"), text("path"), text("outcome"))
    };
    let wanted = [
        ("asked", "a-admin", path, "-"),
        ("answered", "a-admin", path, "done"),
        ("asked", "a-admin", "/v1/cluster/moves", "-"),
        ("answered", "a-admin", "/v1/cluster/moves", "unknown_partition"),
    ];
    let owned = |(event, who, path, outcome): (&str, &str, &str, &str)| {
        (event.to_owned(), who.to_owned(), path.to_owned(), outcome.to_owned())
    };
    assert_eq!(lines.iter().map(short).collect::<Vec<_>>(), wanted.map(owned));
    assert_eq!(lines[0]["id"], lines[1]["id"]);
    assert_eq!(lines[2]["body"]["partition"], 9, "what it was about is known before it is done");
    assert_eq!((&lines[3]["status"], &lines[3]["from"]), (&404.into(), &"192.0.2.7".into()));
    let refused = guarded.written("audit-refused.jsonl");
    let wanted =
        [("refused", "a-write", path, "forbidden"), ("refused", "-", path, "unauthenticated")];
    assert_eq!(refused.iter().map(short).collect::<Vec<_>>(), wanted.map(owned));
    assert!(!format!("{lines:?}{refused:?}").contains(&admin), "a token is in the log");
}

/// A page of another origin cannot use that its visitor sits at the node's machine.
#[tokio::test]
async fn a_foreign_page_changes_nothing_where_nobody_needs_a_token() {
    let cluster = Cluster::new();
    cluster.change(|state| state.members = vec![member("narad-1", 1)]);
    let router = cluster.router("narad-1", HttpOptions::default());
    let path = "/v1/cluster/members/narad-1/decommission";
    for site in ["cross-site", "same-site"] {
        let reply = send_with(&router, "POST", path, &[("sec-fetch-site", site)], "").await;
        assert_eq!(error(&reply), (403, "forbidden", false));
    }
    assert!(!cluster.state().members[0].draining);
    for site in ["same-origin", "none"] {
        let reply = send_with(&router, "POST", path, &[("sec-fetch-site", site)], "").await;
        assert_eq!(reply.status, 204);
    }
}

/// A browser shows its user's certificate to whoever asks; a token is nothing that it adds by itself.
#[tokio::test]
async fn a_foreign_page_cannot_use_its_visitors_certificate() {
    let guarded = guarded();
    let admin =
        Peer { certificate: Some("seat".into()), role: Some(Role::Admin), ..Peer::default() };
    let router = guarded.router.clone().layer(axum::Extension(admin));
    let path = "/v1/cluster/members/narad-1/forget";
    let (here, there) = (("host", "narad-1.example:7401"), "https://evil.example");
    for foreign in [
        ("sec-fetch-site", "cross-site"),
        ("origin", there),
        ("origin", "null"),
        ("origin", "https://narad-1.example"),
        ("origin", "ftp://narad-1.example:7401"),
    ] {
        let reply = send_with(&router, "POST", path, &[here, foreign], "").await;
        assert_eq!(error(&reply), (403, "forbidden", false), "{foreign:?}");
        let reply = send_with(&router, "GET", "/v1/cluster/members", &[here, foreign], "").await;
        assert_eq!(reply.status, 200, "{foreign:?}: its page cannot see the answer");
    }
    for own in [
        &[("origin", "https://NARAD-1.example:7401")][..],
        &[("sec-fetch-site", "same-origin"), ("origin", there)],
        &[],
    ] {
        let reply = send_with(&router, "POST", path, &[&[here], own].concat(), "").await;
        assert_eq!(reply.status, 400, "{own:?}: what is missing is the receipt");
    }
    let bearer = format!("Bearer {}", guarded.secret(Role::Admin));
    let with = [here, ("origin", there), ("authorization", &bearer)];
    let reply = send_with(&guarded.router, "POST", path, &with, "").await;
    assert_eq!(reply.status, 400, "a token was given by somebody who meant it");
}

/// A domain may point to this machine, and its pages are then of the same origin.
#[tokio::test]
async fn no_domain_is_served_for_being_near() {
    let cluster = Cluster::new();
    let plain = cluster.router("narad-1", HttpOptions::default());
    let from = |address: [u8; 4]| {
        let peer = Peer { address: Some(address.into()), ..Peer::default() };
        plain.clone().layer(axum::Extension(peer))
    };
    let near = from([127, 0, 0, 1]);
    let path = "/v1/cluster/members";
    for domain in
        ["evil.example", "evil.example:7401", "EVIL.example.:7401", "127.0.0.1.evil.example"]
    {
        let reply = send_with(&near, "GET", path, &[("host", domain)], "").await;
        assert_eq!(error(&reply), (403, "forbidden", false), "{domain}");
        let reply = send_with(&near, "GET", "/healthz", &[("host", domain)], "").await;
        assert_eq!(reply.status, 200, "{domain}: a probe tells nothing");
        let far = from([192, 0, 2, 7]);
        let reply = send_with(&far, "GET", path, &[("host", domain)], "").await;
        assert_eq!(reply.status, 200, "{domain}: how others find a node that is open to them");
    }
    let twice = [("host", "127.0.0.1"), ("host", "evil.example")];
    let reply = send_with(&near, "GET", path, &twice, "").await;
    assert_eq!(error(&reply), (403, "forbidden", false));
    for own in
        ["127.0.0.1:7401", "[::1]:7401", "localhost", "LOCALHOST:7401", "a.localhost.", "box"]
    {
        let reply = send_with(&near, "GET", path, &[("host", own)], "").await;
        assert_eq!(reply.status, 200, "{own}");
    }
}

/// A listener that has checked a certificate says what it allows; without one nobody is served.
#[tokio::test]
async fn a_certificate_is_as_good_as_a_token() {
    let cluster = Cluster::new();
    let of = |peer: Peer| {
        let access = Arc::new(Access::default());
        let router = cluster.guarded("narad-1", HttpOptions::default(), access);
        router.layer(axum::Extension(peer))
    };
    let encrypted = Peer { encrypted: true, ..Peer::default() };
    let reply = send_with(&of(encrypted.clone()), "GET", "/v1/cluster/members", &[], "").await;
    assert_eq!(reply.status, 401);
    let reader = Peer { certificate: Some("eye".into()), role: Some(Role::Read), ..encrypted };
    let reply = send_with(&of(reader.clone()), "GET", "/v1/cluster/members", &[], "").await;
    assert_eq!(reply.status, 200);
    let reply = send_with(&of(reader), "POST", "/v1/topics", &[], "").await;
    assert_eq!(error(&reply), (403, "forbidden", false));
}

/// The client and the command show a token; a node that is told new tokens knows them at once.
#[tokio::test]
async fn clients_show_their_token() {
    let guarded = guarded();
    let node = guarded.cluster.start_router(guarded.router.clone()).await;
    let client = |token: Option<Secret>| {
        let options = ClientOptions { token, ..ClientOptions::default() };
        Client::new(vec![node.addr.parse().expect("an address")], options)
    };
    let denied = client(None).members(Read::Barrier).await.expect_err("nobody is known");
    assert_eq!(denied.code(), Some("unauthenticated"));
    let reader = guarded.secrets[0].1.clone();
    let members = client(Some(reader.clone())).members(Read::Barrier).await;
    assert_eq!(members.expect("a token is shown").len(), 2);

    let ran = async |line: &[&str]| {
        let all = [&["--admin", &node.addr], line].concat();
        narad_in(Setting { on_terminal: false, ..Setting::default() }, &all).await
    };
    let file = guarded.dir.path().join("token");
    std::fs::write(&file, format!("{}\n", reader.reveal())).expect("written");
    let file = file.to_str().expect("text");
    let shown = ran(&["--token-file", file, "cluster", "members"]).await;
    assert_eq!(shown.code as u8, 0, "{}", shown.err);
    let denied = ran(&["--token-file", file, "topic", "delete", "orders", "--yes"]).await;
    assert_eq!(denied.code as u8, 11, "{}", denied.err);
    assert!(denied.err.contains("takes the role admin"), "{}", denied.err);
    let unknown = ran(&["cluster", "members"]).await;
    assert!(unknown.code as u8 == 11 && unknown.err.contains("NARAD_TOKEN"), "{}", unknown.err);

    let made = ran(&["token", "new", "--role", "read", "--name", "eye"]).await;
    let made: Value = serde_json::from_str(&made.out).expect("JSON");
    let secret: Secret = made["token"].as_str().expect("text").parse().expect("a token");
    assert_eq!(secret.sha256().to_string(), made["sha256"]);
    let token = Token { name: "eye".into(), role: Role::Read, sha256: secret.sha256() };
    guarded.access.replace(vec![token]);
    assert!(client(Some(secret)).members(Read::Barrier).await.is_ok());
    assert!(client(Some(reader)).members(Read::Barrier).await.is_err(), "it was taken back");
}
