//! Losses, receipts, quarantine.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::Api;
use super::error::ApiError;
use super::query::{Path, Query};
use super::request::{ReadQuery, Upload, from_json};
use crate::service::{AcceptedView, NewLoss, ReceiptView, SalvageView};

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<SalvageView>, ApiError> {
    Ok(Json(api.service.salvage(query.into()).await?))
}

pub(super) async fn declare_lost(
    State(api): State<Arc<Api>>,
    upload: Upload,
) -> Result<Json<ReceiptView>, ApiError> {
    let loss: NewLoss = from_json(&upload.body)?;
    Ok(Json(api.service.declare_lost(loss).await?))
}

pub(super) async fn restore(
    State(api): State<Arc<Api>>,
    Path((member, id)): Path<(String, String)>,
) -> Result<Json<AcceptedView>, ApiError> {
    Ok(Json(api.service.restore(&member, &id).await?))
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Path((member, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    api.service.drop_quarantined(&member, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
