//! Random numbers, the same on every computer.

/// A start state for `below`, never 0. SplitMix64 (Steele, Lea and Flood 2014).
pub fn seeded(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) | 1
}

/// A random number below the bound. Xorshift64* (Vigna 2016).
pub fn below(state: &mut u64, bound: u32) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    let high = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
    ((high * u64::from(bound)) >> 32) as u32
}
