//! The one shape of an error.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use narad_core::ids::Offset;
use serde::{Deserialize, Serialize};

use super::audit::Named;
use super::messages::PartResult;
use super::role::Role;
use crate::service::ServiceError;

/// The body of every answer that is not a success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What went wrong and what to do next, for people.
    pub error: String,
    /// The same for programs; stable.
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Every reason of a refusal (`blocked`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Where the owner serves HTTP, as `host:port` (`not_owner`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The parts of a batch that were acknowledged before another part failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<PartResult>,
    /// What cannot be read (`damaged_records`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<DamagedBody>,
}

/// Records that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagedBody {
    /// The partition.
    pub partition: u32,
    /// The first of them.
    pub from: Offset,
    /// Offset after the last one.
    pub to: Offset,
}

/// Defines the names of errors that are the API's own.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident => $code:literal,)+) => {
        /// What went wrong before a request has reached the node, or on the way back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Code {
            $($(#[$doc])* $variant,)+
        }

        impl Code {
            const ALL: &[&str] = &[$($code),+];

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }
        }
    };
}

codes! {
    /// The request cannot be understood.
    BadRequest => "bad_request",
    /// It exceeds a limit.
    TooLarge => "too_large",
    /// Its body is of a kind that is not known.
    UnsupportedMediaType => "unsupported_media_type",
    /// Nobody that the node knows is asking.
    Unauthenticated => "unauthenticated",
    /// Whoever is asking may not do that.
    Forbidden => "forbidden",
    /// There is nothing at that path.
    NoSuchRoute => "no_such_route",
    /// The path does not take that method.
    MethodNotAllowed => "method_not_allowed",
    /// The node does not take part in the cluster yet.
    NotReady => "not_ready",
    /// Its body did not come in time.
    RequestTimeout => "request_timeout",
    /// The node takes no part in the cluster any more.
    NotAMember => "not_a_member",
    /// The node did not answer in time.
    Timeout => "timeout",
    /// The node failed.
    Internal => "internal",
}

/// Returns every code that an [`ErrorBody`] may have.
pub fn error_codes() -> impl Iterator<Item = &'static str> {
    Code::ALL.iter().chain(ServiceError::CODES).copied()
}

/// An answer that is not a success.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    body: Box<ErrorBody>,
    location: Option<String>,
    /// How to say who is asking.
    challenge: Option<&'static str>,
    /// When a request that may be repeated is worth repeating.
    retry_after: Duration,
}

impl ApiError {
    /// Says that a path does not take a method.
    pub(super) fn method_not_allowed(method: &Method, uri: &Uri) -> Self {
        let error = format!("{method} is not possible at {}", uri.path());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed, error)
    }

    /// Says that a request cannot be understood.
    pub(super) fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::BadRequest, error)
    }

    /// Says that a role is needed, and nobody that has one is asking.
    pub(super) fn unauthenticated(least: Role) -> Self {
        let error = format!(
            "this takes the role {least}: send a token as Authorization: Bearer TOKEN, or a client \
             certificate if the address speaks TLS"
        );
        let new = Self::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, error);
        Self { challenge: Some("Bearer realm=\"narad\""), ..new }
    }

    /// Says that nobody has that token.
    pub(super) fn bad_token() -> Self {
        let error = "this node knows no such token: its hash has to stand in auth.tokens of the \
                     node's file";
        let new = Self::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, error);
        Self { challenge: Some("Bearer realm=\"narad\", error=\"invalid_token\""), ..new }
    }

    /// Says that whoever is asking may not do that.
    pub(super) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, Code::Forbidden, error)
    }

    pub(super) fn new(status: StatusCode, code: Code, error: impl Into<String>) -> Self {
        Self::named(status, code.name(), error.into())
    }

    fn named(status: StatusCode, code: &str, error: String) -> Self {
        let error = cut(error);
        // What a client may repeat as it is: the node or the cluster is not able to right now.
        let retryable = matches!(
            status,
            StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::INSUFFICIENT_STORAGE
                | StatusCode::REQUEST_TIMEOUT
        );
        let body = ErrorBody { error, code: code.into(), retryable, ..ErrorBody::default() };
        let retry_after = Duration::from_secs(1);
        Self { status, body: Box::new(body), location: None, challenge: None, retry_after }
    }

    /// Points to the same resource at the owner, if the owner is known.
    pub(super) fn at_owner(mut self, path_and_query: &str) -> Self {
        self.location =
            self.body.owner.as_ref().map(|owner| format!("http://{owner}{path_and_query}"));
        self
    }

    /// Says that nothing will change it.
    pub(super) fn for_good(mut self) -> Self {
        self.body.retryable = false;
        self
    }

    /// Adds what was acknowledged before the failure.
    pub(super) fn after(mut self, results: Vec<PartResult>) -> Self {
        self.body.results = results;
        self
    }
}

