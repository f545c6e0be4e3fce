//! A way to a server that can lose answers, or be cut.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of bytes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Open,
    /// What the server says is lost.
    Mute,
    /// Nothing goes through, and nobody connects.
    Cut,
}

/// Stands between clients and one server. Whatever has lost bytes is closed when the way changes.
pub(crate) struct Proxy {
    port: u16,
    way: Arc<watch::Sender<Way>>,
    listening: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = Arc::new(watch::Sender::new(Way::Open));
        let ways = Arc::clone(&way);
        let listening = tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { return };
                let way = ways.subscribe();
                if *way.borrow() != Way::Cut {
                    // How a connection ends is what the tests are about.
                    tokio::spawn(async move { drop(carry(client, server, way).await) });
                }
            }
        });
        Self { port, way, listening }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Loses whatever the server says from here on.
    pub(crate) fn mute(&self) {
        self.way.send_replace(Way::Mute);
    }

    /// Closes every connection, and takes no more.
    pub(crate) fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }

    /// Is as it was in the beginning.
    pub(crate) fn heal(&self) {
        self.way.send_replace(Way::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Carries bytes of one connection both ways.
async fn carry(
    mut client: TcpStream,
    server: u16,
    mut way: watch::Receiver<Way>,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", server)).await?;
    let (mut asked, mut said) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let now = *way.borrow_and_update();
        tokio::select! {
            // What has happened so far is carried under the way that it happened on.
            biased;
            changed = way.changed() => {
                let after = *way.borrow();
                if changed.is_err() || after == Way::Cut || now == Way::Mute {
                    return Ok(());
                }
            }
            length = client.read(&mut asked) => match length? {
                0 => return Ok(()),
                length => server.write_all(&asked[..length]).await?,
            },
            length = server.read(&mut said) => match length? {
                0 => return Ok(()),
                length if now == Way::Open => client.write_all(&said[..length]).await?,
                _ => {}
            },
        }
    }
}
