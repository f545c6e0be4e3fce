//! Producing records.
//!
//! The body is one of
//!
//! - `application/octet-stream` or `text/plain`: the value of one record, its key in `?key=`;
//! - `application/json`: [`Messages`];
//! - `application/x-narad-batch`: see [`super::batch`].
//!
//! `?partition=` pins all records to one partition. Without it a record with a key goes to
//! [`partition_of`] its key; the others go wherever there is room.
//!
//! Any node accepts records of any topic: they are on its disk when it answers `{"accepted": n}`
//! ([`Accepted`](crate::service::Accepted)), all of them or none, and it brings them to their owners, while partitions move, the
//! leader is away or an owner is dead (R43, R46). Keyed records go to a sibling while their partition
//! cannot take them (R45); the order of a key has a seam there (R47).
//!
//! With `?ack=owner` records are appended at once to partitions that this node owns, and the answer
//! names where they went ([`PartResult`]). What another node owns is answered with 421. While a
//! partition is about to move, its records go to another one that this node serves. If a part of a
//! batch fails, the error's `results` name the parts that were acknowledged before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use narad_core::ids::{Epoch, Offset};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Api;
use super::batch::{self, BatchError, Limits};
use super::error::{ApiError, Code};
use super::json::Messages;
use super::query::{Path, Query, raw};
use super::request::{Upload, from_json, too_large};
use crate::service::{Record, Route, ServiceError, partition_of};

/// Where one part of the records went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartResult {
    /// The partition.
    pub partition: u32,
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset after the last one.
    pub next_offset: Offset,
    /// The owner's reign.
    pub epoch: Epoch,
    /// How many records.
    pub records: u64,
}

/// The query of a produce request.
#[derive(Debug, Deserialize)]
pub(super) struct ProduceQuery {
    partition: Option<u32>,
    /// Only that it is there: what it is need not be text.
    key: Option<IgnoredAny>,
    #[serde(default)]
    ack: Ack,
}

/// Whose word the producer waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ack {
    #[default]
    Accepted,
    Owner,
}

pub(super) async fn produce(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    Query(query): Query<ProduceQuery>,
    uri: Uri,
    headers: HeaderMap,
    upload: Upload,
) -> Result<Response, ApiError> {
    let key = query.key.and_then(|_| raw(&uri, "key"));
    let mut records = api.records(&headers, &upload.body)?;
    if records.is_empty() {
        return Err(ApiError::bad_request("there are no records in the body"));
    }
    if let Some(key) = &key {
        for record in &mut records {
            record.key.get_or_insert_with(|| key.clone());
        }
    }
    let limits = api.limits();
    for record in &records {
        limits.check(record)?;
    }
    match query.ack {
        Ack::Accepted => {
            let accepted = api.service.accept(&topic, query.partition, records).await?;
            Ok(Json(accepted).into_response())
        }
        Ack::Owner => {
            Ok(append(&api, &topic, query.partition, key, records).await?.into_response())
        }
    }
}

/// Appends records to partitions that this node owns.
async fn append(
    api: &Api,
    topic: &str,
    partition: Option<u32>,
    key: Option<Bytes>,
    records: Vec<Record>,
) -> Result<Json<Value>, ApiError> {
    let mut results = Vec::new();
    let parts = if let Some(partition) = partition {
        vec![Part { choices: vec![partition], records }]
    } else {
        let routes = api.service.routes(topic).await?;
        if routes.is_empty() {
            // Created, but none of its partitions has an owner yet.
            return Err(ServiceError::NotServing.into());
        }
        api.parts(&routes, records)
    };
    // The request as a whole can be taken elsewhere only if all of it goes to one partition.
    let single = parts.len() == 1;
    for part in parts {
        match api.append(topic, part).await {
            Ok(result) => results.push(result),
            Err((partition, error)) if single => {
                let mut path = format!("{}&ack=owner", messages_path(topic, partition));
                if let Some(key) = &key {
                    let key = percent_encode(key, NON_ALPHANUMERIC);
                    path = format!("{path}&key={key}");
                }
                return Err(ApiError::from(error).at_owner(&path));
            }
            Err((_, error)) => return Err(ApiError::from(error).after(results)),
        }
    }
    Ok(Json(json!({ "results": results })))
}

/// Records that go to one partition.
struct Part {
    /// The partitions that they may go to, the first choice first; at least one.
    choices: Vec<u32>,
    records: Vec<Record>,
}

impl Api {
    fn limits(&self) -> Limits {
        Limits {
            records_max: self.options.batch_records_max,
            record_bytes_max: self.options.record_bytes_max,
        }
    }

