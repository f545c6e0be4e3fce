//! The least of HTTP that a test needs: one request, one connection, one answer. It names the node
//! that answered, which a client that finds its way by itself does not.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: serde_json::Value,
}

/// Asks a node that listens on a port of loopback; `None` if there is no answer.
pub(crate) async fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<Answer> {
    let asked = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: n\r\nconnection: close\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        parse(&answer)
    };
    tokio::time::timeout(TIMEOUT, asked).await.ok().flatten()
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = serde_json::from_str(body).unwrap_or(serde_json::Value::Null);
    Some(Answer { status, body })
}
