//! Mutual TLS: who may talk to a node, and how both sides know who the other one is.
//!
//! # Purpose
//!
//! One certificate authority per cluster signs a certificate for every node and, where wanted, for
//! people and programs. What a certificate says about its holder stands in one URI of its subject
//! alternative names, so that no certificate can be taken for another:
//!
//! ```text
//! narad://CLUSTER/node/NAME            a node: may be dialled, and may dial other nodes
//! narad://CLUSTER/role/ROLE            a client: read, write or admin
//! ```
//!
//! `narad cert` makes all of them; any other authority that puts such a URI in will do as well.
//!
//! # What is checked where
//!
//! ```text
//! TLS handshake     the authority has signed it, it is valid today, its key is held (both ways)
//! greeting          the cluster is this one, it is a node's, and it has the name of the id that is claimed
//! join request      the name that is asked for is the certificate's
//! HTTP              the host (by the client), the cluster and the role (by the server)
//! ```
//!
//! # Invariants
//!
//! 1. Nothing of a peer is read before its certificate is checked, and nothing is answered but why.
//! 2. No session is resumed: every connection shows its certificate, and an expired or replaced one
//!    opens no further connection.
//! 3. Files that cannot be used never replace what is in use: see [`Tls::reload`].
//!
//! # After a restart
//!
//! Nothing is kept; the files are read again.

#[cfg(feature = "cli")]
pub mod authority;
mod certificate;
mod fault;
mod material;
mod session;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

pub use certificate::{Certificate, Subject, SubjectError, Who};
pub use fault::{Fault, What};
use material::Material;
pub use material::TlsError;
pub use session::Session;
pub use watch::watch;

/// Where a node's certificate, its key and its authority are: PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The authorities that are trusted; several while one replaces another.
    pub ca: PathBuf,
    /// The certificate, and what stands between it and the authority, if anything does.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A node's certificate and what it accepts from others. Clones share it, and all of them see a
/// [`reload`](Self::reload).
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    files: Files,
    present: RwLock<Arc<Material>>,
    /// Whether clients of the API must show a certificate.
    requires_client_certificate: bool,
}

impl Tls {
    /// Reads a node's files.
    ///
    /// # Errors
    ///
    /// See [`TlsError`]: each says which file, and what to do.
    pub fn open(files: Files) -> Result<Self, TlsError> {
        Self::open_with(files, false)
    }

    /// As [`open`](Self::open); if asked to, has every client of the API show a certificate.
    ///
    /// # Errors
    ///
    /// See [`TlsError`].
    pub fn open_with(files: Files, requires_client_certificate: bool) -> Result<Self, TlsError> {
        let material = Material::read(&files, requires_client_certificate)?;
        let present = RwLock::new(Arc::new(material));
        Ok(Self { shared: Arc::new(Shared { files, present, requires_client_certificate }) })
    }

    /// Reads the files again, and uses what they hold for every connection from now on. Those that
    /// stand go on. Returns false if the files are as they were.
    ///
    /// # Errors
    ///
    /// See [`TlsError`]; what was used before is used further.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let Shared { files, present, requires_client_certificate } = &*self.shared;
        let old = self.present();
        let new = Material::read(files, *requires_client_certificate)?;
        if new.bytes == old.bytes {
            return Ok(false);
        }
        if new.own.subject != old.own.subject {
            let (old, new) = (Box::new(old.own.subject.clone()), Box::new(new.own.subject));
            return Err(TlsError::OtherSubject { path: files.cert.clone(), old, new });
        }
        *present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        Ok(true)
    }

    /// Returns the node's certificate, as it is used now.
    pub fn certificate(&self) -> Certificate {
        self.present().own.clone()
    }

    /// Returns where the files are.
    pub fn files(&self) -> &Files {
        &self.shared.files
    }

    fn present(&self) -> Arc<Material> {
        Arc::clone(&self.shared.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets a node in that dials this one.
    pub(crate) async fn accept_peer(&self, stream: TcpStream) -> Result<Secured, Fault> {
        accept(&self.present().accept_peer, stream).await
    }

    /// Lets a client of the API in.
    #[cfg(feature = "http")]
    pub(crate) async fn accept_client(&self, stream: TcpStream) -> Result<Secured, Fault> {
        accept(&self.present().accept_client, stream).await
    }

    /// Shows this node's certificate to a node that was dialled.
    pub(crate) async fn dial_peer(&self, stream: TcpStream) -> Result<Secured, Fault> {
        dial(&self.present().dial, ServerName::from(NOBODY), stream).await
    }

    /// How a blocking connection to a node begins.
    pub(crate) fn dial_session(&self) -> Result<Session, Fault> {
        let config = Arc::clone(&self.present().dial);
        Session::dial(config, ServerName::from(NOBODY)).map_err(|error| Fault::of(&error))
    }

    /// How this node asks other nodes over HTTP, as a node.
    #[cfg(feature = "http")]
    fn client_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.present().dial_http)
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.shared.files).finish_non_exhaustive()
    }
}

