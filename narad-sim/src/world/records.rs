//! Records: a content id, and padding.

use narad_runtime::log::Record;

/// Makes a record of so many bytes; its content begins with its id.
pub(crate) fn record(id: u64, bytes: usize, timestamp_ms: i64) -> Record {
    let mut value = vec![0_u8; bytes.max(8)];
    value[..8].copy_from_slice(&id.to_le_bytes());
    // Padding that differs from record to record, so that bytes at a wrong place are seen.
    let mut padding = id.to_le_bytes()[0].wrapping_mul(31).wrapping_add(8);
    for byte in &mut value[8..] {
        *byte = padding;
        padding = padding.wrapping_add(1);
    }
    Record { value: value.into(), timestamp_ms, ..Record::default() }
}

/// Returns the id of a record; zero for one that no producer of this world has made.
pub(crate) fn id_of(record: &Record) -> u64 {
    let bytes = record.value.first_chunk::<8>();
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
