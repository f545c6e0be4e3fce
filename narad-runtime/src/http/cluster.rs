//! Members and moves.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::error::{ApiError, Code};
use super::query::{Path, Query};
use super::request::{ReadQuery, Upload, from_json};
use crate::metrics::Format;

/// Answers as long as the process serves at all.
pub(super) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Answers 200 once the node takes part in the cluster.
pub(super) async fn readiness(State(api): State<Arc<Api>>) -> Result<Json<Value>, ApiError> {
    let readiness = api.service.readiness().await;
    if readiness.ready {
        return Ok(Json(json!({ "status": "ready" })));
    }
    let waiting = readiness.waiting.unwrap_or_else(|| "the node is not registered yet".into());
    if readiness.removed {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotAMember, waiting);
        return Err(error.for_good());
    }
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Code::NotReady, waiting))
}

/// Answers in the text format of `OpenMetrics` if that is asked for, else in the older one.
pub(super) async fn metrics(
    State(api): State<Arc<Api>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let mut accept = headers.get_all(header::ACCEPT).iter().filter_map(|kind| kind.to_str().ok());
    let is_open = |kind| Format::accepted(kind) == Format::OpenMetrics;
    let format = if accept.any(is_open) { Format::OpenMetrics } else { Format::Classic };
    let text = format.write(api.service.metrics().await?);
    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
    Ok((headers, text).into_response())
}

pub(super) async fn members(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let members = api.service.members(query.into()).await?;
    Ok(Json(json!({ "members": members })))
}

pub(super) async fn moves(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let moves = api.service.moves(query.into()).await?;
    Ok(Json(json!({ "moves": moves })))
}

pub(super) async fn decommission(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
) -> Result<StatusCode, ApiError> {
    api.service.decommission(&member, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn cancel_decommission(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
) -> Result<StatusCode, ApiError> {
    api.service.decommission(&member, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The body of `POST /v1/cluster/moves`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveRequest {
    topic: String,
    partition: u32,
    to: String,
}

pub(super) async fn move_partition(
    State(api): State<Arc<Api>>,
    upload: Upload,
) -> Result<StatusCode, ApiError> {
    let MoveRequest { topic, partition, to } = from_json(&upload.body)?;
    api.service.move_partition(&topic, partition, &to).await?;
    Ok(StatusCode::NO_CONTENT)
}
