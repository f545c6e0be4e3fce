//! What a request has to pass before a handler sees it: its share of time and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

use super::Api;
use super::audit::Docket;
use super::error::{ApiError, Code};
use crate::service::{Read, ServiceError};
use crate::units::parse_duration;

/// One permit of [`Api::bodies`], in bytes.
const PERMIT_BYTES: u64 = 1024;

/// Returns how many permits so many bytes take.
pub(super) fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX >> 4).min(u32::MAX >> 4)
}

/// A request's body, taken only while there is room for it, and holding that room until it is
/// dropped.
pub(super) struct Upload {
    pub(super) body: Bytes,
    _room: OwnedSemaphorePermit,
}

impl FromRequest<Arc<Api>> for Upload {
    type Rejection = Response;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Response> {
        let announced = request
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let limit = api.options.body_bytes_max;
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(&format!("the body has more than {limit} bytes")).into_response());
        }
        // A body without an announced length may turn out to be as long as any.
        let room = permits(announced.unwrap_or(limit));
        let Ok(room) = api.bodies.clone().try_acquire_many_owned(room) else {
            return Err(ApiError::from(ServiceError::Busy).into_response());
        };
        let arriving = request.extensions().get::<Arriving>().cloned().unwrap_or_default();
        let docket = request.extensions().get::<Docket>().cloned();
        arriving.0.store(true, Ordering::Relaxed);
        let body = Bytes::from_request(request, api).await;
        arriving.0.store(false, Ordering::Relaxed);
        let body = body.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                too_large(&format!("the body has more than {limit} bytes")).into_response()
            }
            _ => ApiError::bad_request("the body broke off before its end").into_response(),
        })?;
        if let Some(docket) = docket {
            docket.asked(Some(&body)).await;
        }
        Ok(Self { body, _room: room })
    }
}

/// Whether the body of a request is being read: up to then nothing can have been done.
#[derive(Clone, Debug, Default)]
struct Arriving(Arc<AtomicBool>);

/// A body that is JSON, whatever its content type says.
pub(super) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    // A list of the values alone would do for the reader, and is nothing that the API promises.
    if body.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        return Err(ApiError::bad_request("the body must be a JSON object: {\"name\": value, ..}"));
    }
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("the body: {error}")))
}

/// Says that something exceeds a limit.
pub(super) fn too_large(error: &str) -> ApiError {
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, error)
}

/// The query of a read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ReadQuery {
    #[serde(default)]
    stale: bool,
}

impl From<ReadQuery> for Read {
    fn from(query: ReadQuery) -> Self {
        if query.stale { Self::Stale } else { Self::Barrier }
    }
}

/// The query of a fetch that says how long it may wait.
#[derive(Debug, Default, Deserialize)]
struct WaitQuery {
    #[serde(default)]
    wait_ms: u64,
    wait: Option<String>,
}

impl WaitQuery {
    fn wait(&self) -> Duration {
        let wait = self.wait.as_deref().and_then(parse_duration);
        wait.unwrap_or_else(|| Duration::from_millis(self.wait_ms))
    }
}

/// Ends requests that take too long: a client that never finishes its body holds nothing for ever.
pub(super) async fn within_time(
    State(api): State<Arc<Api>>,
    mut request: Request,
    next: Next,
) -> Response {
    let arriving = Arriving::default();
    request.extensions_mut().insert(arriving.clone());
    let waits = Query::<WaitQuery>::try_from_uri(request.uri())
        .map_or(Duration::ZERO, |query| query.0.wait());
    let limit = api.options.request_timeout + waits.min(api.options.wait_max);
    let reads = request.method() == Method::GET;
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) if arriving.0.load(Ordering::Relaxed) => ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            Code::RequestTimeout,
            format!("the body was not here after {limit:?}, and nothing was done: send it again"),
        )
        .into_response(),
        Err(_) if reads => ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            Code::Timeout,
            "the node did not answer in time; try again",
        )
        .into_response(),
        Err(_) => ApiError::from(ServiceError::OutcomeUnknown).into_response(),
    }
}
