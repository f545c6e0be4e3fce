//! What has changed between two configurations, and when each change counts.

use std::fmt;

use super::{Settings, keys};

/// When a changed key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// At once, on this node.
    Now,
    /// Once the cluster has agreed: the key is one of the whole cluster's.
    Cluster,
    /// When the node is started again.
    Restart,
}

impl Effect {
    /// Returns when a key counts after it was changed.
    pub fn of(path: &str) -> Self {
        match path {
            "auth.tokens" | "logging.filter" => Self::Now,
            _ if path.starts_with("policy.") => Self::Cluster,
            _ => Self::Restart,
        }
    }
}

/// A key that has another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: &'static str,
    /// What it was, as the file has it.
    pub before: String,
    /// What it is now.
    pub after: String,
    /// When it counts.
    pub effect: Effect,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.key, self.before, self.after)
    }
}

/// Returns what has changed, in the order of [`keys`].
pub fn changes(before: &Settings, after: &Settings) -> Vec<Change> {
    let (mut before, mut after) = (before.clone(), after.clone());
    let show = |key: &super::Key, settings: &mut Settings| match key.path {
        // Who they are is in the file; how many there are is enough here.
        "auth.tokens" => format!("{} tokens", settings.auth.tokens.len()),
        _ => key.show(settings).unwrap_or_else(|| "nothing".into()),
    };
    let changed = keys().filter_map(|key| {
        if key.show(&mut before) == key.show(&mut after) {
            return None;
        }
        Some(Change {
            key: key.path,
            before: show(key, &mut before),
            after: show(key, &mut after),
            effect: Effect::of(key.path),
        })
    });
    changed.collect()
}
