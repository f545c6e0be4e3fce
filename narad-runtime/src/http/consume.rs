//! Fetching and acknowledging records.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use narad_core::ids::{Epoch, Offset};
use serde::{Deserialize, Serialize};

use super::Api;
use super::batch;
use super::error::ApiError;
use super::json::FetchedBody;
use super::messages::messages_path;
use super::request::{Upload, from_json, too_large};
use crate::service::{AckSet, Position};

/// The query of a fetch.
#[derive(Debug, Deserialize)]
pub(super) struct FetchQuery {
    partition: Option<u32>,
    from: Option<String>,
    epoch: Option<u64>,
    max_bytes: Option<u64>,
    wait_ms: Option<u64>,
}

pub(super) async fn fetch(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<FetchQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let partition = required_partition(query.partition)?;
    let from = match query.from.as_deref() {
        None | Some("committed") => Position::Committed,
        Some(offset) => {
            let at = offset.parse().map_err(|_| {
                ApiError::bad_request(format!(
                    "from is {offset:?}, but must be an offset or committed"
                ))
            })?;
            Position::Offset { at: Offset(at), epoch: query.epoch.map(Epoch) }
        }
    };
    let bytes_max = api.options.fetch_bytes_max;
    let bytes_max = query.max_bytes.map_or(bytes_max, |asked| asked.clamp(1, bytes_max));
    let wait = Duration::from_millis(query.wait_ms.unwrap_or(0)).min(api.options.wait_max);
    let fetched = match api.service.fetch(&topic, partition, from, bytes_max, wait).await {
        Ok(fetched) => fetched,
        Err(error) => {
            return Err(ApiError::from(error).at_owner(&messages_path(&topic, partition)));
        }
    };
    let wants_batch = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|kind| kind.to_str().is_ok_and(|kind| kind.contains(batch::CONTENT_TYPE)));
    if wants_batch {
        let body = batch::encode_fetched(&fetched);
        return Ok(([(header::CONTENT_TYPE, batch::CONTENT_TYPE)], body).into_response());
    }
    Ok(Json(FetchedBody::new(topic, partition, fetched)).into_response())
}

/// The query of an acknowledgement.
#[derive(Debug, Deserialize)]
pub(super) struct AckQuery {
    partition: Option<u32>,
}

/// The body of an acknowledgement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AckBody {
    pub(crate) epoch: Epoch,
    #[serde(flatten)]
    pub(crate) acks: AckSet,
}

pub(super) async fn ack(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<AckQuery>,
    upload: Upload,
) -> Result<StatusCode, ApiError> {
    let partition = required_partition(query.partition)?;
    let AckBody { epoch, acks } = from_json(&upload.body)?;
    if acks.offsets.len() > AckSet::OFFSETS_MAX {
        let most = AckSet::OFFSETS_MAX;
        return Err(too_large(&format!("there are more than {most} offsets; send several")));
    }
    if acks == AckSet::default() {
        return Err(ApiError::bad_request("the body needs up_to or offsets"));
    }
    match api.service.ack(&topic, partition, epoch, acks).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => {
            let path = format!("/v1/topics/{topic}/ack?partition={partition}");
            Err(ApiError::from(error).at_owner(&path))
        }
    }
}

fn required_partition(partition: Option<u32>) -> Result<u32, ApiError> {
    partition.ok_or_else(|| ApiError::bad_request("the query needs partition=NUMBER"))
}
