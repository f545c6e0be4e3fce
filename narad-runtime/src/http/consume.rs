//! Consuming records.
//!
//! # Working on records
//!
//! `GET /v1/topics/{topic}/messages` hands records out: for `visibility` (default 30 s) nobody else
//! gets them. Each comes with a `handle`, by which it is acknowledged (`POST …/ack`), handed back
//! (`POST …/nack`) or kept longer (`POST …/extend`); what is not acknowledged in time is handed out
//! again, and `delivery` then says for how many times. `max` records come at most (default 100), from
//! one partition: that of `partition`, or any that the node serves. `wait` waits for a first one.
//!
//! Handles of different partitions may come in one request, and what becomes of one does not depend
//! on the others: the answer is 200, and has one `code` for each. `moved` says that the partition is
//! another node's by now, and where; `not_owner` that it never was this node's while those records
//! were handed out. If that is all there is to say, the answer is 421 with the owner's `Location`.
//!
//! # Plain reads
//!
//! With `from=OFFSET` or `from=committed` records are read and nothing changes; `max_bytes` and
//! `wait_ms` limit that. `POST …/ack` with `epoch` and `up_to` or `offsets` acknowledges by offset.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use narad_core::ids::{Epoch, Offset};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Api;
use super::batch;
use super::error::ApiError;
use super::json::{FetchedBody, HandedBody, HandlesBody, OffsetsBody, SettledBody};
use super::query::{Path, Query};
use super::request::{ReadQuery, Upload, from_json, too_large};
use crate::service::{AckSet, Position, Reserve, ServiceError, Settle, Settled, Ticket};
use crate::units::parse_duration;

/// The query of a request for records.
#[derive(Debug, Deserialize)]
pub(super) struct ConsumeQuery {
    partition: Option<u32>,
    from: Option<String>,
    epoch: Option<u64>,
    max_bytes: Option<u64>,
    wait_ms: Option<u64>,
    max: Option<usize>,
    wait: Option<String>,
    visibility: Option<String>,
}

pub(super) async fn consume(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<ConsumeQuery>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wants_batch = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|kind| kind.to_str().is_ok_and(|kind| kind.contains(batch::CONTENT_TYPE)));
    let answer = if query.from.is_some() {
        api.read(topic, &query, wants_batch).await
    } else if method == Method::HEAD {
        // What is handed out without being sent would only be kept from others.
        Err(ApiError::method_not_allowed(&method, &uri))
    } else {
        api.hand_out(topic, &query, wants_batch).await
    };
    // The same question, at the owner.
    answer.map_err(|error| error.at_owner(uri.path_and_query().map_or("", PathAndQuery::as_str)))
}

