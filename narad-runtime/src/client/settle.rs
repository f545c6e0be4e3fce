//! Acknowledging, handing back and keeping records, wherever their partitions are by now.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Method;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::owner::{Owner, Trouble};
use super::transport::Request;
use super::{Client, ClientError, Endpoint, encoded, json};
use crate::http::json::{HandlesBody, SettledBody, SettledView};
use crate::service::{Settle, Ticket};

impl Client {
    /// How long it is tried.
    const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Acknowledges records that were handed out, hands them back or keeps them, at whoever owns
    /// their partitions by now; the answers are in the order of the tickets.
    ///
    /// # Errors
    ///
    /// If a partition's owner could not be asked within 30 s. What becomes of the records then is not
    /// known; the worst is that they come again.
    pub async fn settle(
        &self,
        topic: &str,
        tickets: impl IntoIterator<Item = Ticket>,
        how: Settle,
    ) -> Result<Vec<SettledView>, ClientError> {
        let mut by_partition: BTreeMap<u32, Vec<(usize, Ticket)>> = BTreeMap::new();
        for (place, ticket) in tickets.into_iter().enumerate() {
            by_partition.entry(ticket.partition).or_default().push((place, ticket));
        }
        let asked = by_partition.into_iter().map(async |(partition, tickets)| {
            let mut answers = Vec::new();
            for some in tickets.chunks(Settle::TICKETS_MAX) {
                answers.extend(self.settle_at_owner(topic, partition, some, how).await?);
            }
            Ok::<_, ClientError>(answers)
        });
        let mut settled = Vec::new();
        for answers in join_all(asked).await {
            settled.extend(answers?);
        }
        settled.sort_unstable_by_key(|(place, _)| *place);
        Ok(settled.into_iter().map(|(_, view)| view).collect())
    }

    async fn settle_at_owner(
        &self,
        topic: &str,
        partition: u32,
        tickets: &[(usize, Ticket)],
        how: Settle,
    ) -> Result<Vec<(usize, SettledView)>, ClientError> {
        let mut owner = Owner::new(self, topic, partition);
        let mut left: Vec<(usize, Ticket)> = tickets.to_vec();
        let mut settled = Vec::new();
        let until = Instant::now() + Self::SETTLE_TIMEOUT;
        let mut hops = 0;
        loop {
            let request = request(topic, &left, how);
            let asked = owner.ask(&request, self.shared.options.request_timeout).await;
            let results = asked.and_then(|(endpoint, body)| {
                let parsed = serde_json::from_slice::<SettledBody>(&body);
                let parsed = parsed.map_err(|cause| cause.to_string()).and_then(|body| {
                    let is_whole = body.results.len() == left.len();
                    is_whole.then_some(body.results).ok_or_else(|| "results are missing".into())
                });
                let bad = |cause| ClientError::BadAnswer { endpoint, cause };
                parsed.map_err(|cause| Trouble { error: bad(cause), passes: false })
            });
            let mut moved: Option<Option<Endpoint>> = None;
            match results {
                Ok(results) => {
                    let is_late = Instant::now() >= until;
                    let mut again = Vec::new();
                    for ((place, ticket), view) in left.into_iter().zip(results) {
                        if matches!(view.code.as_str(), "moved" | "not_owner") {
                            let owner = view.owner.as_ref().and_then(|owner| owner.parse().ok());
                            moved = Some(moved.flatten().or(owner));
                        }
                        // What others have to do first is for the caller to decide.
                        let waits_for_others = view.code == "too_far_ahead";
                        if view.retryable && !waits_for_others && !is_late {
                            again.push((place, ticket));
                        } else {
                            settled.push((place, view));
                        }
                    }
                    left = again;
                }
                Err(Trouble { error, passes }) if !passes || Instant::now() >= until => {
                    return Err(error);
                }
                Err(_) => {}
            }
            if left.is_empty() {
                return Ok(settled);
            }
            match moved {
                Some(Some(endpoint)) if hops < Owner::HOPS_MAX => {
                    hops += 1;
                    owner.follow(endpoint);
                }
                Some(_) => {
                    hops = 0;
                    owner.doubt();
                    owner.pause().await;
                }
                None => owner.pause().await,
            }
        }
    }
}

fn request(topic: &str, tickets: &[(usize, Ticket)], how: Settle) -> Request {
    let ms = |time: Duration| Some(format!("{}ms", time.as_millis()));
    let (what, delay, visibility) = match how {
        Settle::Ack => ("ack", None, None),
        Settle::Nack { delay } => ("nack", ms(delay), None),
        Settle::Extend { visibility } => {
            ("extend", None, ms(visibility.max(Duration::from_millis(1))))
        }
    };
    let handles = tickets.iter().map(|(_, ticket)| ticket.to_string()).collect();
    let path = format!("/v1/topics/{}/{what}", encoded(topic));
    Request::new(Method::POST, &path).json(json(&HandlesBody { handles, delay, visibility }))
}
