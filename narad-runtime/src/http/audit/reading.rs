//! The audit log, read back: the last actions of this node.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::Extension;
use serde::Deserialize;
use serde_json::Value;

use super::{Audit, AuditLimits};
use crate::http::error::ApiError;
use crate::http::query::Query;
use crate::service::{ActionView, AuditView, ServiceError};

/// The query of `GET /v1/node/audit`.
#[derive(Deserialize)]
pub(in crate::http) struct AuditQuery {
    limit: Option<u32>,
}

/// What [`admit`](crate::http::access) hands to those who may read the log; nothing if there is none.
#[derive(Clone)]
pub(in crate::http) struct Readable(pub(in crate::http) Option<Arc<Audit>>);

/// Shows the last actions.
pub(in crate::http) async fn show(
    Extension(Readable(audit)): Extension<Readable>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditView>, ApiError> {
    /// Actions that are shown if nothing is asked for.
    const USUAL: u32 = 50;
    /// Most of them.
    const MOST: u32 = 1000;
    let limit = query.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(ApiError::bad_request(format!("limit is {limit}, and may be 1 to {MOST}")));
    }
    let Some(audit) = audit else { return Ok(Json(AuditView::default())) };
    audit.settled().await;
    let read = tokio::task::spawn_blocking(move || audit.last(limit as usize)).await;
    let read = read.map_err(|_| ServiceError::Internal("the audit log was not read".into()))?;
    let failed = |error: io::Error| ServiceError::Internal(format!("the audit log: {error}"));
    Ok(Json(AuditView { actions: read.map_err(failed)?, silent: Vec::new() }))
}

impl Audit {
    /// Returns the last actions of which anything stands in the files, the newest first. Blocks.
    ///
    /// # Errors
    ///
    /// If a file cannot be read; one that is not there is none.
    pub fn last(&self, limit: usize) -> io::Result<Vec<ActionView>> {
        let mut actions = BTreeMap::new();
        for stem in ["audit", "audit-refused"] {
            collect(&self.dir, stem, &self.limits, limit, &mut actions)?;
        }
        Ok(actions.into_values().rev().take(limit).collect())
    }
}

/// Takes over what stands in the files of one kind, the newest file first, until there is enough. Ids
/// grow, so the largest are the last.
fn collect(
    dir: &Path,
    stem: &str,
    limits: &AuditLimits,
    limit: usize,
    actions: &mut BTreeMap<u64, ActionView>,
) -> io::Result<()> {
    let mut found = 0;
    for number in 0..limits.files_max {
        let name = match number {
            0 => format!("{stem}.jsonl"),
            number => format!("{stem}.{number}.jsonl"),
        };
        let bytes = match fs::read(dir.join(name)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        };
        // From its end, so that an answer comes before its question, which may be one file earlier.
        for line in String::from_utf8_lossy(&bytes).lines().rev() {
            // A line that was cut by a full disk is left out.
            let Some((event, action)) = action(line) else { continue };
            found += usize::from(event != Event::Answered);
            let known = actions.entry(action.id).or_insert_with(|| action.clone());
            if event == Event::Asked {
                let (status, outcome) = (known.status.take(), known.outcome.take());
                let body = known.body.take().or_else(|| action.body.clone());
                *known = ActionView { body, status, outcome, ..action };
            }
            if found > limit {
                return Ok(());
            }
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Asked,
    Answered,
    Refused,
}

fn action(line: &str) -> Option<(Event, ActionView)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let text = |field: &str| line[field].as_str().map(str::to_owned);
    let event = match line["event"].as_str()? {
        "asked" => Event::Asked,
        "answered" => Event::Answered,
        _ => Event::Refused,
    };
    let action = ActionView {
        time: text("time")?,
        node: text("node")?,
        id: line["id"].as_u64()?,
        who: text("who"),
        by: text("by")?,
        role: text("role"),
        from: text("from"),
        method: text("method")?,
        path: text("path")?,
        query: text("query"),
        body: line.get("body").filter(|body| !body.is_null()).map(ToString::to_string),
        status: line["status"].as_u64().and_then(|status| u16::try_from(status).ok()),
        outcome: text("outcome"),
    };
    Some((event, action))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: u64, event: &str, outcome: &str) -> String {
        format!(
            "{{\"time\":\"t{id}\",\"event\":\"{event}\",\"node\":\"n1\",\"id\":{id},\"who\":\"ops\",\
             \"by\":\"token\",\"role\":\"admin\",\"from\":null,\"method\":\"POST\",\"path\":\"/x\",\
             \"body\":{{\"to\":\"n2\"}}{outcome}}}\n"
        )
    }

    const DONE: &str = ",\"status\":204,\"outcome\":\"done\"";

    /// Both lines of an action are one, also across two files; what has no answer has none; what a full
    /// disk has cut is left out.
    #[test]
    fn the_last_actions_are_put_together() {
        let dir = tempfile::tempdir().expect("a directory");
        let limits = AuditLimits { bytes_max: 1 << 20, files_max: 3 };
        let audit = Audit::open(dir.path(), "n1", &limits).expect("opened");
        let put = |name: &str, text: String| fs::write(dir.path().join(name), text).expect("put");
        put(
            "audit.1.jsonl",
            line(1, "asked", "") + &line(1, "answered", DONE) + &line(2, "asked", ""),
        );
        put("audit.jsonl", line(2, "answered", DONE) + &line(4, "asked", "") + "{\"time\":\"t9\"");
        put("audit-refused.jsonl", line(3, "refused", ",\"status\":403,\"outcome\":\"forbidden\""));
        let shown = |limit| {
            let actions = audit.last(limit).expect("read");
            let short = |one: &ActionView| (one.id, one.outcome.clone().unwrap_or_default());
            actions.iter().map(short).collect::<Vec<_>>()
        };
        let all: Vec<(u64, String)> = [(4, ""), (3, "forbidden"), (2, "done"), (1, "done")]
            .map(|(id, outcome)| (id, outcome.to_owned()))
            .to_vec();
        assert_eq!(shown(10), all);
        assert_eq!(shown(2), all[..2]);
        let second = &audit.last(3).expect("read")[2];
        assert_eq!((second.status, second.body.as_deref()), (Some(204), Some("{\"to\":\"n2\"}")));
    }
}
