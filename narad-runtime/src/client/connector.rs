//! How a connection to a node begins.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use axum::http::uri::Scheme;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tower_service::Service;

use crate::net::stream::Stream;
use crate::tls::ClientTls;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Dials nodes, under TLS where the address says so.
#[derive(Clone)]
pub(super) struct Connector {
    http: HttpConnector,
    tls: Option<ClientTls>,
    limit: Duration,
}

/// Why nodes that speak TLS cannot be asked.
#[derive(Debug, thiserror::Error)]
#[error("https needs the authority that signed the nodes' certificates: --certs or --ca")]
pub(super) struct NoAuthority;

impl Connector {
    pub(super) fn new(limit: Duration, tls: Option<ClientTls>) -> Self {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(limit));
        http.set_nodelay(true);
        http.enforce_http(false);
        Self { http, tls, limit }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
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
        let dialled = self.http.call(uri);
        Box::pin(async move {
            let stream = dialled.await?.into_inner();
            if !is_secret {
                return Ok(TokioIo::new(Stream::Plain(stream)));
            }
            let tls = tls.ok_or(NoAuthority)?;
            let host = ServerName::try_from(bare)?;
            let secured = tokio::time::timeout(limit, tls.dial(host, stream)).await??;
            Ok(TokioIo::new(Stream::Secret(Box::new(secured))))
        })
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
