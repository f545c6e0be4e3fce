//! Certificates, and where a node may listen without any.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Settings, SettingsError};
use crate::tls::{Files, POLL_INTERVAL};

/// A node's certificate. With one, every connection to it and from it is under TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// A directory as `narad cert` makes it, which has what the following do not name: `ca.crt`,
    /// `NAME.crt` and `NAME.key`. Default none.
    pub dir: Option<PathBuf>,
    /// The authorities that are trusted, PEM. Default none.
    pub ca: Option<PathBuf>,
    /// The node's certificate, PEM. Default none.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM. Default none.
    pub key: Option<PathBuf>,
    /// Whether clients of the API must show a certificate, too. Default false: a token will do.
    pub require_client_certificate: bool,
    /// How often the files are looked at for new ones. Default 10 s.
    pub poll_interval: Duration,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self {
            dir: None,
            ca: None,
            cert: None,
            key: None,
            require_client_certificate: false,
            poll_interval: POLL_INTERVAL,
        }
    }
}

impl TlsSettings {
    /// Whether there is to be TLS.
    pub const fn is_on(&self) -> bool {
        self.dir.is_some() || self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    /// Returns where the files of a node of that name are; `None` without TLS.
    ///
    /// # Errors
    ///
    /// If there is to be TLS, and one of them is not named.
    pub fn files(&self, name: &str) -> Result<Option<Files>, SettingsError> {
        if !self.is_on() {
            return Ok(None);
        }
        let find = |given: &Option<PathBuf>, file: String, key: &'static str| {
            let in_dir = || self.dir.as_deref().map(|dir: &Path| dir.join(file));
            given.clone().or_else(in_dir).ok_or(SettingsError::Missing { key })
        };
        Ok(Some(Files {
            ca: find(&self.ca, "ca.crt".to_owned(), "tls.ca")?,
            cert: find(&self.cert, format!("{name}.crt"), "tls.cert")?,
            key: find(&self.key, format!("{name}.key"), "tls.key")?,
        }))
    }
}

/// What other nodes may take of a node's attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Connections whose handshake is under way; the oldest makes room for a further one. Default 256.
    pub handshakes_max: u32,
    /// How long a handshake may take, TLS included. Default 5 s.
    pub handshake_timeout: Duration,
    /// How long a connection of another node is kept on which nothing is said. Default 5 min.
    pub idle_timeout: Duration,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            handshakes_max: 256,
            handshake_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(5),
        }
    }
}

impl Settings {
    /// Checks that nobody but this machine is served without TLS, unless that was asked for.
    ///
    /// # Errors
    ///
    /// Names the listener, and the three ways out.
    pub fn check_listeners(&self) -> Result<(), SettingsError> {
        if self.insecure || self.tls.is_on() {
            return Ok(());
        }
        let listeners = [("listen.peer", &self.listen.peer), ("listen.http", &self.listen.http)];
        match listeners.into_iter().find(|(_, address)| !is_loopback(address)) {
            Some((key, address)) => Err(SettingsError::Plaintext { key, address: address.clone() }),
            None => Ok(()),
        }
    }
}

/// Whether an address can only be reached from this machine. What a name stands for may change, so
/// that only the one is trusted that cannot.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_served_without_tls() {
        for address in ["127.0.0.1:7400", "127.8.8.8:1", "[::1]:7400", "localhost:7400"] {
            assert!(is_loopback(address), "{address}");
        }
        let wide = ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example.org:1", "narad-1:1"];
        for address in wide {
            assert!(!is_loopback(address), "{address}");
            let mut settings = Settings::default();
            settings.listen.http = address.to_owned();
            let refused = settings.check_listeners().expect_err("refused").to_string();
            assert!(refused.contains("listen.http") && refused.contains("--insecure"), "{refused}");
            settings.insecure = true;
            assert_eq!(settings.check_listeners(), Ok(()));
        }
    }

    #[test]
    fn a_directory_names_what_nothing_else_does() {
        let mut tls = TlsSettings::default();
        assert_eq!(tls.files("n"), Ok(None));
        tls.cert = Some("x.crt".into());
        assert_eq!(tls.files("n"), Err(SettingsError::Missing { key: "tls.ca" }));
        tls.dir = Some("d".into());
        let (ca, key) = ("d/ca.crt".into(), "d/n.key".into());
        assert_eq!(tls.files("n"), Ok(Some(Files { ca, cert: "x.crt".into(), key })));
    }
}
