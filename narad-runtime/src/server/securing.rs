//! A node's certificate: read before anything listens.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use narad_core::ids::Name;

use super::ServerError;
use crate::settings::Settings;
use crate::tls::{Tls, TlsError, Who};

/// Reads the files, if there is to be TLS, and checks that they are this node's.
pub(super) fn open(settings: &Settings, name: &Name) -> Result<Option<Tls>, ServerError> {
    settings.check_listeners()?;
    let Some(files) = settings.tls.files(name.as_str())? else {
        if settings.insecure {
            tracing::warn!(
                "there is no TLS: whoever reaches this node can read and change all of it"
            );
        }
        return Ok(None);
    };
    let tls = Tls::open_with(files, settings.tls.require_client_certificate)?;
    let certificate = tls.certificate();
    if certificate.subject.who != Who::Node(name.clone()) {
        let (path, name) = (tls.files().cert.clone(), name.to_string());
        return Err(TlsError::OtherName { path, subject: certificate.subject, name }.into());
    }
    warn_of_readers(&tls.files().key);
    let days = certificate.left().as_secs() / 86_400;
    tracing::info!(subject = %certificate.subject, days, "all connections are under TLS");
    Ok(Some(tls))
}

/// A key that everybody on this machine can read is everybody's.
fn warn_of_readers(key: &Path) {
    let mode = std::fs::metadata(key).map(|found| found.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o007 != 0) {
        tracing::warn!(
            key = %key.display(),
            "the private key can be read by everybody on this machine: chmod 600"
        );
    }
}
