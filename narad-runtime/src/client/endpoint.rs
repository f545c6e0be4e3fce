//! Addresses of nodes.

use std::fmt;
use std::str::FromStr;

use axum::http::uri::Authority;

/// Where one node serves HTTP.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Authority);

/// Why a text is no [`Endpoint`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address of a node: {cause}; write http://HOST:PORT")]
pub struct EndpointError {
    text: String,
    cause: &'static str,
}

impl Endpoint {
    /// Returns the address of a resource there.
    pub(super) fn url(&self, path_and_query: &str) -> String {
        format!("http://{}{path_and_query}", self.0)
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Takes `http://HOST:PORT` or `HOST:PORT`.
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let refuse = |cause| EndpointError { text: text.into(), cause };
        let bare = text.trim();
        let bare = match bare.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(refuse("nodes do not speak TLS")),
            Some(_) => return Err(refuse("only http is known")),
            None => bare,
        };
        let bare = bare.strip_suffix('/').unwrap_or(bare);
        let authority: Authority = bare.parse().map_err(|_| refuse("it has no host and port"))?;
        if authority.as_str().contains('@') {
            return Err(refuse("nodes know no users"));
        }
        match authority.port_u16() {
            Some(1..) => Ok(Self(authority)),
            Some(0) | None => Err(refuse("it has no port")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
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
        assert_eq!("http://[::1]:1".parse::<Endpoint>().expect("v6").url("/x"), "http://[::1]:1/x");
    }

    #[test]
    fn what_is_no_address_says_how_to_write_one() {
        for text in ["", "narad-1", "https://a:1", "ftp://a:1", "a:1/b", "a:0", "u@a:1", "a:70000"]
        {
            let error = text.parse::<Endpoint>().expect_err(text).to_string();
            assert!(error.contains("write http://HOST:PORT"), "{error}");
        }
    }
}