/// Cuts an error short that repeats something as long as a request may be.
fn cut(mut error: String) -> String {
    /// Most bytes of an error that are sent.
    const ERROR_BYTES_MAX: usize = 2048;
    if error.len() > ERROR_BYTES_MAX {
        error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
        error.push_str(" ..");
    }
    error
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let status = match &error {
            ServiceError::UnknownMember(_)
            | ServiceError::UnknownTopic(_)
            | ServiceError::UnknownPartition { .. }
            | ServiceError::NotInQuarantine(_) => StatusCode::NOT_FOUND,
            ServiceError::Blocked(_)
            | ServiceError::Rejected(_)
            | ServiceError::StaleEpoch
            | ServiceError::Damaged { .. } => StatusCode::CONFLICT,
            ServiceError::Invalid(_) => StatusCode::BAD_REQUEST,
            ServiceError::NotOwner { .. } => StatusCode::MISDIRECTED_REQUEST,
            ServiceError::NoLeader
            | ServiceError::OutcomeUnknown
            | ServiceError::Frozen
            | ServiceError::NoLease
            | ServiceError::NotServing
            | ServiceError::TooManyInFlight { .. }
            | ServiceError::TooFarAhead { .. }
            | ServiceError::Full { .. }
            | ServiceError::Draining
            | ServiceError::NotAccepting(_)
            | ServiceError::Busy
            | ServiceError::Stopped
            | ServiceError::Removed => StatusCode::SERVICE_UNAVAILABLE,
            ServiceError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ServiceError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            ServiceError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut answer = Self::named(status, error.code(), error.to_string());
        match error {
            ServiceError::Blocked(reasons) => answer.body.reasons = reasons,
            ServiceError::NotOwner { owner } => {
                // Worth repeating: at the owner, or here once its name is known.
                answer.body.retryable = true;
                answer.body.owner = owner;
            }
            ServiceError::Full { retry_after } => answer.retry_after = retry_after,
            ServiceError::Damaged { partition, from, to, .. } => {
                answer.body.damaged = Some(DamagedBody { partition, from, to });
            }
            ServiceError::NoLeader
            | ServiceError::UnknownMember(_)
            | ServiceError::UnknownTopic(_)
            | ServiceError::UnknownPartition { .. }
            | ServiceError::NotInQuarantine(_)
            | ServiceError::Rejected(_)
            | ServiceError::Invalid(_)
            | ServiceError::OutcomeUnknown
            | ServiceError::Frozen
            | ServiceError::NoLease
            | ServiceError::NotServing
            | ServiceError::StaleEpoch
            | ServiceError::TooManyInFlight { .. }
            | ServiceError::TooFarAhead { .. }
            | ServiceError::DiskFull
            | ServiceError::Draining
            | ServiceError::NotAccepting(_)
            | ServiceError::TooLarge(_)
            | ServiceError::Busy
            | ServiceError::Stopped
            | ServiceError::Removed
            | ServiceError::Internal(_) => {}
        }
        answer
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let named = Named(self.body.code.clone());
        let mut response = (self.status, axum::Json(self.body)).into_response();
        response.extensions_mut().insert(named);
        let headers = response.headers_mut();
        // Both may work in a moment.
        let waits = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INSUFFICIENT_STORAGE];
        if waits.contains(&self.status) {
            // Whole seconds, and none of them is too early.
            let millis = self.retry_after.as_millis().clamp(1, 3_600_000);
            let seconds = u64::try_from(millis.div_ceil(1000)).unwrap_or(1);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(location) = self.location.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(header::LOCATION, location);
        }
        response
    }
}

/// Answers what no route takes.
pub(super) async fn no_such_route(uri: Uri) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        Code::NoSuchRoute,
        format!("there is nothing at {}", uri.path()),
    )
}

/// Answers a method that a route does not take.
pub(super) async fn method_not_allowed(method: Method, uri: Uri) -> ApiError {
    ApiError::method_not_allowed(&method, &uri)
}

/// Brings errors that do not come from a handler, such as a query that cannot be parsed or a body
/// that is too long, into the one shape.
pub(super) async fn in_shape(request: Request, next: Next) -> Response {
    /// Longest message that is taken over.
    const MESSAGE_BYTES_MAX: usize = 4096;
    let response = next.run(request).await;
    let status = response.status();
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !(status.is_client_error() || status.is_server_error()) || is_json {
        return response;
    }
    let (parts, body) = response.into_parts();
    let message = to_bytes(body, MESSAGE_BYTES_MAX).await.unwrap_or_default();
    let message = String::from_utf8_lossy(&message);
    let message = if message.is_empty() { parts.status.to_string() } else { message.into_owned() };
    let code = match status {
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        StatusCode::NOT_FOUND => Code::NoSuchRoute,
        StatusCode::METHOD_NOT_ALLOWED => Code::MethodNotAllowed,
        other if other.is_server_error() => Code::Internal,
        _ => Code::BadRequest,
    };
    let mut shaped = ApiError::new(status, code, message).into_response();
    for (name, value) in &parts.headers {
        // `allow` and the like stay; what describes the old body does not.
        if !matches!(*name, header::CONTENT_TYPE | header::CONTENT_LENGTH) {
            shaped.headers_mut().insert(name, value.clone());
        }
    }
    shaped.map(Body::new)
}
