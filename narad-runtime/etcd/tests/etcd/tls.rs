//! Connections under TLS, with certificates on both sides.

use std::fs;
use std::path::Path;

use narad_core::ids::LogIndex;
use narad_etcd::{Builder, Certificate, EtcdError, EtcdMetastore, Identity, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::server::Server;
use crate::{PATIENCE, applied, records};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns a certificate and its key, both as PEM.
fn issued(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

/// Starts a server that trusts the clients of an authority only.
fn secure_server(authority: &Authority, folder: &Path) -> Server {
    let (certificate, key) = issued(authority, "127.0.0.1");
    let file = |name: &str, content: &str| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (file("server.pem", &certificate), file("server.key", &key));
    let authority = file("authority.pem", &authority.pem());
    Server::spawn_secure(&[
        "--cert-file",
        &certificate,
        "--key-file",
        &key,
        "--client-cert-auth",
        "--trusted-ca-file",
        &authority,
    ])
}

fn builder(server: &Server, trusted: &Authority, identity: Option<(String, String)>) -> Builder {
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(trusted.pem()));
    if let Some((certificate, key)) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    EtcdMetastore::builder([server.endpoint()]).options(|options| options.with_tls(tls))
}

/// Whoever has a certificate of the authority gets in, whoever has none does not, and a server of
/// another authority is not believed.
#[tokio::test]
async fn certificates_are_asked_for_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, stranger) = (authority(), authority());
    let server = secure_server(&authority, folder.path());
    let own = builder(&server, &authority, Some(issued(&authority, "narad")));
    let metastore = own.patience(PATIENCE).connect().await.unwrap();
    assert_eq!(applied(&metastore, "a").await, LogIndex(1));
    assert_eq!(records(&metastore, 0, 1).await, ["a"]);
    for strange in [
        builder(&server, &authority, None),
        builder(&server, &authority, Some(issued(&stranger, "narad"))),
        builder(&server, &stranger, Some(issued(&authority, "narad"))),
    ] {
        let error = strange.connect().await.map(drop).unwrap_err();
        assert!(matches!(error, EtcdError::Unreachable { .. }), "{error:?}");
    }
}
