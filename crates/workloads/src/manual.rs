//! Cuts the manual page of a workload, the module doc of its file, out of the source when knee is compiled: the sources
//! themselves would be a hundredth of the binary.

/// How many bytes the lines take that begin with `//!`, up to the first other line.
pub(crate) const fn length(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut end = 0;
    while end + 2 < bytes.len()
        && bytes[end] == b'/'
        && bytes[end + 1] == b'/'
        && bytes[end + 2] == b'!'
    {
        while end < bytes.len() && bytes[end] != b'\n' {
            end += 1;
        }
        if end < bytes.len() {
            end += 1;
        }
    }
    end
}

/// The first `LENGTH` bytes of a source.
pub(crate) const fn beginning<const LENGTH: usize>(source: &str) -> [u8; LENGTH] {
    *source.as_bytes().first_chunk::<LENGTH>().expect("its own length")
}

/// The module doc of a file of this crate, as lines that begin with `//!`.
macro_rules! manual {
    ($file:expr) => {{
        const SOURCE: &str = include_str!($file);
        static MANUAL: [u8; $crate::manual::length(SOURCE)] = $crate::manual::beginning(SOURCE);
        str::from_utf8(&MANUAL).expect("whole lines of a text")
    }};
}

pub(crate) use manual;

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn the_module_doc_ends_with_the_first_other_line() {
        let check = |source: &str, expected: &str| assert_eq!(&source[..length(source)], expected);
        check("//! A.\n//!\n//! B.\n\nuse c;\n", "//! A.\n//!\n//! B.\n");
        check("//! Alone", "//! Alone");
        check("use c;\n//! Later.\n", "");
        check("", "");
        check("//", "");
    }
}