impl Api {
    /// Reads records and changes nothing.
    async fn read(
        &self,
        topic: String,
        query: &ConsumeQuery,
        wants_batch: bool,
    ) -> Result<Response, ApiError> {
        let reserving = [query.max.is_some(), query.wait.is_some(), query.visibility.is_some()];
        if reserving.contains(&true) {
            return Err(ApiError::bad_request(
                "max, wait and visibility are for records that are handed out; with from= there \
                 are max_bytes and wait_ms",
            ));
        }
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
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0)).min(self.options.wait_max);
        let bytes_max = self.bytes_max(query)?;
        let fetched = self.service.fetch(&topic, partition, from, bytes_max, wait).await?;
        if wants_batch {
            let body = batch::encode_fetched(&fetched);
            return Ok(([(header::CONTENT_TYPE, batch::CONTENT_TYPE)], body).into_response());
        }
        Ok(Json(FetchedBody::new(topic, partition, fetched)).into_response())
    }

    /// Hands records out.
    async fn hand_out(
        &self,
        topic: String,
        query: &ConsumeQuery,
        wants_batch: bool,
    ) -> Result<Response, ApiError> {
        /// Records that are handed out unless the request says otherwise.
        const RECORDS: usize = 100;
        /// For how long.
        const VISIBILITY: Duration = Duration::from_secs(30);
        if query.wait_ms.is_some() || query.epoch.is_some() {
            return Err(ApiError::bad_request(
                "wait_ms and epoch are for plain reads, with from=; there is wait=",
            ));
        }
        let records_max = query.max.unwrap_or(RECORDS);
        if !(1..=Reserve::RECORDS_MAX).contains(&records_max) {
            let most = Reserve::RECORDS_MAX;
            let error = format!("max is {records_max}, but must be 1 to {most}");
            return Err(ApiError::bad_request(error));
        }
        let wait = duration("wait", query.wait.as_deref())?.unwrap_or_default();
        let visibility = duration("visibility", query.visibility.as_deref())?;
        let wanted = Reserve {
            partition: query.partition,
            records_max,
            bytes_max: self.bytes_max(query)?,
            visibility: some_time("visibility", visibility.unwrap_or(VISIBILITY))?,
            wait: wait.min(self.options.wait_max),
        };
        let handed = self.service.reserve(&topic, wanted).await?;
        // Nobody else may be given the same answer.
        let uncached = [(header::CACHE_CONTROL, "no-store")];
        if wants_batch {
            let body = batch::encode_handed(&handed);
            let kind = [(header::CONTENT_TYPE, batch::CONTENT_TYPE)];
            return Ok((uncached, kind, body).into_response());
        }
        Ok((uncached, Json(HandedBody::new(topic, handed))).into_response())
    }

    fn bytes_max(&self, query: &ConsumeQuery) -> Result<u64, ApiError> {
        let most = self.options.fetch_bytes_max;
        match query.max_bytes {
            Some(0) => Err(ApiError::bad_request("max_bytes is 0, but must be at least 1")),
            asked => Ok(asked.map_or(most, |asked| asked.min(most))),
        }
    }
}

/// The query of an acknowledgement by offset.
#[derive(Debug, Deserialize)]
pub(super) struct AckQuery {
    partition: Option<u32>,
}

/// The body of an acknowledgement by offset: an epoch, and an [`AckSet`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AckBody {
    epoch: Epoch,
    up_to: Option<Offset>,
    #[serde(default)]
    offsets: Vec<Offset>,
}

pub(super) async fn ack(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<AckQuery>,
    uri: Uri,
    upload: Upload,
) -> Result<Response, ApiError> {
    /// Tells the two bodies apart, so that an error names what is wrong with the one that is meant.
    #[derive(Deserialize)]
    struct Kind {
        handles: Option<IgnoredAny>,
        up_to: Option<IgnoredAny>,
        offsets: Option<IgnoredAny>,
    }
    let kind: Kind = from_json(&upload.body)?;
    if kind.handles.is_some() {
        return api
            .settle(&topic, uri.path(), &upload.body, How::Ack)
            .await
            .map(IntoResponse::into_response);
    }
    if kind.up_to.is_none() && kind.offsets.is_none() {
        return Err(ApiError::bad_request(
            "the body needs handles; or, to acknowledge by offset, epoch with up_to or offsets, and \
             partition=NUMBER in the query",
        ));
    }
    let partition = required_partition(query.partition)?;
    let AckBody { epoch, up_to, offsets } = from_json(&upload.body)?;
    let acks = AckSet { up_to, offsets };
    if acks.offsets.len() > AckSet::OFFSETS_MAX {
        let most = AckSet::OFFSETS_MAX;
        return Err(too_large(&format!("there are more than {most} offsets; send several")));
    }
    if acks == AckSet::default() {
        return Err(ApiError::bad_request("offsets has none: there is nothing to acknowledge"));
    }
    match api.service.ack(&topic, partition, epoch, acks).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(error) => {
            let path = format!("/v1/topics/{topic}/ack?partition={partition}");
            Err(ApiError::from(error).at_owner(&path))
        }
    }
}

