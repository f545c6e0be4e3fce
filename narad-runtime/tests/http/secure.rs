//! The API under TLS: who is known by a certificate, and what that allows.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use narad_core::ids::Name;
use narad_runtime::client::{Client, ClientError, ClientOptions, Endpoint};
use narad_runtime::http::{Access, Connections, HttpOptions, serve};
use narad_runtime::service::Read;
use narad_runtime::tls::authority::{Authority, Issued, Validity};
use narad_runtime::tls::{ClientTls, Files, Tls, Who};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{Cluster, member};

/// A directory with an authority and what it has signed.
struct Certs {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Certs {
    fn of(cluster: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let authority = Authority::create(&name(cluster), Validity::days(9)).expect("made");
        std::fs::write(dir.path().join("ca.crt"), &authority.own().cert).expect("written");
        Self { dir, authority }
    }

    fn at(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn issue(&self, who: &Who, called: &str, hosts: &[&str]) -> Files {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let issued = self.authority.issue(who, called, &hosts, Validity::days(1));
        let Issued { cert, key } = issued.expect("issued");
        let (ca, at) = (self.at("ca.crt"), |ending: &str| self.at(&format!("{called}.{ending}")));
        let files = Files { ca, cert: at("crt"), key: at("key") };
        std::fs::write(&files.cert, cert).expect("written");
        std::fs::write(&files.key, key).expect("written");
        files
    }

    fn role(&self, role: &str) -> ClientTls {
        let files = self.issue(&Who::Role(name(role)), role, &[]);
        client(&files.ca, Some(&files))
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn client(ca: &Path, own: Option<&Files>) -> ClientTls {
    let own = own.map(|files| (files.cert.as_path(), files.key.as_path()));
    ClientTls::open(ca, own).expect("good files")
}

/// Serves a cluster under TLS, as a node that can be found as these hosts.
async fn served(certs: &Certs, hosts: &[&str], clients_must: bool) -> String {
    let cluster = Cluster::new();
    cluster.topic("orders", &["a"]);
    cluster.change(|state| state.members = vec![member("a", 1)]);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    let files = certs.issue(&Who::Node(name("a")), "a", hosts);
    let tls = Some(Tls::open_with(files, clients_must).expect("good files"));
    let router = cluster.guarded("a", HttpOptions::default(), Arc::new(Access::default()));
    let connections = Connections { tls, ..Connections::default() };
    tokio::spawn(serve(listener, router, connections, std::future::pending()));
    addr
}

fn asks(addr: &str, tls: Option<ClientTls>) -> Client {
    let endpoint: Endpoint = format!("https://{addr}").parse().expect("an address");
    let options =
        ClientOptions { request_timeout: Duration::from_secs(5), tls, ..ClientOptions::default() };
    Client::new(vec![endpoint], options)
}

const LOOPBACK: &[&str] = &["127.0.0.1"];

/// Roles of client certificates; nobody is an admin for being near.
#[tokio::test]
async fn a_client_may_what_its_certificate_says() {
    let certs = Certs::of("prod");
    let addr = served(&certs, LOOPBACK, false).await;
    let read = asks(&addr, Some(certs.role("read")));
    assert_eq!(read.members(Read::Barrier).await.expect("a reader may look").len(), 1);
    let denied = read.delete_topic("orders").await.expect_err("a reader may not");
    assert_eq!(denied.code(), Some("forbidden"), "{denied}");
    let nobody = asks(&addr, Some(client(&certs.at("ca.crt"), None)));
    let denied = nobody.members(Read::Barrier).await.expect_err("who is not known may not");
    assert_eq!(denied.code(), Some("unauthenticated"), "{denied}");
    // A role that there is not allows nothing.
    let king = asks(&addr, Some(certs.role("king"))).members(Read::Barrier).await;
    assert_eq!(king.expect_err("no role").code(), Some("forbidden"));
    let admin = asks(&addr, Some(certs.role("admin")));
    assert!(admin.delete_topic("orders").await.is_ok());
    // Nodes ask one another, wherever they are.
    let files = certs.issue(&Who::Node(name("b")), "b", &[]);
    let node = asks(&addr, Some(ClientTls::of_node(&Tls::open(files).expect("good files"))));
    assert_eq!(node.members(Read::Barrier).await.expect("a node may look").len(), 1);
}

/// Nothing is served to whoever shows the wrong thing.
#[tokio::test]
async fn who_shows_a_wrong_certificate_is_not_served() {
    let (certs, other) = (Certs::of("prod"), Certs::of("test"));
    // One authority more, which signs for another cluster.
    let both = format!("{}{}", certs.authority.own().cert, other.authority.own().cert);
    std::fs::write(certs.at("ca.crt"), &both).expect("written");
    std::fs::write(other.at("ca.crt"), &both).expect("written");
    let addr = served(&certs, LOOPBACK, false).await;
    let foreign = asks(&addr, Some(other.role("admin")));
    let failed = foreign.members(Read::Barrier).await.expect_err("of another cluster");
    assert!(failed.code().is_none(), "{failed}");
    // An authority that nobody has heard of.
    let stranger = Certs::of("prod");
    std::fs::write(stranger.at("ca.crt"), &both).expect("written");
    let failed = asks(&addr, Some(stranger.role("admin"))).members(Read::Barrier).await;
    let failed = failed.expect_err("of another authority");
    assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
    assert!(failed.to_string().contains("authority that is not trusted"), "{failed}");
    // Plaintext on the port.
    let mut stream = TcpStream::connect(&addr).await.expect("it listens");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

/// A client believes the host that it asked, and nobody else.
#[tokio::test]
async fn a_client_does_not_talk_to_an_impostor() {
    let certs = Certs::of("prod");
    let elsewhere = served(&certs, &["10.9.9.9"], false).await;
    let admin = asks(&elsewhere, Some(certs.role("admin")));
    let failed = admin.members(Read::Barrier).await.expect_err("another host's certificate");
    assert!(failed.to_string().contains("narad cert issue --host"), "{failed}");
    // A client's certificate serves nobody, whatever hosts it names.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let addr = listener.local_addr().expect("bound").to_string();
    let files = certs.issue(&Who::Role(name("write")), "write", LOOPBACK);
    assert!(Tls::open(files).is_err());
    drop(listener);
    let none = asks(&addr, None).members(Read::Barrier).await.expect_err("no authority");
    assert!(none.to_string().contains("refused") || none.to_string().contains("--ca"), "{none}");
}

/// Where certificates are asked for, a token is not enough.
#[tokio::test]
async fn a_client_without_a_certificate_is_refused_where_one_is_required() {
    let certs = Certs::of("prod");
    let addr = served(&certs, LOOPBACK, true).await;
    let nobody = asks(&addr, Some(client(&certs.at("ca.crt"), None)));
    let failed = nobody.members(Read::Barrier).await.expect_err("no certificate");
    assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
    assert!(failed.to_string().contains("certificate"), "{failed}");
    assert!(asks(&addr, Some(certs.role("read"))).members(Read::Barrier).await.is_ok());
}
