//! What a node has said of this side's certificate.
//!
//! With TLS 1.3 a client has shaken hands before the node has looked at its certificate. A refusal comes
//! as the first thing that is read, and where that is before the request was handed to the connection,
//! all that the request learns is that the connection is gone.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::net::stream::Stream;
use crate::tls::Fault;

/// The last refusals, by the address that was dialled. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<BTreeMap<String, Fault>>>);

impl Refusals {
    /// Returns what the node at an address has said since it was dialled last.
    pub(super) fn of(&self, address: &str) -> Option<Fault> {
        self.lock().get(address).cloned()
    }

    /// An address was dialled: whatever comes is about this connection.
    pub(super) fn dialled(&self, address: &str) {
        self.lock().remove(address);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with this side's certificate, if the other side says so.
pub(super) fn refusal(error: &io::Error) -> Option<Fault> {
    Fault::find(error).filter(Fault::is_refusal)
}

/// A connection to a node that remembers why it was refused.
#[derive(Debug)]
pub(super) struct Heard {
    stream: Stream,
    address: String,
    refusals: Refusals,
}

impl Heard {
    pub(super) fn new(stream: Stream, address: String, refusals: Refusals) -> Self {
        Self { stream, address, refusals }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut Stream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let read = Pin::new(&mut own.stream).poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read
            && let Some(fault) = refusal(error)
        {
            own.refusals.lock().insert(own.address.clone(), fault);
        }
        read
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

impl Connection for Heard {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::path::Path;

    use narad_core::ids::Name;
    use rustls::pki_types::ServerName;
    use rustls::{AlertDescription, CertificateError, Error};
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::tls::authority::{Authority, Validity};
    use crate::tls::{ClientTls, Files, Tls, What, Who};

    fn of(error: Error) -> Option<Fault> {
        refusal(&io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn only_what_is_said_of_this_certificate_is_a_refusal() {
        let told = |what| Some(Fault { is_told: true, what });
        let alert = |alert| of(Error::AlertReceived(alert));
        assert_eq!(alert(AlertDescription::CertificateRequired), told(What::NoCertificate));
        assert_eq!(alert(AlertDescription::UnknownCA), told(What::UnknownAuthority));
        assert_eq!(alert(AlertDescription::CertificateExpired), told(What::Expired));
        // It ended the connection, and not because of the certificate: a request may have arrived.
        assert_eq!(alert(AlertDescription::InternalError), None);
        // What this side finds is no word of the other one.
        assert_eq!(of(Error::InvalidCertificate(CertificateError::Expired)), None);
        assert_eq!(of(Error::NoCertificatesPresented), None);
        assert_eq!(refusal(&io::ErrorKind::ConnectionReset.into()), None);
    }

    /// Makes the files of a node that is found on this machine.
    fn files(dir: &Path) -> Files {
        let name = |text| Name::new(text).expect("a name");
        let authority = Authority::create(&name("c"), Validity::days(2)).expect("made");
        let hosts = [Ipv4Addr::LOCALHOST.to_string()];
        let node = Who::Node(name("n1"));
        let own = authority.issue(&node, "n1", &hosts, Validity::days(1)).expect("issued");
        let write = |file: &str, text: &str| {
            let path = dir.join(file);
            std::fs::write(&path, text).expect("written");
            path
        };
        Files {
            ca: write("ca.pem", &authority.own().cert),
            cert: write("n1.pem", &own.cert),
            key: write("n1.key", &own.key),
        }
    }

    /// The refusal comes as the first thing that is read: the handshake stood on this side.
    #[tokio::test]
    async fn a_refusal_is_remembered_until_the_address_is_dialled_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path());
        let bare = ClientTls::open(&files.ca, None).expect("an authority");
        let node = Tls::open_with(files, true).expect("a node's files");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let at = listener.local_addr().expect("an address");

        let accepts = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            node.accept_client(stream).await.map(|_| ())
        };
        let dials = async {
            let stream = TcpStream::connect(at).await.expect("a connection");
            let host = ServerName::from(at.ip());
            bare.dial(host, stream).await.expect("the node's certificate is good")
        };
        let (accepted, secured) = tokio::join!(accepts, dials);
        let found = accepted.expect_err("it shows no certificate");
        assert_eq!(found.what, What::NoCertificate);

        let (refusals, address) = (Refusals::default(), at.to_string());
        let stream = Stream::Secret(Box::new(secured));
        let mut heard = Heard::new(stream, address.clone(), refusals.clone());
        assert_eq!(refusals.of(&address), None, "nothing has been read");
        heard.read_u8().await.expect_err("refused");
        let told = Fault { is_told: true, what: What::NoCertificate };
        assert_eq!(refusals.of(&address), Some(told));
        assert_eq!(refusals.of("127.0.0.1:1"), None, "another node has said nothing");
        refusals.dialled("127.0.0.1:1");
        assert!(refusals.of(&address).is_some(), "another connection changes nothing");
        refusals.dialled(&address);
        assert_eq!(refusals.of(&address), None, "it is about the connection before");
    }
}
