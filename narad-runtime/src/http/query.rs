//! The query of a request and the names in its path, read so that a mistake is told and not passed
//! over.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::sync::{Arc, LazyLock};

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use percent_encoding::percent_decode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::OPENAPI;
use super::error::ApiError;

/// The query of a request, as `axum` reads it, with errors that speak of the query.
#[derive(Debug)]
pub(super) struct Query<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let cause =
                    rejection.source().map_or_else(|| rejection.to_string(), ToString::to_string);
                Err(ApiError::bad_request(format!("the query: {cause}")))
            }
        }
    }
}

/// The names in a path, as `axum` reads them, with errors that speak of the path.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(PathRejection::FailedToDeserializePathParams(failed)) => {
                Err(ApiError::bad_request(match failed.into_kind() {
                    ErrorKind::InvalidUtf8InPathParam { key } => {
                        format!("the {key} in the path is no text: names are plain ASCII")
                    }
                    other => format!("the path: {other}"),
                }))
            }
            Err(other) => Err(ApiError::bad_request(other.to_string())),
        }
    }
}

/// Returns a parameter of the query as its bytes: what a key is made of need not be text.
pub(super) fn raw(uri: &Uri, name: &str) -> Option<Bytes> {
    pairs(uri).find(|(found, _)| **found == *name.as_bytes()).map(|(_, value)| value)
}

/// Takes a query apart. A plus sign is a space, as in every form.
fn pairs(uri: &Uri) -> impl Iterator<Item = (Bytes, Bytes)> {
    let decoded = |text: &str| -> Bytes {
        let spaced = text.replace('+', " ");
        Cow::from(percent_decode(spaced.as_bytes())).into_owned().into()
    };
    uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    })
}

/// The names that the query of one path may have, by method.
pub(super) type Names = BTreeMap<Method, BTreeSet<&'static str>>;

/// Returns what [`OPENAPI`] names; `None` where anything may be asked, since probes, scrapers and
/// browsers may add whatever they like.
pub(super) fn names(path: &str) -> Option<Arc<Names>> {
    static DOCUMENT: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(OPENAPI).expect("a test reads it"));
    if !path.starts_with("/v1/") {
        return None;
    }
    let resolved = |parameter: &'static Value| match parameter["$ref"].as_str() {
        Some(place) => DOCUMENT.pointer(place.trim_start_matches('#')),
        None => Some(parameter),
    };
    let methods = DOCUMENT["paths"][path].as_object().into_iter().flatten();
    let names = methods.filter_map(|(method, operation)| {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?;
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.filter_map(resolved).filter(|one| one["in"] == "query");
        Some((method, parameters.filter_map(|one| one["name"].as_str()).collect()))
    });
    Some(Arc::new(names.collect()))
}

/// Refuses what a path does not know: a word that is misspelt would be left out in silence, and what
/// it was to change is done as if it were not there.
pub(super) async fn known(
    State(names): State<Arc<Names>>,
    request: Request,
    next: Next,
) -> Response {
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let Some(names) = names.get(method) else { return next.run(request).await };
    let unknown = pairs(request.uri())
        .map(|(name, _)| String::from_utf8_lossy(&name).into_owned())
        .find(|name| !names.contains(name.as_str()));
    let Some(unknown) = unknown else { return next.run(request).await };
    let known: Vec<&str> = names.iter().copied().collect();
    let known = match known[..] {
        [] => "nothing: leave the query out".to_owned(),
        _ => known.join(", "),
    };
    let told = format!("the query has {unknown:?}, but this path knows {known}");
    ApiError::bad_request(told).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_need_not_be_text() {
        let uri: Uri = "/x?a=1&key=%ff+b%2b&%6b2=&flag".parse().expect("a uri");
        assert_eq!(raw(&uri, "key").as_deref(), Some(&b"\xff b+"[..]));
        assert_eq!(raw(&uri, "k2").as_deref(), Some(&b""[..]));
        assert_eq!(raw(&uri, "flag").as_deref(), Some(&b""[..]));
        assert_eq!(raw(&uri, "b"), None);
    }

    #[test]
    fn the_document_says_what_a_query_may_have() {
        let names = names("/v1/topics/{topic}/messages").expect("it is checked");
        assert_eq!(names[&Method::POST], BTreeSet::from(["ack", "key", "partition"]));
        assert!(names[&Method::GET].contains("visibility"));
    }
}
