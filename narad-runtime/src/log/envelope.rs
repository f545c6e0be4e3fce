//! The shell around every small file that Narad keeps beside its segments: a magic, a version, a
//! length and a checksum, so that a torn or foreign file is never taken for content.
//!
//! All numbers are little-endian.

/// Bytes of the shell: magic 4, version 2, zero 2, body length 4, checksum 4.
const SHELL: usize = 16;

/// The highest offset, epoch or life that is believed. Nobody counts as far, and from here on no
/// counter can run out.
pub(crate) const COUNTER_MAX: u64 = u64::MAX >> 1;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Another kind of file.
    #[error("the file is of another kind; it was replaced or renamed by hand")]
    Magic,
    /// A newer writer.
    #[error("version {found} is unknown, this binary reads up to {known}; start the newer binary")]
    Version {
        /// The version in the file.
        found: u16,
        /// The highest version that this binary reads.
        known: u16,
    },
    /// Fewer bytes than announced.
    #[error("the bytes end too early; the file was torn or cut")]
    Short,
    /// More bytes than announced.
    #[error("bytes follow where the content should end; the file was written by something else")]
    Trailing,
    /// The checksum differs.
    #[error("the checksum does not match; the bytes are damaged")]
    Checksum,
    /// A value outside its range.
    #[error("{0} is out of range; the bytes are damaged or from a foreign writer")]
    Value(&'static str),
}

/// Wraps a body.
pub(crate) fn seal(magic: [u8; 4], version: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a side file is far below 4 GiB");
    let mut bytes = Vec::with_capacity(SHELL + body.len());
    bytes.extend_from_slice(&magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&length.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), body);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Checks the shell and returns the body. The version is judged after the checksum, so that a
/// damaged byte is not reported as a newer binary.
pub(crate) fn open(magic: [u8; 4], known: u16, bytes: &[u8]) -> Result<Reader<'_>, FormatError> {
    open_version(magic, known, bytes).map(|(_, body)| body)
}

/// Like [`open`], for a file of which more than one version is read; returns the one that is found.
pub(crate) fn open_version(
    magic: [u8; 4],
    known: u16,
    bytes: &[u8],
) -> Result<(u16, Reader<'_>), FormatError> {
    let mut shell = Reader { rest: bytes };
    if shell.take(4)? != magic {
        return Err(FormatError::Magic);
    }
    let found = u16::from_le_bytes(shell.array()?);
    shell.take(2)?;
    let length = shell.u32()? as usize;
    let checksum = shell.u32()?;
    if shell.rest.len() < length {
        return Err(FormatError::Short);
    }
    if shell.rest.len() > length {
        return Err(FormatError::Trailing);
    }
    if crc32c::crc32c_append(crc32c::crc32c(&bytes[..SHELL - 4]), shell.rest) != checksum {
        return Err(FormatError::Checksum);
    }
    if found == 0 || found > known {
        return Err(FormatError::Version { found, known });
    }
    Ok((found, shell))
}

/// Reads numbers off the front of a slice; never past its end.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(FormatError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads an offset, an epoch, a life: a number that only ever counts up.
    pub(crate) fn counter(&mut self) -> Result<u64, FormatError> {
        let found = self.u64()?;
        if found > COUNTER_MAX { Err(FormatError::Value("a counter")) } else { Ok(found) }
    }

    pub(crate) fn i64(&mut self) -> Result<i64, FormatError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, FormatError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Reads a value that may be absent.
    pub(crate) fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Option<T>, FormatError> {
        match self.u8()? {
            0 => Ok(None),
            1 => value(self).map(Some),
            _ => Err(FormatError::Value("a presence byte")),
        }
    }

    /// Reads a list whose items take at least `item_bytes_min` each, so that a damaged count
    /// reserves no memory.
    pub(crate) fn list<T>(
        &mut self,
        item_bytes_min: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let count = self.u32()? as usize;
        if count.saturating_mul(item_bytes_min) > self.rest.len() {
            return Err(FormatError::Short);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn finish(self) -> Result<(), FormatError> {
        if self.rest.is_empty() { Ok(()) } else { Err(FormatError::Trailing) }
    }
}

/// Appends numbers to a body.
#[derive(Debug, Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u128(&mut self, value: u128) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn option<T>(
        &mut self,
        value: Option<T>,
        put: impl FnOnce(&mut Self, T),
    ) -> &mut Self {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
        self
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) -> &mut Self {
        self.u32(u32::try_from(items.len()).expect("a list in a side file is short"));
        for item in items {
            put(self, item);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAGIC: [u8; 4] = *b"TEST";

    #[test]
    fn a_newer_version_is_named_together_with_the_known_one() {
        let bytes = seal(MAGIC, 9, b"x");
        let found = open(MAGIC, 2, &bytes).expect_err("too new");
        assert_eq!(found, FormatError::Version { found: 9, known: 2 });
        assert!(found.to_string().contains("up to 2"));
    }

    proptest! {
        /// A torn, lengthened or damaged file is never taken for content.
        #[test]
        fn every_single_damage_is_found(
            body in proptest::collection::vec(any::<u8>(), 0..64),
            at in any::<prop::sample::Index>(),
            mask in 1..=255_u8,
        ) {
            let good = seal(MAGIC, 1, &body);
            prop_assert_eq!(open(MAGIC, 1, &good).expect("good").rest, &body[..]);
            let mut damaged = good.clone();
            damaged[at.index(good.len())] ^= mask;
            prop_assert!(open(MAGIC, 1, &damaged).is_err());
            prop_assert!(open(MAGIC, 1, &good[..at.index(good.len())]).is_err());
        }

        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(open(MAGIC, 1, &bytes).is_err());
        }
    }
}
