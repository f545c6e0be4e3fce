//! Serving the API on a socket.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Version, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{ServiceExt, service_fn};

use super::error::ApiError;
use super::role::Peer;
use super::seats::{Seat, Seats};
use super::secure::{self, Met, NotMet};
use super::spoken::Spoken;
use crate::net::Tally;
use crate::net::strangers::Refusals;
use crate::service::ServiceError;
use crate::tls::Tls;

/// What a listener takes from its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Most connections at once. Default 1,024. A further one takes the place of the one that has
    /// been without a request for longest; while all have one, a few more are let in that serve
    /// probes and operators, and others wait in the kernel's queue.
    pub connections_max: u32,
    /// Most of them that one address may have. Default 1,024, as many as there are: clients may all
    /// be behind one proxy. A further one takes the place of one of the same address.
    pub connections_per_address_max: u32,
    /// How long a client may take until a request's head is here, which also ends connections that
    /// nobody uses. Default 15 s; clients should let go of theirs earlier.
    pub head_timeout: Duration,
    /// How long requests under way may take when the node stops. Default 10 s.
    pub shutdown_timeout: Duration,
    /// The node's certificate; with it, every connection is under TLS. Default none.
    pub tls: Option<Tls>,
    /// Where refused connections are counted. Default one of its own.
    pub refused: Tally,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_address_max: 1024,
            head_timeout: Duration::from_secs(15),
            shutdown_timeout: Duration::from_secs(10),
            tls: None,
            refused: Tally::default(),
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
    let seats = Seats::new(connections.connections_max, connections.connections_per_address_max);
    let refusals = Arc::new(Refusals::on("http", connections.refused.clone()));
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let seat = tokio::select! {
            () = &mut shutdown => break,
            seat = seats.take(address.ip()) => Arc::new(seat),
        };
        // Small answers leave at once; a failure only costs time.
        let _ = stream.set_nodelay(true);
        let out = seat.out();
        let (builder, watcher, router) = (builder.clone(), graceful.watcher(), router.clone());
        let (tls, limit) = (connections.tls.clone(), connections.head_timeout);
        let (refusals, crowded) = (Arc::clone(&refusals), Arc::clone(&refusals));
        let served = async move {
            let met = secure::meet(tls.as_ref(), stream, address, limit).await;
            match &met {
                Err(NotMet::Fault(fault)) => refusals.tell(address, fault),
                Err(NotMet::TimedOut) => refusals.count("slow"),
                Err(NotMet::Io(_)) => refusals.count("ended"),
                Ok(_) => {}
            }
            let Met { stream, peer } = met?;
            let service = TowerToHyperService::new(service_fn(answers(router, peer, seat)));
            let connection =
                builder.serve_connection(TokioIo::new(Spoken::over(stream)), service).into_owned();
            watcher.watch(connection).await
        };
        let out = async move {
            out.await;
            crowded.count("crowded");
        };
        tokio::spawn(finish(served, out, address));
    }
    drop(listener);
    if tokio::time::timeout(connections.shutdown_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the time to stop ran out");
    }
    Ok(())
}

/// Serves one connection until it ends, or somebody else needs its place more.
async fn finish(
    connection: impl Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>>,
    out: impl Future<Output = ()>,
    peer: SocketAddr,
) {
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended early");
        },
        () = out => tracing::debug!(%peer, "an idle connection made room for another one"),
    }
}

/// A request that is being answered.
type Answering = std::pin::Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// Returns what answers the requests of one connection.
fn answers<B>(
    router: Router,
    peer: Peer,
    seat: Arc<Seat>,
) -> impl Fn(Request<B>) -> Answering + Clone
where
    B: axum::body::HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    move |request: Request<B>| {
        let busy = seat.busy();
        let mut request = request.map(axum::body::Body::new);
        let peer = peer.clone();
        let (router, spare) = (router.clone(), seat.is_spare());
        Box::pin(async move {
            let _busy = busy;
            if spare && !serves_in_spare(request.uri().path()) {
                return Ok(full());
            }
            if !names_its_host(&request) {
                let error = "a request of HTTP/1.1 has exactly one Host header (RFC 9112, 3.2)";
                return Ok(ApiError::bad_request(error).into_response());
            }
            let is_encrypted = peer.encrypted;
            request.extensions_mut().insert(peer);
            let mut response = router.oneshot(request).await?;
            if is_encrypted {
                secure::point_to_https(response.headers_mut());
            }
            Ok(response)
        })
    }
}

/// Whether a request says once whom it is meant for, as its version of HTTP demands.
fn names_its_host<B>(request: &Request<B>) -> bool {
    let named = request.headers().get_all(header::HOST).iter().count();
    named == 1 || (request.version() != Version::HTTP_11 && named == 0)
}

/// Whether something is served while every ordinary place is taken.
fn serves_in_spare(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics" | "/v1/node")
        || path.starts_with("/v1/cluster/")
}

/// Says that there is no room for a client.
fn full() -> Response {
    let mut response = ApiError::from(ServiceError::Busy).into_response();
    let close = axum::http::HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}
