//! Addresses of nodes.

use std::fmt;
use std::str::FromStr;

use axum::http::uri::Authority;

/// Where one node serves HTTP, with TLS or without: all nodes of a cluster have it, or none, so that
/// two that only differ in that are the same.
#[derive(Clone)]
pub struct Endpoint {
    authority: Authority,
    is_secret: bool,
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        self.authority == other.authority
    }
}

impl Eq for Endpoint {}

/// Why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of a node: {cause}; write http://HOST:PORT or https://HOST:PORT")]
pub struct EndpointError {
    text: String,
    cause: &'static str,
}

impl Endpoint {
    /// Returns the address of a resource there.
    pub(super) fn url(&self, scheme: &str, path_and_query: &str) -> String {
        format!("{scheme}://{}{path_and_query}", self.authority)
    }

    /// Whether it was given with https.
    pub(super) const fn is_secret(&self) -> bool {
        self.is_secret
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Takes `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let refuse = |cause| EndpointError { text: text.into(), cause };
        let bare = text.trim();
        let (is_secret, bare) = match bare.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(refuse("only http and https are known")),
            None => (false, bare),
        };
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let authority: Authority = bare.parse().map_err(|_| refuse("it has no host and port"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("nodes know no users"));
        }
        match authority.port_u16() {
            Some(1..) => Ok(Self { authority, is_secret }),
            Some(0) | None => Err(refuse("it has no port")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.authority, f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.authority, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_scheme() {
        for text in ["http://127.0.0.1:7401", "127.0.0.1:7401", " http://127.0.0.1:7401/ "] {
            assert_eq!(text.parse::<Endpoint>().expect("an address").to_string(), "127.0.0.1:7401");
        }
        let v6: Endpoint = "https://[::1]:1".parse().expect("v6");
        assert!(v6.is_secret());
        assert_eq!(v6.url("https", "/x"), "https://[::1]:1/x");
    }

    #[test]
    fn what_is_no_address_says_how_to_write_one() {
        for text in ["", "narad-1", "https://a", "ftp://a:1", "a:1/b", "a:0", "u@a:1", "a:70000"] {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains("write http://HOST:PORT"), "{error}");
        }
    }
}
