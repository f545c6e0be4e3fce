//! What operators ask of a cluster, and what they are shown.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;

use super::Api;
use super::error::ApiError;
use super::request::{ReadQuery, Upload, from_json};
use crate::service::{
    Abort, ClusterView, DrainView, ExplainView, HistoryView, NodeView, PlanView, PolicyChange,
    PolicyView, PreflightView, StopView,
};

/// What is answered, or an error in the one shape.
type Answer<T> = Result<Json<T>, ApiError>;

pub(super) async fn status(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Answer<ClusterView> {
    Ok(Json(api.service.status(query.into()).await?))
}

pub(super) async fn node(State(api): State<Arc<Api>>) -> Answer<NodeView> {
    Ok(Json(api.service.node().await?))
}

pub(super) async fn drain(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
) -> Answer<DrainView> {
    Ok(Json(api.service.drain(&member).await?))
}

/// The query of `GET /v1/cluster/preflight`.
#[derive(Deserialize)]
pub(super) struct PreflightQuery {
    /// Names, with commas between them.
    members: String,
}

pub(super) async fn preflight(
    State(api): State<Arc<Api>>,
    Query(query): Query<PreflightQuery>,
) -> Answer<PreflightView> {
    let members: Vec<String> = query.members.split(',').map(str::to_owned).collect();
    Ok(Json(api.service.preflight(&members).await?))
}

/// The body of `POST /v1/cluster/decommissions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Leaving {
    members: Vec<String>,
}

pub(super) async fn decommission_all(
    State(api): State<Arc<Api>>,
    upload: Upload,
) -> Answer<PreflightView> {
    let Leaving { members } = from_json(&upload.body)?;
    Ok(Json(api.service.decommission_all(&members).await?))
}

/// The body of `POST /v1/cluster/members/{id}/forget`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Word {
    receipt: String,
}

pub(super) async fn forget(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
    upload: Upload,
) -> Result<StatusCode, ApiError> {
    let Word { receipt } = from_json(&upload.body)?;
    api.service.forget(&member, &receipt).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The query of `DELETE /v1/cluster/moves/{topic}/{partition}`.
#[derive(Default, Deserialize)]
pub(super) struct AbortQuery {
    #[serde(default)]
    pin: bool,
    #[serde(default)]
    force: bool,
}

pub(super) async fn abort(
    State(api): State<Arc<Api>>,
    Path((topic, partition)): Path<(String, u32)>,
    Query(query): Query<AbortQuery>,
) -> Result<StatusCode, ApiError> {
    let AbortQuery { pin, force } = query;
    api.service.abort(&topic, partition, Abort { pin, force }).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn journal(
    State(api): State<Arc<Api>>,
    Path((topic, partition)): Path<(String, u32)>,
    Query(query): Query<ReadQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let text = api.service.journal(&topic, partition, query.into()).await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], text))
}

pub(super) async fn explain(
    State(api): State<Arc<Api>>,
    Path((topic, partition)): Path<(String, u32)>,
) -> Answer<ExplainView> {
    Ok(Json(api.service.explain(&topic, partition).await?))
}

pub(super) async fn pin(
    State(api): State<Arc<Api>>,
    Path((topic, partition)): Path<(String, u32)>,
) -> Result<StatusCode, ApiError> {
    api.service.pin(&topic, partition, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn unpin(
    State(api): State<Arc<Api>>,
    Path((topic, partition)): Path<(String, u32)>,
) -> Result<StatusCode, ApiError> {
    api.service.pin(&topic, partition, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn policy(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Answer<PolicyView> {
    Ok(Json(api.service.policy(query.into()).await?))
}

pub(super) async fn change_policy(
    State(api): State<Arc<Api>>,
    upload: Upload,
) -> Answer<PolicyView> {
    let change: PolicyChange = from_json(&upload.body)?;
    Ok(Json(api.service.change_policy(change).await?))
}

/// The body of `PUT /v1/cluster/members/{id}/throttle`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    copy_rate_bytes_per_second: u64,
}

pub(super) async fn throttle(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
    upload: Upload,
) -> Result<StatusCode, ApiError> {
    let Rate { copy_rate_bytes_per_second } = from_json(&upload.body)?;
    api.service.throttle(&member, Some(copy_rate_bytes_per_second)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn follow_policy(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
) -> Result<StatusCode, ApiError> {
    api.service.throttle(&member, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn plan(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Answer<PlanView> {
    Ok(Json(api.service.plan(query.into()).await?))
}

pub(super) async fn history(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Answer<HistoryView> {
    Ok(Json(api.service.history(query.into()).await?))
}

/// The query of `GET /v1/cluster/members/{id}/safe-to-stop`.
#[derive(Default, Deserialize)]
pub(super) struct StopQuery {
    #[serde(default)]
    for_good: bool,
}

pub(super) async fn safe_to_stop(
    State(api): State<Arc<Api>>,
    Path(member): Path<String>,
    Query(query): Query<StopQuery>,
) -> Answer<StopView> {
    Ok(Json(api.service.safe_to_stop(&member, query.for_good).await?))
}
