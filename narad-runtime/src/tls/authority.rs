//! Making certificates: an authority of a cluster, and what it signs.
//!
//! # Examples
//!
//! An authority signs a node's certificate:
//!
//! ```
//! use narad_core::ids::Name;
//! use narad_runtime::tls::authority::{Authority, Validity};
//! use narad_runtime::tls::{Certificate, Who};
//!
//! let authority = Authority::create(&Name::new("prod")?, Validity::days(3650))?;
//! let node = Who::Node(Name::new("narad-1")?);
//! let issued = authority.issue(&node, "narad-1", &["10.0.0.1".to_owned()], Validity::days(365))?;
//! let read = Certificate::of_pem(issued.cert.as_bytes())?;
//! assert_eq!(read.subject.to_string(), "narad://prod/node/narad-1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use narad_core::ids::Name;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::certificate::{Subject, Who};

/// How far the clock of whoever looks at a new certificate may be behind.
const SKEW: Duration = Duration::from_hours(1);

/// Longest validity, in days: a hundred years.
pub const DAYS_MAX: u32 = 36_500;

/// Why a certificate cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// These files are no authority.
    #[error("this is no authority of Narad: {cause}; `narad cert init` makes one")]
    NotAnAuthority {
        /// What is wrong.
        cause: String,
    },
    /// A host that cannot stand in a certificate.
    #[error("{host:?} is neither a host name nor an IP address")]
    Host {
        /// The host.
        host: String,
    },
    /// The library that makes certificates refuses.
    #[error("the certificate cannot be made: {cause}")]
    Failed {
        /// What it says.
        cause: String,
    },
}

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From when on.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
}

impl Validity {
    /// From about now on, for so many days; no more than [`DAYS_MAX`].
    #[must_use]
    pub fn days(days: u32) -> Self {
        let now = SystemTime::now();
        let days = Duration::from_hours(24 * u64::from(days.min(DAYS_MAX)));
        Self { not_before: now - SKEW, not_after: now + days }
    }
}

/// A certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate; anybody may see it.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("cert", &self.cert).finish_non_exhaustive()
    }
}

