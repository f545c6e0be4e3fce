//! Certificates on a disk, made for one test.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use narad_core::ids::Name;
use narad_runtime::tls::authority::{Authority, Issued, Validity};
use narad_runtime::tls::{Files, Tls, Who};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// An authority and what it has signed.
pub(crate) struct Set {
    pub(crate) dir: tempfile::TempDir,
    authority: Authority,
}

impl Set {
    pub(crate) fn of(cluster: &str) -> Self {
        let authority = Authority::create(&name(cluster), Validity::days(10)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.crt"), &authority.own().cert).unwrap();
        Self { dir, authority }
    }

    /// Makes the certificate of a node, which is on its way into these files.
    pub(crate) fn issue(&self, who: &Who, validity: Validity) -> Files {
        let called = match who {
            Who::Node(name) | Who::Role(name) => name.as_str(),
        };
        let hosts = ["localhost", "127.0.0.1"].map(str::to_owned);
        let Issued { cert, key } = self.authority.issue(who, called, &hosts, validity).unwrap();
        let files = self.files(called);
        std::fs::write(&files.cert, cert).unwrap();
        std::fs::write(&files.key, key).unwrap();
        files
    }

    pub(crate) fn files(&self, called: &str) -> Files {
        let at = |name: String| -> PathBuf { self.dir.path().join(name) };
        let (cert, key) = (at(format!("{called}.crt")), at(format!("{called}.key")));
        Files { ca: at("ca.crt".to_owned()), cert, key }
    }

    pub(crate) fn node(&self, called: &str) -> Tls {
        Tls::open(self.issue(&Who::Node(name(called)), Validity::days(1))).unwrap()
    }

    /// Trusts this authority as well as its own.
    pub(crate) fn trust(&self, other: &Self) {
        let both = format!("{}{}", self.authority.own().cert, other.authority.own().cert);
        std::fs::write(self.dir.path().join("ca.crt"), both).unwrap();
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A validity that begins and ends so long before now.
pub(crate) fn past() -> Validity {
    let now = SystemTime::now();
    let hours = |hours: u64| Duration::from_hours(hours);
    Validity { not_before: now - hours(48), not_after: now - hours(24) }
}

pub(crate) fn future() -> Validity {
    let now = SystemTime::now();
    let hours = |hours: u64| Duration::from_hours(hours);
    Validity { not_before: now + hours(24), not_after: now + hours(48) }
}

/// Dials as a client of the API does, with whatever certificate it has.
pub(crate) async fn as_client(address: &str, files: &Files) -> TlsStream<TcpStream> {
    let chain = CertificateDer::pem_file_iter(&files.cert).unwrap().map(Result::unwrap).collect();
    let config = ClientConfig::builder()
        .with_root_certificates(roots(files))
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap())
        .unwrap();
    dial(address, config).await
}

/// Dials under TLS without any certificate.
pub(crate) async fn as_nobody(address: &str, files: &Files) -> TlsStream<TcpStream> {
    let config = ClientConfig::builder().with_root_certificates(roots(files)).with_no_client_auth();
    dial(address, config).await
}

fn roots(files: &Files) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(&files.ca).unwrap() {
        roots.add(authority.unwrap()).unwrap();
    }
    roots
}

async fn dial(address: &str, config: ClientConfig) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    let host = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(host, stream).await.unwrap()
}
