//! Words by which a litmus test shows that it is of the Linux kernel's memory model.

use anyhow::{Result, bail};

/// Words of tests that are the kernel's.
const WORDS: [&str; 12] = [
    "READ_ONCE",
    "WRITE_ONCE",
    "smp_mb",
    "smp_rmb",
    "smp_wmb",
    "smp_load_acquire",
    "smp_store_release",
    "smp_store_mb",
    "rcu_dereference",
    "rcu_assign_pointer",
    "xchg(",
    "atomic_t",
];

/// What no rules of knee have.
const UNKNOWN: [&str; 7] = [
    "rcu_read_lock",
    "synchronize_rcu",
    "srcu_",
    "spin_lock",
    "spin_trylock",
    "spin_unlock",
    "smp_mb__after_unlock_lock",
];

/// Whether a test is of the kernel's memory model.
///
/// # Errors
/// It is, and has primitives whose rules are not searched.
pub fn is_of_kernel(text: &str) -> Result<bool> {
    if let Some(word) = UNKNOWN.iter().find(|word| text.contains(**word)) {
        bail!("{word}, whose rules are not searched");
    }
    Ok(WORDS.iter().any(|word| text.contains(word)))
}