pub(super) async fn nack(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    uri: Uri,
    upload: Upload,
) -> Result<Json<SettledBody>, ApiError> {
    api.settle(&topic, uri.path(), &upload.body, How::Nack).await
}

pub(super) async fn extend(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    uri: Uri,
    upload: Upload,
) -> Result<Json<SettledBody>, ApiError> {
    api.settle(&topic, uri.path(), &upload.body, How::Extend).await
}

/// Which of the three routes was taken.
#[derive(Clone, Copy)]
enum How {
    Ack,
    Nack,
    Extend,
}

impl Api {
    async fn settle(
        &self,
        topic: &str,
        path: &str,
        body: &[u8],
        how: How,
    ) -> Result<Json<SettledBody>, ApiError> {
        let HandlesBody { handles, delay, visibility } = from_json(body)?;
        let most = Settle::TICKETS_MAX;
        if handles.len() > most {
            return Err(too_large(&format!("there are more than {most} handles; send several")));
        }
        if handles.is_empty() {
            return Err(ApiError::bad_request("there are no handles in the body"));
        }
        let delay = duration("delay", delay.as_deref())?;
        let visibility = duration("visibility", visibility.as_deref())?;
        let how = match (how, delay, visibility) {
            (How::Ack, None, None) => Settle::Ack,
            (How::Nack, delay, None) => Settle::Nack { delay: delay.unwrap_or_default() },
            (How::Extend, None, Some(visibility)) => {
                Settle::Extend { visibility: some_time("visibility", visibility)? }
            }
            (How::Extend, None, None) => {
                return Err(ApiError::bad_request("the body needs visibility, such as \"30s\""));
            }
            (How::Ack | How::Nack | How::Extend, _, _) => {
                let error = "delay goes with nack, visibility with extend, and neither with ack";
                return Err(ApiError::bad_request(error));
            }
        };
        let tickets = handles.iter().enumerate().map(|(index, handle)| {
            let wrong = |error| ApiError::bad_request(format!("handle {index}: {error}"));
            handle.parse::<Ticket>().map_err(wrong)
        });
        let tickets = tickets.collect::<Result<_, _>>()?;
        let settled = self.service.settle(topic, tickets, how).await?;
        if let Some(owner) = all_elsewhere(&settled) {
            let error = ApiError::from(ServiceError::NotOwner { owner: Some(owner) });
            return Err(error.at_owner(path));
        }
        Ok(Json(SettledBody::new(settled)))
    }
}

pub(super) async fn offsets(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Json<OffsetsBody>, ApiError> {
    let partitions = api.service.offsets(&topic, query.into()).await?;
    Ok(Json(OffsetsBody { topic, partitions }))
}

/// Returns the one node that all handles are for, if it is another one and known.
fn all_elsewhere(settled: &[Settled]) -> Option<String> {
    let mut owners = settled.iter().map(|one| match one {
        Settled::Unavailable(ServiceError::NotOwner { owner }) => owner.as_ref(),
        _ => None,
    });
    let first = owners.next()??;
    owners.all(|owner| owner == Some(first)).then(|| first.clone())
}

/// Reads a duration as people write it.
fn duration(name: &str, text: Option<&str>) -> Result<Option<Duration>, ApiError> {
    let read = |text: &str| {
        let read = if text == "0" { Some(Duration::ZERO) } else { parse_duration(text) };
        read.ok_or_else(|| {
            ApiError::bad_request(format!(
                "{name} is {text:?}, but must be a duration, such as 500ms, 30s or 2min"
            ))
        })
    };
    text.map(read).transpose()
}

fn some_time(name: &str, duration: Duration) -> Result<Duration, ApiError> {
    if duration.is_zero() {
        return Err(ApiError::bad_request(format!("{name} must be more than nothing")));
    }
    Ok(duration)
}

fn required_partition(partition: Option<u32>) -> Result<u32, ApiError> {
    partition.ok_or_else(|| ApiError::bad_request("the query needs partition=NUMBER"))
}
