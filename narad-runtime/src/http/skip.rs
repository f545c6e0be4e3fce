//! Giving up records that cannot be read.
//!
//! `POST /v1/topics/{topic}/skip?partition=` acknowledges the offsets from `from` to before `to` in the
//! reign `epoch`, if none of them can be read: the answer `damaged_records` says which they are. As many
//! go as may be acknowledged ahead of others; where `next` is before `to`, the rest is for a second
//! request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;

use super::Api;
use super::error::ApiError;
use super::request::{Upload, from_json};
use crate::service::{Skip, Skipped};

/// The query.
#[derive(Debug, Deserialize)]
pub(super) struct SkipQuery {
    partition: Option<u32>,
}

pub(super) async fn skip(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<SkipQuery>,
    upload: Upload,
) -> Result<Json<Skipped>, ApiError> {
    let partition = query.partition;
    let missing = || ApiError::bad_request("the query needs partition=NUMBER");
    let partition = partition.ok_or_else(missing)?;
    let skip: Skip = from_json(&upload.body)?;
    let skipped = api.service.skip(&topic, partition, skip).await;
    let path = format!("/v1/topics/{topic}/skip?partition={partition}");
    Ok(Json(skipped.map_err(|error| ApiError::from(error).at_owner(&path))?))
}
