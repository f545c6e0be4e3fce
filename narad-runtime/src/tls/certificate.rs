//! What a certificate says about its holder.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use narad_core::ids::Name;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::fault::{Fault, What};

/// What all such URIs begin with.
const SCHEME: &str = "narad://";

/// Whose a certificate is: a node or a client of one cluster.
///
/// # Examples
///
/// It is written as a URI:
///
/// ```
/// use narad_runtime::tls::{Subject, Who};
///
/// let subject: Subject = "narad://prod/node/narad-1".parse()?;
/// assert_eq!(subject.cluster.as_str(), "prod");
/// assert!(matches!(&subject.who, Who::Node(name) if name.as_str() == "narad-1"));
/// assert!("narad://prod/node/../narad-1".parse::<Subject>().is_err());
/// # Ok::<(), narad_runtime::tls::SubjectError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The cluster, by the name that its authority was made with.
    pub cluster: Name,
    /// Who in it.
    pub who: Who,
}

/// Who holds a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The node of that name.
    Node(Name),
    /// A client, by what it may do: `read`, `write` or `admin`.
    Role(Name),
}

/// Why a text names nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names nobody: it must be narad://CLUSTER/node/NAME or narad://CLUSTER/role/ROLE")]
pub struct SubjectError {
    text: String,
}

impl Subject {
    /// Checks that this is a node of the same cluster, and returns its name.
    pub(crate) fn admits_node<'a>(&self, other: &'a Self) -> Result<&'a Name, Fault> {
        if other.cluster != self.cluster {
            let (found, ours) = (other.cluster.clone(), self.cluster.clone());
            return Err(Fault::theirs(What::WrongCluster { found, ours }));
        }
        match &other.who {
            Who::Node(name) => Ok(name),
            Who::Role(role) => Err(Fault::theirs(What::NotANode { role: role.clone() })),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match &self.who {
            Who::Node(name) => ("node", name),
            Who::Role(role) => ("role", role),
        };
        write!(f, "{SCHEME}{}/{kind}/{name}", self.cluster)
    }
}

impl FromStr for Subject {
    type Err = SubjectError;

    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let read = || {
            let (cluster, rest) = text.strip_prefix(SCHEME)?.split_once('/')?;
            let (kind, name) = rest.split_once('/')?;
            let (cluster, name) = (Name::new(cluster).ok()?, Name::new(name).ok()?);
            let who = match kind {
                "node" => Who::Node(name),
                "role" => Who::Role(name),
                _ => return None,
            };
            Some(Self { cluster, who })
        };
        read().ok_or_else(|| SubjectError { text: text.chars().take(300).collect() })
    }
}

/// A certificate, as far as it concerns people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is.
    pub subject: Subject,
    /// What people call its holder.
    pub called: Option<String>,
    /// From when on it is valid.
    pub not_before: SystemTime,
    /// How long it is valid.
    pub not_after: SystemTime,
    /// Host names and addresses under which clients may find its holder.
    pub hosts: Vec<String>,
}

impl Certificate {
    /// Reads a certificate in DER, whoever signed it.
    ///
    /// # Errors
    ///
    /// Why it is none of Narad's, for people.
    pub fn of_der(der: &[u8]) -> Result<Self, String> {
        let (_, parsed) =
            X509Certificate::from_der(der).map_err(|_| "it is no X.509 certificate".to_owned())?;
        let (not_before, not_after) = validity(&parsed);
        let (subject, hosts) = names(&parsed)?;
        let common = parsed.subject().iter_common_name().next();
        let called = common.and_then(|name| name.as_str().ok()).map(str::to_owned);
        Ok(Self { subject, called, not_before, not_after, hosts })
    }

    /// Reads the first certificate of a PEM file.
    ///
    /// # Errors
    ///
    /// Why there is none of Narad's, for people.
    pub fn of_pem(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|error| error.to_string())?;
        Self::of_der(&der)
    }

    /// Returns how long it is valid from now on; zero if it is not any more.
    pub fn left(&self) -> Duration {
        self.not_after.duration_since(SystemTime::now()).unwrap_or_default()
    }
}

/// From when and until when a certificate is valid.
pub(super) fn validity(parsed: &X509Certificate<'_>) -> (SystemTime, SystemTime) {
    let time = |timestamp: i64| match u64::try_from(timestamp) {
        Ok(after) => SystemTime::UNIX_EPOCH + Duration::from_secs(after),
        Err(_) => SystemTime::UNIX_EPOCH,
    };
    let validity = parsed.validity();
    (time(validity.not_before.timestamp()), time(validity.not_after.timestamp()))
}

/// Whose it is, and under which hosts it can be found. A certificate that names several is refused:
/// which of them is meant would be for its holder to say.
fn names(parsed: &X509Certificate<'_>) -> Result<(Subject, Vec<String>), String> {
    let extension = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
    let names = extension.map_or(&[][..], |extension| &extension.value.general_names);
    let (mut subjects, mut hosts) = (Vec::new(), Vec::new());
    for name in names {
        match name {
            GeneralName::URI(uri) if uri.starts_with(SCHEME) => {
                subjects.push(uri.parse().map_err(|error: SubjectError| error.to_string())?);
            }
            GeneralName::DNSName(name) => hosts.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => hosts.extend(address(bytes)),
            _ => {}
        }
    }
    let subject = subjects.pop();
    match subject {
        Some(subject) if subjects.is_empty() => Ok((subject, hosts)),
        Some(_) => Err("it names several holders".to_owned()),
        None => Err("it has no narad:// URI among its alternative names".to_owned()),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    use std::net::IpAddr;
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or(v6).ok().map(|address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No string of a certificate can name a path or hide another one.
    #[test]
    fn what_names_nobody_is_refused() {
        let nobody = [
            "",
            "narad://",
            "narad://c",
            "narad://c/node",
            "narad://c/node/",
            "narad:///node/n",
            "narad://c/node/a/b",
            "narad://c/node/..",
            "narad://c/node/a\0b",
            "narad://c/king/n",
            "NARAD://c/node/n",
            "https://c/node/n",
            "narad://../node/n",
        ];
        for text in nobody {
            assert!(text.parse::<Subject>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_subject_is_read_as_it_is_written() {
        for text in ["narad://c/node/n-1", "narad://prod.eu/role/admin"] {
            assert_eq!(text.parse::<Subject>().expect("a subject").to_string(), text);
        }
    }
}
