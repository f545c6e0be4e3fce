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
