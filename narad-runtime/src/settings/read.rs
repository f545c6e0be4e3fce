//! Putting the layers on top of each other.

use std::path::{Path, PathBuf};

use narad_core::ids::Name;

use super::keys::{Given, Key, keys};
use super::{Settings, SettingsError};

/// What a configuration is put together from, the strongest last.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    file: Option<(PathBuf, toml::Table)>,
    environment: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl Layers {
    /// Reads the file, if there is to be one.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not TOML.
    pub fn with_file(mut self, path: Option<&Path>) -> Result<Self, SettingsError> {
        /// Longest file that can be a configuration.
        const FILE_BYTES_MAX: u64 = 1 << 20;
        let Some(path) = path else { return Ok(self) };
        let unreadable = |cause: String| SettingsError::Unreadable { path: path.into(), cause };
        let length = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > FILE_BYTES_MAX {
            return Err(unreadable("it is longer than 1 MiB".into()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        self.file = Some((path.into(), parse(path, &text)?));
        Ok(self)
    }

    /// Takes a text as if it were the file `path`.
    ///
    /// # Errors
    ///
    /// If it is not TOML.
    pub fn with_text(mut self, path: &Path, text: &str) -> Result<Self, SettingsError> {
        self.file = Some((path.into(), parse(path, text)?));
        Ok(self)
    }

    /// Takes the variables that name a key; others are left alone.
    #[must_use]
    pub fn with_environment(mut self, all: impl Iterator<Item = (String, String)>) -> Self {
        self.environment = all.filter(|(name, _)| name.starts_with("NARAD_")).collect();
        self
    }

    /// Takes a value from the command line.
    #[must_use]
    pub fn with_flag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.flags.push((key.into(), value.into()));
        self
    }

    /// Returns the settings, checked.
    ///
    /// # Errors
    ///
    /// Names the first key that is unknown or whose value is not allowed, and where it was given.
    ///
    /// # Examples
    ///
    /// A misspelt key is not passed over:
    ///
    /// ```
    /// use std::path::Path;
    /// use narad_runtime::settings::Layers;
    ///
    /// let layers = Layers::default().with_text(Path::new("n.toml"), "[policy]\nlaese = \"5s\"")?;
    /// let error = layers.settings().unwrap_err();
    /// assert!(error.to_string().ends_with("did you mean policy.lease?"));
    /// # Ok::<(), narad_runtime::settings::SettingsError>(())
    /// ```
    pub fn settings(&self) -> Result<Settings, SettingsError> {
        let mut settings = Settings::default();
        if let Some((path, table)) = &self.file {
            let origin = format!("in {}", path.display());
            apply_table(&mut settings, &origin, "", table)?;
        }
        for key in keys() {
            let name = variable(key.path);
            if let Some((_, value)) = self.environment.iter().find(|(known, _)| *known == name) {
                let origin = format!("from {name}");
                apply(&mut settings, &origin, key, &Given::Text(value), value)?;
            }
        }
        for (path, value) in &self.flags {
            let key = known("the command line", path)?;
            apply(&mut settings, "from the command line", key, &Given::Text(value), value)?;
        }
        settings.node.jitter_seed = seed(settings.name.as_ref());
        settings.check()?;
        Ok(settings)
    }
}

/// Returns the environment variable of a key.
pub(super) fn variable(path: &str) -> String {
    format!("NARAD_{}", path.replace('.', "_").to_ascii_uppercase())
}

/// Nodes of different names draw different pauses.
fn seed(name: Option<&Name>) -> u64 {
    name.map_or(0, |name| xxhash_rust::xxh3::xxh3_64(name.as_str().as_bytes()))
}

fn parse(path: &Path, text: &str) -> Result<toml::Table, SettingsError> {
    text.parse().map_err(|cause: toml::de::Error| {
        // The message has lines that point into the file; one line is enough here.
        let (line, message) = (line_of(text, cause.span()), cause.message());
        SettingsError::NotToml { path: path.into(), cause: format!("line {line}: {message}") }
    })
}

fn line_of(text: &str, span: Option<std::ops::Range<usize>>) -> usize {
    let upto = span.map_or(0, |span| span.start).min(text.len());
    text.bytes().take(upto).filter(|&byte| byte == b'\n').count() + 1
}

fn apply_table(
    settings: &mut Settings,
    origin: &str,
    section: &str,
    table: &toml::Table,
) -> Result<(), SettingsError> {
    for (name, value) in table {
        let path = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let is_section =
            |key: &Key| key.path.split_once('.').is_some_and(|(known, _)| known == path);
        match value {
            toml::Value::Table(inner) if keys().any(is_section) => {
                apply_table(settings, origin, &path, inner)?;
            }
            value => {
                let key = known(origin.trim_start_matches("in "), &path)?;
                apply(settings, origin, key, &Given::Toml(value), &value.to_string())?;
            }
        }
    }
    Ok(())
}

fn apply(
    settings: &mut Settings,
    origin: &str,
    key: &Key,
    given: &Given<'_>,
    value: &str,
) -> Result<(), SettingsError> {
    key.set(settings, given).map_err(|allowed| SettingsError::BadValue {
        origin: origin.into(),
        key: key.path.into(),
        value: value.into(),
        allowed,
    })
}

fn known(origin: &str, path: &str) -> Result<&'static Key, SettingsError> {
    keys().find(|key| key.path == path).ok_or_else(|| SettingsError::UnknownKey {
        origin: origin.into(),
        key: path.into(),
        suggestion: similar(path),
    })
}

/// Returns the key that a misspelt one most likely means: by its whole path, or by its last part if
/// that stands in the wrong section.
fn similar(path: &str) -> Option<String> {
    /// Below this, a suggestion is noise.
    const LIKENESS_MIN: f64 = 0.8;
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
    let given = path.rsplit('.').next().unwrap_or(path);
    let likeness = |key: &Key| {
        strsim::jaro_winkler(path, key.path).max(strsim::jaro_winkler(given, last(key.path)) - 0.01)
    };
    let best = keys().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= LIKENESS_MIN).then(|| best.path.to_owned())
}
