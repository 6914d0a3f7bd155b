//! The BPF programs in this binary, which the build compressed.

use std::io::Read;

use flate2::read::GzDecoder;

/// An object as the compiler wrote it.
pub fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut object = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut object).expect("the build packed it");
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_do_not_say_in_which_folder_they_were_built() {
        for name in ["ledger", "live", "lock_delay"] {
            let path = format!("{}/{name}.bpf.o.gz", env!("OUT_DIR"));
            let object = unpacked(&std::fs::read(&path).unwrap());
            for folder in [env!("CARGO_MANIFEST_DIR"), env!("OUT_DIR")] {
                let is_in = object.windows(folder.len()).any(|part| part == folder.as_bytes());
                assert!(!is_in, "{name}: {folder}: two releases would differ");
            }
        }
    }
}
