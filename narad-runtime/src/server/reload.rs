//! A configuration that is read again while the node runs.

use super::Server;
use crate::service::{Operate as _, PolicyChange};
use crate::settings::{Change, Effect, Settings, changes};

/// What has become of each change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// What counts from now on.
    pub taken: Vec<Change>,
    /// What the cluster was asked to agree on, and has.
    pub agreed: Vec<Change>,
    /// What it has not, with the reason.
    pub refused: Vec<(Change, String)>,
    /// What counts once the node is started again.
    pub waiting: Vec<Change>,
}

impl Server {
    /// Takes over what has changed in the configuration, as far as that is possible without a restart.
    ///
    /// A changed policy is proposed to the cluster, only in what the file has changed: what operators
    /// have turned since is theirs. Where there is no TLS, the last token goes only with a restart: a file
    /// that is cut short has none either, and without one everybody would be an admin.
    pub async fn reload(&self, before: &Settings, after: &Settings) -> Reloaded {
        let mut done = Reloaded::default();
        let mut policy = Vec::new();
        let tokens = after.auth.tokens.clone();
        let would_open =
            tokens.is_empty() && self.access.has_tokens() && self.service.tls().is_none();
        for change in changes(before, after) {
            match change.effect {
                Effect::Now if would_open && change.key == "auth.tokens" => {
                    done.waiting.push(change);
                }
                Effect::Now => done.taken.push(change),
                Effect::Cluster => policy.push(change),
                Effect::Restart => done.waiting.push(change),
            }
        }
        if !would_open {
            self.access.replace(tokens);
        }
        if before.logging.filter != after.logging.filter
            && let Err(error) = crate::cli::refilter(&after.logging.filter)
        {
            tracing::error!(%error, "the filter of the log stays as it is");
        }
        let change = PolicyChange::between(&before.policy, &after.policy);
        if !change.is_empty() {
            match self.service.change_policy(change).await {
                Ok(_) => done.agreed = policy,
                Err(error) => {
                    let refused = policy.into_iter().map(|change| (change, error.to_string()));
                    done.refused = refused.collect();
                }
            }
        }
        done.tell();
        done
    }
}

impl Reloaded {
    fn tell(&self) {
        let Self { taken, agreed, refused, waiting } = self;
        for change in taken {
            tracing::info!(key = change.key, "read again: {change}");
        }
        for change in agreed {
            tracing::info!(key = change.key, "read again, and the cluster has agreed: {change}");
        }
        for (change, why) in refused {
            tracing::warn!(key = change.key, why, "the cluster has not agreed: {change}");
        }
        for change in waiting {
            tracing::warn!(key = change.key, "this takes a restart: {change}");
        }
        if [taken.len(), agreed.len(), refused.len(), waiting.len()] == [0; 4] {
            tracing::info!("read the configuration again: nothing has changed");
        }
    }
}
