//! What whoever asks may do: three roles, each of which may do what the ones before it may.
//!
//! A listener that knows more about whoever asks than the request says, such as one that has checked
//! a client certificate, puts a [`Peer`] into the extensions of each request. A bare `Option<Role>` is
//! taken as well, from listeners that know nothing but that.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::Extensions;
use serde::{Deserialize, Serialize};

/// What whoever asks may do. Ordered: each may do what the lesser ones may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at the cluster, and reads records without taking any.
    Read,
    /// Produces, consumes and acknowledges.
    Write,
    /// Changes the cluster: members, moves, topics, policy, what was lost.
    Admin,
}

impl Role {
    /// All roles, from the least.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// Returns the role's name, as it stands in files, certificates and errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role: it is read, write or admin")]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, UnknownRole> {
        let role = Self::ALL.into_iter().find(|role| role.name() == word);
        role.ok_or_else(|| UnknownRole(word.to_owned()))
    }
}

/// Whom a listener found at the other end of a connection. It puts this into the extensions of every
/// request of the connection; without a listener that does, nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Whether the connection is encrypted. Then nobody is served for being near.
    pub encrypted: bool,
    /// From where the connection came.
    pub address: Option<IpAddr>,
    /// The name in the client certificate, if one was checked.
    pub certificate: Option<String>,
    /// What that certificate allows, if it names a role. A listener that has checked none leaves it
    /// empty, and then only a token can give one.
    pub role: Option<Role>,
}

impl Peer {
    /// Finds what a listener has said about a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let mut peer = extensions.get::<Self>().cloned().unwrap_or_default();
        let bare = extensions.get::<Option<Role>>().copied();
        if let Some(role) = bare {
            // Who sets this knows of certificates.
            peer = Self { encrypted: true, role: peer.role.max(role), ..peer };
        }
        peer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roles are ordered, and have one name everywhere.
    #[test]
    fn each_role_may_do_what_the_lesser_ones_may() {
        assert!(Role::Read < Role::Write && Role::Write < Role::Admin);
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{role}\""));
        }
        assert_eq!("root".parse::<Role>(), Err(UnknownRole("root".into())));
    }
}
