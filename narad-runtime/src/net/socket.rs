//! The one place that names the sockets, so that a simulated network can stand in for them.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::net::sockopt;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

pub(crate) use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
pub(crate) use tokio::net::{TcpListener, TcpStream};

/// Silence after which the kernel asks whether the peer is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Between two such questions, of which four may go unanswered.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Dials an address; a host name is resolved anew each time.
pub(crate) async fn dial(address: &str, limit: Duration) -> io::Result<TcpStream> {
    timeout(limit, TcpStream::connect(address)).await.map_err(|_| timed_out())?
}

/// Sets what every connection between nodes has: no delay for small frames, and an end if the peer
/// has silently vanished.
pub(crate) fn tune(stream: impl rustix::fd::AsFd, stall: Duration) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&stream, true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&stream, 4)?;
    let stall_ms = u32::try_from(stall.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&stream, stall_ms)?;
    Ok(())
}

/// Writes all bytes; fails only if not one of them is taken for as long as `stall`, however long
/// the whole takes (field fault 17).
pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    bytes: &mut BytesMut,
    stall: Duration,
) -> io::Result<()> {
    while bytes.has_remaining() {
        let written = timeout(stall, writer.write_buf(bytes)).await.map_err(|_| timed_out())??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    // Under TLS, the last bytes may wait in this process.
    timeout(stall, writer.flush()).await.map_err(|_| timed_out())?
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}
