//! Asking whoever owns a partition at the moment.

use std::time::Duration;

use bytes::Bytes;

use super::backoff::Backoff;
use super::routes::Fault;
use super::transport::Request;
use super::{Client, ClientError, Endpoint, Tried};

/// Why the owner of a partition gave no result.
pub(super) struct Trouble {
    pub(super) error: ClientError,
    /// Whether asking again may help.
    pub(super) passes: bool,
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Final(error) => Self { error, passes: false },
            Fault::Later(error)
            | Fault::NodeDown(error)
            | Fault::Unknown(error)
            | Fault::Missing(error) => Self { error, passes: true },
            Fault::NotOwner(endpoint) => {
                let tried = endpoint.into_iter().map(|endpoint| Tried {
                    endpoint,
                    cause: "named as the owner, but not asked".into(),
                });
                Self { error: ClientError::Unreachable { tried: tried.collect() }, passes: true }
            }
        }
    }
}

/// The owner of one partition, whoever that is at the moment.
pub(super) struct Owner<'a> {
    client: &'a Client,
    topic: &'a str,
    partition: u32,
    /// What an answer named; asked before what the routes say.
    named: Option<Endpoint>,
    /// The version of the routes that turned out wrong.
    seen: u64,
    wrong: bool,
    backoff: Backoff,
}

impl<'a> Owner<'a> {
    /// Most nodes that one after the other send a request on.
    pub(super) const HOPS_MAX: u32 = 4;

    pub(super) fn new(client: &'a Client, topic: &'a str, partition: u32) -> Self {
        let options = &client.shared.options;
        let backoff = Backoff::new(options.retry_min, options.retry_max);
        Self { client, topic, partition, named: None, seen: 0, wrong: false, backoff }
    }

    /// Goes to a node that was named as the owner.
    pub(super) fn follow(&mut self, endpoint: Endpoint) {
        self.named = Some(endpoint);
    }

    /// Notes that whoever was asked is not the owner, and does not know who is.
    pub(super) const fn doubt(&mut self) {
        self.wrong = true;
    }

    pub(super) async fn pause(&mut self) {
        self.backoff.pause().await;
    }

    pub(super) fn rested(&mut self) {
        self.backoff.reset();
    }

    /// Asks the owner once, following those who know better.
    pub(super) async fn ask(
        &mut self,
        request: &Request,
        timeout: Duration,
    ) -> Result<(Endpoint, Bytes), Trouble> {
        let mut hops = 0;
        loop {
            let endpoint = match self.named.take() {
                Some(endpoint) => endpoint,
                None => self.by_routes().await?,
            };
            let answer = self.client.ask_owner(&endpoint, request, timeout).await;
            self.wrong = answer.is_err();
            match answer {
                Ok(body) => {
                    if hops > 0 {
                        self.client.learn_owner(self.topic, self.partition, &endpoint);
                    }
                    return Ok((endpoint, body));
                }
                Err(Fault::NotOwner(owner)) => {
                    hops += 1;
                    let owner = owner.filter(|owner| *owner != endpoint && hops <= Self::HOPS_MAX);
                    if owner.is_none() {
                        let error = ClientError::OwnerNotFound { endpoint };
                        return Err(Trouble { error, passes: true });
                    }
                    self.named = owner;
                }
                // The routes decide whether it is gone: a node may not have learned of it yet.
                Err(fault @ Fault::Missing(_)) => {
                    self.by_routes().await?;
                    return Err(fault.into());
                }
                Err(fault) => return Err(fault.of_owner(self.partition).into()),
            }
        }
    }

    async fn by_routes(&mut self) -> Result<Endpoint, Fault> {
        let known = if self.wrong {
            self.client.relearn(self.topic, self.seen).await
        } else {
            self.client.known(self.topic).await
        };
        let known = known.map_err(Fault::of_routes)?;
        self.seen = known.version;
        let route = known.detail.routes.iter().find(|route| route.partition == self.partition);
        let endpoint = route.and_then(|route| route.addr.parse().ok());
        // Without an owner yet, or with one at no address: look again after a pause.
        self.wrong = endpoint.is_none();
        let partition = self.partition;
        endpoint.ok_or(Fault::NodeDown(ClientError::NoOwner { partition }))
    }
}
