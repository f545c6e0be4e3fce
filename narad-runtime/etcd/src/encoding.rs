//! What the values of the head, the base and the records look like.

use std::fmt;

use bytes::Bytes;
use narad_core::ids::LogIndex;

/// Names one transaction among all of all nodes: a random number of the writer, and a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u128);

impl Tag {
    /// Returns the tags of a writer, from the first on.
    pub(crate) fn first() -> std::io::Result<Self> {
        let mut writer = [0; 8];
        let mut filled = 0;
        while filled < writer.len() {
            filled += rustix::rand::getrandom(
                &mut writer[filled..],
                rustix::rand::GetRandomFlags::empty(),
            )?;
        }
        Ok(Self(u128::from(u64::from_le_bytes(writer)) << 64))
    }

    pub(crate) const fn next(self) -> Self {
        // The counter stays within its half: nobody makes 2^64 transactions.
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the head says: the last record, and the transaction that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) index: LogIndex,
    pub(crate) tag: Tag,
}

/// Version 1 of everything under the prefix.
const FORMAT: &str = "narad/1";

/// Why a value cannot be read, for [`EtcdError::Foreign`](crate::EtcdError::Foreign).
type Reason = &'static str;

impl Head {
    pub(crate) fn to_value(self) -> String {
        format!("{FORMAT} {} {}", self.index.0, self.tag)
    }

    pub(crate) fn from_value(value: &[u8]) -> Result<Self, Reason> {
        let [index, tag] = words(value)?;
        Ok(Self { index: LogIndex(number(index)?), tag: hex(tag)? })
    }
}

/// What the base says: up to where a snapshot stands for the records, and how to put it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) index: LogIndex,
    pub(crate) tag: Tag,
    /// Its length.
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
}

impl Base {
    pub(crate) fn to_value(self) -> String {
        format!("{FORMAT} {} {} {} {}", self.index.0, self.tag, self.bytes, self.crc32c)
    }

    pub(crate) fn from_value(value: &[u8]) -> Result<Self, Reason> {
        let [index, tag, bytes, crc32c] = words(value)?;
        let crc32c = u32::try_from(number(crc32c)?).map_err(|_| "a number is too large")?;
        Ok(Self { index: LogIndex(number(index)?), tag: hex(tag)?, bytes: number(bytes)?, crc32c })
    }
}

/// One record, as it is kept: a version, the tag, and what was proposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) tag: Tag,
    pub(crate) record: Bytes,
}

const RECORD_VERSION: u8 = 1;

impl Kept {
    pub(crate) fn value(tag: Tag, record: &[u8]) -> Vec<u8> {
        let mut value = Vec::with_capacity(1 + 16 + record.len());
        value.push(RECORD_VERSION);
        value.extend_from_slice(&tag.0.to_be_bytes());
        value.extend_from_slice(record);
        value
    }

    pub(crate) fn from_value(value: &[u8]) -> Result<Self, Reason> {
        let Some((&version, rest)) = value.split_first() else { return Err("it is empty") };
        if version != RECORD_VERSION {
            return Err("it is no record of format 1");
        }
        let Some((tag, record)) = rest.split_first_chunk() else { return Err("it is too short") };
        Ok(Self { tag: Tag(u128::from_be_bytes(*tag)), record: Bytes::copy_from_slice(record) })
    }
}

/// Splits a value of the head or of the base.
fn words<const N: usize>(value: &[u8]) -> Result<[&str; N], Reason> {
    let text = std::str::from_utf8(value).map_err(|_| "it is no text")?;
    let mut words = text.split(' ');
    match words.next() {
        Some(FORMAT) => {}
        Some(other) if other.starts_with("narad/") => return Err("it is of a newer format"),
        _ => return Err("it is not Narad's"),
    }
    let mut taken = [""; N];
    for place in &mut taken {
        *place = words.next().ok_or("it has too few words")?;
    }
    if words.next().is_some() {
        return Err("it has too many words");
    }
    Ok(taken)
}

fn number(word: &str) -> Result<u64, Reason> {
    // `parse` takes a sign.
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("a number has other characters than digits");
    }
    word.parse().map_err(|_| "a number is missing or too large")
}

