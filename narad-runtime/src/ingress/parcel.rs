//! One accepted record, and how it is kept.
//!
//! It is a record of the segment log whose key is an address in front of the producer's own key;
//! value, time and headers are the producer's:
//!
//! ```text
//! version 1 | topic 8 | route 1 | number of the route 8 | has a key 1 | key
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use narad_core::dispatch::{Route, Waybill};
use narad_core::ids::{Seq, TopicId};

use crate::log::{FormatError, Record};

/// The only version of the address; a later one is refused by this binary.
const VERSION: u8 = 1;
const PARTITION: u8 = 0;
const KEY: u8 = 1;
const ANY: u8 = 2;

/// One record on its way to its partition, under the address that it was accepted with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parcel {
    /// The topic.
    pub topic: TopicId,
    /// Where in the topic.
    pub route: Route,
    /// What the producer wrote.
    pub record: Record,
}

impl Parcel {
    /// Bytes that the address takes beside the record.
    pub const ADDRESS_BYTES: usize = 19;

    /// Returns the bytes that the parcel takes in the ingress log, headers of frames apart.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        self.record.encoded_bytes() + Self::ADDRESS_BYTES
    }

    /// Returns what the core is told of the parcel at a position.
    ///
    /// # Panics
    ///
    /// If the record is of 4 GiB or more; the log refuses such a record first.
    #[must_use]
    pub fn waybill(&self, seq: Seq) -> Waybill {
        let bytes = u32::try_from(self.encoded_bytes());
        let bytes = bytes.expect("the log refuses records above its limit first");
        Waybill { seq, topic: self.topic, route: self.route, bytes }
    }

    /// Makes a record of the segment log; the value's memory is shared.
    pub(super) fn seal(&self) -> Record {
        let key = self.record.key.as_deref();
        let mut address = BytesMut::with_capacity(Self::ADDRESS_BYTES + key.map_or(0, <[u8]>::len));
        let (kind, number) = match self.route {
            Route::Partition(index) => (PARTITION, u64::from(index)),
            Route::Key(hash) => (KEY, hash),
            Route::Any => (ANY, 0),
        };
        address.put_u8(VERSION);
        address.put_u64_le(self.topic.0);
        address.put_u8(kind);
        address.put_u64_le(number);
        address.put_u8(u8::from(key.is_some()));
        address.put_slice(key.unwrap_or_default());
        Record {
            key: Some(address.freeze()),
            value: self.record.value.clone(),
            timestamp_ms: self.record.timestamp_ms,
            headers: self.record.headers.clone(),
        }
    }

    /// Reads a record of the segment log; memory is shared.
    pub(super) fn unseal(sealed: Record) -> Result<Self, FormatError> {
        let mut address = sealed.key.ok_or(FormatError::Value("a missing address"))?;
        match address.first() {
            None => return Err(FormatError::Short),
            Some(&VERSION) => {}
            Some(&found) => {
                let (found, known) = (found.into(), VERSION.into());
                return Err(FormatError::Version { found, known });
            }
        }
        if address.len() < Self::ADDRESS_BYTES {
            return Err(FormatError::Short);
        }
        address.advance(1);
        let topic = TopicId(address.get_u64_le());
        let (kind, number) = (address.get_u8(), address.get_u64_le());
        let route = match (kind, number) {
            (PARTITION, index) => {
                let index = u32::try_from(index);
                Route::Partition(index.map_err(|_| FormatError::Value("a partition's number"))?)
            }
            (KEY, hash) => Route::Key(hash),
            (ANY, 0) => Route::Any,
            _ => return Err(FormatError::Value("a route")),
        };
        let key: Option<Bytes> = match (address.get_u8(), address.is_empty()) {
            (0, true) => None,
            (1, _) => Some(address),
            _ => return Err(FormatError::Value("a key")),
        };
        let Record { value, timestamp_ms, headers, .. } = sealed;
        Ok(Self { topic, route, record: Record { key, value, timestamp_ms, headers } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::any_record;
    use proptest::prelude::*;

    fn any_route() -> impl Strategy<Value = Route> {
        prop_oneof![
            any::<u32>().prop_map(Route::Partition),
            any::<u64>().prop_map(Route::Key),
            Just(Route::Any),
        ]
    }

    proptest! {
        #[test]
        fn a_parcel_comes_back_as_it_was(
            topic in any::<u64>(),
            route in any_route(),
            record in any_record(),
        ) {
            let parcel = Parcel { topic: TopicId(topic), route, record };
            let sealed = parcel.seal();
            prop_assert_eq!(sealed.encoded_bytes(), parcel.encoded_bytes());
            prop_assert_eq!(Parcel::unseal(sealed), Ok(parcel));
        }

        /// What is understood is what it would be written as.
        #[test]
        fn arbitrary_addresses_never_panic(
            version in 0..3_u8,
            bytes in proptest::collection::vec(0..3_u8, 0..30),
        ) {
            let mut address = vec![version];
            address.extend(bytes);
            let sealed = Record { key: Some(address.into()), ..Record::default() };
            if let Ok(parcel) = Parcel::unseal(sealed.clone()) {
                prop_assert_eq!(parcel.seal(), sealed);
            }
        }
    }

    #[test]
    fn a_newer_address_is_named_as_such() {
        let parcel = Parcel { topic: TopicId(1), route: Route::Any, record: Record::default() };
        let mut sealed = parcel.seal();
        let mut address = sealed.key.take().unwrap().to_vec();
        address[0] = 2;
        sealed.key = Some(address.into());
        assert_eq!(Parcel::unseal(sealed), Err(FormatError::Version { found: 2, known: 1 }));
        let plain = Record::default();
        assert_eq!(Parcel::unseal(plain), Err(FormatError::Value("a missing address")));
    }
}
