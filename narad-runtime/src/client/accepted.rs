//! Publishing to any node: whichever accepts a batch first has it on its disk, and brings it to the
//! partitions' owners by itself.

use std::sync::atomic::Ordering;

use axum::http::Method;
use bytes::Bytes;

use super::backoff::Backoff;
use super::producer::{Placement, Producer, Progress};
use super::routes::{Fault, Known};
use super::transport::Request;
use super::{ClientError, Endpoint, encoded};
use crate::service::Accepted;

impl Producer {
    /// Tries until some node accepts the batch or none ever will. Batches of one partition go to the
    /// same node as long as it takes them, so that they are in order.
    pub(super) async fn have_accepted(
        &self,
        placement: Placement,
        body: &Bytes,
        progress: &mut Progress,
    ) -> Result<Endpoint, ClientError> {
        let options = &self.client.shared.options;
        let mut backoff = Backoff::new(options.retry_min, options.retry_max);
        let turn = match placement {
            Placement::Any => self.turn.fetch_add(1, Ordering::Relaxed),
            Placement::Prefer(partition) | Placement::Pinned(partition) => u64::from(partition),
        };
        let mut known = self.learn(0, placement, &mut backoff, progress).await?;
        Self::check(placement, &known)?;
        let path = self.path(placement);
        let mut first = None;
        loop {
            let mut is_missing = false;
            for endpoint in self.nodes(&known, turn) {
                let rerouted = first.get_or_insert_with(|| endpoint.clone()) != &endpoint;
                match self.offer(&endpoint, &path, body, progress).await {
                    Ok(_) => {
                        self.counters.reroutes.fetch_add(u64::from(rerouted), Ordering::Relaxed);
                        return Ok(endpoint);
                    }
                    Err(Fault::Final(error)) => return Err(error),
                    Err(Fault::Missing(error)) => {
                        is_missing = true;
                        progress.last = error.of_node();
                    }
                    Err(Fault::Unknown(error)) => {
                        progress.last = error.of_node();
                        progress.maybe_written = true;
                        self.counters.unknown.fetch_add(1, Ordering::Relaxed);
                        self.client.avoid(&endpoint);
                    }
                    Err(Fault::NodeDown(error) | Fault::Later(error)) => {
                        progress.last = error.of_node();
                        self.client.avoid(&endpoint);
                    }
                    Err(Fault::NotOwner(_)) => {
                        progress.last = format!("{endpoint} accepts for its own partitions only");
                    }
                }
            }
            self.waits.stuck(placement.partition(), &progress.last);
            backoff.pause().await;
            // Nobody took it: look who is there by now, and whether the topic still is.
            match self.client.relearn(&self.topic, known.version).await {
                Ok(fresh) => known = fresh,
                Err(error) if is_missing && !error.is_retryable() => return Err(error),
                Err(error) => progress.last = error.of_node(),
            }
        }
    }

    fn path(&self, placement: Placement) -> String {
        let path = format!("/v1/topics/{}/messages", encoded(&self.topic));
        match placement {
            Placement::Pinned(partition) => format!("{path}?partition={partition}"),
            Placement::Any | Placement::Prefer(_) => path,
        }
    }

    /// Returns the nodes to try, in order: those that own something of the topic in a ring, then the
    /// addresses that were given; those that failed a moment ago come last.
    fn nodes(&self, known: &Known, turn: u64) -> Vec<Endpoint> {
        let routes = &known.detail.routes;
        let mut owners: Vec<(bool, &str)> =
            routes.iter().map(|route| (!route.alive, route.addr.as_str())).collect();
        owners.sort_unstable();
        owners.dedup();
        let alive = owners.iter().filter(|(dead, _)| !dead).count();
        let shift = usize::try_from(turn % alive.max(1) as u64).unwrap_or(0);
        owners[..alive].rotate_left(shift);
        let mut nodes: Vec<Endpoint> =
            owners.into_iter().filter_map(|(_, addr)| addr.parse().ok()).collect();
        for seed in &self.client.shared.seeds {
            if !nodes.contains(seed) {
                nodes.push(seed.clone());
            }
        }
        let avoided = self.client.avoided();
        let (failed, mut first): (Vec<Endpoint>, Vec<Endpoint>) =
            nodes.into_iter().partition(|node| avoided.contains(node));
        first.extend(failed);
        first
    }

    async fn offer(
        &self,
        endpoint: &Endpoint,
        path: &str,
        body: &Bytes,
        progress: &mut Progress,
    ) -> Result<Accepted, Fault> {
        self.begin_attempt(progress);
        let request = Request::new(Method::POST, path).batch(body.clone());
        let timeout = self.client.shared.options.request_timeout;
        progress.asking = true;
        let answer = self.client.ask_owner(endpoint, &request, timeout).await;
        progress.asking = false;
        serde_json::from_slice(&answer?).map_err(|cause| {
            // It said yes, but not to what.
            let endpoint = endpoint.clone();
            Fault::Unknown(ClientError::BadAnswer { endpoint, cause: cause.to_string() })
        })
    }
}
