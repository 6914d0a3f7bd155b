//! Mixes words into a hash. Every word changes it, zero too: otherwise a step that reads zero
//! would leave the hash alone, and states that differ would be taken for one.

const START: u64 = 0x9E37_79B9_7F4A_7C15;
const FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;

/// The hash after one more word.
#[inline(always)]
pub fn mix(hash: u64, word: u64) -> u64 {
    let sum = (hash.rotate_left(25) ^ word).wrapping_add(START);
    let product = u128::from(sum) * u128::from(FACTOR);
    (product as u64) ^ ((product >> 64) as u64)
}
