//! Exponential times, the same on every computer.

/// A random time with this mean, distributed as the time until the next of independent events. `random` returns a
/// random number below its argument.
///
/// It compares random numbers and takes no logarithm, so that every computer draws the same.
/// Source: J. von Neumann, "Various Techniques Used in Connection With Random Digits", 1951.
pub fn exponential(mean: u64, mut random: impl FnMut(u32) -> u32) -> u64 {
    const ONE: u32 = 1 << 16;
    let mut whole = 0;
    loop {
        let first = random(ONE);
        // A run of falling numbers has an odd length with probability exp(-first).
        let (mut last, mut length) = (first, 1);
        loop {
            let next = random(ONE);
            if next >= last {
                break;
            }
            (last, length) = (next, length + 1);
        }
        if length % 2 == 1 {
            return mean * (whole * u64::from(ONE) + u64::from(first)) / u64::from(ONE);
        }
        whole += 1;
    }
}
