//! What is answered to what is no request, in the one shape of an error.
//!
//! Bytes that are no HTTP/1.1, an address or headers that are too long: the HTTP library refuses them by
//! itself, before any handler is asked, with a status and nothing else. Those answers pass through
//! here, and get the body that every other error has.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::error::ErrorBody;

/// How long whoever was refused may go on sending: a connection that is closed with unread bytes takes
/// the answer along.
const LINGER: Duration = Duration::from_secs(1);

/// More than a refusal without a body has, in bytes.
const BARE_BYTES_MAX: usize = 1024;

/// A connection whose bare refusals get a body.
#[derive(Debug)]
pub(super) struct Spoken<S> {
    inner: S,
    /// A refusal that is on its way out.
    unsent: BytesMut,
    /// Whether something was taken in part: what comes next is the rest of it, whatever it looks like.
    is_cut: bool,
    /// Until when the rest of what was refused is read, once it was.
    linger: Option<Pin<Box<Sleep>>>,
}

impl<S> Spoken<S> {
    pub(super) fn over(inner: S) -> Self {
        Self { inner, unsent: BytesMut::new(), is_cut: false, linger: None }
    }
}

/// Returns the same refusal with a body, if these bytes are one without. Ours have always one.
fn with_body(bytes: &[u8]) -> Option<Vec<u8>> {
    let is_short = bytes.len() <= BARE_BYTES_MAX;
    if !is_short || !bytes.starts_with(b"HTTP/1.1 4") || !bytes.ends_with(b"\r\n\r\n") {
        return None;
    }
    let head = std::str::from_utf8(bytes).ok()?;
    let is_bare = |line: &str| line.eq_ignore_ascii_case("content-length: 0");
    if !head.lines().any(is_bare) {
        return None;
    }
    let status = head.get(9..12)?;
    let (error, code) = match status {
        "400" => (
            "this is no request of HTTP/1.1: look at its first line and its headers",
            "bad_request",
        ),
        "414" => ("the address is too long: put what is long into the body", "too_large"),
        "431" => ("the headers are too long, or too many: send fewer", "too_large"),
        _ => return None,
    };
    let body = ErrorBody { error: error.to_owned(), code: code.to_owned(), ..ErrorBody::default() };
    let body = serde_json::to_string(&body).expect("an error has text keys only");
    let mut out: String = head.lines().next()?.to_owned() + "\r\n";
    for line in head.lines().skip(1).filter(|line| !line.is_empty() && !is_bare(line)) {
        out = out + line + "\r\n";
    }
    let length = body.len();
    let ending =
        format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    out.push_str(&ending);
    Some(out.into_bytes())
}

impl<S: AsyncWrite + Unpin> Spoken<S> {
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> Spoken<S> {
    /// Reads what is still sent by whoever was refused, until it ends or for a moment.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(linger) = &mut self.linger else { return Poll::Ready(()) };
        let mut scrap = [0; 4096];
        loop {
            if linger.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut rest = ReadBuf::new(&mut scrap);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut rest)) {
                Ok(()) if !rest.filled().is_empty() => {}
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Spoken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Spoken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(cx))?;
        let refusal = if self.is_cut { None } else { with_body(bytes) };
        let Some(refusal) = refusal else {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
            self.is_cut = sent < bytes.len();
            return Poll::Ready(Ok(sent));
        };
        self.unsent = refusal.as_slice().into();
        self.linger = Some(Box::pin(sleep_until(Instant::now() + LINGER)));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(cx))?;
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        self.poll_rest(cx).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken in part goes on as it is, though its rest looks like a refusal.
    #[tokio::test]
    async fn the_rest_of_an_answer_is_no_refusal() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let looks = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut spoken = Spoken::over(ours);
        let first = spoken.write(&[b"0123456789abcdef".as_slice(), looks].concat()).await;
        assert_eq!(first.expect("room"), 16);
        let (rest, heard) = tokio::join!(spoken.write_all(looks), async {
            let mut heard = vec![0; 16 + looks.len()];
            theirs.read_exact(&mut heard).await.map(|_| heard)
        });
        rest.expect("read");
        assert_eq!(heard.expect("sent"), [b"0123456789abcdef".as_slice(), looks].concat());
    }

    #[test]
    fn only_a_bare_refusal_gets_a_body() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\
            content-length: 0\r\ndate: now\r\n\r\n";
        let spoken = String::from_utf8(with_body(bare).expect("it is bare")).expect("text");
        let (head, body) = spoken.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 431 ") && head.contains("\r\nconnection: close\r\n"));
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let body: ErrorBody = serde_json::from_str(body).expect("an error");
        assert_eq!((body.code.as_str(), body.retryable), ("too_large", false));
        for other in [
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 9\r\n\r\n{\"a\": 1}\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "content-length: 0\r\n\r\n",
        ] {
            assert_eq!(with_body(other.as_bytes()), None, "{other}");
        }
    }
}
