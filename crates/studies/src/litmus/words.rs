//! Words by which a litmus test shows that it is of the Linux kernel's memory model.

use anyhow::{Result, bail};

/// Words of tests that are the kernel's.
const WORDS: [&str; 13] = [
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
    "spin_lock",
];

/// What no rules of knee have. Without a grace period, a reader of RCU orders nothing.
const UNKNOWN: [&str; 3] = ["synchronize_rcu", "srcu_", "smp_mb__after_unlock_lock"];

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