    /// Reads the records of a body in whatever form they came.
    fn records(&self, headers: &HeaderMap, body: &Bytes) -> Result<Vec<Record>, ApiError> {
        let now_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        let kind = headers.get(header::CONTENT_TYPE).map_or("application/octet-stream", |kind| {
            let kind = kind.to_str().unwrap_or_default();
            kind.split(';').next().unwrap_or_default().trim()
        });
        match kind {
            "application/octet-stream" | "text/plain" => {
                Ok(vec![Record { value: body.clone(), timestamp_ms: now_ms, ..Record::default() }])
            }
            "application/json" => {
                let Messages { messages } = from_json(body)?;
                self.limits().check_count(messages.len())?;
                let records = messages.into_iter().map(|message| message.into_record(now_ms));
                records
                    .collect::<Result<_, _>>()
                    .map_err(|error| ApiError::bad_request(error.to_string()))
            }
            batch::CONTENT_TYPE => Ok(batch::decode_records(body.clone(), self.limits(), now_ms)?),
            other => Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Code::UnsupportedMediaType,
                format!(
                    "the content type {other:?} is not known here; use text/plain or \
                     application/octet-stream for the value of one record, application/json or {} \
                     for many records (curl: -H 'content-type: text/plain')",
                    batch::CONTENT_TYPE
                ),
            )),
        }
    }

    /// Splits records by the partitions that they may go to.
    fn parts(&self, routes: &[Route], records: Vec<Record>) -> Vec<Part> {
        let partitions = u32::try_from(routes.len()).unwrap_or(u32::MAX);
        let mut by_place: BTreeMap<Option<u32>, Vec<Record>> = BTreeMap::new();
        for record in records {
            let place = record.key.as_ref().map(|key| partition_of(key, partitions));
            by_place.entry(place).or_default().push(record);
        }
        let parts = by_place.into_iter().map(|(place, records)| {
            let here = |route: &&Route| route.serving_here;
            let served = routes.iter().filter(here).map(|route| route.partition).collect();
            Part { choices: self.choices(place, served, partitions), records }
        });
        parts.collect()
    }

    /// Returns the partitions to try in order: the one that a key belongs to, then those served
    /// here, beginning with whose turn it is.
    fn choices(&self, place: Option<u32>, mut served: Vec<u32>, partitions: u32) -> Vec<u32> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let turn = |among: usize| {
            usize::try_from(turn % among.max(1) as u64).expect("a remainder of a usize")
        };
        let shift = turn(served.len());
        served.rotate_left(shift);
        match place {
            Some(place) => {
                served.retain(|&partition| partition != place);
                served.insert(0, place);
            }
            // Somebody else's: the answer says whose.
            None if served.is_empty() => {
                served.push(u32::try_from(turn(partitions as usize)).expect("below partitions"));
            }
            None => {}
        }
        served.truncate(CHOICES_MAX);
        served
    }

    /// Appends records to the first of the partitions that takes them; an error comes with the
    /// partition that it is about.
    async fn append(&self, topic: &str, part: Part) -> Result<PartResult, (u32, ServiceError)> {
        let Part { choices, records } = part;
        let count = records.len() as u64;
        let mut refusal = None;
        for partition in choices {
            match self.service.produce(topic, partition, records.clone()).await {
                Ok(produced) => {
                    return Ok(PartResult {
                        partition,
                        first_offset: produced.first_offset,
                        next_offset: produced.next_offset,
                        epoch: produced.epoch,
                        records: count,
                    });
                }
                Err(
                    error @ (ServiceError::Frozen
                    | ServiceError::NoLease
                    | ServiceError::NotServing),
                ) => {
                    refusal.get_or_insert((partition, error));
                }
                // A sibling has moved away since the routes were read.
                Err(ServiceError::NotOwner { .. }) if refusal.is_some() => {}
                // Also another owner: it may well serve the partition, which is no reason to break
                // the order of its keys.
                Err(error) => return Err((partition, error)),
            }
        }
        Err(refusal.expect("there is at least one choice, and each was refused"))
    }
}

/// Most partitions that are tried for one part of a request.
const CHOICES_MAX: usize = 8;

fn messages_path(topic: &str, partition: u32) -> String {
    format!("/v1/topics/{topic}/messages?partition={partition}")
}

impl From<BatchError> for ApiError {
    fn from(error: BatchError) -> Self {
        if error.is_too_large() {
            too_large(&error.to_string())
        } else {
            Self::bad_request(error.to_string())
        }
    }
}
