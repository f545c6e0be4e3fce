//! The cluster as people would rather look at it: one page that reads the API, without anything from
//! elsewhere.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// The page fetches from its own node only, and nothing that it shows can run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers with the page.
pub(super) async fn page() -> Response {
    part("text/html; charset=utf-8", include_str!("page/page.html"))
}

/// Answers with how it looks.
pub(super) async fn style() -> Response {
    part("text/css; charset=utf-8", include_str!("page/page.css"))
}

/// Answers with what draws it.
pub(super) async fn script() -> Response {
    part("text/javascript; charset=utf-8", include_str!("page/page.js"))
}

fn part(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, text).into_response()
}
