//! Why a TLS connection does not stand.

use std::io;

use narad_core::ids::Name;
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error};

use super::certificate::{Certificate, Subject};

/// Why a TLS connection does not stand, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct Fault {
    /// Whether it is the other side that finds fault with this one.
    pub is_told: bool,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with whoever is at the other end; or with this side, if that is what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It shows no certificate.
    NoCertificate,
    /// It shows one that no known authority has signed.
    UnknownAuthority,
    /// Its certificate is not valid any more.
    Expired,
    /// Its certificate is not valid yet.
    NotYetValid,
    /// Its certificate is of another cluster.
    WrongCluster {
        /// The cluster in it.
        found: Name,
        /// This one.
        ours: Name,
    },
    /// Its certificate is another node's.
    WrongNode {
        /// The node in it.
        found: Name,
        /// Who the holder says it is, or who was looked for.
        claimed: Name,
    },
    /// Its certificate is a client's.
    NotANode {
        /// The role in it.
        role: Name,
    },
    /// Its certificate does not name the host that was asked.
    WrongHost,
    /// Its certificate cannot be used here.
    Unusable(String),
    /// One side speaks TLS and the other one does not.
    NotTls,
    /// The connection failed.
    Broken(String),
}

impl Fault {
    pub(crate) const fn theirs(what: What) -> Self {
        Self { is_told: false, what }
    }

    const fn told(what: What) -> Self {
        Self { is_told: true, what }
    }

    /// Takes over what the TLS library says.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::NoCertificatesPresented => Self::theirs(What::NoCertificate),
            Error::InvalidCertificate(error) => Self::theirs(of_certificate(error)),
            Error::AlertReceived(alert) => Self::told(of_alert(*alert)),
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
                Self::theirs(What::NotTls)
            }
            other => Self::theirs(What::Broken(other.to_string())),
        }
    }

    /// Takes over what a connection says, if that is about TLS.
    pub(crate) fn find(error: &io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        Some(Self::of(error))
    }

    pub(super) fn of_io(error: &io::Error) -> Self {
        Self::find(error).unwrap_or_else(|| {
            let text = match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    "the other side ended it during the TLS handshake".to_owned()
                }
                _ => error.to_string(),
            };
            Self::theirs(What::Broken(text))
        })
    }

    /// Whether the other side has refused this one's certificate; it has taken nothing else then.
    #[cfg(feature = "http")]
    pub(crate) const fn is_refusal(&self) -> bool {
        self.is_told && !matches!(self.what, What::Broken(_) | What::NotTls)
    }

    /// Says it in one word, for counting.
    pub const fn word(&self) -> &'static str {
        match &self.what {
            What::NoCertificate => "no_certificate",
            What::UnknownAuthority => "unknown_authority",
            What::Expired => "expired",
            What::NotYetValid => "not_yet_valid",
            What::WrongCluster { .. } => "wrong_cluster",
            What::WrongNode { .. } => "wrong_node",
            What::NotANode { .. } => "not_a_node",
            What::WrongHost => "wrong_host",
            What::Unusable(_) => "unusable_certificate",
            What::NotTls => "not_tls",
            What::Broken(_) => "broken",
        }
    }

    fn text(&self) -> String {
        let (whose, shows) = if self.is_told {
            ("the other side refuses this one, whose certificate", "this side shows")
        } else {
            ("the other side's certificate", "the other side shows")
        };
        match &self.what {
            What::NoCertificate => format!("{shows} no certificate: it needs one of this cluster"),
            What::UnknownAuthority => {
                format!("{whose} is signed by an authority that is not trusted: look at tls.ca")
            }
            What::Expired => {
                format!("{whose} has expired: issue it again with `narad cert issue`")
            }
            What::NotYetValid => format!("{whose} is not valid yet: look at both clocks"),
            What::WrongCluster { found, ours } => {
                format!("{whose} is of cluster {found}, and this one is {ours}")
            }
            What::WrongNode { found, claimed } => {
                format!("{whose} is of node {found}, not of {claimed}")
            }
            What::NotANode { role } => {
                format!("{whose} is a client's (role {role}): nodes need a node's certificate")
            }
            What::WrongHost => format!(
                "{whose} does not name the host that was asked: issue it again with `narad cert \
                 issue --host`"
            ),
            What::Unusable(why) => format!("{whose} cannot be used: {why}"),
            What::NotTls => {
                "one side speaks TLS and the other one does not: set [tls] on both".to_owned()
            }
            What::Broken(why) => why.clone(),
        }
    }
}

/// What the first certificate of a chain says, if there is one.
pub(super) fn subject_of(chain: Option<&[CertificateDer<'_>]>) -> Result<Subject, Fault> {
    let first = chain.and_then(|chain| chain.first());
    let first = first.ok_or(Fault::theirs(What::NoCertificate))?;
    let read = Certificate::of_der(first);
    read.map(|read| read.subject).map_err(|why| Fault::theirs(What::Unusable(why)))
}

fn of_certificate(error: &CertificateError) -> What {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => What::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            What::NotYetValid
        }
        // Another authority of the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => What::UnknownAuthority,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            What::WrongHost
        }
        other => What::Unusable(other.to_string()),
    }
}

fn of_alert(alert: AlertDescription) -> What {
    match alert {
        AlertDescription::CertificateRequired => What::NoCertificate,
        AlertDescription::CertificateExpired => What::Expired,
        AlertDescription::UnknownCA => What::UnknownAuthority,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateRevoked
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => What::Unusable(format!("it says {alert:?}")),
        other => What::Broken(format!("the other side ended the connection: {other:?}")),
    }
}
