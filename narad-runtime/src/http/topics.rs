//! Topics and who serves them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Api;
use super::error::ApiError;
use super::query::{Path, Query};
use super::request::{ReadQuery, Upload, from_json};
use crate::service::{NewTopic, Read, ServiceError, TopicDetail, TopicView};

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<Value>, ApiError> {
    let topics = api.service.topics(query.into()).await?;
    Ok(Json(json!({ "topics": topics })))
}

pub(super) async fn create(
    State(api): State<Arc<Api>>,
    upload: Upload,
) -> Result<(StatusCode, Json<TopicView>), ApiError> {
    let topic: NewTopic = from_json(&upload.body)?;
    let most = narad_core::metastore::topic::Topic::PARTITIONS_MAX;
    if !(1..=most).contains(&topic.partitions) {
        let error = format!("partitions is {}, but must be 1 to {most}", topic.partitions);
        return Err(ServiceError::Invalid(error).into());
    }
    Ok((StatusCode::CREATED, Json(api.service.create_topic(topic).await?)))
}

/// Shows a topic as this node knows it. A topic that it does not know may just have been created
/// through another node: only then the leader is asked.
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
) -> Result<Json<TopicDetail>, ApiError> {
    for read in [Read::Stale, Read::Barrier] {
        let topics = api.service.topics(read).await?;
        if let Some(topic) = topics.into_iter().find(|known| known.name.as_str() == topic) {
            let routes = api.service.routes(topic.name.as_str()).await?;
            return Ok(Json(TopicDetail { topic, routes }));
        }
    }
    Err(ServiceError::UnknownTopic(topic).into())
}

pub(super) async fn delete(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
) -> Result<StatusCode, ApiError> {
    api.service.delete_topic(&topic).await?;
    Ok(StatusCode::NO_CONTENT)
}
