//! The files that functions are in.

/// Whether a file of this name is the C library, or a part of it.
pub fn is_c_library(object: &str) -> bool {
    let libraries = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"];
    libraries.iter().any(|library| object.starts_with(library))
}
