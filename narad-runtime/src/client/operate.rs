//! What operators ask of a cluster.

use axum::http::Method;
use serde::Serialize;

use super::transport::Request;
use super::{Client, ClientError, Repeat, encoded, json, read_path};
use crate::service::{
    Abort, AuditView, ClusterView, DrainView, ExplainView, HistoryView, NodeView, PlanView,
    PolicyChange, PolicyView, PreflightView, Read, StopView,
};

/// The body of `POST /v1/cluster/decommissions`.
#[derive(Serialize)]
struct Leaving<'a> {
    members: &'a [String],
}

/// The body of `POST /v1/cluster/members/{id}/forget`.
#[derive(Serialize)]
struct Word<'a> {
    receipt: &'a str,
}

/// The body of `PUT /v1/cluster/members/{id}/throttle`.
#[derive(Serialize)]
struct Rate {
    copy_rate_bytes_per_second: u64,
}

impl Client {
    /// Shows the whole cluster on one page.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn status(&self, read: Read) -> Result<ClusterView, ClientError> {
        self.get(&read_path("/v1/cluster/status", read)).await?.parse()
    }

    /// Shows what the node that answers knows of itself.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn node(&self) -> Result<NodeView, ClientError> {
        self.get("/v1/node").await?.parse()
    }

    /// Returns what the last move of a partition was told, one JSON object a line.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn journal(
        &self,
        topic: &str,
        partition: u32,
        read: Read,
    ) -> Result<String, ClientError> {
        let path = format!("/v1/cluster/moves/{}/{partition}/journal", encoded(topic));
        let body = self.get_raw(&read_path(&path, read)).await?;
        // What is no text is replaced, and then no journal for whoever reads it.
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Shows how a member's decommission is coming on.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn drain(&self, member: &str) -> Result<DrainView, ClientError> {
        self.get(&format!("/v1/cluster/members/{}/decommission", encoded(member))).await?.parse()
    }

    /// Shows what would happen if members left together; changes nothing.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn preflight(&self, members: &[String]) -> Result<PreflightView, ClientError> {
        let path = format!("/v1/cluster/preflight?members={}", encoded(&members.join(",")));
        self.get(&path).await?.parse()
    }

    /// Begins the decommission of several members, after one check of all of them together.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]; a 409 has every reason in its body.
    pub async fn decommission_all(&self, members: &[String]) -> Result<PreflightView, ClientError> {
        let request = Request::new(Method::POST, "/v1/cluster/decommissions");
        self.ask(&request.json(json(&Leaving { members })), Repeat::Harmless).await?.parse()
    }

    /// Takes a dead member out for good, with whatever its disk still holds.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn forget(&self, member: &str, receipt: &str) -> Result<(), ClientError> {
        let path = format!("/v1/cluster/members/{}/forget", encoded(member));
        let request = Request::new(Method::POST, &path).json(json(&Word { receipt }));
        self.ask(&request, Repeat::Harmless).await.map(drop)
    }

    /// Gives up the move of a partition.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn abort(&self, topic: &str, partition: u32, how: Abort) -> Result<(), ClientError> {
        let Abort { pin, force } = how;
        let topic = encoded(topic);
        let path = format!("/v1/cluster/moves/{topic}/{partition}?pin={pin}&force={force}");
        self.ask(&Request::new(Method::DELETE, &path), Repeat::Misleading).await.map(drop)
    }

    /// Keeps the planner from a partition, or lets it have it again.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn pin(&self, topic: &str, partition: u32, on: bool) -> Result<(), ClientError> {
        let path = format!("/v1/topics/{}/partitions/{partition}/pin", encoded(topic));
        let method = if on { Method::PUT } else { Method::DELETE };
        self.ask(&Request::new(method, &path), Repeat::Harmless).await.map(drop)
    }

    /// Shows what the whole cluster agrees on.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn policy(&self, read: Read) -> Result<PolicyView, ClientError> {
        self.get(&read_path("/v1/cluster/policy", read)).await?.parse()
    }

    /// Changes what the whole cluster agrees on.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn change_policy(&self, change: &PolicyChange) -> Result<PolicyView, ClientError> {
        let request = Request::new(Method::PATCH, "/v1/cluster/policy").json(json(change));
        self.ask(&request, Repeat::Harmless).await?.parse()
    }

    /// Lets one member copy so many bytes per second until it restarts; `None` is the policy again.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn throttle(&self, member: &str, rate: Option<u64>) -> Result<(), ClientError> {
        let path = format!("/v1/cluster/members/{}/throttle", encoded(member));
        let request = match rate {
            Some(copy_rate_bytes_per_second) => {
                Request::new(Method::PUT, &path).json(json(&Rate { copy_rate_bytes_per_second }))
            }
            None => Request::new(Method::DELETE, &path),
        };
        self.ask(&request, Repeat::Harmless).await.map(drop)
    }

    /// Shows what the planner would do now.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn plan(&self, read: Read) -> Result<PlanView, ClientError> {
        self.get(&read_path("/v1/cluster/plan", read)).await?.parse()
    }

    /// Tells why a partition is where it is.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn explain(&self, topic: &str, partition: u32) -> Result<ExplainView, ClientError> {
        let path = format!("/v1/topics/{}/partitions/{partition}", encoded(topic));
        self.get(&path).await?.parse()
    }

    /// Lists the last moves.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn history(&self, read: Read) -> Result<HistoryView, ClientError> {
        self.get(&read_path("/v1/cluster/history", read)).await?.parse()
    }

    /// Lists the last so many actions that admins asked of the node that answers, up to 1,000.
    ///
    /// # Errors
    ///
    /// See [`ClientError`].
    pub async fn audit(&self, limit: u32) -> Result<AuditView, ClientError> {
        self.get(&format!("/v1/node/audit?limit={limit}")).await?.parse()
    }

    /// Tells whether a member may be stopped now.
    ///
    /// # Errors
    ///
    /// See [`ClientError`]: then it must not be.
    pub async fn safe_to_stop(
        &self,
        member: &str,
        for_good: bool,
    ) -> Result<StopView, ClientError> {
        let member = encoded(member);
        let path = format!("/v1/cluster/members/{member}/safe-to-stop?for_good={for_good}");
        self.get(&path).await?.parse()
    }
}
