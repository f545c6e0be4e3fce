//! One record, and its bytes inside a frame.
//!
//! ```text
//! timestamp_ms 8 | key length 4 (all ones: no key) | key | value length 4 | value
//! | header count 4 | per header: name length 4 | name | value length 4 | value
//! ```

use bytes::{Buf, Bytes};

use super::envelope::FormatError;

/// Marks an absent key; no key is that long.
const NO_KEY: u32 = u32::MAX;
/// Bytes of a record that has neither key nor value nor headers.
const RECORD_BYTES_MIN: usize = 20;
/// Bytes of an empty header.
const HEADER_BYTES_MIN: usize = 8;

/// What a producer wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Chooses the partition, and keeps related records in order.
    pub key: Option<Bytes>,
    /// The content.
    pub value: Bytes,
    /// When it was produced, in milliseconds of the wall clock since 1970. Retention by age goes
    /// by it, so that a copy does not start a new life (`case_041`).
    pub timestamp_ms: i64,
    /// Names and values beside the content; a name may occur twice.
    pub headers: Vec<(String, Bytes)>,
}

impl Record {
    /// Returns what the record counts against the API's limits: its key, value and headers, in
    /// bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.len() + headers
    }

    /// Returns the bytes that the record takes in a frame.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(n, v)| HEADER_BYTES_MIN + n.len() + v.len());
        let key = self.key.as_ref().map_or(0, Bytes::len);
        RECORD_BYTES_MIN + key + self.value.len() + headers.sum::<usize>()
    }

    /// Appends the record's bytes.
    ///
    /// # Panics
    ///
    /// If a part is 4 GiB or longer; the log refuses such a record first.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp_ms.to_le_bytes());
        match &self.key {
            Some(key) => put(out, key),
            None => out.extend_from_slice(&NO_KEY.to_le_bytes()),
        }
        put(out, &self.value);
        out.extend_from_slice(&length(self.headers.len()).to_le_bytes());
        for (name, value) in &self.headers {
            put(out, name.as_bytes());
            put(out, value);
        }
    }

    /// Takes one record off the front; key and values share the memory of `bytes`.
    pub(crate) fn decode(bytes: &mut Bytes) -> Result<Self, FormatError> {
        if bytes.len() < RECORD_BYTES_MIN {
            return Err(FormatError::Short);
        }
        let timestamp_ms = bytes.get_i64_le();
        let key = match number(bytes)? {
            NO_KEY => None,
            length => Some(take(bytes, length)?),
        };
        let value = part(bytes)?;
        let count = number(bytes)? as usize;
        if count.saturating_mul(HEADER_BYTES_MIN) > bytes.len() {
            return Err(FormatError::Short);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = String::from_utf8(part(bytes)?.to_vec());
            let name = name.map_err(|_| FormatError::Value("a header's name"))?;
            headers.push((name, part(bytes)?));
        }
        Ok(Self { key, value, timestamp_ms, headers })
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&length(bytes.len()).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn length(value: usize) -> u32 {
    u32::try_from(value).expect("the log refuses records above its limit first")
}

fn number(bytes: &mut Bytes) -> Result<u32, FormatError> {
    bytes.try_get_u32_le().map_err(|_| FormatError::Short)
}

fn part(bytes: &mut Bytes) -> Result<Bytes, FormatError> {
    let length = number(bytes)?;
    take(bytes, length)
}

fn take(bytes: &mut Bytes, length: u32) -> Result<Bytes, FormatError> {
    let length = length as usize;
    if length > bytes.len() {
        return Err(FormatError::Short);
    }
    Ok(bytes.split_to(length))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blob(max: usize) -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
    }

    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let headers = proptest::collection::vec(("[a-zé]{0,5}", blob(8)), 0..3);
        (proptest::option::of(blob(9)), blob(40), any::<i64>(), headers).prop_map(
            |(key, value, timestamp_ms, headers)| Record { key, value, timestamp_ms, headers },
        )
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(record in any_record()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), record.encoded_bytes());
            let mut bytes = Bytes::from(bytes);
            prop_assert_eq!(Record::decode(&mut bytes), Ok(record));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Record::decode(&mut Bytes::from(bytes));
        }
    }

    #[test]
    fn a_huge_count_reserves_nothing() {
        let mut bytes = Vec::new();
        Record::default().encode(&mut bytes);
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Record::decode(&mut Bytes::from(bytes)), Err(FormatError::Short));
    }
}