/// The authority of one cluster.
#[derive(Debug)]
pub struct Authority {
    cluster: Name,
    own: Issued,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new one.
    ///
    /// # Errors
    ///
    /// See [`AuthorityError`].
    pub fn create(cluster: &Name, validity: Validity) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(validity);
        // Two authorities of one cluster are not to be taken for one another.
        let id = params.key_identifier(&key);
        let id = id.iter().take(4).fold(0_u32, |id, byte| id << 8 | u32::from(*byte));
        params.distinguished_name.push(DnType::OrganizationName, cluster.as_str());
        params.distinguished_name.push(DnType::CommonName, format!("Narad authority {id:08x}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let cert = params.self_signed(&key).map_err(failed)?;
        let own = Issued { cert: cert.pem(), key: key.serialize_pem() };
        Ok(Self { cluster: cluster.clone(), own, issuer: Issuer::new(params, key) })
    }

    /// Takes one from its certificate and its key.
    ///
    /// # Errors
    ///
    /// If they are no authority, or do not belong together.
    pub fn of_pem(own: Issued) -> Result<Self, AuthorityError> {
        let refuse = |cause: String| AuthorityError::NotAnAuthority { cause };
        let key = KeyPair::from_pem(&own.key).map_err(|error| refuse(error.to_string()))?;
        let der = CertificateDer::from_pem_slice(own.cert.as_bytes());
        let der = der.map_err(|error| refuse(error.to_string()))?;
        let (_, parsed) = X509Certificate::from_der(&der)
            .map_err(|_| refuse("it is no X.509 certificate".to_owned()))?;
        let organization = parsed.subject().iter_organization().next();
        let cluster = organization.and_then(|name| Name::new(name.as_str().ok()?).ok());
        let cluster =
            cluster.ok_or_else(|| refuse("its organization names no cluster".to_owned()))?;
        if !parsed.is_ca() {
            return Err(refuse("it may not sign certificates".to_owned()));
        }
        if parsed.public_key().subject_public_key.data != key.public_key_raw() {
            return Err(refuse("the key is another one's".to_owned()));
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(failed)?;
        Ok(Self { cluster, own, issuer })
    }

    /// Returns the cluster.
    pub const fn cluster(&self) -> &Name {
        &self.cluster
    }

    /// Returns its own certificate and key.
    pub const fn own(&self) -> &Issued {
        &self.own
    }

    /// Makes a certificate for somebody, whom people call `called`, and who can be found under these
    /// hosts.
    ///
    /// # Errors
    ///
    /// See [`AuthorityError`].
    pub fn issue(
        &self,
        who: &Who,
        called: &str,
        hosts: &[String],
        validity: Validity,
    ) -> Result<Issued, AuthorityError> {
        let subject = Subject { cluster: self.cluster.clone(), who: who.clone() };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(validity);
        params.distinguished_name.push(DnType::OrganizationName, self.cluster.as_str());
        params.distinguished_name.push(DnType::CommonName, called);
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Who::Node(_) = who {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let uri = subject.to_string().try_into().map_err(failed)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        for host in hosts {
            params.subject_alt_names.push(alternative(host)?);
        }
        let cert = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Issued { cert: cert.pem(), key: key.serialize_pem() })
    }
}

/// Checks that a text can stand in a certificate as a host.
///
/// # Errors
///
/// [`AuthorityError::Host`] if it cannot.
pub fn check_host(host: &str) -> Result<(), AuthorityError> {
    alternative(host).map(drop)
}

fn alternative(host: &str) -> Result<SanType, AuthorityError> {
    let refuse = || AuthorityError::Host { host: host.to_owned() };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    // A name of a whole domain is of use where nodes come and go.
    let plain = host.strip_prefix("*.").unwrap_or(host);
    DnsName::try_from(plain).map_err(|_| refuse())?;
    host.to_owned().try_into().map(SanType::DnsName).map_err(|_| refuse())
}

fn params(validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = validity.not_before.into();
    params.not_after = validity.not_after.into();
    params
}

fn failed(error: rcgen::Error) -> AuthorityError {
    AuthorityError::Failed { cause: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Certificate;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    #[test]
    fn an_authority_is_read_back_and_signs_as_before() {
        let first = Authority::create(&name("c"), Validity::days(10)).expect("made");
        let again = Authority::of_pem(first.own().clone()).expect("read");
        assert_eq!(again.cluster(), first.cluster());
        let role = Who::Role(name("write"));
        let issued = again.issue(&role, "alice", &[], Validity::days(1)).expect("issued");
        let read = Certificate::of_pem(issued.cert.as_bytes()).expect("a certificate");
        assert_eq!(read.subject, Subject { cluster: name("c"), who: role });
        assert_eq!(read.called.as_deref(), Some("alice"));
    }

    #[test]
    fn what_is_no_authority_does_not_sign() {
        let one = Authority::create(&name("c"), Validity::days(10)).expect("made");
        let other = Authority::create(&name("c"), Validity::days(10)).expect("made");
        let mixed = Issued { key: other.own().key.clone(), ..one.own().clone() };
        let node = one.issue(&Who::Node(name("n")), "n", &[], Validity::days(1)).expect("issued");
        let garbage = Issued { cert: "x".to_owned(), key: "y".to_owned() };
        for wrong in [mixed, node, garbage] {
            let refused = Authority::of_pem(wrong).expect_err("no authority");
            assert!(matches!(refused, AuthorityError::NotAnAuthority { .. }), "{refused}");
        }
    }

    #[test]
    fn what_is_no_host_does_not_get_into_a_certificate() {
        for host in ["", "a b", "../x", "a\0b", "http://a", "a:1", "-"] {
            assert!(check_host(host).is_err(), "{host:?}");
        }
        for host in ["localhost", "10.0.0.1", "::1", "narad-1.example.org", "*.narad.svc"] {
            assert!(check_host(host).is_ok(), "{host:?}");
        }
    }
}
