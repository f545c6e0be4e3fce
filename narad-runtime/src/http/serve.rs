//! Serving the API on a socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::role::Peer;
use super::secure::{self, Met};
use crate::tls::Tls;

/// What a listener takes from its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Most connections at once; further ones wait in the kernel's queue. Default 1,024.
    pub connections_max: u32,
    /// How long a client may take until a request's head is here, which also ends connections that
    /// nobody uses. Default 15 s; clients should let go of theirs earlier.
    pub head_timeout: Duration,
    /// How long requests under way may take when the node stops. Default 10 s.
    pub shutdown_timeout: Duration,
    /// The node's certificate; with it, every connection is under TLS. Default none.
    pub tls: Option<Tls>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            head_timeout: Duration::from_secs(15),
            shutdown_timeout: Duration::from_secs(10),
            tls: None,
        }
    }
}

/// Serves HTTP/1.1 until `shutdown` resolves, then lets requests under way come to their end.
///
/// Garbage on the port costs the connection it came on, and no other one.
///
/// # Errors
///
/// If the listener is not usable at all. A full table of open files is not such a case: accepting
/// goes on as soon as there is room.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections: Connections,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    /// Pause after a failed accept, which would fail again at once while files are short.
    const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
    listener.local_addr()?;
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(connections.head_timeout);
    let slots = Arc::new(Semaphore::new(connections.connections_max as usize));
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let slot = slots.clone().acquire_owned();
        let accepted = async {
            let slot = slot.await.expect("the semaphore is never closed");
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Small answers leave at once; a failure only costs time.
        let _ = stream.set_nodelay(true);
        let (builder, watcher) = (builder.clone(), graceful.watcher());
        let (router, tls, limit) =
            (router.clone(), connections.tls.clone(), connections.head_timeout);
        tokio::spawn(async move {
            let Met { stream, peer: told } =
                match secure::meet(tls.as_ref(), stream, peer, limit).await {
                    Ok(met) => met,
                    Err(error) => {
                        tracing::debug!(%peer, %error, "a connection was refused");
                        return;
                    }
                };
            let told = Told { inner: router, peer: told, secret: tls.is_some() };
            let service = TowerToHyperService::new(told);
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(%peer, error = %error, "a connection ended early");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(connections.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the time to stop ran out");
    }
    Ok(())
}

/// A service that is told who asks.
#[derive(Clone)]
struct Told<S> {
    inner: S,
    peer: Peer,
    secret: bool,
}

impl<S, B, R> Service<Request<B>> for Told<S>
where
    S: Service<Request<B>, Response = axum::http::Response<R>>,
    S::Future: Send + 'static,
    R: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        let (answer, secret) = (self.inner.call(request), self.secret);
        Box::pin(async move {
            let mut answer = answer.await?;
            if secret {
                secure::point_to_https(answer.headers_mut());
            }
            Ok(answer)
        })
    }
}
