//! Joining checksums, so that no byte is gone over twice.
//!
//! A CRC is a polynomial over the field of two elements, modulo a fixed one. To put bytes behind
//! others is to multiply what stands for the first by a power of x, and to add the second. The powers
//! that are squares of each other are in a table, so that any power takes one product for each bit of
//! the length. Polynomials are reflected here: the highest bit is the coefficient of 1.

/// CRC-32C, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial 1.
const ONE: u32 = 1 << 31;

/// x to the power of 8 · 2ⁿ, for every n: what stands for 2ⁿ bytes.
const POWERS: [u32; 64] = powers();

/// Returns the checksum of some bytes and of others behind them, from the checksums of both.
pub(super) fn join(first: u32, second: u32, second_bytes: u64) -> u32 {
    let mut shifted = first;
    let mut left = second_bytes;
    while left > 0 {
        let bit = left.trailing_zeros();
        shifted = product(POWERS[bit as usize], shifted);
        left &= left - 1;
    }
    shifted ^ second
}

const fn product(mut one: u32, mut other: u32) -> u32 {
    let mut sum = 0;
    while one != 0 {
        // Without branches: nothing predicts the bits.
        sum ^= other & ((one >> 31).wrapping_neg());
        other = (other >> 1) ^ (POLYNOMIAL & (other & 1).wrapping_neg());
        one <<= 1;
    }
    sum
}

const fn powers() -> [u32; 64] {
    let mut powers = [0; 64];
    // x to the power of 8.
    let mut power = ONE >> 8;
    let mut n = 0;
    while n < powers.len() {
        powers[n] = power;
        power = product(power, power);
        n += 1;
    }
    powers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_checksums_join_to_that_of_both(
            first in proptest::collection::vec(any::<u8>(), 0..300),
            second in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            let joined = join(
                crc32c::crc32c(&first),
                crc32c::crc32c(&second),
                second.len() as u64,
            );
            prop_assert_eq!(joined, crc32c::crc32c(&[first, second].concat()));
        }

        #[test]
        fn any_length_is_as_the_library_has_it(
            first in any::<u32>(),
            second in any::<u32>(),
            bytes in 0..1_usize << 40,
        ) {
            let theirs = crc32c::crc32c_combine(first, second, bytes);
            prop_assert_eq!(join(first, second, bytes as u64), theirs);
        }
    }
}
