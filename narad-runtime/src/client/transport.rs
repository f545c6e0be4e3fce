//! One request to one node.

use std::time::Duration;

use axum::http::{self, HeaderValue, Method, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connector::{Connector, address};
use super::told::{self, Refusals};
use super::{ClientError, Endpoint};
use crate::http::{ErrorBody, Secret};
use crate::tls::{ClientTls, Fault};

/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How long a connection is kept for the next request: shorter than nodes keep it, as a request that
/// meets its end has no known outcome.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// Connections to nodes.
pub(super) struct Transport {
    hyper: HyperClient<Connector, Full<Bytes>>,
    scheme: &'static str,
    refusals: Refusals,
    /// Who is asking, as nodes are told.
    authorization: Option<HeaderValue>,
}

/// What is asked, of whomever.
#[derive(Clone)]
pub(super) struct Request {
    method: Method,
    path_and_query: String,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
}

/// What a node answered, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) endpoint: Endpoint,
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum CallError {
    /// Nobody can have seen the request.
    NotSent(String),
    /// Somebody may have seen it.
    Unanswered(String),
}

impl Request {
    pub(super) fn new(method: Method, path_and_query: &str) -> Self {
        Self {
            method,
            path_and_query: path_and_query.into(),
            accept: "application/json",
            content_type: "application/json",
            body: Bytes::new(),
        }
    }

    pub(super) fn json(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    pub(super) fn batch(mut self, body: Bytes) -> Self {
        self.content_type = crate::http::batch::CONTENT_TYPE;
        self.body = body;
        self
    }

    pub(super) fn accept_batch(mut self) -> Self {
        self.accept = crate::http::batch::CONTENT_TYPE;
        self
    }
}

impl Transport {
    pub(super) fn new(
        connect_timeout: Duration,
        tls: Option<&ClientTls>,
        is_secret: bool,
        token: Option<&Secret>,
    ) -> Self {
        let scheme = if is_secret || tls.is_some() { "https" } else { "http" };
        let refusals = Refusals::default();
        let connector = Connector::new(connect_timeout, tls.cloned(), refusals.clone());
        let hyper = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(16)
            .build(connector);
        let authorization = token.map(|token| {
            let bearer = format!("Bearer {}", token.reveal());
            let mut value = HeaderValue::try_from(bearer).expect("a token fits into a header");
            value.set_sensitive(true);
            value
        });
        Self { hyper, scheme, refusals, authorization }
    }

    /// Asks one node, once.
    pub(super) async fn call(
        &self,
        endpoint: &Endpoint,
        request: &Request,
        timeout: Duration,
    ) -> Result<Answer, CallError> {
        let mut built = http::Request::builder()
            .method(request.method.clone())
            .uri(endpoint.url(self.scheme, &request.path_and_query))
            .header(header::ACCEPT, request.accept);
        if let Some(authorization) = &self.authorization {
            built = built.header(header::AUTHORIZATION, authorization);
        }
        if !request.body.is_empty() {
            built = built.header(header::CONTENT_TYPE, request.content_type);
        }
        let built = built
            .body(Full::new(request.body.clone()))
            .map_err(|error| CallError::NotSent(error.to_string()))?;
        let dialled = address(built.uri());
        let exchange = async {
            let response = self.hyper.request(built).await.map_err(|error| {
                // A node that refuses a client's certificate has not looked at the request.
                if let Some(fault) = refusal(&error).or_else(|| self.refusals.of(&dialled)) {
                    return CallError::NotSent(fault.to_string());
                }
                let cause = innermost(&error);
                if error.is_connect() {
                    CallError::NotSent(cause)
                } else {
                    CallError::Unanswered(cause)
                }
            })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| CallError::Unanswered(error.to_string()))?.to_bytes();
            Ok(Answer { endpoint: endpoint.clone(), status, body })
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(CallError::Unanswered(format!("no answer in {timeout:?}"))))
    }
}

impl Answer {
    /// Tells a result from a refusal.
    pub(super) fn into_result(self) -> Result<Self, ClientError> {
        if self.status.is_success() {
            return Ok(self);
        }
        match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(body) => Err(ClientError::Refused {
                endpoint: self.endpoint,
                status: self.status.as_u16(),
                body: Box::new(body),
            }),
            Err(_) => Err(ClientError::BadAnswer {
                endpoint: self.endpoint,
                cause: format!("status {}", self.status),
            }),
        }
    }
}

/// What is wrong with this side's certificate, if the other side says that something is.
fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<Fault> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref().and_then(told::refusal) {
            return Some(fault);
        }
        next = error.source();
    }
    None
}

/// The last cause of an error: what the system said.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
