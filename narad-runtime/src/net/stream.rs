//! A connection between nodes, or with a client: as it is, or under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use super::socket::{OwnedReadHalf, OwnedWriteHalf, TcpStream};
use crate::tls::{Fault, Secured, Subject};

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secret(Box<Secured>),
}

/// The reading half of one.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    Plain(OwnedReadHalf),
    Secret(tokio::io::ReadHalf<TlsStream<TcpStream>>),
}

/// The writing half of one.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    Plain(OwnedWriteHalf),
    Secret(tokio::io::WriteHalf<TlsStream<TcpStream>>),
}

impl Stream {
    /// Returns what the other side's certificate says; `None` without TLS.
    pub(crate) fn subject(&self) -> Result<Option<Subject>, Fault> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Secret(secured) => secured.subject().map(Some),
        }
    }

    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Plain(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Plain(read), WriteHalf::Plain(write))
            }
            Self::Secret(secured) => {
                let (read, write) = tokio::io::split(secured.0);
                (ReadHalf::Secret(read), WriteHalf::Secret(write))
            }
        }
    }
}

impl WriteHalf {
    /// Writes what can be written without waiting, if that can be known: under TLS, what the system
    /// takes is not what was given.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.try_write(bytes),
            Self::Secret(_) => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// A peer that dies says no farewell, with TLS or without: what counts is whether a frame was whole.
fn end_without_farewell(read: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
    match read {
        Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Poll::Ready(Ok(()))
        }
        other => other,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Secret(secured) => {
                end_without_farewell(Pin::new(&mut secured.0).poll_read(cx, buf))
            }
        }
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_read(cx, buf),
            Self::Secret(half) => end_without_farewell(Pin::new(half).poll_read(cx, buf)),
        }
    }
}

macro_rules! writes {
    ($kind:ident, $secret:ident => $inner:expr) => {
        impl AsyncWrite for $kind {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
                    Self::Secret($secret) => Pin::new($inner).poll_write(cx, bytes),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
                    Self::Secret($secret) => Pin::new($inner).poll_flush(cx),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
                    Self::Secret($secret) => Pin::new($inner).poll_shutdown(cx),
                }
            }
        }
    };
}

writes!(Stream, secured => &mut secured.0);
writes!(WriteHalf, half => half);
