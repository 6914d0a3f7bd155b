//! What a zip archive holds, as a jar or a wheel, without the times of its files: two builds of the same sources differ by these.

/// The head of each entry of the directory at the end, of the end itself, and of a file.
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const FILE: &[u8] = b"PK\x03\x04";

/// What Maven writes about an artifact, with the time.
pub(super) const NOTE: &[u8] = b"/pom.properties";

/// Bytes of these heads without names and comments.
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;
const FILE_BYTES: usize = 30;

/// Names and packed bytes of all that an archive holds, in its order. `None` if it is none, or a larger one than 32 bits tell.
pub(super) fn held(bytes: &[u8]) -> Option<Vec<u8>> {
    if !bytes.starts_with(FILE) {
        return None;
    }
    let end = bytes.windows(END.len()).rposition(|window| window == END)?;
    let end = bytes.get(end..end + END_BYTES)?;
    let (entries, mut at) = (short(end, 10)?, long(end, 16)?);
    let mut all = Vec::new();
    for _ in 0..entries {
        let entry = bytes.get(at..)?.strip_prefix(ENTRY)?;
        // Their places as counted from the head, which is gone.
        let of = |place: usize| place - ENTRY.len();
        let (packed, name) = (long(entry, of(20))?, short(entry, of(28))?);
        let beyond = short(entry, of(30))? + short(entry, of(32))?;
        let file = bytes.get(long(entry, of(42))?..)?;
        file.strip_prefix(FILE)?;
        let data = FILE_BYTES + short(file, 26)? + short(file, 28)?;
        let (named, data) = (
            entry.get(of(ENTRY_BYTES)..of(ENTRY_BYTES) + name)?,
            file.get(data..data.checked_add(packed)?)?,
        );
        if !named.ends_with(NOTE) {
            all.extend_from_slice(named);
            all.extend_from_slice(format!(" {packed}\n").as_bytes());
            all.extend_from_slice(data);
        }
        at += ENTRY_BYTES + name + beyond;
    }
    Some(all)
}

fn short(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn long(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::held;

    /// An archive of files that are stored as they are.
    fn archive(files: &[(&str, &str)], time: u16) -> Vec<u8> {
        let (mut all, mut directory) = (Vec::new(), Vec::new());
        for (name, text) in files {
            let at = all.len() as u32;
            let size = text.len() as u32;
            let head = |version: &[u16]| -> Vec<u8> {
                let words = [version, &[10, 0, 0, time, time]].concat();
                let mut head: Vec<u8> = words.into_iter().flat_map(u16::to_le_bytes).collect();
                head.extend([0, size, size].into_iter().flat_map(u32::to_le_bytes));
                head.extend([name.len() as u16, 0].into_iter().flat_map(u16::to_le_bytes));
                head
            };
            all.extend([b"PK\x03\x04", &head(&[])[..], name.as_bytes(), text.as_bytes()].concat());
            let place = at.to_le_bytes();
            let entry = [b"PK\x01\x02", &head(&[10])[..], &[0; 10], &place, name.as_bytes()];
            directory.extend(entry.concat());
        }
        let at = (all.len() as u32).to_le_bytes();
        let size = (directory.len() as u32).to_le_bytes();
        let n = (files.len() as u16).to_le_bytes();
        all.extend(directory);
        all.extend([b"PK\x05\x06", &[0; 4][..], &n, &n, &size, &at, &[0, 0]].concat());
        all
    }

    #[test]
    fn the_times_of_an_archives_files_do_not_count_but_their_names_and_bytes_do() {
        let files = [("org/A.class", "code of A"), ("MANIFEST", "main: A")];
        let held_of = |files: &[(&str, &str)], time| held(&archive(files, time)).unwrap();
        let first = held_of(&files, 1);
        assert_eq!(first, held_of(&files, 2));
        assert_ne!(first, held_of(&[("org/A.class", "code of B"), files[1]], 1));
        assert_ne!(first, held_of(&[("org/B.class", "code of A"), files[1]], 1));
        assert_ne!(first, held_of(&files[..1], 1));
        let noted = |text| held_of(&[files[0], ("META-INF/maven/a/b/pom.properties", text)], 1);
        assert_eq!(noted("#Monday"), noted("#Tuesday, built again"));
    }

    #[test]
    fn what_is_cut_or_no_archive_is_none() {
        let whole = archive(&[("a", "text")], 1);
        assert!((0..whole.len()).all(|end| held(&whole[..end]).is_none()));
        assert_eq!(held(b"no archive"), None);
    }
}
