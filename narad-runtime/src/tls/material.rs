//! What is made of a node's files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    CipherSuite, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::Files;
use super::certificate::{Certificate, Subject, Who};

/// Why files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// A file has something else in it.
    #[error("{} has no {wanted} in it: {cause}; `narad cert issue` makes one", path.display())]
    NotThat {
        /// The file.
        path: PathBuf,
        /// What should be there.
        wanted: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// The key is another one's.
    #[error("{} and {} do not belong together: {cause}", cert.display(), key.display())]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A node was given a client's certificate.
    #[error("{} is of {subject}, and a node needs a node's certificate: `narad cert issue NODE`", path.display())]
    NotANode {
        /// The certificate.
        path: PathBuf,
        /// Whose it is.
        subject: Subject,
    },
    /// The certificate names another node.
    #[error("{} is of {subject}, and this node is {name}: `narad cert issue {name}`", path.display())]
    OtherName {
        /// The certificate.
        path: PathBuf,
        /// Whose it is.
        subject: Subject,
        /// This node.
        name: String,
    },
    /// A certificate was replaced by somebody else's.
    #[error("{} was of {old} and is of {new} now; the old one is used further", path.display())]
    OtherSubject {
        /// The certificate.
        path: PathBuf,
        /// Whose it was.
        old: Box<Subject>,
        /// Whose it is.
        new: Box<Subject>,
    },
    /// The TLS library refuses them.
    #[error("these certificates cannot be used: {cause}")]
    Refused {
        /// What it says.
        cause: String,
    },
}

/// Everything that a node's connections begin with.
pub(super) struct Material {
    pub(super) own: Certificate,
    pub(super) accept_peer: Arc<ServerConfig>,
    #[cfg(feature = "http")]
    pub(super) accept_client: Arc<ServerConfig>,
    pub(super) dial: Arc<ClientConfig>,
    #[cfg(feature = "http")]
    pub(super) dial_http: Arc<ClientConfig>,
    /// What the files held.
    pub(super) bytes: [Vec<u8>; 3],
}

impl Material {
    pub(super) fn read(files: &Files, requires_client: bool) -> Result<Self, TlsError> {
        let bytes = [read(&files.ca)?, read(&files.cert)?, read(&files.key)?];
        let roots = Arc::new(roots(&files.ca, &bytes[0])?);
        let chain = chain(&files.cert, &bytes[1])?;
        let key = || key(&files.key, &bytes[2]);
        let own = own(&files.cert, &chain)?;
        if let Who::Role(_) = own.subject.who {
            return Err(TlsError::NotANode { path: files.cert.clone(), subject: own.subject });
        }
        let mismatch = |error: Error| TlsError::Mismatch {
            cert: files.cert.clone(),
            key: files.key.clone(),
            cause: error.to_string(),
        };
        let server = |clients_must: bool| {
            let verifier = WebPkiClientVerifier::builder_with_provider(
                Arc::clone(&roots),
                Arc::new(provider()),
            );
            let verifier =
                if clients_must { verifier } else { verifier.allow_unauthenticated() }.build();
            let verifier = verifier.map_err(refused)?;
            let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(refused)?
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain.clone(), key()?)
                .map_err(mismatch)?;
            // No session is resumed: every connection shows its certificate.
            config.send_tls13_tickets = 0;
            Ok(config)
        };
        let mut dial = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(refused)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyHost { roots: Arc::clone(&roots) }))
            .with_client_auth_cert(chain.clone(), key()?)
            .map_err(mismatch)?;
        dial.resumption = Resumption::disabled();
        dial.enable_sni = false;
        #[cfg(feature = "http")]
        let (accept_client, dial_http) = {
            let (mut accept, mut dial) = (server(requires_client)?, dial.clone());
            accept.alpn_protocols = vec![b"http/1.1".to_vec()];
            dial.alpn_protocols = vec![b"http/1.1".to_vec()];
            (Arc::new(accept), Arc::new(dial))
        };
        // Without the API there are no clients.
        #[cfg(not(feature = "http"))]
        let _ = requires_client;
        Ok(Self {
            own,
            accept_peer: Arc::new(server(true)?),
            #[cfg(feature = "http")]
            accept_client,
            dial: Arc::new(dial),
            #[cfg(feature = "http")]
            dial_http,
            bytes,
        })
    }
}

/// What a client of the API begins its connections with.
pub(super) fn client(
    ca: &Path,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .with_root_certificates(roots(ca, &read(ca)?)?);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some((cert, key_file)) => {
            let chain = chain(cert, &read(cert)?)?;
            config.with_client_auth_cert(chain, key(key_file, &read(key_file)?)?).map_err(
                |error| TlsError::Mismatch {
                    cert: cert.into(),
                    key: key_file.into(),
                    cause: error.to_string(),
                },
            )?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The cipher that the processors of servers are fastest at comes first.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    let first = |suite: CipherSuite| suite != CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| first(suite.suite()));
    provider
}

fn refused(error: impl std::fmt::Display) -> TlsError {
    TlsError::Refused { cause: error.to_string() }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    /// Longest file of certificates.
    const FILE_BYTES_MAX: u64 = 1 << 20;
    let unreadable = |cause: String| TlsError::Unreadable { path: path.into(), cause };
    let found = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if found.len() > FILE_BYTES_MAX {
        return Err(unreadable("it is longer than 1 MiB".to_owned()));
    }
    std::fs::read(path).map_err(|error| unreadable(error.to_string()))
}

fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let not_that =
        |cause: String| TlsError::NotThat { path: path.into(), wanted: "certificate", cause };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = chain.map_err(|error| not_that(error.to_string()))?;
    if chain.is_empty() {
        Err(not_that("it has no PEM section of one".to_owned()))
    } else {
        Ok(chain)
    }
}

fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| TlsError::NotThat {
        path: path.into(),
        wanted: "private key",
        cause: error.to_string(),
    })
}

fn roots(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in chain(path, pem)? {
        roots.add(authority).map_err(|error| TlsError::NotThat {
            path: path.into(),
            wanted: "authority",
            cause: error.to_string(),
        })?;
    }
    Ok(roots)
}

fn own(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Certificate, TlsError> {
    let first = chain.first().expect("a chain that was read has a first");
    Certificate::of_der(first).map_err(|cause| TlsError::NotThat {
        path: path.into(),
        wanted: "certificate of Narad",
        cause,
    })
}

/// Takes any certificate that an authority has signed for a server, under whatever host it was found:
/// who it is, is checked by name afterwards.
#[derive(Debug)]
struct AnyHost {
    roots: Arc<RootCertStore>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
