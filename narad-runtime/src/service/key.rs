//! Which partition a key belongs to.

/// Returns the partition that a key belongs to: `xxh3_64(key) mod partitions`, seed 0.
///
/// The same in every version and for every client, so that one key stays in one partition.
///
/// # Panics
///
/// If `partitions` is 0.
///
/// # Examples
///
/// A key keeps its partition:
///
/// ```
/// use narad_runtime::service::partition_of;
///
/// assert_eq!(partition_of(b"customer-7", 12), 8);
/// ```
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    assert!(partitions > 0, "a topic has at least one partition");
    let place = hash_of(key) % u64::from(partitions);
    u32::try_from(place).expect("a remainder is smaller than its 32-bit divisor")
}

/// Returns what places a key among partitions, however many these are.
pub(crate) fn hash_of(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}
