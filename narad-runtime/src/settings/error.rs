//! Why a configuration is refused.

use std::path::PathBuf;

use narad_core::config::ConfigError;

use super::keys::keys;

/// Why a configuration is refused; the node has not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: String,
    },
    /// The file is not TOML.
    #[error("the configuration file {} is not TOML: {cause}", path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where it goes wrong.
        cause: String,
    },
    /// A key that there is not.
    #[error("{origin} has an unknown key {key}{}", suggestion.as_ref().map_or_else(String::new, |key| format!("; did you mean {key}?")))]
    UnknownKey {
        /// Where it stands.
        origin: String,
        /// The key.
        key: String,
        /// The key that is most like it, if any is.
        suggestion: Option<String>,
    },
    /// A value that cannot be understood.
    #[error("{key} is {value} ({origin}), but must be {allowed}")]
    BadValue {
        /// Where it stands.
        origin: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A value outside its range.
    #[error("{key} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A value that has no default and was not given.
    #[error("{key} is missing: set it in the file, by --{flag} or by {variable}", flag = key.replace(['.', '_'], "-"), variable = super::read::variable(key))]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// The node listens everywhere, which is no address that others can use.
    #[error(
        "{key} is missing: the node listens on {listen}, where others cannot reach it by that name"
    )]
    NotAdvertised {
        /// The key.
        key: &'static str,
        /// Where it listens.
        listen: String,
    },
    /// The node would serve other machines without TLS.
    #[error(
        "{key} is {address}, where other machines reach it, and there is no TLS: set tls.dir to what \
         `narad cert` makes, listen on 127.0.0.1, or say --insecure (insecure = true) if the network \
         itself keeps everybody else out"
    )]
    Plaintext {
        /// The key.
        key: &'static str,
        /// Where it would listen.
        address: String,
    },
    /// The timing would let two owners write (H9).
    #[error("the timing in [policy] is unsafe: {0}")]
    UnsafeTiming(ConfigError),
}

impl SettingsError {
    /// Takes over what the core says, with the key as it is in the file.
    pub(super) fn from_core(error: ConfigError) -> Self {
        match error {
            ConfigError::OutOfRange { key, value, allowed } => {
                let means = |path: &str| {
                    path.rsplit('.').next() == Some(key) || path.replace('.', "_") == key
                };
                let path = keys().find(|known| means(known.path)).map_or(key, |known| known.path);
                Self::OutOfRange { key: path.into(), value, allowed: allowed.into() }
            }
            ConfigError::UnsafeTiming { .. } => Self::UnsafeTiming(error),
        }
    }
}
