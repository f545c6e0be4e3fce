//! Where things are under a prefix.

use narad_core::ids::LogIndex;

use crate::error::EtcdError;

/// The keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
}

/// Longest prefix, in bytes.
const PREFIX_BYTES_MAX: usize = 1024;

impl Keys {
    /// Takes a prefix, with or without its last slash.
    pub(crate) fn new(prefix: &str) -> Result<Self, EtcdError> {
        let bare = prefix.trim_end_matches('/');
        let fail = |reason| Err(EtcdError::Prefix { prefix: prefix.to_owned(), reason });
        if bare.is_empty() {
            return fail("it is empty");
        }
        if bare.len() > PREFIX_BYTES_MAX {
            return fail("it is longer than 1,024 bytes");
        }
        if bare.chars().any(char::is_control) {
            return fail("it has a control character");
        }
        Ok(Self { prefix: format!("{bare}/") })
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How far the sequence has come.
    pub(crate) fn head(&self) -> String {
        format!("{}head", self.prefix)
    }

    /// Which snapshot stands for the records that are gone.
    pub(crate) fn base(&self) -> String {
        format!("{}base", self.prefix)
    }

    pub(crate) fn record(&self, index: LogIndex) -> String {
        format!("{}log/{:020}", self.prefix, index.0)
    }

    /// Past the last record that there can be.
    pub(crate) fn records_end(&self) -> String {
        // What follows the digits.
        format!("{}log/:", self.prefix)
    }

    /// Returns which record a key is of, if any.
    pub(crate) fn index_of(&self, key: &[u8]) -> Option<LogIndex> {
        let digits = key.strip_prefix(self.prefix.as_bytes())?.strip_prefix(b"log/")?;
        if digits.len() != 20 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok().map(LogIndex)
    }

    /// Where the parts of all snapshots are.
    pub(crate) fn snapshots(&self) -> String {
        format!("{}snapshot/", self.prefix)
    }

    /// Where the parts of one snapshot are; `tag` names the upload.
    pub(crate) fn snapshot(&self, index: LogIndex, tag: &str) -> String {
        format!("{}snapshot/{:020}-{tag}/", self.prefix, index.0)
    }

    pub(crate) fn assignments(&self) -> String {
        format!("{}assignments/", self.prefix)
    }

    pub(crate) fn assignment(&self, topic: &str, partition: u32) -> String {
        format!("{}assignments/{topic}/{partition}", self.prefix)
    }

    pub(crate) fn members(&self) -> String {
        format!("{}members/", self.prefix)
    }

    pub(crate) fn member(&self, name: &str) -> String {
        format!("{}members/{name}", self.prefix)
    }

    pub(crate) fn topics(&self) -> String {
        format!("{}topics/", self.prefix)
    }

    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}topics/{name}", self.prefix)
    }

    pub(crate) fn leader(&self) -> String {
        format!("{}leader", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prefix is a folder whatever its last character, and one that is none is refused.
    #[test]
    fn a_prefix_is_a_folder() {
        assert_eq!(Keys::new("narad").unwrap(), Keys::new("narad/").unwrap());
        assert_eq!(Keys::new("a/b").unwrap().head(), "a/b/head");
        for bad in ["", "/", "a\nb", &"x".repeat(1025)] {
            assert!(matches!(Keys::new(bad), Err(EtcdError::Prefix { .. })), "{bad:?}");
        }
    }

    /// The order of keys is that of records, and only keys of records have an index.
    #[test]
    fn keys_are_ordered_like_records() {
        let keys = Keys::new("narad").unwrap();
        assert!(keys.record(LogIndex(9)) < keys.record(LogIndex(10)));
        assert!(keys.record(LogIndex(u64::MAX)) < keys.records_end());
        assert_eq!(
            keys.index_of(keys.record(LogIndex(u64::MAX)).as_bytes()),
            Some(LogIndex(u64::MAX))
        );
        for bad in [
            "narad/log/",
            "narad/log/12",
            "narad/log/0000000000000000001x",
            "narad/log/99999999999999999999",
            "narad/log/+0000000000000000001",
            "narad/head",
            "other/log/00000000000000000001",
        ] {
            assert_eq!(keys.index_of(bad.as_bytes()), None, "{bad}");
        }
    }
}
