//! How a connection to a node begins.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use axum::http::uri::Scheme;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tower_service::Service;

use super::told::{Heard, Refusals};
use crate::net::stream::Stream;
use crate::tls::ClientTls;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Dials nodes, under TLS where the address says so.
#[derive(Clone)]
pub(super) struct Connector {
    http: HttpConnector,
    tls: Option<ClientTls>,
    limit: Duration,
    refusals: Refusals,
}

/// Why nodes that speak TLS cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("https needs the authority that signed the nodes' certificates: --certs or --ca")]
pub(super) struct NoAuthority;

impl Connector {
    pub(super) fn new(limit: Duration, tls: Option<ClientTls>, refusals: Refusals) -> Self {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(limit));
        http.set_nodelay(true);
        http.enforce_http(false);
        Self { http, tls, limit, refusals }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Heard>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failed>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.http.poll_ready(cx).map_err(Failed::from)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, limit) = (self.tls.clone(), self.limit);
        let is_secret = uri.scheme() == Some(&Scheme::HTTPS);
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = address(&uri);
        let refusals = self.refusals.clone();
        let dialled = self.http.call(uri);
        Box::pin(async move {
            let stream = dialled.await?.into_inner();
            refusals.dialled(&address);
            if !is_secret {
                return Ok(TokioIo::new(Heard::new(Stream::Plain(stream), address, refusals)));
            }
            let tls = tls.ok_or(NoAuthority)?;
            let host = ServerName::try_from(bare)?;
            let secured = tokio::time::timeout(limit, tls.dial(host, stream)).await??;
            let stream = Stream::Secret(Box::new(secured));
            Ok(TokioIo::new(Heard::new(stream, address, refusals)))
        })
    }
}

/// What is dialled for a URI.
pub(super) fn address(uri: &Uri) -> String {
    uri.authority().map(ToString::to_string).unwrap_or_default()
}
