//! What can go wrong between Narad and etcd.

use narad_core::ids::LogIndex;
use tonic::Code;

/// Why etcd could not be used, or not be believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EtcdError {
    /// The prefix is none.
    #[error("{prefix:?} is no prefix of keys: {reason}; use something like \"narad/production\"")]
    Prefix {
        /// What was given.
        prefix: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An endpoint, or an option of the connection, is unusable.
    #[error(
        "the connection to etcd cannot be set up: {reason}; an endpoint looks like http://10.0.0.1:2379"
    )]
    Options {
        /// What is wrong.
        reason: String,
    },
    /// No answer, or one of a server that cannot say: whatever was asked for may have happened.
    #[error("etcd does not answer: {reason}; see that its members run and can be reached")]
    Unreachable {
        /// What came instead.
        reason: String,
    },
    /// The user may not do this, or is not known.
    #[error(
        "etcd refuses this user: {reason}; check name and password, and grant it reading and writing of the prefix"
    )]
    Refused {
        /// What etcd says.
        reason: String,
    },
    /// etcd takes nothing more at the moment.
    #[error(
        "etcd has no room: {reason}; compact and defragment it, disarm its alarm, and have it compact by itself (--auto-compaction-retention)"
    )]
    Full {
        /// What etcd says.
        reason: String,
    },
    /// etcd does not take something this large.
    #[error(
        "etcd does not take a request of this size: {reason}; run it with its defaults of --max-request-bytes and --max-txn-ops, or larger ones"
    )]
    TooLarge {
        /// What etcd says.
        reason: String,
    },
    /// A key under the prefix holds what Narad has not written, or a newer version of it.
    #[error(
        "{key} in etcd holds what this build does not understand: {reason}; another program writes under this prefix, or a newer Narad does"
    )]
    Foreign {
        /// The key.
        key: String,
        /// What is wrong with its value.
        reason: String,
    },
    /// Keys under the prefix are missing.
    #[error(
        "{key} is missing in etcd although {why}; somebody has deleted it: restore etcd from a backup, or begin under another prefix"
    )]
    Missing {
        /// The key.
        key: String,
        /// Why it ought to be there.
        why: String,
    },
    /// The sequence has become shorter, or another one.
    #[error(
        "etcd shows {shown} decided records where {known} were decided before: it was restored from an older backup, or its data was lost; nodes that have seen more must not go on with it"
    )]
    WentBack {
        /// How many it shows.
        shown: LogIndex,
        /// How many there were.
        known: LogIndex,
    },
    /// What is needed to start could not be had from the operating system.
    #[error("no random number from the operating system: {reason}")]
    Random {
        /// What it says.
        reason: String,
    },
}

impl EtcdError {
    /// Whether etcd has certainly not done what it was asked for.
    ///
    /// Full is no such word: the transaction that fills etcd up is applied, and answered by it.
    pub(crate) const fn is_certain(&self) -> bool {
        !matches!(self, Self::Unreachable { .. } | Self::Full { .. })
    }

    /// Whether it may pass by itself, soon.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Full { .. })
    }

    /// Takes an error of etcd's client. Whatever is not known to mean that nothing was done is taken
    /// to mean nothing.
    pub(crate) fn from_client(error: &etcd_client::Error) -> Self {
        use etcd_client::Error;
        let status = match error {
            Error::GRpcStatus(status) => status,
            Error::InvalidArgs(reason) | Error::EndpointError(reason) => {
                return Self::Options { reason: reason.clone() };
            }
            Error::InvalidUri(uri) => return Self::Options { reason: uri.to_string() },
            other => return Self::Unreachable { reason: other.to_string() },
        };
        let reason = status.message().to_owned();
        // Only etcd's own words are trusted: the client answers with the same codes.
        let Some(words) = reason.strip_prefix("etcdserver: ") else {
            return match status.code() {
                Code::ResourceExhausted if reason.contains("received message larger than max") => {
                    Self::TooLarge { reason }
                }
                _ => Self::Unreachable { reason: format!("{} ({reason})", status.code()) },
            };
        };
        match status.code() {
            // A token that has run out, or that a restart has forgotten, is refreshed by the client.
            Code::Unauthenticated | Code::PermissionDenied => Self::Refused { reason },
            Code::InvalidArgument | Code::FailedPrecondition
                if words.contains("auth") || words.contains("user") =>
            {
                Self::Refused { reason }
            }
            Code::InvalidArgument if words.contains("too large") || words.contains("too many") => {
                Self::TooLarge { reason }
            }
            Code::ResourceExhausted => Self::Full { reason },
            _ => Self::Unreachable { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: Code, message: &str) -> EtcdError {
        EtcdError::from_client(&etcd_client::Error::GRpcStatus(tonic::Status::new(code, message)))
    }

    /// H2: an error is a promise only if etcd itself says so in words that mean it.
    #[test]
    fn only_what_etcd_says_itself_is_certain() {
        let certain = [
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::Unauthenticated, "etcdserver: invalid auth token"),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
            (Code::FailedPrecondition, "etcdserver: authentication is not enabled"),
            (Code::InvalidArgument, "etcdserver: request is too large"),
            (Code::InvalidArgument, "etcdserver: too many operations in txn request"),
        ];
        for (code, message) in certain {
            assert!(of(code, message).is_certain(), "{message}");
        }
        let open = [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: no leader"),
            // The transaction that exceeds the quota has been applied.
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::Unknown, "transport error"),
            (Code::Cancelled, "operation was canceled"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::OutOfRange, "decoded message length too large"),
            (Code::ResourceExhausted, "a proxy is busy"),
            (Code::PermissionDenied, "a proxy says no"),
        ];
        for (code, message) in open {
            assert!(!of(code, message).is_certain(), "{message}");
        }
    }
}
