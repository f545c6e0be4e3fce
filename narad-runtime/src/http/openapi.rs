//! The API's description of itself.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Every route with its parameters, bodies and answers, as an `OpenAPI` 3.1 document in JSON.
pub const OPENAPI: &str = include_str!("openapi.json");

/// Answers with the document.
pub(super) async fn document() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