/// What a client of the API shows and trusts. Unlike nodes, it goes by the host that it asked for.
#[derive(Clone)]
pub struct ClientTls {
    config: Way,
}

#[derive(Clone)]
enum Way {
    Fixed(Arc<ClientConfig>),
    /// As a node, with whatever its files hold at the time.
    Node(Tls),
}

impl ClientTls {
    /// Reads the authority that signed the nodes' certificates and, if there are any, the client's own
    /// certificate and its key; all of them PEM.
    ///
    /// # Errors
    ///
    /// See [`TlsError`].
    pub fn open(
        ca: &std::path::Path,
        identity: Option<(&std::path::Path, &std::path::Path)>,
    ) -> Result<Self, TlsError> {
        Ok(Self { config: Way::Fixed(material::client(ca, identity)?) })
    }

    /// How a node asks other nodes: it takes any node of its cluster, wherever it is.
    pub fn of_node(tls: &Tls) -> Self {
        Self { config: Way::Node(tls.clone()) }
    }

    #[cfg(feature = "http")]
    pub(crate) async fn dial(
        &self,
        host: ServerName<'static>,
        stream: TcpStream,
    ) -> Result<Secured, Fault> {
        match &self.config {
            Way::Fixed(config) => dial(config, host, stream).await,
            Way::Node(tls) => {
                let secured = dial(&tls.client_config(), host, stream).await?;
                tls.certificate().subject.admits_node(&secured.subject()?).map(|_| secured)
            }
        }
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        match (&self.config, &other.config) {
            (Way::Fixed(one), Way::Fixed(other)) => Arc::ptr_eq(one, other),
            (Way::Node(one), Way::Node(other)) => one == other,
            (Way::Fixed(_), Way::Node(_)) | (Way::Node(_), Way::Fixed(_)) => false,
        }
    }
}

impl Eq for ClientTls {}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// The host that a node is asked for: nodes are told apart by their names, not by where they are.
const NOBODY: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

/// How often certificate files are looked at by default.
pub const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// A connection after its TLS handshake.
#[derive(Debug)]
pub(crate) struct Secured(pub(crate) tokio_rustls::TlsStream<TcpStream>);

impl Secured {
    /// Returns what the other side's certificate says.
    pub(crate) fn subject(&self) -> Result<Subject, Fault> {
        let (_, connection) = self.0.get_ref();
        fault::subject_of(connection.peer_certificates())
    }

    /// Returns what people call the other side, if its certificate says it.
    #[cfg(feature = "http")]
    pub(crate) fn called(&self) -> Option<String> {
        let (_, connection) = self.0.get_ref();
        let first = connection.peer_certificates()?.first()?;
        Certificate::of_der(first).ok()?.called
    }

    /// Goes on as a blocking connection.
    pub(crate) fn into_session(self) -> (TcpStream, Session) {
        match self.0 {
            tokio_rustls::TlsStream::Client(stream) => {
                let (stream, connection) = stream.into_inner();
                (stream, Session::over(connection.into()))
            }
            tokio_rustls::TlsStream::Server(stream) => {
                let (stream, connection) = stream.into_inner();
                (stream, Session::over(connection.into()))
            }
        }
    }

    /// Whether the other side has shown any.
    #[cfg(feature = "http")]
    pub(crate) fn has_certificate(&self) -> bool {
        let (_, connection) = self.0.get_ref();
        connection.peer_certificates().is_some_and(|chain| !chain.is_empty())
    }
}

async fn accept(config: &Arc<ServerConfig>, stream: TcpStream) -> Result<Secured, Fault> {
    let accepted = TlsAcceptor::from(Arc::clone(config)).accept(stream).await;
    accepted.map(|stream| Secured(stream.into())).map_err(|error| Fault::of_io(&error))
}

async fn dial(
    config: &Arc<ClientConfig>,
    host: ServerName<'static>,
    stream: TcpStream,
) -> Result<Secured, Fault> {
    let dialled = TlsConnector::from(Arc::clone(config)).connect(host, stream).await;
    dialled.map(|stream| Secured(stream.into())).map_err(|error| Fault::of_io(&error))
}
