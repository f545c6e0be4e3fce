//! How a metastore is set up.

use std::fmt;
use std::time::Duration;

use etcd_client::ConnectOptions;

use crate::error::EtcdError;
use crate::keys::Keys;
use crate::metastore::EtcdMetastore;
use crate::session::Session;

/// Longest wait for the outcome of a proposal or for a barrier, unless told otherwise: 3 s.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Longest wait for one answer of etcd, unless told otherwise: 1 s. What was asked for is asked again
/// after it, as long as [`PATIENCE`] lasts.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Sets up an [`EtcdMetastore`]; see [`EtcdMetastore::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    endpoints: Vec<String>,
    prefix: String,
    options: ConnectOptions,
    request_timeout: Duration,
    patience: Duration,
    writes_rows: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the options: they have a password.
        f.debug_struct("Builder")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("request_timeout", &self.request_timeout)
            .field("patience", &self.patience)
            .field("writes_rows", &self.writes_rows)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(endpoints: Vec<String>) -> Self {
        let options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_secs(2))
            // etcd closes connections that ask more often than every 5 s.
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5))
            .with_keep_alive_while_idle(true)
            // A member that is cut off says so, instead of showing nothing.
            .with_require_leader(true)
            // Tokens run out, and are forgotten when etcd restarts.
            .with_auto_token_refresh(true);
        Self {
            endpoints,
            prefix: "narad".to_owned(),
            options,
            request_timeout: REQUEST_TIMEOUT,
            patience: PATIENCE,
            writes_rows: true,
        }
    }

    /// Sets where the keys of the cluster are: `narad` by default, a last slash makes no difference.
    /// All nodes of a cluster have the same prefix, and no two clusters have; no prefix may lie within
    /// another.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the user of etcd and its password; none by default.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.options = self.options.with_user(name, password);
        self
    }

    /// Alters the options of the connection: TLS (`with_tls`, feature `tls`, with `https` endpoints),
    /// keep-alive and others. What they are beforehand suits most: 2 s to connect, a ping every 10 s, a
    /// leader is required, and tokens are refreshed.
    pub fn options(mut self, alter: impl FnOnce(ConnectOptions) -> ConnectOptions) -> Self {
        self.options = alter(self.options);
        self
    }

    /// Sets the longest wait for one answer; at least 10 ms, [`REQUEST_TIMEOUT`] by default. A shorter
    /// one finds a dead member sooner, and takes a slow one for dead.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout.max(Duration::from_millis(10));
        self
    }

    /// Sets the longest wait for an outcome; at least 10 ms, [`PATIENCE`] by default. A longer one bears
    /// longer outages without an unknown outcome; Narad waits for a few seconds.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience.max(Duration::from_millis(10));
        self
    }

    /// Sets whether rows for people are written, which is so by default: a few more keys in the
    /// transactions, and a copy of the cluster's state in this process. To be set alike on all nodes.
    pub fn writes_rows(mut self, on: bool) -> Self {
        self.writes_rows = on;
        self
    }

    /// Connects, and checks that what is under the prefix can be read. Needs a tokio runtime, in which
    /// the metastore keeps one task until it is dropped.
    ///
    /// # Errors
    ///
    /// If the prefix or the options are unusable, etcd does not answer within the
    /// [patience](Builder::patience), refuses the user, or holds something else under the prefix.
    pub async fn connect(self) -> Result<EtcdMetastore, EtcdError> {
        let keys = Keys::new(&self.prefix)?;
        let Self { endpoints, options, request_timeout, patience, writes_rows, .. } = self;
        let session =
            Session::connect(keys, &endpoints, options, request_timeout, patience).await?;
        EtcdMetastore::over(session, writes_rows).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A password is in no log, whoever prints the builder.
    #[test]
    fn a_password_is_not_printed() {
        let builder = EtcdMetastore::builder(["http://10.0.0.1:2379"]).user("narad", "hunter2");
        let printed = format!("{builder:?}");
        assert!(printed.contains("10.0.0.1") && !printed.contains("hunter2"), "{printed}");
    }
}