fn hex(word: &str) -> Result<Tag, Reason> {
    if word.len() != 32 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("a tag is not 32 hexadecimal digits");
    }
    u128::from_str_radix(word, 16).map(Tag).map_err(|_| "a tag is not 32 hexadecimal digits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values that look like Narad's, and are or are not.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        "(narad/1|narad/2|narad) [0-9+]{0,21} [0-9a-f]{31,33}( [0-9]{1,11}){0,3}"
            .prop_map(String::into_bytes)
    }

    fn values() -> impl Strategy<Value = Vec<u8>> {
        let any_bytes = proptest::collection::vec(any::<u8>(), 0..80);
        let record = (any::<u128>(), proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(tag, record)| Kept::value(Tag(tag), &record));
        prop_oneof![any_bytes, text(), record]
    }

    proptest! {
        /// What anybody may have written is read whole or refused, and what is read means the same when
        /// it is written again.
        #[test]
        fn whatever_is_read_is_read_again(value in values()) {
            if let Ok(head) = Head::from_value(&value) {
                prop_assert_eq!(Head::from_value(head.to_value().as_bytes()), Ok(head));
            }
            if let Ok(base) = Base::from_value(&value) {
                prop_assert_eq!(Base::from_value(base.to_value().as_bytes()), Ok(base));
            }
            if let Ok(kept) = Kept::from_value(&value) {
                prop_assert_eq!(Kept::value(kept.tag, &kept.record), value);
            }
        }

        /// Every head, base and record comes back.
        #[test]
        fn all_values_are_read_back(
            (index, tag, bytes, crc32c) in any::<(u64, u128, u64, u32)>(),
        ) {
            let (index, tag) = (LogIndex(index), Tag(tag));
            let head = Head { index, tag };
            prop_assert_eq!(Head::from_value(head.to_value().as_bytes()), Ok(head));
            let base = Base { index, tag, bytes, crc32c };
            prop_assert_eq!(Base::from_value(base.to_value().as_bytes()), Ok(base));
        }
    }

    /// What is written is read back.
    #[test]
    fn values_are_read_back() {
        let tag = Tag::first().unwrap().next();
        let head = Head { index: LogIndex(u64::MAX), tag };
        assert_eq!(Head::from_value(head.to_value().as_bytes()), Ok(head));
        let base = Base { index: LogIndex(7), tag, bytes: 9, crc32c: u32::MAX };
        assert_eq!(Base::from_value(base.to_value().as_bytes()), Ok(base));
        let kept = Kept { tag, record: Bytes::from_static(b"\0x") };
        assert_eq!(Kept::from_value(&Kept::value(tag, &kept.record)), Ok(kept));
    }

    /// Strangers' bytes are refused with a reason, whatever they are.
    #[test]
    fn foreign_values_are_refused() {
        let tag = "0123456789abcdef0123456789abcdef";
        let bad: &[String] = &[
            String::new(),
            "17".to_owned(),
            "narad/1".to_owned(),
            format!("narad/1 +7 {tag}"),
            format!("narad/1  {tag}"),
            format!("narad/1 99999999999999999999 {tag}"),
            format!("narad/1 7 {}", &tag[1..]),
            format!("narad/1 7 +{}", &tag[1..]),
            format!("narad/1 7 {tag} 1 1 1"),
            format!("narad/1 7 {tag}\n"),
            format!("narad/1 7 {tag} 9 4294967296"),
        ];
        for value in bad {
            assert!(Head::from_value(value.as_bytes()).is_err(), "{value:?}");
            assert!(Base::from_value(value.as_bytes()).is_err(), "{value:?}");
        }
        let newer = format!("narad/2 7 {tag}");
        assert_eq!(Head::from_value(newer.as_bytes()), Err("it is of a newer format"));
        assert_eq!(Head::from_value(&[0xff, 0xfe]), Err("it is no text"));
        for value in [&b""[..], b"\x01", b"\x01short", b"\x02aaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert!(Kept::from_value(value).is_err(), "{value:?}");
        }
    }
}
