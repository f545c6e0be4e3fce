//! Any request at all is answered: as the API says, within its limits, and never as a failure of the node.
//!
//! An input is a line `METHOD PATH?QUERY CONTENT-TYPE`, and a body after it.
#![cfg_attr(fuzzing, no_main)]

use std::cell::RefCell;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, Uri, header};
use narad_fuzz::node::{Refusing, limits};
use narad_runtime::http::{ErrorBody, error_codes, router};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

/// Longest answer: the page, and the document of the API.
const ANSWER_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static API: RefCell<(Runtime, Router)> = RefCell::new({
        let runtime = Builder::new_current_thread().enable_time().build();
        (runtime.expect("the system has a clock"), router(Arc::new(Refusing), limits()))
    });
}

narad_fuzz::target!("http", |input| {
    let Some(request) = request(input) else { return };
    API.with_borrow_mut(|(runtime, api)| runtime.block_on(ask(api.clone(), request)));
});

fn request(input: &[u8]) -> Option<Request<Body>> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let (head, body) = (&input[..end], &input[end + 1..]);
    let mut words = head.splitn(3, |byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let request = Request::builder().method(method).uri(uri);
    let request = match words.next() {
        Some(kind) => request.header(header::CONTENT_TYPE, kind),
        None => request,
    };
    request.body(Body::from(body.to_vec())).ok()
}

async fn ask(api: Router, request: Request<Body>) {
    let is_head = request.method() == Method::HEAD;
    let answer = api.oneshot(request).await.unwrap_or_else(|never| match never {});
    let status = answer.status();
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "no request is the node's failure");
    let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.expect("it is in memory");
    if (status.is_client_error() || status.is_server_error()) && !is_head {
        let Ok(told) = serde_json::from_slice::<ErrorBody>(&body) else {
            // Only probes have bodies of their own.
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            return;
        };
        assert!(!told.error.is_empty() && error_codes().any(|code| code == told.code), "{told:?}");
    }
}
